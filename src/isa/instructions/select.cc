// Selection by a predicate, a range or an affine index, and the generation of such indices.
#include <limits>
#include <optional>
#include <span>

#include "isa/instructions/row.h"

namespace opentrn::isa::instructions {

namespace {

constexpr int64_t kPatternDimsMax = 4;
constexpr double kExactIndexMax = 1 << 24;  // integers that fp32 holds exactly

// [step, num] pairs that generate as many values as dst has per partition.
void generated_elements(const Check& c, int rank_number, int count_number, int attribute, int dst) {
  const std::span<const int64_t> pattern = c.program.attribute_list(c.in, attribute);
  if (pattern.size() % 2 != 0 || static_cast<int64_t>(pattern.size()) > 2 * kPatternDimsMax ||
      pattern.empty()) [[unlikely]]
    c.fail(rank_number, fmt::format("pattern has {} numbers; it has 1 to {} [step, num] pairs",
                                    pattern.size(), kPatternDimsMax));
  int64_t count = 1;
  bool overflows = false;
  for (size_t i = 1; i < pattern.size(); i += 2)
    overflows |= __builtin_mul_overflow(count, pattern[i], &count);
  if (overflows || count != c.tile(dst).free) [[unlikely]]
    c.fail(count_number, fmt::format("pattern generates {} values per partition, dst has {} elements", count,
                                     c.tile(dst).free));
}

struct Range {
  double least, most;
};

// What an integer type narrower than the generator's 32 bits holds.
std::optional<Range> narrow_range(DType dtype) {
  switch (dtype) {
    case DType::kBool: return Range{0, 1};
    case DType::kInt8: return Range{-0x80, 0x7f};
    case DType::kUint8: return Range{0, 0xff};
    case DType::kInt16: return Range{-0x8000, 0x7fff};
    case DType::kUint16: return Range{0, 0xffff};
    default: return std::nullopt;
  }
}

// The least and the largest of offset + partition * multiplier + sum of index * step.
Range generated_range(std::span<const int64_t> pattern, int64_t offset, int64_t multiplier,
                      int64_t partitions) {
  Range range = {static_cast<double>(offset), static_cast<double>(offset)};
  const auto add = [&](int64_t step, int64_t count) {
    const double reach = static_cast<double>(step) * static_cast<double>(count - 1);
    (reach < 0 ? range.least : range.most) += reach;
  };
  for (size_t i = 0; i + 1 < pattern.size(); i += 2) add(pattern[i], pattern[i + 1]);
  add(multiplier, partitions);
  return range;
}

bool is_comparison(AluOp op) {
  return op == AluOp::kEqual || op == AluOp::kLess || op == AluOp::kLessEqual || op == AluOp::kGreater ||
         op == AluOp::kGreaterEqual;
}

// -- select_reduce
constexpr OperandSlot kSelectReduceOperands[] = {out("dst"), in("predicate"), in("on_true"),
                                                 in("on_false", kOnChip, kScalarOrVector),
                                                 out("reduce_res", kOnChip, kOptionalTile)};
constexpr AttributeSlot kSelectReduceAttributes[] = {
    {"reduce_cmd", K::kReduceCmd}, {"reduce_op", K::kOptionalAluOp}, {"reverse_pred", K::kBool}};
constexpr Parameter kSelectReduceParameters[] = {
    operand("dst", 0),
    operand("predicate", 1),
    operand("on_true", 2),
    operand("on_false", 3),
    optional("reduce_res", 4),
    attribute("reduce_cmd", slot::select_reduce::kAReduceCmd, ReduceCmd::kIdle),
    attribute("reduce_op", slot::select_reduce::kAReduceOp, AluOp::kMaximum),
    attribute("reverse_pred", slot::select_reduce::kAReversePred, 0),
    name()};
constexpr Constraint kSelectReduceConstraints[] = {
    {"select_reduce.C1", "dst, on_true and predicate have the same partitions and elements per partition.",
     "nki.isa.select_reduce, 'Shape and data type constraints'"},
    {"select_reduce.C2", "on_false is a number or a [P, 1] tile.",
     "nki.isa.select_reduce, 'Shape and data type constraints'"},
    {"select_reduce.C3", "reduce_res is a [P, 1] tile.",
     "nki.isa.select_reduce, 'Shape and data type constraints'"},
    {"select_reduce.C4", "on_true and predicate are not both in PSUM.",
     "nki.isa.select_reduce, 'Memory constraints'"},
    {"select_reduce.C5", "on_true is not tfloat32, int32 or uint32.",
     "nki.isa.select_reduce, 'Shape and data type constraints'"},
    {"select_reduce.C6", "predicate is an 8- or 16-bit integer.",
     "nki.isa.select_reduce, 'Shape and data type constraints'"},
    {"select_reduce.C7", "reduce_res is a float.",
     "nki.isa.select_reduce, 'Shape and data type constraints'"},
    {"select_reduce.C8", "reduce_op is maximum.",
     "nki.isa.select_reduce, 'Shape and data type constraints'"}};

void check_select_reduce(const Check& c) {
  using namespace slot::select_reduce;
  c.same_shape(1, kDst, kOnTrue);
  c.same_shape(1, kDst, kPredicate);
  c.vector_of(2, kOnFalse, kOnTrue);
  c.vector_of(3, kReduceRes, kOnTrue);
  c.not_both_in_psum(4, kOnTrue, kPredicate);
  const DType d = c.tile(kOnTrue).dtype();
  if (d == DType::kTFloat32 || d == DType::kInt32 || d == DType::kUint32) [[unlikely]]
    c.fail(5, fmt::format("on_true is {}; tfloat32, int32 and uint32 are not possible", name(d)));
  c.dtype_in(6, kPredicate, {DType::kBool, DType::kInt8, DType::kUint8, DType::kInt16, DType::kUint16});
  c.dtype_in(7, kReduceRes, kFloats);
  const int64_t op = c.integer(kAReduceOp);
  if (op >= 0 && static_cast<AluOp>(op) != AluOp::kMaximum) [[unlikely]]
    c.fail(8, fmt::format("reduce_op is {}; only maximum exists", name(static_cast<AluOp>(op))));
}

}  // namespace

constexpr InstructionDefinition select_reduce = {
    .opcode = Opcode::kSelectReduce,
    .name = "select_reduce",
    .engines = kOnVector,
    .first_generation = Generation::kV2,
    .operands = kSelectReduceOperands,
    .attributes = kSelectReduceAttributes,
    .traits = kVectorReduces,
    .signature = {Engine::kVector, kSelectReduceParameters},
    .summary =
        "dst = on_true where predicate is not 0, else on_false; optionally a running maximum along each "
        "partition.",
    .constraints = kSelectReduceConstraints,
    .check = check_select_reduce,
};

namespace {

// -- range_select
constexpr OperandSlot kRangeSelectOperands[] = {out("dst"), in("on_true_tile"), in("bound0"), in("bound1"),
                                                out("reduce_res", kOnChip, kOptionalTile)};
constexpr AttributeSlot kRangeSelectAttributes[] = {
    {"comp_op0", K::kAluOp},          {"comp_op1", K::kAluOp},   {"reduce_cmd", K::kReduceCmd},
    {"reduce_op", K::kOptionalAluOp}, {"range_start", K::kReal}, {"on_false_value", K::kReal}};
constexpr Parameter kRangeSelectParameters[] = {
    operand("dst", 0),
    operand("on_true_tile", 1),
    attribute("comp_op0", slot::range_select::kACompOp0),
    attribute("comp_op1", slot::range_select::kACompOp1),
    operand("bound0", 2),
    operand("bound1", 3),
    attribute("reduce_cmd", slot::range_select::kAReduceCmd, ReduceCmd::kResetReduce),
    optional("reduce_res", 4),
    attribute("reduce_op", slot::range_select::kAReduceOp, AluOp::kMaximum),
    attribute("range_start", slot::range_select::kARangeStart, 0),
    attribute("on_false_value", slot::range_select::kAOnFalseValue, std::numeric_limits<float>::lowest()),
    name()};
constexpr Constraint kRangeSelectConstraints[] = {
    {"range_select.C1", "dst and on_true_tile have the same partitions and elements per partition.",
     "nki.isa.range_select, dst"},
    {"range_select.C2", "bound0 and bound1 are [P, 1] tiles.", "nki.isa.range_select, 'Constraints'"},
    {"range_select.C3", "bound0 and bound1 are float32.", "nki.isa.range_select, 'Constraints'"},
    {"range_select.C4", "on_true_tile is a float.", "nki.isa.range_select, 'Constraints'"},
    {"range_select.C5", "The comparisons are equal, less, less_equal, greater or greater_equal.",
     "nki.isa.range_select, 'Constraints'"},
    {"range_select.C6", "reduce_op is maximum.", "nki.isa.range_select, reduce_op"},
    {"range_select.C7", "reduce_res is a [P, 1] tile.", "nki.isa.range_select, reduce_res"},
    {"range_select.C8", "on_false_value is FP32_MIN.", "nki.isa.range_select, on_false_value"},
    {"range_select.C9", "range_start plus the index stays within 2^24.",
     "nki.isa.range_select, 'Constraints'"}};

void check_range_select(const Check& c) {
  using namespace slot::range_select;
  c.same_shape(1, kDst, kOnTrueTile);
  c.vector_of(2, kBound0, kOnTrueTile);
  c.vector_of(2, kBound1, kOnTrueTile);
  c.dtype_in(3, kBound0, kFp32);
  c.dtype_in(3, kBound1, kFp32);
  c.dtype_in(4, kOnTrueTile, kFloats);
  for (AluOp op : {c.alu(kACompOp0), c.alu(kACompOp1)})
    if (!is_comparison(op)) [[unlikely]]
      c.fail(5,
             fmt::format("{} is not a comparison; equal, less, less_equal, greater and greater_equal exist",
                         name(op)));
  const int64_t reduce = c.integer(kAReduceOp);
  if (reduce >= 0 && static_cast<AluOp>(reduce) != AluOp::kMaximum) [[unlikely]]
    c.fail(6, fmt::format("reduce_op is {}; only maximum exists", name(static_cast<AluOp>(reduce))));
  c.vector_of(7, kReduceRes, kOnTrueTile);
  const double fill = c.program.attribute_real(c.in, kAOnFalseValue);
  if (static_cast<float>(fill) != std::numeric_limits<float>::lowest()) [[unlikely]]
    c.fail(8, fmt::format("on_false_value is {}; it must be FP32_MIN, {}", fill,
                          std::numeric_limits<float>::lowest()));
  const double start = c.program.attribute_real(c.in, kARangeStart);
  if (start < -kExactIndexMax || start + static_cast<double>(c.tile(kOnTrueTile).free) > kExactIndexMax)
      [[unlikely]]
    c.fail(9, fmt::format("range_start is {} over {} elements; indices must stay within 2^24", start,
                          c.tile(kOnTrueTile).free));
}

}  // namespace

constexpr InstructionDefinition range_select = {
    .opcode = Opcode::kRangeSelect,
    .name = "range_select",
    .engines = kOnVector,
    .first_generation = Generation::kV3,
    .operands = kRangeSelectOperands,
    .attributes = kRangeSelectAttributes,
    .traits = kVectorReduces,
    .signature = {Engine::kVector, kRangeSelectParameters},
    .summary =
        "Keep elements whose index + range_start satisfies both comparisons, else FP32_MIN; running row "
        "maximum.",
    .constraints = kRangeSelectConstraints,
    .check = check_range_select,
};

namespace {

// -- affine_select
constexpr OperandSlot kAffineSelectOperands[] = {out("dst", kInSbuf), in("on_true_tile", kInSbuf)};
constexpr AttributeSlot kAffineSelectAttributes[] = {{"pattern", K::kIntList},
                                                     {"channel_multiplier", K::kInt},
                                                     {"offset", K::kInt},
                                                     {"on_false_value", K::kReal},
                                                     {"cmp_op", K::kAluOp}};
constexpr Parameter kAffineSelectParameters[] = {
    operand("dst", 0),
    attribute("pattern", slot::affine_select::kAPattern),
    attribute("channel_multiplier", slot::affine_select::kAChannelMultiplier),
    operand("on_true_tile", 1),
    attribute("on_false_value", slot::affine_select::kAOnFalseValue),
    attribute("cmp_op", slot::affine_select::kACmpOp, AluOp::kEqual),
    attribute("offset", slot::affine_select::kAOffset, 0),
    name()};
constexpr Constraint kAffineSelectConstraints[] = {
    {"affine_select.C1", "dst and on_true_tile have the same partitions and elements per partition.",
     "nki.isa.affine_select, 'Tile size'"},
    {"affine_select.C2", "pattern has 1 to 4 [step, num] pairs.", "nki.isa.affine_select, pattern"},
    {"affine_select.C3", "pattern generates as many values as dst has elements per partition.",
     "nki.isa.affine_select, 'Tile size'"},
    {"affine_select.C4", "cmp_op is a comparison.", "nki.isa.affine_select, cmp_op"}};

void check_affine_select(const Check& c) {
  using namespace slot::affine_select;
  c.same_shape(1, kDst, kOnTrueTile);
  generated_elements(c, 2, 3, kAPattern, kDst);
  const AluOp op = c.alu(kACmpOp);
  if (!is_comparison(op) && op != AluOp::kNotEqual) [[unlikely]]
    c.fail(4, fmt::format("cmp_op is {}, which is not a comparison", name(op)));
}

}  // namespace

constexpr InstructionDefinition affine_select = {
    .opcode = Opcode::kAffineSelect,
    .name = "affine_select",
    .engines = kOnGpSimd,
    .first_generation = Generation::kV2,
    .operands = kAffineSelectOperands,
    .attributes = kAffineSelectAttributes,
    .traits = {0, Mixing::kNone},
    .signature = {Engine::kGpSimd, kAffineSelectParameters},
    .summary = "dst = on_true_tile where (affine index value <cmp_op> 0), else on_false_value.",
    .constraints = kAffineSelectConstraints,
    .check = check_affine_select,
};

namespace {

// -- iota
constexpr OperandSlot kIotaOperands[] = {out("dst", kInSbuf)};
constexpr AttributeSlot kIotaAttributes[] = {
    {"pattern", K::kIntList}, {"offset", K::kInt}, {"channel_multiplier", K::kInt}};
constexpr Parameter kIotaParameters[] = {operand("dst", 0), attribute("pattern", slot::iota::kAPattern),
                                         attribute("offset", slot::iota::kAOffset, 0),
                                         attribute("channel_multiplier", slot::iota::kAChannelMultiplier, 0),
                                         name()};
constexpr Constraint kIotaConstraints[] = {
    {"iota.C1", "pattern has 1 to 4 [step, num] pairs.", "nki.isa.iota, pattern"},
    {"iota.C2", "pattern generates as many values as dst has elements per partition.",
     "nki.isa.iota, 'Tile size'"},
    {"iota.C3", "dst holds the values, if it is an 8- or 16-bit integer.",
     "nki.isa.iota, 'computed in 32-bit integer arithmetic'; no document says what a value beyond the type "
     "becomes"}};

void check_iota(const Check& c) {
  using namespace slot::iota;
  generated_elements(c, 1, 2, kAPattern, kDst);
  const std::optional<Range> held = narrow_range(c.tile(kDst).dtype());
  if (!held) return;
  const Range made = generated_range(c.program.attribute_list(c.in, kAPattern), c.integer(kAOffset),
                                     c.integer(kAChannelMultiplier), c.tile(kDst).partitions);
  if (made.least < held->least || made.most > held->most) [[unlikely]]
    c.fail(3,
           fmt::format("the values are {} to {}, {} holds {} to {}", made.least, made.most,
                       name(c.tile(kDst).dtype()), held->least, held->most),
           "generate into an int32 tile; nothing documents what a value beyond the type becomes");
}

}  // namespace

constexpr InstructionDefinition iota = {
    .opcode = Opcode::kIota,
    .name = "iota",
    .engines = kOnGpSimd,
    .first_generation = Generation::kV2,
    .operands = kIotaOperands,
    .attributes = kIotaAttributes,
    .signature = {Engine::kGpSimd, kIotaParameters},
    .summary = "Fill dst with affine index values, computed in int32 and cast to its dtype.",
    .constraints = kIotaConstraints,
    .check = check_iota,
};

}  // namespace opentrn::isa::instructions
