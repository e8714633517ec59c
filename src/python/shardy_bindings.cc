// opentrn._shardy: what the child with Shardy's passes (python/opentrn/jax/shardy.py) computes on texts. A
// module of the same library as opentrn._core, so that the child loads it by its file, without the package.
#include <set>
#include <tuple>

#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/set.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "spmd/split_axes.h"

NB_MODULE(_shardy, module) {
  namespace nb = nanobind;
  using namespace nb::literals;
  using opentrn::spmd::SplitAxes;
  using opentrn::spmd::SplitPart;
  using Shapes = std::vector<std::vector<int64_t>>;
  nb::class_<SplitAxes>(module, "SplitAxes")
      .def(nb::init<std::map<std::string, int64_t>>(), "sizes"_a)
      .def(
          "cut",
          [](SplitAxes& self, const std::set<std::tuple<std::string, int64_t, int64_t>>& given) {
            std::vector<SplitPart> parts;
            for (const auto& [axis, before, size] : given) parts.push_back({axis, before, size});
            return self.cut(parts);
          },
          "parts"_a)
      .def(
          "are_whole",
          [](const SplitAxes& self, const std::vector<std::string>& names) { return self.are_whole(names); },
          "names"_a)
      .def("applied", &SplitAxes::applied, "text"_a);
  module.def(
      "solver_rule",
      [](const Shapes& operands, const Shapes& results) {
        return opentrn::spmd::solver_rule(operands, results);
      },
      "operands"_a, "results"_a);
}
