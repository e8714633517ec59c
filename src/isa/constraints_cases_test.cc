#include "isa/constraints_cases.h"

#include <utility>

namespace opentrn::isa {

namespace {

std::vector<Case> shared_cases() {
  return {
      {"isa.C1", Opcode::kRangeSelect, [](Draft& d) { d.generation = Generation::kV2; }},
      {"isa.C2", Opcode::kTensorTensor, [](Draft& d) { d.engine = Engine::kScalar; }},
      {"isa.C3", Opcode::kTensorTensor, [](Draft& d) { d.number(1, 2.0); }},
      {"isa.C4", Opcode::kTensorTensor, [](Draft& d) { d.space(1, MemorySpace::kHbm); }},
      {"isa.C5", Opcode::kTensorCopy,
       [](Draft& d) {
         d.engine = Engine::kGpSimd;
         d.space(1, MemorySpace::kPsum);
       }},
      {"isa.C6", Opcode::kReciprocal,
       [](Draft& d) {
         d.shape(0, {129, 16});
         d.shape(1, {129, 16});
       }},
      {"isa.C7", Opcode::kReciprocal, [](Draft& d) { d.place(0, 32); }},
      {"isa.C8", Opcode::kReciprocal,
       [](Draft& d) {
         d.shape(0, {64, 1 << 20});
         d.shape(1, {64, 1 << 20});
       }},
      {"isa.C9", Opcode::kTensorCopy, [](Draft& d) { d.dtype(1, DType::kInt64); }},
      {"isa.C10", Opcode::kTensorCopy, [](Draft& d) { d.indirect(1, IndirectKind::kTensor); }},
      {"isa.C11", Opcode::kTensorCopy,
       [](Draft& d) {
         d.shape(0, {32, 16});
         d.walk(1, {{32, 32}, {1, 16}});
       }},
      {"isa.C12", Opcode::kTensorCopy,
       [](Draft& d) {
         d.shape(0, {64, 32});
         d.shape(1, {64, 400});
         d.walk(1, {{400, 64}, {200, 2}, {90, 2}, {40, 2}, {18, 2}, {7, 2}});
       }},
      {"isa.C13", Opcode::kTensorTensor, [](Draft& d) { d.set(0, AluOp::kAbsMax); }},
  };
}

}  // namespace

void in_tile(Draft& d, int64_t rows, int64_t columns, int64_t row, int64_t column) {
  using namespace slot::nc_matmul;
  d.set(kATileRows, rows);
  d.set(kATileColumns, columns);
  d.set(kATileRow, row);
  d.set(kATileColumn, column);
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all = [] {
    std::vector<Case> found = shared_cases();
    for (auto* of_family : {activation_cases, control_cases, copy_cases, dma_cases, elementwise_cases,
                            exchange_cases, matmul_cases, quantize_cases, random_cases, reduce_cases,
                            registers_cases, scan_cases, search_cases, select_cases})
      for (Case& c : of_family()) found.push_back(std::move(c));
    return found;
  }();
  return all;
}

}  // namespace opentrn::isa
