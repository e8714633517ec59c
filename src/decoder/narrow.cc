#include "decoder/narrow.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <vector>

#include <fmt/format.h>

#include "arch/core_features.h"
#include "base/fault.h"
#include "compiler/analysis/packed_product.h"
#include "numerics/mx.h"
#include "numerics/quantise.h"

namespace opentrn::decoder {

using graph::ElementType;
using graph::Type;

namespace {

struct Format {
  WeightType type;
  DType numbers;
  ElementType element;  // of an argument that holds them
};
constexpr std::array kFormats{Format{WeightType::kInt8, DType::kInt8, ElementType::kI8},
                              Format{WeightType::kFp8E4M3, DType::kFloat8E4M3, ElementType::kF8E4M3},
                              Format{WeightType::kFp8E5M2, DType::kFloat8E5M2, ElementType::kF8E5M2},
                              Format{WeightType::kFp8E4M3Fn, DType::kFloat8E4M3Fn, ElementType::kF8E4M3FN},
                              Format{WeightType::kMxFp8, DType::kFloat8E4M3FnX4, ElementType::kUI32},
                              Format{WeightType::kMxFp4, DType::kFloat4E2M1FnX4, ElementType::kUI16}};

const Format& format_of(WeightType type) { return *std::ranges::find(kFormats, type, &Format::type); }

bool is_of(const arch::CoreFeatures& core, WeightType type) {
  if (is_microscaled(type)) return core.matmul_mx;
  return type != WeightType::kFp8E4M3Fn || core.matmul_fp8_e4m3fn;
}

}  // namespace

std::optional<WeightType> narrow_type(std::string_view text, opentrn::Generation generation) {
  const auto* found = std::ranges::find(compiler::kWeightTypes, text, &compiler::NamedWeightType::text);
  if (found != std::end(compiler::kWeightTypes)) {
    if (found->meaning == WeightType::kAsGiven) return std::nullopt;
    if (is_of(arch::core_features(generation), found->meaning)) return found->meaning;
  }
  throw Fault(FaultKind::kInput, "decoder.element", fmt::format("weights of {}", text),
              "none, int8, fp8_e4m3, fp8_e5m2, or fp8_e4m3fn, mxfp8 and mxfp4 on trn3");
}

int64_t rows_of_number(WeightType type) { return is_microscaled(type) ? numerics::kMxPack : 1; }

int64_t rows_of_scale(WeightType type, int64_t rows) {
  return is_microscaled(type) ? compiler::kMxBlock : rows;
}

int64_t rows_held(WeightType type, int64_t rows) {
  constexpr int64_t kTile = compiler::kMxContractedMultiple;
  return is_microscaled(type) ? (rows + kTile - 1) / kTile * kTile : rows;
}

NarrowTypes narrow_types(WeightType type, int64_t groups, int64_t rows, int64_t columns) {
  const int64_t held = rows_held(type, rows);
  const ElementType scale = is_microscaled(type) ? ElementType::kUI8 : ElementType::kF32;
  return {Type::tensor(format_of(type).element, {groups * held / rows_of_number(type), columns}),
          Type::tensor(scale, {groups * held / rows_of_scale(type, held), columns})};
}

namespace {

bool microscale(DType numbers_type, std::span<const float> values, size_t columns, size_t rows_held,
                std::byte* numbers, std::byte* scales) {
  std::vector<float> held(rows_held * columns);
  std::ranges::copy(values, held.begin());
  return numerics::microscale_columns(numbers_type, held, columns, numbers,
                                      reinterpret_cast<uint8_t*>(scales));
}

}  // namespace

void quantise(WeightType type, std::span<float> values, int64_t columns, int64_t groups, std::byte* numbers,
              std::byte* scales, std::string_view name) {
  const auto width = static_cast<size_t>(columns), of_group = values.size() / static_cast<size_t>(groups);
  const NarrowTypes kept = narrow_types(type, 1, static_cast<int64_t>(of_group / width), columns);
  const auto number_bytes = static_cast<size_t>(kept.numbers.byte_count()),
             scale_bytes = static_cast<size_t>(kept.scales.byte_count());
  const DType dtype = format_of(type).numbers;
  for (size_t group = 0; group < static_cast<size_t>(groups); ++group) {
    const std::span<float> own = values.subspan(group * of_group, of_group);
    std::byte *to = numbers + group * number_bytes, *of_scales = scales + group * scale_bytes;
    const bool is_finite =
        is_microscaled(type)
            ? microscale(dtype, own, width,
                         static_cast<size_t>(rows_held(type, static_cast<int64_t>(of_group / width))), to,
                         of_scales)
            : numerics::quantise_columns(dtype, own, {reinterpret_cast<float*>(of_scales), width}, to);
    if (!is_finite)
      throw Fault(FaultKind::kInput, "decoder.weights",
                  fmt::format("{} has numbers that are not finite", name));
  }
}

}  // namespace opentrn::decoder
