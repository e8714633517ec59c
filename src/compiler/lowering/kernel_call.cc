// Operands of a kernel are whole row-major HBM tensors: what is a view, or is kept in SBUF, is written there
// first. What SBUF keeps for others goes to HBM before, so that the kernel has the core as it had it when it
// was traced.
#include "compiler/lowering/kernel_call.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "compiler/analysis/device_type.h"
#include "compiler/analysis/graph_names.h"
#include "compiler/analysis/host_call.h"
#include "compiler/lowering/lowering.h"
#include "graph/kernel_call.h"
#include "isa/kernel.h"

namespace opentrn::compiler {

using isa::Kernel;
using isa::TensorId;

namespace {

[[noreturn]] void refuse(std::string label, std::string message, std::string hint) {
  throw Fault(FaultKind::kInput, "kernel_call." + label, std::move(message), std::move(hint));
}

std::string shape_text(DType dtype, const std::vector<int64_t>& shape) {
  return fmt::format("{}[{}]", name(dtype), fmt::join(shape, ", "));
}

// A kernel has no tensors of rank 0: one element stands for them.
bool same_shape(const graph::Type& type, const std::vector<int64_t>& shape) {
  const std::vector<int64_t> dims = type.dims_vector();
  return dims == shape || (dims.empty() && shape == std::vector<int64_t>{1});
}

void check_port(const Kernel& kernel, const Kernel::Port& port, const graph::Type& type,
                std::string_view what, size_t i) {
  const auto dtype = type.is_tensor() ? device_dtype(type.element()) : std::nullopt;
  if (dtype == kernel.dtype(port) && !is_narrowed(type.element()) && same_shape(type, port.shape)) return;
  refuse("type",
         fmt::format("{} {} of NKI kernel {} is {}; the model has {}", what, i, kernel.name,
                     shape_text(kernel.dtype(port), port.shape), type.to_string()),
         "trace the kernel with the types and shapes of the call");
}

void check_count(const Kernel& kernel, size_t given, size_t wanted, std::string_view what) {
  if (given != wanted)
    refuse("ports", fmt::format("NKI kernel {} has {} {}, its call {}", kernel.name, wanted, what, given),
           "trace the kernel as it is called");
}

class KernelCall {
 public:
  KernelCall(Lowering& lowering, const Op& op)
      : lowering_(lowering), op_(op), kernel_(isa::kernel_from_text(graph::kernel_payload(op))) {}

  void lower() {
    check();
    lowering_.emitter().residency().make_room();
    bind_operands();
    for (const Kernel::Constant& constant : kernel_.constants) bind_constant(constant);
    bind_results();
    lowering_.emitter().inline_kernel(kernel_, places_);
  }

 private:
  void check() const {
    const Generation generation = lowering_.emitter().generation();
    if (kernel_.generation != generation)
      refuse("target",
             fmt::format("NKI kernel {} was traced for NeuronCore-v{}; the model is compiled for v{}",
                         kernel_.name, version(kernel_.generation), version(generation)),
             "compile for the kernel's target, or trace the kernel for the model's "
             "(NEURON_PLATFORM_TARGET_OVERRIDE)");
    const graph::Function& function = lowering_.function();
    check_count(kernel_, op_.operands.size(), kernel_.inputs.size(), "operands");
    check_count(kernel_, op_.results.size(), kernel_.outputs.size(), "results");
    for (size_t i = 0; i < op_.operands.size(); ++i)
      check_port(kernel_, kernel_.inputs[i], function.type(op_.operands[i]), "operand", i);
    for (size_t i = 0; i < op_.results.size(); ++i)
      check_port(kernel_, kernel_.outputs[i], function.type(op_.results[i]), "result", i);
  }

  // A tensor of the kernel's own for the value.
  View copied(const View& source, const Kernel::Port& port) {
    const Emitter::Moving moving(lowering_.emitter(), isa::Purpose::kLayoutCopy);
    const View whole = lowering_.emitter().hbm(port.shape, source.dtype, port.name);
    View from = source;
    if (from.dims.empty()) from.dims = {{0, 1}};
    lowering_.emitter().copy(whole, from);
    return whole;
  }

  bool is_whole(const View& view) const {
    const isa::Tensor& tensor = lowering_.emitter().program().tensor(view.tensor);
    return view.contiguous() && view.offset == 0 &&
           tensor.bytes() == view.element_count() * size_bytes(view.dtype);
  }

  void bind_operands() {
    for (size_t i = 0; i < op_.operands.size(); ++i) {
      const Kernel::Port& port = kernel_.inputs[i];
      View view = lowering_.view(op_.operands[i]);
      if (!is_whole(view))
        view = copied(view, port);
      else
        lowering_.emitter().residency().flush(view.tensor);
      places_[port.tensor] = view.tensor;
    }
  }

  void bind_constant(const Kernel::Constant& constant) {
    const auto count = static_cast<int64_t>(constant.bytes.size());
    const View whole = lowering_.constant(
        graph::Literal(graph::Type::tensor(graph::ElementType::kUI8, {count}), constant.bytes), false);
    places_[constant.tensor] = whole.tensor;
  }

  void bind_results() {
    for (size_t i = 0; i < op_.results.size(); ++i)
      places_[kernel_.outputs[i].tensor] = lowering_.allocate(op_.results[i]).tensor;
  }

  Lowering& lowering_;
  const Op& op_;
  const Kernel kernel_;
  std::map<TensorId, TensorId> places_;
};

}  // namespace

std::string op_title(const Op& op) {
  if (graph::is_kernel_call(op) && isa::is_kernel_text(graph::kernel_payload(op)))
    return fmt::format("nki.kernel {}", isa::kernel_name(graph::kernel_payload(op)));
  if (is_host_call(op)) return fmt::format("host.{}", host_title(op));
  if (op.kind == graph::OpKind::custom_call_)
    return fmt::format("custom.call of {}", op.string(graph::Attr::call_target_name));
  return std::string(graph::name(op.kind));
}

bool has_kernel_call(const graph::Function&, const Op& op) {
  return graph::is_kernel_call(op) && isa::is_kernel_text(graph::kernel_payload(op));
}

bool lower_kernel_call(Lowering& lowering, const Op& op) {
  if (!graph::is_kernel_call(op)) return false;
  try {
    if (!isa::is_kernel_text(graph::kernel_payload(op)))
      refuse("payload",
             "this NKI kernel call carries no kernel of OpenTrn's: it was written by another toolchain",
             "trace the kernel with OpenTrn's nki (opentrn.kernel.trace.trace), on the machine that has its "
             "source");
    KernelCall(lowering, op).lower();
  } catch (Fault& fault) {
    if (!fault.location().known()) fault.set_location(lowering.module().source(op.location));
    throw;
  }
  return true;
}

}  // namespace opentrn::compiler
