// Custom calls that are NKI kernels: the target's name is AWS's, what the call carries is OpenTrn's
// (isa/kernel.h, decision 0021).
#pragma once

#include <string>
#include <string_view>

#include "graph/module.h"

namespace opentrn::graph {

// Source: nki/guides/framework_custom_op.rst, the HLO of its example.
inline constexpr std::string_view kKernelTarget = "AwsNeuronCustomNativeKernel";

inline bool is_kernel_call(const Op& op) {
  return op.kind == OpKind::custom_call_ && op.string(Attr::call_target_name) == kKernelTarget;
}

// What it carries; empty where it carries no text.
inline std::string_view kernel_payload(const Op& op) {
  const Attribute* config = op.find(Attr::backend_config);
  const auto* text = config ? config->get<std::string>() : nullptr;
  return text ? std::string_view(*text) : std::string_view();
}

}  // namespace opentrn::graph
