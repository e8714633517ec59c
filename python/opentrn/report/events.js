// ---- the events in view as a table: what the canvas draws, for those who read it by ear or by keyboard

const EVENTS_LISTED = 2000;

// Indices of the events that touch the view, by start; at most EVENTS_LISTED, and how many there are.
function eventsInView(timeline) {
  const { start, duration } = timeline.events, [from, to] = timeline.view, found = [];
  let total = 0;
  for (const row of timeline.rows)
    for (let i = timeline.firstVisible(row); i < row.last && start[i] <= to; i++) {
      if (start[i] + duration[i] < from) continue;
      total++;
      found.push(i);
      // Of millions only the first stay in memory: rows are sorted by start, so each may end early.
      if (found.length >= 20 * EVENTS_LISTED) {
        found.sort((a, b) => start[a] - start[b]);
        found.length = EVENTS_LISTED;
      }
    }
  found.sort((a, b) => start[a] - start[b]);
  return { events: found.slice(0, EVENTS_LISTED), total };
}

function eventTable(timeline) {
  const e = timeline.events, { events, total } = eventsInView(timeline);
  const source = (i) => data.sources[e.source[i]];
  const note = `${count(total)} events between ${time(timeline.view[0])} and ${time(timeline.view[1])}`
    + (total > events.length ? `; the first ${count(events.length)} are listed, zoom in for others` : "");
  return [el("p", { class: "dim hint" }, note), table([
    { title: "start", number: true, value: (i) => e.start[i], show: (i) => time(e.start[i], 3) },
    { title: "duration", number: true, value: (i) => e.duration[i], show: (i) => time(e.duration[i]) },
    { title: "row", value: (i) => data.tracks[e.track[i]].name },
    { title: "instruction", value: (i) => data.opcodes[e.opcode[i]] },
    { title: "source line", value: (i) => place(source(i)[0], source(i)[1]) },
    { title: "waited before", number: true, value: (i) => e.stallTime[i], show: (i) => e.stallTime[i] ? time(e.stallTime[i]) : "" },
    { title: "reason", value: (i) => e.stall[i] ? data.stalls[e.stall[i]] : "" },
  ], events, { onRow: (i) => timeline.reveal(i) })];
}

// The table is made while it is open, and again when the view changes.
function listenToEventTable(timeline) {
  const holder = $("event-table");
  const fill = () => { if (holder.open) $("events").replaceChildren(...eventTable(timeline)); };
  holder.addEventListener("toggle", fill);
  timeline.onView = () => { clearTimeout(listenToEventTable.due); listenToEventTable.due = setTimeout(fill, 200); };
}
