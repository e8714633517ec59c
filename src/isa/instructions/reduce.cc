// Reductions along the free dimensions or the partitions, and statistics of batch normalisation.
#include "isa/instructions/row.h"

namespace opentrn::isa::instructions {

namespace {

constexpr int64_t kBnStatsElementsMax = 512;
constexpr int64_t kBnStatsOutputs = 6;
constexpr int64_t kBnTriple = 3;

// -- tensor_reduce
constexpr OperandSlot kTensorReduceOperands[] = {out("dst", kOnChip, kIndirectTile),
                                                 in("data", kOnChip, kIndirectTile)};
constexpr AttributeSlot kTensorReduceAttributes[] = {
    {"op", K::kAluOp}, {"axes", K::kInt}, {"negate", K::kBool}};
constexpr Parameter kTensorReduceParameters[] = {
    operand("dst", 0),
    attribute("op", slot::tensor_reduce::kAOp),
    operand("data", 1),
    {"axis", ParameterRole::kAxis, slot::tensor_reduce::kAAxes, true},
    attribute("negate", slot::tensor_reduce::kANegate, 0),
    ignored_flag("keepdims"),
    name()};
constexpr Constraint kTensorReduceConstraints[] = {
    {"tensor_reduce.C1",
     "The reduced axes are the last contiguous free dimensions, never the partition dimension.",
     "nki.isa.tensor_reduce, axis"},
    {"tensor_reduce.C2", "dst has the partitions of data and one element per kept element.",
     "nki.isa.tensor_reduce, 'Tile size'"},
    {"tensor_reduce.C3", "op is a reduction operator.",
     "nki.isa.tensor_reduce, op; nki.api.shared.rst, supported math operators"},
    {"tensor_reduce.C4", "Bit-vector operators take and give integers.",
     "nki.isa.tensor_reduce, 'Data types'"},
    {"tensor_reduce.C5", "negate needs an arithmetic operator.", "nki.isa.tensor_reduce, negate"}};

void check_tensor_reduce(const Check& c) {
  using namespace slot::tensor_reduce;
  const Tile &dst = c.tile(kDst), &data = c.tile(kData);
  const int64_t axes = c.integer(kAAxes);
  if (axes < 1 || axes >= data.pattern->rank) [[unlikely]]
    c.fail(1, fmt::format("{} trailing axes of a tile of rank {} are reduced; at least one free axis, never "
                          "the partition axis",
                          axes, data.pattern->rank));
  int64_t kept = 1;
  for (int i = 1; i < data.pattern->rank - axes; ++i)
    kept *= data.pattern->dims[static_cast<size_t>(i)].count;
  if (dst.partitions != data.partitions || dst.free != kept) [[unlikely]]
    c.fail(2, fmt::format("dst is {} x {}; the reduction gives {} x {}", dst.partitions, dst.free,
                          data.partitions, kept));
  const AluOp op = c.alu(kAOp);
  if (!is_reduction(op)) [[unlikely]]
    c.fail(3, fmt::format("{} is not a reduction operator", name(op)));
  if (!is_bitvec(op)) return;
  bit_patterns(c, 4, {kDst, kData});
  if (c.boolean(kANegate))
    c.fail(5, fmt::format("negate with {}; only arithmetic results can be negated", name(op)));
}

}  // namespace

constexpr InstructionDefinition tensor_reduce = {
    .opcode = Opcode::kTensorReduce,
    .name = "tensor_reduce",
    .engines = kOnVector,
    .first_generation = Generation::kV1,
    .operands = kTensorReduceOperands,
    .attributes = kTensorReduceAttributes,
    .traits = {kMergeable, Mixing::kElementsOfALane},
    .signature = {Engine::kVector, kTensorReduceParameters},
    .summary =
        "Reduce the trailing free dimensions named by `axis`, in order, in float32 (bit-vector operators on "
        "bits).",
    .constraints = kTensorReduceConstraints,
    .check = check_tensor_reduce,
};

namespace {

// -- tensor_scalar_reduce
constexpr OperandSlot kTensorScalarReduceOperands[] = {
    out("dst", kOnChip, kIndirectTile), in("data", kOnChip, kIndirectTile),
    in("operand0", kOnChip, kOptionalScalarOrVector), out("reduce_res", kOnChip, kOptionalTile),
    in("reduce_init", kOnChip, kOptionalScalarOrVector)};
constexpr AttributeSlot kTensorScalarReduceAttributes[] = {{"op0", K::kAluOp},
                                                           {"reverse0", K::kBool},
                                                           {"reduce_op", K::kAluOp},
                                                           {"reduce_cmd", K::kReduceCmd},
                                                           {"reduce_res_negate", K::kBool}};
constexpr Parameter kTensorScalarReduceParameters[] = {
    operand("dst", 0),
    operand("data", 1),
    attribute("op0", slot::tensor_scalar_reduce::kAOp0),
    {"operand0", ParameterRole::kOperand, slot::tensor_scalar_reduce::kOperand0, true},
    attribute("reduce_op", slot::tensor_scalar_reduce::kAReduceOp),
    optional("reduce_res", slot::tensor_scalar_reduce::kReduceRes),
    attribute("reverse0", slot::tensor_scalar_reduce::kAReverse0, 0),
    attribute("reduce_cmd", slot::tensor_scalar_reduce::kAReduceCmd, ReduceCmd::kResetReduce),
    optional("reduce_init", slot::tensor_scalar_reduce::kReduceInit),
    attribute("reduce_res_negate", slot::tensor_scalar_reduce::kAReduceResNegate, 0),
    name()};
constexpr Constraint kTensorScalarReduceConstraints[] = {
    {"tensor_scalar_reduce.C1", "dst and data have the same partitions and elements per partition.",
     "nki.isa.tensor_scalar_reduce, dst"},
    {"tensor_scalar_reduce.C2", "operand0 and reduce_init are numbers or [P, 1] tiles.",
     "nki.isa.tensor_scalar_reduce, operand0"},
    {"tensor_scalar_reduce.C3", "reduce_res is a [P, 1] tile.", "nki.isa.tensor_scalar_reduce, reduce_res"},
    {"tensor_scalar_reduce.C4", "op0 is arithmetic.",
     "nki.isa.tensor_scalar_reduce, 'Bitvec operators are not supported'"},
    {"tensor_scalar_reduce.C5", "reduce_op is add, multiply, maximum or minimum.",
     "nki.isa.tensor_scalar_reduce, reduce_op"},
    {"tensor_scalar_reduce.C6", "reduce_cmd is reset_reduce, reduce or load_reduce.",
     "nki.isa.tensor_scalar_reduce, reduce_cmd"},
    {"tensor_scalar_reduce.C7", "reduce_init is given with load_reduce, and only there.",
     "nki.isa.tensor_scalar_reduce, 'Accumulator behavior'"}};

void check_tensor_scalar_reduce(const Check& c) {
  using namespace slot::tensor_scalar_reduce;
  c.same_shape(1, kDst, kData);
  c.vector_of(2, kOperand0, kData);
  c.vector_of(2, kReduceInit, kData);
  c.vector_of(3, kReduceRes, kData);
  c.arithmetic(4, c.alu(kAOp0));
  const AluOp op = c.alu(kAReduceOp);
  if (op != AluOp::kAdd && op != AluOp::kMultiply && op != AluOp::kMaximum && op != AluOp::kMinimum)
      [[unlikely]]
    c.fail(5, fmt::format("reduce_op is {}; add, multiply, maximum and minimum exist", name(op)));
  if (!reduce_cmd_is(c, kAReduceCmd, {ReduceCmd::kResetReduce, ReduceCmd::kReduce, ReduceCmd::kLoadReduce}))
      [[unlikely]]
    c.fail(6, "reduce_cmd must be reset_reduce, reduce or load_reduce");
  if (c.operand(kReduceInit).present() != reduce_cmd_is(c, kAReduceCmd, {ReduceCmd::kLoadReduce}))
      [[unlikely]]
    c.fail(7, "reduce_init is needed with load_reduce, and only there");
}

}  // namespace

constexpr InstructionDefinition tensor_scalar_reduce = {
    .opcode = Opcode::kTensorScalarReduce,
    .name = "tensor_scalar_reduce",
    .engines = kOnVector,
    .first_generation = Generation::kV2,
    .operands = kTensorScalarReduceOperands,
    .attributes = kTensorScalarReduceAttributes,
    .traits = {0, Mixing::kLanes, {kVectorAccumulators, slot::tensor_scalar_reduce::kAReduceCmd}},
    .signature = {Engine::kVector, kTensorScalarReduceParameters},
    .summary = "dst = data <op0> operand0, and reduce_res = reduction of it along each partition.",
    .constraints = kTensorScalarReduceConstraints,
    .check = check_tensor_scalar_reduce,
};

namespace {

// -- tensor_partition_reduce
constexpr OperandSlot kTensorPartitionReduceOperands[] = {out("dst", kInSbuf), in("data", kInSbuf)};
constexpr AttributeSlot kTensorPartitionReduceAttributes[] = {{"op", K::kAluOp}};
constexpr Parameter kTensorPartitionReduceParameters[] = {operand("dst", 0), attribute("op", 0),
                                                          operand("data", 1), name()};
constexpr Constraint kTensorPartitionReduceConstraints[] = {
    {"tensor_partition_reduce.C1", "dst has one partition and the elements of data.",
     "nki.isa.tensor_partition_reduce, dst"},
    {"tensor_partition_reduce.C2", "op is add, average, maximum, bitwise_or or bitwise_and.",
     "nki.isa.tensor_partition_reduce, op"},
    {"tensor_partition_reduce.C3", "Bit-vector operators take and give integers.",
     "nki.isa.tensor_partition_reduce, nki.api.shared.rst, supported math operators"}};

void check_tensor_partition_reduce(const Check& c) {
  using namespace slot::tensor_partition_reduce;
  const Tile &dst = c.tile(kDst), &data = c.tile(kData);
  if (dst.partitions != 1 || dst.free != data.free) [[unlikely]]
    c.fail(1, fmt::format("dst is {} x {}; the reduction gives 1 x {}", dst.partitions, dst.free, data.free));
  const AluOp op = c.alu(kAOp);
  const bool known = op == AluOp::kAdd || op == AluOp::kAverage || op == AluOp::kMaximum ||
                     op == AluOp::kBitwiseOr || op == AluOp::kBitwiseAnd;
  if (!known) [[unlikely]]
    c.fail(2, fmt::format("op is {}; add, average, maximum, bitwise_or and bitwise_and exist", name(op)));
  if (is_bitvec(op)) bit_patterns(c, 3, {kDst, kData});
}

}  // namespace

constexpr InstructionDefinition tensor_partition_reduce = {
    .opcode = Opcode::kTensorPartitionReduce,
    .name = "tensor_partition_reduce",
    .engines = kOnGpSimd,
    .first_generation = Generation::kV2,
    .operands = kTensorPartitionReduceOperands,
    .attributes = kTensorPartitionReduceAttributes,
    .signature = {Engine::kGpSimd, kTensorPartitionReduceParameters},
    .summary = "Reduce over partitions to one row (GpSimd): add, average, maximum, bitwise_or, bitwise_and.",
    .constraints = kTensorPartitionReduceConstraints,
    .check = check_tensor_partition_reduce,
};

namespace {

// -- bn_stats
constexpr OperandSlot kBnStatsOperands[] = {out("dst"), in("data")};
constexpr Parameter kBnStatsParameters[] = {operand("dst", 0), operand("data", 1), name()};
constexpr Constraint kBnStatsConstraints[] = {
    {"bn_stats.C1", "data has at most 512 elements per partition.",
     "nki.isa.bn_stats, 'Due to hardware limitation'"},
    {"bn_stats.C2", "dst has 6 elements per partition.", "nki.isa.bn_stats, dst"},
    {"bn_stats.C3", "dst and data have the same partitions.", "nki.isa.bn_stats, dst"}};

void check_bn_stats(const Check& c) {
  using namespace slot::bn_stats;
  if (c.tile(kData).free > kBnStatsElementsMax) [[unlikely]]
    c.fail(1,
           fmt::format("data has {} elements per partition; at most {} are possible", c.tile(kData).free,
                       kBnStatsElementsMax),
           "tile by nl.tile_size.bn_stats_fmax and combine with bn_aggr");
  c.elements(2, kDst, kBnStatsOutputs);
  c.same_partitions(3, kDst, kData);
}

}  // namespace

constexpr InstructionDefinition bn_stats = {
    .opcode = Opcode::kBnStats,
    .name = "bn_stats",
    .engines = kOnVector,
    .first_generation = Generation::kV2,
    .operands = kBnStatsOperands,
    .traits = kLaneReduction,
    .signature = {Engine::kVector, kBnStatsParameters},
    .summary = "Per partition: count, mean and variance * count of the even elements, then of the odd ones.",
    .constraints = kBnStatsConstraints,
    .check = check_bn_stats,
};

namespace {

// -- bn_aggr
constexpr Constraint kBnAggrConstraints[] = {
    {"bn_aggr.C1", "data has a multiple of 3 elements per partition.",
     "nki.isa.bn_aggr, 'must be a modulo of three'"},
    {"bn_aggr.C2", "dst has 2 elements per partition.", "nki.isa.bn_aggr, dst"},
    {"bn_aggr.C3", "dst and data have the same partitions.", "nki.isa.bn_aggr, dst"}};

void check_bn_aggr(const Check& c) {
  using namespace slot::bn_aggr;
  if (c.tile(kData).free % kBnTriple != 0) [[unlikely]]
    c.fail(1, fmt::format(
                  "data has {} elements per partition; (count, mean, variance * count) triples are needed",
                  c.tile(kData).free));
  c.elements(2, kDst, 2);
  c.same_partitions(3, kDst, kData);
}

}  // namespace

constexpr InstructionDefinition bn_aggr = {
    .opcode = Opcode::kBnAggr,
    .name = "bn_aggr",
    .engines = kOnVector,
    .first_generation = Generation::kV2,
    .operands = kBnStatsOperands,
    .traits = kLaneReduction,
    .signature = {Engine::kVector, kBnStatsParameters},
    .summary =
        "Combine (count, mean, variance * count) triples of each partition into a mean and a variance.",
    .constraints = kBnAggrConstraints,
    .check = check_bn_aggr,
};

}  // namespace opentrn::isa::instructions
