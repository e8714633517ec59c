#include "profile/page.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <map>
#include <numeric>
#include <tuple>
#include <vector>

#include "isa/definitions.h"

namespace opentrn::profile {
namespace {

using nlohmann::ordered_json;

static_assert(std::endian::native == std::endian::little, "columns are written as they lie in memory");

// value(row): what the column has of it.
template <typename Stored, typename Rows, typename Value>
void append_column(std::string& out, const Rows& rows, Value value) {
  for (const auto& row : rows) {
    const auto stored = static_cast<Stored>(value(*row));
    out.append(reinterpret_cast<const char*>(&stored), sizeof stored);
  }
}

using Events = std::vector<const trace::Event*>;

Events by_track_and_start(const trace::Trace& trace) {
  Events events;
  for (const trace::Event& event : trace.events) events.push_back(&event);
  std::ranges::stable_sort(events, [](const trace::Event* a, const trace::Event* b) {
    return std::tie(a->track, a->start_ns) < std::tie(b->track, b->start_ns);
  });
  return events;
}

// An engine is occupied for less long than until its result is seen; a transfer is not.
double duration_ns(const trace::Trace& trace, const trace::Event& event) {
  const bool engine = trace.tracks[event.track].kind == trace::TrackKind::kEngine;
  return engine ? event.busy_ns : event.end_ns - event.start_ns;
}

template <typename Count, typename Name>
ordered_json names(Count count, Name name) {
  auto all = ordered_json::array();
  for (int i = 0; i < count; ++i) all.push_back(name(i));
  return all;
}

}  // namespace

PageColumns page_columns(const trace::Trace& trace) {
  PageColumns columns;
  const Events events = by_track_and_start(trace);
  std::map<std::tuple<trace::StringId, int32_t, trace::StringId>, uint32_t> numbers;
  const auto source = [&](const trace::Event& e) {
    const auto [it, added] =
        numbers.try_emplace({e.file, e.line, e.function}, static_cast<uint32_t>(numbers.size()));
    if (added) columns.sources.push_back({trace.strings[e.file], e.line, trace.strings[e.function]});
    return it->second;
  };
  std::string& out = columns.events;
  columns.event_count = events.size();
  append_column<double>(out, events, [](const trace::Event& e) { return e.start_ns; });
  append_column<float>(out, events, [&](const trace::Event& e) { return duration_ns(trace, e); });
  append_column<float>(out, events, [](const trace::Event& e) { return e.stall_ns; });
  append_column<float>(out, events, [](const trace::Event& e) { return e.bytes; });
  append_column<uint32_t>(out, events, [](const trace::Event& e) { return e.instruction; });
  append_column<uint32_t>(out, events, [](const trace::Event& e) { return e.waited_for; });
  append_column<uint32_t>(out, events, source);
  append_column<uint16_t>(out, events, [](const trace::Event& e) { return e.track; });
  append_column<uint8_t>(out, events, [](const trace::Event& e) { return e.opcode; });
  append_column<uint8_t>(out, events, [](const trace::Event& e) { return e.stall; });

  std::vector<const trace::CriticalSegment*> path;
  for (const trace::CriticalSegment& segment : trace.critical_path) path.push_back(&segment);
  std::ranges::reverse(path);
  columns.critical_count = path.size();
  using Segment = trace::CriticalSegment;
  append_column<double>(columns.critical, path, [](const Segment& s) { return s.start_ns; });
  append_column<double>(columns.critical, path, [](const Segment& s) { return s.end_ns; });
  append_column<uint32_t>(columns.critical, path, [](const Segment& s) { return s.instruction; });
  append_column<uint8_t>(columns.critical, path, [](const Segment& s) { return s.resource; });
  return columns;
}

ordered_json tracks_json(const trace::Trace& trace) {
  constexpr std::string_view kKinds[] = {"engine", "dma_queue", "dma_engine", "cc_cores"};
  auto rows = ordered_json::array();
  for (const trace::Track& track : trace.tracks)
    rows.push_back({{"kind", kKinds[static_cast<size_t>(track.kind)]},
                    {"name", trace.strings[track.name]},
                    {"engine", isa::name(track.engine)},
                    {"core", track.core}});
  return rows;
}

ordered_json skipped_json(const trace::Trace& trace) {
  auto rows = ordered_json::array();
  for (const trace::Iteration& iteration : trace.iterations)
    if (iteration.skipped > 0)
      rows.push_back({{"core", iteration.core},
                      {"start_ns", iteration.end_ns},
                      {"end_ns", iteration.skipped_end_ns()},
                      {"iterations", iteration.skipped},
                      {"text", iteration.skipped_text()}});
  return rows;
}

ordered_json page_json(const trace::Trace& trace, const PageColumns& columns) {
  return {
      {"tracks", tracks_json(trace)},
      {"skipped", skipped_json(trace)},
      {"opcodes", names(isa::kOpcodeCount, [](int i) { return isa::name(static_cast<isa::Opcode>(i)); })},
      {"stalls", names(trace::kStallCount, [](int i) { return trace::name(static_cast<trace::Stall>(i)); })},
      {"resources",
       names(trace::kResourceCount, [](int i) { return trace::name(static_cast<trace::Resource>(i)); })},
      {"sources", columns.sources},
      {"events", {{"count", columns.event_count}}},
      {"critical", {{"count", columns.critical_count}}}};
}

}  // namespace opentrn::profile
