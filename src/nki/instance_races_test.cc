#include "nki/instance_races.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace opentrn::nki {
namespace {

using isa::Dim;
using isa::InstructionIndex;

// A program of DMA copies into one HBM tensor of 8 x 16 elements.
struct Grid {
  isa::Program program;
  isa::TensorId out, tile;
  std::vector<InstructionIndex> begins;

  Grid() {
    isa::Tensor hbm;
    hbm.space = isa::MemorySpace::kHbm;
    hbm.row_elements = 128;
    hbm.name = "out";
    out = program.add_tensor(hbm);
    tile = program.add_tensor(isa::Tensor{});
  }
  void instance() { begins.push_back(static_cast<InstructionIndex>(program.size())); }
  void write(int64_t offset, std::vector<Dim> dims, isa::Opcode opcode = isa::Opcode::kDmaCopy) {
    isa::Pattern pattern;
    for (const Dim& dim : dims) pattern.dims[pattern.rank++] = dim;
    isa::Operand dst, src;
    dst.kind = src.kind = isa::OperandKind::kAccess;
    dst.tensor = out;
    dst.offset = offset;
    dst.pattern = src.pattern = program.intern_pattern(pattern);
    src.tensor = tile;
    const isa::Operand operands[] = {dst, src};
    const isa::AttributeWord words[] = {{.integer = -1}, {.integer = 0}, {.integer = 0}};
    program.append(opcode, isa::Engine::kUnknown, operands, words, 0);
  }
  bool overlaps() const { return !tensors_of_several(program, begins).empty(); }
};

void columns(Grid& g, int64_t first, int64_t count) { g.write(first, {{16, 8}, {1, count}}); }

TEST(InstanceRaces, PartsOfTheirOwnAreNoRace) {
  Grid g;
  for (int64_t i = 0; i < 4; ++i) {
    g.instance();
    columns(g, 4 * i, 4);
    columns(g, 4 * i, 2);  // twice by the same instance
  }
  EXPECT_FALSE(g.overlaps());
}

TEST(InstanceRaces, OneElementOfAnotherInstanceIsFound) {
  Grid g;
  g.instance();
  columns(g, 0, 4);
  g.instance();
  columns(g, 4, 4);
  g.instance();
  g.write(5 * 16 + 8, {{1, 1}});
  EXPECT_FALSE(g.overlaps());
  g.write(5 * 16 + 7, {{1, 1}});
  EXPECT_TRUE(g.overlaps());
}

TEST(InstanceRaces, ADmaThatAddsIsNoWrite) {
  Grid g;
  g.instance();
  g.write(0, {{1, 128}}, isa::Opcode::kDmaCompute);
  g.instance();
  g.write(0, {{1, 128}}, isa::Opcode::kDmaCompute);
  EXPECT_FALSE(g.overlaps());
}

// Against a table of the writers of every element.
TEST(InstanceRaces, AgreesWithATableOfWriters) {
  uint32_t state = 1;
  const auto draw = [&](uint32_t n) -> uint32_t {
    state = state * 1664525u + 1013904223u;
    return (state >> 16) % n;
  };
  int races = 0;
  for (int trial = 0; trial < 500; ++trial) {
    Grid g;
    std::vector<int> writer(128, -1);
    bool race = false;
    for (int instance = 0; instance < 3; ++instance) {
      g.instance();
      for (uint32_t n = draw(3); n-- > 0;) {
        const int64_t step = 1 + draw(20), count = 1 + draw(4), length = 1 + draw(3);
        const int64_t offset = draw(static_cast<uint32_t>(128 - step * (count - 1) - length));
        g.write(offset, {{step, count}, {1, length}});
        for (int64_t i = 0; i < count; ++i)
          for (int64_t j = 0; j < length; ++j) {
            int& by = writer[static_cast<size_t>(offset + i * step + j)];
            race |= by != -1 && by != instance;
            by = instance;
          }
      }
    }
    races += race;
    EXPECT_EQ(g.overlaps(), race) << trial;
  }
  EXPECT_GT(races, 50);
  EXPECT_LT(races, 450);
}

}  // namespace
}  // namespace opentrn::nki
