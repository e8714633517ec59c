// Search: largest values, indices of values, bounds of sequences.
#include <algorithm>

#include "isa/instructions/row.h"

namespace opentrn::isa::instructions {

namespace {

constexpr int64_t kSearchElementsMin = 8;
constexpr int64_t kSearchElementsMax = 16384;
constexpr int64_t kSearchValues = 8;
constexpr int64_t kTopkInputMin = 8, kTopkInputEnd = 65536, kTopkOutputEnd = 32768;
constexpr DTypes kIndexTypes = {DType::kUint16, DType::kUint32};
constexpr DTypes kFp32OrInt32 = {DType::kFloat32, DType::kInt32};

void searched_elements(const Check& c, int number, int slot) {
  const int64_t n = c.tile(slot).free;
  if (n < kSearchElementsMin || n > kSearchElementsMax) [[unlikely]]
    c.fail(number,
           fmt::format("{} has {} elements per partition; {} to {} are possible", c.slot_name(slot), n,
                       kSearchElementsMin, kSearchElementsMax),
           "pad, or search tile by tile");
}

// -- max8
constexpr OperandSlot kMax8Operands[] = {out("dst"), in("src")};
constexpr Parameter kMax8Parameters[] = {operand("dst", 0), operand("src", 1), name()};
constexpr Constraint kMax8Constraints[] = {
    {"max8.C1", "src has 8 to 16384 elements per partition.",
     "nki.isa.max8, 'between 8 and 16,384 inclusive'"},
    {"max8.C2", "dst has 8 elements per partition.", "nki.isa.max8, dst"},
    {"max8.C3", "dst and src have the same partitions.",
     "nki.isa.max8, 'the same partition dimension size'"}};

void check_max8(const Check& c) {
  using namespace slot::max8;
  searched_elements(c, 1, kSrc);
  c.elements(2, kDst, kSearchValues);
  c.same_partitions(3, kDst, kSrc);
}

}  // namespace

constexpr InstructionDefinition max8 = {
    .opcode = Opcode::kMax8,
    .name = "max8",
    .engines = kOnVector,
    .first_generation = Generation::kV2,
    .operands = kMax8Operands,
    .traits = kLaneReduction,
    .signature = {Engine::kVector, kMax8Parameters},
    .summary = "The 8 largest values of each partition, in descending order.",
    .constraints = kMax8Constraints,
    .check = check_max8,
};

namespace {

// -- nc_find_index8
constexpr OperandSlot kNcFindIndex8Operands[] = {out("dst"), in("data"), in("vals")};
constexpr Parameter kNcFindIndex8Parameters[] = {operand("dst", 0), operand("data", 1), operand("vals", 2),
                                                 name()};
constexpr Constraint kNcFindIndex8Constraints[] = {
    {"nc_find_index8.C1", "data has 8 to 16384 elements per partition.",
     "nki.isa.nc_find_index8, second paragraph"},
    {"nc_find_index8.C2", "vals has 8 elements per partition.", "nki.isa.nc_find_index8, second paragraph"},
    {"nc_find_index8.C3", "dst has 8 elements per partition.", "nki.isa.nc_find_index8, second paragraph"},
    {"nc_find_index8.C4", "dst is uint16 or uint32.", "nki.isa.nc_find_index8, second paragraph"},
    {"nc_find_index8.C5", "dst, data and vals have the same partitions.",
     "nki.isa.nc_find_index8, 'for each partition'"}};

void check_nc_find_index8(const Check& c) {
  using namespace slot::nc_find_index8;
  searched_elements(c, 1, kData);
  c.elements(2, kVals, kSearchValues);
  c.elements(3, kDst, kSearchValues);
  c.dtype_in(4, kDst, kIndexTypes);
  c.same_partitions(5, kDst, kData);
  c.same_partitions(5, kVals, kData);
}

}  // namespace

constexpr InstructionDefinition nc_find_index8 = {
    .opcode = Opcode::kNcFindIndex8,
    .name = "nc_find_index8",
    .engines = kOnVector,
    .first_generation = Generation::kV2,
    .operands = kNcFindIndex8Operands,
    .signature = {Engine::kVector, kNcFindIndex8Parameters},
    .summary = "Index of the first occurrence of each of 8 values in its partition; all ones when absent.",
    .constraints = kNcFindIndex8Constraints,
    .check = check_nc_find_index8,
};

namespace {

// -- nc_match_replace8
constexpr OperandSlot kNcMatchReplace8Operands[] = {out("dst"), in("data"), in("vals"),
                                                    out("dst_idx", kOnChip, kOptionalTile)};
constexpr AttributeSlot kNcMatchReplace8Attributes[] = {{"imm", K::kReal}};
constexpr Parameter kNcMatchReplace8Parameters[] = {operand("dst", 0),      operand("data", 1),
                                                    operand("vals", 2),     attribute("imm", 0),
                                                    optional("dst_idx", 3), name()};
constexpr Constraint kNcMatchReplace8Constraints[] = {
    {"nc_match_replace8.C1", "dst and data have the same partitions and elements per partition.",
     "nki.isa.nc_match_replace8, dst"},
    {"nc_match_replace8.C2", "vals has 8 elements per partition.", "nki.isa.nc_match_replace8, vals"},
    {"nc_match_replace8.C3", "vals and data have the same partitions.", "nki.isa.nc_match_replace8, vals"},
    {"nc_match_replace8.C4", "dst_idx has 8 elements per partition and the partitions of data.",
     "nki.isa.nc_match_replace8, dst_idx"}};

void check_nc_match_replace8(const Check& c) {
  using namespace slot::nc_match_replace8;
  c.same_shape(1, kDst, kData);
  c.elements(2, kVals, kSearchValues);
  c.same_partitions(3, kVals, kData);
  if (!c.has_tile(kDstIdx)) return;
  c.elements(4, kDstIdx, kSearchValues);
  c.same_partitions(4, kDstIdx, kData);
}

}  // namespace

constexpr InstructionDefinition nc_match_replace8 = {
    .opcode = Opcode::kNcMatchReplace8,
    .name = "nc_match_replace8",
    .engines = kOnVector,
    .first_generation = Generation::kV2,
    .operands = kNcMatchReplace8Operands,
    .attributes = kNcMatchReplace8Attributes,
    .signature = {Engine::kVector, kNcMatchReplace8Parameters},
    .summary =
        "dst = data with the first occurrence of each of 8 values replaced by imm; the values are taken last "
        "to first.",
    .constraints = kNcMatchReplace8Constraints,
    .check = check_nc_match_replace8,
};

namespace {

// -- sequence_bounds
constexpr OperandSlot kSequenceBoundsOperands[] = {out("dst", kInSbuf), in("segment_ids", kInSbuf)};
constexpr Parameter kSequenceBoundsParameters[] = {operand("dst", 0), operand("segment_ids", 1), name()};
constexpr Constraint kSequenceBoundsConstraints[] = {
    {"sequence_bounds.C1", "segment_ids has 1 partition.",
     "nki.isa.sequence_bounds, 'The partition dimension must always be 1'"},
    {"sequence_bounds.C2", "dst has 1 partition and twice the elements of segment_ids.",
     "nki.isa.sequence_bounds, 'The output tile contains two values'"},
    {"sequence_bounds.C3", "dst and segment_ids are float32 or int32.",
     "nki.isa.sequence_bounds, last paragraph"}};

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

}  // namespace

constexpr InstructionDefinition sequence_bounds = {
    .opcode = Opcode::kSequenceBounds,
    .name = "sequence_bounds",
    .engines = kOnGpSimd,
    .first_generation = Generation::kV2,
    .operands = kSequenceBoundsOperands,
    .signature = {Engine::kGpSimd, kSequenceBoundsParameters},
    .summary =
        "For each element the start and end of its run of equal segment ids; padding (id 0) gets n and -1.",
    .constraints = kSequenceBoundsConstraints,
    .check = check_sequence_bounds,
};

namespace {

// -- nonzero_with_count
constexpr OperandSlot kNonzeroWithCountOperands[] = {inout("dst", kInSbuf), in("src", kInSbuf)};
constexpr AttributeSlot kNonzeroWithCountAttributes[] = {{"index_offset", K::kInt}, {"padding_val", K::kInt}};
constexpr Parameter kNonzeroWithCountParameters[] = {operand("dst", 0), operand("src", 1),
                                                     attribute("index_offset", 0, 0),
                                                     attribute("padding_val", 1, -1), name()};
constexpr Constraint kNonzeroWithCountConstraints[] = {
    {"nonzero_with_count.C1", "dst and src have the same partitions.",
     "nki.isa.nonzero_with_count, 'Constraints'"},
    {"nonzero_with_count.C2", "dst has one element per partition more than src.",
     "nki.isa.nonzero_with_count, 'Constraints'"},
    {"nonzero_with_count.C3", "src is float32 or int32.", "nki.isa.nonzero_with_count, 'Constraints'"},
    {"nonzero_with_count.C4", "dst is int32.", "nki.isa.nonzero_with_count, 'Constraints'"}};

void check_nonzero_with_count(const Check& c) {
  using namespace slot::nonzero_with_count;
  c.same_partitions(1, kDst, kSrc);
  c.elements(2, kDst, c.tile(kSrc).free + 1);
  c.dtype_in(3, kSrc, kFp32OrInt32);
  c.dtype_in(4, kDst, {DType::kInt32});
}

}  // namespace

constexpr InstructionDefinition nonzero_with_count = {
    .opcode = Opcode::kNonzeroWithCount,
    .name = "nonzero_with_count",
    .engines = kOnGpSimd,
    .first_generation = Generation::kV3,
    .operands = kNonzeroWithCountOperands,
    .attributes = kNonzeroWithCountAttributes,
    .signature = {Engine::kGpSimd, kNonzeroWithCountParameters},
    .summary =
        "In partitions 0, 16, ..., 112: the indices of nonzero elements, padding, and their number in the "
        "last element.",
    .constraints = kNonzeroWithCountConstraints,
    .check = check_nonzero_with_count,
};

namespace {

// -- topk
constexpr OperandSlot kTopkOperands[] = {out("val_dst", kInSbuf), out("idx_dst", kInSbuf),
                                         in("src", kInSbuf)};
constexpr AttributeSlot kTopkAttributes[] = {{"n", K::kInt}};
constexpr Parameter kTopkParameters[] = {operand("val_dst", 0), operand("idx_dst", 1), operand("src", 2),
                                         attribute("n", 0), name()};
constexpr Constraint kTopkConstraints[] = {
    {"topk.C1", "src and val_dst are bfloat16.", "nki.isa.topk, 'Constraints'"},
    {"topk.C2", "idx_dst is uint32.", "nki.isa.topk, 'Constraints'"},
    {"topk.C3", "val_dst, idx_dst and src have the same partitions; val_dst and idx_dst the same elements.",
     "nki.isa.topk, 'Constraints'"},
    {"topk.C4", "n is 8 to 65535.", "nki.isa.topk, 'Constraints'"},
    {"topk.C5", "K, the elements of val_dst, is 1 to 32767 and at most n.", "nki.isa.topk, 'Constraints'"},
    {"topk.C6", "src has at least ceil(n / 16) elements per partition.", "nki.isa.topk, 'Constraints'"},
    {"topk.C7", "The partitions are a multiple of 16.", "nki.isa.topk, 'Constraints'"}};

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

}  // namespace

constexpr InstructionDefinition topk = {
    .opcode = Opcode::kTopk,
    .name = "topk",
    .engines = kOnGpSimd,
    .first_generation = Generation::kV2,
    .operands = kTopkOperands,
    .attributes = kTopkAttributes,
    .signature = {Engine::kGpSimd, kTopkParameters},
    .summary =
        "The K largest of n bfloat16 values and their indices, values ascending.\n\nA group of 16 partitions "
        "holds one list in snake order (element i in partition i % 16, column i // 16). The text says both "
        "that a partition works alone and that the list spans 16 of them; here every partition of a group "
        "gets the group's result. Of equal values the one with the lower index counts as larger "
        "(undocumented).",
    .constraints = kTopkConstraints,
    .check = check_topk,
};

}  // namespace opentrn::isa::instructions
