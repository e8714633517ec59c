// Activation functions, with a reduction on the way.
#include "isa/instructions/row.h"

namespace opentrn::isa::instructions {

namespace {

constexpr DTypes kExponentialTypes = kFloats | kBitPatterns;

// -- activation
constexpr OperandSlot kActivationOperands[] = {
    out("dst", kOnChip, kIndirectTile), in("data", kOnChip, kIndirectTile),
    in("bias", kOnChip, kOptionalScalarOrVector), in("scale", kOnChip, kScalarOrVector),
    out("reduce_res", kOnChip, kOptionalTile)};
constexpr AttributeSlot kActivationAttributes[] = {
    {"op", K::kActivation}, {"reduce_op", K::kOptionalAluOp}, {"reduce_cmd", K::kReduceCmd}};
constexpr Parameter kActivationParameters[] = {
    operand("dst", 0),
    attribute("op", slot::activation::kAOp),
    operand("data", 1),
    optional("bias", slot::activation::kBias),
    scalar("scale", slot::activation::kScale, 1.0),
    unset("reduce_op", slot::activation::kAReduceOp),
    optional("reduce_res", slot::activation::kReduceRes),
    attribute("reduce_cmd", slot::activation::kAReduceCmd, ReduceCmd::kIdle),
    name()};
constexpr Constraint kActivationConstraints[] = {
    {"activation.C1", "dst and data have the same partitions and elements per partition.",
     "nki.isa.activation, 'Tile size'"},
    {"activation.C2", "bias and scale are numbers or [P, 1] tiles.", "nki.isa.activation, 'Layout'"},
    {"activation.C3", "scale is float32.", "nki.isa.activation, 'Data types'"},
    {"activation.C4", "bias is not tfloat32.", "nki.isa.activation, 'Data types'"},
    {"activation.C5", "Before NeuronCore-v3 bias is a [P, 1] tile.", "nki.isa.activation, 'Layout'"},
    {"activation.C6", "reduce_res is a [P, 1] tile.", "nki.isa.activation, reduce_res"},
    {"activation.C7", "reduce_op is add.", "nki.isa.activation, 'reduce_op must be nl.add'"},
    {"activation.C8", "The Scalar engine cannot scatter into PSUM.",
     "nki.isa.activation, 'Tensor indirection'"},
    {"activation.C9", "reduce_cmd is idle, reset, reduce or reset_reduce.", "nki.isa.activation, reduce_cmd"},
    {"activation.C10", "Before NeuronCore-v3 reciprocal has no bias.",
     "nki.api.shared.rst, 'doesn't support setting bias on NeuronCore-v2'"}};

// activation and activation_reduce: the same slots.
void check_activation(const Check& c) {
  using namespace slot::activation;
  const bool always_reduces = c.in.opcode == Opcode::kActivationReduce;
  c.same_shape(1, kDst, kData);
  c.vector_of(2, kBias, kData);
  c.vector_of(2, kScale, kData);
  c.dtype_in(3, kScale, kFp32);
  if (c.has_tile(kBias) && c.tile(kBias).dtype() == DType::kTFloat32) [[unlikely]]
    c.fail(4, "bias is tfloat32; every other type is possible");
  if (!c.can.activation_bias_number && c.has_immediate(kBias) && c.immediate(kBias) != 0) [[unlikely]]
    c.fail(5, fmt::format("bias is {}; before NeuronCore-v3 it must be a [P, 1] tile", c.immediate(kBias)),
           "fill a tile with memset and pass it");
  c.vector_of(6, kReduceRes, kData);
  const int64_t reduce_op = c.integer(kAReduceOp);
  if (reduce_op >= 0 && static_cast<AluOp>(reduce_op) != AluOp::kAdd &&
      (!always_reduces || !c.can.activation_reduce_operators)) [[unlikely]]
    c.fail(7, fmt::format("reduce_op is {}; only add is possible", name(static_cast<AluOp>(reduce_op))),
           "activate2 has more on NeuronCore-v4");
  no_scatter_into_psum_on_scalar(c, 8, kDst);
  const bool reciprocal = static_cast<ActivationFunction>(c.integer(kAOp)) == ActivationFunction::kReciprocal;
  if (!c.can.activation_reciprocal_bias && reciprocal && c.has_tile(kBias)) [[unlikely]]
    c.fail(always_reduces ? 9 : 10, "reciprocal with a bias; before NeuronCore-v3 it has none",
           "add the bias with tensor_scalar first");
  if (!always_reduces && reduce_cmd_is(c, kAReduceCmd, {ReduceCmd::kLoadReduce})) [[unlikely]]
    c.fail(9, "reduce_cmd is load_reduce; the Scalar engine cannot load its accumulators");
}

}  // namespace

constexpr InstructionDefinition activation = {
    .opcode = Opcode::kActivation,
    .name = "activation",
    .engines = kOnScalar,
    .first_generation = Generation::kV1,
    .operands = kActivationOperands,
    .attributes = kActivationAttributes,
    .traits = {kByRows | kMergeable, Mixing::kNone,
               scalar_reduction(slot::activation::kAReduceCmd, slot::activation::kReduceRes)},
    .signature = {Engine::kScalar, kActivationParameters},
    .summary =
        "dst = op(data * scale + bias), and optionally a running sum of the result along each partition.",
    .constraints = kActivationConstraints,
    .check = check_activation,
};

namespace {

// -- activation_reduce
constexpr Parameter kActivationReduceParameters[] = {
    operand("dst", 0),
    attribute("op", slot::activation_reduce::kAOp),
    operand("data", 1),
    attribute("reduce_op", slot::activation_reduce::kAReduceOp),
    optional("reduce_res", slot::activation_reduce::kReduceRes),
    optional("bias", slot::activation_reduce::kBias),
    scalar("scale", slot::activation_reduce::kScale, 1.0),
    name()};
constexpr Constraint kActivationReduceConstraints[] = {
    {"activation_reduce.C1", "dst and data have the same partitions and elements per partition.",
     "nki.isa.activation_reduce, dst"},
    {"activation_reduce.C2", "bias and scale are numbers or [P, 1] tiles.",
     "nki.isa.activation_reduce, bias"},
    {"activation_reduce.C3", "scale is float32.", "nki.isa.activation_reduce, 'Refer to nisa.activation'"},
    {"activation_reduce.C4", "bias is not tfloat32.",
     "nki.isa.activation_reduce, 'Refer to nisa.activation'"},
    {"activation_reduce.C5", "Before NeuronCore-v3 bias is a [P, 1] tile.",
     "nki.isa.activation_reduce, 'Refer to nisa.activation'"},
    {"activation_reduce.C6", "reduce_res is a [P, 1] tile.", "nki.isa.activation_reduce, reduce_res"},
    {"activation_reduce.C7", "Before NeuronCore-v3 reduce_op is add.",
     "nki.isa.activation_reduce, 'On NeuronCore-v2'"},
    {"activation_reduce.C8", "The Scalar engine cannot scatter into PSUM.",
     "nki.isa.activation_reduce, 'Tensor indirection'"},
    {"activation_reduce.C9", "Before NeuronCore-v3 reciprocal has no bias.",
     "nki.api.shared.rst, 'doesn't support setting bias on NeuronCore-v2'"}};

}  // namespace

constexpr InstructionDefinition activation_reduce = {
    .opcode = Opcode::kActivationReduce,
    .name = "activation_reduce",
    .engines = kOnScalar,
    .first_generation = Generation::kV2,
    .operands = kActivationOperands,
    .attributes = kActivationAttributes,
    .traits = {0, Mixing::kLanes, {.parts = kScalarAccumulators, .resets = true}},
    .signature = {Engine::kScalar, kActivationReduceParameters},
    .summary = "activation with reduce_cmd.reset_reduce.",
    .constraints = kActivationReduceConstraints,
    .check = check_activation,
};

namespace {

// -- activate2
constexpr OperandSlot kActivate2Operands[] = {
    out("dst", kOnChip, kIndirectTile),           in("data", kOnChip, kIndirectTile),
    in("imm0", kOnChip, kOptionalScalarOrVector), in("imm1", kOnChip, kOptionalScalarOrVector),
    in("relu_param", kOnChip, kScalarOrVector),   out("reduce_res", kOnChip, kOptionalTile)};
constexpr AttributeSlot kActivate2Attributes[] = {
    {"op", K::kActivation},       {"op0", K::kAluOp},     {"op1", K::kAluOp},
    {"reverse0", K::kBool},       {"reverse1", K::kBool}, {"reduce_op", K::kOptionalAluOp},
    {"reduce_cmd", K::kReduceCmd}};
constexpr Parameter kActivate2Parameters[] = {
    operand("dst", 0),
    attribute("op", slot::activate2::kAOp),
    operand("data", 1),
    operand("imm0", slot::activate2::kImm0),
    operand("imm1", slot::activate2::kImm1),
    attribute("op0", slot::activate2::kAOp0),
    attribute("op1", slot::activate2::kAOp1),
    scalar("relu_param", slot::activate2::kReluParam, 0.0),
    attribute("reverse0", slot::activate2::kAReverse0, 0),
    attribute("reverse1", slot::activate2::kAReverse1, 0),
    unset("reduce_op", slot::activate2::kAReduceOp),
    optional("reduce_res", slot::activate2::kReduceRes),
    attribute("reduce_cmd", slot::activate2::kAReduceCmd, ReduceCmd::kIdle),
    name()};
constexpr Constraint kActivate2Constraints[] = {
    {"activate2.C1", "dst and data have the same partitions and elements per partition.",
     "nki.isa.activate2, 'Constraints'"},
    {"activate2.C2", "imm0, imm1 and relu_param are numbers or [P, 1] tiles.", "nki.isa.activate2, imm0"},
    {"activate2.C3", "(op0, op1) is one of the six documented pairs.",
     "nki.isa.activate2, 'supports six (op0, op1) combinations'"},
    {"activate2.C4", "imm0 and imm1 have the same type when both are tiles.",
     "nki.isa.activate2, 'Constraints'"},
    {"activate2.C5", "A bypassed operator is not reversed.", "nki.isa.activate2, 'Constraints'"},
    {"activate2.C6", "reduce_op is add, maximum, minimum, abs_max or abs_min.",
     "nki.isa.activate2, reduce_op"},
    {"activate2.C7", "reduce_res is a [P, 1] tile.", "nki.isa.activate2, reduce_res"},
    {"activate2.C8", "The Scalar engine cannot scatter into PSUM.",
     "nki.isa.activate2, 'Tensor indirection'"}};

void check_activate2(const Check& c) {
  using namespace slot::activate2;
  c.same_shape(1, kDst, kData);
  for (int operand : {int{kImm0}, int{kImm1}, int{kReluParam}}) c.vector_of(2, operand, kData);
  const AluOp op0 = c.alu(kAOp0), op1 = c.alu(kAOp1);
  const bool known =
      op0 == AluOp::kMultiply ? op1 == AluOp::kAdd || op1 == AluOp::kSubtract || op1 == AluOp::kBypass
      : op1 == AluOp::kBypass ? op0 == AluOp::kAdd || op0 == AluOp::kSubtract || op0 == AluOp::kBypass
                              : false;
  if (!known)
    c.fail(3, fmt::format("({}, {}) is none of the six operator pairs", name(op0), name(op1)),
           "(multiply, add), (multiply, subtract), (multiply, bypass), (add, bypass), (subtract, bypass), "
           "(bypass, bypass)");
  if (c.has_tile(kImm0) && c.has_tile(kImm1)) c.same_dtype(4, kImm0, kImm1);
  if ((c.boolean(kAReverse0) && op0 == AluOp::kBypass) || (c.boolean(kAReverse1) && op1 == AluOp::kBypass))
    c.fail(5, "an operator that is bypassed cannot be reversed");
  const int64_t reduce = c.integer(kAReduceOp);
  const AluOp op = static_cast<AluOp>(reduce);
  if (reduce >= 0 && op != AluOp::kAdd && op != AluOp::kMaximum && op != AluOp::kMinimum &&
      op != AluOp::kAbsMax && op != AluOp::kAbsMin)
    c.fail(6, fmt::format("reduce_op is {}; add, maximum, minimum, abs_max and abs_min exist", name(op)));
  c.vector_of(7, kReduceRes, kData);
  no_scatter_into_psum_on_scalar(c, 8, kDst);
}

}  // namespace

constexpr InstructionDefinition activate2 = {
    .opcode = Opcode::kActivate2,
    .name = "activate2",
    .engines = kOnScalar,
    .first_generation = Generation::kV4,
    .operands = kActivate2Operands,
    .attributes = kActivate2Attributes,
    .traits = {kByRows, Mixing::kNone,
               scalar_reduction(slot::activate2::kAReduceCmd, slot::activate2::kReduceRes)},
    .signature = {Engine::kScalar, kActivate2Parameters},
    .summary = "dst = op((data <op0> imm0) <op1> imm1), with an optional running reduction (NeuronCore-v4).",
    .constraints = kActivate2Constraints,
    .check = check_activate2,
};

namespace {

// -- exponential
constexpr OperandSlot kExponentialOperands[] = {
    out("dst", kOnChip, kIndirectTile), in("src", kOnChip, kIndirectTile),
    in("max_value", kOnChip, kScalarOrVector), out("reduce_res", kOnChip, kOptionalTile),
    in("reduce_init", kOnChip, kScalarOrVector)};
constexpr AttributeSlot kExponentialAttributes[] = {{"reduce_cmd", K::kReduceCmd}};
constexpr Parameter kExponentialParameters[] = {operand("dst", 0),
                                                operand("src", 1),
                                                scalar("max_value", 2, 0.0),
                                                optional("reduce_res", 3),
                                                attribute("reduce_cmd", 0, ReduceCmd::kIdle),
                                                scalar("reduce_init", 4, 0.0),
                                                name()};
constexpr Constraint kExponentialConstraints[] = {
    {"exponential.C1", "dst and src have the same partitions and elements per partition.",
     "nki.isa.exponential, 'Constraints'"},
    {"exponential.C2", "max_value and reduce_init are numbers or [P, 1] tiles.",
     "nki.isa.exponential, max_value"},
    {"exponential.C3", "reduce_res is a [P, 1] tile.", "nki.isa.exponential, reduce_res"},
    {"exponential.C4", "dst and src are floats or integers.", "nki.isa.exponential, dst, src"},
    {"exponential.C5", "max_value is float32.", "nki.isa.exponential, max_value"},
    {"exponential.C6", "reduce_cmd is idle, reset_reduce, reduce or load_reduce.",
     "nki.isa.exponential, reduce_cmd"},
    {"exponential.C7", "reduce_init is used only with load_reduce.", "nki.isa.exponential, 'Constraints'"},
    {"exponential.C8", "reduce_res is a float.", "nki.isa.exponential, reduce_res"}};

void check_exponential(const Check& c) {
  using namespace slot::exponential;
  c.same_shape(1, kDst, kSrc);
  c.vector_of(2, kMaxValue, kSrc);
  c.vector_of(2, kReduceInit, kSrc);
  c.vector_of(3, kReduceRes, kSrc);
  c.dtype_in(4, kDst, kExponentialTypes);
  c.dtype_in(4, kSrc, kExponentialTypes);
  c.dtype_in(5, kMaxValue, kFp32);
  if (reduce_cmd_is(c, kAReduceCmd, {ReduceCmd::kReset}))
    c.fail(6, "reduce_cmd must be idle, reset_reduce, reduce or load_reduce");
  const bool initialises =
      c.has_tile(kReduceInit) || (c.has_immediate(kReduceInit) && c.immediate(kReduceInit) != 0);
  if (initialises && !reduce_cmd_is(c, kAReduceCmd, {ReduceCmd::kLoadReduce}))
    c.fail(7, "reduce_init is used only with load_reduce");
  c.dtype_in(8, kReduceRes, kFloats);
}

}  // namespace

constexpr InstructionDefinition exponential = {
    .opcode = Opcode::kExponential,
    .name = "exponential",
    .engines = kOnVector,
    .first_generation = Generation::kV4,
    .operands = kExponentialOperands,
    .attributes = kExponentialAttributes,
    .traits = kVectorReduces,
    .signature = {Engine::kVector, kExponentialParameters},
    .summary =
        "dst = exp(src - max_value), optionally with a running sum along each partition (NeuronCore-v4).",
    .constraints = kExponentialConstraints,
    .check = check_exponential,
};

}  // namespace opentrn::isa::instructions
