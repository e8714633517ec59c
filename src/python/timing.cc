#include "python/timing.h"

#include <algorithm>

#include <fmt/format.h>

#include "profile/reports.h"

namespace opentrn::python {
namespace {

// With what serving gives, which takes another run and is asked for seldom.
const profile::ModelProfile& profile_of_model(Timing& timing) {
  std::call_once(timing.serving_once, [&] {
    const auto cores = static_cast<int>(timing.executables.size());
    profile::add_serving(*timing.model, timing.executables[0], *timing.tables, beside_ns(timing), cores);
  });
  return *timing.model;
}

}  // namespace

double beside_ns(const Timing& timing) {
  const isa::Executable& executable = timing.executables[0];
  const double beside =
      timing.executables.size() > 1
          ? 0
          : sim::timing::beside_copies_ns(executable, timing.tables->timing(executable.generation),
                                          timing.simulate_options);
  return std::max(beside, timing.profile.summary.total_ns);
}

std::string trust_text(const Timing& t) {
  return fmt::format("{}\n{}\n", arch::to_text(t.band, t.profile.summary.total_ns), arch::to_text(t.basis));
}

nlohmann::ordered_json band_json(const Timing& t) {
  if (!t.band.known()) return {{"unknown", t.band.unknown}};
  const double ns = t.profile.summary.total_ns;
  return {{"share", t.band.share},
          {"low_ns", t.band.low * ns},
          {"high_ns", t.band.high * ns},
          {"runs", t.band.runs},
          {"kind", t.band.kind}};
}

nlohmann::ordered_json basis_json(const Timing& t) {
  return {{"constants", t.basis.constants},
          {"rules", t.basis.rules},
          {"assumed_constants", t.basis.assumed_constants},
          {"assumed_rules", t.basis.assumed_rules},
          {"fitted", t.basis.fitted},
          {"checked", t.basis.checked}};
}

std::vector<PlacedTensor> memory_map(const Timing& self) {
  const isa::Executable& executable = self.executables[0];
  std::vector<std::tuple<int64_t, isa::TensorId>> order;
  for (isa::TensorId id = 0; id < executable.program->tensor_count(); ++id)
    if (isa::is_hbm(executable.program->tensor(id).space) && executable.placements[id].placed)
      order.emplace_back(executable.placements[id].address.byte_offset, id);
  std::sort(order.begin(), order.end());
  std::vector<PlacedTensor> rows;
  for (const auto& [offset, id] : order) {
    const isa::Tensor& tensor = executable.program->tensor(id);
    const bool constant = tensor.is_input && tensor.name.starts_with("constant");
    const char* role = tensor.is_output  ? "output"
                       : constant        ? "constant"
                       : tensor.is_input ? "input"
                                         : "intermediate";
    rows.emplace_back(std::string(isa::name(tensor.space)), tensor.name, role, offset, tensor.bytes());
  }
  return rows;
}

std::string timing_text(const Timing& timing, int lines_max) {
  std::string text;
  for (const std::string& assumption : timing.assumptions)
    text += fmt::format("rests on an assumption: {}\n", assumption);
  return text + trust_text(timing) + profile::text(timing.profile, {.lines_max = lines_max});
}

std::string timing_model_text(Timing& timing, int lines_max, int depth) {
  if (!timing.model) return {};
  return profile::text(profile_of_model(timing), {.lines_max = lines_max, .depth = depth});
}

nlohmann::ordered_json profile_json(Timing& timing) {
  nlohmann::ordered_json all = profile::json(timing.profile);
  if (timing.model) all["model"] = profile::json(profile_of_model(timing));
  if (!timing.assumptions.empty()) all["assumptions"] = timing.assumptions;
  all["band"] = band_json(timing);
  all["basis"] = basis_json(timing);
  return all;
}

std::string dumped(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::pair<std::string, profile::PageColumns> page_of(Timing& timing) {
  profile::PageColumns columns = profile::page_columns(timing.trace);
  nlohmann::ordered_json all = profile::page_json(timing.trace, columns);
  all["profile"] = profile_json(timing);
  return {dumped(all), std::move(columns)};
}

}  // namespace opentrn::python
