#include "decoder/narrow.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "arch/core_features.h"
#include "base/fault.h"
#include "numerics/quantise.h"

namespace opentrn::decoder {

using graph::ElementType;

namespace {

struct Format {
  std::string_view text;
  ElementType element;
};
constexpr std::array kFormats{Format{"int8", ElementType::kI8}, Format{"fp8_e4m3", ElementType::kF8E4M3},
                              Format{"fp8_e5m2", ElementType::kF8E5M2},
                              Format{"fp8_e4m3fn", ElementType::kF8E4M3FN}};

}  // namespace

std::optional<ElementType> narrow_element(std::string_view text, opentrn::Generation generation) {
  if (text == "none") return std::nullopt;
  const auto found = std::ranges::find(kFormats, text, &Format::text);
  const bool is_here = found != kFormats.end() && (found->element != ElementType::kF8E4M3FN ||
                                                   arch::core_features(generation).matmul_fp8_e4m3fn);
  if (is_here) return found->element;
  throw Fault(FaultKind::kInput, "decoder.element", fmt::format("weights of {}", text),
              "none, int8, fp8_e4m3, fp8_e5m2, or fp8_e4m3fn on trn3");
}

void quantise(ElementType element, std::span<float> values, int64_t columns, int64_t groups,
              std::byte* narrow, std::span<float> scales, std::string_view name) {
  const auto width = static_cast<size_t>(columns), of_group = values.size() / static_cast<size_t>(groups);
  for (size_t group = 0; group < static_cast<size_t>(groups); ++group)
    if (!numerics::quantise_columns(*graph::to_dtype(element), values.subspan(group * of_group, of_group),
                                    scales.subspan(group * width, width), narrow + group * of_group))
      throw Fault(FaultKind::kInput, "decoder.weights",
                  fmt::format("{} has numbers that are not finite", name));
}

}  // namespace opentrn::decoder
