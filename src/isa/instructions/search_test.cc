// A legal instruction of every opcode of its family, and a case for each of their rules.
#include "isa/constraints_cases.h"

namespace opentrn::isa {

namespace drafts {

void max8(Draft& d) { d.operands = {d.sbuf(kF32, {64, 8}), d.sbuf(kF32, {64, 16384})}; }

void nc_find_index8(Draft& d) {
  d.operands = {d.sbuf(kU32, {64, 8}), d.sbuf(kF32, {64, 100}), d.sbuf(kF32, {64, 8})};
}

void nc_match_replace8(Draft& d) {
  d.operands = {d.sbuf(kF32, {64, 100}), d.sbuf(kF32, {64, 100}), d.sbuf(kF32, {64, 8}),
                d.sbuf(kU32, {64, 8})};
  d.attributes = {word_real(-1)};
}

void sequence_bounds(Draft& d) { d.operands = {d.sbuf(kF32, {1, 2, 50}), d.sbuf(kF32, {1, 50})}; }

void nonzero_with_count(Draft& d) {
  d.operands = {d.sbuf(kI32, {64, 17}), d.sbuf(kF32, {64, 16})};
  d.attributes = {word(0), word(-1)};
}

void topk(Draft& d) {
  d.operands = {d.sbuf(kBf16, {64, 8}), d.sbuf(kU32, {64, 8}), d.sbuf(kBf16, {64, 3})};
  d.attributes = {word(42)};
}

}  // namespace drafts

std::vector<Case> search_cases() {
  return {
      {"max8.C1", Opcode::kMax8,
       [](Draft& d) {
         using namespace slot::max8;
         d.shape(kSrc, {64, 7});
       }},
      {"max8.C2", Opcode::kMax8,
       [](Draft& d) {
         using namespace slot::max8;
         d.shape(kDst, {64, 9});
       }},
      {"max8.C3", Opcode::kMax8,
       [](Draft& d) {
         using namespace slot::max8;
         d.shape(kDst, {32, 8});
       }},
      {"nc_find_index8.C1", Opcode::kNcFindIndex8,
       [](Draft& d) {
         using namespace slot::nc_find_index8;
         d.shape(kData, {64, 16385});
       }},
      {"nc_find_index8.C2", Opcode::kNcFindIndex8,
       [](Draft& d) {
         using namespace slot::nc_find_index8;
         d.shape(kVals, {64, 7});
       }},
      {"nc_find_index8.C3", Opcode::kNcFindIndex8,
       [](Draft& d) {
         using namespace slot::nc_find_index8;
         d.shape(kDst, {64, 7});
       }},
      {"nc_find_index8.C4", Opcode::kNcFindIndex8,
       [](Draft& d) {
         using namespace slot::nc_find_index8;
         d.dtype(kDst, DType::kInt32);
       }},
      {"nc_find_index8.C5", Opcode::kNcFindIndex8,
       [](Draft& d) {
         using namespace slot::nc_find_index8;
         d.shape(kVals, {32, 8});
       }},
      {"nc_match_replace8.C1", Opcode::kNcMatchReplace8,
       [](Draft& d) {
         using namespace slot::nc_match_replace8;
         d.shape(kDst, {64, 99});
       }},
      {"nc_match_replace8.C2", Opcode::kNcMatchReplace8,
       [](Draft& d) {
         using namespace slot::nc_match_replace8;
         d.shape(kVals, {64, 7});
       }},
      {"nc_match_replace8.C3", Opcode::kNcMatchReplace8,
       [](Draft& d) {
         using namespace slot::nc_match_replace8;
         d.shape(kVals, {32, 8});
       }},
      {"nc_match_replace8.C4", Opcode::kNcMatchReplace8,
       [](Draft& d) {
         using namespace slot::nc_match_replace8;
         d.shape(kDstIdx, {64, 7});
       }},
      {"sequence_bounds.C1", Opcode::kSequenceBounds,
       [](Draft& d) {
         using namespace slot::sequence_bounds;
         d.shape(kSegmentIds, {2, 50});
       }},
      {"sequence_bounds.C2", Opcode::kSequenceBounds,
       [](Draft& d) {
         using namespace slot::sequence_bounds;
         d.shape(kDst, {1, 2, 51});
       }},
      {"sequence_bounds.C3", Opcode::kSequenceBounds,
       [](Draft& d) {
         using namespace slot::sequence_bounds;
         d.dtype(kDst, DType::kInt16);
       }},
      {"nonzero_with_count.C1", Opcode::kNonzeroWithCount,
       [](Draft& d) {
         using namespace slot::nonzero_with_count;
         d.shape(kDst, {32, 17});
       }},
      {"nonzero_with_count.C2", Opcode::kNonzeroWithCount,
       [](Draft& d) {
         using namespace slot::nonzero_with_count;
         d.shape(kDst, {64, 16});
       }},
      {"nonzero_with_count.C3", Opcode::kNonzeroWithCount,
       [](Draft& d) {
         using namespace slot::nonzero_with_count;
         d.dtype(kSrc, DType::kInt16);
       }},
      {"nonzero_with_count.C4", Opcode::kNonzeroWithCount,
       [](Draft& d) {
         using namespace slot::nonzero_with_count;
         d.dtype(kDst, DType::kFloat32);
       }},
      {"topk.C1", Opcode::kTopk,
       [](Draft& d) {
         using namespace slot::topk;
         d.dtype(kSrc, DType::kFloat32);
       }},
      {"topk.C2", Opcode::kTopk,
       [](Draft& d) {
         using namespace slot::topk;
         d.dtype(kIdxDst, DType::kInt32);
       }},
      {"topk.C3", Opcode::kTopk,
       [](Draft& d) {
         using namespace slot::topk;
         d.shape(kIdxDst, {64, 9});
       }},
      {"topk.C4", Opcode::kTopk,
       [](Draft& d) {
         using namespace slot::topk;
         d.set(kAN, 7);
       }},
      {"topk.C5", Opcode::kTopk,
       [](Draft& d) {
         using namespace slot::topk;
         d.shape(kValDst, {64, 43});
         d.shape(kIdxDst, {64, 43});
       }},
      {"topk.C6", Opcode::kTopk,
       [](Draft& d) {
         using namespace slot::topk;
         d.set(kAN, 49);
       }},
      {"topk.C7", Opcode::kTopk,
       [](Draft& d) {
         using namespace slot::topk;
         for (int i : {0, 1, 2}) d.shape(i, {60, i == 2 ? 3 : 8});
       }},
  };
}

}  // namespace opentrn::isa
