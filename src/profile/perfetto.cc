// The Chrome trace event format: https://ui.perfetto.dev and chrome://tracing read it. Written by hand,
// event by event, because a JSON tree of a million events takes gigabytes.
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
  int lane_of(const trace::Event& event) {
    for (size_t lane = 0; lane < free_at_.size(); ++lane)
      if (free_at_[lane] <= event.start_ns) {
        free_at_[lane] = event.end_ns;
        return static_cast<int>(lane);
      }
    free_at_.push_back(event.end_ns);
    return static_cast<int>(free_at_.size()) - 1;
  }
  size_t size() const { return free_at_.size(); }

 private:
  std::vector<double> free_at_;
};

constexpr int kLanesMax = 1000;

void write_event(const trace::Trace& trace, const trace::Event& event, int lane, std::ostream& out) {
  const trace::Track& track = trace.tracks[event.track];
  const bool transfer = track.kind != trace::TrackKind::kEngine;
  const double ns = transfer ? event.end_ns - event.start_ns : event.busy_ns;
  out << fmt::format(
      R"({{"ph":"X","pid":{},"tid":{},"ts":{:.4f},"dur":{:.4f},"name":"{}","args":{{"instruction":{})",
      track.core, event.track * kLanesMax + static_cast<uint32_t>(lane), event.start_ns / 1e3, ns / 1e3,
      isa::name(event.opcode), event.instruction);
  if (event.file != trace::kEmptyString)
    out << R"(,"source":)" << quoted(fmt::format("{}:{}", trace.strings[event.file], event.line));
  if (event.function != trace::kEmptyString)
    out << R"(,"function":)" << quoted(trace.strings[event.function]);
  if (event.name != trace::kEmptyString) out << R"(,"name":)" << quoted(trace.strings[event.name]);
  if (transfer) out << R"(,"bytes":)" << event.bytes;
  if (event.flops > 0) out << fmt::format(R"(,"flops":{})", event.flops);
  if (event.stall != trace::Stall::kNone)
    out << fmt::format(R"(,"stall":"{}","stall_ns":{:.1f})", trace::name(event.stall), event.stall_ns);
  out << "}},\n";
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
      << R"(,"is_simulation":"true","neuron_core_version":)" << fmt::format("\"{}\"", trace.generation)
      << skipped_note(trace) << "},\n\"traceEvents\":[\n";
  std::vector<Lanes> lanes(trace.tracks.size());
  for (const trace::Event& event : trace.events)
    write_event(trace, event, lanes[event.track].lane_of(event), out);
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
