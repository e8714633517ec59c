#include <algorithm>

#include <fmt/format.h>

#include "profile/reports.h"
#include "profile/text_format.h"

namespace opentrn::profile {

namespace {

constexpr size_t kNameWidth = 30;
constexpr size_t kRowsWanted = 30;
constexpr size_t kCurveColumns = 60;

std::string shortened(const std::string& text, size_t width) {
  return text.size() <= width ? text : "..." + text.substr(text.size() - width + 3);
}

// Layers with one child and nothing of their own are written with it, "encoder/layer.0".
const Layer& through_chain(const Layer& layer, std::string& name) {
  const Layer* at = &layer;
  while (at->children.size() == 1 && at->ops == at->children[0].ops) {
    at = &at->children[0];
    name += (name.empty() ? "" : "/") + at->name;
  }
  return *at;
}

size_t rows_of(const Layer& layer, int depth) {
  size_t rows = 0;
  for (const Layer& child : layer.children) {
    std::string name = child.name;
    const Layer& shown = through_chain(child, name);
    rows += 1 + (depth > 1 ? rows_of(shown, depth - 1) : 0);
  }
  return rows;
}

// As deep as kRowsWanted allows, at least one level.
int usual_depth(const Layer& whole) {
  int depth = 1;
  while (depth < 16 && rows_of(whole, depth + 1) > rows_of(whole, depth) &&
         rows_of(whole, depth + 1) <= kRowsWanted)
    ++depth;
  return depth;
}

// Critical time that a layer must have for one of the `rows_max` rows of a level.
double least_shown(const Layer& layer, size_t rows_max) {
  std::vector<double> times;
  for (const Layer& child : layer.children) times.push_back(child.critical_ns);
  if (times.size() <= rows_max) return 0;
  std::ranges::nth_element(times, times.begin() + static_cast<std::ptrdiff_t>(rows_max) - 1,
                           std::ranges::greater{});
  return times[rows_max - 1];
}

void add_rows(Table& table, const Layer& layer, int indent, int depth, double total_ns) {
  const double least_ns = least_shown(layer, kRowsWanted);
  size_t left_out = 0;
  for (const Layer& child : layer.children) {
    if (child.critical_ns < least_ns) {
      ++left_out;
      continue;
    }
    std::string name = child.name;
    const Layer& shown = through_chain(child, name);
    if (shown.instructions > 0)
      table.row({std::string(static_cast<size_t>(indent), ' ') +
                     shortened(name, kNameWidth - static_cast<size_t>(std::min(indent, 12))),
                 time_text(shown.critical_ns), percent_text(100 * shown.critical_ns / total_ns),
                 fmt::format("{:.1f}", shown.mfu_percent), fmt::format("{:.1f}", shown.mbu_percent),
                 shown.critical_ns > 0 ? std::string(trace::name(shown.bound_by())) : ""});
    if (depth > 1) add_rows(table, shown, indent + 1, depth - 1, total_ns);
  }
  if (left_out > 0)
    table.row({std::string(static_cast<size_t>(indent), ' ') + fmt::format("... {} more", left_out)});
}

std::string layers(const ModelProfile& model, const TextOptions& options) {
  std::string prefix;
  const Layer& whole = through_chain(model.whole, prefix);
  const double total_ns = std::max(model.whole.critical_ns, 1e-9);
  const int depth = options.depth > 0 ? options.depth : usual_depth(whole);
  std::string title = fmt::format("\nLayers: {} ops in {} kernels{}", model.ops, model.kernels,
                                  prefix.empty() ? "" : ", all in " + shortened(prefix, 40));
  Table table({"layer", "time", "share", "MFU %", "MBU %", "bound by"}, 1, 5);
  add_rows(table, whole.children.empty() ? model.whole : whole, 0, depth, total_ns);
  return title + "\n" + table.str() +
         "  time: of the critical path; MFU and MBU: while the layer was at work\n";
}

std::string place_of(const isa::ModelOp& op) {
  if (!op.where.function.empty()) return shortened(op.where.function, 38);
  std::string text = op.kind.substr(op.kind.rfind('.') + 1);
  if (op.where.known())
    text += fmt::format(" at {}:{}", shortened(op.where.file.substr(op.where.file.rfind('/') + 1), 24),
                        op.where.line);
  return text;
}

std::string movements(const ModelProfile& model, const TextOptions& options) {
  if (model.movements.empty()) return "\nNo transposes, copies or spills\n";
  Table table({"what", "caused by", "times", "bytes", "busy"}, 2);
  const auto count = std::min<size_t>(model.movements.size(), static_cast<size_t>(options.lines_max));
  for (size_t i = 0; i < count; ++i) {
    const Movement& row = model.movements[i];
    table.row({row.what, row.op < model.op_table.size() ? place_of(model.op_table[row.op]) : "",
               count_text(static_cast<double>(row.instructions)), bytes_text(static_cast<double>(row.bytes)),
               time_text(row.busy_ns)});
  }
  std::string out = "\nTransposes, copies and spills\n" + table.str();
  if (count < model.movements.size())
    out += fmt::format("  ... and {} more\n", model.movements.size() - count);
  return out;
}

// One character per stretch of time, its height the largest use in it.
std::string sparkline(const MemoryCurve& curve, double total_ns) {
  constexpr std::string_view kHeights = " .:-=+*#%@";
  std::string line(kCurveColumns, ' ');
  if (curve.peak_bytes == 0 || total_ns <= 0) return line;
  size_t step = 0;
  int64_t now = 0;
  for (size_t column = 0; column < kCurveColumns; ++column) {
    const double until = total_ns * static_cast<double>(column + 1) / kCurveColumns;
    int64_t most = now;
    for (; step < curve.steps.size() && curve.steps[step].first < until; ++step) {
      now = curve.steps[step].second;
      most = std::max(most, now);
    }
    const double share = static_cast<double>(most) / static_cast<double>(curve.peak_bytes);
    line[column] = kHeights[static_cast<size_t>(share * static_cast<double>(kHeights.size() - 1) + 0.5)];
  }
  return line;
}

std::string memory(const ModelProfile& model) {
  const double total_ns = model.latency_ns - model.launch_ns;
  std::string out = "\nMemory over time\n";
  for (const MemoryCurve& curve : model.memory) {
    out += fmt::format("  {:<4} |{}|\n", isa::name(curve.space), sparkline(curve, total_ns));
    out += fmt::format("        highest {} at {}", bytes_text(static_cast<double>(curve.peak_bytes)),
                       time_text(curve.peak_ns));
    if (curve.capacity_bytes > 0)
      out += fmt::format(", {} of {}",
                         percent_text(100 * static_cast<double>(curve.peak_bytes) /
                                      static_cast<double>(curve.capacity_bytes)),
                         bytes_text(static_cast<double>(curve.capacity_bytes)));
    out += "\n";
  }
  return out;
}

std::string host(const ModelProfile& model, const TextOptions& options) {
  if (model.host.calls.empty()) return "";
  Table table({"the host does", "bytes", "transfer", "computing"}, 1);
  const auto count = std::min<size_t>(model.host.calls.size(), static_cast<size_t>(options.lines_max));
  for (size_t i = 0; i < count; ++i) {
    const HostCall& call = model.host.calls[i];
    table.row({call.op < model.op_table.size() ? place_of(model.op_table[call.op]) : "",
               bytes_text(static_cast<double>(call.bytes)),
               call.transfer_ns > 0 ? time_text(call.transfer_ns) : "unknown", "unknown"});
  }
  std::string out = "\nOps without a device kernel\n" + table.str();
  if (count < model.host.calls.size())
    out += fmt::format("  ... and {} more\n", model.host.calls.size() - count);
  return out + fmt::format(
                   "  transfers: {} in all, of one iteration where they stand in a loop; how long the host\n"
                   "  computes is unknown; no other time here has either in it; --strict refuses these ops\n",
                   time_text(model.host.transfer_ns));
}

std::string serving(const ModelProfile& model) {
  std::string out = fmt::format("\nServing: {} an inference ({} of it launch)", time_text(model.latency_ns),
                                time_text(model.launch_ns));
  if (model.busy_latency_ns > model.latency_ns)
    out += fmt::format(", {} beside others on its HBM stack", time_text(model.busy_latency_ns));
  out += "\n";
  Table table({"instance", "cores", "per second", "on demand", "3 years", "block"}, 1);
  const auto cell = [](const Serving::Rate& rate) {
    return rate.known ? money_text(rate.usd_per_million) : std::string("unknown");
  };
  bool all_fit = true;
  for (const Serving& row : model.serving) {
    all_fit = all_fit && row.fits;
    table.row({row.instance, fmt::format("{}", row.cores), count_text(row.inferences_per_s),
               cell(row.on_demand), cell(row.reserved), cell(row.capacity_block)});
  }
  out += table.str();
  out +=
      "  USD per million inferences: on demand, reserved for 3 years, capacity block;\n"
      "  one copy of the model per NeuronCore, all cores busy: those of an HBM stack\n"
      "  share its bandwidth; no overlap of launches, host and network not counted;\n"
      "  `opentrn describe INSTANCE` has the sources\n";
  if (!model.host.calls.empty())
    out += "  an upper bound of the rates: the host's ops (above) are not in the time of an inference\n";
  if (!all_fit) out += "  the copies do not fit the memory of every instance listed\n";
  return out;
}

}  // namespace

std::string text(const ModelProfile& model, const TextOptions& options) {
  return layers(model, options) + movements(model, options) + memory(model) + host(model, options) +
         serving(model);
}

}  // namespace opentrn::profile
