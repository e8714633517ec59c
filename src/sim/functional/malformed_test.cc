// Malformed programs: whatever the operands and attributes are, an instruction ends with a Fault or does its
// work inside its tensors. Run under the address sanitizer this is the memory-safety test of every body.
#include <map>

#include "base/random.h"
#include "isa/definitions.h"
#include "sim/functional/test_kernel.h"

namespace opentrn::sim::malformed_tests {
namespace {

using isa::Indirect;
using isa::IndirectKind;
using isa::MemorySpace;
using isa::Opcode;
using isa::Operand;

class Fuzzer {
 public:
  explicit Fuzzer(uint64_t seed)
      : random_(seed), k_(static_cast<Generation>(2 + seed % 3), nullptr, checks(seed)) {
    for (int i = 0; i < 10; ++i) {
      const auto space = static_cast<MemorySpace>(random_.below(isa::kMemorySpaceCount));
      const int64_t rows = std::array{1, 2, 16, 32, 128}[random_.below(5)];
      tiles_.push_back(k_.tile(space, rows, 1 + random_.below(40), some_dtype()));
      fill(tiles_.back());
    }
    for (int i = 0; i < 3; ++i) k_.program.add_register();
  }

  // Label of the Fault, or "" when the instruction went through.
  std::string step(Opcode opcode) {
    const isa::InstructionDefinition& def = isa::definition(opcode);
    // Every other instruction works on whole tiles of one shape, so that it gets past the shape checks.
    plain_ = random_.below(2) == 0;
    favourite_ = tiles_[random_.below(static_cast<uint32_t>(tiles_.size()))];
    std::vector<Operand> operands;
    for (const isa::OperandSlot& slot : def.operands) operands.push_back(operand_for(slot));
    std::vector<isa::AttributeWord> words;
    for (const isa::AttributeSlot& slot : def.attributes) words.push_back(attribute_for(slot));
    if (!words.empty() && random_.below(50) == 0) words.pop_back();
    if (random_.below(50) == 0) operands.pop_back();
    const auto engine = static_cast<isa::Engine>(random_.below(isa::kEngineCount));
    const auto index = k_.program.append(opcode, engine, operands, words, 0);
    try {
      k_.core.run(k_.program, index, index + 1);
    } catch (const Fault& fault) {
      return fault.label();
    }
    return "";
  }

 private:
  static CheckOptions checks(uint64_t seed) {
    CheckOptions options;
    options.nan_origin = seed % 5 == 0;
    options.uninitialised_reads = seed % 2 == 0;
    return options;
  }

  DType some_dtype() {
    // Mostly those that go together, so that many instructions get far.
    const DType common[] = {DType::kFloat32, DType::kFloat32, DType::kBFloat16,
                            DType::kInt32,   DType::kUint8,   DType::kUint16};
    return random_.below(3) == 0 ? static_cast<DType>(random_.below(kDTypeCount)) : common[random_.below(6)];
  }

  void fill(const Tile& tile) {
    const auto buffer = k_.core.buffer(k_.program, tile.id);
    for (int64_t i = 0; i < buffer->bytes(); ++i)
      buffer->data()[i] = static_cast<std::byte>(random_.below(4));
    if (random_.below(4) != 0) buffer->mark_all_initialised();
  }

  Operand access() {
    const Tile tile = plain_ ? favourite_ : tiles_[random_.below(static_cast<uint32_t>(tiles_.size()))];
    Operand op = k_.op(tile);
    if (plain_) return op;
    if (random_.below(3) == 0) {
      isa::Pattern pattern;
      pattern.rank = static_cast<uint8_t>(random_.below(random_.below(20) == 0 ? 12 : 5));
      for (int d = 0; d < std::min<int>(pattern.rank, isa::kMaxRank); ++d) {
        const int64_t steps[] = {0, 1, 2, tile.columns, -1, -tile.columns, int64_t{1} << 61, 3};
        const int64_t counts[] = {1, 2, 3, 8, 16, 0, -5, 200, int64_t{1} << 33};
        pattern.dims[d] = {steps[random_.below(random_.below(10) == 0 ? 8 : 4)],
                           counts[random_.below(random_.below(10) == 0 ? 9 : 5)]};
      }
      op.pattern = pattern.rank > isa::kMaxRank ? 0 : k_.program.intern_pattern(pattern);
      op.offset = static_cast<int64_t>(random_.below(9)) - 1;
    }
    if (random_.below(12) == 0) op.dtype = some_dtype();
    if (random_.below(12) == 0) {
      Indirect how;
      how.kind = static_cast<IndirectKind>(random_.below(3));
      how.dim = static_cast<uint8_t>(random_.below(4));
      how.index = random_.below(3) == 0 ? Operand::reg(random_.below(4)) : k_.op(tiles_[random_.below(10)]);
      how.stride = static_cast<int64_t>(random_.below(20)) - 3;
      how.bound = random_.below(30);
      how.num_elem = random_.below(3);
      op.indirect = k_.program.add_indirect(how);
    }
    if (random_.below(60) == 0) op.tensor = random_.below(20);
    if (random_.below(60) == 0) op.pattern = random_.below(200);
    return op;
  }

  Operand operand_for(const isa::OperandSlot& slot) {
    std::vector<Operand> choices;
    if ((slot.accepts & isa::kAcceptsAccess) != 0 || random_.below(30) == 0) choices.push_back(access());
    if ((slot.accepts & isa::kAcceptsImmediate) != 0)
      choices.push_back(Operand::imm(static_cast<double>(random_.below(5)) - 1));
    if ((slot.accepts & isa::kAcceptsRegister) != 0) choices.push_back(Operand::reg(random_.below(4)));
    if ((slot.accepts & isa::kAcceptsNone) != 0) choices.push_back(Operand::none());
    return choices.empty() ? Operand::none() : choices[random_.below(static_cast<uint32_t>(choices.size()))];
  }

  isa::AttributeWord attribute_for(const isa::AttributeSlot& slot) {
    using K = isa::AttributeKind;
    if (random_.below(40) == 0) return word(static_cast<int64_t>(random_.next()));
    switch (slot.kind) {
      case K::kBool: return word(int64_t{random_.below(2)});
      case K::kReal: return word_real(static_cast<double>(random_.below(9)));
      case K::kAluOp: return word(int64_t{random_.below(kAluOpCount)});
      case K::kOptionalAluOp: return word(int64_t{random_.below(kAluOpCount + 1)} - 1);
      case K::kActivation: return word(int64_t{random_.below(kActivationFunctionCount)});
      case K::kReduceCmd: return word(int64_t{random_.below(5)});
      case K::kIntList: {
        std::vector<int64_t> values(random_.below(3) == 0 ? 32 : random_.below(8));
        for (int64_t& v : values) v = static_cast<int64_t>(random_.below(20)) - 1;
        return word(int64_t{k_.program.intern_list(values)});
      }
      default: return word(static_cast<int64_t>(random_.below(8)) - 1);
    }
  }

  SplitMix64 random_;
  TestKernel k_;
  std::vector<Tile> tiles_;
  Tile favourite_;
  bool plain_ = false;
};

TEST(Malformed, EveryInstructionFaultsOrWorks) {
  std::map<std::string, int> went_through;
  std::map<std::string, int> labels;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Fuzzer fuzzer(seed);
    for (int round = 0; round < 12; ++round)
      for (const isa::InstructionDefinition& def : isa::definitions()) {
        const std::string label = fuzzer.step(def.opcode);
        if (label.empty())
          ++went_through[std::string(def.name)];
        else
          ++labels[label];
      }
  }
  // The test must reach bodies, not only the checks in front of them.
  for (const char* name : {"dma_copy", "tensor_copy", "memset", "tensor_tensor", "activation", "reciprocal"})
    EXPECT_GT(went_through[name], 5) << name;
  EXPECT_GT(labels.size(), 60u);
  EXPECT_EQ(labels.count(""), 0u) << "a Fault without a label";
}

}  // namespace
}  // namespace opentrn::sim::malformed_tests
