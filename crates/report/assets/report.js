(() => {
  "use strict";
  const $ = (q, at = document) => at.querySelector(q);
  const data = JSON.parse($("#data").textContent);
  if (!data) return;

  // ---- units ----
  const UNITS = [[1e12, "s"], [1e9, "ms"], [1e6, "µs"], [1e3, "ns"], [1, "ps"]];
  const digits = (v) => String(Number(v.toFixed(v >= 100 ? 1 : v >= 10 ? 2 : 3)));
  const time = (ps) => {
    if (!ps) return "0 ns";
    const [f, u] = UNITS.find(([f]) => ps >= f) || [1, "ps"];
    return digits(ps / f) + " " + u;
  };
  const bytes = (n) => {
    for (const [f, u] of [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [1024, "KiB"]]) if (n >= f) return digits(n / f) + " " + u;
    return n + " B";
  };
  const plural = (n, w) => n.toLocaleString("en") + " " + w + (n === 1 ? "" : "s");

  // ---- data: differences become times ----
  const FIELDS = 6;
  for (const lane of data.lanes) {
    const s = lane.s, items = [];
    let at = 0;
    for (let i = 0; i < s.length; i += FIELDS) {
      const start = at + s[i], end = start + s[i + 1];
      items.push({ start, end, label: s[i + 2], partner: s[i + 3], count: s[i + 4], held: s[i + 5] || s[i + 1] });
      at = end;
    }
    lane.items = items;
    delete lane.s;
  }
  data.arrows = data.arrows.map(([kind, fl, fs, fa, tl, ts, ta]) => ({ kind, from: { lane: fl, start: fs, at: fa }, to: { lane: tl, start: ts, at: ta } }));
  const MEETS = new Set(["swap", "collective", "barrier", "token", "notify"]);
  // An arrow between cores that no slice waits for has no length; it is drawn all the same, it shows who met whom.
  const meets = data.arrows.filter((a) => MEETS.has(a.kind));
  const of = new Map();
  for (const a of data.arrows) {
    for (const e of [a.from, a.to]) {
      const k = e.lane + ":" + e.start;
      if (of.has(k)) of.get(k).push(a); else of.set(k, [a]);
    }
  }

  /** First index whose end is after t. Items are in order and do not overlap. */
  const firstAfter = (items, t) => {
    let lo = 0, hi = items.length;
    while (lo < hi) {
      const mid = (lo + hi) >> 1;
      if (items[mid].end > t) hi = mid; else lo = mid + 1;
    }
    return lo;
  };

  // ---- the view: one time axis for all charts ----
  const total = Math.max(data.total, 1);
  const LEAST = Math.min(1000, total);
  const view = { a: 0, b: total };
  const charts = [];
  let queued = false;
  const redraw = () => {
    if (queued) return;
    queued = true;
    requestAnimationFrame(() => {
      queued = false;
      for (const c of charts) c.draw();
      const r = $("#range");
      if (r) r.textContent = time(view.a) + " to " + time(view.b) + " of " + time(total);
    });
  };
  const setView = (a, b) => {
    const w = Math.min(Math.max(b - a, LEAST), total);
    a = Math.min(Math.max(a, 0), total - w);
    view.a = a;
    view.b = a + w;
    redraw();
  };
  const zoom = (f, at = (view.a + view.b) / 2) => setView(at - (at - view.a) * f, at + (view.b - at) * f);
  const pan = (share) => { const d = (view.b - view.a) * share; setView(view.a + d, view.b + d); };
  const reveal = (s, e) => {
    const w = view.b - view.a;
    if (e - s > w || s < view.a || e > view.b) setView((s + e - w) / 2, (s + e + w) / 2);
  };
  const ACTIONS = { in: () => zoom(0.5), out: () => zoom(2), left: () => pan(-0.5), right: () => pan(0.5), all: () => setView(0, total) };
  for (const b of document.querySelectorAll("[data-do]")) b.addEventListener("click", () => ACTIONS[b.dataset.do]());

  // ---- colours ----
  let colour = {};
  const readColours = () => {
    const s = getComputedStyle(document.documentElement);
    for (const n of ["bg", "panel", "ink", "muted", "line", "grid", "accent", "compute", "move", "sync", "control", "wait", "link"]) colour[n] = s.getPropertyValue("--" + n).trim();
    colour.on = s.getPropertyValue("--on-box").trim();
    colour.class = [colour.compute, colour.move, colour.sync, colour.control];
    redraw();
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", readColours);

  // ---- what all charts do ----
  const tip = $("#tip");
  const FONT = '12px system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif';
  const AXIS = 24;

  /** As much of a text as there is room for; nothing when that says nothing. */
  const fit = (g, text, room) => {
    if (g.measureText(text).width <= room) return text;
    let n = Math.min(text.length - 1, Math.floor(room / 5));
    while (n > 3 && g.measureText(text.slice(0, n) + "…").width > room) n--;
    return n > 3 ? text.slice(0, n) + "…" : "";
  };

  class Chart {
    constructor(box, detail) {
      this.box = box;
      this.canvas = $("canvas", box);
      this.detail = detail;
      this.selected = null;
      this.hovered = null;
      charts.push(this);
      this.listen();
      new ResizeObserver(redraw).observe(box);
    }
    gutter() { return this.width < 560 ? 62 : 96; }
    x(t) { return this.gutter() + ((t - view.a) / (view.b - view.a)) * (this.width - this.gutter() - 8); }
    t(x) { return view.a + ((x - this.gutter()) / (this.width - this.gutter() - 8)) * (view.b - view.a); }
    /** Sizes the canvas for the screen and clears it. */
    open(height) {
      this.width = this.box.clientWidth;
      this.height = height;
      const k = window.devicePixelRatio || 1, c = this.canvas;
      if (c.width !== Math.round(this.width * k) || c.height !== Math.round(height * k)) {
        c.width = Math.round(this.width * k);
        c.height = Math.round(height * k);
        c.style.height = height + "px";
      }
      const g = c.getContext("2d");
      g.setTransform(k, 0, 0, k, 0, 0);
      g.fillStyle = colour.bg;
      g.fillRect(0, 0, this.width, height);
      g.font = FONT;
      g.textBaseline = "middle";
      return g;
    }
    axis(g) {
      const px = this.width - this.gutter() - 8, want = Math.max(2, Math.floor(px / 72));
      const raw = (view.b - view.a) / want, e = 10 ** Math.floor(Math.log10(Math.max(raw, 1)));
      const step = [1, 2, 5, 10].map((m) => m * e).find((s) => s >= raw) || 10 * e;
      g.fillStyle = colour.muted;
      g.textAlign = "center";
      for (let i = Math.ceil(view.a / step); i * step <= view.b; i++) {
        const t = i * step, x = Math.round(this.x(t)) + 0.5;
        g.strokeStyle = colour.grid;
        g.beginPath(); g.moveTo(x, AXIS); g.lineTo(x, this.height); g.stroke();
        const w = g.measureText(time(t)).width / 2;
        g.fillText(time(t), Math.min(Math.max(x, this.gutter() + w), this.width - w - 4), AXIS / 2);
      }
      if (view.b - view.a < total * 0.999) {
        const g0 = this.gutter(), at = (t) => g0 + (t / total) * px;
        g.fillStyle = colour.grid; g.fillRect(g0, 0, px, 3);
        g.fillStyle = colour.accent; g.fillRect(at(view.a), 0, Math.max(3, at(view.b) - at(view.a)), 3);
      }
    }
    listen() {
      const box = this.box, fingers = new Map();
      let moved = 0, spread = 0;
      const local = (e) => { const r = this.canvas.getBoundingClientRect(); return [e.clientX - r.left, e.clientY - r.top]; };
      box.addEventListener("pointerdown", (e) => {
        if (e.button) return;
        fingers.set(e.pointerId, e.clientX);
        moved = 0;
        spread = 0;
        try { box.setPointerCapture(e.pointerId); } catch { /* the pointer is gone already */ }
      });
      box.addEventListener("pointermove", (e) => {
        const was = fingers.get(e.pointerId);
        if (was === undefined) return this.hover(...local(e), e);
        fingers.set(e.pointerId, e.clientX);
        if (fingers.size === 2) {
          const [p, q] = [...fingers.values()], d = Math.abs(p - q), mid = (p + q) / 2 - this.canvas.getBoundingClientRect().left;
          if (spread > 10 && d > 10) zoom(spread / d, this.t(mid));
          spread = d;
          moved = 99;
          return;
        }
        moved += Math.abs(e.clientX - was);
        if (moved > 3) {
          box.classList.add("drag");
          this.leave();
          const d = ((was - e.clientX) * (view.b - view.a)) / (this.width - this.gutter() - 8);
          setView(view.a + d, view.b + d);
        }
      });
      const up = (e) => {
        if (!fingers.delete(e.pointerId)) return;
        box.classList.remove("drag");
        if (e.type === "pointerup" && moved <= 3) this.select(this.hit(...local(e)));
      };
      box.addEventListener("pointerup", up);
      box.addEventListener("pointercancel", up);
      box.addEventListener("pointerleave", () => this.leave());
      box.addEventListener("dblclick", (e) => zoom(0.4, this.t(local(e)[0])));
      box.addEventListener("wheel", (e) => {
        if (e.ctrlKey || e.metaKey) {
          e.preventDefault();
          zoom(Math.exp(Math.max(-60, Math.min(60, e.deltaY)) * 0.01), this.t(local(e)[0]));
        } else if (Math.abs(e.deltaX) > Math.abs(e.deltaY)) {
          e.preventDefault();
          pan(e.deltaX / this.width);
        }
      }, { passive: false });
      box.addEventListener("keydown", (e) => {
        if (e.ctrlKey || e.metaKey || e.altKey) return;
        const at = this.selected ? (this.selected.start + this.selected.end) / 2 : undefined;
        const inView = at !== undefined && at >= view.a && at <= view.b ? at : undefined;
        let done = true;
        if (e.key === "+" || e.key === "=") zoom(0.5, inView);
        else if (e.key === "-" || e.key === "−" || e.key === "_") zoom(2, inView);
        else if (e.key === "0" || e.key === "Home") setView(0, total);
        else if (e.shiftKey && e.key === "ArrowLeft") pan(-0.25);
        else if (e.shiftKey && e.key === "ArrowRight") pan(0.25);
        else if (e.key === "Escape") { this.leave(); this.select(null); }
        else done = this.key(e.key);
        if (done) e.preventDefault();
      });
    }
    hover(px, py, e) {
      const h = this.hit(px, py);
      if (h !== this.hovered) { this.hovered = h; redraw(); }
      if (!h) { tip.hidden = true; return; }
      tip.textContent = this.describe(h).join("\n");
      tip.hidden = false;
      const w = tip.offsetWidth, k = tip.offsetHeight;
      tip.style.left = Math.max(4, Math.min(e.clientX + 14, document.documentElement.clientWidth - w - 4)) + "px";
      tip.style.top = (e.clientY + 18 + k > innerHeight ? e.clientY - k - 12 : e.clientY + 18) + "px";
    }
    leave() { tip.hidden = true; if (this.hovered) { this.hovered = null; redraw(); } }
    select(h) {
      this.selected = h;
      this.detail.textContent = h ? this.describe(h).join(". ") + "." : "Nothing selected.";
      redraw();
    }
  }

  // ---- timeline ----
  const HEAD = 22, ENGINE = 22, CONTROL = 14, DMA = 6, GAP = 3;
  class Timeline extends Chart {
    constructor(box, detail) {
      super(box, detail);
      let y = AXIS, core = -1;
      this.heads = [];
      this.groups = [];
      data.lanes.forEach((l, i) => {
        if (l.c !== core) {
          if (core >= 0) y += 8;
          core = l.c;
          this.heads.push({ y, core });
          y += HEAD;
        }
        l.i = i;
        l.y = y;
        l.h = l.k === "e" ? ENGINE : l.k === "c" ? CONTROL : DMA;
        if (l.k === "d") {
          const g = this.groups[this.groups.length - 1];
          if (!g || g.core !== core) this.groups.push({ core, y, end: y + DMA });
          else g.end = y + DMA;
        }
        y += l.h + (l.k === "d" ? 1 : GAP);
      });
      this.tall = y + 6;
    }
    rect(lane, it) {
      const x0 = this.x(it.start);
      return [x0, Math.max(1, this.x(it.end) - x0)];
    }
    draw() {
      const g = this.open(this.tall), left = this.gutter(), right = this.width - 8;
      this.axis(g);
      g.textAlign = "left";
      for (const h of this.heads) {
        g.fillStyle = colour.panel;
        g.fillRect(0, h.y, this.width, HEAD - 3);
        g.fillStyle = colour.ink;
        g.font = "600 " + FONT;
        g.fillText("Core " + h.core, 8, h.y + HEAD / 2 - 1);
        g.font = FONT;
      }
      g.fillStyle = colour.muted;
      for (const l of data.lanes) if (l.k !== "d") g.fillText(l.k === "c" ? "all engines" : l.n, 8, l.y + l.h / 2 + 1, left - 12);
      for (const m of this.groups) g.fillText("DMA", 8, (m.y + m.end) / 2, left - 12);
      g.save();
      g.beginPath();
      g.rect(left, AXIS, right - left, this.tall - AXIS);
      g.clip();
      for (const l of data.lanes) this.lane(g, l);
      this.links(g);
      for (const [h, c] of [[this.hovered, colour.ink], [this.selected, colour.accent]]) {
        if (!h) continue;
        const [x, w] = this.rect(h.lane, h.item);
        g.strokeStyle = c;
        g.lineWidth = 2;
        g.strokeRect(x - 1, h.lane.y - 1, w + 2, h.lane.h + 2);
        g.lineWidth = 1;
      }
      g.restore();
    }
    lane(g, l) {
      const y = l.y, h = l.h;
      g.fillStyle = colour.grid;
      g.fillRect(this.gutter(), y + h - 0.5, this.width, 0.5);
      let drawn = -1;
      for (let i = firstAfter(l.items, view.a); i < l.items.length && l.items[i].start < view.b; i++) {
        const it = l.items[i], [x, w] = this.rect(l, it);
        // What ends inside the pixel that is painted already adds nothing to the picture.
        if (x + w <= drawn) continue;
        drawn = Math.floor(x + w);
        const c = colour.class[data.labels[it.label][3]], share = it.held / Math.max(1, it.end - it.start);
        g.fillStyle = c;
        g.globalAlpha = it.count > 1 ? 0.35 + 0.65 * Math.min(1, share) : 1;
        g.fillRect(x, y, w, h);
        g.globalAlpha = 1;
        if (it.partner) {
          const pw = it.count > 1 ? 0 : ((w * it.partner) / Math.max(1, it.end - it.start));
          if (pw >= 1) {
            g.fillStyle = colour.wait;
            g.fillRect(x, y, pw, h);
            g.strokeStyle = c;
            g.strokeRect(x + 0.5, y + 0.5, Math.max(0, w - 1), h - 1);
          }
        }
        if (w > 34 && h >= 12) {
          // Beside the part that waits, or on it when it is all there is.
          const waits = it.count > 1 ? 0 : (w * it.partner) / Math.max(1, it.end - it.start), all = waits > w - 34;
          const x0 = Math.max(all ? x : x + waits, this.gutter()), room = Math.min(x + w, this.width - 8) - x0 - 8;
          g.font = (h < 16 ? "10px" : "12px") + FONT.slice(4);
          const text = fit(g, it.count > 1 ? it.count + " ×" : data.labels[it.label][1], room);
          g.fillStyle = all ? colour.ink : colour.on;
          if (text) g.fillText(text, x0 + 4, y + h / 2 + 1);
          g.font = FONT;
        }
      }
    }
    arrow(g, a, strong) {
      const lanes = data.lanes, f = lanes[a.from.lane], t = lanes[a.to.lane];
      const x0 = this.x(a.from.at), x1 = this.x(a.to.at), y0 = f.y + f.h / 2, y1 = t.y + t.h / 2;
      if (Math.max(x0, x1) < this.gutter() - 4 || Math.min(x0, x1) > this.width) return;
      g.strokeStyle = MEETS.has(a.kind) ? colour.link : colour.ink;
      g.globalAlpha = strong ? 1 : 0.55;
      g.lineWidth = strong ? 2 : 1.2;
      g.beginPath();
      g.moveTo(x0, y0);
      const bend = Math.min(40, Math.abs(x1 - x0) / 2 + 8);
      g.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1, y1);
      g.stroke();
      g.fillStyle = g.strokeStyle;
      g.beginPath();
      g.arc(x1, y1, strong ? 3.5 : 2.5, 0, 7);
      g.fill();
      g.globalAlpha = 1;
      g.lineWidth = 1;
    }
    links(g) {
      const seen = meets.filter((a) => a.to.at >= view.a && a.from.at <= view.b);
      if (seen.length <= 150) for (const a of seen) this.arrow(g, a, false);
      if (this.selected) for (const a of this.arrows(this.selected)) this.arrow(g, a, true);
    }
    arrows(h) { return of.get(h.lane.i + ":" + h.item.start) || []; }
    hit(px, py) {
      if (px < this.gutter()) return null;
      const l = data.lanes.find((l) => py >= l.y - 1 && py < l.y + l.h + (l.k === "d" ? 0 : 2));
      if (!l) return null;
      const t = this.t(px), slack = this.t(px + 2) - t, i = firstAfter(l.items, t - slack), it = l.items[i];
      return it && it.start <= t + slack ? this.at(l, i) : null;
    }
    at(lane, i) {
      const item = lane.items[i];
      if (this.hovered && this.hovered.item === item) return this.hovered;
      return { lane, i, item, start: item.start, end: item.end };
    }
    describe(h) {
      const { lane, item } = h, [name, op, place] = data.labels[item.label];
      const where = "core " + lane.c + ", " + (lane.k === "c" ? "all engines" : lane.k === "d" ? "DMA engine " + lane.n.slice(4) : lane.n);
      const out = item.count > 1
        ? [plural(item.count, "slice") + " on " + where, "longest: " + op + " " + name + (place ? " (" + place + ")" : "")]
        : [op + " " + name + (place ? " (" + place + ")" : "") + " on " + where];
      out.push("from " + time(item.start) + " for " + time(item.end - item.start));
      if (item.held < item.end - item.start) out.push("occupied " + time(item.held));
      if (item.partner) out.push("of that waiting for a partner " + time(item.partner));
      const into = item.count > 1 ? [] : this.arrows(h).filter((a) => a.to.lane === lane.i && a.to.start === item.start);
      for (const a of into) {
        const l = data.lanes[a.from.lane], j = firstAfter(l.items, a.from.start), from = l.items[j];
        const who = from && from.start <= a.from.start ? data.labels[from.label][0] : "";
        out.push("waited for " + who + " (" + a.kind + ") on core " + l.c + ", " + (l.k === "c" ? "all engines" : l.n));
      }
      return out;
    }
    key(k) {
      const lanes = data.lanes.filter((l) => l.items.length);
      if (!lanes.length) return false;
      const s = this.selected;
      const pick = (l, i) => { this.select(this.at(l, i)); reveal(l.items[i].start, l.items[i].end); };
      const near = (l, t) => Math.min(firstAfter(l.items, t), l.items.length - 1);
      if (k === "Enter") {
        const to = s && document.getElementById(data.labels[s.item.label][4]);
        if (to) { mark(to); to.focus(); }
        return true;
      }
      if (!["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "End"].includes(k)) return false;
      if (!s) { pick(lanes[0], near(lanes[0], view.a)); return true; }
      if (k === "ArrowRight") pick(s.lane, Math.min(s.i + 1, s.lane.items.length - 1));
      else if (k === "ArrowLeft") pick(s.lane, Math.max(s.i - 1, 0));
      else if (k === "End") pick(s.lane, s.lane.items.length - 1);
      else {
        const l = lanes[lanes.indexOf(s.lane) + (k === "ArrowDown" ? 1 : -1)];
        if (l) pick(l, near(l, s.item.start));
      }
      return true;
    }
  }
  const mark = (el) => {
    for (const x of document.querySelectorAll(".inst.here")) x.classList.remove("here");
    el.classList.add("here");
    el.scrollIntoView({ block: "center" });
  };

  // ---- memory map ----
  const CURVE = 44, MAP = 210, BELOW = 8;
  class MemoryMap extends Chart {
    constructor(box, detail, m) {
      super(box, detail);
      this.m = m;
      this.tensors = m.t.map(([name, addr, size, base, parts, start, end, kind]) => ({ name, addr, size, base, parts, start, end, kind }));
      this.order = [...this.tensors].sort((a, b) => a.start - b.start || a.addr - b.addr);
      this.top = Math.max(1, ...this.tensors.map((t) => t.addr + t.size));
      this.y0 = AXIS + CURVE + 14;
    }
    y(addr) { return this.y0 + MAP - (addr / this.top) * MAP; }
    rect(t) {
      const x = this.x(t.start), y = this.y(t.addr + t.size);
      return [x, y, Math.max(1, this.x(t.end) - x), Math.max(1.5, this.y(t.addr) - y)];
    }
    draw() {
      const g = this.open(this.y0 + MAP + BELOW), left = this.gutter(), right = this.width - 8;
      this.axis(g);
      // Bytes in use.
      const u = this.m.u, peak = Math.max(1, this.m.peak), base = AXIS + CURVE;
      g.fillStyle = colour.muted;
      g.textAlign = "right";
      g.fillText(bytes(this.m.peak), left - 6, AXIS + 7, left - 8);
      g.fillText("in use", left - 6, base - 8, left - 8);
      g.save();
      g.beginPath(); g.rect(left, AXIS, right - left, this.height - AXIS); g.clip();
      g.beginPath();
      g.moveTo(this.x(0), base);
      let h = base;
      for (let i = 0; i < u.length; i += 2) {
        const x = this.x(u[i]);
        g.lineTo(x, h);
        h = base - (u[i + 1] / peak) * (CURVE - 4);
        g.lineTo(x, h);
      }
      g.lineTo(this.x(total), h);
      g.lineTo(this.x(total), base);
      g.closePath();
      g.fillStyle = colour.move;
      g.globalAlpha = 0.3; g.fill(); g.globalAlpha = 1;
      g.strokeStyle = colour.move; g.stroke();
      g.restore();
      // Addresses.
      const e = 2 ** Math.floor(Math.log2(this.top / 4)), step = Math.max(1, this.top / e > 6 ? e * 2 : e);
      g.fillStyle = colour.muted;
      for (let a = 0; a <= this.top; a += step) {
        const y = Math.round(this.y(a)) + 0.5;
        g.strokeStyle = colour.grid;
        g.beginPath(); g.moveTo(left, y); g.lineTo(right, y); g.stroke();
        g.fillText(bytes(a), left - 6, Math.min(y, this.height - 7), left - 8);
      }
      g.textAlign = "left";
      g.save();
      g.beginPath(); g.rect(left, this.y0 - 2, right - left, MAP + 4); g.clip();
      for (const t of this.tensors) {
        if (t.end < view.a || t.start > view.b) continue;
        const [x, y, w, hh] = this.rect(t);
        g.fillStyle = colour.compute;
        g.fillRect(x, y, w, hh);
        g.strokeStyle = colour.bg;
        if (w > 4 && hh > 4) g.strokeRect(x + 0.5, y + 0.5, w - 1, hh - 1);
        const x0 = Math.max(x, left), room = Math.min(x + w, right) - x0 - 8;
        if (room > 30 && hh > 13) {
          g.fillStyle = colour.on;
          g.fillText(fit(g, t.name, room), x0 + 4, y + hh / 2 + 1);
        }
      }
      for (const [t, c] of [[this.hovered, colour.ink], [this.selected, colour.accent]]) {
        if (!t) continue;
        const [x, y, w, hh] = this.rect(t);
        g.strokeStyle = c; g.lineWidth = 2; g.strokeRect(x - 1, y - 1, w + 2, hh + 2); g.lineWidth = 1;
      }
      g.restore();
    }
    hit(px, py) {
      if (px < this.gutter()) return null;
      // The smallest box under the pointer.
      let best = null;
      for (const t of this.tensors) {
        const [x, y, w, h] = this.rect(t);
        if (px >= x - 1 && px <= x + w + 1 && py >= y - 1 && py <= y + h + 1 && (!best || t.size < best.size)) best = t;
      }
      return best;
    }
    describe(t) {
      return [
        t.name + ", " + t.kind,
        "bytes " + t.addr + " to " + (t.addr + t.size - 1) + " of partitions " + t.base + " to " + (t.base + t.parts - 1) + ", " + bytes(t.size * t.parts) + " in all",
        "in use from " + time(t.start) + " to " + time(t.end),
      ];
    }
    key(k) {
      if (!this.order.length) return false;
      const i = this.selected ? this.order.indexOf(this.selected) : -1;
      let to;
      if (k === "ArrowRight" || k === "ArrowDown") to = Math.min(i + 1, this.order.length - 1);
      else if (k === "ArrowLeft" || k === "ArrowUp") to = Math.max(i - 1, 0);
      else if (k === "End") to = this.order.length - 1;
      else return false;
      this.select(this.order[to]);
      reveal(this.order[to].start, this.order[to].end);
      return true;
    }
  }

  const box = $("#chart-timeline");
  if (box) new Timeline(box, $("#timeline-detail"));
  for (const b of document.querySelectorAll(".chart.memory")) {
    const m = data.memory.find((m) => m.c === Number(b.dataset.core) && m.m === b.dataset.memory);
    if (m) new MemoryMap(b, document.getElementById("memory-detail-" + m.c + "-" + m.m), m);
  }
  readColours();
})();
