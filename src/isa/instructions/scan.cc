// Running results along the free dimension.
#include "isa/instructions/row.h"

namespace opentrn::isa::instructions {

namespace {

// No 32-bit integers: tensor_scalar_cumulative.
constexpr DTypes kCumulativeTypes =
    kFloats | DTypes{DType::kUint8, DType::kUint16, DType::kInt8, DType::kInt16};

// -- tensor_scalar_cumulative
constexpr OperandSlot kTensorScalarCumulativeOperands[] = {
    out("dst", kOnChip, kIndirectTile), in("src", kOnChip, kIndirectTile),
    in("imm0", kOnChip, kScalarOrVector), in("imm1", kOnChip, kOptionalScalarOrVector)};
constexpr AttributeSlot kTensorScalarCumulativeAttributes[] = {
    {"op0", K::kAluOp}, {"op1", K::kAluOp}, {"reduce_cmd", K::kReduceCmd}, {"reverse0", K::kBool}};
constexpr Parameter kTensorScalarCumulativeParameters[] = {
    operand("dst", 0),
    operand("src", 1),
    attribute("op0", slot::tensor_scalar_cumulative::kAOp0),
    attribute("op1", slot::tensor_scalar_cumulative::kAOp1),
    operand("imm0", 2),
    optional("imm1", 3),
    attribute("reduce_cmd", slot::tensor_scalar_cumulative::kAReduceCmd, ReduceCmd::kResetReduce),
    name(),
    attribute("reverse0", slot::tensor_scalar_cumulative::kAReverse0, 0)};
constexpr Constraint kTensorScalarCumulativeConstraints[] = {
    {"tensor_scalar_cumulative.C1", "dst and src have the same partitions and elements per partition.",
     "nki.isa.tensor_scalar_cumulative, dst"},
    {"tensor_scalar_cumulative.C2", "imm0 and imm1 are numbers or [P, 1] tiles.",
     "nki.isa.tensor_scalar_cumulative, imm0"},
    {"tensor_scalar_cumulative.C3", "op0 is arithmetic.",
     "nki.isa.tensor_scalar_cumulative, 'Operation constraints'"},
    {"tensor_scalar_cumulative.C4", "op1 is add, subtract, multiply, maximum or minimum.",
     "nki.isa.tensor_scalar_cumulative, 'Operation constraints'"},
    {"tensor_scalar_cumulative.C5", "dst and src are floats or 8- or 16-bit integers.",
     "nki.isa.tensor_scalar_cumulative, 'Operation constraints'"},
    {"tensor_scalar_cumulative.C6", "imm0 and imm1 are float32.", "nki.isa.tensor_scalar_cumulative, imm0"},
    {"tensor_scalar_cumulative.C7", "reduce_cmd is reset_reduce, reduce or load_reduce.",
     "nki.isa.tensor_scalar_cumulative, 'Accumulator behavior'"},
    {"tensor_scalar_cumulative.C8", "load_reduce needs imm1.",
     "nki.isa.tensor_scalar_cumulative, 'Accumulator behavior'"}};

void check_tensor_scalar_cumulative(const Check& c) {
  using namespace slot::tensor_scalar_cumulative;
  c.same_shape(1, kDst, kSrc);
  c.vector_of(2, kImm0, kSrc);
  c.vector_of(2, kImm1, kSrc);
  c.arithmetic(3, c.alu(kAOp0));
  const AluOp op = c.alu(kAOp1);
  if (op != AluOp::kAdd && op != AluOp::kSubtract && op != AluOp::kMultiply && op != AluOp::kMaximum &&
      op != AluOp::kMinimum) [[unlikely]]
    c.fail(4, fmt::format("op1 is {}; add, subtract, multiply, maximum and minimum exist", name(op)));
  c.dtype_in(5, kDst, kCumulativeTypes);
  c.dtype_in(5, kSrc, kCumulativeTypes);
  c.dtype_in(6, kImm0, kFp32);
  c.dtype_in(6, kImm1, kFp32);
  if (!reduce_cmd_is(c, kAReduceCmd, {ReduceCmd::kResetReduce, ReduceCmd::kReduce, ReduceCmd::kLoadReduce}))
      [[unlikely]]
    c.fail(7, "reduce_cmd must be reset_reduce, reduce or load_reduce");
  if (reduce_cmd_is(c, kAReduceCmd, {ReduceCmd::kLoadReduce}) && !c.operand(kImm1).present()) [[unlikely]]
    c.fail(8, "load_reduce needs imm1");
}

}  // namespace

constexpr InstructionDefinition tensor_scalar_cumulative = {
    .opcode = Opcode::kTensorScalarCumulative,
    .name = "tensor_scalar_cumulative",
    .engines = kOnVector,
    .first_generation = Generation::kV2,
    .operands = kTensorScalarCumulativeOperands,
    .attributes = kTensorScalarCumulativeAttributes,
    .traits = kVectorReduces,
    .signature = {Engine::kVector, kTensorScalarCumulativeParameters},
    .summary = "dst[i] = register = (src[i] <op0> imm0) <op1> register, along each partition.",
    .constraints = kTensorScalarCumulativeConstraints,
    .check = check_tensor_scalar_cumulative,
};

namespace {

// -- tensor_tensor_scan
constexpr OperandSlot kTensorTensorScanOperands[] = {out("dst"), in("data0"), in("data1"),
                                                     in("initial", kOnChip, kScalarOrVector)};
constexpr AttributeSlot kTensorTensorScanAttributes[] = {
    {"op0", K::kAluOp}, {"op1", K::kAluOp}, {"reverse0", K::kBool}, {"reverse1", K::kBool}};
constexpr Parameter kTensorTensorScanParameters[] = {
    operand("dst", 0),           operand("data0", 1),         operand("data1", 2),
    operand("initial", 3),       attribute("op0", 0),         attribute("op1", 1),
    attribute("reverse0", 2, 0), attribute("reverse1", 3, 0), name()};
constexpr Constraint kTensorTensorScanConstraints[] = {
    {"tensor_tensor_scan.C1", "dst, data0 and data1 have the same partitions and elements per partition.",
     "nki.isa.tensor_tensor_scan, first paragraphs"},
    {"tensor_tensor_scan.C2", "data0 and data1 are not both in PSUM.",
     "nki.isa.tensor_tensor_scan, 'The three legal cases'"},
    {"tensor_tensor_scan.C3", "initial is a number or a [P, 1] tile.", "nki.isa.tensor_tensor_scan, initial"},
    {"tensor_tensor_scan.C4", "op0 and op1 are binary arithmetic operators.",
     "nki.isa.tensor_tensor_scan, op0"}};

void check_tensor_tensor_scan(const Check& c) {
  using namespace slot::tensor_tensor_scan;
  c.same_shape(1, kDst, kData0);
  c.same_shape(1, kDst, kData1);
  c.not_both_in_psum(2, kData0, kData1);
  c.vector_of(3, kInitial, kData0);
  for (AluOp op : {c.alu(kAOp0), c.alu(kAOp1)})
    if (is_bitvec(op) || is_unary(op)) [[unlikely]]
      c.fail(4, fmt::format("{} is not a binary arithmetic operator", name(op)));
}

}  // namespace

constexpr InstructionDefinition tensor_tensor_scan = {
    .opcode = Opcode::kTensorTensorScan,
    .name = "tensor_tensor_scan",
    .engines = kOnVector,
    .first_generation = Generation::kV2,
    .operands = kTensorTensorScanOperands,
    .attributes = kTensorTensorScanAttributes,
    .traits = {kByRows, Mixing::kElementsOfALane},
    .signature = {Engine::kVector, kTensorTensorScanParameters},
    .summary =
        "r[i] = (data0[i] <op0> r[i-1]) <op1> data1[i] along each partition, r[-1] = initial; r stays "
        "float32.",
    .constraints = kTensorTensorScanConstraints,
    .check = check_tensor_tensor_scan,
};

}  // namespace opentrn::isa::instructions
