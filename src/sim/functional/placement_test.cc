// Tiles that lie where they are copied to or from: the values are those of tiles with memory of their own.
#include "sim/functional/placement.h"

#include <cstring>

#include "base/random.h"
#include "sim/functional/run_memory.h"
#include "sim/functional/test_kernel.h"

namespace opentrn::sim::placement_tests {
namespace {

using isa::Opcode;
using isa::Operand;

constexpr int64_t kSide = 40;  // of a tile: 6400 bytes

bool none_alone(isa::TensorId) { return false; }

// Tiles of values go through products, sums and copies between PSUM, parts of wider tiles and HBM; most of
// them are written once, as a compiler writes them, some are written again.
class RandomMoves {
 public:
  explicit RandomMoves(uint64_t seed) : random_(seed), input_(kernel_.hbm(kSide, 4 * kSide)) {
    for (int i = 0; i < 3; ++i) tensors_.push_back(kernel_.hbm(kSide, 4 * kSide));
    for (int i = 0; i < 2; ++i) tensors_.push_back(kernel_.sbuf(kSide, 4 * kSide));
    for (const Tile& tensor : tensors_) memset(kernel_.op(tensor), 0.25);
    for (int i = 0; i < 3; ++i) load(input_, i);
    for (int i = 0; i < 70; ++i) step();
    const Tile result = kernel_.hbm(kSide, kSide);
    copy(kernel_.op(result), kernel_.op(any()));
  }

  const isa::Program& program() const { return kernel_.program; }
  isa::TensorId input() const { return input_.id; }

 private:
  int64_t below(uint64_t n) { return random_.below(static_cast<uint32_t>(n)); }
  const Tile& any() { return tiles_[static_cast<size_t>(below(tiles_.size()))]; }
  // A new tile, or one that has a value already.
  Tile target(bool psum) {
    if (tiles_.size() > 4 && below(5) == 0) return any();
    const Tile tile = psum ? kernel_.psum(kSide, kSide) : kernel_.sbuf(kSide, kSide);
    tiles_.push_back(tile);
    return tile;
  }
  // Columns `block` of a tensor of 4 blocks, or in HBM as many elements in a row.
  Operand part(const Tile& tensor, int64_t block, bool in_a_row) {
    if (in_a_row && !isa::is_on_chip(kernel_.program.tensor(tensor.id).space))
      return kernel_.op(tensor, block * kSide * kSide, {{1, kSide * kSide}});
    return kernel_.op(tensor, block * kSide, {{4 * kSide, kSide}, {1, kSide}});
  }
  void memset(const Operand& to, double value) { kernel_.emit(Opcode::kMemset, {to, Operand::imm(value)}); }
  void copy(const Operand& to, const Operand& from) {
    const auto space = [&](const Operand& op) { return kernel_.program.tensor(op.tensor).space; };
    if (isa::is_on_chip(space(to)) && isa::is_on_chip(space(from)) && below(2) == 0)
      kernel_.emit(Opcode::kTensorCopy, {to, from}, {}, isa::Engine::kVector);
    else
      kernel_.emit(Opcode::kDmaCopy, {to, from}, {word(int64_t{0}), word(int64_t{0}), word(int64_t{0})});
  }
  void load(const Tile& tensor, int64_t block) {
    const Operand from = part(tensor, block, below(2) == 0);
    copy(kernel_.op(target(false)), from);
  }

  void step() {
    switch (below(6)) {
      case 0: return load(below(4) == 0 ? input_ : wide(), below(4));
      case 1:
      case 2: return copy(part(wide(), below(4), below(2) == 0), kernel_.op(any()));
      case 3: {
        const Tile a = any(), b = any(), to = target(false);
        if (to.id == a.id || to.id == b.id) return;
        kernel_.emit(Opcode::kTensorTensor, {kernel_.op(to), kernel_.op(a), kernel_.op(b)},
                     {word(AluOp::kAdd)});
        return;
      }
      case 4: {
        const Tile a = any(), b = any(), to = kernel_.psum(kSide, kSide);
        tiles_.push_back(to);
        const isa::AttributeWord zero = word(int64_t{0});
        const Operand a_op = kernel_.op(a), b_op = kernel_.op(b);
        kernel_.emit(Opcode::kNcMatmul, {kernel_.op(to), a_op, b_op},
                     {zero, zero, zero, zero, zero, zero, zero, zero, zero}, isa::Engine::kTensor);
        return;
      }
      default: {
        const Tile from = any(), to = target(below(2) == 0);
        if (to.id != from.id) copy(kernel_.op(to), kernel_.op(from));
      }
    }
  }
  const Tile& wide() { return tensors_[static_cast<size_t>(below(tensors_.size()))]; }

  TestKernel kernel_;
  SplitMix64 random_;
  Tile input_;
  std::vector<Tile> tensors_, tiles_;
};

// What HBM holds after a run; with a memory as models run, all that may happen at the same time in the order
// furthest from that of the program.
std::vector<std::vector<std::byte>> hbm_after(const RandomMoves& moves, RunMemory* memory) {
  ThreadPool pool(2);
  Core core(Generation::kV3, memory != nullptr ? &pool : nullptr);
  core.sharing() = {.work = 0,
                    .work_per_instruction = 0,
                    .side_by_side = 0,
                    .highest_first = memory != nullptr,
                    .chains = {}};
  core.remember_in(memory);
  const isa::Program& program = moves.program();
  std::vector<float> values(static_cast<size_t>(kSide * 4 * kSide));
  SplitMix64 random(1);
  for (float& value : values) value = static_cast<float>(random.uniform());
  core.bind(moves.input(), Buffer::wrap_read_only(values.data(), static_cast<int64_t>(values.size() * 4)));
  std::vector<isa::TensorId> bound;
  for (isa::TensorId id = 0; id < program.tensor_count(); ++id) {
    const isa::Tensor& tensor = program.tensor(id);
    if (isa::is_on_chip(tensor.space) || id == moves.input()) continue;
    bound.push_back(id);
    core.bind(id, Buffer::allocate(tensor.bytes()));
  }
  core.run(program);
  std::vector<std::vector<std::byte>> found;
  for (const isa::TensorId id : bound) {
    const auto buffer = core.buffer(id);
    found.emplace_back(buffer->data(), buffer->data() + buffer->bytes());
  }
  return found;
}

TEST(Placement, ValuesAreThoseOfTilesWithMemoryOfTheirOwn) {
  size_t placed = 0;
  for (uint64_t seed = 0; seed < 80; ++seed) {
    const RandomMoves moves(seed);
    placed += find_placements(moves.program(), none_alone).size();
    const auto expected = hbm_after(moves, nullptr);
    RunMemory memory;
    for (int run = 0; run < 2; ++run) ASSERT_EQ(hbm_after(moves, &memory), expected) << "seed " << seed;
  }
  EXPECT_GT(placed, 400u);
}

class PlacementRules : public testing::Test {
 protected:
  void copy(const Operand& to, const Operand& from) {
    k.emit(Opcode::kDmaCopy, {to, from}, {word(int64_t{0}), word(int64_t{0}), word(int64_t{0})});
  }
  void memset(const Tile& tile) { k.emit(Opcode::kMemset, {k.op(tile), Operand::imm(1)}); }
  std::vector<Placement> found() { return find_placements(k.program, none_alone); }

  TestKernel k;
  Tile tile = k.sbuf(kSide, kSide), other = k.sbuf(kSide, kSide), wide = k.sbuf(kSide, 4 * kSide);
  Tile hbm = k.hbm(kSide, kSide);
};

TEST_F(PlacementRules, ATileLiesInTheColumnsThatItIsCopiedTo) {
  memset(tile);
  copy(k.op(wide, 2 * kSide, {{4 * kSide, kSide}, {1, kSide}}), k.op(tile));
  ASSERT_EQ(found().size(), 1u);
  EXPECT_EQ(found()[0].tile, tile.id);
  EXPECT_EQ(found()[0].home, wide.id);
  EXPECT_EQ(found()[0].row, 0);
  EXPECT_EQ(found()[0].byte, 2 * kSide * 4);
}

TEST_F(PlacementRules, ALoadedTileLiesInHbm) {
  memset(wide);
  copy(k.op(hbm), k.op(wide, 0, {{4 * kSide, kSide}, {1, kSide}}));
  copy(k.op(tile), k.op(hbm));
  ASSERT_EQ(found().size(), 1u);
  EXPECT_EQ(found()[0].tile, tile.id);
  EXPECT_EQ(found()[0].home, hbm.id);
  EXPECT_EQ(found()[0].pitch, kSide * 4);
}

TEST_F(PlacementRules, NotWhereTheTileIsWrittenAfterwards) {
  memset(tile);
  copy(k.op(hbm), k.op(tile));
  memset(tile);
  copy(k.op(other), k.op(hbm));
  memset(hbm);
  EXPECT_TRUE(found().empty());
}

TEST_F(PlacementRules, NotWhereThePlaceIsReadBefore) {
  memset(hbm);
  memset(tile);
  copy(k.op(hbm), k.op(tile));
  EXPECT_TRUE(found().empty());
}

TEST_F(PlacementRules, NotOfTensorsThatMayOverlapOthersNorWithControlFlow) {
  memset(tile);
  copy(k.op(hbm), k.op(tile));
  ASSERT_EQ(found().size(), 1u);
  EXPECT_TRUE(find_placements(k.program, [&](isa::TensorId id) { return id == hbm.id; }).empty());
  const isa::RegisterId counter = k.program.add_register();
  k.loop_end(counter, k.loop_begin(counter, Operand::imm(0), Operand::imm(2)));
  EXPECT_TRUE(found().empty());
}

}  // namespace
}  // namespace opentrn::sim::placement_tests
