// Speed of the functional model: overhead per instruction on tiny tiles, throughput on full ones.
//
//   ninja functional_bench && ./src/sim/functional/functional_bench --benchmark_min_time=0.2
//
// "tiny" tiles hold one element, so their time is what an instruction costs besides arithmetic. Items are
// element operations, or multiply-adds for matmuls. The argument of a benchmark is the thread count.
#include <benchmark/benchmark.h>

#include <memory>
#include <vector>

#include "sim/functional/core.h"

namespace opentrn::sim {
namespace {

using isa::AttributeWord;
using isa::MemorySpace;
using isa::Opcode;
using isa::Operand;

AttributeWord word(int64_t value) { return {.integer = value}; }
AttributeWord word(AluOp value) { return {.integer = static_cast<int64_t>(value)}; }
AttributeWord word(ActivationFunction value) { return {.integer = static_cast<int64_t>(value)}; }

class Bench {
 public:
  explicit Bench(int64_t threads = 1)
      : pool_(threads > 1 ? std::make_unique<ThreadPool>(static_cast<int>(threads)) : nullptr),
        core_(Generation::kV3, pool_.get()) {}

  Operand tile(MemorySpace space, int64_t rows, int64_t columns, DType dtype) {
    isa::Tensor tensor;
    tensor.space = space;
    tensor.dtype = dtype;
    tensor.rows = isa::is_on_chip(space) ? rows : 1;
    tensor.row_elements = isa::is_on_chip(space) ? columns : rows * columns;
    Operand operand;
    operand.kind = isa::OperandKind::kAccess;
    operand.dtype = dtype;
    operand.tensor = program_.add_tensor(tensor);
    isa::Pattern pattern;
    pattern.rank = 2;
    pattern.dims[0] = {columns, rows};
    pattern.dims[1] = {1, columns};
    operand.pattern = program_.intern_pattern(pattern);
    if (space != MemorySpace::kPsum) {
      const auto buffer = core_.buffer(program_, operand.tensor);
      std::fill_n(buffer->data(), buffer->bytes(), std::byte{0});
      buffer->mark_all_initialised();
    }
    return operand;
  }
  void emit(Opcode opcode, std::vector<Operand> operands, std::vector<AttributeWord> attributes = {},
            isa::Engine engine = isa::Engine::kVector) {
    program_.append(opcode, engine, operands, attributes, 0);
  }
  // Runs the whole program once per iteration.
  void measure(benchmark::State& state, int64_t items) {
    const auto end = static_cast<isa::InstructionIndex>(program_.size());
    for (auto _ : state) core_.run(program_, 0, end);
    state.SetItemsProcessed(state.iterations() * items);
    // Inverse of this is the time of one instruction, by CPU time of the calling thread.
    state.counters["instructions"] =
        benchmark::Counter(static_cast<double>(state.iterations()) * end, benchmark::Counter::kIsRate);
  }

 private:
  std::unique_ptr<ThreadPool> pool_;
  isa::Program program_;
  Core core_;
};

constexpr int kRepeats = 64;

void TensorTensor(benchmark::State& state, int64_t rows, int64_t columns, DType dtype) {
  Bench b(state.range(0));
  const Operand x = b.tile(MemorySpace::kSbuf, rows, columns, dtype),
                y = b.tile(MemorySpace::kSbuf, rows, columns, dtype);
  const Operand z = b.tile(MemorySpace::kSbuf, rows, columns, dtype);
  for (int i = 0; i < kRepeats; ++i) b.emit(Opcode::kTensorTensor, {z, x, y}, {word(AluOp::kAdd)});
  b.measure(state, rows * columns * kRepeats);
}
BENCHMARK_CAPTURE(TensorTensor, tiny, 1, 1, DType::kFloat32)->Arg(1);
BENCHMARK_CAPTURE(TensorTensor, f32_128x8, 128, 8, DType::kFloat32)->Arg(1);
BENCHMARK_CAPTURE(TensorTensor, f32_128x512, 128, 512, DType::kFloat32)->Arg(1)->Arg(2);
BENCHMARK_CAPTURE(TensorTensor, bf16_128x512, 128, 512, DType::kBFloat16)->Arg(1)->Arg(2);
BENCHMARK_CAPTURE(TensorTensor, int32_128x512, 128, 512, DType::kInt32)->Arg(1);

void TensorScalar(benchmark::State& state, int64_t rows, int64_t columns, bool vector) {
  Bench b(state.range(0));
  const Operand x = b.tile(MemorySpace::kSbuf, rows, columns, DType::kBFloat16);
  const Operand z = b.tile(MemorySpace::kSbuf, rows, columns, DType::kBFloat16);
  const Operand v = b.tile(MemorySpace::kSbuf, rows, 1, DType::kFloat32);
  for (int i = 0; i < kRepeats; ++i)
    b.emit(Opcode::kTensorScalar, {z, x, vector ? v : Operand::imm(2), Operand::imm(3)},
           {word(AluOp::kMultiply), word(int64_t{0}), word(AluOp::kAdd), word(int64_t{0})});
  b.measure(state, rows * columns * kRepeats);
}
BENCHMARK_CAPTURE(TensorScalar, tiny, 1, 1, false)->Arg(1);
BENCHMARK_CAPTURE(TensorScalar, bf16_128x512, 128, 512, false)->Arg(1)->Arg(2);
BENCHMARK_CAPTURE(TensorScalar, bf16_128x512_vector, 128, 512, true)->Arg(1)->Arg(2);

void Copy(benchmark::State& state, Opcode opcode, MemorySpace from, int64_t rows, int64_t columns, DType src,
          DType dst) {
  Bench b(state.range(0));
  const Operand x = b.tile(from, rows, columns, src), z = b.tile(MemorySpace::kSbuf, rows, columns, dst);
  for (int i = 0; i < kRepeats; ++i) {
    if (opcode == Opcode::kDmaCopy)
      b.emit(opcode, {z, x}, {word(int64_t{0}), word(int64_t{0}), word(int64_t{0})}, isa::Engine::kDma);
    else
      b.emit(opcode, {z, x});
  }
  b.measure(state, rows * columns * kRepeats);
}
BENCHMARK_CAPTURE(Copy, tensor_copy_tiny, Opcode::kTensorCopy, MemorySpace::kSbuf, 1, 1, DType::kFloat32,
                  DType::kFloat32)
    ->Arg(1);
BENCHMARK_CAPTURE(Copy, dma_copy_tiny, Opcode::kDmaCopy, MemorySpace::kHbm, 1, 1, DType::kFloat32,
                  DType::kFloat32)
    ->Arg(1);
BENCHMARK_CAPTURE(Copy, dma_copy_bf16_128x2048, Opcode::kDmaCopy, MemorySpace::kHbm, 128, 2048,
                  DType::kBFloat16, DType::kBFloat16)
    ->Arg(1)
    ->Arg(2);
BENCHMARK_CAPTURE(Copy, dma_cast_f32_bf16_128x512, Opcode::kDmaCopy, MemorySpace::kHbm, 128, 512,
                  DType::kFloat32, DType::kBFloat16)
    ->Arg(1);

void Activation(benchmark::State& state, int64_t rows, int64_t columns, ActivationFunction function) {
  Bench b(state.range(0));
  const Operand x = b.tile(MemorySpace::kSbuf, rows, columns, DType::kBFloat16);
  const Operand z = b.tile(MemorySpace::kSbuf, rows, columns, DType::kBFloat16);
  for (int i = 0; i < kRepeats; ++i)
    b.emit(Opcode::kActivation, {z, x, Operand::none(), Operand::imm(1), Operand::none()},
           {word(function), word(int64_t{-1}), word(int64_t{0})}, isa::Engine::kScalar);
  b.measure(state, rows * columns * kRepeats);
}
BENCHMARK_CAPTURE(Activation, tiny, 1, 1, ActivationFunction::kCopy)->Arg(1);
BENCHMARK_CAPTURE(Activation, exp_bf16_128x512, 128, 512, ActivationFunction::kExp)->Arg(1)->Arg(2);
BENCHMARK_CAPTURE(Activation, gelu_bf16_128x512, 128, 512, ActivationFunction::kGelu)->Arg(1)->Arg(2);

void Reduce(benchmark::State& state, int64_t rows, int64_t columns) {
  Bench b(state.range(0));
  const Operand x = b.tile(MemorySpace::kSbuf, rows, columns, DType::kFloat32),
                z = b.tile(MemorySpace::kSbuf, rows, 1, DType::kFloat32);
  for (int i = 0; i < kRepeats; ++i)
    b.emit(Opcode::kTensorReduce, {z, x}, {word(AluOp::kAdd), word(int64_t{1}), word(int64_t{0})});
  b.measure(state, rows * columns * kRepeats);
}
BENCHMARK_CAPTURE(Reduce, tiny, 1, 1)->Arg(1);
BENCHMARK_CAPTURE(Reduce, f32_128x512, 128, 512)->Arg(1)->Arg(2);

void Matmul(benchmark::State& state, int64_t k, int64_t m, int64_t n, DType dtype) {
  Bench b(state.range(0));
  const Operand s = b.tile(MemorySpace::kSbuf, k, m, dtype), x = b.tile(MemorySpace::kSbuf, k, n, dtype);
  const Operand z = b.tile(MemorySpace::kPsum, m, n, DType::kFloat32);
  const auto zero = word(int64_t{0});
  for (int i = 0; i < 8; ++i)
    b.emit(Opcode::kNcMatmul, {z, s, x}, {word(int64_t{-1}), zero, zero, zero, zero, zero, zero, zero, zero},
           isa::Engine::kTensor);
  b.measure(state, k * m * n * 8);
}
BENCHMARK_CAPTURE(Matmul, tiny, 1, 1, 1, DType::kFloat32)->Arg(1);
BENCHMARK_CAPTURE(Matmul, f32_128x128x512, 128, 128, 512, DType::kFloat32)->Arg(1)->Arg(2)->UseRealTime();
BENCHMARK_CAPTURE(Matmul, bf16_128x128x512, 128, 128, 512, DType::kBFloat16)->Arg(1)->Arg(2)->UseRealTime();
BENCHMARK_CAPTURE(Matmul, bf16_128x128x128, 128, 128, 128, DType::kBFloat16)->Arg(1)->Arg(2)->UseRealTime();
BENCHMARK_CAPTURE(Matmul, bf16_128x1x512, 128, 1, 512, DType::kBFloat16)->Arg(1)->UseRealTime();

void Transpose(benchmark::State& state, DType dtype) {
  Bench b(state.range(0));
  const Operand x = b.tile(MemorySpace::kSbuf, 128, 128, dtype),
                z = b.tile(MemorySpace::kPsum, 128, 128, dtype);
  for (int i = 0; i < kRepeats; ++i) b.emit(Opcode::kNcTranspose, {z, x}, {}, isa::Engine::kTensor);
  b.measure(state, 128 * 128 * kRepeats);
}
BENCHMARK_CAPTURE(Transpose, f32_128x128, DType::kFloat32)->Arg(1);
BENCHMARK_CAPTURE(Transpose, bf16_128x128, DType::kBFloat16)->Arg(1);

void RegisterLoop(benchmark::State& state) {
  isa::Program program;
  Core core(Generation::kV3);
  const isa::RegisterId i = program.add_register(), sum = program.add_register();
  const Operand bounds[] = {Operand::reg(i), Operand::imm(0), Operand::imm(1000)};
  const AttributeWord begin_words[] = {word(int64_t{1}), word(int64_t{2})};
  program.append(Opcode::kLoopBegin, isa::Engine::kUnknown, bounds, begin_words, 0);
  const Operand add[] = {Operand::reg(sum), Operand::reg(sum), Operand::reg(i)};
  const AttributeWord add_words[] = {word(AluOp::kAdd)};
  program.append(Opcode::kRegisterAlu, isa::Engine::kUnknown, add, add_words, 0);
  const Operand counter[] = {Operand::reg(i)};
  const AttributeWord end_words[] = {word(int64_t{1}), word(int64_t{0})};
  program.append(Opcode::kLoopEnd, isa::Engine::kUnknown, counter, end_words, 0);
  for (auto _ : state) core.run(program, 0, 3);
  state.SetItemsProcessed(state.iterations() * 2000);
}
BENCHMARK(RegisterLoop);

}  // namespace
}  // namespace opentrn::sim

BENCHMARK_MAIN();
