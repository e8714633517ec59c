// opentrn._core.StagedTiming: predicted times of the programs of one inference of a model in stages.
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <fmt/format.h>

#include "model/stage.h"
#include "profile/stages.h"
#include "python/model_bindings.h"
#include "python/timing.h"
#include "python/unlocked.h"

namespace opentrn::python {

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using StagePart = std::pair<std::shared_ptr<model::Stage>, std::shared_ptr<Timing>>;

struct StagedTiming {
  std::vector<StagePart> parts;
  profile::StageTotals totals;

  const Timing& longest() const { return *parts[totals.longest].second; }
};

profile::StageTotals totals_of(const std::vector<StagePart>& parts) {
  std::vector<const profile::Profile*> programs;
  for (const auto& [stage, timing] : parts) programs.push_back(&timing->profile);
  return profile::add_up(programs);
}

// text(timing): of one program.
template <typename Text>
std::string texts(const StagedTiming& self, Text text) {
  const Unlocked unlocked;
  std::string all;
  for (const auto& [stage, timing] : self.parts) {
    const std::string sizes = stage->sizes().empty() ? "" : fmt::format(", for {}", stage->sizes_text());
    all += fmt::format("== stage {} of {}{}: {:.2f} us ==\n{}", stage->number(), self.parts.size(), sizes,
                       timing->profile.summary.total_ns / 1e3, text(*timing));
  }
  return all;
}

// The programs' bands added up.
nlohmann::ordered_json band(const StagedTiming& self) {
  nlohmann::ordered_json all = band_json(*self.parts[0].second);
  if (all.contains("unknown")) return all;
  for (size_t i = 1; i < self.parts.size(); ++i) {
    const nlohmann::ordered_json one = band_json(*self.parts[i].second);
    for (const char* end : {"low_ns", "high_ns"}) all[end] = all[end].get<double>() + one[end].get<double>();
  }
  return all;
}

nlohmann::ordered_json json(const StagedTiming& self) {
  auto stages = nlohmann::ordered_json::array();
  for (const auto& [stage, timing] : self.parts) {
    auto sizes = nlohmann::ordered_json::object();
    for (const auto& [name, size] : stage->sizes()) sizes[name] = size;
    stages.push_back({{"stage", stage->number()}, {"sizes", sizes}, {"profile", profile_json(*timing)}});
  }
  return {{"time_us", self.totals.total_ns / 1e3},
          {"launch_us", self.totals.launch_ns / 1e3},
          {"stages", stages}};
}

}  // namespace

void bind_staged_timing(nb::module_& module) {
  nb::class_<StagedTiming>(module, "StagedTiming", nb::dynamic_attr())
      .def(
          "__init__",
          [](StagedTiming* self, const std::vector<StagePart>& parts) {
            new (self) StagedTiming{parts, totals_of(parts)};
          },
          "parts"_a)
      .def_ro("parts", &StagedTiming::parts, "(stage, its Timing), in the order in which they ran.")
      .def_prop_ro(
          "total_ns", [](const StagedTiming& t) { return t.totals.total_ns; }, "Of all programs.")
      .def_prop_ro(
          "launch_ns", [](const StagedTiming& t) { return t.totals.launch_ns; }, "Of all launches.")
      .def_prop_ro(
          "mfu_percent", [](const StagedTiming& t) { return t.totals.mfu_percent; }, "Mean over time.")
      .def_prop_ro(
          "mbu_percent", [](const StagedTiming& t) { return t.totals.mbu_percent; }, "Mean over time.")
      .def_prop_ro(
          "longest", [](const StagedTiming& t) { return t.parts[t.totals.longest].second; },
          "The Timing of the program that takes longest.")
      .def("band_json", [](const StagedTiming& t) { return band(t).dump(); })
      .def("json", [](const StagedTiming& t) { return dumped(json(t)); })
      .def("trust_text",
           [](const StagedTiming& t) { return texts(t, [](const Timing& one) { return trust_text(one); }); })
      .def(
          "text",
          [](const StagedTiming& t, int lines_max) {
            return texts(t, [&](const Timing& one) { return timing_text(one, lines_max); });
          },
          "lines_max"_a = 12)
      .def(
          "model_text",
          [](const StagedTiming& t, int lines_max, int depth) {
            return texts(t, [&](Timing& one) { return timing_model_text(one, lines_max, depth); });
          },
          "lines_max"_a = 12, "depth"_a = 0);
}

}  // namespace opentrn::python
