#include "isa/constraints_draft.h"

#include <limits>

namespace opentrn::isa {

namespace {

constexpr MemorySpace kSbuf = MemorySpace::kSbuf, kPsum = MemorySpace::kPsum, kHbm = MemorySpace::kHbm;
constexpr DType kF32 = DType::kFloat32, kBf16 = DType::kBFloat16, kU16 = DType::kUint16,
                kU32 = DType::kUint32, kI32 = DType::kInt32;

AttributeWord word(int64_t value) { return {.integer = value}; }
AttributeWord word(AluOp op) { return {.integer = static_cast<int64_t>(op)}; }
AttributeWord word(ActivationFunction f) { return {.integer = static_cast<int64_t>(f)}; }
AttributeWord word(ReduceCmd cmd) { return {.integer = static_cast<int64_t>(cmd)}; }
AttributeWord word_real(double value) { return {.real = value}; }

}  // namespace

Draft::Draft(Opcode op) : opcode(op) {
  if (definition(op).first_generation > generation) generation = definition(op).first_generation;
  fill();
}

Operand Draft::tile(MemorySpace space, DType dtype, std::vector<int64_t> shape) {
  Tensor tensor;
  tensor.space = space;
  tensor.dtype = dtype;
  tensor.shape = shape;
  tensor.name = "t" + std::to_string(program.tensor_count());
  tensor.row_elements = 1;
  for (size_t i = is_on_chip(space) ? 1 : 0; i < shape.size(); ++i) tensor.row_elements *= shape[i];
  if (is_on_chip(space)) tensor.rows = shape[0];
  Pattern pattern;
  pattern.rank = static_cast<uint8_t>(shape.size());
  int64_t step = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    pattern.dims[i] = {step, shape[i]};
    step *= shape[i];
  }
  Operand operand;
  operand.kind = OperandKind::kAccess;
  operand.dtype = dtype;
  operand.tensor = program.add_tensor(tensor);
  operand.pattern = program.intern_pattern(pattern);
  return operand;
}

std::vector<int64_t> Draft::shape_of(int slot) const { return tensor(slot).shape; }
void Draft::shape(int slot, std::vector<int64_t> sizes) {
  operands[static_cast<size_t>(slot)] = tile(tensor(slot).space, tensor(slot).dtype, std::move(sizes));
}
void Draft::dtype(int slot, DType type) {
  operands[static_cast<size_t>(slot)] = tile(tensor(slot).space, type, shape_of(slot));
}
void Draft::space(int slot, MemorySpace space) {
  operands[static_cast<size_t>(slot)] = tile(space, tensor(slot).dtype, shape_of(slot));
}
void Draft::place(int slot, int partition) {
  program.tensor(operands[static_cast<size_t>(slot)].tensor).address = Address{partition, 0};
}
void Draft::walk(int slot, std::vector<Dim> dims, int64_t offset) {
  Pattern pattern;
  pattern.rank = static_cast<uint8_t>(dims.size());
  std::copy(dims.begin(), dims.end(), pattern.dims.begin());
  operands[static_cast<size_t>(slot)].pattern = program.intern_pattern(pattern);
  operands[static_cast<size_t>(slot)].offset = offset;
}
void Draft::indirect(int slot, IndirectKind kind, int index_partition) {
  const int64_t rows = shape_of(slot)[0];
  Indirect indirect;
  indirect.kind = kind;
  indirect.index = tile(kSbuf, kU32, {rows < 128 ? rows : 128, 1});
  program.tensor(indirect.index.tensor).address = Address{index_partition, 0};
  operands[static_cast<size_t>(slot)].indirect = program.add_indirect(indirect);
}

void Draft::run() {
  const InstructionIndex index = program.append(opcode, engine, operands, attributes, 0);
  check(program, program.instruction(index), generation);
}

void Draft::fill() {
  const auto sbuf = [&](DType dtype, std::vector<int64_t> shape) {
    return tile(kSbuf, dtype, std::move(shape));
  };
  const auto psum = [&](DType dtype, std::vector<int64_t> shape) {
    return tile(kPsum, dtype, std::move(shape));
  };
  const auto list = [&](std::vector<int64_t> values) { return word(int64_t{program.intern_list(values)}); };
  const auto same = [&](int count) {
    for (int i = 0; i < count; ++i) operands.push_back(sbuf(kF32, {64, 16}));
  };
  const Operand none = Operand::none(), zero = Operand::imm(0.0);
  switch (opcode) {
    case Opcode::kDmaCopy:
      operands = {sbuf(kF32, {64, 16}), tile(kHbm, kF32, {64, 16})};
      attributes = {word(-1), word(0), word(0)};
      return;
    case Opcode::kDmaTranspose:
      operands = {sbuf(kBf16, {64, 16}), tile(kHbm, kBf16, {16, 64})};
      attributes = {list({1, 0}), word(-1), word(0), word(0)};
      return;
    case Opcode::kDmaCompute:
      operands = {tile(kHbm, kF32, {64, 16}), sbuf(kF32, {64, 16}), tile(kHbm, kF32, {64, 16})};
      attributes = {word(AluOp::kAdd), word(1), word(0)};
      return;
    case Opcode::kTensorCopy: return same(2);
    case Opcode::kMemset: operands = {sbuf(kF32, {64, 16}), Operand::imm(1.5)}; return;
    case Opcode::kTensorCopyPredicated:
      operands = {sbuf(kF32, {64, 16}), sbuf(kF32, {64, 16}), sbuf(DType::kUint8, {64, 16})};
      attributes = {word(0)};
      return;
    case Opcode::kNcTranspose: operands = {psum(kF32, {16, 64}), sbuf(kF32, {64, 16})}; return;
    case Opcode::kNcStreamShuffle: {
      std::vector<int64_t> mask(32);
      for (int64_t i = 0; i < 32; ++i) mask[static_cast<size_t>(i)] = i == 5 ? 255 : 31 - i;
      same(2);
      attributes = {list(mask)};
      return;
    }
    case Opcode::kLocalGather:
      operands = {sbuf(kF32, {64, 32}), sbuf(kF32, {64, 100}), sbuf(kU16, {64, 2})};
      attributes = {word(1), word(-1)};
      return;
    case Opcode::kNcNGather:
      operands = {sbuf(kF32, {64, 8}), sbuf(kF32, {64, 100}), sbuf(kU32, {64, 8})};
      return;
    case Opcode::kSendRecv:
      same(2);
      attributes = {word(1), word(1), word(0), word(1)};
      return;
    case Opcode::kCoreBarrier:
      operands = {tile(MemorySpace::kSharedHbm, kF32, {64, 16})};
      attributes = {list({0, 1})};
      return;
    case Opcode::kNcMatmul:
      operands = {psum(kF32, {64, 256}), sbuf(kBf16, {128, 64}), sbuf(kBf16, {128, 256})};
      attributes = {word(-1), word(0), word(0), word(0), word(0), word(0), word(0), word(0), word(0)};
      return;
    case Opcode::kNcMatmulMx:
      operands = {psum(kF32, {64, 256}), sbuf(DType::kFloat8E4M3FnX4, {128, 64}),
                  sbuf(DType::kFloat8E4M3FnX4, {128, 256}), sbuf(DType::kUint8, {128, 64}),
                  sbuf(DType::kUint8, {128, 256})};
      attributes = {word(-1), word(0), word(0), word(0), word(0)};
      return;
    case Opcode::kNcMatmulSparse:
      operands = {psum(kF32, {64, 256}), sbuf(kBf16, {128, 64}), sbuf(kBf16, {128, 4, 256}),
                  sbuf(kU16, {128, 16})};
      attributes = {word(-1), word(416)};
      return;
    case Opcode::kTensorTensor:
      same(3);
      attributes = {word(AluOp::kAdd)};
      return;
    case Opcode::kTensorScalar:
      same(2);
      operands.insert(operands.end(), {sbuf(kF32, {64, 1}), Operand::imm(2.0)});
      attributes = {word(AluOp::kMultiply), word(0), word(AluOp::kAdd), word(0)};
      return;
    case Opcode::kScalarTensorTensor:
      operands = {sbuf(kF32, {64, 16}), sbuf(kF32, {64, 16}), sbuf(kF32, {64, 1}), sbuf(kF32, {64, 16})};
      attributes = {word(AluOp::kAdd), word(AluOp::kMultiply), word(0), word(0)};
      return;
    case Opcode::kTensorReduce:
      operands = {sbuf(kF32, {64, 4}), sbuf(kF32, {64, 4, 16})};
      attributes = {word(AluOp::kAdd), word(1), word(0)};
      return;
    case Opcode::kTensorScalarReduce:
      same(2);
      operands.insert(operands.end(), {Operand::imm(1.0), sbuf(kF32, {64, 1}), none});
      attributes = {word(AluOp::kAdd), word(0), word(AluOp::kMaximum), word(ReduceCmd::kResetReduce),
                    word(0)};
      return;
    case Opcode::kTensorScalarCumulative:
      same(2);
      operands.insert(operands.end(), {Operand::imm(1.0), none});
      attributes = {word(AluOp::kMultiply), word(AluOp::kAdd), word(ReduceCmd::kResetReduce), word(0)};
      return;
    case Opcode::kTensorTensorScan:
      same(3);
      operands.push_back(sbuf(kF32, {64, 1}));
      attributes = {word(AluOp::kMultiply), word(AluOp::kAdd), word(0), word(0)};
      return;
    case Opcode::kTensorPartitionReduce:
      operands = {sbuf(kF32, {1, 16}), sbuf(kF32, {64, 16})};
      attributes = {word(AluOp::kAdd)};
      return;
    case Opcode::kActivation:
    case Opcode::kActivationReduce:
      same(2);
      operands.insert(operands.end(), {sbuf(kBf16, {64, 1}), Operand::imm(1.0), sbuf(kF32, {64, 1})});
      attributes = {word(ActivationFunction::kExp), word(AluOp::kAdd), word(ReduceCmd::kResetReduce)};
      return;
    case Opcode::kActivate2:
      same(2);
      operands.insert(operands.end(), {sbuf(kF32, {64, 1}), sbuf(kF32, {64, 1}), zero, sbuf(kF32, {64, 1})});
      attributes = {
          word(ActivationFunction::kExp), word(AluOp::kMultiply),       word(AluOp::kAdd), word(0), word(0),
          word(AluOp::kMaximum),          word(ReduceCmd::kResetReduce)};
      return;
    case Opcode::kExponential:
      same(2);
      operands.insert(operands.end(), {sbuf(kF32, {64, 1}), sbuf(kF32, {64, 1}), zero});
      attributes = {word(ReduceCmd::kResetReduce)};
      return;
    case Opcode::kReciprocal: return same(2);
    case Opcode::kSelectReduce:
      operands = {sbuf(kBf16, {64, 16}), sbuf(DType::kUint8, {64, 16}), sbuf(kBf16, {64, 16}), zero,
                  sbuf(kF32, {64, 1})};
      attributes = {word(ReduceCmd::kResetReduce), word(AluOp::kMaximum), word(0)};
      return;
    case Opcode::kRangeSelect:
      same(2);
      operands.insert(operands.end(), {sbuf(kF32, {64, 1}), sbuf(kF32, {64, 1}), sbuf(kF32, {64, 1})});
      attributes = {
          word(AluOp::kGreaterEqual), word(AluOp::kLess), word(ReduceCmd::kResetReduce),
          word(AluOp::kMaximum),      word_real(0),       word_real(std::numeric_limits<float>::lowest())};
      return;
    case Opcode::kAffineSelect:
      same(2);
      attributes = {list({1, 16}), word(1), word(0), word_real(0), word(AluOp::kGreaterEqual)};
      return;
    case Opcode::kIota:
      operands = {sbuf(kI32, {64, 16})};
      attributes = {list({4, 4, 1, 4}), word(0), word(16)};
      return;
    case Opcode::kBnStats: operands = {sbuf(kF32, {64, 6}), sbuf(kF32, {64, 512})}; return;
    case Opcode::kBnAggr: operands = {sbuf(kF32, {64, 2}), sbuf(kF32, {64, 12})}; return;
    case Opcode::kMax8: operands = {sbuf(kF32, {64, 8}), sbuf(kF32, {64, 16384})}; return;
    case Opcode::kNcFindIndex8:
      operands = {sbuf(kU32, {64, 8}), sbuf(kF32, {64, 100}), sbuf(kF32, {64, 8})};
      return;
    case Opcode::kNcMatchReplace8:
      operands = {sbuf(kF32, {64, 100}), sbuf(kF32, {64, 100}), sbuf(kF32, {64, 8}), sbuf(kU32, {64, 8})};
      attributes = {word_real(-1)};
      return;
    case Opcode::kSequenceBounds: operands = {sbuf(kF32, {1, 2, 50}), sbuf(kF32, {1, 50})}; return;
    case Opcode::kNonzeroWithCount:
      operands = {sbuf(kI32, {64, 17}), sbuf(kF32, {64, 16})};
      attributes = {word(0), word(-1)};
      return;
    case Opcode::kTopk:
      operands = {sbuf(kBf16, {64, 8}), sbuf(kU32, {64, 8}), sbuf(kBf16, {64, 3})};
      attributes = {word(42)};
      return;
    case Opcode::kQuantizeMx:
      operands = {sbuf(DType::kFloat8E5M2x4, {64, 4}), sbuf(kBf16, {64, 16}), sbuf(DType::kUint8, {64, 4})};
      attributes = {word(0)};
      return;
    case Opcode::kDropout:
      same(2);
      operands.push_back(Operand::imm(0.5));
      return;
    case Opcode::kRng: operands = {sbuf(kU32, {64, 16})}; return;
    case Opcode::kSetRngSeed: operands = {sbuf(kU32, {1, 1})}; return;
    case Opcode::kRandSetState:
    case Opcode::kRandGetState: operands = {sbuf(kU32, {64, 6})}; return;
    case Opcode::kRand2: operands = {sbuf(kF32, {64, 16}), zero, Operand::imm(1.0)}; return;
    case Opcode::kCustomOp:
      same(2);
      attributes = {word(0), word(1), word_real(-1), word_real(-1)};
      return;
    case Opcode::kRegisterLoad: operands = {Operand::reg(program.add_register()), sbuf(kI32, {1, 1})}; return;
    case Opcode::kRegisterMove: operands = {Operand::reg(program.add_register()), Operand::imm(3)}; return;
    case Opcode::kRegisterStore:
      operands = {sbuf(kI32, {1, 1}), Operand::reg(program.add_register())};
      return;
    case Opcode::kRegisterAlu:
      operands = {Operand::reg(program.add_register()), Operand::imm(3), Operand::imm(4)};
      attributes = {word(AluOp::kAdd)};
      return;
    case Opcode::kLoopBegin:
      operands = {Operand::reg(program.add_register()), Operand::imm(0), Operand::imm(4)};
      attributes = {word(1), word(1)};
      return;
    case Opcode::kLoopEnd:
      operands = {Operand::reg(program.add_register())};
      attributes = {word(1), word(0)};
      return;
    case Opcode::kWhileBegin:
    case Opcode::kWhileEnd:
      operands = {Operand::reg(program.add_register())};
      attributes = {word(1)};
      return;
    case Opcode::kDevicePrint:
      operands = {sbuf(kF32, {64, 16})};
      attributes = {word(0)};
      return;
  }
}

}  // namespace opentrn::isa
