// Programs written by hand, for tests, benchmarks and validation against published measurements.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string_view>
#include <vector>

#include "isa/program.h"

namespace opentrn::backend {

// Puts instructions together tile by tile.
class ProgramBuilder {
 public:
  ProgramBuilder() : program_(std::make_shared<isa::Program>()) {}

  isa::TensorId hbm(std::initializer_list<int64_t> shape, DType dtype, std::string_view name,
                    bool output = false);
  isa::TensorId sbuf(int64_t rows, int64_t elements, DType dtype, std::string_view name = "tile");
  isa::TensorId psum(int64_t rows, int64_t elements, DType dtype = DType::kFloat32,
                     std::string_view name = "acc");

  // [rows, columns) of an on-chip tile, or of a two-dimensional HBM tensor.
  isa::Operand part(isa::TensorId tensor, int64_t row, int64_t rows, int64_t column, int64_t columns);
  isa::Operand all(isa::TensorId tensor);

  void dma(isa::Operand dst, isa::Operand src, isa::DgeMode mode = isa::DgeMode::kUnknown);
  void matmul(isa::Operand dst, isa::Operand stationary, isa::Operand moving, bool accumulate,
              bool transpose = false);
  void tensor_tensor(isa::Operand dst, isa::Operand a, isa::Operand b, AluOp op = AluOp::kAdd,
                     isa::Engine engine = isa::Engine::kUnknown);
  void tensor_scalar(isa::Operand dst, isa::Operand data, double value, AluOp op = AluOp::kMultiply,
                     isa::Engine engine = isa::Engine::kUnknown);
  void activation(isa::Operand dst, isa::Operand data, ActivationFunction function);
  void copy(isa::Operand dst, isa::Operand src, isa::Engine engine = isa::Engine::kUnknown);
  void memset(isa::Operand dst, isa::Engine engine = isa::Engine::kUnknown);
  void append(isa::Opcode opcode, std::initializer_list<isa::Operand> operands,
              std::initializer_list<int64_t> attributes, isa::Engine engine = isa::Engine::kUnknown);
  isa::InstructionIndex loop_begin(isa::RegisterId counter, int64_t lower, int64_t upper, int64_t step = 1);
  void loop_end(isa::RegisterId counter, isa::InstructionIndex begin);

  isa::Program& program() { return *program_; }
  std::shared_ptr<const isa::Program> take() { return std::move(program_); }

 private:
  isa::TensorId on_chip(isa::MemorySpace space, int64_t rows, int64_t elements, DType dtype,
                        std::string_view name);
  std::shared_ptr<isa::Program> program_;
};

struct MatmulShape {
  int64_t m = 4096, k = 8192, n = 8192;
  DType dtype = DType::kBFloat16;
};

// The steps of the published matmul tutorial (C = A @ B, A given transposed [K, M]): operands of one row of
// tiles loaded once; M and N blocked; all dimensions blocked, with partial sums kept in SBUF.
std::shared_ptr<const isa::Program> matmul_hoist_load(const MatmulShape& shape);
std::shared_ptr<const isa::Program> matmul_block_free(const MatmulShape& shape, int64_t block_m = 2,
                                                      int64_t block_n = 2);
std::shared_ptr<const isa::Program> matmul_fully_blocked(const MatmulShape& shape, int64_t block_m = 16,
                                                         int64_t block_n = 2, int64_t block_k = 8);

// Loads, scales and stores `count` tiles of [128, columns]; tiles may be used up to `buffers` at a time.
std::shared_ptr<const isa::Program> stream_tiles(int64_t count, int64_t columns, DType dtype);

// A random program over a few small tiles: for property tests.
std::shared_ptr<const isa::Program> random_program(uint64_t seed, int instructions);
// Work on whole tiles drawn at random: transfers of any partitions, products, copies between memories, all
// engines; with `rounds` > 0 a loop of so many rounds around another loop.
std::shared_ptr<const isa::Program> random_tiles(uint64_t seed, int64_t rounds = 0);

}  // namespace opentrn::backend
