// opentrn._core: models with open dimensions (model/buckets.h). opentrn/model/buckets.py holds the programs
// themselves.
#include <nanobind/nanobind.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/set.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "arch/arch.h"
#include "compiler/compile.h"
#include "model/buckets.h"
#include "python/model_bindings.h"
#include "python/unlocked.h"

namespace opentrn::python {

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using model::Bucket;
using model::Buckets;
using model::OpenDimension;
using model::Sizes;

// (sizes, shapes of inputs, shapes of results)
using Program = std::tuple<Sizes, std::vector<model::Shape>, std::vector<model::Shape>>;

std::vector<Bucket> buckets_of(const std::vector<Program>& programs) {
  std::vector<Bucket> buckets;
  for (const auto& [sizes, inputs, outputs] : programs) buckets.push_back({sizes, inputs, outputs});
  return buckets;
}

nb::tuple pairs_of(const std::vector<compiler::PortAxis>& axes) {
  nb::list pairs;
  for (const compiler::PortAxis at : axes) pairs.append(nb::make_tuple(at.port, at.axis));
  return nb::tuple(pairs);
}

nb::list triples_of(const std::vector<model::Resized>& rows) {
  nb::list triples;
  for (const model::Resized& row : rows) triples.append(nb::make_tuple(row.port, row.axis, row.size));
  return triples;
}

std::vector<OpenDimension> open_dimensions(const std::map<std::string, std::vector<int64_t>>& sizes,
                                           const std::vector<Program>& programs,
                                           const std::optional<std::string>& text,
                                           const std::filesystem::path& path, const std::string& target,
                                           const std::map<std::string, std::string>& options) {
  const Unlocked unlocked;
  const compiler::Options chosen = compiler::options_from(arch::resolve_target(target), options);
  return model::open_dimensions(sizes, buckets_of(programs), [&](const Sizes& of_one) {
    return compiler::prepare(module_of(text, path, of_one), chosen);
  });
}

}  // namespace

void bind_buckets(nb::module_& module) {
  nb::class_<OpenDimension>(module, "OpenDimension",
                            "An open dimension: the (port, axis) of inputs and results that have its size.")
      .def_ro("name", &OpenDimension::name)
      .def_prop_ro("inputs", [](const OpenDimension& row) { return pairs_of(row.inputs); })
      .def_prop_ro("results", [](const OpenDimension& row) { return pairs_of(row.results); })
      .def_ro("mixing", &OpenDimension::mixing, "Why padding it may change results, empty when it cannot.");
  nb::class_<Buckets>(module, "Buckets", "Which program of a model with open dimensions an inference takes.")
      .def(
          "__init__",
          [](Buckets* self, const std::vector<Program>& programs, std::vector<OpenDimension> dimensions,
             std::vector<std::string> input_names) {
            new (self) Buckets(buckets_of(programs), std::move(dimensions), std::move(input_names));
          },
          "programs"_a, "dimensions"_a, "input_names"_a,
          "programs: (sizes, shapes of inputs, shapes of results) of each. Raises InputError `model_file` "
          "where the "
          "dimensions are none of the programs'.")
      .def_prop_ro("dimensions", &Buckets::dimensions)
      .def("pick", &Buckets::pick, "sizes"_a,
           "The number of the smallest program that holds these sizes. Raises InputError `model.size` for "
           "none.")
      .def("sizes_of", &Buckets::sizes_of, "shapes"_a,
           "The sizes of the open dimensions in inputs of these shapes. Raises InputError where they "
           "disagree.")
      .def(
          "fit",
          [](const Buckets& self, const std::vector<model::Shape>& shapes,
             const std::set<std::string>& masked) {
            const model::Fit fit = self.fit(shapes, masked);
            return nb::make_tuple(fit.program, triples_of(fit.padded), triples_of(fit.cut));
          },
          "shapes"_a, "masked"_a,
          "(program, inputs to pad at their end, results to cut) for inputs of these shapes: the (port, "
          "axis, size) "
          "of each. Raises InputError `model.padding` where padding may change results and the dimension is "
          "not "
          "`masked`.");
  module.def("size_combinations", &model::combinations, "sizes"_a,
             "Every combination of the sizes of dimensions.");
  module.def("open_dimensions", &open_dimensions, "sizes"_a, "programs"_a, "text"_a.none(), "path"_a,
             "target"_a, "options"_a,
             "The dimensions that have several sizes, found in the programs of size_combinations().");
  module.def("open_dimensions_text", &model::text_of, "dimensions"_a, "As a model's file holds them.");
  module.def("open_dimensions_from_text", &model::dimensions_from_text, "text"_a,
             "What open_dimensions_text() wrote. Raises InputError `model_file` for another text.");
}

}  // namespace opentrn::python
