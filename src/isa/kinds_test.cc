#include "isa/kinds.h"

#include <gtest/gtest.h>

#include <map>
#include <tuple>

#include "base/random.h"
#include "isa/text_random.h"

namespace opentrn::isa {
namespace {

// Two instructions compared as the header says, word by word.
bool alike(const Program& program, const Instruction& a, const Instruction& b) {
  if (a.opcode != b.opcode || a.engine != b.engine || a.attributes != b.attributes ||
      a.operand_count != b.operand_count)
    return false;
  for (int slot = 0; slot < a.operand_count; ++slot) {
    const Operand &x = program.operand(a, slot), &y = program.operand(b, slot);
    if (x.kind != y.kind || x.dtype != y.dtype) return false;
    if (x.kind == OperandKind::kImmediate &&
        std::bit_cast<uint64_t>(x.immediate) != std::bit_cast<uint64_t>(y.immediate))
      return false;
    if (!x.is_access()) continue;
    const Tensor &s = program.tensor(x.tensor), &t = program.tensor(y.tensor);
    if (x.pattern != y.pattern || x.indirect != y.indirect || s.space != t.space || s.dtype != t.dtype)
      return false;
    if (is_on_chip(s.space) && s.row_elements != t.row_elements) return false;
  }
  return true;
}

TEST(Kinds, PropertyInstructionsAreOfOneKindWhereTheyAreAlike) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    SplitMix64 random(seed);
    const Program program = random_program(random, 60);
    const Kinds kinds(program);
    ASSERT_EQ(kinds.instruction_count(), program.size());
    for (InstructionIndex i = 0; i < program.size(); ++i) {
      EXPECT_EQ(kinds.of(kinds.first(kinds.of(i))), kinds.of(i));
      EXPECT_LE(kinds.first(kinds.of(i)), i);
      for (InstructionIndex j = 0; j < i; ++j)
        EXPECT_EQ(kinds.of(i) == kinds.of(j), alike(program, program.instruction(i), program.instruction(j)))
            << "seed " << seed << " instructions " << i << " and " << j;
    }
  }
}

TEST(KeyTable, PropertyNumbersAreThoseOfAMapWhateverTheKeys) {
  SplitMix64 random(1);
  KeyTable table;
  std::map<std::vector<uint64_t>, uint32_t> reference;
  for (int i = 0; i < 20'000; ++i) {
    std::vector<uint64_t> key(1 + random.below(4));
    for (uint64_t& word : key) word = uint64_t{random.below(30)} << (random.below(2) * 40);
    table.begin();
    for (const uint64_t word : key) table.add(word);
    const auto [found, added] = reference.try_emplace(key, static_cast<uint32_t>(reference.size()));
    bool fresh = false;
    ASSERT_EQ(table.number(&fresh), found->second);
    ASSERT_EQ(fresh, added);
  }
  EXPECT_GT(reference.size(), 1000u);
}

}  // namespace
}  // namespace opentrn::isa
