// Instructions run at the same time give the values, and the first Fault, of program order.
#include "sim/functional/basic_block.h"

#include <cstring>
#include <optional>

#include "base/random.h"
#include "sim/functional/run_memory.h"
#include "sim/functional/test_kernel.h"

namespace opentrn::sim::basic_block_tests {
namespace {

using isa::MemorySpace;
using isa::Opcode;
using isa::Operand;

constexpr int64_t kRows = 32, kColumns = 48;

// A random program over a few tiles. Some start without values, so that some programs read what nothing has
// written.
class RandomProgram {
 public:
  RandomProgram(uint64_t seed, int instructions, bool may_fault) : random_(seed) {
    for (int i = 0; i < 4; ++i) sbuf_.push_back(kernel_.sbuf(kRows, kColumns));
    for (int i = 0; i < 3; ++i) psum_.push_back(kernel_.psum(kRows, kColumns));
    for (int i = 0; i < 2; ++i) hbm_.push_back(kernel_.hbm(kRows, kColumns));
    for (int i = 0; i < 6; ++i) columns_.push_back(kernel_.sbuf(kRows, 1));
    index_ = kernel_.sbuf(1, 1, DType::kInt32);
    for (const Tile& column : columns_) emit(Opcode::kMemset, {kernel_.op(column), Operand::imm(0.5)});
    emit(Opcode::kMemset, {kernel_.op(index_), Operand::imm(3)});
    for (const auto* tiles : {&sbuf_, &psum_, &hbm_})
      for (const Tile& tile : *tiles)
        if (tiles == &sbuf_ || !may_fault || random_.below(8) != 0) fill(tile);
    sum_rows(isa::ReduceCmd::kResetReduce);
    for (int i = 0; i < instructions; ++i) step();
  }

  const isa::Program& program() const { return kernel_.program; }

 private:
  const Tile& any(const std::vector<Tile>& tiles) { return tiles[random_.below(tiles.size())]; }
  const Tile& any_on_chip() { return random_.below(3) == 0 ? any(psum_) : any(sbuf_); }
  int64_t below(int64_t n) { return random_.below(static_cast<uint32_t>(n)); }

  struct Part {
    int64_t row, rows, column, columns;
  };
  Part any_part() {
    const int64_t rows = 1 + below(kRows), columns = 1 + below(kColumns);
    return {below(kRows - rows + 1), rows, below(kColumns - columns + 1), columns};
  }
  Operand part(const Tile& tile, const Part& p) {
    return kernel_.op(tile, p.row * kColumns + p.column, {{kColumns, p.rows}, {1, p.columns}});
  }
  // The same shape elsewhere.
  Part moved(Part p) {
    p.row = below(kRows - p.rows + 1);
    p.column = below(kColumns - p.columns + 1);
    return p;
  }
  void emit(Opcode opcode, std::initializer_list<Operand> operands,
            std::initializer_list<isa::AttributeWord> attributes = {}) {
    kernel_.emit(opcode, operands, attributes);
  }
  void fill(const Tile& tile) {
    const Operand value = Operand::imm(static_cast<double>(below(100)) / 16);
    if (isa::is_on_chip(kernel_.program.tensor(tile.id).space)) {
      emit(Opcode::kMemset, {kernel_.op(tile), value});
    } else {
      emit(Opcode::kDmaCopy, {kernel_.op(tile), kernel_.op(sbuf_[0])}, {word(0), word(0), word(0)});
    }
  }

  void step() {
    const Part p = any_part(), q = moved(p), r = moved(p);
    const auto zero = word(int64_t{0});
    switch (below(11)) {
      case 0:
        return emit(Opcode::kTensorTensor,
                    {part(any_on_chip(), p), part(any_on_chip(), q), part(any_on_chip(), r)},
                    {word(below(2) == 0 ? AluOp::kAdd : AluOp::kMaximum)});
      case 1:
        return emit(Opcode::kTensorScalar,
                    {part(any_on_chip(), p), part(any_on_chip(), q), Operand::imm(0.75), Operand::imm(0.125)},
                    {word(AluOp::kMultiply), zero, word(AluOp::kAdd), zero});
      case 2:
        return emit(Opcode::kActivation,
                    {part(any_on_chip(), p), part(any_on_chip(), q), Operand::none(), Operand::imm(0.25),
                     Operand::none()},
                    {word(ActivationFunction::kTanh), word(int64_t{-1}), word(isa::ReduceCmd::kIdle)});
      case 3: return sum_rows(below(3) == 0 ? isa::ReduceCmd::kReduce : isa::ReduceCmd::kResetReduce);
      case 4:
        return emit(
            Opcode::kTensorScalarReduce,
            {kernel_.op(any(sbuf_)), kernel_.op(any(sbuf_)), kernel_.op(any(columns_)),
             kernel_.op(any(columns_)), Operand::none()},
            {word(AluOp::kMultiply), zero, word(AluOp::kMaximum), word(isa::ReduceCmd::kResetReduce), zero});
      case 5: {
        const Part square{0, kRows, below(kColumns - kRows), kRows};
        return emit(Opcode::kNcMatmul,
                    {part(any(psum_), square), part(any(sbuf_), square), part(any(sbuf_), square)},
                    {word(int64_t{-1}), zero, zero, zero, zero, zero, zero, zero, zero});
      }
      case 6: return emit(Opcode::kDmaCopy, {part(any(hbm_), p), part(any(sbuf_), q)}, {zero, zero, zero});
      case 7: return emit(Opcode::kDmaCopy, {part(any(sbuf_), p), part(any(hbm_), q)}, {zero, zero, zero});
      case 8: return emit(Opcode::kDropout, {part(any(sbuf_), p), part(any(sbuf_), q), Operand::imm(0.5)});
      case 9: {
        isa::Indirect by;
        by.index = kernel_.op(index_);
        by.stride = kColumns;
        by.bound = 8;
        const Tile& from = any(hbm_);
        return emit(Opcode::kDmaCopy,
                    {part(any(sbuf_), {0, 4, 0, 8}), kernel_.indirect(part(from, {0, 4, 4, 8}), by)},
                    {zero, zero, zero});
      }
      default: return loop();
    }
  }

  // Through the accumulators of the Scalar Engine.
  void sum_rows(isa::ReduceCmd command) {
    const Part lanes{0, kRows, below(kColumns / 2), 8};
    emit(Opcode::kActivation,
         {part(any(sbuf_), lanes), part(any(sbuf_), lanes), Operand::none(), Operand::imm(1),
          kernel_.op(any(columns_))},
         {word(ActivationFunction::kCopy), word(AluOp::kAdd), word(command)});
  }

  void loop() {
    if (depth_ == 2) return;
    ++depth_;
    const isa::RegisterId counter = kernel_.program.add_register();
    const auto begin = kernel_.loop_begin(counter, Operand::imm(0), Operand::imm(2));
    for (int64_t n = below(6); n > 0; --n) step();
    kernel_.loop_end(counter, begin);
    --depth_;
  }

  TestKernel kernel_;
  SplitMix64 random_;
  std::vector<Tile> sbuf_, psum_, hbm_;
  std::vector<Tile> columns_;
  Tile index_;
  int depth_ = 0;
};

struct Outcome {
  std::string fault;
  std::vector<std::vector<std::byte>> tensors;  // only without a fault
  bool operator==(const Outcome&) const = default;
};

Outcome outcome_of(const isa::Program& program, int threads, bool highest_first = false) {
  std::optional<ThreadPool> pool;
  if (threads > 0) pool.emplace(threads);
  Core core(Generation::kV3, pool ? &*pool : nullptr);
  core.sharing() = {
      .work = 0, .work_per_instruction = 0, .side_by_side = 0, .highest_first = highest_first, .chains = {}};
  Outcome outcome;
  try {
    core.run(program, 0, static_cast<isa::InstructionIndex>(program.size()));
  } catch (const Fault& fault) {
    outcome.fault = fault.what();
    return outcome;
  }
  for (isa::TensorId id = 0; id < program.tensor_count(); ++id) {
    const auto buffer = core.buffer(id);
    if (buffer == nullptr) continue;
    // Memory that nothing has written has no value.
    std::vector<std::byte> bytes(static_cast<size_t>(buffer->bytes()));
    for (int64_t i = 0; i < buffer->bytes(); ++i)
      if (buffer->initialised().test_all(i, 1)) bytes[static_cast<size_t>(i)] = buffer->data()[i];
    outcome.tensors.push_back(std::move(bytes));
  }
  return outcome;
}

TEST(BasicBlock, ThreadsGiveTheBitsOfProgramOrder) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const RandomProgram random(seed, 150, false);
    const Outcome expected = outcome_of(random.program(), 0);
    EXPECT_EQ(expected.fault, "");
    for (int threads : {2, 4})
      for (bool highest_first : {false, true})
        EXPECT_TRUE(outcome_of(random.program(), threads, highest_first) == expected)
            << "seed " << seed << ", " << threads << " threads";
  }
}

TEST(BasicBlock, ThreadsMeetTheFaultOfProgramOrder) {
  int faults = 0;
  for (uint64_t seed = 100; seed < 160; ++seed) {
    const RandomProgram random(seed, 60, true);
    const Outcome expected = outcome_of(random.program(), 0);
    faults += expected.fault.empty() ? 0 : 1;
    for (bool highest_first : {false, true})
      EXPECT_EQ(outcome_of(random.program(), 2, highest_first).fault, expected.fault) << "seed " << seed;
  }
  EXPECT_GT(faults, 10) << "the programs are too tame to test anything";
}

// The results of a program whose tiles are released: what is in HBM.
std::vector<std::vector<std::byte>> outputs_of(const isa::Program& program, ThreadPool* pool,
                                               RunMemory* memory, const ChainLimits& chains,
                                               std::string* fault) {
  Core core(Generation::kV3, pool);
  core.sharing() = {
      .work = 0, .work_per_instruction = 0, .side_by_side = 0, .highest_first = false, .chains = chains};
  core.remember_in(memory);
  std::vector<std::shared_ptr<Buffer>> bound;
  for (isa::TensorId id = 0; id < program.tensor_count(); ++id) {
    if (!isa::is_hbm(program.tensor(id).space)) continue;
    bound.push_back(Buffer::allocate(program.tensor(id).bytes()));
    bound.back()->mark_all_initialised();
    for (int64_t at = 0; at + 4 <= bound.back()->bytes(); at += 4) {
      const float value = static_cast<float>((at / 4 * 37 + id) % 101) / 16;
      std::memcpy(bound.back()->data() + at, &value, sizeof value);
    }
    core.bind(id, bound.back());
  }
  try {
    core.run(program);
  } catch (const Fault& found) {
    *fault = found.what();
  }
  std::vector<std::vector<std::byte>> values;
  for (const auto& buffer : bound) values.emplace_back(buffer->data(), buffer->data() + buffer->bytes());
  return values;
}

TEST(BasicBlock, RunsThatRememberGiveTheBitsOfProgramOrder) {
  size_t remembered = 0;
  for (const bool small_chains : {false, true}) {
    const ChainLimits chains =
        small_chains ? ChainLimits{.work = 1, .work_per_instruction = 1, .immediate_work = 0} : ChainLimits{};
    for (uint64_t seed = 200; seed < 230; ++seed) {
      const bool may_fault = seed % 3 == 0;
      const RandomProgram random(seed, 150, may_fault);
      ThreadPool pool(2);
      RunMemory memory;
      std::string expected_fault;
      const auto expected = outputs_of(random.program(), nullptr, nullptr, chains, &expected_fault);
      for (int run = 0; run < 3; ++run) {
        std::string fault;
        const auto found = outputs_of(random.program(), &pool, &memory, chains, &fault);
        EXPECT_EQ(fault, expected_fault) << "seed " << seed << ", run " << run;
        EXPECT_TRUE(!fault.empty() || found == expected) << "seed " << seed << ", run " << run;
      }
      remembered += memory.plans();
    }
  }
  EXPECT_GT(remembered, 60u);
}

TEST(BasicBlock, APlanIsReadOnceAndForgottenUnderOtherConditions) {
  const RandomProgram random(7, 40, false);
  RunMemory memory;
  ThreadPool pool(2);
  std::string fault;
  outputs_of(random.program(), &pool, &memory, {}, &fault);
  const size_t plans = memory.plans();
  ASSERT_GT(plans, 0u);
  ASSERT_TRUE(memory.releases);
  const auto foldable = [](isa::TensorId, isa::InstructionIndex) { return true; };
  const BasicBlockPlan* const first = memory.find(0, foldable);
  ASSERT_NE(first, nullptr);
  outputs_of(random.program(), &pool, &memory, {}, &fault);
  EXPECT_EQ(memory.plans(), plans);
  EXPECT_EQ(memory.find(0, foldable), first);
  RunConditions others;
  others.program = &random.program();
  others.threads = 3;
  memory.begin(others);
  EXPECT_EQ(memory.plans(), 0u);
  EXPECT_FALSE(memory.releases);
}

TEST(BasicBlock, APlanWithAFoldedTileIsNoneWhereTheTileNeedsWholeMemory) {
  ThreadPool pool(2);
  TestKernel k(Generation::kV3, &pool);
  const Tile in = k.hbm(128, 2048), out = k.hbm(128, 2048);
  const Tile a = k.sbuf(128, 2048), b = k.sbuf(128, 2048), c = k.sbuf(128, 2048);
  const auto copy = [&](const Tile& to, const Tile& from) {
    k.emit(Opcode::kDmaCopy, {k.op(to), k.op(from)}, {word(int64_t{0}), word(int64_t{0}), word(int64_t{0})});
  };
  copy(a, in);
  k.emit(Opcode::kTensorTensor, {k.op(b), k.op(a), k.op(a)}, {word(AluOp::kAdd)});
  k.emit(Opcode::kTensorTensor, {k.op(c), k.op(b), k.op(a)}, {word(AluOp::kMultiply)});
  k.emit(Opcode::kTensorTensor, {k.op(c), k.op(c), k.op(b)}, {word(AluOp::kAdd)});
  copy(out, c);
  RunMemory memory;
  std::string fault, none;
  const auto expected = outputs_of(k.program, nullptr, nullptr, {}, &none);
  EXPECT_TRUE(outputs_of(k.program, &pool, &memory, {}, &fault) == expected);
  const BasicBlockPlan* plan = memory.find(0, [](isa::TensorId, isa::InstructionIndex) { return true; });
  ASSERT_NE(plan, nullptr);
  ASSERT_TRUE(plan->has_chains());
  ASSERT_FALSE(plan->chains()[0].folded.empty());
  EXPECT_EQ(memory.find(0, [](isa::TensorId, isa::InstructionIndex) { return false; }), nullptr);
  EXPECT_TRUE(outputs_of(k.program, &pool, &memory, {}, &fault) == expected);
  EXPECT_EQ(fault, "");
}

// `lanes` chains of `steps` instructions, each of which needs the one before.
bool is_shared(int lanes, int steps, int64_t columns) {
  TestKernel k(Generation::kV3, nullptr);
  for (int lane = 0; lane < lanes; ++lane) {
    const Tile value = k.sbuf(128, columns);
    k.emit(Opcode::kMemset, {k.op(value), Operand::imm(1)});
    for (int step = 0; step < steps; ++step)
      k.emit(Opcode::kTensorTensor, {k.op(value), k.op(value), k.op(value)}, {word(AluOp::kMultiply)});
  }
  BasicBlock block({});
  block.read(k.program, 0, static_cast<isa::InstructionIndex>(k.program.size()), nullptr);
  return block.plan().worth_sharing({});
}

TEST(BasicBlock, InstructionsThatFollowEachOtherAreNotShared) {
  EXPECT_FALSE(is_shared(1, 40, 512));
  EXPECT_TRUE(is_shared(4, 10, 512));
  EXPECT_FALSE(is_shared(4, 10, 4));    // too little to do
  EXPECT_TRUE(is_shared(1, 40, 4096));  // threads share the loop of each
}

TEST(BasicBlock, BoundViewsOfOneArrayKeepTheirOrder) {
  ThreadPool pool(4);
  for (int round = 0; round < 30; ++round) {
    TestKernel k(Generation::kV3, &pool);
    k.core.sharing() = {
        .work = 0, .work_per_instruction = 0, .side_by_side = 0, .highest_first = true, .chains = {}};
    const Tile a = k.hbm(64, 512), b = k.hbm(64, 512);
    std::vector<float> array(64 * 512 + 64, 1.0f);
    k.core.bind(a.id, Buffer::wrap(array.data(), 64 * 512 * 4));
    k.core.bind(b.id, Buffer::wrap(array.data() + 64, 64 * 512 * 4));
    std::vector<Tile> loaded;
    for (int i = 0; i < 8; ++i) {
      const Tile value = k.sbuf(64, 512);
      k.emit(Opcode::kMemset, {k.op(value), Operand::imm(i)});
      k.emit(Opcode::kDmaCopy, {k.op(a), k.op(value)},
             {word(int64_t{0}), word(int64_t{0}), word(int64_t{0})});
      loaded.push_back(k.sbuf(64, 512));
      k.emit(Opcode::kDmaCopy, {k.op(loaded.back()), k.op(b)},
             {word(int64_t{0}), word(int64_t{0}), word(int64_t{0})});
    }
    k.core.run(k.program, 0, static_cast<isa::InstructionIndex>(k.program.size()));
    for (int i = 0; i < 8; ++i) EXPECT_EQ(k.get(loaded[static_cast<size_t>(i)])[0], static_cast<float>(i));
  }
}

TEST(BasicBlock, ReleasedTensorsGoOnceTheirLastUseIsOver) {
  ThreadPool pool(2);
  TestKernel k(Generation::kV3, &pool);
  k.core.sharing() = {
      .work = 0, .work_per_instruction = 0, .side_by_side = 0, .highest_first = false, .chains = {}};
  std::vector<Core::Release> releases;
  const Tile sum = k.sbuf(128, 256);
  k.emit(Opcode::kMemset, {k.op(sum), Operand::imm(0)});
  for (int i = 0; i < 200; ++i) {
    const Tile value = k.sbuf(128, 256);
    k.emit(Opcode::kMemset, {k.op(value), Operand::imm(1)});
    const auto last = k.emit(Opcode::kTensorTensor, {k.op(sum), k.op(sum), k.op(value)}, {word(AluOp::kAdd)});
    releases.emplace_back(last, value.id);
  }
  k.core.run(k.program, 0, static_cast<isa::InstructionIndex>(k.program.size()), releases);
  EXPECT_EQ(k.get(sum)[77], 200.0f);
  EXPECT_EQ(k.core.tensor_bytes_in_use(), 128 * 256 * 4);
  // The window of a TaskGraph bounds what is alive at a time.
  EXPECT_LE(k.core.tensor_bytes_peak(), 70 * 128 * 256 * 4);
}

}  // namespace
}  // namespace opentrn::sim::basic_block_tests
