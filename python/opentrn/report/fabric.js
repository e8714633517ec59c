"use strict";
// What collectives did to the fabric (src/traffic): ranks over time, links over time, and a table of collectives.
// Needs nothing of the other scripts.

const FABRIC_ROWS = 16;
const FABRIC_COLOURS = { compute: "#4c78a8", hidden: "#7fbf7b", exposed: "#e5484d", waiting: "#f5a623" };

function drawFabric(traffic, root) {
  const SVG = "http://www.w3.org/2000/svg";
  const node = (tag, attributes = {}, ...children) => {
    const made = document.createElement(tag);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  };
  const us = (ns) => ns >= 1e6 ? `${(ns / 1e6).toFixed(2)} ms` : `${(ns / 1e3).toFixed(2)} µs`;
  const size = (bytes) => bytes >= 2 ** 20 ? `${(bytes / 2 ** 20).toFixed(1)} MiB` : bytes >= 1024 ? `${(bytes / 1024).toFixed(1)} KiB` : `${bytes} B`;
  const width = 1160, label = 250, right = 70, plot = width - label - right;
  const x = (ns) => label + plot * Math.min(1, ns / (traffic.total_ns || 1));

  // The ranks where most is exposed, in order of their numbers.
  const worst = traffic.ranks.map((rank, number) => ({ rank, number }))
    .sort((a, b) => b.rank.exposed_ns - a.rank.exposed_ns || a.number - b.number).slice(0, FABRIC_ROWS).sort((a, b) => a.number - b.number);
  const links = traffic.links.slice(0, 10);
  const rowHeight = 26, linkHeight = 18, top = 20;
  const height = top + worst.length * rowHeight + 30 + links.length * linkHeight + 22;
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", `ranks and links over time. ${traffic.verdict}`);
  // On a narrow screen it is scrolled: its letters would not be read.
  svg.style.cssText = "width:100%;min-width:900px;display:block;font-size:12px";
  const add = (tag, attributes, text, title) => {
    const made = document.createElementNS(SVG, tag);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text != null) made.textContent = text;
    if (title) { const tip = document.createElementNS(SVG, "title"); tip.textContent = title; made.append(tip); }
    svg.append(made);
  };
  const bar = (from, to, y, tall, fill, title, opacity = 1) => add("rect", { x: x(from), y, width: Math.max(0.6, x(to) - x(from)), height: tall, fill, opacity }, null, title);
  const word = (text, at, y, anchor = "start", dim = false) => add("text", { x: at, y, "text-anchor": anchor, fill: dim ? "var(--dim)" : "var(--ink)" }, text);

  for (let part = 0; part <= 8; part++) {
    const ns = traffic.total_ns * part / 8;
    add("line", { x1: x(ns), x2: x(ns), y1: top - 4, y2: height - 20, stroke: "var(--line)" });
    word(us(ns), x(ns), top - 8, part === 0 ? "start" : part === 8 ? "end" : "middle", true);
  }
  word("exposed", width, top - 8, "end", true);
  let y = top;
  for (const { rank, number } of worst) {
    word(rank.name, label - 10, y + 15, "end");
    for (const [from, to] of rank.compute) bar(from, to, y + 2, 9, FABRIC_COLOURS.compute, `${rank.name}: compute ${us(from)} to ${us(to)}`);
    for (const one of traffic.collectives) {
      const member = one.group.indexOf(number);
      if (member < 0) continue;
      const what = `${one.name}, ${one.algorithm}, ${size(one.bytes)}: triggered ${us(one.triggered_ns[member])}, starts ${us(one.start_ns)}, ends ${us(one.ended_ns[member])}`;
      const pieces = [[one.arrived_ns[member], one.start_ns, "waiting"], [one.start_ns, one.ended_ns[member], "exposed"]];
      for (const [from, to, kind] of pieces) {
        if (to <= from) continue;
        bar(from, to, y + 12, 9, FABRIC_COLOURS[kind], kind === "waiting" ? `waits for rank ${one.slowest_rank}: ${what}` : `exposed: ${what}`);
        // Beside compute it costs nothing.
        for (const [begin, end] of rank.compute) {
          const first = Math.max(begin, from), last = Math.min(end, to);
          if (last > first) bar(first, last, y + 12, 9, FABRIC_COLOURS.hidden, `beside compute: ${what}`);
        }
      }
    }
    word(us(rank.exposed_ns), width, y + 15, "end");
    y += rowHeight;
  }
  y += 22;
  word("busiest links", label - 10, y - 6, "end", true);
  word("% while collectives run", width, y - 6, "end", true);
  for (const link of links) {
    const name = `${link.kind} ${link.name}`.replaceAll("server 0 ", "");
    add("text", { x: label - 10, y: y + 12, "text-anchor": "end", fill: "var(--ink)", "font-size": name.length > 38 ? 10 : 12 },
      name.length > 42 ? `${name.slice(0, 41)}…` : name, `${link.kind} ${link.name}, ${link.gb_s.toFixed(0)} GB/s, ${size(link.bytes)}`);
    const parts = link.percent_over_time, each = traffic.total_ns / parts.length;
    add("rect", { x: label, y, width: plot, height: linkHeight - 4, fill: "var(--row)" });
    for (let part = 0; part < parts.length;) {
      let end = part + 1;
      while (end < parts.length && Math.round(parts[end]) === Math.round(parts[part])) end++;
      if (parts[part] > 0.5) bar(part * each, end * each, y, linkHeight - 4, FABRIC_COLOURS.exposed, `${parts[part].toFixed(0)} % of ${link.gb_s.toFixed(0)} GB/s`, 0.12 + 0.88 * Math.min(1, parts[part] / 100));
      part = end;
    }
    word(`${link.percent.toFixed(0)} %`, width, y + 12, "end");
    y += linkHeight;
  }

  const key = (kind, text) => node("span", {}, node("span", { class: "swatch", style: `background:${FABRIC_COLOURS[kind]}` }), text);
  const keys = node("div", { class: "keys" }, key("compute", "compute and own transfers"), key("hidden", "collective (CC-cores) beside compute"),
    key("exposed", "collective that nothing hides; a link in use"), key("waiting", "waits for a later rank"));
  const table = (titles, rows) => node("div", { class: "scroll" }, node("table", {}, node("thead", {}, node("tr", {}, ...titles.map(([title, numeric]) => node("th", numeric ? { class: "n" } : {}, title)))),
    node("tbody", {}, ...rows.map((row) => node("tr", {}, ...row.map((text, i) => node("td", { ...(titles[i][1] ? { class: "n" } : {}) }, String(text))))))));
  const taken = (one) => Math.round(one.times * (one.end_ns - one.start_ns));  // equal ones in the order of their starts
  const longest = [...traffic.collectives].sort((a, b) => taken(b) - taken(a) || a.start_ns - b.start_ns).slice(0, 40);
  const rows = longest.map((one) => [one.name + (one.times > 1 ? ` ×${one.times}` : ""), one.algorithm, us(one.start_ns), us(one.end_ns - one.start_ns), us(one.arrival_spread_ns),
    one.arrival_spread_ns > 0 ? one.slowest_rank : "–", size(one.bytes), one.algorithm_gb_s.toFixed(1), one.bus_gb_s.toFixed(1), one.group.length, one.stream, one.where.split("/").pop()]);
  const notes = [traffic.ranks.length > worst.length ? `${worst.length} of ${traffic.ranks.length} ranks, those where most is exposed` : "", traffic.ranks_note,
    traffic.links.length ? `${links.length} of ${traffic.links_used} links that carry something` : "",
    traffic.collectives.length > longest.length ? `the ${longest.length} longest of ${traffic.collectives.length} collectives` : "", traffic.band, ...traffic.assumptions, ...traffic.basis].filter(Boolean);
  root.replaceChildren(node("h2", {}, "Fabric ", node("small", {}, `${traffic.title} on ${traffic.machine}`)), node("p", {}, node("b", {}, traffic.verdict)), node("div", { class: "scroll" }, svg), keys,
    table([["collective"], ["algorithm"], ["starts", 1], ["takes", 1], ["arrivals spread", 1], ["last rank", 1], ["size", 1], ["algorithm GB/s", 1], ["bus GB/s", 1], ["ranks", 1], ["CC-core stream", 1], ["line"]], rows),
    ...notes.map((text) => node("p", { class: "dim hint" }, text)));
}
