#include "decoder/narrow.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "arch/core_features.h"
#include "base/fault.h"
#include "base/thread_pool.h"
#include "numerics/convert.h"

namespace opentrn::decoder {

using graph::ElementType;

namespace {

struct Format {
  std::string_view text;
  ElementType element;
  float largest;
};
constexpr std::array kFormats{Format{"int8", ElementType::kI8, 127},  // symmetric: -128 is not used
                              Format{"fp8_e4m3", ElementType::kF8E4M3, 240},
                              Format{"fp8_e5m2", ElementType::kF8E5M2, 57344},
                              Format{"fp8_e4m3fn", ElementType::kF8E4M3FN, 448}};

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
  const float largest = std::ranges::find(kFormats, element, &Format::element)->largest;
  const auto width = static_cast<size_t>(columns), of_group = values.size() / static_cast<size_t>(groups);
  ThreadPool pool(default_thread_count());
  for (size_t group = 0; group < static_cast<size_t>(groups); ++group) {
    const std::span<float> own = values.subspan(group * of_group, of_group);
    const std::span<float> scale = scales.subspan(group * width, width);
    std::ranges::fill(scale, 0.0F);
    bool is_finite = true;
    for (size_t i = 0; i < own.size(); i += width)
      for (size_t n = 0; n < width; ++n) {
        const float size = std::fabs(own[i + n]);
        is_finite &= size <= std::numeric_limits<float>::max();
        scale[n] = std::max(scale[n], size);
      }
    if (!is_finite)
      throw Fault(FaultKind::kInput, "decoder.weights",
                  fmt::format("{} has numbers that are not finite", name));
    for (float& each : scale) each = each == 0 ? 1 : each / largest;
    const auto rows = [&](size_t from, size_t to, int) {
      for (size_t i = from * width; i < to * width; i += width)
        for (size_t n = 0; n < width; ++n) own[i + n] = std::clamp(own[i + n] / scale[n], -largest, largest);
      numerics::store_f32(*graph::to_dtype(element), own.data() + from * width,
                          narrow + group * of_group + from * width, (to - from) * width);
    };
    pool.parallel_for(own.size() / width, rows);
  }
}

}  // namespace opentrn::decoder
