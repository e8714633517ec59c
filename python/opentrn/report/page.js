"use strict";
// One page, no network. Sections: data, numbers as text, small DOM helpers, cards and tables, timeline.

const data = JSON.parse(document.getElementById("data").textContent);
const profile = data.profile;
const $ = (id) => document.getElementById(id);
if (data.traffic) { $("fabric").hidden = false; drawFabric(data.traffic, $("fabric")); }

// ---- data

async function unpack(packed, layout) {
  const bytes = Uint8Array.from(atob(packed.data), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const buffer = await new Response(stream).arrayBuffer();
  const columns = { count: packed.count };
  let offset = 0;
  for (const [name, Type] of layout) {
    columns[name] = new Type(buffer, offset, packed.count);
    offset += packed.count * Type.BYTES_PER_ELEMENT;
  }
  return columns;
}
const EVENT_COLUMNS = [["start", Float64Array], ["duration", Float32Array], ["stallTime", Float32Array], ["bytes", Float32Array],
  ["instruction", Uint32Array], ["waitedFor", Uint32Array], ["source", Uint32Array], ["track", Uint16Array], ["opcode", Uint8Array], ["stall", Uint8Array]];
const CRITICAL_COLUMNS = [["start", Float64Array], ["end", Float64Array], ["instruction", Uint32Array], ["resource", Uint8Array]];

// ---- numbers as text

function time(ns, digits = 2) {
  if (!ns) return "0";
  if (Math.abs(ns) < 1e3) return `${+ns.toFixed(ns < 10 ? 1 : 0)} ns`;
  if (Math.abs(ns) < 1e6) return `${(ns / 1e3).toFixed(digits)} µs`;
  if (Math.abs(ns) < 1e9) return `${(ns / 1e6).toFixed(digits)} ms`;
  return `${(ns / 1e9).toFixed(digits)} s`;
}
function scaled(value, step, units) {
  let unit = 0;
  while (value >= step && unit + 1 < units.length) { value /= step; unit++; }
  return `${unit ? value.toFixed(value < 10 ? 2 : 1) : Math.round(value)} ${units[unit]}`;
}
const bytes = (value) => value == null ? "?" : scaled(value, 1024, ["B", "KiB", "MiB", "GiB"]);
const flops = (value) => scaled(value, 1000, ["flop", "Kflop", "Mflop", "Gflop", "Tflop"]);
const percent = (value) => value == null ? "?" : `${value.toFixed(1)} %`;
const count = (value) => value.toLocaleString("en-US");

// Files that share a name are told apart by their folder.
const fileNames = [...new Set(profile.lines.map((line) => line.file).filter(Boolean))];
function shortFile(file) {
  const parts = file.split("/");
  for (let n = 1; n <= parts.length; n++) {
    const tail = parts.slice(-n).join("/");
    if (fileNames.filter((other) => other.endsWith("/" + tail) || other === tail).length <= 1) return tail;
  }
  return file;
}
// A model without source lines has the names of its nodes in their place.
const place = (file, line, name) => file ? `${shortFile(file)}:${line}` : name || "(no source line)";
const sourceText = (file, line) => (data.texts[file] || [])[line - 1] || "";

// ---- DOM helpers

function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) node[key] = value;
    else if (value != null) node.setAttribute(key, value);
  }
  node.append(...children.filter((child) => child != null));
  return node;
}

// What a click does, Enter does too.
const acts = (action) => ({ onclick: action, tabindex: 0, onkeydown: (event) => { if (event.key === "Enter") { action(); event.preventDefault(); } } });

const moreRow = (hidden, columns, action) => el("tr", { class: "more", ...acts(action) }, el("td", { colspan: columns }, `${count(hidden)} more …`));

// A holder of a table, which goes into its first child. It says so when there is more than the width shows.
function scrolling() {
  const inner = el("div", { class: "scroll" }), hint = el("p", { class: "dim hint aside", hidden: "" }, "this table scrolls sideways →");
  const look = () => { hint.hidden = inner.scrollWidth <= inner.clientWidth + 1; };
  new ResizeObserver(look).observe(inner);
  new MutationObserver(look).observe(inner, { childList: true });
  return el("div", {}, inner, hint);
}

// columns: {title, value(row) -> sort key, show(row) -> text or node, number}. Shows `limit` rows until asked for more.
function table(columns, rows, { limit = 15, onRow = null, chosen = () => false } = {}) {
  const holder = scrolling();
  let sorted = rows, by = null, descending = true, all = false;
  const sortBy = (column) => {
    descending = by === column ? !descending : true;
    by = column;
    const sign = descending ? -1 : 1;
    sorted = [...rows].sort((a, b) => { const x = column.value(a), y = column.value(b); return sign * (x < y ? -1 : x > y ? 1 : 0); });
    draw();
  };
  const draw = () => {
    const head = el("tr", {}, ...columns.map((column) => el("th", {
      class: column.number ? "n" : null, title: column.hint, scope: "col", ...acts(() => sortBy(column)),
      "aria-sort": by === column ? (descending ? "descending" : "ascending") : null,
    }, column.title + (by === column ? (descending ? " ▾" : " ▴") : ""))));
    const body = el("tbody", {}, ...sorted.slice(0, all ? sorted.length : limit).map((row) => el("tr", {
      class: [chosen(row) ? "chosen" : "", onRow ? "acts" : ""].join(" ").trim() || null, ...(onRow ? acts(() => { onRow(row); draw(); }) : {}),
    }, ...columns.map((column) => el("td", { class: [column.number ? "n" : "", column.class || ""].join(" ").trim() || null },
      column.show ? column.show(row) : String(column.value(row)))))));
    if (!all && sorted.length > limit) body.append(moreRow(sorted.length - limit, columns.length, () => { all = true; draw(); }));
    holder.firstChild.replaceChildren(el("table", {}, el("thead", {}, head), body));
  };
  draw();
  holder.redraw = draw;
  return holder;
}

const swatch = (colour) => el("span", { class: "swatch", style: `background:${colour}` });

// ---- cards and tables

function card(value, label, share) {
  const meter = share == null ? null : el("div", { class: "meter" }, el("i", { style: `width:${Math.min(100, share)}%` }));
  return el("div", { class: "card" }, el("b", {}, value), el("span", {}, label), meter);
}

function drawHead() {
  const summary = profile.summary, dma = profile.dma, memory = profile.memory;
  $("program").textContent = profile.program;
  $("machine").textContent = `${profile.cores > 1 ? profile.cores + " × " : ""}${profile.neuron_core} · ${count(profile.instructions)} instructions`
    + (profile.launch_overhead_ns ? ` · launching adds ${time(profile.launch_overhead_ns, 0)}` : "")
    + (profile.band.unknown ? ` · error band unknown: ${profile.band.unknown}`
      : ` · ${Math.round(100 * profile.band.share)} % band ${time(profile.band.low_ns)} to ${time(profile.band.high_ns)}, from ${profile.band.runs} runs of ${profile.band.kind}`)
    + ` · ${profile.basis.assumed_constants.length} of ${profile.basis.constants} timing constants assumed`
    + (profile.extrapolated_ns ? ` · ${time(profile.extrapolated_ns)} extrapolated from steady loops: hatched in the timeline` : "");
  $("cards").append(
    card(time(profile.total_ns), "predicted time on the device"),
    profile.bound_by.shares.length
      ? card(profile.bound_by.verdict, `bounds ${percent(profile.bound_by.shares[0].percent)} of the run`)
      : card("nothing ran", "nothing bounds it"),
    card(percent(summary.mfu_estimated_percent), `MFU · ${flops(summary.model_flops)}`, summary.mfu_estimated_percent),
    card(percent(summary.mbu_estimated_percent), `MBU · ${bytes(summary.hbm_read_bytes + summary.hbm_write_bytes)} of HBM traffic`, summary.mbu_estimated_percent),
    card(percent(dma.efficiency_percent), `DMA rate while busy · ${bytes(dma.bytes_per_descriptor)} a descriptor`, dma.efficiency_percent),
    card(bytes(memory.sbuf_bytes_per_partition_used), `SBUF high water of ${bytes(memory.sbuf_bytes_per_partition_limit)} a partition`,
      memory.sbuf_bytes_per_partition_limit && 100 * memory.sbuf_bytes_per_partition_used / memory.sbuf_bytes_per_partition_limit),
    card(`${memory.psum_banks_used} of ${memory.psum_banks_limit ?? "?"}`, `PSUM banks · ${bytes(memory.spill_save_bytes)} spilled`,
      memory.psum_banks_limit && 100 * memory.psum_banks_used / memory.psum_banks_limit));
  const shares = profile.bound_by.shares;
  $("bound").append(
    el("div", { class: "stack" }, ...shares.map((s) => el("i", { style: `width:${s.percent}%;background:${resourceColour(s.resource)}`, title: `${s.resource} ${percent(s.percent)}` }))),
    el("div", { class: "keys" }, ...shares.filter((s) => s.percent >= 0.05).map((s) => el("span", {}, swatch(resourceColour(s.resource)), `${s.resource} `, el("b", {}, percent(s.percent)), ` ${time(s.ns)}`))));
}

function placeCell(file, line, extra, name) {
  return el("span", { title: file ? `${file}:${line}` : null }, el("code", {}, sourceText(file, line).trim() || (extra || "")), el("div", { class: "place" }, place(file, line, name)));
}

function drawTables(timeline) {
  const hottest = Math.max(...profile.lines.map((line) => line.critical_percent), 1e-9);
  const mix = (line) => Object.entries(line.opcodes).map(([name, n]) => `${name} ×${count(n)}`).join(", ");
  const lines = table([
    { title: "source line", value: (l) => place(l.file, l.line, l.function), show: (l) => placeCell(l.file, l.line, "", l.function) },
    { title: "critical path", class: "share", value: (l) => l.critical_ns, hint: "time on the critical path: what to make faster",
      show: (l) => el("span", { class: "share" }, el("i", { style: `width:${60 * l.critical_percent / hottest}px` }), percent(l.critical_percent)) },
    { title: "time", number: true, value: (l) => l.critical_ns, show: (l) => time(l.critical_ns) },
    { title: "busy", number: true, value: (l) => l.busy_ns, show: (l) => time(l.busy_ns), hint: "engines occupied by it" },
    { title: "waited", number: true, value: (l) => l.stall_ns, show: (l) => time(l.stall_ns), hint: "engines idle before it" },
    { title: "DMA", number: true, value: (l) => l.dma_bytes, show: (l) => l.dma_bytes ? bytes(l.dma_bytes) : "" },
    { title: "instructions", value: (l) => l.instructions, show: mix },
  ], profile.lines, {
    onRow: (l) => { timeline.choose(l.file, l.line); showFile(l.file, l.line); },
    chosen: (l) => timeline.isChosen(l.file, l.line),
  });
  $("lines").append(lines);
  timeline.onChoose = () => { lines.redraw(); };
  $("engines").append(table([
    { title: "engine", value: (e) => e.engine },
    { title: "active", number: true, value: (e) => e.active_percent, show: (e) => percent(e.active_percent) },
    { title: "busy", number: true, value: (e) => e.busy_ns, show: (e) => time(e.busy_ns) },
    { title: "waits engine", number: true, value: (e) => e.stall_engine_ns, show: (e) => time(e.stall_engine_ns) },
    { title: "waits DMA", number: true, value: (e) => e.stall_dma_ns, show: (e) => time(e.stall_dma_ns) },
    { title: "other", number: true, value: (e) => e.stall_other_ns, show: (e) => time(e.stall_other_ns) },
    { title: "instructions", number: true, value: (e) => e.instructions, show: (e) => count(e.instructions) },
  ], profile.engines));
  const memory = profile.memory;
  $("memory").append(table([{ title: "memory", value: (r) => r[0] }, { title: "high water", number: true, value: (r) => r[1] }, { title: "limit", number: true, value: (r) => r[2] }], [
    ["SBUF, per partition", bytes(memory.sbuf_bytes_per_partition_used), bytes(memory.sbuf_bytes_per_partition_limit)],
    ["PSUM, banks", String(memory.psum_banks_used), String(memory.psum_banks_limit ?? "?")],
    ["HBM", bytes(memory.hbm_bytes_used), ""], ["spilled to HBM", bytes(memory.spill_save_bytes), ""], ["reloaded from there", bytes(memory.spill_reload_bytes), ""]]));
  $("waits").append(table([
    { title: "engine", value: (w) => w.engine },
    { title: "was idle before", value: (w) => place(w.waiting.file, w.waiting.line, w.waiting.function), show: (w) => placeCell(w.waiting.file, w.waiting.line, "", w.waiting.function) },
    { title: "because of", value: (w) => place(w.waited_for.file, w.waited_for.line, w.waited_for.function), show: (w) => placeCell(w.waited_for.file, w.waited_for.line, w.waited_for_opcode, w.waited_for.function) },
    { title: "reason", value: (w) => w.cause },
    { title: "time", number: true, value: (w) => w.ns, show: (w) => time(w.ns) },
    { title: "times", number: true, value: (w) => w.count, show: (w) => count(w.count) },
  ], profile.waits, { limit: 10 }));
  const dma = profile.dma;
  $("dma-summary").textContent = `${count(dma.transfers)} transfers, ${count(dma.descriptors)} descriptors of ${bytes(dma.bytes_per_descriptor)}, ${bytes(dma.bytes)} at `
    + `${dma.achieved_gb_s == null ? "?" : dma.achieved_gb_s.toFixed(1)} GB/s while any DMA engine was busy.`;
  $("queues").append(table([
    { title: "queue", value: (q) => q.queue },
    { title: "transfers", number: true, value: (q) => q.transfers, show: (q) => count(q.transfers) },
    { title: "bytes", number: true, value: (q) => q.bytes, show: (q) => bytes(q.bytes) },
    { title: "active", number: true, value: (q) => q.active_ns, show: (q) => time(q.active_ns) },
    { title: "GB/s", number: true, value: (q) => q.achieved_gb_s, show: (q) => q.achieved_gb_s.toFixed(1) },
    { title: "mean latency", number: true, value: (q) => q.latency_mean_ns, show: (q) => time(q.latency_mean_ns) },
    { title: "max latency", number: true, value: (q) => q.latency_max_ns, show: (q) => time(q.latency_max_ns) },
    { title: "held up by", value: (q) => Object.keys(q.stall_ns).length, show: (q) => Object.entries(q.stall_ns).map(([name, ns]) => `${name} ${time(ns)}`).join(", ") },
  ], dma.queues));
  $("opcodes").append(table([
    { title: "engine", value: (o) => o.engine }, { title: "instruction", value: (o) => o.opcode },
    { title: "count", number: true, value: (o) => o.count, show: (o) => count(o.count) },
    { title: "busy", number: true, value: (o) => o.busy_ns, show: (o) => time(o.busy_ns) },
    { title: "mean", number: true, value: (o) => o.busy_ns / o.count, show: (o) => time(o.busy_ns / o.count) },
  ], profile.opcodes));
}

function showFile(file, line) {
  if (!data.texts[file]) return;
  $("file").value = file;
  const heat = new Map(profile.lines.filter((l) => l.file === file).map((l) => [l.line, l]));
  const hottest = Math.max(...profile.lines.map((l) => l.critical_percent), 1e-9);
  const rows = data.texts[file].map((text, i) => {
    const l = heat.get(i + 1);
    const alpha = l ? 0.06 + 0.4 * l.critical_percent / hottest : 0;
    return el("tr", {
      class: l ? "hot" : null, id: `line-${i + 1}`, title: l ? `critical ${time(l.critical_ns)}, busy ${time(l.busy_ns)}, waited ${time(l.stall_ns)}` : null,
      style: l ? `background:rgb(229 72 77 / ${alpha})` : null, onclick: l ? () => timeline.choose(file, i + 1) : null,
    }, el("td", { class: "n" }, l ? percent(l.critical_percent) : ""), el("td", { class: "n" }, l ? time(l.busy_ns) : ""), el("td", { class: "n" }, String(i + 1)), el("td", {}, text));
  });
  const box = el("div", { class: "code" }, el("table", {}, el("tbody", {}, ...rows)));
  $("source").replaceChildren(box);
  const target = line || Math.min(...heat.keys());
  const row = box.querySelector(`#line-${target}`);
  if (row) box.scrollTop = row.offsetTop - box.clientHeight / 3;
}

function drawSource() {
  const files = fileNames.filter((file) => data.texts[file]);
  if (!files.length) { $("source-section").hidden = true; return; }
  $("file").append(...files.map((file) => el("option", { value: file }, shortFile(file))));
  $("file").onchange = () => showFile($("file").value);
  showFile(files[0]);
}

// ---- timeline

// Events of an engine drawn as one where they are all within a pixel.
const GROUP = 64;

const LABELS = 118, AXIS = 24, CRITICAL = 16, ENGINE = 26, LANE = 9, LANES_MAX = 5, GAP = 6;

class Timeline {
  constructor(events, critical) {
    this.events = events;
    this.critical = critical;
    this.canvas = $("canvas");
    this.total = Math.max(profile.total_ns, 1e-3);
    this.view = [0, this.total];
    this.colourBy = "opcode";
    this.showWaits = true;
    this.chosen = null;       // source index set
    this.selected = -1;       // event
    this.layOut();
    this.colourOf();
    this.listen();
    new ResizeObserver(() => this.draw()).observe(this.canvas.parentElement);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    this.drawLegend();
  }

  // Rows: tracks that have events, engines first; each knows its slice of the event table, which is
  // sorted by track and start. Overlapping transfers of a queue go to lanes.
  layOut() {
    const { track, start, duration, count: n } = this.events;
    this.lane = new Uint8Array(n);
    const rows = [];
    for (let first = 0; first < n;) {
      let last = first;
      while (last < n && track[last] === track[first]) last++;
      const info = data.tracks[track[first]];
      const row = { info, first, last, lanes: 1, longest: 0 };
      const free = [];
      for (let i = first; i < last; i++) {
        row.longest = Math.max(row.longest, duration[i]);
        if (info.kind === "engine") continue;
        let lane = free.findIndex((end) => end <= start[i] + 1e-6);
        if (lane < 0) lane = free.length < LANES_MAX ? free.length : free.indexOf(Math.min(...free));
        free[lane] = start[i] + duration[i];
        this.lane[i] = lane;
        row.lanes = Math.max(row.lanes, lane + 1);
      }
      if (info.kind === "engine" && last - first > 20 * GROUP) row.groups = this.group(first, last);
      rows.push(row);
      first = last;
    }
    const kinds = ["engine", "cc_cores", "dma_queue", "dma_engine"];
    rows.sort((a, b) => a.info.core - b.info.core || kinds.indexOf(a.info.kind) - kinds.indexOf(b.info.kind) || a.first - b.first);
    let y = AXIS + CRITICAL + GAP;
    for (const row of rows) {
      row.y = y;
      row.height = row.info.kind === "engine" ? ENGINE : Math.max(ENGINE - 8, row.lanes * LANE);
      y += row.height + GAP;
    }
    this.rows = rows;
    this.height = y + 4;
  }

  // Per GROUP events: when the last ends, how long they and their waits take, and which is the longest.
  group(first, last) {
    const { start, duration, stallTime } = this.events, n = Math.ceil((last - first) / GROUP);
    const groups = { end: new Float64Array(n), busy: new Float32Array(n), wait: new Float32Array(n), longest: new Uint32Array(n) };
    for (let i = first; i < last; i++) {
      const k = Math.floor((i - first) / GROUP);
      if ((i - first) % GROUP === 0) groups.longest[k] = i;
      groups.end[k] = start[i] + duration[i];
      groups.busy[k] += duration[i];
      groups.wait[k] = Math.max(groups.wait[k], stallTime[i]);
      if (duration[i] > duration[groups.longest[k]]) groups.longest[k] = i;
    }
    return groups;
  }

  colourOf() {
    this.opcodeColours = data.opcodes.map(instructionColour);
    const seen = new Set([...profile.opcodes].sort((a, b) => b.busy_ns - a.busy_ns).map((row) => row.opcode));
    this.opcodesSeen = [...seen].map((name) => [name, instructionColour(name)]);
    const hottest = profile.lines.slice(0, LINE_COLOURS.length).filter((line) => line.file);
    const inOrder = [...hottest].sort((a, b) => (a.file === b.file ? a.line - b.line : a.file < b.file ? -1 : 1));
    const colours = new Map(inOrder.map((line, i) => [`${line.file}:${line.line}`, LINE_COLOURS[i]]));
    this.linesSeen = hottest.map((line) => [place(line.file, line.line), colours.get(`${line.file}:${line.line}`)]);
    this.sourceColours = data.sources.map(([file, line]) => colours.get(`${file}:${line}`) || "#8a94a6");
  }
  colour(i) { return this.colourBy === "source" ? this.sourceColours[this.events.source[i]] : this.opcodeColours[this.events.opcode[i]]; }

  drawLegend() {
    const keys = (title, pairs) => el("div", { class: "keys" }, el("span", { class: "dim" }, title),
      ...pairs.map(([name, colour]) => el("span", {}, swatch(colour), name)));
    const drawn = new Set(this.critical.resource);
    const resources = profile.bound_by.shares.map((share) => share.resource).filter((name) => drawn.has(data.resources.indexOf(name)));
    const byLine = this.colourBy === "source";
    $("legend").replaceChildren(
      keys("critical path, by what bounds it:", resources.map((name) => [name, resourceColour(name)])),
      keys(byLine ? "rows, by source line:" : "rows, by instruction:",
        [...(byLine ? this.linesSeen : this.opcodesSeen), ...(byLine ? [["other lines", "#8a94a6"]] : []), ["waiting", "var(--wait)"]]));
  }

  x(t) { return LABELS + (t - this.view[0]) / (this.view[1] - this.view[0]) * (this.width - LABELS - 8); }
  t(x) { return this.view[0] + (x - LABELS) / (this.width - LABELS - 8) * (this.view[1] - this.view[0]); }

  // First event of a row that may reach into the view: those that start up to the longest event before it.
  firstVisible(row) {
    const from = this.view[0] - row.longest;
    let low = row.first, high = row.last;
    while (low < high) { const mid = (low + high) >> 1; if (this.events.start[mid] < from) low = mid + 1; else high = mid; }
    return low;
  }

  // Any number of changes between two frames is one drawing.
  draw() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => { this.frame = 0; this.drawNow(); });
  }

  drawNow() {
    const ratio = devicePixelRatio || 1;
    this.width = this.canvas.parentElement.clientWidth - 2;
    this.canvas.style.height = `${this.height}px`;
    this.canvas.width = Math.round(this.width * ratio);
    this.canvas.height = Math.round(this.height * ratio);
    const style = getComputedStyle(document.documentElement);
    this.ink = style.getPropertyValue("--ink"); this.dim = style.getPropertyValue("--dim");
    this.lineColour = style.getPropertyValue("--line"); this.waitColour = style.getPropertyValue("--wait"); this.panel = style.getPropertyValue("--panel");
    const g = this.g = this.canvas.getContext("2d");
    g.scale(ratio, ratio);
    g.font = "11px system-ui, sans-serif";
    g.textBaseline = "middle";
    this.drawAxis();
    this.drawCritical();
    for (const row of this.rows) this.drawRow(row);
    this.drawSkipped();
    g.globalAlpha = 1;
    if (this.selection) { g.fillStyle = "rgb(37 99 235 / .18)"; g.fillRect(this.selection[0], 0, this.selection[1] - this.selection[0], this.height); }
    $("range").textContent = `${time(this.view[0])} – ${time(this.view[1])} (${time(this.view[1] - this.view[0])})`;
  }

  drawAxis() {
    const g = this.g, span = this.view[1] - this.view[0];
    const raw = span / Math.max(2, (this.width - LABELS) / 110), power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw);
    const unit = step >= 1e6 ? [1e6, "ms"] : step >= 10 ? [1e3, "µs"] : [1, "ns"];
    const digits = Math.max(0, -Math.floor(Math.log10(step / unit[0]) + 1e-9));
    g.fillStyle = this.dim; g.strokeStyle = this.lineColour; g.textAlign = "center";
    for (let t = Math.ceil(this.view[0] / step) * step; t <= this.view[1] + step * 1e-6; t += step) {
      const x = Math.round(this.x(t)) + 0.5;
      g.beginPath(); g.moveTo(x, AXIS - 5); g.lineTo(x, this.height); g.stroke();
      g.fillText(`${(t / unit[0]).toFixed(digits)} ${unit[1]}`, Math.min(x, this.width - 26), AXIS / 2 - 1);
    }
  }

  label(text, y, height) {
    const g = this.g;
    g.fillStyle = this.panel; g.fillRect(0, y - GAP / 2, LABELS - 2, height + GAP);
    g.fillStyle = this.ink; g.textAlign = "right";
    g.fillText(text, LABELS - 10, y + height / 2);
  }

  labelWidth(opcode) {
    this.labelWidths ??= [];
    return this.labelWidths[opcode] ??= this.g.measureText(data.opcodes[opcode]).width;
  }

  drawCritical() {
    const g = this.g, { start, end, resource, count: n } = this.critical;
    let drawn = -1;
    for (let i = 0; i < n; i++) {
      if (end[i] < this.view[0] || start[i] > this.view[1]) continue;
      const x0 = Math.max(this.x(start[i]), LABELS), x1 = Math.min(this.x(end[i]), this.width - 8);
      if (x1 - x0 < 1 && Math.floor(x0) === drawn) continue;
      drawn = Math.floor(x0);
      g.fillStyle = resourceColour(data.resources[resource[i]]);
      g.fillRect(x0, AXIS, Math.max(1, x1 - x0), CRITICAL - 4);
    }
    this.label("critical path", AXIS, CRITICAL - 4);
  }

  // Where iterations were not stepped there is nothing to draw: hatched, with a word in the first row of the core.
  drawSkipped() {
    const g = this.g, right = this.width - 8;
    for (const { core, start_ns, end_ns, text } of data.skipped) {
      const x0 = Math.max(this.x(start_ns), LABELS), x1 = Math.min(this.x(end_ns), right);
      if (x1 - x0 < 1) continue;
      for (const row of this.rows.filter((r) => r.info.core === core)) {
        g.save();
        g.beginPath(); g.rect(x0, row.y, x1 - x0, row.height); g.clip();
        g.strokeStyle = this.waitColour; g.globalAlpha = 0.7;
        g.beginPath();
        for (let x = x0 - row.height; x < x1; x += 8) { g.moveTo(x, row.y + row.height); g.lineTo(x + row.height, row.y); }
        g.stroke();
        g.restore();
      }
      const first = this.rows.find((r) => r.info.core === core);
      if (!first || g.measureText(text).width + 8 > x1 - x0) continue;
      g.fillStyle = this.panel; g.fillRect((x0 + x1 - g.measureText(text).width) / 2 - 4, first.y + 1, g.measureText(text).width + 8, first.height - 2);
      g.fillStyle = this.ink; g.textAlign = "center"; g.fillText(text, (x0 + x1) / 2, first.y + first.height / 2);
    }
  }

  drawRow(row) {
    const g = this.g, { start, duration, stallTime, source } = this.events;
    const right = this.width - 8, engine = row.info.kind === "engine";
    g.fillStyle = this.lineColour; g.globalAlpha = 0.35; g.fillRect(LABELS, row.y, right - LABELS, row.height); g.globalAlpha = 1;
    const lanes = engine ? 1 : row.lanes, h = row.height / lanes;
    // Events narrower than a pixel are added up per pixel and lane and drawn as one column, as opaque as
    // the pixel is full; its colour is that of the event that takes most of it.
    const scale = (right - LABELS) / (this.view[1] - this.view[0]);  // pixels per ns
    const groups = this.chosen || row.last - row.first < 20 * GROUP ? null : row.groups;
    const pending = new Array(lanes).fill(null);
    const painted = Array.from({ length: lanes }, () => ({ until: -1, colour: "" }));
    const flush = (lane) => {
      const p = pending[lane];
      if (!p) return;
      g.globalAlpha = Math.min(1, 0.15 + 0.85 * p.fill);
      g.fillStyle = p.colour; g.fillRect(p.x, row.y + lane * h, 1, h - (lanes > 1 ? 1 : 0));
      g.globalAlpha = 1;
      pending[lane] = null;
    };
    for (let i = this.firstVisible(row); i < row.last && start[i] <= this.view[1] + (this.showWaits && engine ? stallTime[i] : 0); i++) {
      if (groups && (i - row.first) % GROUP === 0) {
        const k = (i - row.first) / GROUP;
        const selected = this.selected >= i && this.selected < i + GROUP;
        if (!selected && (groups.end[k] - start[i]) * scale < 1 && groups.wait[k] * scale < 1) {
          const pixel = Math.max(LABELS, Math.floor(this.x(start[i])));
          if (pending[0] && pending[0].x !== pixel) flush(0);
          const p = pending[0] || (pending[0] = { x: pixel, fill: 0, largest: -1, colour: "" });
          const best = groups.longest[k];
          p.fill += groups.busy[k] * scale;
          if (duration[best] > p.largest) { p.largest = duration[best]; p.colour = this.colour(best); }
          i += GROUP - 1;
          continue;
        }
      }
      const lane = engine ? 0 : this.lane[i];
      const x0 = this.x(start[i]), x1 = this.x(start[i] + duration[i]);
      if (engine && this.showWaits && stallTime[i] > 0) {
        const from = Math.max(this.x(start[i] - stallTime[i]), LABELS), until = Math.min(x0, right);
        if (until - from >= 1) { flush(0); g.fillStyle = this.waitColour; g.globalAlpha = 0.8; g.fillRect(from, row.y + row.height * 0.38, until - from, row.height * 0.24); g.globalAlpha = 1; }
      }
      if (x1 < LABELS || x0 > right) continue;
      const dimmed = this.chosen && !this.chosen.has(source[i]);
      const colour = dimmed ? this.waitColour : this.colour(i);
      if (x1 - x0 < 1.2 && i !== this.selected) {
        const pixel = Math.max(LABELS, Math.floor(x0));
        if (pending[lane] && pending[lane].x !== pixel) flush(lane);
        const p = pending[lane] || (pending[lane] = { x: pixel, fill: 0, largest: -1, colour });
        p.fill += x1 - x0;
        if (!(dimmed && p.largest >= 0) && duration[i] > p.largest) { p.largest = duration[i]; p.colour = colour; }
        continue;
      }
      // Transfers that overlap beyond the lanes there are would be painted over and over.
      const last = painted[lane];
      if (x1 <= last.until + 0.75 && x1 - x0 < 4 && colour === last.colour && i !== this.selected) continue;
      last.until = x1; last.colour = colour;
      flush(lane);
      const from = Math.max(x0, LABELS), width = Math.max(1, Math.min(x1, right) - from - (x1 - x0 > 3 ? 0.5 : 0));
      const y = row.y + lane * h, height = h - (lanes > 1 ? 1 : 0);
      g.fillStyle = colour; g.fillRect(from, y, width, height);
      if (i === this.selected) { g.strokeStyle = this.ink; g.lineWidth = 2; g.strokeRect(from, y, width, height); g.lineWidth = 1; }
      if (width > 30 && height > 12 && !dimmed && width > this.labelWidth(this.events.opcode[i]) + 8) {
        g.fillStyle = inkOn(colour); g.textAlign = "left"; g.fillText(data.opcodes[this.events.opcode[i]], from + 5, y + height / 2);
      }
    }
    for (let lane = 0; lane < lanes; lane++) flush(lane);
    this.label(row.info.name + (profile.cores > 1 && row.info.core === 0 ? " (core 0)" : ""), row.y, row.height);
  }

  eventAt(x, y) {
    const row = this.rows.find((r) => y >= r.y && y < r.y + r.height);
    if (!row || x < LABELS) return -1;
    const { start, duration } = this.events, slack = (this.t(x + 1) - this.t(x));
    const t = this.t(x), lane = row.info.kind === "engine" ? 0 : Math.floor((y - row.y) / (row.height / row.lanes));
    let best = -1, distance = 3 * slack;
    for (let i = this.firstVisible(row); i < row.last && start[i] <= t + 3 * slack; i++) {
      if (row.info.kind !== "engine" && this.lane[i] !== lane) continue;
      const d = t < start[i] ? start[i] - t : Math.max(0, t - start[i] - duration[i]);
      if (d <= distance) { distance = d; best = i; }
    }
    return best;
  }

  skippedAt(x, y) {
    const row = this.rows.find((r) => y >= r.y && y < r.y + r.height), t = this.t(x);
    return row && x >= LABELS ? data.skipped.find((s) => s.core === row.info.core && s.start_ns <= t && t < s.end_ns) : null;
  }

  describe(i) {
    const e = this.events, [file, line, fn] = data.sources[e.source[i]];
    const rows = [el("div", {}, el("b", {}, data.opcodes[e.opcode[i]]), ` on ${data.tracks[e.track[i]].name}, ${time(e.duration[i])} at ${time(e.start[i], 3)}`)];
    if (e.bytes[i]) rows.push(el("div", {}, `${bytes(e.bytes[i])}, ${(e.bytes[i] / e.duration[i]).toFixed(1)} GB/s`));
    if (e.stall[i]) rows.push(el("div", {}, `${data.stalls[e.stall[i]]}${e.stallTime[i] ? `: ${time(e.stallTime[i])} before it` : ""}`));
    rows.push(el("div", { class: "dim" }, `${place(file, line, fn)}${file && fn ? ` in ${fn}` : ""}`));
    const text = sourceText(file, line).trim();
    if (text) rows.push(el("code", {}, text));
    return rows;
  }

  showDetails(i) {
    this.selected = i;
    $("details").hidden = i < 0;
    if (i < 0) return;
    const e = this.events, [file, line] = data.sources[e.source[i]];
    const children = [...this.describe(i), el("div", { class: "dim" }, `instruction ${e.instruction[i]}`)];
    if (e.waitedFor[i] !== 0xFFFFFFFF) {
      const other = this.find(e.waitedFor[i], data.tracks[e.track[i]].core);
      if (other >= 0) children.push(el("button", { onclick: () => { this.reveal(other); } }, `go to what it waited for: ${data.opcodes[e.opcode[other]]}, ${place(...data.sources[e.source[other]])}`));
    }
    $("details").replaceChildren(...children);
    showFile(file, line);
  }
  // The event of an instruction; of a DMA its transfer, which ends the wait.
  find(instruction, core) {
    let found = -1;
    for (let i = 0; i < this.events.count; i++)
      if (this.events.instruction[i] === instruction && data.tracks[this.events.track[i]].core === core && (found < 0 || data.tracks[this.events.track[i]].kind === "dma_queue")) found = i;
    return found;
  }
  reveal(i) {
    const { start, duration } = this.events, span = this.view[1] - this.view[0];
    if (start[i] < this.view[0] || start[i] + duration[i] > this.view[1]) this.setView(start[i] - span / 2, start[i] + span / 2);
    this.showDetails(i);
    this.draw();
  }

  choose(file, line) {
    const same = this.isChosen(file, line);
    this.chosenKey = same ? null : `${file}:${line}`;
    this.chosen = same ? null : new Set(data.sources.map((s, i) => [s, i]).filter(([s]) => s[0] === file && s[1] === line).map(([, i]) => i));
    this.draw();
    if (this.onChoose) this.onChoose();
  }
  isChosen(file, line) { return this.chosenKey === `${file}:${line}`; }

  setView(from, to) {
    const span = Math.min(this.total, Math.max(to - from, 1));
    const begin = Math.min(Math.max(0, from), this.total - span);
    this.view = [begin, begin + span];
    this.draw();
    if (this.onView) this.onView();
  }
  zoom(factor, at = (this.view[0] + this.view[1]) / 2) { this.setView(at - (at - this.view[0]) * factor, at + (this.view[1] - at) * factor); }

  listen() {
    const canvas = this.canvas, at = (event) => { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      const [x] = at(event);
      if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) { const d = event.deltaX * (this.t(1) - this.t(0)); this.setView(this.view[0] + d, this.view[1] + d); }
      else this.zoom(Math.exp(Math.max(-1, Math.min(1, event.deltaY * 0.0025))), this.t(Math.max(LABELS, x)));
    }, { passive: false });
    let drag = null;
    const fingers = new Map();  // pointer -> x; two of them zoom
    let pinch = null;
    const startPinch = () => { const [a, b] = fingers.values(); pinch = { from: this.t(Math.min(a, b)), to: this.t(Math.max(a, b)) }; drag = null; };
    const movePinch = () => {
      const [a, b] = fingers.values(), left = Math.min(a, b), wide = Math.max(Math.abs(a - b), 8);
      const scale = (pinch.to - pinch.from) / wide, inner = this.width - LABELS - 8;
      this.setView(pinch.from - (left - LABELS) * scale, pinch.from + (inner + LABELS - left) * scale);
    };
    const lift = (event) => { fingers.delete(event.pointerId); if (fingers.size < 2) pinch = null; };
    canvas.addEventListener("pointercancel", (event) => { lift(event); drag = null; this.selection = null; canvas.classList.remove("dragging"); });
    canvas.addEventListener("pointerdown", (event) => {
      const [x] = at(event);
      fingers.set(event.pointerId, x);
      canvas.setPointerCapture(event.pointerId);
      if (fingers.size === 2) return startPinch();
      drag = { x, view: this.view, moved: false, range: event.shiftKey };
    });
    canvas.addEventListener("pointermove", (event) => {
      const [x, y] = at(event);
      if (fingers.has(event.pointerId)) fingers.set(event.pointerId, x);
      if (pinch) { movePinch(); return; }
      if (!drag) { if (!fingers.size) this.hover(x, y); return; }
      if (Math.abs(x - drag.x) > 3) drag.moved = true;
      if (!drag.moved) return;
      $("tip").hidden = true;
      canvas.classList.add("dragging");
      if (drag.range) { this.selection = [Math.min(drag.x, x), Math.max(drag.x, x)]; this.draw(); }
      else { const d = (drag.x - x) * (drag.view[1] - drag.view[0]) / (this.width - LABELS - 8); this.setView(drag.view[0] + d, drag.view[1] + d); }
    });
    canvas.addEventListener("pointerup", (event) => {
      const [x, y] = at(event);
      lift(event);
      canvas.classList.remove("dragging");
      if (drag && drag.range && drag.moved) { const [from, to] = this.selection.map((px) => this.t(px)); this.selection = null; this.setView(from, to); }
      else if (drag && !drag.moved) { this.showDetails(this.eventAt(x, y)); this.draw(); }
      drag = null;
    });
    canvas.addEventListener("pointerleave", () => { $("tip").hidden = true; });
    canvas.addEventListener("keydown", (event) => {
      const step = (this.view[1] - this.view[0]) / 5;
      const keys = { "+": () => this.zoom(0.6), "=": () => this.zoom(0.6), "-": () => this.zoom(1 / 0.6), "0": () => this.setView(0, this.total),
        ArrowLeft: () => this.setView(this.view[0] - step, this.view[1] - step), ArrowRight: () => this.setView(this.view[0] + step, this.view[1] + step) };
      if (keys[event.key]) { keys[event.key](); event.preventDefault(); }
    });
    $("zoom-in").onclick = () => this.zoom(0.5);
    $("zoom-out").onclick = () => this.zoom(2);
    $("zoom-all").onclick = () => this.setView(0, this.total);
    $("show-waits").onchange = (event) => { this.showWaits = event.target.checked; this.draw(); };
    $("colour-by").onchange = (event) => { this.colourBy = event.target.value; this.drawLegend(); this.draw(); };
  }

  hover(x, y) {
    const i = this.eventAt(x, y), tip = $("tip"), skipped = i < 0 ? this.skippedAt(x, y) : null;
    tip.hidden = i < 0 && !skipped;
    if (tip.hidden) return;
    tip.replaceChildren(...(skipped ? [el("div", {}, `${skipped.text}: ${time(skipped.end_ns - skipped.start_ns)}`)] : this.describe(i)));
    tip.style.left = `${Math.max(0, Math.min(x + 14, this.width - Math.max(300, tip.offsetWidth)))}px`;
    tip.style.top = `${y + 16}px`;
  }
}

let timeline;
async function main() {
  drawHead();
  drawModel();
  const [events, critical] = await Promise.all([unpack(data.events, EVENT_COLUMNS), unpack(data.critical, CRITICAL_COLUMNS)]);
  timeline = new Timeline(events, critical);
  drawTables(timeline);
  listenToEventTable(timeline);
  drawSource();
  timeline.draw();
}
main().catch((error) => { $("range").textContent = `this page needs a newer browser: ${error}`; throw error; });
