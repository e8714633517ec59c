#include "decoder/narrow.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <vector>

#include <fmt/format.h>

#include "arch/core_features.h"
#include "base/fault.h"
#include "base/utf8.h"
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

// None for none, and for a type that the core does not multiply.
std::optional<WeightType> named_type(std::string_view text, opentrn::Generation generation) {
  const auto* found = std::ranges::find(compiler::kWeightTypes, text, &compiler::NamedWeightType::text);
  if (found == std::end(compiler::kWeightTypes) || found->meaning == WeightType::kAsGiven)
    return std::nullopt;
  if (!is_of(arch::core_features(generation), found->meaning)) return std::nullopt;
  return found->meaning;
}

WeightType narrow_type(std::string_view text, opentrn::Generation generation) {
  if (const auto type = named_type(text, generation)) return *type;
  throw Fault(FaultKind::kInput, "decoder.element",
              fmt::format("weights of {}", printable(std::string(text))),
              "none, int8, fp8_e4m3, fp8_e5m2, or fp8_e4m3fn, mxfp8 and mxfp4 on trn3");
}

void add_word(NarrowWeights& how, std::string_view word) {
  constexpr std::string_view kExcept = "except=";
  const bool per_tensor = word == "per_tensor_symmetric";
  if (per_tensor && is_microscaled(how.type))
    throw Fault(FaultKind::kInput, "decoder.element", "MX types have a scale for each block of 32 numbers",
                "without per_tensor_symmetric, or int8 or fp8");
  if (per_tensor || word == "per_channel_symmetric")
    how.per_tensor = per_tensor;
  else if (word.starts_with(kExcept) && word.size() > kExcept.size())
    how.kept.emplace_back(word.substr(kExcept.size()));
  else
    throw Fault(
        FaultKind::kInput, "decoder.element",
        fmt::format("narrow weights with '{}'", printable(std::string(word))),
        "behind the type: per_channel_symmetric, per_tensor_symmetric, except=MODULE, with commas between");
}

}  // namespace

std::optional<graph::ElementType> kv_type(std::string_view text, opentrn::Generation generation) {
  if (text == "auto") return std::nullopt;
  const auto type = named_type(text == "fp8" ? "fp8_e4m3" : text, generation);
  if (type && !is_microscaled(*type) && graph::is_float(format_of(*type).element))
    return format_of(*type).element;
  throw Fault(FaultKind::kInput, "decoder.element",
              fmt::format("keys and values of {}", printable(std::string(text))),
              "auto, fp8, fp8_e4m3, fp8_e5m2, or fp8_e4m3fn on trn3");
}

std::optional<NarrowWeights> narrow_weights(std::string_view text, opentrn::Generation generation) {
  if (text == "none") return std::nullopt;
  NarrowWeights how;
  size_t end = std::min(text.find(','), text.size());
  how.type = narrow_type(text.substr(0, end), generation);
  while (end < text.size()) {
    const size_t begin = end + 1;
    end = std::min(text.find(',', begin), text.size());
    add_word(how, text.substr(begin, end - begin));
  }
  return how;
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

void quantise(const NarrowWeights& how, std::span<float> values, std::span<const int64_t> tensors,
              int64_t groups, std::byte* numbers, std::byte* scales, std::string_view name) {
  int64_t columns = 0;
  for (const int64_t count : tensors) columns += count;
  const auto width = static_cast<size_t>(columns), of_group = values.size() / static_cast<size_t>(groups);
  const auto rows = static_cast<int64_t>(of_group / width);
  const NarrowTypes kept = narrow_types(how.type, 1, rows, columns);
  const auto number_bytes = static_cast<size_t>(kept.numbers.byte_count()),
             scale_bytes = static_cast<size_t>(kept.scales.byte_count());
  const DType dtype = format_of(how.type).numbers;
  const std::span<const int64_t> together = how.per_tensor ? tensors : std::span<const int64_t>();
  for (size_t group = 0; group < static_cast<size_t>(groups); ++group) {
    const std::span<float> own = values.subspan(group * of_group, of_group);
    std::byte *to = numbers + group * number_bytes, *of_scales = scales + group * scale_bytes;
    const std::span<float> scales_of_group{reinterpret_cast<float*>(of_scales), width};
    const bool is_finite =
        is_microscaled(how.type)
            ? microscale(dtype, own, width, static_cast<size_t>(rows_held(how.type, rows)), to, of_scales)
            : numerics::quantise_columns(dtype, own, scales_of_group, to, together);
    if (!is_finite)
      throw Fault(FaultKind::kInput, "decoder.weights",
                  fmt::format("{} has numbers that are not finite", name));
  }
}

}  // namespace opentrn::decoder
