#include "compiler/analysis/number_sets.h"

#include "compiler/analysis/graph_names.h"

namespace opentrn::compiler {

std::optional<FloatFormat> format_of(ElementType element) {
  switch (element) {
    case ElementType::kF64: return FloatFormat{11, 52};
    case ElementType::kF32: return FloatFormat{8, 23};
    case ElementType::kTF32: return FloatFormat{8, 10};
    case ElementType::kBF16: return FloatFormat{8, 7};
    case ElementType::kF16: return FloatFormat{5, 10};
    default: return std::nullopt;
  }
}

namespace {

// Formats of 8 bits, which are narrower than all of format_of()'s; they do not hold each other's values.
std::optional<FloatFormat> small_format_of(ElementType element) {
  switch (element) {
    case ElementType::kF8E3M4: return FloatFormat{3, 4};
    case ElementType::kF8E4M3:
    case ElementType::kF8E4M3FN: return FloatFormat{4, 3};
    case ElementType::kF8E5M2: return FloatFormat{5, 2};
    default: return format_of(element);
  }
}

}  // namespace

bool holds_all(ElementType from, ElementType to) {
  if (from == to) return true;
  if (graph::is_bool(from)) return graph::is_integer(to) || format_of(to).has_value();
  if (graph::is_integer(from) && graph::is_integer(to)) {
    const bool from_signed = graph::is_signed_integer(from), to_signed = graph::is_signed_integer(to);
    if (from_signed == to_signed) return graph::bit_width(from) <= graph::bit_width(to);
    return !from_signed && graph::bit_width(from) < graph::bit_width(to);
  }
  const auto wide = format_of(to);
  if (graph::is_integer(from)) {
    const int digits = graph::bit_width(from) - (graph::is_signed_integer(from) ? 1 : 0);
    return wide && digits <= wide->mantissa_bits + 1;
  }
  const auto narrow = small_format_of(from);
  return narrow && wide && narrow->exponent_bits <= wide->exponent_bits &&
         narrow->mantissa_bits <= wide->mantissa_bits;
}

bool is_narrow_operand_type(ElementType narrow, ElementType wide) {
  switch (narrow) {
    case ElementType::kI8:
    case ElementType::kUI8:
    case ElementType::kF8E4M3:
    case ElementType::kF8E4M3FN:
    case ElementType::kF8E5M2:
    case ElementType::kBF16:
    case ElementType::kF16: return narrow != wide && holds_all(narrow, wide);
    default: return false;
  }
}

bool is_narrow_operand(const graph::Function& function, graph::ValueId value, ElementType wide) {
  const graph::Type& type = function.type(value);
  if (type.quantization() || !is_narrow_operand_type(type.element(), wide)) return false;
  const auto maker_is = [&](OpKind kind) {
    const graph::OpId maker = function.value(value).op;
    return maker != graph::kNoOp && function.op(maker).kind == kind;
  };
  if (maker_is(OpKind::constant_)) return true;
  while (maker_is(OpKind::slice_)) value = function.op(function.value(value).op).operands[0];
  return graph::storage_bytes(type.element()) == 1 && function.value(value).op == graph::kNoOp &&
         function.value(value).block == function.body();
}

}  // namespace opentrn::compiler
