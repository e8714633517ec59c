// Chains give the values, and the first Fault, of program order.
#include "sim/functional/chain.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/random.h"
#include "sim/functional/test_kernel.h"

namespace opentrn::sim::chain_tests {
namespace {

using isa::MemorySpace;
using isa::Opcode;
using isa::Operand;

constexpr int64_t kRows = 64, kColumns = 40;
const isa::AttributeWord kZero = word(int64_t{0});

// Small enough for every run of element-wise instructions to become a chain.
SharingLimits everything_chains() {
  return {.work = 0,
          .work_per_instruction = 0,
          .side_by_side = 0,
          .highest_first = false,
          .chains = {.work = 0,
                     .work_per_instruction = 0,
                     .immediate_work = 2 * kRows,
                     .deferred = 24,
                     .band_bytes = 4096,
                     .band_rows_min = 4}};
}

enum class Habit {
  kMixed,
  kReadsOnce,  // tiles, mostly: their readers may compute them
  kMayFault,
};

// A random program that loads, computes row by row and stores. Its tiles are new ones mostly, and released
// after their last use.
class RandomChain {
 public:
  RandomChain(uint64_t seed, int instructions, Habit habit) : random_(seed), habit_(habit) {
    for (int i = 0; i < 3; ++i) inputs_.push_back(kernel_.hbm(kRows, kColumns));
    row_ = kernel_.hbm(1, kColumns);
    sum_ = kernel_.sbuf(kRows, kColumns);
    emit(Opcode::kMemset, {kernel_.op(sum_), Operand::imm(0.25)});
    for (int i = 0; i < 4; ++i) load();
    column();
    for (int i = 0; i < instructions; ++i) step();
    store(sum_);
    for (const Tile& tile : tiles_) store(tile);
  }

  const isa::Program& program() const { return kernel_.program; }
  const std::vector<Tile>& inputs() const { return inputs_; }
  Tile row() const { return row_; }
  const std::vector<Tile>& outputs() const { return outputs_; }

 private:
  int64_t below(int64_t n) { return random_.below(static_cast<uint32_t>(n)); }
  void emit(Opcode opcode, std::initializer_list<Operand> operands,
            std::initializer_list<isa::AttributeWord> attributes = {}) {
    kernel_.emit(opcode, operands, attributes);
  }
  const Tile& any() { return tiles_[static_cast<size_t>(below(static_cast<int64_t>(tiles_.size())))]; }
  // For an instruction to read; forgotten then, if tiles are read once.
  Tile operand() {
    if (habit_ != Habit::kReadsOnce || below(4) == 0 || tiles_.size() < 3) return any();
    const auto newest = tiles_.end() - 1 - below(2);
    const Tile tile = *newest;
    tiles_.erase(newest);
    return tile;
  }
  // Forgets an old tile, so that it is released, and makes a new one.
  Tile fresh() {
    if (tiles_.size() > 6) tiles_.erase(tiles_.begin() + below(static_cast<int64_t>(tiles_.size())));
    const DType dtype = below(4) == 0 ? DType::kBFloat16 : DType::kFloat32;
    return kernel_.tile(below(4) == 0 ? MemorySpace::kPsum : MemorySpace::kSbuf, kRows, kColumns, dtype);
  }
  Operand part(const Tile& tile, int64_t row, int64_t rows, int64_t first, int64_t columns) {
    return kernel_.op(tile, row * tile.columns + first, {{tile.columns, rows}, {1, columns}});
  }

  void load() {
    const Tile tile = fresh();
    emit(Opcode::kDmaCopy, {kernel_.op(tile), kernel_.op(inputs_[static_cast<size_t>(below(3))])},
         {kZero, kZero, kZero});
    tiles_.push_back(tile);
  }
  void store(const Tile& tile) {
    outputs_.push_back(kernel_.hbm(kRows, kColumns));
    store(tile, outputs_.back());
  }
  void store(const Tile& tile, const Tile& to) {
    emit(Opcode::kDmaCopy, {kernel_.op(to), kernel_.op(tile)}, {kZero, kZero, kZero});
  }
  void column() {
    column_ = kernel_.sbuf(kRows, 1);
    const int64_t at = below(kColumns);
    emit(Opcode::kTensorCopy, {kernel_.op(column_), part(any(), 0, kRows, at, 1)});
  }
  // One row, to every group of 32.
  void broadcast() {
    const Tile source = kernel_.sbuf(1, kColumns), tile = fresh();
    emit(Opcode::kDmaCopy, {kernel_.op(source), kernel_.op(row_)}, {kZero, kZero, kZero});
    if (tile.dtype != source.dtype) return;
    const int64_t mask = kernel_.program.intern_list(std::vector<int64_t>(32, 0));
    for (int64_t row = 0; row < kRows; row += 32)
      emit(Opcode::kNcStreamShuffle, {part(tile, row, 32, 0, kColumns), kernel_.op(source)}, {word(mask)});
    tiles_.push_back(tile);
  }

  void step() {
    if (habit_ == Habit::kReadsOnce && below(5) > 0) return compute(below(6) == 0 ? any() : fresh());
    const Tile a = any(), b = any();
    switch (below(15)) {
      case 0: return load();
      case 1: return store(a);
      case 2: return column();
      case 3: return broadcast();
      case 4:
        return emit(Opcode::kTensorTensor, {kernel_.op(sum_), kernel_.op(sum_), kernel_.op(a)},
                    {word(AluOp::kMaximum)});
      case 5: {  // other rows and columns of one tile: must wait for what is deferred
        const int64_t rows = 1 + below(kRows - 1), columns = 1 + below(kColumns - 1);
        return emit(Opcode::kTensorCopy,
                    {part(a, below(kRows - rows + 1), rows, below(kColumns - columns + 1), columns),
                     part(b, below(kRows - rows + 1), rows, below(kColumns - columns + 1), columns)});
      }
      case 6:
        if (habit_ == Habit::kMayFault && below(3) == 0) {
          const Tile unwritten = fresh(), tile = fresh();
          return emit(Opcode::kTensorTensor, {kernel_.op(tile), kernel_.op(a), kernel_.op(unwritten)},
                      {word(AluOp::kAdd)});
        }
        return;
      case 7: return store(a, inputs_[static_cast<size_t>(below(3))]);  // tiles loaded before keep theirs
      case 8:
        return emit(Opcode::kMemset, {kernel_.op(a), Operand::imm(-0.5)});  // after it was read, perhaps
      default: break;
    }
    compute(fresh());
  }

  void compute(const Tile& tile) {
    const Tile a = operand(), b = operand();
    switch (below(7)) {
      case 0:
        emit(Opcode::kTensorTensor, {kernel_.op(tile), kernel_.op(a), kernel_.op(b)},
             {word(AluOp::kMultiply)});
        break;
      case 1:
        emit(Opcode::kTensorScalar,
             {kernel_.op(tile), kernel_.op(a), kernel_.op(column_), Operand::imm(0.125)},
             {word(AluOp::kMultiply), kZero, word(AluOp::kAdd), kZero});
        break;
      case 2:
        emit(Opcode::kActivation,
             {kernel_.op(tile), kernel_.op(a), kernel_.op(column_), Operand::imm(0.25), Operand::none()},
             {word(ActivationFunction::kTanh), word(int64_t{-1}), word(isa::ReduceCmd::kIdle)});
        break;
      case 3:
        emit(Opcode::kTensorTensorScan, {kernel_.op(tile), kernel_.op(a), kernel_.op(b), kernel_.op(column_)},
             {word(AluOp::kMultiply), word(AluOp::kMaximum), kZero, kZero});
        break;
      case 4:
        emit(Opcode::kScalarTensorTensor,
             {kernel_.op(tile), kernel_.op(a), kernel_.op(column_), kernel_.op(b)},
             {word(AluOp::kAdd), word(AluOp::kMinimum), kZero, kZero});
        break;
      case 5: emit(Opcode::kMemset, {kernel_.op(tile), Operand::imm(0.75)}); break;
      default: emit(Opcode::kTensorCopy, {kernel_.op(tile), kernel_.op(a)}); break;
    }
    const bool known =
        std::any_of(tiles_.begin(), tiles_.end(), [&](const Tile& t) { return t.id == tile.id; });
    if (!known) tiles_.push_back(tile);
  }

  TestKernel kernel_;
  SplitMix64 random_;
  Habit habit_;
  std::vector<Tile> inputs_, tiles_, outputs_;
  Tile row_, sum_, column_;
};

struct Outcome {
  std::string fault;
  std::vector<std::vector<uint32_t>> outputs;  // bits: NaN too
};

// `threads` of 0: one by one, in program order.
Outcome outcome_of(const RandomChain& random, int threads, std::optional<uint64_t> rounding = {}) {
  std::optional<ThreadPool> pool;
  if (threads > 0) pool.emplace(threads);
  Core core(Generation::kV3, pool ? &*pool : nullptr);
  core.sharing() = everything_chains();
  core.set_stochastic_rounding(rounding);
  SplitMix64 values(7);
  std::vector<std::vector<float>> memory;
  const auto bind = [&](const Tile& tile, bool filled) {
    memory.emplace_back(static_cast<size_t>(tile.rows * tile.columns));
    for (float& value : memory.back()) value = filled ? static_cast<float>(values.below(256)) / 64 - 2 : 0;
    core.bind(tile.id, Buffer::wrap(memory.back().data(), tile.rows * tile.columns * 4, nullptr, filled));
  };
  for (const Tile& tile : random.inputs()) bind(tile, true);
  bind(random.row(), true);
  for (const Tile& tile : random.outputs()) bind(tile, false);
  Outcome outcome;
  try {
    core.run(random.program());
  } catch (const Fault& fault) {
    outcome.fault = fault.what();
    return outcome;
  }
  for (const std::vector<float>& values : memory) {
    outcome.outputs.emplace_back(values.size());
    std::memcpy(outcome.outputs.back().data(), values.data(), values.size() * sizeof(float));
  }
  EXPECT_EQ(core.tensor_bytes_in_use(), 0);
  return outcome;
}

TEST(Chain, GivesTheValuesOfProgramOrder) {
  for (uint64_t seed = 0; seed < 240; ++seed) {
    const RandomChain random(seed, 60, seed % 2 == 0 ? Habit::kMixed : Habit::kReadsOnce);
    const Outcome expected = outcome_of(random, 0);
    EXPECT_EQ(expected.fault, "");
    for (int threads : {1, 2, 3, 4}) {
      const Outcome chained = outcome_of(random, threads);
      EXPECT_EQ(chained.fault, "") << "seed " << seed;
      EXPECT_TRUE(chained.outputs == expected.outputs) << "seed " << seed << ", " << threads << " threads";
    }
  }
}

TEST(Chain, TilesThatLiveAndDieInItHaveMemoryForAFewRows) {
  ThreadPool pool(2);
  TestKernel k(Generation::kV3, &pool);
  k.core.sharing() = everything_chains();
  constexpr int64_t kWide = 256, kBands = 2 * 4;  // two threads, four rows each
  const Tile sum = k.sbuf(kRows, kWide);
  std::vector<Core::Release> releases;
  k.emit(Opcode::kMemset, {k.op(sum), Operand::imm(0)});
  for (int i = 0; i < 10; ++i) {
    const Tile value = k.sbuf(kRows, kWide);
    k.emit(Opcode::kMemset, {k.op(value), Operand::imm(i)});
    const auto last = k.emit(Opcode::kTensorTensor, {k.op(sum), k.op(sum), k.op(value)}, {word(AluOp::kAdd)});
    releases.emplace_back(last, value.id);
  }
  k.core.run(k.program, 0, static_cast<isa::InstructionIndex>(k.program.size()), releases);
  for (const float value : k.get(sum)) ASSERT_EQ(value, 45.0f);
  EXPECT_EQ(k.core.tensor_bytes_in_use(), kRows * kWide * 4);
  EXPECT_EQ(k.core.tensor_bytes_peak(), (kRows + kBands) * kWide * 4);
}

// Finds the chain that is all of a program; the tiles in `kept` are wanted after it.
Chain whole_chain(const TestKernel& k, std::vector<isa::TensorId> kept) {
  static const ChainLimits limits = everything_chains().chains;
  ChainFinder finder(limits);
  finder.start(k.program, 0);
  AccessList list;
  for (isa::InstructionIndex i = 0; i < k.program.size(); ++i) {
    read_accesses(k.program, k.program.instruction(i), list);
    EXPECT_TRUE(finder.add(list)) << "instruction " << i;
  }
  return finder.finish([&](isa::TensorId id, isa::InstructionIndex) {
    return isa::is_on_chip(k.program.tensor(id).space) && std::ranges::find(kept, id) == kept.end();
  });
}

uint32_t reader_of(const Chain& chain, const Tile& tile) {
  for (const FoldedTile& folded : chain.folded)
    if (folded.tensor == tile.id) return folded.reader;
  ADD_FAILURE() << "tile " << tile.id << " is not folded";
  return kNoReader;
}

// product = exp(a) * b, and what reads it.
class Computed : public testing::Test {
 protected:
  Computed() {
    k.emit(Opcode::kActivation, {k.op(e), k.op(a), Operand::none(), Operand::none(), Operand::none()},
           {word(ActivationFunction::kExp), word(int64_t{-1}), word(isa::ReduceCmd::kIdle)});
    multiply(product, e, b);
  }
  void multiply(const Tile& to, const Tile& x, const Tile& y) {
    k.emit(Opcode::kTensorTensor, {k.op(to), k.op(x), k.op(y)}, {word(AluOp::kMultiply)});
  }
  void scan(const Tile& to, const Tile& x, const Tile& y) {
    k.emit(Opcode::kTensorTensorScan, {k.op(to), k.op(x), k.op(y), Operand::imm(0.0)},
           {word(AluOp::kMultiply), word(AluOp::kAdd), kZero, kZero});
  }

  TestKernel k;
  const Tile a = k.sbuf(kRows, kColumns), b = k.sbuf(kRows, kColumns), e = k.sbuf(kRows, kColumns),
             product = k.sbuf(kRows, kColumns), result = k.sbuf(kRows, kColumns),
             other = k.sbuf(kRows, kColumns);
};

TEST_F(Computed, ATileWithOneReaderIsComputedByIt) {
  scan(result, b, product);
  const Chain chain = whole_chain(k, {a.id, b.id, result.id});
  EXPECT_EQ(reader_of(chain, e), 1u);
  EXPECT_EQ(reader_of(chain, product), 2u);
  // What it is computed from lives as long.
  for (const FoldedTile& tile : chain.folded) EXPECT_EQ(tile.last, 2u);
}

TEST_F(Computed, ATileWithTwoReadersIsNot) {
  multiply(other, e, b);
  scan(result, other, product);
  const Chain chain = whole_chain(k, {a.id, b.id, result.id});
  EXPECT_EQ(reader_of(chain, e), kNoReader);
  EXPECT_EQ(reader_of(chain, product), 3u);
}

TEST_F(Computed, NorOneWhoseSourceChangesBefore) {
  k.emit(Opcode::kMemset, {k.op(b), Operand::imm(1.0)});
  scan(result, a, product);
  const Chain chain = whole_chain(k, {a.id, b.id, result.id});
  EXPECT_EQ(reader_of(chain, e), 1u);
  EXPECT_EQ(reader_of(chain, product), kNoReader);
}

TEST_F(Computed, NorOneWhoseReaderChangesTheSource) {
  scan(b, a, product);
  EXPECT_EQ(reader_of(whole_chain(k, {a.id, b.id}), product), kNoReader);
}

TEST_F(Computed, NorOneThatIsReadInPart) {
  k.emit(Opcode::kTensorTensor,
         {k.op(result, 0, {{kColumns, kRows}, {1, 8}}), k.op(product, 0, {{kColumns, kRows}, {1, 8}}),
          k.op(a, 0, {{kColumns, kRows}, {1, 8}})},
         {word(AluOp::kAdd)});
  EXPECT_EQ(reader_of(whole_chain(k, {a.id, b.id, result.id}), product), kNoReader);
}

TEST(Chain, RoundsStochasticallyAsProgramOrder) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const RandomChain random(seed, 60, seed % 2 == 0 ? Habit::kMixed : Habit::kReadsOnce);
    EXPECT_TRUE(outcome_of(random, 2, 11).outputs == outcome_of(random, 0, 11).outputs) << "seed " << seed;
  }
}

TEST(Chain, MeetsTheFaultOfProgramOrder) {
  int faults = 0;
  for (uint64_t seed = 200; seed < 260; ++seed) {
    const RandomChain random(seed, 40, Habit::kMayFault);
    const Outcome expected = outcome_of(random, 0);
    faults += expected.fault.empty() ? 0 : 1;
    EXPECT_EQ(outcome_of(random, 2).fault, expected.fault) << "seed " << seed;
  }
  EXPECT_GT(faults, 10) << "the programs are too tame to test anything";
}

}  // namespace
}  // namespace opentrn::sim::chain_tests
