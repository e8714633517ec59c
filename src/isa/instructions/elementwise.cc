// Element-wise arithmetic.
#include <algorithm>

#include "isa/instructions/row.h"

namespace opentrn::isa::instructions {

namespace {

bool is_32bit_integer(DType d) { return d == DType::kInt32 || d == DType::kUint32; }

bool any_in_psum(const Check& c, std::initializer_list<int> slots) {
  return std::ranges::any_of(slots, [&](int slot) { return c.has_tile(slot) && c.tile(slot).in_psum(); });
}

// Operators that no engine but Vector has.
void vector_operator(const Check& c, int number, AluOp op) {
  if (c.in.engine == Engine::kUnknown || c.in.engine == Engine::kVector) return;
  if (is_bitvec(op))
    c.fail(number, fmt::format("bit-vector operators run on the Vector engine, not on {}", name(c.in.engine)),
           "leave engine unknown");
  if (op == AluOp::kAbsMax || op == AluOp::kAbsMin)
    c.fail(number, fmt::format("{} runs on the Vector engine, not on {}", name(op), name(c.in.engine)),
           "leave engine unknown");
}

void tensor_scalar_on_gpsimd(const Check& c) {
  using namespace slot::tensor_scalar;
  const bool rsqrt = c.alu(kAOp0) == AluOp::kRsqrt || static_cast<AluOp>(c.integer(kAOp1)) == AluOp::kRsqrt;
  if (c.in.engine == Engine::kGpSimd && !rsqrt)
    c.fail(10,
           fmt::format("GpSimd cannot compute {}; in tensor_scalar it has rsqrt only", name(c.alu(kAOp0))),
           "leave engine unknown, or use engine.vector");
  if (!rsqrt || c.in.engine == Engine::kScalar) return;  // Scalar has its own rules
  if (c.in.engine == Engine::kVector)
    c.fail(11, "rsqrt runs on GpSimd, not on vector", "leave engine unknown, or use activation(op=nl.rsqrt)");
  if (any_in_psum(c, {kDst, kData, kOperand0, kOperand1}))
    c.fail(11, "rsqrt runs on GpSimd, which cannot access PSUM",
           "use activation(op=nl.rsqrt), or copy the tile to SBUF first");
}

void scalar_engine_operators(const Check& c) {
  using namespace slot::tensor_scalar;
  const AluOp op0 = c.alu(kAOp0);
  const int64_t op1 = c.integer(kAOp1);
  const bool alone = op1 < 0 || static_cast<AluOp>(op1) == AluOp::kBypass;
  const bool legal =
      op0 == AluOp::kMultiply ? alone || static_cast<AluOp>(op1) == AluOp::kAdd : op0 == AluOp::kAdd && alone;
  if (!legal)
    c.fail(4,
           fmt::format("the Scalar engine cannot compute {} then {}; multiply, multiply-add and add exist",
                       name(op0), op1 < 0 ? "nothing" : name(static_cast<AluOp>(op1))),
           "leave engine unknown, or use engine.vector");
}

// -- tensor_tensor
constexpr OperandSlot kTensorTensorOperands[] = {out("dst", kOnChip, kIndirectTile),
                                                 in("data1", kOnChip, kIndirectTile), in("data2")};
constexpr AttributeSlot kTensorTensorAttributes[] = {{"op", K::kAluOp}};
constexpr Parameter kTensorTensorParameters[] = {
    operand("dst", 0), operand("data1", 1), operand("data2", 2), attribute("op", 0), engine(), name()};
constexpr Constraint kTensorTensorConstraints[] = {
    {"tensor_tensor.C1", "dst, data1 and data2 have the same partitions and elements per partition.",
     "nki.isa.tensor_tensor, first paragraphs"},
    {"tensor_tensor.C2", "data1 and data2 are not both in PSUM.",
     "nki.isa.tensor_tensor, 'The three legal cases'"},
    {"tensor_tensor.C3", "Bit-vector operators take and give integers.",
     "nki.isa.tensor_tensor, 'For bitvec operators'"},
    {"tensor_tensor.C4", "power runs on GpSimd, so no operand is in PSUM.",
     "nki.isa.tensor_tensor, 'Which runs on the GpSimd engine', 'Since GpSimd Engine cannot access PSUM'"},
    {"tensor_tensor.C5", "op is a binary operator.", "nki.isa.tensor_tensor, op"},
    {"tensor_tensor.C6", "Bit-vector operators, abs_max and abs_min run on the Vector engine.",
     "nki.isa.tensor_tensor, 'For bitvec operators'; release notes of 0.4, abs_max"}};

void check_tensor_tensor(const Check& c) {
  using namespace slot::tensor_tensor;
  c.same_shape(1, kDst, kData1);
  c.same_shape(1, kDst, kData2);
  c.not_both_in_psum(2, kData1, kData2);
  const AluOp op = c.alu(kAOp);
  if (is_bitvec(op)) bit_patterns(c, 3, {kDst, kData1, kData2});
  if (op == AluOp::kPower) [[unlikely]] {
    if (c.in.engine == Engine::kVector)
      c.fail(4, "power runs on GpSimd, not on vector", "leave engine unknown, or use tensor_scalar");
    if (any_in_psum(c, {kDst, kData1, kData2}))
      c.fail(4, "power runs on GpSimd, which cannot access PSUM", "copy the tile to SBUF first");
  }
  vector_operator(c, 6, op);
  if (is_unary(op)) [[unlikely]]
    c.fail(5, fmt::format("{} takes one operand", name(op)), "use tensor_scalar or activation");
}

}  // namespace

constexpr InstructionDefinition tensor_tensor = {
    .opcode = Opcode::kTensorTensor,
    .name = "tensor_tensor",
    .engines = kOnVector | kOnGpSimd,
    .first_generation = Generation::kV1,
    .operands = kTensorTensorOperands,
    .attributes = kTensorTensorAttributes,
    .traits = kElementwise,
    .signature = {Engine::kUnknown, kTensorTensorParameters},
    .summary = "dst = data1 <op> data2, element by element.",
    .constraints = kTensorTensorConstraints,
    .check = check_tensor_tensor,
};

namespace {

// -- tensor_scalar
constexpr OperandSlot kTensorScalarOperands[] = {
    out("dst", kOnChip, kIndirectTile), in("data", kOnChip, kIndirectTile),
    in("operand0", kOnChip, kOptionalScalarOrVector), in("operand1", kOnChip, kOptionalScalarOrVector)};
constexpr AttributeSlot kTensorScalarAttributes[] = {
    {"op0", K::kAluOp}, {"reverse0", K::kBool}, {"op1", K::kOptionalAluOp}, {"reverse1", K::kBool}};
constexpr Parameter kTensorScalarParameters[] = {
    operand("dst", 0),
    operand("data", 1),
    attribute("op0", slot::tensor_scalar::kAOp0),
    {"operand0", ParameterRole::kOperand, slot::tensor_scalar::kOperand0, true},
    attribute("reverse0", slot::tensor_scalar::kAReverse0, 0),
    unset("op1", slot::tensor_scalar::kAOp1),
    optional("operand1", slot::tensor_scalar::kOperand1),
    attribute("reverse1", slot::tensor_scalar::kAReverse1, 0),
    engine(),
    name()};
constexpr Constraint kTensorScalarConstraints[] = {
    {"tensor_scalar.C1", "dst and data have the same partitions and elements per partition.",
     "nki.isa.tensor_scalar, dst"},
    {"tensor_scalar.C2", "operand0 and operand1 are numbers or [P, 1] tiles.",
     "nki.isa.tensor_scalar, operand0"},
    {"tensor_scalar.C3", "op0 and op1 are both bit-vector or both arithmetic.",
     "nki.isa.tensor_scalar, 'must be of the same type'"},
    {"tensor_scalar.C4",
     "Up to NeuronCore-v3 the Scalar engine computes multiply, multiply-add and add only.",
     "nki.isa.tensor_scalar, 'The Scalar Engine on trn2'"},
    {"tensor_scalar.C5", "A binary operator has its operand.", "nki.isa.tensor_scalar, op1"},
    {"tensor_scalar.C6", "Bit-vector operators take and give integers.",
     "nki.isa.tensor_scalar, 'If bitvec operators are used'"},
    {"tensor_scalar.C7", "Bit-vector operators, abs_max and abs_min run on the Vector engine.",
     "nki.isa.tensor_scalar, 'If bitvec operators are used'; release notes of 0.4, abs_max"},
    {"tensor_scalar.C8",
     "Operands of arithmetic operators are float32 (unless data is a 32-bit integer, which is address "
     "arithmetic).",
     "nki.isa.tensor_scalar, 'operand0 and operand1 (if used) must be float32'"},
    {"tensor_scalar.C9", "The Scalar engine cannot scatter into PSUM.",
     "nki.isa.tensor_scalar, 'Tensor indirection'"},
    {"tensor_scalar.C10", "GpSimd computes rsqrt only.",
     "nki.isa.tensor_scalar, engine: 'only allowed for rsqrt'"},
    {"tensor_scalar.C11", "rsqrt runs on GpSimd, so no operand is in PSUM.",
     "nki.api.shared.rst, 'Reverse square root can run on GpSIMD Engine or Scalar Engine'; migration guide, "
     "NKI 0.5.0, nki.language.rsqrt"}};

void check_tensor_scalar(const Check& c) {
  using namespace slot::tensor_scalar;
  c.same_shape(1, kDst, kData);
  c.vector_of(2, kOperand0, kData);
  c.vector_of(2, kOperand1, kData);
  const AluOp op0 = c.alu(kAOp0);
  const int64_t op1 = c.integer(kAOp1);
  const bool bits = is_bitvec(op0);
  if (op1 >= 0) {
    const AluOp second = static_cast<AluOp>(op1);
    if (is_bitvec(second) != bits && op0 != AluOp::kBypass && second != AluOp::kBypass) [[unlikely]]
      c.fail(3,
             fmt::format("{} and {} are of different classes; both must be bit-vector or both arithmetic",
                         name(op0), name(second)),
             "use two instructions");
    if (!c.operand(kOperand1).present() && !is_unary(second) && second != AluOp::kBypass) [[unlikely]]
      c.fail(5, fmt::format("{} needs operand1", name(second)));
  }
  if (!c.operand(kOperand0).present() && !is_unary(op0) && op0 != AluOp::kBypass) [[unlikely]]
    c.fail(5, fmt::format("{} needs operand0", name(op0)));
  vector_operator(c, 7, op0);
  if (op1 >= 0) vector_operator(c, 7, static_cast<AluOp>(op1));
  tensor_scalar_on_gpsimd(c);
  if (bits) {
    bit_patterns(c, 6, {kDst, kData, kOperand0, kOperand1});
  } else if (!is_32bit_integer(c.tile(kData).dtype())) {  // 32-bit integers: address arithmetic, undocumented
    c.dtype_in(8, kOperand0, kFp32);
    c.dtype_in(8, kOperand1, kFp32);
  }
  if (c.in.engine == Engine::kScalar) {
    if (!c.can.scalar_every_operator) scalar_engine_operators(c);
    no_scatter_into_psum_on_scalar(c, 9, kDst);
  }
}

}  // namespace

constexpr InstructionDefinition tensor_scalar = {
    .opcode = Opcode::kTensorScalar,
    .name = "tensor_scalar",
    .engines = kOnVector | kOnScalar | kOnGpSimd,
    .first_generation = Generation::kV1,
    .operands = kTensorScalarOperands,
    .attributes = kTensorScalarAttributes,
    .traits = kElementwise,
    .signature = {Engine::kUnknown, kTensorScalarParameters},
    .summary =
        "dst = (data <op0> operand0) <op1> operand1; operands are immediates or one value per partition.",
    .constraints = kTensorScalarConstraints,
    .check = check_tensor_scalar,
};

namespace {

// -- scalar_tensor_tensor
constexpr OperandSlot kScalarTensorTensorOperands[] = {
    out("dst"), in("data"), in("operand0", kOnChip, kScalarOrVector), in("operand1")};
constexpr AttributeSlot kScalarTensorTensorAttributes[] = {
    {"op0", K::kAluOp}, {"op1", K::kAluOp}, {"reverse0", K::kBool}, {"reverse1", K::kBool}};
constexpr Parameter kScalarTensorTensorParameters[] = {
    operand("dst", 0),
    operand("data", 1),
    attribute("op0", slot::scalar_tensor_tensor::kAOp0),
    operand("operand0", 2),
    attribute("op1", slot::scalar_tensor_tensor::kAOp1),
    operand("operand1", 3),
    attribute("reverse0", slot::scalar_tensor_tensor::kAReverse0, 0),
    attribute("reverse1", slot::scalar_tensor_tensor::kAReverse1, 0),
    name(),
    engine()};
constexpr Constraint kScalarTensorTensorConstraints[] = {
    {"scalar_tensor_tensor.C1", "dst, data and operand1 have the same partitions and elements per partition.",
     "nki.isa.scalar_tensor_tensor, 'Tile size'"},
    {"scalar_tensor_tensor.C2", "operand0 is a number or a [P, 1] tile.",
     "nki.isa.scalar_tensor_tensor, operand0"},
    {"scalar_tensor_tensor.C3", "data and operand1 are not both in PSUM.",
     "nki.isa.scalar_tensor_tensor, 'Memory types'"},
    {"scalar_tensor_tensor.C4", "Both operators are arithmetic.",
     "nki.isa.scalar_tensor_tensor, 'Bitvec operators are not supported'"}};

void check_scalar_tensor_tensor(const Check& c) {
  using namespace slot::scalar_tensor_tensor;
  c.same_shape(1, kDst, kData);
  c.same_shape(1, kDst, kOperand1);
  c.vector_of(2, kOperand0, kData);
  c.not_both_in_psum(3, kData, kOperand1);
  c.arithmetic(4, c.alu(kAOp0));
  c.arithmetic(4, c.alu(kAOp1));
}

}  // namespace

constexpr InstructionDefinition scalar_tensor_tensor = {
    .opcode = Opcode::kScalarTensorTensor,
    .name = "scalar_tensor_tensor",
    .engines = kOnVector,
    .first_generation = Generation::kV2,
    .operands = kScalarTensorTensorOperands,
    .attributes = kScalarTensorTensorAttributes,
    .traits = kElementwise,
    .signature = {Engine::kVector, kScalarTensorTensorParameters},
    .summary =
        "dst = (data <op0> operand0) <op1> operand1 with a scalar or per-partition operand0 and a tile "
        "operand1.",
    .constraints = kScalarTensorTensorConstraints,
    .check = check_scalar_tensor_tensor,
};

namespace {

// -- reciprocal
constexpr OperandSlot kReciprocalOperands[] = {out("dst"), in("data")};
constexpr Parameter kReciprocalParameters[] = {operand("dst", 0), operand("data", 1), name()};
constexpr Constraint kReciprocalConstraints[] = {
    {"reciprocal.C1", "dst and data have the same partitions and elements per partition.",
     "nki.isa.reciprocal, 'Tile size'"}};

void check_reciprocal(const Check& c) { c.same_shape(1, slot::reciprocal::kDst, slot::reciprocal::kData); }

}  // namespace

constexpr InstructionDefinition reciprocal = {
    .opcode = Opcode::kReciprocal,
    .name = "reciprocal",
    .engines = kOnVector,
    .first_generation = Generation::kV1,
    .operands = kReciprocalOperands,
    .traits = kElementwise,
    .signature = {Engine::kVector, kReciprocalParameters},
    .summary = "dst = 1 / data on the Vector engine.",
    .constraints = kReciprocalConstraints,
    .check = check_reciprocal,
};

}  // namespace opentrn::isa::instructions
