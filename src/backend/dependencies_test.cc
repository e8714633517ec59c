#include "backend/dependencies.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bitset>
#include <numeric>

#include "backend/access.h"
#include "backend/allocation.h"
#include "backend/sample_programs.h"
#include "backend/start_order.h"
#include "base/random.h"

namespace opentrn::backend {
namespace {

using isa::InstructionIndex;
using isa::Operand;

constexpr size_t kInstructions = 160;
constexpr int64_t kColumns = 2560;

// Tiles of all heights and of many cells, of which instructions touch rows and columns, every other column,
// and places that a register moves; the same few columns again and again where they `repeat`.
class Tiles {
 public:
  explicit Tiles(uint64_t seed, bool repeat = false) : random_(seed), repeat_(repeat) {
    dram_ = b_.hbm({256, kColumns}, DType::kFloat32, "dram", true);
    counter_ = b_.program().add_register();
    for (int i = 0; i < 5; ++i) tiles_.push_back(fresh());
    for (int i = 0; i < 3; ++i) banks_.push_back(b_.psum(128, 512));
  }
  std::shared_ptr<const isa::Program> take() {
    while (b_.program().size() < kInstructions) append();
    return b_.take();
  }

 private:
  int64_t pick(uint32_t n) { return static_cast<int64_t>(random_.below(n)); }
  bool rarely() { return random_.below(4) == 0; }
  isa::TensorId fresh() {
    constexpr int64_t kRows[] = {32, 64, 128}, kWidths[] = {40, 64, 512, kColumns};
    return b_.sbuf(kRows[pick(3)], kWidths[pick(4)], DType::kFloat32);
  }
  Operand cut(isa::TensorId id, int64_t rows, int64_t columns) {
    const isa::Tensor& tensor = b_.program().tensor(id);
    const int64_t height = tensor.shape[0], width = tensor.shape[1];
    columns = std::min(columns, width);
    const int64_t row = isa::kQuadrant * pick(static_cast<uint32_t>((height - rows) / isa::kQuadrant + 1));
    const int64_t step = repeat_ ? 96 : 1;
    const int64_t column = step * pick(static_cast<uint32_t>((width - columns) / step + 1));
    Operand operand = b_.part(id, row, rows, repeat_ ? std::min(column, 2 * step) : column, columns);
    if (isa::is_on_chip(tensor.space) && rarely()) {
      isa::Pattern pattern = b_.program().pattern(operand);
      pattern.dims[1] = {2, std::max<int64_t>(1, columns / 2)};
      operand.pattern = b_.program().intern_pattern(pattern);
    }
    return operand;
  }
  Operand moved(Operand operand) {
    if (!rarely()) return operand;
    isa::Indirect indirect;
    indirect.index = Operand::reg(counter_);
    indirect.stride = kColumns;
    indirect.bound = random_.below(2) == 0 ? 8 : 0;
    operand.offset = kColumns * pick(32);
    operand.indirect = b_.program().add_indirect(indirect);
    return operand;
  }
  void append() {
    if (rarely()) tiles_[static_cast<size_t>(pick(5))] = fresh();
    if (rarely()) banks_[static_cast<size_t>(pick(3))] = b_.psum(128, 512);
    const int64_t columns = rarely() ? 512 : repeat_ ? 96 : 1 + pick(96);
    const auto tile = [&] { return cut(tiles_[static_cast<size_t>(pick(5))], 32, columns); };
    const auto bank = [&] { return cut(banks_[static_cast<size_t>(pick(3))], 32, columns); };
    switch (pick(7)) {
      case 0: b_.dma(tile(), moved(cut(dram_, 32, columns))); break;
      case 1: b_.dma(moved(cut(dram_, 32, columns)), tile()); break;
      case 2: b_.matmul(bank(), tile(), tile(), rarely()); break;
      case 3: b_.tensor_tensor(tile(), tile(), bank(), AluOp::kAdd, isa::Engine::kVector); break;
      case 4: b_.activation(tile(), tile(), ActivationFunction::kExp); break;
      case 5: b_.memset(tile(), isa::Engine::kGpSimd); break;
      default: b_.tensor_scalar(tile(), tile(), 3, AluOp::kAdd, isa::Engine::kVector); break;
    }
  }

  SplitMix64 random_;
  bool repeat_;
  ProgramBuilder b_;
  isa::TensorId dram_ = 0;
  isa::RegisterId counter_ = 0;
  std::vector<isa::TensorId> tiles_, banks_;
};

// What an instruction touches, where it lies.
struct Touched {
  isa::MemorySpace space;
  isa::TensorId tensor;  // of HBM: each is a memory of its own
  bool reads, writes;
  Footprint footprint;
};

class Obvious {
 public:
  Obvious(const isa::Program& program, const std::vector<isa::Placement>& placements) : reader_(program) {
    for (const isa::Instruction& in : program.instructions()) {
      reader_.read(in);
      auto& touched = touched_.emplace_back();
      for (const Access& access : reader_.accesses()) {
        const isa::MemorySpace space = program.tensor(access.tensor).space;
        const bool on_chip = isa::is_on_chip(space);
        Footprint f = access.footprint;
        f.unmoved_end = 0;  // where a register moves it, it may touch all that it can reach
        const isa::Address at = on_chip ? placements[access.tensor].address : isa::Address{};
        f.row_begin += at.partition, f.row_end += at.partition;
        f.byte_begin += at.byte_offset, f.byte_end += at.byte_offset;
        touched.push_back({space, on_chip ? 0 : access.tensor, access.reads, access.writes, f});
      }
    }
  }
  bool conflict(InstructionIndex earlier, InstructionIndex later) const {
    for (const Touched& a : touched_[earlier])
      for (const Touched& b : touched_[later])
        if (a.space == b.space && a.tensor == b.tensor && (a.writes || b.writes) &&
            may_overlap(a.footprint, b.footprint))
          return true;
    return false;
  }

 private:
  AccessReader reader_;
  std::vector<std::vector<Touched>> touched_;
};

// Of every instruction, those that are before it by whatever way.
using Before = std::vector<std::bitset<kInstructions>>;

TEST(Dependencies, PropertyTheyOrderWhatConflictsAndListNothingElse) {
  size_t conflicts = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    for (const int way : {0, 1, 2, 3}) {
      const bool in_order = way % 2 == 0;
      const auto program = Tiles(seed, way >= 2).take();
      const Options options{.generation = Generation::kV3, .moves_rows = true};
      const arch::Tables& tables = tables_of(nullptr);
      const arch::NeuronCore& core = tables.neuron_core(options.generation);
      const isa::Kinds kinds(*program);
      const auto choices = choose_engines(*program, kinds, options, tables);
      const auto allocation =
          allocate(*program, find_lifetimes(*program, find_loops(*program)), options, core);
      const Dependencies found =
          find_dependencies(*program, kinds, choices, allocation->placements, core, in_order);
      const Obvious obvious(*program, allocation->placements);
      Before before(kInstructions), wanted(kInstructions);
      for (InstructionIndex i = 0; i < program->size(); ++i) {
        const auto come_after = [i](Before& of, InstructionIndex j) { of[i] |= of[j], of[i].set(j); };
        const uint8_t stream = stream_of(choices[i]);
        for (InstructionIndex j = 0; j < i; ++j) {
          const bool is_behind = in_order && !is_dma_stream(stream) && stream_of(choices[j]) == stream;
          if (is_behind) come_after(before, j), come_after(wanted, j);
          if (obvious.conflict(j, i)) come_after(wanted, j), ++conflicts;
        }
        for (const Dependency& dependency : found.of(i)) {
          ASSERT_TRUE(obvious.conflict(dependency.producer, i)) << "seed " << seed << " instruction " << i;
          come_after(before, dependency.producer);
        }
        // What one register moves twice by the same number may be known to lie apart.
        ASSERT_EQ((before[i] & ~wanted[i]).count(), 0u) << "seed " << seed << " instruction " << i;
        for (InstructionIndex j = 0; j < i; ++j) {
          if (wanted[i].test(j) && !before[i].test(j) && obvious.conflict(j, i)) {
            ASSERT_TRUE(program->operand(program->instruction(i), 0).indirect != 0 ||
                        program->operand(program->instruction(i), 1).indirect != 0)
                << "seed " << seed << " instruction " << i << " after " << j;
          }
        }
      }
    }
  }
  EXPECT_GT(conflicts, 100'000u);
}

TEST(StartOrder, PropertyMergedQueuesAreSorted) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SplitMix64 random(seed);
    LargeVector<double> start;
    std::vector<EngineChoice> choices;
    std::array<double, isa::kEngineCount> last{};
    for (int i = 0; i < 100; ++i) {
      EngineChoice choice;
      choice.engine = static_cast<isa::Engine>(1 + random.below(isa::kEngineCount - 1));
      double& at = last[static_cast<size_t>(choice.engine)];
      at = choice.engine == isa::Engine::kDma ? random.below(30) : at + random.below(4);
      start.push_back(at);
      choices.push_back(choice);
    }
    std::vector<InstructionIndex> sorted(start.size());
    std::iota(sorted.begin(), sorted.end(), 0u);
    std::ranges::stable_sort(sorted, {}, [&](InstructionIndex i) { return start[i]; });
    ASSERT_EQ(by_start(start, choices), sorted) << "seed " << seed;
  }
}

}  // namespace
}  // namespace opentrn::backend
