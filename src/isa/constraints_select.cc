// Rules of selection, search, pattern generation and random numbers.
#include <algorithm>
#include <limits>
#include <optional>
#include <span>

#include "isa/constraints_context.h"

namespace opentrn::isa::constraint {

namespace {

constexpr int64_t kSearchElementsMin = 8;
constexpr int64_t kSearchElementsMax = 16384;
constexpr int64_t kSearchValues = 8;
constexpr int64_t kPatternDimsMax = 4;
constexpr int64_t kGpSimdCorePartitions = 16;
constexpr int64_t kTopkInputMin = 8, kTopkInputEnd = 65536, kTopkOutputEnd = 32768;
constexpr int64_t kXorwowWordsGpSimd = 6, kXorwowWordsVector = 24;
constexpr double kExactIndexMax = 1 << 24;  // integers that fp32 holds exactly
constexpr DTypes kFp32 = {DType::kFloat32};
constexpr DTypes kIndexTypes = {DType::kUint16, DType::kUint32};
constexpr DTypes kIntegers = {DType::kInt8,  DType::kInt16,  DType::kInt32,
                              DType::kUint8, DType::kUint16, DType::kUint32};
constexpr DTypes kUint32 = {DType::kUint32};
constexpr DTypes kFp32OrInt32 = {DType::kFloat32, DType::kInt32};

void searched_elements(const Check& c, int number, int slot) {
  const int64_t n = c.tile(slot).free;
  if (n < kSearchElementsMin || n > kSearchElementsMax) [[unlikely]]
    c.fail(number,
           fmt::format("{} has {} elements per partition; {} to {} are possible", c.slot_name(slot), n,
                       kSearchElementsMin, kSearchElementsMax),
           "pad, or search tile by tile");
}

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

void random_state(const Check& c, int slot) {
  const Tile& tile = c.tile(slot);
  c.dtype_in(1, slot, kUint32);
  const bool vector = c.in.engine == Engine::kVector;
  c.elements(2, slot, vector ? kXorwowWordsVector : kXorwowWordsGpSimd);
  if (vector && c.generation < 4)
    c.fail(3, "the Vector engine has a readable state from NeuronCore-v4 on", "use engine.gpsimd");
  const bool psum_possible = c.in.opcode == Opcode::kRandGetState && c.generation >= 4 && vector;
  if (tile.in_psum() && !psum_possible)
    c.fail(4, fmt::format("{} is in PSUM; it must be in SBUF", c.slot_name(slot)));
}

}  // namespace

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

void check_affine_select(const Check& c) {
  using namespace slot::affine_select;
  c.same_shape(1, kDst, kOnTrueTile);
  generated_elements(c, 2, 3, kAPattern, kDst);
  const AluOp op = c.alu(kACmpOp);
  if (!is_comparison(op) && op != AluOp::kNotEqual) [[unlikely]]
    c.fail(4, fmt::format("cmp_op is {}, which is not a comparison", name(op)));
}

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

void check_max8(const Check& c) {
  using namespace slot::max8;
  searched_elements(c, 1, kSrc);
  c.elements(2, kDst, kSearchValues);
  c.same_partitions(3, kDst, kSrc);
}

void check_nc_find_index8(const Check& c) {
  using namespace slot::nc_find_index8;
  searched_elements(c, 1, kData);
  c.elements(2, kVals, kSearchValues);
  c.elements(3, kDst, kSearchValues);
  c.dtype_in(4, kDst, kIndexTypes);
  c.same_partitions(5, kDst, kData);
  c.same_partitions(5, kVals, kData);
}

void check_nc_match_replace8(const Check& c) {
  using namespace slot::nc_match_replace8;
  c.same_shape(1, kDst, kData);
  c.elements(2, kVals, kSearchValues);
  c.same_partitions(3, kVals, kData);
  if (!c.has_tile(kDstIdx)) return;
  c.elements(4, kDstIdx, kSearchValues);
  c.same_partitions(4, kDstIdx, kData);
}

void check_sequence_bounds(const Check& c) {
  using namespace slot::sequence_bounds;
  const Tile &dst = c.tile(kDst), &ids = c.tile(kSegmentIds);
  if (ids.partitions != 1)
    c.fail(1, fmt::format("segment_ids has {} partitions; it must have 1", ids.partitions));
  if (dst.partitions != 1 || dst.free != 2 * ids.free)
    c.fail(2, fmt::format("dst is {} x {}; it must be 1 x {}", dst.partitions, dst.free, 2 * ids.free));
  c.dtype_in(3, kDst, kFp32OrInt32);
  c.dtype_in(3, kSegmentIds, kFp32OrInt32);
}

void check_nonzero_with_count(const Check& c) {
  using namespace slot::nonzero_with_count;
  c.same_partitions(1, kDst, kSrc);
  c.elements(2, kDst, c.tile(kSrc).free + 1);
  c.dtype_in(3, kSrc, kFp32OrInt32);
  c.dtype_in(4, kDst, {DType::kInt32});
}

void check_topk(const Check& c) {
  using namespace slot::topk;
  const Tile &src = c.tile(kSrc), &values = c.tile(kValDst);
  c.dtype_in(1, kSrc, {DType::kBFloat16});
  c.dtype_in(1, kValDst, {DType::kBFloat16});
  c.dtype_in(2, kIdxDst, kUint32);
  c.same_shape(3, kValDst, kIdxDst);
  c.same_partitions(3, kValDst, kSrc);
  const int64_t n = c.integer(kAN), k = values.free;
  if (n < kTopkInputMin || n >= kTopkInputEnd)
    c.fail(4, fmt::format("n is {}; {} to {} are possible", n, kTopkInputMin, kTopkInputEnd - 1));
  if (k < 1 || k >= kTopkOutputEnd || k > n)
    c.fail(5, fmt::format("{} values of {} are wanted; 1 to {} are possible", k, n,
                          std::min(n, kTopkOutputEnd - 1)));
  if (src.free * kGpSimdCorePartitions < n)
    c.fail(6, fmt::format("src has {} elements per partition; {} values need {}", src.free, n,
                          (n + kGpSimdCorePartitions - 1) / kGpSimdCorePartitions));
  if (src.partitions % kGpSimdCorePartitions != 0)
    c.fail(7, fmt::format("src has {} partitions; a multiple of {} is needed", src.partitions,
                          kGpSimdCorePartitions));
}

void check_dropout(const Check& c) {
  using namespace slot::dropout;
  c.same_shape(1, kDst, kData);
  c.same_dtype(2, kDst, kData);
  c.vector_of(3, kProb, kData);
  c.dtype_in(4, kProb, is_integer(c.tile(kData).dtype()) ? kFp32 : kFloats);
}

void check_rng(const Check& c) {
  using namespace slot::rng;
  c.dtype_in(1, kDst, kIntegers);
  if (c.in.engine == Engine::kGpSimd && c.generation < 3)
    c.fail(2, "GpSimd generates random numbers from NeuronCore-v3 on", "use engine.vector");
}

void check_set_rng_seed(const Check& c) {
  const Tile& seeds = c.tile(slot::set_rng_seed::kSrcSeeds);
  if (seeds.total() != 1 || size_bytes(seeds.dtype()) != 4)
    c.fail(1, fmt::format("src_seeds is {} elements of {}; one of 32 bits is needed", seeds.total(),
                          name(seeds.dtype())));
}

void check_rand_set_state(const Check& c) { random_state(c, slot::rand_set_state::kSrcSeeds); }
void check_rand_get_state(const Check& c) { random_state(c, slot::rand_get_state::kDst); }

void check_rand2(const Check& c) {
  using namespace slot::rand2;
  c.dtype_in(1, kDst, kIntegers | kFloats);
  c.vector_of(2, kMin, kDst);
  c.vector_of(2, kMax, kDst);
  if (c.has_immediate(kMin) && c.has_immediate(kMax) && !(c.immediate(kMin) < c.immediate(kMax)))
    c.fail(3, fmt::format("min is {}, max is {}; min must be smaller", c.immediate(kMin), c.immediate(kMax)));
}

}  // namespace opentrn::isa::constraint
