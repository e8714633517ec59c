// tensor_tensor, tensor_scalar, scalar_tensor_tensor, reciprocal.
#include <fmt/format.h>

#include "numerics/alu.h"
#include "sim/functional/instructions/body.h"
#include "sim/functional/rows.h"

namespace opentrn::sim::bodies {

namespace {

bool is_int32(DType dtype) { return dtype == DType::kInt32 || dtype == DType::kUint32; }

// Operators that GpSimd's integer arithmetic has; the rest go through fp32.
bool has_integer_form(AluOp op) {
  return op != AluOp::kRsqrt && op != AluOp::kReciprocal && op != AluOp::kSqrt && op != AluOp::kAverage;
}

void require_integers(const Context& cx, AluOp op, const View& view, int slot) {
  if (!is_integer(view.dtype) && view.dtype != DType::kBool)
    cx.broken("bitvec_dtype",
              fmt::format("{} keeps bits and needs integers; {} is {}", name(op), cx.operand_name(slot),
                          name(view.dtype)),
              "reinterpret the tile with .view(nl.int32)");
}

void require_arithmetic(const Context& cx, AluOp op) {
  if (is_bitvec(op))
    cx.broken("op",
              fmt::format("{} is a bit-vector operator; this instruction takes arithmetic ones", name(op)));
}

bool joins_bits(AluOp op) {
  return op == AluOp::kBitwiseAnd || op == AluOp::kBitwiseOr || op == AluOp::kBitwiseXor;
}

// Of words of fewer than 32 bits.
template <typename Word>
void join_bits(const Context& cx, AluOp op, const View& a, const View& b, const View& dst) {
  const auto join = [&](auto&& joined) {
    for_word_rows<2, Word>(
        cx, {&a, &b}, dst,
        [joined, n = dst.elements](int64_t, const std::array<const Word*, 2>& in, Word* out) {
          for (int64_t i = 0; i < n; ++i) out[i] = static_cast<Word>(joined(in[0][i], in[1][i]));
        });
  };
  switch (op) {
    case AluOp::kBitwiseAnd: return join([](auto x, auto y) { return x & y; });
    case AluOp::kBitwiseOr: return join([](auto x, auto y) { return x | y; });
    default: return join([](auto x, auto y) { return x ^ y; });
  }
}

}  // namespace

// 32-bit integers are exact on GpSimd, which is the default engine for them unless an operand is in PSUM;
// on Vector they go through fp32 as everything else. [doc: nki.isa.tensor_tensor]
void tensor_tensor(Context& cx) {
  using namespace isa::slot::tensor_tensor;
  const AluOp op = cx.alu(kAOp);
  View a = cx.source(kData1);
  View b = cx.source(kData2);
  const View dst = cx.destination(kDst);
  cx.expect_same_shape(dst, a, kDst, kData1);
  cx.expect_same_shape(dst, b, kDst, kData2);
  cx.separate(dst, a, b);

  const bool any_psum = cx.in_psum(kDst) || cx.in_psum(kData1) || cx.in_psum(kData2);
  const bool on_gpsimd =
      cx.engine() == isa::Engine::kGpSimd || (cx.engine() == isa::Engine::kUnknown && !any_psum);
  const bool exact =
      on_gpsimd && is_int32(a.dtype) && is_int32(b.dtype) && is_int32(dst.dtype) && has_integer_form(op);
  if (is_bitvec(op)) {
    require_integers(cx, op, a, kData1);
    require_integers(cx, op, b, kData2);
    require_integers(cx, op, dst, kDst);
  }
  if ((is_bitvec(op) || exact) && is_int32(dst.dtype) && a.dtype == dst.dtype && b.dtype == dst.dtype &&
      numerics::has_int32_rows(op)) {
    const bool is_signed = dst.dtype == DType::kInt32;
    for_word_rows<2>(cx, {&a, &b}, dst,
                     [&](int64_t, const std::array<const uint32_t*, 2>& in, uint32_t* out) {
                       numerics::alu_tensor_tensor_int32(op, is_signed, in[0], in[1], out,
                                                         static_cast<size_t>(dst.elements));
                     });
    return;
  }
  if (joins_bits(op) && a.dtype == dst.dtype && b.dtype == dst.dtype) {
    if (size_bytes(dst.dtype) == 2) return join_bits<uint16_t>(cx, op, a, b, dst);
    if (size_bytes(dst.dtype) == 1) return join_bits<uint8_t>(cx, op, a, b, dst);
  }
  if (is_bitvec(op) || exact) {
    const DType width = is_bitvec(op) ? a.dtype : dst.dtype;
    for_rows_i64<2>(cx, {&a, &b}, dst, [&](int64_t, const std::array<int64_t*, 2>& in, int64_t* out) {
      numerics::alu_tensor_tensor_int(op, width, in[0], in[1], out, static_cast<size_t>(dst.elements));
    });
    return;
  }
  const auto combined = [&](const Block<2>& block) {
    const size_t rows = static_cast<size_t>(block.rows), n = static_cast<size_t>(block.n);
    const auto by_number = [&](size_t row, size_t number, bool reversed) {
      const FloatRows numbers = block.in[number];
      numerics::alu_tensor_scalar(op, block.in[row], {numbers.data, numbers.pitch}, reversed, block.out, rows,
                                  n);
    };
    if (block.one_a_row[0]) return by_number(1, 0, true);
    if (block.one_a_row[1]) return by_number(0, 1, false);
    numerics::alu_tensor_tensor(op, block.in[0], block.in[1], block.out, rows, n);
  };
  for_blocks<2>(cx, {&a, &b}, dst, false, combined, 2, {.takes_one_a_row = true});
}

namespace {

// Integer operands of a bit-vector tensor_scalar, one per partition.
struct IntegerOperand {
  bool is_vector = false;
  int64_t scalar = 0;
  std::array<int64_t, kPartitionsMax> values;

  int64_t at(int64_t p) const { return is_vector ? values[p] : scalar; }
};

IntegerOperand integer_operand(Context& cx, int slot, AluOp op, int64_t partitions) {
  IntegerOperand result;
  if (!cx.has(slot)) {
    if (!is_unary(op)) cx.broken("operand", fmt::format("{} needs {}", name(op), cx.operand_name(slot)));
    return result;
  }
  if (cx.operand(slot).kind == isa::OperandKind::kImmediate) {
    result.scalar = cx.register_or_immediate(slot);
    return result;
  }
  const View view = cx.source(slot);
  require_integers(cx, op, view, slot);
  cx.expect_partitions(view, slot, partitions);
  cx.expect_elements(view, slot, 1);
  result.is_vector = true;
  numerics::load_i64(view.dtype, view.base, view.partition_stride / view.element_bytes, result.values.data(),
                     static_cast<size_t>(partitions));
  return result;
}

bool fits_word(DType dtype, int64_t value) {
  return dtype == DType::kInt32 ? value == static_cast<int32_t>(value)
                                : value == static_cast<uint32_t>(value);
}

void tensor_scalar_bitvec(Context& cx, AluOp op0, std::optional<AluOp> op1) {
  using namespace isa::slot::tensor_scalar;
  View data = cx.source(kData);
  const IntegerOperand operand0 = integer_operand(cx, kOperand0, op0, data.partitions);
  const IntegerOperand operand1 =
      op1 ? integer_operand(cx, kOperand1, *op1, data.partitions) : IntegerOperand{};
  const View dst = cx.destination(kDst);
  cx.expect_same_shape(dst, data, kDst, kData);
  require_integers(cx, op0, data, kData);
  require_integers(cx, op0, dst, kDst);
  cx.separate(dst, data);
  const bool reverse0 = cx.boolean(kAReverse0) && !is_unary(op0);
  const bool reverse1 = op1 && cx.boolean(kAReverse1) && !is_unary(*op1);
  const size_t n = static_cast<size_t>(dst.elements);
  const auto is_word = [&](AluOp op, const IntegerOperand& operand) {
    return numerics::has_int32_rows(op) && (operand.is_vector || fits_word(data.dtype, operand.scalar));
  };
  if (is_int32(data.dtype) && dst.dtype == data.dtype && is_word(op0, operand0) &&
      (!op1 || is_word(*op1, operand1))) {
    const bool is_signed = data.dtype == DType::kInt32;
    const auto word = [](int64_t value) { return static_cast<uint32_t>(value); };
    for_word_rows<1>(
        cx, {&data}, dst, [&](int64_t p, const std::array<const uint32_t*, 1>& in, uint32_t* out) {
          numerics::alu_tensor_scalar_int32(op0, is_signed, in[0], word(operand0.at(p)), reverse0, out, n);
          if (op1)
            numerics::alu_tensor_scalar_int32(*op1, is_signed, out, word(operand1.at(p)), reverse1, out, n);
        });
    return;
  }
  for_rows_i64<1>(cx, {&data}, dst, [&](int64_t p, const std::array<int64_t*, 1>& in, int64_t* out) {
    numerics::alu_tensor_scalar_int(op0, data.dtype, in[0], operand0.at(p), reverse0, out, n);
    if (op1) numerics::alu_tensor_scalar_int(*op1, data.dtype, out, operand1.at(p), reverse1, out, n);
  });
}

PerPartition arithmetic_operand(Context& cx, int slot, AluOp op, int64_t partitions) {
  const PerPartition operand = cx.per_partition(slot, partitions);
  if (!operand.present && !is_unary(op) && op != AluOp::kBypass)
    cx.broken("operand", fmt::format("{} needs {}", name(op), cx.operand_name(slot)));
  return operand;
}

}  // namespace

// (data op0 operand0) op1 operand1 in fp32, one rounding at the end of each operator and one to dst.
void tensor_scalar(Context& cx) {
  using namespace isa::slot::tensor_scalar;
  const AluOp op0 = cx.alu(kAOp0);
  const std::optional<AluOp> op1 = cx.optional_alu(kAOp1);
  if (op1 && is_bitvec(op0) != is_bitvec(*op1) && *op1 != AluOp::kBypass && op0 != AluOp::kBypass)
    cx.broken("op", fmt::format("{} and {} are of different classes", name(op0), name(*op1)),
              "both operators must be bit-vector, or both arithmetic");
  if (is_bitvec(op0) || (op1 && is_bitvec(*op1))) return tensor_scalar_bitvec(cx, op0, op1);

  View data = cx.source(kData);
  const PerPartition operand0 = arithmetic_operand(cx, kOperand0, op0, data.partitions);
  const PerPartition operand1 =
      op1 ? arithmetic_operand(cx, kOperand1, *op1, data.partitions) : PerPartition{};
  const View dst = cx.destination(kDst);
  cx.expect_same_shape(dst, data, kDst, kData);
  cx.separate(dst, data);
  const bool reverse0 = cx.boolean(kAReverse0) && !is_unary(op0);
  const bool reverse1 = op1 && cx.boolean(kAReverse1) && !is_unary(*op1);
  const bool by_partition = operand0.is_vector || operand1.is_vector;
  for_blocks<1>(cx, {&data}, dst, by_partition, [&](const Block<1>& block) {
    const size_t rows = static_cast<size_t>(block.rows), n = static_cast<size_t>(block.n);
    numerics::alu_tensor_scalar(op0, block.in[0], block.scalars(operand0), reverse0, block.out, rows, n);
    if (op1)
      numerics::alu_tensor_scalar(*op1, block.out, block.scalars(operand1), reverse1, block.out, rows, n);
  });
}

// (data op0 operand0) op1 operand1, where operand1 is a tile.
void scalar_tensor_tensor(Context& cx) {
  using namespace isa::slot::scalar_tensor_tensor;
  const AluOp op0 = cx.alu(kAOp0);
  const AluOp op1 = cx.alu(kAOp1);
  require_arithmetic(cx, op0);
  require_arithmetic(cx, op1);
  View data = cx.source(kData);
  const PerPartition operand0 = arithmetic_operand(cx, kOperand0, op0, data.partitions);
  View operand1 = cx.source(kOperand1);
  const View dst = cx.destination(kDst);
  cx.expect_same_shape(dst, data, kDst, kData);
  cx.expect_same_shape(dst, operand1, kDst, kOperand1);
  cx.separate(dst, data, operand1);
  const bool reverse0 = cx.boolean(kAReverse0) && !is_unary(op0);
  const bool reverse1 = cx.boolean(kAReverse1);
  for_blocks<2>(cx, {&data, &operand1}, dst, operand0.is_vector, [&](const Block<2>& block) {
    const size_t rows = static_cast<size_t>(block.rows), n = static_cast<size_t>(block.n);
    const numerics::RowScalars scalars = block.scalars(operand0);
    if (numerics::alu_scalar_tensor_tensor(op0, op1, block.in[0], scalars, reverse0, block.in[1], reverse1,
                                           block.out, rows, n))
      return;
    // The first result must not land on operand1, which may be dst itself.
    ScratchScope scope;
    MutableFloatRows first = block.out;
    if (block.out.data == block.in[1].data) first = {scope.floats(block.rows * block.n), n};
    numerics::alu_tensor_scalar(op0, block.in[0], scalars, reverse0, first, rows, n);
    if (reverse1)
      numerics::alu_tensor_tensor(op1, block.in[1], first, block.out, rows, n);
    else
      numerics::alu_tensor_tensor(op1, first, block.in[1], block.out, rows, n);
  });
}

void reciprocal(Context& cx) {
  using namespace isa::slot::reciprocal;
  View data = cx.source(kData);
  const View dst = cx.destination(kDst);
  cx.expect_same_shape(dst, data, kDst, kData);
  cx.separate(dst, data);
  for_blocks<1>(
      cx, {&data}, dst, false, row_by_row<1>([](int64_t, const float* const* in, float* out, int64_t n) {
        numerics::alu_tensor_scalar(AluOp::kReciprocal, in[0], 0.0f, false, out, static_cast<size_t>(n));
      }));
}

}  // namespace opentrn::sim::bodies
