#include "compiler/lowering/rotated_words.h"

#include <cmath>

#include "arch/core_features.h"
#include "compiler/analysis/values.h"

namespace opentrn::compiler {

using graph::Op;
using graph::OpKind;
using graph::ValueId;

namespace {

struct Shift {
  ValueId word;
  double count;
};

std::optional<Shift> shift_of(const graph::Function& function, ValueId value, OpKind kind) {
  const graph::OpId id = function.value(value).op;
  if (id == graph::kNoOp || function.op(id).kind != kind) return std::nullopt;
  const Op& op = function.op(id);
  const auto count = splat_of(function, op.operands[1]);
  return count ? std::optional<Shift>({op.operands[0], *count}) : std::nullopt;
}

// A narrower number inside every word, `index` of them from its low end.
Tile part_of_words(const Tile& words, DType dtype, int64_t index) {
  const int64_t parts = 4 / size_bytes(dtype);
  Tile part = words;
  part.dtype = dtype;
  part.row_elements *= parts;
  part.offset = part.offset * parts + index;
  part.column_step *= parts;
  part.run_step *= parts;
  part.group_step *= parts;
  return part;
}

}  // namespace

std::optional<Rotation> rotation_of(const graph::Function& function, const Op& op) {
  constexpr double kBits = 32;
  if (op.kind != OpKind::or_ || graph::bit_width(function.type(op.results[0]).element()) != 32)
    return std::nullopt;
  for (const size_t place : {0, 1}) {
    const auto left = shift_of(function, op.operands[place], OpKind::shift_left_);
    const auto right = shift_of(function, op.operands[1 - place], OpKind::shift_right_logical_);
    if (left && right && left->word == right->word && left->count > 0 && left->count < kBits &&
        right->count == kBits - left->count && !splat_of(function, left->word))
      return Rotation{left->word, static_cast<int>(left->count)};
  }
  return std::nullopt;
}

// The halves of the word over 2^drop, cut to whole numbers: rounded to the nearest after half of the distance
// between them is taken off, less what keeps a whole number on its side. Exact: at most 17 bits.
void RotatedWords::emit_cut(const Tile& dst, const Tile& half, int drop) {
  const double bias = std::exp2(-drop - 1) - 0.5;
  auto found = biases_.find(bias);
  if (found == biases_.end()) {
    const Tile column = emitter_.sbuf(kPartitions, 1, DType::kFloat32, "bias");
    emitter_.memset(column, bias);
    found = biases_.emplace(bias, column).first;
  }
  emitter_.activation(ActivationFunction::kCopy, dst, half, std::exp2(-drop),
                      found->second.row_range(0, half.rows));
}

void RotatedWords::emit(const Tile& dst, const Tile& word, int left) {
  const auto half = [](const Tile& words, int64_t index) {
    return part_of_words(words, DType::kUint16, index);
  };
  const auto byte = [](const Tile& words, int64_t index) {
    return part_of_words(words, DType::kUint8, index);
  };
  const auto copy = [&](const Tile& to, const Tile& from) {
    if (arch::core_features(emitter_.generation()).scalar_copies)
      emitter_.tensor_copy(to, from, isa::Engine::kScalar);
    else  // before NeuronCore-v3 the engine has functions only
      emitter_.activation(ActivationFunction::kCopy, to, from);
  };
  const auto shift = [&](AluOp op, const Tile& to, int count) {
    emitter_.tensor_scalar(op, to, word, static_cast<double>(count));
  };
  if (left == 16) {
    copy(half(dst, 0), half(word, 1));
    return copy(half(dst, 1), half(word, 0));
  }
  if (left == 8) {
    shift(AluOp::kLeftShift, dst, left);
    return copy(byte(dst, 0), byte(word, 3));
  }
  if (left == 24) {
    shift(AluOp::kRightShift, dst, 32 - left);
    return copy(byte(dst, 3), byte(word, 0));
  }
  if (left < 16) {
    const Tile cut = emitter_.sbuf(word.rows, word.columns, dst.dtype, "cut");
    emit_cut(cut, half(word, 1), 16 - left);
    shift(AluOp::kLeftShift, dst, left);
    return emitter_.tensor_tensor(AluOp::kBitwiseOr, dst, dst, cut);
  }
  const Tile turned = emitter_.sbuf(word.rows, word.columns, dst.dtype, "turned");
  emit_cut(half(dst, 1), half(word, 1), 32 - left);
  shift(AluOp::kLeftShift, turned, left - 16);
  copy(half(dst, 0), half(turned, 1));
  emitter_.tensor_tensor(AluOp::kBitwiseOr, half(dst, 1), half(dst, 1), half(turned, 0));
}

}  // namespace opentrn::compiler
