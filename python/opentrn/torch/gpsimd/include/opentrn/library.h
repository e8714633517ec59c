// What a built library exports: the functions of custom_op_abi.h, and what PyTorch has to know of its
// operators. For one source file of the library, with OPENTRN_MULTICORE as 0 or 1.
#ifndef OPENTRN_TORCH_GPSIMD_LIBRARY_H_
#define OPENTRN_TORCH_GPSIMD_LIBRARY_H_

#include "opentrn/operators.h"

#define OPENTRN_EXPORTED extern "C" __attribute__((visibility("default")))

namespace torch {
namespace neuron {

// The interface's functions have no argument that says which operator is meant: one for each of the ten.
template <size_t kPlace>
int run_operator(const opentrn_tensor* outputs, int32_t output_count, const opentrn_tensor* inputs,
                 int32_t input_count, char* message, size_t message_bytes) {
  const Operator& op = operators()[kPlace];
  return guarded(op.name, message, message_bytes, [&] {
    check(output_count == 1, "has one result, not " + std::to_string(output_count));
    run(op, OPENTRN_MULTICORE != 0, outputs[0], inputs, input_count);
  });
}

template <size_t... kPlaces>
std::vector<opentrn_custom_op_function> run_functions(std::index_sequence<kPlaces...> /*places*/) {
  return {&run_operator<kPlaces>...};
}

inline std::string first_fault() {
  if (!fault().empty()) return fault();
  if (operators().empty()) return "no source has NEURON_LIBRARY(name, m) { m.def(...); }";
  for (const Operator& op : operators()) {
    const auto found = kernels().find(op.kernel);
    if (found == kernels().end()) {
      std::string names;
      for (const auto& each : kernels()) names += (names.empty() ? "" : ", ") + each.first;
      return op.name + ": compute_srcs have no kernel " + op.kernel +
             ", a function that returns torch::Tensor and is not static; there is " +
             (names.empty() ? "none" : names);
    }
    if (found->second.kinds != op.shape.kinds)
      return op.name + ": the kernel " + op.kernel + " and the shape function have different parameters";
  }
  return {};
}

}  // namespace neuron
}  // namespace torch

OPENTRN_EXPORTED int32_t opentrn_custom_op_abi_version(void) { return OPENTRN_CUSTOM_OP_ABI_VERSION; }

OPENTRN_EXPORTED const opentrn_custom_op_entry* opentrn_custom_ops(size_t* count) {
  using namespace torch::neuron;  // NOLINT(google-build-using-namespace): one function
  static std::vector<opentrn_custom_op_entry> entries;
  static const auto functions = run_functions(std::make_index_sequence<kOperatorsMax>{});
  if (entries.empty() && first_fault().empty())
    for (size_t i = 0; i < operators().size(); ++i)
      entries.push_back({operators()[i].name.c_str(), functions[i]});
  *count = entries.size();
  return entries.data();
}

// What is wrong with the library, or "".
OPENTRN_EXPORTED const char* opentrn_torch_fault(void) {
  static const std::string text = torch::neuron::first_fault();
  return text.c_str();
}

// The kinds of an operator's parameters, one letter each (operators.h); null for a place beyond the last.
OPENTRN_EXPORTED const char* opentrn_torch_parameters(size_t place) {
  const auto& every = torch::neuron::operators();
  return place < every.size() ? every[place].shape.kinds.c_str() : nullptr;
}

// What an operator's shape function says of these operands, whose data are not there: the sizes of its result
// in `sizes` (room for eight), its rank and its type. 0, or 1 with the reason in `message`.
OPENTRN_EXPORTED int opentrn_torch_shape(size_t place, const opentrn_tensor* inputs, int32_t input_count,
                                         int64_t* sizes, int32_t* rank, const char** type, char* message,
                                         size_t message_bytes) {
  using namespace torch::neuron;  // NOLINT(google-build-using-namespace): one function
  const Operator& op = operators()[place];
  return guarded(op.name, message, message_bytes, [&] {
    const torch::Tensor made = op.shape.call(arguments_of(op, inputs, input_count));
    check(made.defined(), "its shape function returns no tensor");
    check(made.dim() <= kRankMax, "a result of rank " + std::to_string(made.dim()) + "; Neuron's limit is 8");
    *rank = static_cast<int32_t>(made.dim());
    std::copy(made.sizes().begin(), made.sizes().end(), sizes);
    *type = c10::spelling(made.scalar_type());
  });
}

#endif  // OPENTRN_TORCH_GPSIMD_LIBRARY_H_
