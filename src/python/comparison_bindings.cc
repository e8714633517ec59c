// opentrn._core: a model on every chip (model/comparison.h). opentrn/model/comparison.py compiles and times
// it.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <nlohmann/json.hpp>

#include "model/comparison.h"
#include "python/model_bindings.h"

namespace opentrn::python {

namespace nb = nanobind;
using namespace nb::literals;
using model::ComparedTarget;
using model::Comparison;

namespace {

void add(Comparison& self, const ComparedTarget& target, const std::string& profile, double compile_s,
         double mfu_percent, double mbu_percent, std::optional<std::string> bound_by, std::string trust,
         std::string band, int64_t host_ops) {
  self.add(
      target,
      {compile_s, mfu_percent, mbu_percent, std::move(bound_by), std::move(trust), std::move(band), host_ops},
      nlohmann::json::parse(profile));
}

}  // namespace

void bind_comparison(nb::module_& module) {
  nb::class_<ComparedTarget>(module, "ComparedTarget",
                             "One target of a NeuronCore, and the chips that have it.")
      .def_ro("name", &ComparedTarget::name)
      .def_ro("core", &ComparedTarget::core)
      .def_ro("chips", &ComparedTarget::chips);
  nb::class_<Comparison>(module, "ModelComparison", "A model's rows for every NeuronCore and instance size.")
      .def(
          "__init__",
          [](Comparison* self, std::string source) {
            new (self) Comparison(std::move(source), arch::default_tables());
          },
          "source"_a)
      .def("add", &add, "target"_a, "profile"_a, "compile_s"_a, "mfu_percent"_a, "mbu_percent"_a,
           "bound_by"_a.none(), "trust"_a, "band"_a, "host_ops"_a,
           "A NeuronCore's row and its instances'; profile: Timing.profile() as JSON.")
      .def("add_unknown", &Comparison::add_unknown, "target"_a, "why"_a, "One whose time nobody knows.")
      .def("set_sizes", &Comparison::set_sizes, "sizes"_a, "Of an inference, where data decide shapes.")
      .def("text", &Comparison::text, "width"_a = 100, "Two tables, in lines of so many characters.")
      .def(
          "json", [](const Comparison& self) { return self.json().dump(); }, "All rows, as JSON.");
  module.def(
      "compared_targets", [] { return model::compared_targets(arch::default_tables()); },
      "One target of every NeuronCore, in the order of the tables.");
}

}  // namespace opentrn::python
