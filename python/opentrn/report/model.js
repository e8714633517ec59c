// ---- sections of a compiled model: layers, roofline, memory over time, data movement, serving
// profile.model is what src/profile/model_json.cc writes; a kernel's page has none.

function svg(tag, attributes = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(attributes)) if (value != null) node.setAttribute(key, value);
  node.append(...children.filter((child) => child != null));
  return node;
}

// A layer with one child and no op of its own is shown together with it.
function throughChain(layer, name) {
  while (layer.children.length === 1 && layer.children[0].ops === layer.ops) {
    layer = layer.children[0];
    name = name ? `${name}/${layer.name}` : layer.name;
  }
  return { layer, name };
}

function layerRows(layer, depth, path) {
  const rows = layer.children.filter((child) => child.instructions > 0).map((child) => {
    const shown = throughChain(child, child.name);
    const full = path ? `${path}/${shown.name}` : shown.name;
    return { layer: shown.layer, name: shown.name, path: full, depth, rows: layerRows(shown.layer, depth + 1, full) };
  });
  // In the order of the model, unless that would hide what takes longest behind "more".
  return rows.length > ROWS_WANTED ? rows.sort((a, b) => b.layer.critical_ns - a.layer.critical_ns) : rows;
}
const countRows = (rows, depth) => rows.reduce((sum, row) => sum + 1 + (depth > 1 ? countRows(row.rows, depth - 1) : 0), 0);
const ROWS_WANTED = 15;

// How deep the whole tree can be shown with at most `wanted` rows.
function depthFor(rows, wanted) {
  let depth = 1;
  while (depth < 12 && countRows(rows, depth + 1) > countRows(rows, depth) && countRows(rows, depth + 1) <= wanted) depth++;
  return depth;
}

const LAYER_COLUMNS = [["layer", "", "of the model, by the framework's names"], ["critical path", "", "every nanosecond of the run belongs to one layer"],
  ["time", "n", "on the critical path"], ["active", "n", "at least one instruction or transfer of it under way; layers overlap"], ["MFU", "n", "while active"],
  ["MBU", "n", "while active"], ["flop", "n", "of the Tensor engine, without transposes"], ["HBM", "n", "read and written"],
  ["moved", "n", "copies, spills and write-backs"], ["transposes", "n", "instructions"], ["bound by", "", "the largest part of its critical path"]];

function layerRow(row, hottest, isOpen, toggle) {
  const { layer } = row, inner = row.rows.length > 0;
  const numbers = [time(layer.critical_ns), time(layer.active_ns), percent(layer.mfu_percent), percent(layer.mbu_percent), layer.tensor_flops ? flops(layer.tensor_flops) : "",
    bytes(layer.hbm_bytes_read + layer.hbm_bytes_written), layer.moved_bytes ? bytes(layer.moved_bytes) : "", layer.transposes ? count(layer.transposes) : ""];
  return el("tr", { class: inner ? "acts" : null, title: row.path, "aria-expanded": inner ? String(isOpen) : null, ...(inner ? acts(toggle) : {}) },
    el("td", { class: "layer", style: `padding-left:${10 + 16 * row.depth}px` }, el("span", { class: "twist" }, inner ? (isOpen ? "▾" : "▸") : ""), row.name),
    el("td", { class: "share" }, el("span", { class: "share" }, el("i", { style: `width:${60 * layer.critical_percent / hottest}px` }), percent(layer.critical_percent))),
    ...numbers.map((text) => el("td", { class: "n" }, text)), el("td", {}, layer.bound_by || ""));
}

// The tree in its own order; ROWS_WANTED rows until asked for more, and what a reader opens is shown.
function layerTable(rows) {
  const open = new Set(), holder = scrolling();
  const visible = (list) => list.flatMap((row) => [row, ...(open.has(row.path) ? visible(row.rows) : [])]);
  // What takes longest is opened, as far as there is room.
  for (let next = true; next;) {
    const all = visible(rows), byTime = [...all].sort((a, b) => b.layer.critical_ns - a.layer.critical_ns);
    next = byTime.find((row) => row.rows.length && !open.has(row.path) && all.length + row.rows.length <= ROWS_WANTED);
    if (next) open.add(next.path);
  }
  const hottest = Math.max(...rows.map((row) => row.layer.critical_percent), 1e-9);
  let limit = ROWS_WANTED;
  const toggle = (row) => {
    if (open.delete(row.path)) limit = Math.max(ROWS_WANTED, limit - row.rows.length);
    else { open.add(row.path); limit += row.rows.length; }
    draw();
  };
  const draw = () => {
    const all = visible(rows);
    const body = el("tbody", {}, ...all.slice(0, limit).map((row) => layerRow(row, hottest, open.has(row.path), () => toggle(row))));
    if (all.length > limit) body.append(moreRow(all.length - limit, LAYER_COLUMNS.length, () => { limit = Infinity; draw(); }));
    const head = LAYER_COLUMNS.map(([text, kind, hint]) => el("th", { class: kind || null, title: hint, scope: "col" }, text));
    holder.firstChild.replaceChildren(el("table", {}, el("thead", {}, el("tr", {}, ...head)), body));
  };
  draw();
  return holder;
}

// ---- plots

const PLOT = { width: 1000, left: 64, right: 14, top: 12, bottom: 40 };
const axisText = (x, y, text, anchor = "middle", extra = {}) => svg("text", { x, y, "text-anchor": anchor, class: "axis", ...extra }, text);

function ticksOf(low, high) {
  const ticks = [];
  for (let power = Math.floor(low); power <= Math.ceil(high); power++) if (power >= low - 1e-9 && power <= high + 1e-9) ticks.push(power);
  return ticks;
}
const powerText = (power) => power >= 0 && power <= 3 ? String(10 ** power) : power < 0 && power >= -2 ? (10 ** power).toFixed(-power) : `1e${power}`;

// Leaves and inner layers of one level: the rows that the table shows first.
function rooflinePoints(rows) {
  const depth = depthFor(rows, 60), points = [];
  const add = (list, left) => list.forEach((row) => {
    if (left > 1 && row.rows.length) return add(row.rows, left - 1);
    const { layer } = row, moved = layer.hbm_bytes_read + layer.hbm_bytes_written;
    if (layer.tensor_flops > 0 && moved > 0 && layer.active_ns > 0)
      points.push({ row, x: layer.tensor_flops / moved, y: layer.tensor_flops / layer.active_ns / 1e3, share: layer.critical_percent });
  });
  add(rows, depth);
  return points;
}

function roofline(rows, model) {
  const points = rooflinePoints(rows), height = 380, { width, left, right, top, bottom } = PLOT;
  const peak = model.tensor_peak_tflops, bandwidth = model.hbm_peak_gb_s / 1e3, ridge = peak / bandwidth;
  if (!points.length) return el("p", { class: "dim" }, "No layer uses both the Tensor engine and HBM.");
  const xs = points.map((p) => Math.log10(p.x)), ys = points.map((p) => Math.log10(p.y));
  const xLow = Math.min(Math.floor(Math.min(...xs)), Math.floor(Math.log10(ridge)) - 1), xHigh = Math.max(Math.ceil(Math.max(...xs) + 0.01), Math.ceil(Math.log10(ridge)) + 1);
  const yHigh = Math.ceil(Math.log10(peak) + 0.05), yLow = Math.min(Math.floor(Math.min(...ys)), yHigh - 3);
  const sx = (x) => left + (Math.log10(x) - xLow) / (xHigh - xLow) * (width - left - right);
  const sy = (y) => height - bottom - (Math.log10(y) - yLow) / (yHigh - yLow) * (height - top - bottom);
  const plot = svg("svg", { viewBox: `0 0 ${width} ${height}`, class: "plot", role: "img", "aria-label": "roofline" });
  for (const power of ticksOf(xLow, xHigh))
    plot.append(svg("line", { x1: sx(10 ** power), x2: sx(10 ** power), y1: top, y2: height - bottom, class: "grid" }), axisText(sx(10 ** power), height - bottom + 16, powerText(power)));
  for (const power of ticksOf(yLow, yHigh))
    plot.append(svg("line", { x1: left, x2: width - right, y1: sy(10 ** power), y2: sy(10 ** power), class: "grid" }), axisText(left - 6, sy(10 ** power) + 4, powerText(power), "end"));
  plot.append(axisText((left + width - right) / 2, height - 6, "arithmetic intensity: flop per byte of HBM traffic"),
    axisText(0, 0, "Tflop/s while active", "middle", { transform: `translate(14 ${(top + height - bottom) / 2}) rotate(-90)` }));
  const floor = 10 ** yLow;
  plot.append(svg("polyline", { class: "roof", points: [[Math.max(floor / bandwidth, 10 ** xLow), Math.max(floor, bandwidth * 10 ** xLow)], [ridge, peak], [10 ** xHigh, peak]].map(([x, y]) => `${sx(x)},${sy(y)}`).join(" ") }),
    axisText(width - right - 4, sy(peak) - 6, `${peak.toFixed(0)} Tflop/s, BF16`, "end"),
    axisText(sx(ridge / 4) + 8, sy(peak / 4) + 12, `HBM ${(bandwidth * 1e3).toFixed(0)} GB/s`, "start"));
  // The largest first, so that small ones lie on top; labels for what takes most time.
  points.sort((a, b) => b.share - a.share);
  const labels = points.map((p) => ({ x: sx(p.x) - 5, y: sy(p.y) - 6, wide: 10 }));
  points.forEach((point, i) => {
    const x = sx(point.x), y = sy(point.y), radius = 4 + Math.sqrt(Math.max(point.share, 0)) * 1.6;
    plot.append(svg("circle", { cx: x, cy: y, r: radius, fill: resourceColour(point.row.layer.bound_by), class: "point" },
      svg("title", {}, `${point.row.path}\n${point.y.toPrecision(3)} Tflop/s at ${point.x.toPrecision(3)} flop/byte, ${percent(point.share)} of the run, bound by ${point.row.layer.bound_by}`)));
    const name = point.row.path.split("/").slice(-2).join("/");
    const text = name.length > 34 ? "…" + name.slice(-33) : name;
    const wide = 6.2 * text.length, fits = x + radius + 4 + wide < width - right;
    const box = { x: fits ? x + radius + 4 : x - radius - 4 - wide, y: y - 6, wide };
    if (i < 16 && labels.every((other) => Math.abs(other.y - box.y) > 13 || other.x + other.wide < box.x || box.x + box.wide < other.x)) {
      labels.push(box);
      plot.append(axisText(box.x, y + 4, text, "start", { class: "label" }));
    }
  });
  const used = [...new Set(points.map((p) => p.row.layer.bound_by))].filter(Boolean);
  return el("div", {}, plot, el("div", { class: "keys" }, el("span", { class: "dim" }, "bound by:"), ...used.map((name) => el("span", {}, swatch(resourceColour(name)), name))));
}

function memoryPlot(curve, totalNs, last) {
  const { width, left, right } = PLOT, top = 22, height = last ? 152 : 128, bottom = last ? 36 : 12;
  const peak = Math.max(curve.peak_bytes, 1), sx = (ns) => left + ns / totalNs * (width - left - right), sy = (b) => height - bottom - b / peak * (height - top - bottom);
  const plot = svg("svg", { viewBox: `0 0 ${width} ${height}`, class: "plot", role: "img", "aria-label": `${curve.memory} over time` });
  let path = `M${sx(0)},${sy(0)}`, now = 0;
  for (const [ns, held] of curve.steps) {
    path += `L${sx(ns).toFixed(1)},${sy(now).toFixed(1)}L${sx(ns).toFixed(1)},${sy(held).toFixed(1)}`;
    now = held;
  }
  path += `L${sx(totalNs)},${sy(now)}L${sx(totalNs)},${sy(0)}Z`;
  const share = curve.capacity_bytes ? ` (${percent(100 * curve.peak_bytes / curve.capacity_bytes)} of ${bytes(curve.capacity_bytes)})` : "";
  plot.append(svg("path", { d: path, class: "area" }), svg("line", { x1: left, x2: width - right, y1: sy(peak), y2: sy(peak), class: "mark" }),
    axisText(left - 6, sy(peak) + 4, bytes(curve.peak_bytes), "end"), axisText(left - 6, sy(0) + 3, "0", "end"),
    axisText(left, 14, `${curve.memory.toUpperCase()}: highest ${bytes(curve.peak_bytes)} at ${time(curve.peak_ns)}${share}`, "start", { class: "label" }));
  if (last) for (let i = 0; i <= 5; i++) plot.append(axisText(sx(totalNs * i / 5), height - bottom + 18, time(totalNs * i / 5), i === 0 ? "start" : i === 5 ? "end" : "middle"));
  return plot;
}

// ---- tables

const money = (usd) => usd == null ? "unknown" : `$${usd >= 1 ? usd.toFixed(2) : usd.toPrecision(3)}`;

function drawModel() {
  const model = profile.model;
  if (!model) return;
  $("model-sections").hidden = false;
  const whole = throughChain(model.layers, "");
  const rows = whole.layer.children.length ? layerRows(whole.layer, 0, "") : layerRows({ children: [model.layers] }, 0, "");
  $("layers-note").textContent = `${count(model.ops)} ops in ${count(model.kernels)} kernels${whole.name ? `, all in ${whole.name}` : ""}; click a row to open or close it`;
  $("layers").append(layerTable(rows));
  $("roofline").append(roofline(rows, model));
  $("memory-curves").append(...model.memory.map((curve, i) => memoryPlot(curve, profile.total_ns, i === model.memory.length - 1)));
  $("movements").append(model.movements.length ? table([
    { title: "what", value: (m) => m.what },
    { title: "caused by", value: (m) => m.name || m.op || "", show: (m) => el("span", { title: m.result }, el("code", {}, m.name || sourceText(m.file, m.line).trim() || m.op), el("div", { class: "place" }, `${m.op}${m.file ? ` at ${place(m.file, m.line)}` : ""}`)) },
    { title: "times", number: true, value: (m) => m.instructions, show: (m) => count(m.instructions) },
    { title: "bytes", number: true, value: (m) => m.bytes, show: (m) => bytes(m.bytes) },
    { title: "busy", number: true, value: (m) => m.busy_ns, show: (m) => time(m.busy_ns) },
    { title: "critical path", number: true, value: (m) => m.critical_ns, show: (m) => time(m.critical_ns) },
  ], model.movements, { limit: 10 }) : el("p", { class: "dim" }, "None."));
  const cost = (key) => (row) => row[key] ? row[key].usd_per_million : Infinity;
  const shown = (key) => (row) => row[key] ? el("span", { title: `${money(row[key].usd_h)} an hour` }, money(row[key].usd_per_million)) : el("span", { class: "dim" }, "unknown");
  $("serving").append(table([
    { title: "instance", value: (s) => s.instance, show: (s) => el("span", {}, s.instance, s.fits ? null : el("span", { class: "place" }, " does not fit")) },
    { title: "chips", number: true, value: (s) => s.chips, show: (s) => `${count(s.chips)} × ${s.chip}` },
    { title: "NeuronCores", number: true, value: (s) => s.cores, show: (s) => count(s.cores) },
    { title: "latency", number: true, value: (s) => s.latency_us, show: (s) => time(1e3 * s.latency_us) },
    { title: "inferences/s", number: true, value: (s) => s.inferences_per_s, show: (s) => count(Math.round(s.inferences_per_s)) },
    { title: "$ per million, on demand", number: true, value: cost("on_demand"), show: shown("on_demand") },
    { title: "reserved, 3 years", number: true, value: cost("reserved_3_years"), show: shown("reserved_3_years") },
    { title: "capacity block", number: true, value: cost("capacity_block"), show: shown("capacity_block") },
  ], model.serving));
  if (model.host.calls.length) {
    const unknown = () => el("span", { class: "dim" }, "unknown");
    $("host-section").hidden = false;
    $("host").append(table([
      { title: "op", value: (h) => h.op, show: (h) => el("span", {}, h.op, " ", el("span", { class: "place" }, h.name || `${h.file}:${h.line}`)) },
      { title: "bytes", number: true, value: (h) => h.bytes, show: (h) => bytes(h.bytes) },
      { title: "transfer", number: true, value: (h) => h.transfer_us ?? Infinity, show: (h) => h.transfer_us == null ? unknown() : time(1e3 * h.transfer_us) },
      { title: "computing", number: true, value: (h) => h.compute_us ?? Infinity, show: (h) => h.compute_us == null ? unknown() : time(1e3 * h.compute_us) },
    ], model.host.calls, { limit: 10 }));
    $("host-note").textContent = `Assumed: ${model.host.assumptions}. Serving rates below are an upper bound.`;
  }
  $("serving-note").textContent = `Assumed: ${model.serving_assumptions}. Latency counts ${time(1e3 * model.launch_us)} of launch. Prices not published are unknown.`;
}
