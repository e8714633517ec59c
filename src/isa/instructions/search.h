// Search: largest values, indices of values, bounds of sequences. Opcodes with their numbers, and slots; see
// isa/opcode.h.
#pragma once

#define OPENTRN_SEARCH_INSTRUCTIONS(X)         \
  X(kMax8, max8, 34)                           \
  X(kNcFindIndex8, nc_find_index8, 35)         \
  X(kNcMatchReplace8, nc_match_replace8, 36)   \
  X(kSequenceBounds, sequence_bounds, 37)      \
  X(kNonzeroWithCount, nonzero_with_count, 38) \
  X(kTopk, topk, 39)

namespace opentrn::isa::slot {

namespace max8 {
enum { kDst, kSrc };
}  // namespace max8
namespace nc_find_index8 {
enum { kDst, kData, kVals };
}  // namespace nc_find_index8
namespace nc_match_replace8 {
enum { kDst, kData, kVals, kDstIdx };
enum { kAImm };
}  // namespace nc_match_replace8
namespace sequence_bounds {
enum { kDst, kSegmentIds };
}  // namespace sequence_bounds
namespace nonzero_with_count {
enum { kDst, kSrc };
enum { kAIndexOffset, kAPaddingVal };
}  // namespace nonzero_with_count
namespace topk {
enum { kValDst, kIdxDst, kSrc };
enum { kAN };
}  // namespace topk

}  // namespace opentrn::isa::slot
