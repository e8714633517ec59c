#include "isa/text_names.h"

#include <array>
#include <span>

#include "numerics/ops.h"

namespace opentrn::isa::text {

namespace {

constexpr std::array<std::string_view, 2> kBools = {"false", "true"};
constexpr std::array<std::string_view, 5> kReduceCmds = {"idle", "reset", "reduce", "reset_reduce",
                                                         "load_reduce"};
constexpr std::array<std::string_view, 4> kDgeModes = {"unknown", "swdge", "hwdge", "none"};
constexpr std::array<std::string_view, 2> kOobModes = {"error", "skip"};
constexpr std::array<std::string_view, 3> kDmaEngines = {"", "dma", "gpsimd_dma"};
constexpr std::array<std::string_view, 2> kPerfModes = {"none", "double_row"};
constexpr std::array<std::string_view, 2> kMxScaleRules = {"neuron", "ocp"};  // numerics::MxScaleRule

std::span<const std::string_view> names(AttributeKind kind) {
  switch (kind) {
    case AttributeKind::kBool: return kBools;
    case AttributeKind::kReduceCmd: return kReduceCmds;
    case AttributeKind::kDgeMode: return kDgeModes;
    case AttributeKind::kOobMode: return kOobModes;
    case AttributeKind::kDmaEngine: return kDmaEngines;
    case AttributeKind::kPerfMode: return kPerfModes;
    case AttributeKind::kMxScaleRule: return kMxScaleRules;
    default: return {};
  }
}

}  // namespace

bool is_enumerated(AttributeKind kind) {
  return !names(kind).empty() || kind == AttributeKind::kAluOp || kind == AttributeKind::kOptionalAluOp ||
         kind == AttributeKind::kActivation;
}

std::string_view value_name(AttributeKind kind, int64_t value) {
  if (kind == AttributeKind::kOptionalAluOp && value == -1) return "none";
  if (value < 0) return {};
  if (kind == AttributeKind::kAluOp || kind == AttributeKind::kOptionalAluOp)
    return value < kAluOpCount ? name(static_cast<AluOp>(value)) : std::string_view();
  if (kind == AttributeKind::kActivation)
    return value < kActivationFunctionCount ? name(static_cast<ActivationFunction>(value))
                                            : std::string_view();
  const std::span<const std::string_view> all = names(kind);
  return static_cast<uint64_t>(value) < all.size() ? all[static_cast<size_t>(value)] : std::string_view();
}

std::optional<int64_t> value_from_name(AttributeKind kind, std::string_view text) {
  if (text.empty()) return std::nullopt;
  if (kind == AttributeKind::kOptionalAluOp && text == "none") return -1;
  if (kind == AttributeKind::kAluOp || kind == AttributeKind::kOptionalAluOp) {
    const auto op = alu_op_from_name(text);
    return op ? std::optional<int64_t>(static_cast<int64_t>(*op)) : std::nullopt;
  }
  if (kind == AttributeKind::kActivation) {
    const auto function = activation_from_name(text);
    return function ? std::optional<int64_t>(static_cast<int64_t>(*function)) : std::nullopt;
  }
  const std::span<const std::string_view> all = names(kind);
  for (size_t i = 0; i < all.size(); ++i)
    if (all[i] == text) return static_cast<int64_t>(i);
  return std::nullopt;
}

}  // namespace opentrn::isa::text
