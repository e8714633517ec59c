// opentrn._core.stored_call: facts of a program of the cache, held to a call (model/stored_call.h).
// opentrn/torch/eager/stored.py makes a plan of them.
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "model/stored_call.h"
#include "python/model_bindings.h"

namespace opentrn::python {

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using Sizes = std::vector<int64_t>;
using Tensor = std::tuple<Sizes, Sizes, std::string, bool, bool>;
using Inputs = std::vector<std::tuple<std::string, int64_t, std::string>>;
using Output = std::tuple<int64_t, int64_t, Sizes, Sizes, std::string, bool, std::optional<Sizes>, int64_t>;
using Returned = std::vector<std::pair<std::string, Sizes>>;

std::optional<std::tuple<bool, Inputs, std::vector<Output>, Returned>> stored_call(
    std::string_view facts, const std::vector<Tensor>& tensors, int64_t numbers,
    const std::vector<model::NamedPort>& inputs, const std::vector<model::NamedPort>& outputs,
    const std::map<std::string, std::string>& elements) {
  std::vector<model::CallTensor> given;
  for (const auto& [shape, memory_shape, element, is_number, is_dense] : tensors)
    given.push_back({shape, memory_shape, element, is_number, is_dense});
  const auto stored = model::stored_call(facts, {given, numbers, inputs, outputs, elements});
  if (!stored) return std::nullopt;
  Inputs rows;
  for (const auto& row : stored->inputs) rows.emplace_back(row.kind, row.place, row.dtype);
  std::vector<Output> written;
  for (const auto& row : stored->outputs)
    written.emplace_back(row.target, row.copied_from, row.sizes, row.strides, row.dtype, row.is_in_order,
                         row.order, row.repeats);
  Returned returned;
  for (const auto& row : stored->returned) returned.emplace_back(row.kind, row.places);
  return std::tuple(stored->draws, std::move(rows), std::move(written), std::move(returned));
}

}  // namespace

void bind_stored_calls(nb::module_& module) {
  module.def(
      "stored_call", &stored_call, "facts"_a, "tensors"_a, "numbers"_a, "inputs"_a, "outputs"_a, "elements"_a,
      "Of an entry's facts as JSON (draws, inputs, outputs, what is returned); None where they are not those "
      "of the call and the program. tensors: (shape, shape in memory, element, whether it is a number, "
      "whether "
      "it is dense) of each; inputs and outputs: ports of the program; elements: of names of types.");
}

}  // namespace opentrn::python
