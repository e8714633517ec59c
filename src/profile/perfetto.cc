// The Chrome trace event format: https://ui.perfetto.dev and chrome://tracing read it. Written by hand,
// event by event, because a JSON tree of a million events takes gigabytes.
#include <algorithm>
#include <map>
#include <tuple>

#include "isa/definitions.h"
#include "profile/reports.h"

namespace opentrn::profile {

namespace {

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Transfers of a DMA queue overlap. A thread of the format cannot hold overlapping slices, so a queue
// gets as many threads as it has transfers in flight, "qSyncIn", "qSyncIn +1", ...
class Lanes {
 public:
  uint32_t lane_of(const trace::Event& event) {
    for (size_t lane = 0; lane < free_at_.size(); ++lane)
      if (free_at_[lane] <= event.start_ns) {
        free_at_[lane] = event.end_ns;
        return static_cast<uint32_t>(lane);
      }
    free_at_.push_back(event.end_ns);
    return static_cast<uint32_t>(free_at_.size()) - 1;
  }
  size_t size() const { return free_at_.size(); }

 private:
  std::vector<double> free_at_;
};

constexpr int kLanesMax = 1000;

bool is_transfer(const trace::Trace& trace, const trace::Event& event) {
  return trace.tracks[event.track].kind != trace::TrackKind::kEngine;
}

// How long the event's slice is drawn.
double drawn_ns(const trace::Trace& trace, const trace::Event& event) {
  return is_transfer(trace, event) ? event.end_ns - event.start_ns : event.busy_ns;
}

uint32_t thread_of(const trace::Event& event, uint32_t lane) { return event.track * kLanesMax + lane; }

void write_event(const trace::Trace& trace, const trace::Event& event, uint32_t lane, std::ostream& out) {
  const trace::Track& track = trace.tracks[event.track];
  const double ns = drawn_ns(trace, event);
  out << fmt::format(
      R"({{"ph":"X","pid":{},"tid":{},"ts":{:.4f},"dur":{:.4f},"name":"{}","args":{{"instruction":{})",
      track.core, thread_of(event, lane), event.start_ns / 1e3, ns / 1e3, isa::name(event.opcode),
      event.instruction);
  if (event.file != trace::kEmptyString)
    out << R"(,"source":)" << quoted(fmt::format("{}:{}", trace.strings[event.file], event.line));
  if (event.function != trace::kEmptyString)
    out << R"(,"function":)" << quoted(trace.strings[event.function]);
  if (event.name != trace::kEmptyString) out << R"(,"name":)" << quoted(trace.strings[event.name]);
  if (is_transfer(trace, event)) out << R"(,"bytes":)" << event.bytes;
  if (event.flops > 0) out << fmt::format(R"(,"flops":{})", event.flops);
  if (event.stall != trace::Stall::kNone)
    out << fmt::format(R"(,"stall":"{}","stall_ns":{:.1f})", trace::name(event.stall), event.stall_ns);
  out << "}},\n";
}

// Which events the instructions became: arrows lead from what ended a wait to what waited.
class Producers {
 public:
  explicit Producers(const trace::Trace& trace) : trace_(trace) {
    for (uint32_t i = 0; i < trace.events.size(); ++i) {
      const trace::Event& event = trace.events[i];
      const trace::TrackKind kind = trace.tracks[event.track].kind;
      if (kind == trace::TrackKind::kDmaEngine || event.instruction == trace::kNoIndex) continue;
      made_[key(event, event.instruction, kind == trace::TrackKind::kDmaQueue)].push_back(i);
    }
    const auto ends_before = [this](uint32_t a, uint32_t b) { return end(a) < end(b); };
    for (auto& [key, events] : made_) std::stable_sort(events.begin(), events.end(), ends_before);
  }

  // The last event of the instruction that `event` waited for which had ended by then: of a DMA its transfer,
  // else the instruction that started it. kNoIndex: none is drawn.
  uint32_t of(const trace::Event& event) const {
    for (const bool transfer : {true, false}) {
      const auto found = made_.find(key(event, event.waited_for, transfer));
      if (found == made_.end()) continue;
      const auto later =
          std::upper_bound(found->second.begin(), found->second.end(), event.start_ns + kRounding,
                           [this](double ns, uint32_t other) { return ns < end(other); });
      if (later != found->second.begin()) return *(later - 1);
    }
    return trace::kNoIndex;
  }

 private:
  static constexpr double kRounding = 1e-3;  // ns

  double end(uint32_t i) const { return trace_.events[i].start_ns + drawn_ns(trace_, trace_.events[i]); }
  std::tuple<uint16_t, uint32_t, bool> key(const trace::Event& event, uint32_t instruction,
                                           bool transfer) const {
    return {trace_.tracks[event.track].core, instruction, transfer};
  }

  const trace::Trace& trace_;
  std::map<std::tuple<uint16_t, uint32_t, bool>, std::vector<uint32_t>> made_;
};

// One end of an arrow, a tenth of a nanosecond inside its slice: on an edge the format would bind it to a
// neighbour.
void write_arrow_end(const trace::Trace& trace, const trace::Event& event, uint32_t lane, bool begins,
                     uint64_t id, std::ostream& out) {
  const double inside = std::min(0.1, drawn_ns(trace, event) / 2);
  const double at = begins ? event.start_ns + drawn_ns(trace, event) - inside : event.start_ns + inside;
  out << fmt::format(
      R"({{"ph":"{}","cat":"wait","name":"waits for","id":{},"pid":{},"tid":{},"ts":{:.5f}{}}},)"
      "\n",
      begins ? "s" : "f", id, trace.tracks[event.track].core, thread_of(event, lane), at / 1e3,
      begins ? "" : R"(,"bp":"e")");
}

// From what each event waited for to the event.
void write_arrows(const trace::Trace& trace, const std::vector<uint32_t>& lanes, std::ostream& out) {
  const Producers producers(trace);
  uint64_t id = 0;
  for (uint32_t i = 0; i < trace.events.size(); ++i) {
    const trace::Event& event = trace.events[i];
    if (event.waited_for == trace::kNoIndex || event.stall == trace::Stall::kNone) continue;
    const uint32_t producer = producers.of(event);
    if (producer == trace::kNoIndex) continue;
    write_arrow_end(trace, trace.events[producer], lanes[producer], /*begins=*/true, id, out);
    write_arrow_end(trace, event, lanes[i], /*begins=*/false, id++, out);
  }
}

void write_thread(int core, uint32_t thread, const std::string& name, uint32_t order, std::ostream& out) {
  out << fmt::format(
      R"({{"ph":"M","pid":{0},"tid":{1},"name":"thread_name","args":{{"name":{2}}}}},)"
      "\n"
      R"({{"ph":"M","pid":{0},"tid":{1},"name":"thread_sort_index","args":{{"sort_index":{3}}}}},)"
      "\n",
      core, thread, quoted(name), order);
}

// Rows of their own, above the engines': where iterations were not stepped.
void write_skipped(const trace::Trace& trace, std::ostream& out) {
  const auto thread = static_cast<uint32_t>(trace.tracks.size()) * kLanesMax;
  std::vector<bool> named(static_cast<size_t>(trace.cores));
  for (const trace::Iteration& iteration : trace.iterations) {
    if (iteration.skipped == 0) continue;
    if (!named[iteration.core]) write_thread(iteration.core, thread, "not drawn", 0, out);
    named[iteration.core] = true;
    out << fmt::format(
        R"({{"ph":"X","pid":{},"tid":{},"ts":{:.4f},"dur":{:.4f},"name":"{}","args":{{"iterations":{}}}}},)"
        "\n",
        iteration.core, thread, iteration.end_ns / 1e3, (iteration.skipped_end_ns() - iteration.end_ns) / 1e3,
        iteration.skipped_text(), iteration.skipped);
  }
}

// "": all was stepped.
std::string skipped_note(const trace::Trace& trace) {
  int64_t iterations = 0;
  for (const trace::Iteration& iteration : trace.iterations)
    if (iteration.core == 0) iterations += iteration.skipped;
  if (iterations == 0) return "";
  return fmt::format(
      R"(,"iterations_not_drawn":"{}","note":"loops that became steady were not stepped to their end: )"
      R"(rows 'not drawn' show where iterations like the one before are left out")",
      iterations);
}

}  // namespace

void write_perfetto(const trace::Trace& trace, std::ostream& out) {
  out << R"({"displayTimeUnit":"ns","otherData":{"program":)" << quoted(trace.program)
      << R"(,"is_simulation":"true","neuron_core_version":)"
      << fmt::format("\"{}\"", version(trace.generation)) << skipped_note(trace) << "},\n\"traceEvents\":[\n";
  std::vector<Lanes> lanes(trace.tracks.size());
  std::vector<uint32_t> lane_of_event;
  lane_of_event.reserve(trace.events.size());
  for (const trace::Event& event : trace.events) {
    lane_of_event.push_back(lanes[event.track].lane_of(event));
    write_event(trace, event, lane_of_event.back(), out);
  }
  write_arrows(trace, lane_of_event, out);
  write_skipped(trace, out);
  for (uint32_t t = 0; t < trace.tracks.size(); ++t)
    for (uint32_t lane = 0; lane < lanes[t].size(); ++lane) {
      const std::string& name = trace.strings[trace.tracks[t].name];
      write_thread(trace.tracks[t].core, t * kLanesMax + lane,
                   lane == 0 ? name : fmt::format("{} +{}", name, lane), t * kLanesMax + lane, out);
    }
  for (int core = 0; core < trace.cores; ++core)
    out << fmt::format(R"({{"ph":"M","pid":{0},"name":"process_name","args":{{"name":"NeuronCore {0}"}}}}{1})"
                       "\n",
                       core, core + 1 < trace.cores ? "," : "");
  out << "]}\n";
}

}  // namespace opentrn::profile
