"use strict";
(() => {
  const root = document.documentElement;
  const byId = (id) => document.getElementById(id);
  const isDark = () => root.dataset.theme ? root.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  const repaints = [];
  const toggle = byId("theme");
  toggle.hidden = false;
  toggle.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    repaints.forEach((repaint) => repaint());
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => repaints.forEach((f) => f()));
  // Paper is light, and nothing on it opens; what is drawn has to be drawn for it.
  let chosen, closed = [];
  const repaintNow = (theme) => {
    if (theme) root.dataset.theme = theme; else delete root.dataset.theme;
    repaints.forEach((repaint) => repaint(true));
  };
  addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("details:not([open])")];
    closed.forEach((one) => { one.open = true; });
    chosen = root.dataset.theme;
    repaintNow("light");
  });
  addEventListener("afterprint", () => {
    closed.forEach((one) => { one.open = false; });
    repaintNow(chosen);
  });

  const data = byId("data");
  if (!data || !window.DecompressionStream) return;
  const packed = Uint8Array.from(atob(data.textContent), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  new Response(stream).arrayBuffer().then(start);

  function start(buffer) {
    const length = new DataView(buffer).getUint32(0, true);
    const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
    const bytes = new Uint8Array(buffer, 4 + length);
    const column = (at, n) => {
      const found = new Int32Array(n);
      for (let part = 0, from = 4 * at; part < 4; part++, from += n) {
        for (let i = 0; i < n; i++) found[i] |= bytes[from + i] << 8 * part;
      }
      return found;
    };
    const interval = (row) => {
      const from = column(row.at, row.n), to = column(row.at + row.n, row.n);
      for (let i = 0, sum = 0; i < row.n; i++) { from[i] = sum += from[i]; to[i] = sum += to[i]; }
      row.from = from; row.to = to;
    };
    for (const view of header.views) {
      for (const lane of view.lanes) {
        for (const row of lane.rows) { interval(row); row.code = column(row.code, row.n); }
      }
      const path = view.path;
      interval(path);
      path.lane = column(path.lane, path.n); path.cause = column(path.cause, path.n);
      const launches = view.launches;
      for (const key of ["from", "call", "to", "start"]) launches[key] = column(launches[key], launches.n);
    }
    lanes(header.views);
  }

  function lanes(views) {
    const box = byId("canvas"), canvas = byId("lanes"), said = byId("slice");
    const pen = canvas.getContext("2d");
    const OPERATION = 17, STATE = 12, GAP = 17, AXIS = 24, NARROW = 620;
    const ORDER = ["waits", "unknown", "lost", "queue", "cpu"];
    const inOrder = (a, b) => ORDER.indexOf(a) - ORDER.indexOf(b) || (a < b ? -1 : 1);
    let view = views[0], from = 0, to = view.end, at = -1, colours = {}, width = 0, side = 170;
    let queued = false;
    box.hidden = false;

    function readColours() {
      const style = getComputedStyle(root);
      colours = {};
      for (const name of ["f0", "f1", "f2", "f3", "f4", "f5", "f6", "fo", "t0", "t1", "t2", "t3", "t4", "t5", "t6", "to",
        "cpu", "queue", "gpu", "copy", "unknown", "lost", "hatch", "hatch-line", "ink", "soft", "line", "back", "path", "path-edge"]) {
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
      const narrow = box.clientWidth < NARROW;
      width = box.clientWidth;
      side = narrow ? 0 : 170;
      let y = AXIS;
      for (const lane of view.lanes) {
        lane.label = narrow ? y + 7 : 0;
        if (narrow) y += 17;
        lane.y = y;
        for (const row of lane.rows) { row.y = y; row.h = row.kind === "state" ? STATE : OPERATION; y += row.h + 1; }
        lane.bottom = y;
        // Under the name of a thread stands its process.
        y = Math.max(y, lane.y + (side ? 15 : 0)) + GAP;
      }
      const ratio = window.devicePixelRatio || 1;
      canvas.width = Math.round(width * ratio); canvas.height = Math.round(y * ratio);
      canvas.style.height = `${y}px`;
      pen.setTransform(ratio, 0, 0, ratio, 0, 0);
      canvas.bottom = y;
    }
    const x = (tick) => side + (tick - from) / (to - from) * (width - side);
    const tickAt = (px) => from + (px - side) / (width - side) * (to - from);
    function firstAfter(array, tick) {
      let low = 0, high = array.length;
      while (low < high) { const mid = (low + high) >> 1; if (array[mid] <= tick) low = mid + 1; else high = mid; }
      return low;
    }
    function words(ticks) {
      const ns = ticks * view.tick;
      for (const [size, unit] of [[1e9, "s"], [1e6, "ms"], [1e3, "us"]]) {
        if (ns >= size) { const v = ns / size; return `${v.toFixed(v < 10 ? 2 : v < 100 ? 1 : 0)} ${unit}`; }
      }
      return `${Math.round(ns)} ns`;
    }

    function draw() {
      queued = false;
      pen.clearRect(0, 0, width, canvas.bottom);
      axis();
      pen.save();
      pen.beginPath(); pen.rect(side, AXIS - 4, width - side, canvas.bottom); pen.clip();
      for (const lane of view.lanes) for (const row of lane.rows) drawRow(row);
      launches(); path();
      pen.restore();
      names();
      box.dataset.ready = "yes";
    }
    function axis() {
      const least = (to - from) / Math.max(2, (width - side) / 110);
      let step = 1;
      while (step < least) step *= [2, 2.5, 2][String(step).replace(/[.0]/g, "").startsWith("2") ? 1 : 0];
      pen.font = "12px Inter, system-ui, sans-serif"; pen.textBaseline = "middle"; pen.textAlign = "left";
      pen.fillStyle = colours.soft; pen.strokeStyle = colours.line; pen.lineWidth = 1;
      for (let tick = Math.ceil(from / step) * step; tick <= to; tick += step) {
        const px = Math.round(x(tick)) + 0.5, label = tick ? words(tick).replace(/\.0+(?= )/, "") : "0";
        pen.beginPath(); pen.moveTo(px, AXIS - 6); pen.lineTo(px, canvas.bottom); pen.stroke();
        if (px + 4 + pen.measureText(label).width < width) pen.fillText(label, px + 4, 9);
      }
    }
    function drawRow(row) {
      const scale = (width - side) / (to - from), last = firstAfter(row.from, to);
      let pixel = -1, sums = null;
      const flush = () => {
        if (!sums) return;
        let total = 0, y = row.y;
        for (const part of sums.values()) total += part;
        // What is narrower than a pixel shares it; where little is there it is pale.
        pen.globalAlpha = Math.min(1, 0.4 + total);
        for (const name of [...sums.keys()].sort(inOrder)) {
          const h = row.h * sums.get(name) / total;
          pen.fillStyle = colours[name]; pen.fillRect(pixel, y, 1, h); y += h;
        }
        pen.globalAlpha = 1;
        sums = null;
      };
      for (let i = Math.max(0, firstAfter(row.to, from)); i < last; i++) {
        const left = side + (row.from[i] - from) * scale, right = side + (row.to[i] - from) * scale;
        const name = view.words[row.code[i]][0];
        if (right - left >= 1) {
          flush(); pixel = -1;
          const px = Math.max(left, side - 2), w = Math.min(right, width + 2) - px;
          pen.fillStyle = colours[name]; pen.fillRect(px, row.y, w - (w > 3 ? 0.5 : 0), row.h);
          if (w > 46 && row.kind !== "state") label(row, view.words[row.code[i]], px, w, row.to[i] - row.from[i]);
        } else {
          const column = Math.floor(left);
          if (column !== pixel) { flush(); pixel = column; }
          sums = sums || new Map();
          sums.set(name, (sums.get(name) || 0) + right - left);
        }
      }
      flush();
    }
    function label(row, word, px, w, ticks) {
      pen.font = "11px Inter, system-ui, sans-serif"; pen.textBaseline = "middle"; pen.textAlign = "left";
      const both = `${word[1]}  ${words(ticks)}`;
      const text = pen.measureText(both).width + 10 < w ? both : word[1];
      if (pen.measureText(text).width + 10 >= w) return;
      pen.fillStyle = colours[word[0].replace("f", "t")] || colours.back;
      pen.fillText(text, px + 5, row.y + row.h / 2 + 0.5);
    }
    function names() {
      pen.textBaseline = "middle"; pen.textAlign = "left";
      for (const lane of view.lanes) {
        pen.font = "600 13px Inter, system-ui, sans-serif"; pen.fillStyle = colours.ink;
        // What tells it from the lanes above comes first: of a thread its own name and number.
        const [who, thread] = lane.name.split(", thread "), [role, pid] = who.split(/ (?=\(pid)/);
        const name = thread || role, rest = thread ? who : pid;
        const room = side ? side - 14 : width - 4;
        if (!side) {
          const text = fit(lane.name, room);
          pen.fillStyle = colours.back; pen.fillRect(0, lane.label - 8, pen.measureText(text).width + 6, 16);
          pen.fillStyle = colours.ink; pen.fillText(text, 0, lane.label);
          continue;
        }
        pen.fillText(fit(name, room), 0, lane.y + 7);
        if (!rest) continue;
        pen.font = "12px Inter, system-ui, sans-serif"; pen.fillStyle = colours.soft;
        const more = rest.replace(/[()]/g, "");
        pen.fillText(fit(more, room), 0, lane.y + 21);
      }
    }
    function fit(text, room) {
      if (pen.measureText(text).width <= room) return text;
      let n = text.length;
      while (n > 1 && pen.measureText(`${text.slice(0, n)}…`).width > room) n--;
      return `${text.slice(0, n)}…`;
    }
    const middle = (lane) => view.lanes[lane].bottom + 3;
    function path() {
      const p = view.path, first = firstAfter(p.to, from), last = firstAfter(p.from, to);
      // Where the path changes lanes more often than can be seen, its ways between them fade.
      const faint = (last - first) * 4 > width - side;
      pen.strokeStyle = colours.path; pen.lineWidth = 1; pen.globalAlpha = faint ? 0.13 : 0.8;
      pen.beginPath();
      // Then one line for each column of pixels: thin lines over each other would add up to black.
      let column = -1, low = 0, high = 0;
      const draw = () => { if (column >= 0) { pen.moveTo(column, low); pen.lineTo(column, high); } };
      for (let i = first, before = -1; i < last; before = p.lane[i++]) {
        if (p.lane[i] < 0 || before < 0 || before === p.lane[i]) continue;
        const left = Math.round(x(p.from[i])) + 0.5, a = middle(before), b = middle(p.lane[i]);
        if (faint && left === column) { low = Math.min(low, a, b); high = Math.max(high, a, b); continue; }
        draw();
        column = left; low = Math.min(a, b); high = Math.max(a, b);
      }
      draw();
      pen.stroke();
      pen.globalAlpha = 1;
      const drawn = alongLanes(p, first, last);
      for (const [style, line] of [[colours["path-edge"], 5], [colours.path, 2.5]]) {
        pen.fillStyle = style;
        for (const [lane, left, right] of drawn) pen.fillRect(left, middle(lane) - line / 2, right - left, line);
      }
      if (at >= 0 && p.lane[at] >= 0) {
        pen.strokeStyle = colours.queue; pen.lineWidth = 3;
        const l = view.lanes[p.lane[at]];
        pen.strokeRect(x(p.from[at]) - 2, l.y - 3, Math.max(4, x(p.to[at]) - x(p.from[at]) + 4), l.bottom - l.y + 8);
      }
    }
    // Where the path runs along lanes: what is no pixel apart is one piece, or a long run would have very many.
    function alongLanes(p, first, last) {
      const found = [], open = new Map();
      for (let i = first; i < last; i++) {
        if (p.lane[i] < 0) continue;
        // Far beyond the edges numbers of the canvas are too coarse.
        const left = Math.max(x(p.from[i]), side - 4), right = Math.min(Math.max(x(p.to[i]), left + 0.5), width + 4), piece = open.get(p.lane[i]);
        if (piece && left - piece[2] < 0.5) { piece[2] = Math.max(piece[2], right); continue; }
        const next = [p.lane[i], left, right];
        open.set(p.lane[i], next); found.push(next);
      }
      return found;
    }
    function launches() {
      const l = view.launches;
      if (!l.n) return;
      const low = firstAfter(l.call, from), high = firstAfter(l.call, to);
      if (high - low > 400) return;
      pen.strokeStyle = colours.soft; pen.lineWidth = 1; pen.globalAlpha = 0.55; pen.beginPath();
      for (let i = low; i < high; i++) {
        pen.moveTo(x(l.call[i]), view.lanes[l.from[i]].bottom - 4); pen.lineTo(x(l.start[i]), view.lanes[l.to[i]].y);
      }
      pen.stroke(); pen.globalAlpha = 1;
    }

    const later = () => { if (!queued) { queued = true; requestAnimationFrame(draw); } };
    function show(first, last) {
      const span = Math.min(Math.max(last - first, 20), view.end);
      from = Math.min(Math.max(first, 0), view.end - span); to = from + span;
      later();
    }
    const zoom = (factor, around) => show(around - (around - from) * factor, around + (to - around) * factor);
    const pan = (part) => show(from + part * (to - from), to + part * (to - from));
    function tell(parts) {
      said.replaceChildren(...parts.map((part, i) => {
        const made = document.createElement(i ? "span" : "b");
        made.textContent = i ? `  ${part}` : part;
        return made;
      }));
    }
    function look(event) {
      const rect = canvas.getBoundingClientRect(), py = event.clientY - rect.top, tick = tickAt(event.clientX - rect.left);
      for (const lane of view.lanes) {
        if (py < lane.y - GAP / 2 || py > lane.bottom + GAP / 2) continue;
        const here = [lane.name];
        for (const row of lane.rows) {
          const i = firstAfter(row.from, tick) - 1;
          if (i >= 0 && row.to[i] > tick) here.push(`${view.words[row.code[i]][1]}: ${words(row.to[i] - row.from[i])};`);
        }
        here.push(`${words(tick)} into the iteration`);
        const p = view.path, i = firstAfter(p.from, tick) - 1;
        if (i >= 0 && view.lanes[p.lane[i]] === lane) here.push(`(critical path: ${view.causes[p.cause[i]]})`);
        tell(here);
        return;
      }
    }
    function step(by) {
      const p = view.path;
      if (!p.n) return;
      at = at < 0 ? firstAfter(p.from, from) - 1 : at + by;
      at = Math.min(Math.max(at, 0), p.n - 1);
      if (p.from[at] < from || p.to[at] > to) { const half = (to - from) / 2; show(p.from[at] - half, p.from[at] + half); }
      const lane = view.lanes[p.lane[at]];
      tell([`critical path, piece ${at + 1} of ${p.n}`, lane ? lane.name : "(not drawn)", view.causes[p.cause[at]],
        words(p.to[at] - p.from[at]), `${words(p.from[at])} into the iteration`]);
      later();
    }
    const keys = {
      ArrowLeft: () => pan(-0.15), ArrowRight: () => pan(0.15), "+": () => zoom(0.6, (from + to) / 2),
      "=": () => zoom(0.6, (from + to) / 2), "-": () => zoom(1 / 0.6, (from + to) / 2), 0: () => show(0, view.end),
      Home: () => show(0, to - from), End: () => show(view.end - (to - from), view.end), ".": () => step(1), ",": () => step(-1),
    };
    canvas.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
      event.preventDefault(); keys[event.key]();
    });
    canvas.addEventListener("wheel", (event) => {
      if (event.ctrlKey) {
        event.preventDefault();
        zoom(Math.exp(event.deltaY * 0.003), tickAt(event.clientX - canvas.getBoundingClientRect().left));
      } else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) { event.preventDefault(); pan(event.deltaX / width); }
    }, { passive: false });
    canvas.addEventListener("dblclick", () => show(0, view.end));
    let held = null;
    canvas.addEventListener("pointerdown", (event) => { held = event.clientX; canvas.setPointerCapture(event.pointerId); });
    canvas.addEventListener("pointerup", () => { held = null; });
    canvas.addEventListener("pointercancel", () => { held = null; });
    canvas.addEventListener("pointermove", (event) => {
      if (held !== null) { pan((held - event.clientX) / (width - side)); held = event.clientX; }
      look(event);
    });
    const tabs = [...document.querySelectorAll("[data-view]")].filter((tab) => tab.tagName === "BUTTON");
    for (const tab of tabs) {
      tab.addEventListener("click", () => {
        for (const other of tabs) other.setAttribute("aria-pressed", String(other === tab));
        view = views[Number(tab.dataset.view)]; from = 0; to = view.end; at = -1;
        said.replaceChildren(); layout(); later();
      });
    }
    readColours(); layout(); draw();
    repaints.push((now) => { readColours(); if (now) draw(); else later(); });
    new ResizeObserver(() => { if (box.clientWidth !== width) { layout(); draw(); } }).observe(box);
    canvas.redraw = draw;
  }
})();
