#include <algorithm>
#include <cmath>
#include <map>

#include "isa/definitions.h"
#include "profile/reports.h"
#include "profile/text_format.h"

namespace opentrn::profile {

namespace {

constexpr size_t kLineWidth = 79;  // of a terminal that nobody has resized

std::string last_folders(const std::string& file, int folders) {
  if (file.empty()) return file;  // a model that names no source
  size_t slash = file.size();
  while (folders-- >= 0 && slash != std::string::npos && slash > 0) slash = file.rfind('/', slash - 1);
  return slash == std::string::npos ? file : file.substr(slash + 1);
}

// "file.py:12", with as many folders as tell the profile's files apart.
class Places {
 public:
  explicit Places(const Profile& profile) {
    for (const Line& line : profile.lines) names_[line.file];
    for (auto& [file, name] : names_)
      for (int folders = 0; folders < 8; ++folders)
        if (name = last_folders(file, folders); shared(name, folders) <= 1) break;
  }
  std::string operator()(const Line& line, size_t width) const {
    if (line.file.empty()) return line.function.empty() ? "(no source line)" : end_of(line.function, width);
    return end_of(fmt::format("{}:{}", names_.at(line.file), line.line), width);
  }
  // What the rows are: nodes of a model that has no source.
  bool are_nodes() const { return names_.size() == 1 && names_.begin()->first.empty(); }

 private:
  static std::string end_of(const std::string& text, size_t width) {
    return text.size() <= width ? text : "..." + text.substr(text.size() - width + 3);
  }
  size_t shared(const std::string& name, int folders) const {
    return static_cast<size_t>(std::ranges::count_if(
        names_, [&](const auto& entry) { return last_folders(entry.first, folders) == name; }));
  }
  std::map<std::string, std::string> names_;
};

std::string mix(const Line& line, size_t width) {
  std::string text;
  for (const OpcodeCount& opcode : line.opcodes) {
    const std::string part =
        fmt::format("{}{} x{}", text.empty() ? "" : ", ", isa::name(opcode.opcode), opcode.count);
    if (text.size() + part.size() > width) return text + (text.empty() ? part.substr(0, width) : " ...");
    text += part;
  }
  return text;
}

std::string head(const Profile& p) {
  const trace::Summary& s = p.summary;
  std::string out = fmt::format("{}, {} instructions on {} x {}\n{} predicted", s.program, s.instructions,
                                s.cores, name(s.generation), time_text(s.total_ns));
  if (s.launch_ns > 0) out += fmt::format(", and {} to launch", time_text(s.launch_ns));
  out += '\n';
  if (s.extrapolated_ns > 0)
    out += fmt::format("{} of it extrapolated from the last steady iterations of loops\n",
                       time_text(s.extrapolated_ns));
  if (p.bound_by.empty()) return out;
  std::string line = fmt::format("bound by {}:", trace::name(p.bound_by[0].resource));
  for (size_t i = 0; i < p.bound_by.size() && p.bound_by[i].percent >= 0.5; ++i) {
    const std::string part = fmt::format("{} {} {:.0f} %", i ? "," : "", trace::name(p.bound_by[i].resource),
                                         p.bound_by[i].percent);
    if (line.size() + part.size() > kLineWidth) break;
    line += part;
  }
  // The other resources name what to use less of; descriptors are the price of many short pieces.
  if (p.bound_by[0].resource == trace::Resource::kDescriptors)
    line +=
        "\n  try: fewer and longer DMA pieces: whole rows instead of elements, transposes on the Tensor "
        "engine";
  return out + line + "\n";
}

std::string utilisation(const Profile& p) {
  const trace::Summary& s = p.summary;
  std::string out = "\nUtilisation\n";
  Table table({"", "", ""}, 1);
  const auto row = [&table](std::string what, std::string value, std::string of) {
    table.row({std::move(what), std::move(value), std::move(of)});
  };
  row("MFU (Tensor engine, of the BF16 peak)", percent_text(p.mfu_estimated_percent),
      flops_text(s.tensor_flops()));
  if (p.hfu_estimated_percent > p.mfu_estimated_percent)
    row("HFU (with transposes)", percent_text(p.hfu_estimated_percent), "");
  row("MBU (of the HBM stack)", percent_text(p.mbu_estimated_percent),
      bytes_text(static_cast<double>(s.dma.hbm_bytes_read + s.dma.hbm_bytes_written)));
  if (p.arithmetic_intensity > 0)
    row("arithmetic intensity, flop/byte", fmt::format("{:.1f}", p.arithmetic_intensity),
        fmt::format("ridge {:.0f}", p.ridge_intensity));
  const Memory& m = p.memory;
  row("SBUF high water, per partition", bytes_text(static_cast<double>(m.sbuf_bytes_per_partition_used)),
      m.sbuf_bytes_per_partition_limit < 0
          ? ""
          : "of " + bytes_text(static_cast<double>(m.sbuf_bytes_per_partition_limit)));
  row("PSUM high water, banks", fmt::format("{}", m.psum_banks_used),
      m.psum_banks_limit < 0 ? "" : fmt::format("of {}", m.psum_banks_limit));
  row("spilled to HBM", bytes_text(static_cast<double>(m.spill_save_bytes)),
      m.spill_reload_bytes > 0 ? "reloaded " + bytes_text(static_cast<double>(m.spill_reload_bytes)) : "");
  const std::string rows = table.str();
  return out + rows.substr(rows.find('\n') + 1);
}

std::string engines(const Profile& p) {
  Table table({"engine", "instructions", "busy", "active", "waiting: engine", "DMA", "other"}, 1);
  for (const Engine& e : p.engines)
    if (e.totals.instructions > 0)
      table.row({std::string(isa::name(e.engine)), fmt::format("{}", e.totals.instructions),
                 time_text(e.totals.busy_ns), percent_text(e.active_percent),
                 time_text(e.totals.stall_engine_ns), time_text(e.totals.stall_dma_ns),
                 time_text(e.totals.stall_other_ns)});
  return "\nEngines\n" + table.str();
}

std::string dma(const Profile& p) {
  const trace::DmaTotals& d = p.summary.dma;
  if (d.transfers == 0) return "";
  std::string out = fmt::format("\nDMA: {} transfers, {} descriptors of {} each\n  {} in {}", d.transfers,
                                d.descriptors, bytes_text(p.bytes_per_descriptor),
                                bytes_text(static_cast<double>(d.bytes)), time_text(d.active_ns));
  if (d.active_ns > 0) out += fmt::format(" ({:.1f} GB/s)", static_cast<double>(d.bytes) / d.active_ns);
  if (d.engine_busy_ns > 0)
    out += fmt::format("; {:.0f} % of the engines' rate while busy", 100 * d.efficiency);
  Table table({"queue", "transfers", "bytes", "active", "GB/s", "latency: mean", "max"}, 1);
  for (const DmaQueue& q : p.queues)
    table.row({q.name, fmt::format("{}", q.transfers), bytes_text(static_cast<double>(q.bytes)),
               time_text(q.active_ns), fmt::format("{:.1f}", q.achieved_gb_s), time_text(q.latency_mean_ns),
               time_text(q.latency_max_ns)});
  return out + "\n" + table.str();
}

std::string lines(const Profile& p, const Places& places, const TextOptions& options) {
  Table table({places.are_nodes() ? "node" : "source line", "critical path", "share", "busy", "waited",
               "instructions"},
              1, 5);
  const auto count = std::min<size_t>(p.lines.size(), static_cast<size_t>(options.lines_max));
  for (size_t i = 0; i < count; ++i) {
    const Line& line = p.lines[i];
    const double share = p.summary.total_ns > 0 ? 100 * line.critical_ns / p.summary.total_ns : 0;
    table.row({places(line, 34), time_text(line.critical_ns), percent_text(share), time_text(line.busy_ns),
               time_text(line.stall_ns), mix(line, 36)});
  }
  std::string out = places.are_nodes() ? "\nHottest nodes of the model\n" : "\nHottest source lines\n";
  out += table.str();
  if (count < p.lines.size()) out += fmt::format("  ... and {} more\n", p.lines.size() - count);
  return out;
}

constexpr std::string_view kWaitingFor = "waiting for ";

std::string waits(const Profile& p, const Places& places, const TextOptions& options) {
  if (p.waits.empty()) return "";
  Table table({"engine", "idle at", "because of", "", "waits for", "time", "times"}, 5);
  const auto count = std::min<size_t>(p.waits.size(), static_cast<size_t>(options.lines_max));
  for (size_t i = 0; i < count; ++i) {
    const Wait& w = p.waits[i];
    const Line &waiting = p.lines[w.waiting], &cause = p.lines[w.waited_for];
    const bool same_file = !cause.file.empty() && waiting.file == cause.file;
    std::string_view reason = trace::name(w.cause);
    if (reason.starts_with(kWaitingFor)) reason.remove_prefix(kWaitingFor.size());
    table.row({std::string(isa::name(w.engine)), places(waiting, 24),
               same_file ? fmt::format("line {}", cause.line) : places(cause, 24),
               std::string(isa::name(w.waited_for_opcode)), std::string(reason), time_text(w.ns),
               fmt::format("{}", w.count)});
  }
  return "\nWho waited for whom\n" + table.str();
}

}  // namespace

std::string text(const Profile& profile, const TextOptions& options) {
  const Places places(profile);
  return head(profile) + utilisation(profile) + engines(profile) + dma(profile) +
         lines(profile, places, options) + waits(profile, places, options);
}

}  // namespace opentrn::profile
