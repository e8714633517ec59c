#include "pjrt/layouts.h"

#include <fmt/format.h>

#include "base/fault.h"

namespace opentrn::pjrt {

std::string row_major(int64_t rank) {
  std::string text = "{";
  for (int64_t d = rank; d-- > 0;) text += fmt::format("{}{}", d, d > 0 ? "," : "");
  return text + "}";
}

namespace {

void check(const graph::Dictionary& attributes, const graph::Type& type, const std::string& what) {
  const auto found = attributes.find("mhlo.layout_mode");
  if (found == attributes.end()) return;
  const auto* mode = found->second.get<std::string>();
  const std::string ours = row_major(type.rank());
  if (mode && (*mode == "default" || *mode == "auto" || *mode == ours)) return;
  throw Fault(FaultKind::kNotModelled, "pjrt.layout",
              fmt::format("{} is wanted in the layout {}; arrays on a NeuronCore are row-major here, {}",
                          what, mode ? *mode : "?", ours),
              "transpose the array instead, or leave its layout open (Layout.AUTO)");
}

}  // namespace

void check_layouts(const graph::Function& entry, std::string_view program) {
  const std::vector<graph::Type> arguments = entry.argument_types();
  for (size_t i = 0; i < arguments.size() && i < entry.argument_attributes.size(); ++i)
    check(entry.argument_attributes[i], arguments[i], fmt::format("argument {} of {}", i, program));
  for (size_t i = 0; i < entry.result_types.size() && i < entry.result_attributes.size(); ++i)
    check(entry.result_attributes[i], entry.result_types[i], fmt::format("result {} of {}", i, program));
}

}  // namespace opentrn::pjrt
