#include "python/kernel_bindings.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "isa/kernel.h"
#include "isa/text.h"
#include "nki/record.h"
#include "python/convert.h"
#include "python/unlocked.h"
#include "runtime/device_call.h"

namespace opentrn::python {

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using ByteArray = nb::ndarray<nb::numpy, const uint8_t, nb::ndim<1>, nb::c_contig>;

std::string record_kernel(const std::vector<std::shared_ptr<nki::Machine>>& machines, const std::string& name,
                          const std::vector<int64_t>& grid, const nb::list& inputs, const nb::list& outputs,
                          bool filled) {
  nki::Recorded launch{name, grid, machines, {}, {}, filled};
  const auto take = [](const nb::list& from, std::vector<nki::TensorView>& to) {
    for (const nb::handle each : from) {
      const nki::TensorView* view = as_tensor(each);
      if (!view) throw nb::type_error("operands and results of a kernel are tensors");
      to.push_back(*view);
    }
  };
  take(inputs, launch.inputs);
  take(outputs, launch.outputs);
  const Unlocked unlocked;
  return isa::to_text(nki::record(launch));
}

nb::list run_kernel(const std::string& payload, const std::vector<ByteArray>& arrays) {
  std::vector<std::shared_ptr<sim::Buffer>> inputs, outputs;
  for (const ByteArray& array : arrays)
    inputs.push_back(sim::Buffer::wrap_read_only(array.data(), static_cast<int64_t>(array.size()), nullptr));
  {
    const Unlocked unlocked;
    outputs = runtime::execute(runtime::model_of_kernel(payload), inputs);
  }
  nb::list results;
  for (const auto& output : outputs)
    results.append(nb::bytes(output->data(), static_cast<size_t>(output->bytes())));
  return results;
}

nb::list ports(const isa::Kernel& kernel, const std::vector<isa::Kernel::Port>& from) {
  nb::list rows;
  for (const isa::Kernel::Port& port : from)
    rows.append(nb::make_tuple(port.name, std::string(name(kernel.dtype(port))), port.shape));
  return rows;
}

nb::dict describe_kernel(const std::string& payload) {
  const isa::Kernel kernel = isa::kernel_from_text(payload);
  nb::dict row;
  row["name"] = kernel.name;
  row["generation"] = version(kernel.generation);
  row["grid"] = kernel.grid;
  row["instructions"] = kernel.program.size();
  row["inputs"] = ports(kernel, kernel.inputs);
  row["outputs"] = ports(kernel, kernel.outputs);
  row["listing"] = isa::to_text(kernel.program);
  return row;
}

}  // namespace

void bind_kernels(nb::module_& module) {
  module.def("record_kernel", &record_kernel, "machines"_a, "name"_a, "grid"_a, "inputs"_a, "outputs"_a,
             "filled"_a);
  module.def("run_kernel", &run_kernel, "payload"_a, "arrays"_a);
  module.def("describe_kernel", &describe_kernel, "payload"_a);
}

}  // namespace opentrn::python
