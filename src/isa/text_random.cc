#include "isa/text_random.h"

#include <array>
#include <limits>
#include <memory>
#include <string>

#include "isa/definitions.h"

namespace opentrn::isa {

namespace {

class Generator {
 public:
  explicit Generator(SplitMix64& random) : random_(random) {}

  Program program(int instructions) {
    program_.name = text();
    for (uint32_t i = 1 + random_.below(4); i > 0; --i) program_.add_register();
    for (uint32_t i = 1 + random_.below(6); i > 0; --i) add_tensor();
    for (int i = 0; i < instructions; ++i) {
      if (chance(4)) move_to_iteration();
      add_instruction();
    }
    while (!open_.empty()) end_loop();
    for (uint32_t i = random_.below(3); i > 0 && program_.size() > 0; --i)
      program_.add_edge({any_instruction(), any_instruction()});
    return std::move(program_);
  }

 private:
  bool chance(uint32_t one_in) { return random_.below(one_in) == 0; }
  InstructionIndex any_instruction() { return random_.below(static_cast<uint32_t>(program_.size())); }

  void move_to_iteration() {
    if (chance(3) || program_.written_loop_count() == 0) {
      const IterationId outer = random_.below(static_cast<uint32_t>(program_.iteration_count()));
      program_.set_iteration(program_.begin_written_loop({outer, chance(2)}));
    } else if (chance(4)) {
      program_.set_iteration(kNoIteration);
    } else {
      const WrittenLoopId loop = random_.below(static_cast<uint32_t>(program_.written_loop_count()));
      program_.set_iteration(program_.next_iteration(loop));
    }
  }

  std::string text() {
    constexpr std::array<std::string_view, 7> kTexts = {
        "", "kernel", "a b", "\"quoted\\\"", "tab\there", "new\nline #", "\xC3\xA9/x-1.py"};
    return std::string(kTexts[random_.below(kTexts.size())]);
  }
  int64_t integer() {
    constexpr std::array<int64_t, 8> kIntegers = {
        0, 1, -1, 2, 127, -4096, std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()};
    return kIntegers[random_.below(kIntegers.size())];
  }
  double real() {
    constexpr double kInfinity = std::numeric_limits<double>::infinity(),
                     kNan = std::numeric_limits<double>::quiet_NaN();
    constexpr std::array<double, 10> kReals = {0.0,    -0.0,      1.0,        0.1,  -3.4028235e38,
                                               5e-324, kInfinity, -kInfinity, kNan, 1e300};
    return chance(3) ? random_.uniform() : kReals[random_.below(kReals.size())];
  }
  LocationId location() {
    return chance(3) ? 0 : program_.intern_location(text(), static_cast<int>(random_.below(1000)), text());
  }

  void add_tensor() {
    Tensor tensor;
    tensor.space = static_cast<MemorySpace>(random_.below(kMemorySpaceCount));
    tensor.dtype = static_cast<DType>(random_.below(kDTypeCount));
    for (uint32_t rank = 2 + random_.below(3); rank > 0; --rank) tensor.shape.push_back(1 + random_.below(9));
    tensor.row_elements = 1;
    for (int64_t size : tensor.shape) tensor.row_elements *= size;
    if (is_on_chip(tensor.space)) {
      tensor.rows = tensor.shape[0];
      tensor.row_elements /= tensor.rows;
    }
    if (chance(4)) tensor.shape = {tensor.rows * tensor.row_elements};
    if (chance(8)) tensor.shape.clear();
    tensor.name = text();
    if (chance(3)) tensor.address = Address{static_cast<int32_t>(random_.below(128)), random_.below(1 << 20)};
    tensor.location = location();
    tensor.is_input = chance(4);
    tensor.is_output = chance(4);
    tensor.filled = chance(4);
    program_.add_tensor(tensor);
  }

  // Within the tensor: dimensions are taken from what is left of its elements.
  Operand access(bool may_be_indirect) {
    Operand operand;
    operand.kind = OperandKind::kAccess;
    operand.tensor = random_.below(static_cast<uint32_t>(program_.tensor_count()));
    const Tensor& tensor = program_.tensor(operand.tensor);
    operand.dtype = chance(4) ? DType::kUint8 : tensor.dtype;
    const int64_t elements = tensor.bytes() / size_bytes(operand.dtype);
    Pattern pattern;
    int64_t left = elements - 1;
    for (uint32_t rank = random_.below(5); rank > 0; --rank) {
      Dim& dim = pattern.dims[pattern.rank++];
      dim.step = random_.below(5);
      dim.count = 1 + random_.below(4);
      while (dim.count > 1 && dim.step * (dim.count - 1) > left) --dim.count;
      left -= dim.step * (dim.count - 1);
    }
    operand.offset = random_.below(static_cast<uint32_t>(left) + 1);
    if (chance(3) && !tensor.shape.empty() && operand.dtype == tensor.dtype) {
      operand.offset = 0;
      pattern = {};
      pattern.rank = static_cast<uint8_t>(tensor.shape.size());
      int64_t step = 1;
      for (size_t i = tensor.shape.size(); i-- > 0; step *= tensor.shape[i])
        pattern.dims[i] = {step, tensor.shape[i]};
    }
    operand.pattern = program_.intern_pattern(pattern);
    if (!may_be_indirect || !chance(6)) return operand;
    Indirect indirect;
    indirect.kind = static_cast<IndirectKind>(random_.below(3));
    indirect.dim = static_cast<uint8_t>(random_.below(pattern.rank + (pattern.rank == 0)));
    indirect.index = chance(2) ? access(false) : reg();
    indirect.stride = static_cast<int64_t>(random_.below(100)) - 50;
    indirect.bound = random_.below(100);
    indirect.num_elem = random_.below(10);
    operand.indirect = program_.add_indirect(indirect);
    return operand;
  }
  Operand reg() { return Operand::reg(random_.below(program_.register_count())); }

  Operand operand(const OperandSlot& slot) {
    while (true) switch (random_.below(4)) {
        case 0:
          if (slot.accepts & kAcceptsAccess) return access(true);
          break;
        case 1:
          if (slot.accepts & kAcceptsImmediate) return Operand::imm(real());
          break;
        case 2:
          if (slot.accepts & kAcceptsRegister) return reg();
          break;
        default:
          if (slot.accepts & kAcceptsNone) return Operand::none();
      }
  }

  AttributeWord attribute(const AttributeSlot& slot) {
    switch (slot.kind) {
      case AttributeKind::kInt:
        return {.integer =
                    slot.name == "accumulate" ? static_cast<int64_t>(random_.below(5)) - 2 : integer()};
      case AttributeKind::kBool: return {.integer = random_.below(2)};
      case AttributeKind::kReal: return {.real = real()};
      case AttributeKind::kAluOp: return {.integer = random_.below(kAluOpCount)};
      case AttributeKind::kOptionalAluOp:
        return {.integer = static_cast<int64_t>(random_.below(kAluOpCount + 1)) - 1};
      case AttributeKind::kActivation: return {.integer = random_.below(kActivationFunctionCount)};
      case AttributeKind::kIntList: {
        std::vector<int64_t> list(random_.below(6));
        for (int64_t& value : list) value = integer();
        return {.integer = program_.intern_list(list)};
      }
      case AttributeKind::kReduceCmd: return {.integer = random_.below(5)};
      case AttributeKind::kDgeMode: return {.integer = random_.below(4)};
      case AttributeKind::kOobMode:
      case AttributeKind::kMxScaleRule:
      case AttributeKind::kPerfMode: return {.integer = random_.below(2)};
      case AttributeKind::kDmaEngine: return {.integer = random_.below(3)};
      case AttributeKind::kString: return {.integer = program_.intern_string(text())};
    }
    return {.integer = 0};
  }

  void append(Opcode opcode, std::vector<AttributeWord> attributes) {
    const InstructionDefinition& row = definition(opcode);
    std::vector<Operand> operands;
    for (const OperandSlot& slot : row.operands)
      for (uint32_t n = slot.accepts & kRepeats ? 1 + random_.below(4) : 1; n > 0; --n)
        operands.push_back(operand(slot));
    const auto engine = static_cast<Engine>(random_.below(kEngineCount));
    program_.append(opcode, engine, operands, attributes, location(), program_.intern_string(text()),
                    chance(8) ? static_cast<uint8_t>(random_.below(kFlagsAll + 1)) : uint8_t{0});
  }

  void add_instruction() {
    const auto opcode = static_cast<Opcode>(random_.below(kOpcodeCount));
    if (opcode == Opcode::kLoopEnd || opcode == Opcode::kWhileEnd) {
      if (!open_.empty()) end_loop();
      return;
    }
    const bool begins = opcode == Opcode::kLoopBegin || opcode == Opcode::kWhileBegin;
    std::vector<AttributeWord> attributes;
    for (const AttributeSlot& slot : definition(opcode).attributes) attributes.push_back(attribute(slot));
    if (begins) open_.push_back(static_cast<InstructionIndex>(program_.size()));
    append(opcode, attributes);
  }
  void end_loop() {
    const InstructionIndex begin = open_.back();
    open_.pop_back();
    const bool counted = program_.instruction(begin).opcode == Opcode::kLoopBegin;
    const int slot = counted ? int{slot::loop::kAMatch} : int{slot::while_loop::kAMatch};
    program_.set_attribute(begin, slot, {.integer = static_cast<int64_t>(program_.size())});
    if (counted)
      append(Opcode::kLoopEnd, {{.integer = 1}, {.integer = begin}});
    else
      append(Opcode::kWhileEnd, {{.integer = begin}});
  }

  SplitMix64& random_;
  Program program_;
  std::vector<InstructionIndex> open_;
};

}  // namespace

Program random_program(SplitMix64& random, int instructions) {
  return Generator(random).program(instructions);
}

Executable random_executable(SplitMix64& random, int instructions) {
  Executable executable;
  executable.program = std::make_shared<const Program>(random_program(random, instructions));
  executable.generation = static_cast<Generation>(2 + random.below(3));
  for (uint32_t i = 1 + random.below(5); i > 0; --i)
    executable.streams.push_back(
        {static_cast<Engine>(random.below(kEngineCount)), static_cast<uint16_t>(random.below(16))});
  executable.semaphore_count = random.below(100);
  executable.hbm_bytes_used = random.below(1 << 30);
  executable.placements.resize(executable.program->tensor_count());
  for (Placement& place : executable.placements)
    if (random.below(4) != 0)
      place = {true, {static_cast<int32_t>(random.below(128)), random.below(1 << 18)}};
  const auto n = static_cast<uint32_t>(executable.program->size());
  std::vector<uint32_t> order(n);
  for (uint32_t i = 0; i < n; ++i) order[i] = i;
  for (uint32_t i = n; i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  for (uint32_t i = 0; i < n; ++i) {
    ScheduledInstruction entry;
    entry.instruction = order[i];
    entry.stream = static_cast<StreamId>(random.below(static_cast<uint32_t>(executable.streams.size())));
    entry.engine = static_cast<Engine>(random.below(kEngineCount));
    entry.trigger = static_cast<Engine>(random.below(kEngineCount));
    entry.dge = static_cast<DgeMode>(random.below(4));
    entry.waits = static_cast<uint32_t>(executable.waits.size());
    for (uint32_t k = i > 0 ? random.below(3) : 0; k > 0; --k, ++entry.wait_count)
      executable.waits.push_back(random.below(i));
    executable.schedule.push_back(entry);
  }
  return executable;
}

}  // namespace opentrn::isa
