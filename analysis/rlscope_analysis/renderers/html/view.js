"use strict";
(async () => {
  const byId = (id) => document.getElementById(id);
  const root = document.documentElement, canvas = byId("lanes"), box = byId("box"), pen = canvas.getContext("2d");
  const STATE = 0, OPERATION = 16, CALL = 32, CUDA = 48, GPU = 64, PATH = 80;
  const HEIGHT = { [STATE]: 11, [OPERATION]: 16, [CALL]: 9, [CUDA]: 9, [GPU]: 16 };
  const AXIS = 24, GAP = 12, MOST_LANES = 64, NARROW = 620, LEAST_NS = 200;
  const ORDER = ["waits", "unknown", "lost", "queue", "cpu"];
  const inOrder = (a, b) => ORDER.indexOf(a) - ORDER.indexOf(b) || (a < b ? -1 : 1);
  const ask = async (what) => {
    const answer = await fetch(what, { cache: "no-store" });
    if (!answer.ok) throw new Error(`${answer.status} ${await answer.text()}`);
    return answer.json();
  };
  const fail = (error) => { byId("title").textContent = "Not connected"; byId("verdict").textContent = `rlscope-trace view has ended, or: ${error.message}`; };
  let whole;
  try { whole = await ask("trace.json"); } catch (error) { fail(error); return; }
  byId("title").textContent = whole.trace;
  byId("verdict").textContent = whole.verdict;
  document.title = `${whole.trace} - rlscope-trace view`;
  byId("losses").textContent = whole.lost.length ? `lost: ${whole.lost.length} ${whole.lost.length === 1 ? "kind" : "kinds"} of record` : "nothing lost";
  byId("losses").classList.add(whole.lost.length ? "bad" : "good");
  byId("losses").hidden = false;
  byId("losses").addEventListener("click", () => { byId("limits").open = true; });
  byId("limits").lastElementChild.append(...[...whole.lost, ...whole.lacks].map((words) => Object.assign(document.createElement("li"), { textContent: words })));
  byId("limits").hidden = !byId("limits").lastElementChild.childElementCount;
  for (const [name, words] of whole.legend) {
    const item = byId("swatch").content.firstElementChild.cloneNode(true);
    item.querySelector("rect").setAttribute("class", name);
    item.append(words);
    byId("legend").append(item);
  }

  let from = 0, to = whole.end, top = 0, width = 0, height = 0, side = 0, total = 0, colours = {};
  let shown = null, queued = false, busy = false, wanted = null, marked = null, band = null;
  const laneOf = new Map();
  let y = 0;
  for (const lane of whole.lanes) {
    lane.rows = [];
    if (lane.key < 0) lane.rows.push(GPU);
    else {
      for (let i = 0; i < lane.operations; i++) lane.rows.push(OPERATION + i);
      lane.rows.push(STATE);
      for (let i = 0; i < lane.calls; i++) lane.rows.push(CALL + i);
      if (lane.launches) lane.rows.push(CUDA);
    }
    lane.place = new Map();
    laneOf.set(lane.key, lane);
  }
  const kindOf = (row) => row & ~15;

  function readColours() {
    const style = getComputedStyle(root);
    colours = {};
    for (const name of ["f0", "f1", "f2", "f3", "f4", "f5", "f6", "fo", "t0", "t1", "t2", "t3", "t4", "t5", "t6", "to", "cpu", "queue", "gpu", "python",
      "native", "other", "copy", "unknown", "lost", "hatch", "hatch-line", "ink", "soft", "line", "back", "card", "path", "path-edge", "accent"]) {
      colours[name] = style.getPropertyValue(`--${name}`).trim();
    }
    const tile = document.createElement("canvas");
    tile.width = tile.height = 6;
    const brush = tile.getContext("2d");
    brush.fillStyle = colours.hatch; brush.fillRect(0, 0, 6, 6);
    brush.strokeStyle = colours["hatch-line"]; brush.lineWidth = 1.3;
    brush.beginPath(); brush.moveTo(-1, 7); brush.lineTo(7, -1); brush.stroke();
    colours.waits = colours.fw = pen.createPattern(tile, "repeat");
    colours.fl = colours.lost;
  }
  function layout() {
    width = box.clientWidth; height = box.clientHeight;
    side = width < NARROW ? 0 : 190;
    y = 0;
    for (const lane of whole.lanes) {
      lane.y = y;
      let at = y + (side ? 0 : 16);
      for (const row of lane.rows) { lane.place.set(row, at); at += HEIGHT[kindOf(row)] + 1; }
      lane.bottom = Math.max(at, y + (side ? 28 : 0));
      y = lane.bottom + GAP;
    }
    total = y;
    const ratio = window.devicePixelRatio || 1;
    canvas.width = Math.round(width * ratio); canvas.height = Math.round(height * ratio);
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  }
  const x = (ns) => side + (ns - from) / (to - from) * (width - side);
  const nsAt = (px) => from + (px - side) / (width - side) * (to - from);
  const yOf = (place) => AXIS + place - top;
  const inSight = () => whole.lanes.filter((lane) => yOf(lane.bottom) > AXIS && yOf(lane.y) < height).slice(0, MOST_LANES);
  function words(ns) {
    for (const [size, unit] of [[1e9, "s"], [1e6, "ms"], [1e3, "us"]]) {
      if (Math.abs(ns) >= size) { const v = ns / size; return `${v.toFixed(v < 10 ? 2 : v < 100 ? 1 : 0)} ${unit}`; }
    }
    return `${Math.round(ns)} ns`;
  }
  const instant = (ns) => `${(ns / 1e9).toFixed(to - from > 1e8 ? 3 : to - from > 1e5 ? 6 : 9)} s`;

  // One request at a time, the newest: what was asked for meanwhile and is out of sight is never sent.
  async function load() {
    wanted = { from: Math.floor(from), to: Math.ceil(to), lanes: inSight().map((lane) => lane.key) };
    if (busy) return;
    busy = true;
    while (wanted) {
      const now = wanted;
      wanted = null;
      try {
        const px = Math.max(1, Math.round(width - side));
        arrange(await ask(`slices.json?from=${now.from}&to=${now.to}&pixels=${px}&lanes=${now.lanes.join(",")}`), now);
      } catch (error) { fail(error); break; }
      draw();
    }
    busy = false;
  }
  function arrange(columns, now) {
    const rows = new Map(), path = [];
    for (let i = 0; i < columns.lane.length; i++) {
      const slice = { lane: columns.lane[i], row: columns.line[i], code: columns.code[i], wide: columns.is_wide[i],
        from: columns.start_ns[i], to: columns.end_ns[i], time: columns.time_ns[i], length: columns.length_ns[i], count: columns.count[i] };
      if (slice.row === PATH) { path.push(slice); continue; }
      const key = `${slice.lane} ${slice.row}`;
      if (!rows.has(key)) rows.set(key, []);
      rows.get(key).push(slice);
    }
    path.sort((a, b) => a.from - b.from);
    shown = { rows, path, ...now };
    box.dataset.slices = String(columns.lane.length);
  }
  function wordOf(slice) {
    switch (kindOf(slice.row)) {
      case STATE: return whole.states[slice.code] || ["unknown", "not measured"];
      case OPERATION: return whole.operations[slice.code] || ["fo", "?"];
      case CALL: return whole.sites[slice.code] || ["other", "a call"];
      case CUDA: return ["gpu", whole.names[slice.code] || "a CUDA call"];
      default: { const name = whole.names[slice.code] || "(name not known)"; return [/^(Memcpy|Memset)/i.test(name) ? "copy" : "gpu", name]; }
    }
  }
  function draw() {
    queued = false;
    pen.clearRect(0, 0, width, height);
    axis();
    pen.save();
    pen.beginPath(); pen.rect(side, AXIS - 2, width - side, height); pen.clip();
    const lanes = inSight();
    if (shown) {
      const scale = (width - side) / (to - from), least = Math.max(1, (shown.to - shown.from) / Math.max(1, width - side));
      for (const lane of lanes) for (const row of lane.rows) drawRow(lane, row, scale, least);
      path();
    }
    if (marked) mark();
    if (band) { pen.fillStyle = colours.accent; pen.globalAlpha = 0.2; pen.fillRect(Math.min(...band), AXIS, Math.abs(band[1] - band[0]), height); pen.globalAlpha = 1; }
    pen.restore();
    names(lanes);
    byId("where").textContent = `${instant(from)} to ${instant(to)}: ${words(to - from)} of ${words(whole.end)}; ${lanes.length} of ${whole.lanes.length} lanes`;
    box.dataset.ready = "yes";
  }
  function axis() {
    const least = (to - from) / Math.max(2, (width - side) / 120);
    let step = 1;
    while (step < least) step *= [2, 2.5, 2][String(step).replace(/[.0]/g, "").startsWith("2") ? 1 : 0];
    for (const [begin, end] of whole.iterations.length > 2000 && to - from > whole.end / 20 ? [] : whole.iterations) {
      if (end < from || begin > to || x(end) - x(begin) < 4) continue;
      pen.fillStyle = colours.soft; pen.globalAlpha = 0.35;
      pen.fillRect(Math.max(x(begin), side) + 1, AXIS - 6, Math.min(x(end), width) - Math.max(x(begin), side) - 2, 3); pen.globalAlpha = 1;
    }
    pen.font = "12px Inter, system-ui, sans-serif"; pen.textBaseline = "middle"; pen.textAlign = "left";
    pen.fillStyle = colours.soft; pen.strokeStyle = colours.line; pen.lineWidth = 1;
    for (let tick = Math.ceil(from / step) * step; tick <= to; tick += step) {
      const px = Math.round(x(tick)) + 0.5, label = step >= 1e9 ? `${(tick / 1e9).toFixed(0)} s` : step >= 1e6 ? `${(tick / 1e9).toFixed(3)} s` : `${(tick / 1e6).toFixed(step >= 1e3 ? 3 : 6)} ms`;
      pen.beginPath(); pen.moveTo(px, AXIS - 6); pen.lineTo(px, height); pen.stroke();
      if (px + 4 + pen.measureText(label).width < width) pen.fillText(label, px + 4, 8);
    }
  }
  function drawRow(lane, row, scale, least) {
    const slices = shown.rows.get(`${lane.key} ${row}`);
    if (!slices) return;
    const at = yOf(lane.place.get(row)), h = HEIGHT[kindOf(row)], narrow = Math.max(1, least * scale);
    let pixel = null, sums = null;
    const flush = () => {
      if (!sums) return;
      let all = 0, place = at;
      for (const time of sums.values()) all += time;
      // What is narrower than a pixel shares it by its time; where little is there it is pale.
      pen.globalAlpha = Math.min(1, 0.35 + all / least);
      for (const name of [...sums.keys()].sort(inOrder)) {
        const part = h * sums.get(name) / all;
        pen.fillStyle = colours[name]; pen.fillRect(pixel, place, narrow, part); place += part;
      }
      pen.globalAlpha = 1; sums = null;
    };
    for (const slice of slices) {
      const left = side + (slice.from - from) * scale, word = wordOf(slice);
      if (slice.wide) {
        flush(); pixel = null;
        const px = Math.max(left, side - 2), w = Math.min(side + (slice.to - from) * scale, width + 2) - px;
        if (w <= 0) continue;
        pen.fillStyle = colours[word[0]]; pen.fillRect(px, at, Math.max(w - (w > 3 ? 0.5 : 0), 0.7), h);
        if (w > 46 && h > 12) label(word, px, w, at + h / 2, slice.length);
      } else {
        if (left !== pixel) { flush(); pixel = left; }
        sums = sums || new Map();
        sums.set(word[0], (sums.get(word[0]) || 0) + Math.max(slice.time, 1e-3));
      }
    }
    flush();
  }
  function label(word, px, w, middle, ns) {
    pen.font = "11px Inter, system-ui, sans-serif"; pen.textBaseline = "middle"; pen.textAlign = "left";
    const both = `${word[1]}  ${words(ns)}`;
    const text = pen.measureText(both).width + 10 < w ? both : word[1];
    if (pen.measureText(text).width + 10 >= w) return;
    pen.fillStyle = colours[word[0].replace(/^f/, "t")] || colours.back;
    pen.fillText(text, px + 5, middle + 0.5);
  }
  function path() {
    const line = (lane) => yOf(lane.bottom) + 4;
    pen.strokeStyle = colours.path; pen.lineWidth = 1; pen.globalAlpha = shown.path.length > 600 ? 0.15 : 0.8;
    pen.beginPath();
    for (let i = 1; i < shown.path.length; i++) {
      const one = shown.path[i - 1], next = shown.path[i];
      if (!one.wide || !next.wide || one.lane === next.lane || Math.abs(one.to - next.from) > 1) continue;
      const px = Math.round(x(next.from)) + 0.5;
      pen.moveTo(px, line(laneOf.get(one.lane))); pen.lineTo(px, line(laneOf.get(next.lane)));
    }
    pen.stroke(); pen.globalAlpha = 1;
    pen.strokeStyle = colours.path; pen.lineWidth = 2.5; pen.beginPath();
    for (const piece of shown.path) {
      const lane = laneOf.get(piece.lane), px = x(piece.from);
      pen.moveTo(px, line(lane)); pen.lineTo(Math.max(piece.wide ? x(piece.to) : px + 1, px + 0.5), line(lane));
    }
    pen.stroke();
  }
  function mark() {
    const lane = laneOf.get(marked.lane);
    if (!lane) return;
    pen.strokeStyle = colours.accent; pen.lineWidth = 2;
    const px = x(marked.from);
    pen.strokeRect(px - 1, yOf(lane.y) - 3, Math.max(3, x(marked.to) - px + 2), lane.bottom - lane.y + 8);
  }
  function fit(text, room) {
    if (pen.measureText(text).width <= room) return text;
    let n = text.length;
    while (n > 1 && pen.measureText(`${text.slice(0, n)}…`).width > room) n--;
    return `${text.slice(0, n)}…`;
  }
  function names(lanes) {
    pen.save();
    pen.beginPath(); pen.rect(0, AXIS, width, height); pen.clip();
    pen.textBaseline = "middle"; pen.textAlign = "left";
    for (const lane of lanes) {
      const at = yOf(lane.y);
      // What tells it from the lanes above comes first: of a thread its own name and number.
      const [who, thread] = lane.name.split(", thread "), [role, pid] = who.split(/ (?=\(pid)/);
      const name = thread || role, rest = thread ? who : pid;
      pen.font = "600 13px Inter, system-ui, sans-serif"; pen.fillStyle = colours.ink;
      if (!side) { pen.fillText(fit(lane.name, width - 4), 0, at + 7); continue; }
      pen.fillText(fit(name, side - 14), 0, at + 7);
      pen.font = "12px Inter, system-ui, sans-serif"; pen.fillStyle = colours.soft;
      if (rest) pen.fillText(fit(rest.replace(/[()]/g, ""), side - 14), 0, at + 21);
    }
    pen.restore();
  }

  const later = () => { if (!queued) { queued = true; requestAnimationFrame(draw); } };
  function show(first, last) {
    const span = Math.min(Math.max(last - first, Math.min(LEAST_NS, whole.end)), whole.end);
    from = Math.min(Math.max(first, 0), whole.end - span); to = from + span;
    later(); load();
  }
  function scroll(by) { top = Math.max(0, Math.min(top + by, total - height + AXIS)); later(); load(); }
  const zoom = (factor, around) => show(around - (around - from) * factor, around + (to - around) * factor);
  const pan = (part) => show(from + part * (to - from), to + part * (to - from));
  function goTo(key, first, last) {
    const lane = laneOf.get(key), span = Math.max((last - first) * 4, Math.min(to - from, whole.end / 20));
    if (lane && (yOf(lane.y) < AXIS || yOf(lane.bottom) > height)) top = Math.max(0, Math.min(lane.y - 40, total - height + AXIS));
    marked = { lane: key, from: first, to: last };
    show((first + last) / 2 - span / 2, (first + last) / 2 + span / 2);
  }
  async function tell(key, ns) {
    let found;
    try { found = await ask(`place.json?lane=${key}&at=${Math.floor(ns)}`); } catch (error) { fail(error); return; }
    const list = document.createElement("dl");
    const add = (what, text) => {
      const head = document.createElement("dt"), body = document.createElement("dd");
      head.textContent = what;
      if (typeof text === "string") body.textContent = text; else body.append(text);
      list.append(head, body);
    };
    add("lane", `${laneOf.get(key).name}, at ${(found.at_ns / 1e9).toFixed(9)} s`);
    for (const one of found.said) add(one.what, `${one.text}: ${words(one.time_ns)}, from ${(one.start_ns / 1e9).toFixed(6)} s`);
    for (const jump of found.jumps) {
      if (jump.lane === null) { add("why", jump.text); continue; }
      const button = document.createElement("button");
      button.type = "button"; button.textContent = jump.text;
      button.addEventListener("click", () => { goTo(jump.lane, jump.at_ns, jump.at_ns + 1); tell(jump.lane, Math.max(0, jump.at_ns - 1)); });
      add("why", button);
    }
    byId("place").replaceChildren(list);
    const state = found.said[0];
    if (state) { marked = { lane: key, from: state.start_ns, to: state.start_ns + state.time_ns }; later(); }
  }
  async function search(which) {
    const text = byId("words").value;
    if (!text) return;
    const here = marked ? marked.from : from - (which === "next" ? 1 : 0);
    let found;
    try { found = await ask(`find.json?words=${encodeURIComponent(text)}&at=${Math.floor(here)}`); } catch (error) { fail(error); return; }
    const hit = found[which];
    byId("hits").textContent = !found.count ? "nothing of that name" : hit ? `${found.before + (which === "next" ? (found.count - found.before > 0 ? 1 : 0) : 0)} of ${found.count}: ${hit.name}, ${words(hit.end_ns - hit.start_ns)}` : `${found.count}, none ${which === "next" ? "after" : "before"} here`;
    if (hit) { goTo(hit.lane, hit.start_ns, hit.end_ns); tell(hit.lane, hit.start_ns); }
  }
  function iteration(by) {
    const middle = (from + to) / 2;
    const next = by > 0 ? whole.iterations.find(([begin]) => begin > middle) : whole.iterations.findLast(([, end]) => end < middle);
    if (next) show(next[0], next[1]);
    else byId("hits").textContent = whole.iterations.length ? `no iteration ${by > 0 ? "after" : "before"} this` : "no iterations were found";
  }
  const keys = {
    ArrowLeft: () => pan(-0.15), ArrowRight: () => pan(0.15), ArrowUp: () => scroll(-60), ArrowDown: () => scroll(60),
    PageUp: () => scroll(-height * 0.8), PageDown: () => scroll(height * 0.8), "+": () => zoom(0.6, (from + to) / 2),
    "=": () => zoom(0.6, (from + to) / 2), "-": () => zoom(1 / 0.6, (from + to) / 2), 0: () => show(0, whole.end),
    Home: () => show(0, to - from), End: () => show(whole.end - (to - from), whole.end), i: () => iteration(1), I: () => iteration(-1),
    "/": () => byId("words").focus(),
  };
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
    event.preventDefault(); keys[event.key]();
  });
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    if (event.ctrlKey) zoom(Math.exp(event.deltaY * 0.003), nsAt(event.clientX - canvas.getBoundingClientRect().left));
    else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan((event.deltaX || event.deltaY) / width);
    else scroll(event.deltaY);
  }, { passive: false });
  let held = null;
  canvas.addEventListener("pointerdown", (event) => {
    const px = event.clientX - canvas.getBoundingClientRect().left;
    held = { x: px, y: event.clientY, began: px, moved: false, part: event.shiftKey };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!held) return;
    const px = event.clientX - canvas.getBoundingClientRect().left;
    if (Math.abs(px - held.began) > 3 || Math.abs(event.clientY - held.y) > 3) held.moved = true;
    if (!held.moved) return;
    if (held.part) { band = [held.began, px]; later(); return; }
    pan((held.x - px) / (width - side)); held.x = px;
    if (event.clientY !== held.y) { scroll(held.y - event.clientY); held.y = event.clientY; }
  });
  canvas.addEventListener("pointercancel", () => { held = band = null; later(); });
  canvas.addEventListener("pointerup", (event) => {
    if (!held) return;
    const done = held, rect = canvas.getBoundingClientRect(), py = event.clientY - rect.top;
    held = null;
    if (band) { const ends = band.map(nsAt).sort((a, b) => a - b); band = null; show(...ends); return; }
    if (done.moved || done.began < side) return;
    const lane = inSight().find((one) => py >= yOf(one.y) - GAP / 2 && py <= yOf(one.bottom) + GAP / 2);
    if (lane) tell(lane.key, Math.min(Math.max(nsAt(done.began), 0), whole.end - 1));
  });
  byId("search").addEventListener("submit", (event) => { event.preventDefault(); search("next"); });
  byId("previous").addEventListener("click", () => search("previous"));
  byId("words").addEventListener("input", () => { marked = null; });
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => root.dataset.theme ? root.dataset.theme === "dark" : dark.matches;
  byId("theme").addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; readColours(); later(); });
  dark.addEventListener("change", () => { readColours(); later(); });
  readColours(); layout(); later(); load();
  new ResizeObserver(() => { if (box.clientWidth !== width || box.clientHeight !== height) { layout(); scroll(0); } }).observe(box);
})();
