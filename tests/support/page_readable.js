// Texts that are cut, overlap or have too little contrast; the body of a function.
const found = [], boxes = [];
const pen = document.createElement("canvas").getContext("2d", {willReadFrequently: true}), known = {};
const rgb = (text) => {
  if (known[text]) return known[text];
  pen.clearRect(0, 0, 1, 1); pen.fillStyle = text; pen.fillRect(0, 0, 1, 1);
  return known[text] = [...pen.getImageData(0, 0, 1, 1).data].map((v) => v / 255);
};
const luminance = (c) => c.slice(0, 3).map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
  .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
const contrast = (a, b) => {
  const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
  return (high + 0.05) / (low + 0.05);
};
// Every colour that a text lies on: hatching has two.
const behind = (element) => {
  if (element.tagName === "text") {
    const rect = element.parentElement.querySelector(":scope > rect");
    const fill = rect && getComputedStyle(rect).fill;
    if (fill && fill.startsWith("url(")) {
      const all = getComputedStyle(document.documentElement);
      return ["--hatch", "--hatch-line"].map((name) => rgb(all.getPropertyValue(name).trim()));
    }
    if (fill) return [rgb(fill)];
  }
  for (let at = element; at; at = at.parentElement) {
    const colour = rgb(getComputedStyle(at).backgroundColor);
    if (colour[3] > 0.99) return [colour];
  }
  return [[1, 1, 1, 1]];
};
for (const element of document.querySelectorAll("h1,h2,h3,p,dt,dd,li,span,b,small,code,text,button,a,summary,td,th,kbd")) {
  const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
  const box = element.getBoundingClientRect();
  if (!own || !box.width || !box.height || !element.checkVisibility()) continue;
  const said = element.textContent.trim().slice(0, 40), style = getComputedStyle(element);
  const ink = rgb(element.tagName === "text" ? style.fill : style.color);
  const ratio = Math.min(...behind(element).map((colour) => contrast(ink, colour)));
  if (ratio < 4.5) found.push(`contrast ${ratio.toFixed(2)}: ${said}`);
  const inScroll = element.closest(".scroll");
  if (!inScroll && (box.right > innerWidth + 0.5 || box.left < -0.5)) found.push(`beyond the page: ${said}`);
  if (style.textOverflow === "ellipsis") { if (!element.title && element.scrollWidth > element.clientWidth) found.push(`cut: ${said}`); }
  else if (element.scrollWidth > element.clientWidth + 1 && style.display !== "inline") {
    found.push(`${style.overflowX === "hidden" ? "cut" : "beyond its place"}: ${said}`);
  }
  if (element.tagName === "text") {
    const around = element.parentElement.closest("svg").getBoundingClientRect();
    const isClipped = getComputedStyle(element.closest("svg")).overflow === "hidden";
    if (isClipped && box.right > around.right + 1) found.push(`cut: ${said}`);
  }
  if (!inScroll && ["text", "B", "DD", "DT", "H2", "H3", "BUTTON", "CODE"].includes(element.tagName)) boxes.push([box, said, element]);
}
for (let i = 0; i < boxes.length; i++) for (let k = i + 1; k < boxes.length; k++) {
  const [a, one, e] = boxes[i], [b, two, f] = boxes[k];
  if (e.contains(f) || f.contains(e)) continue;
  const w = Math.min(a.right, b.right) - Math.max(a.left, b.left), h = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
  if (w > 2 && h > 4) found.push(`overlap: ${one} / ${two}`);
}
if (document.documentElement.scrollWidth > innerWidth) found.push("the page is wider than the window");
return found;
