// For tests: one case per label of constraints(), a legal instruction changed until exactly that rule breaks.
#pragma once

#include <string_view>
#include <vector>

#include "isa/constraints_draft.h"

namespace opentrn::isa {

struct Case {
  std::string_view label;
  Opcode opcode;
  void (*break_rule)(Draft&);
};

const std::vector<Case>& cases();

// Those of a family's own rules, in instructions/<family>_test.cc.
std::vector<Case> activation_cases();
std::vector<Case> control_cases();
std::vector<Case> copy_cases();
std::vector<Case> dma_cases();
std::vector<Case> elementwise_cases();
std::vector<Case> exchange_cases();
std::vector<Case> matmul_cases();
std::vector<Case> quantize_cases();
std::vector<Case> random_cases();
std::vector<Case> reduce_cases();
std::vector<Case> registers_cases();
std::vector<Case> scan_cases();
std::vector<Case> search_cases();
std::vector<Case> select_cases();

// A tile of the systolic array for a draft of nc_matmul.
void in_tile(Draft& d, int64_t rows, int64_t columns, int64_t row, int64_t column);

}  // namespace opentrn::isa
