#include "backend/sample_programs.h"

#include <algorithm>
#include <array>
#include <string>

#include "base/random.h"
#include "isa/definitions.h"

namespace opentrn::backend {

namespace {

using isa::Engine;
using isa::Opcode;
using isa::Operand;
using isa::TensorId;

isa::Pattern pattern_of(std::initializer_list<isa::Dim> dims) {
  isa::Pattern pattern;
  for (const isa::Dim& dim : dims) pattern.dims[pattern.rank++] = dim;
  return pattern;
}

}  // namespace

TensorId ProgramBuilder::hbm(std::initializer_list<int64_t> shape, DType dtype, std::string_view name,
                             bool output) {
  isa::Tensor tensor;
  tensor.space = output ? isa::MemorySpace::kSharedHbm : isa::MemorySpace::kHbm;
  tensor.dtype = dtype;
  tensor.shape = shape;
  tensor.row_elements = 1;
  for (int64_t size : shape) tensor.row_elements *= size;
  tensor.name = name;
  tensor.is_input = !output;
  tensor.is_output = output;
  return program_->add_tensor(std::move(tensor));
}

TensorId ProgramBuilder::on_chip(isa::MemorySpace space, int64_t rows, int64_t elements, DType dtype,
                                 std::string_view name) {
  isa::Tensor tensor;
  tensor.space = space;
  tensor.dtype = dtype;
  tensor.rows = rows;
  tensor.row_elements = elements;
  tensor.shape = {rows, elements};
  tensor.name = name;
  return program_->add_tensor(std::move(tensor));
}

TensorId ProgramBuilder::sbuf(int64_t rows, int64_t elements, DType dtype, std::string_view name) {
  return on_chip(isa::MemorySpace::kSbuf, rows, elements, dtype, name);
}

TensorId ProgramBuilder::psum(int64_t rows, int64_t elements, DType dtype, std::string_view name) {
  return on_chip(isa::MemorySpace::kPsum, rows, elements, dtype, name);
}

Operand ProgramBuilder::part(TensorId id, int64_t row, int64_t rows, int64_t column, int64_t columns) {
  const isa::Tensor& tensor = program_->tensor(id);
  const int64_t pitch = isa::is_on_chip(tensor.space) ? tensor.row_elements : tensor.shape.back();
  Operand operand;
  operand.kind = isa::OperandKind::kAccess;
  operand.dtype = tensor.dtype;
  operand.tensor = id;
  operand.pattern = program_->intern_pattern(pattern_of({{pitch, rows}, {1, columns}}));
  operand.offset = row * pitch + column;
  return operand;
}

Operand ProgramBuilder::all(TensorId id) {
  const isa::Tensor& tensor = program_->tensor(id);
  if (isa::is_on_chip(tensor.space)) return part(id, 0, tensor.rows, 0, tensor.row_elements);
  return part(id, 0, tensor.row_elements / tensor.shape.back(), 0, tensor.shape.back());
}

void ProgramBuilder::append(Opcode opcode, std::initializer_list<Operand> operands,
                            std::initializer_list<int64_t> attributes, Engine engine) {
  std::vector<isa::AttributeWord> words;
  for (int64_t value : attributes) words.push_back({.integer = value});
  words.resize(std::max(words.size(), isa::definition(opcode).attributes.size()), {.integer = 0});
  program_->append(opcode, engine, std::vector<Operand>(operands), words, 0);
}

void ProgramBuilder::dma(Operand dst, Operand src, isa::DgeMode mode) {
  append(Opcode::kDmaCopy, {dst, src}, {-1, 0, static_cast<int64_t>(mode)});
}

void ProgramBuilder::matmul(Operand dst, Operand stationary, Operand moving, bool accumulate,
                            bool transpose) {
  append(Opcode::kNcMatmul, {dst, stationary, moving}, {accumulate, 0, 0, transpose});
}

void ProgramBuilder::tensor_tensor(Operand dst, Operand a, Operand b, AluOp op, Engine engine) {
  append(Opcode::kTensorTensor, {dst, a, b}, {static_cast<int64_t>(op)}, engine);
}

void ProgramBuilder::tensor_scalar(Operand dst, Operand data, double value, AluOp op, Engine engine) {
  append(Opcode::kTensorScalar, {dst, data, Operand::imm(value), Operand::none()},
         {static_cast<int64_t>(op), 0, -1, 0}, engine);
}

void ProgramBuilder::activation(Operand dst, Operand data, ActivationFunction function) {
  append(Opcode::kActivation, {dst, data, Operand::none(), Operand::imm(1), Operand::none()},
         {static_cast<int64_t>(function), -1, 0});
}

void ProgramBuilder::copy(Operand dst, Operand src, Engine engine) {
  append(Opcode::kTensorCopy, {dst, src}, {}, engine);
}

void ProgramBuilder::memset(Operand dst, Engine engine) {
  append(Opcode::kMemset, {dst, Operand::imm(0)}, {}, engine);
}

isa::InstructionIndex ProgramBuilder::loop_begin(isa::RegisterId counter, int64_t lower, int64_t upper,
                                                 int64_t step) {
  append(Opcode::kLoopBegin,
         {Operand::reg(counter), Operand::imm(static_cast<double>(lower)),
          Operand::imm(static_cast<double>(upper))},
         {step, 0});
  return static_cast<isa::InstructionIndex>(program_->size() - 1);
}

void ProgramBuilder::loop_end(isa::RegisterId counter, isa::InstructionIndex begin) {
  const int64_t step = program_->attribute_int(program_->instruction(begin), isa::slot::loop::kAStep);
  append(Opcode::kLoopEnd, {Operand::reg(counter)}, {step, static_cast<int64_t>(begin)});
  program_->set_attribute(begin, isa::slot::loop::kAMatch,
                          {.integer = static_cast<int64_t>(program_->size() - 1)});
}

namespace {

constexpr int64_t kTileM = 128, kTileK = 128, kTileN = 512;

struct MatmulTensors {
  TensorId lhs_t, rhs, out;
};

MatmulTensors declare(ProgramBuilder& b, const MatmulShape& shape) {
  return {b.hbm({shape.k, shape.m}, shape.dtype, "lhsT"), b.hbm({shape.k, shape.n}, shape.dtype, "rhs"),
          b.hbm({shape.m, shape.n}, shape.dtype, "out", true)};
}

}  // namespace

std::shared_ptr<const isa::Program> matmul_hoist_load(const MatmulShape& shape) {
  return matmul_block_free(shape, 1, 1);
}

std::shared_ptr<const isa::Program> matmul_block_free(const MatmulShape& shape, int64_t block_m,
                                                      int64_t block_n) {
  ProgramBuilder b;
  const auto [lhs_t, rhs, out] = declare(b, shape);
  const int64_t k_tiles = shape.k / kTileK;
  const auto load_columns = [&](TensorId from, int64_t first_column, int64_t tiles, int64_t width) {
    std::vector<TensorId> loaded;
    for (int64_t t = 0; t < tiles; ++t) {
      for (int64_t k = 0; k < k_tiles; ++k) {
        loaded.push_back(b.sbuf(kTileK, width, shape.dtype));
        b.dma(b.all(loaded.back()), b.part(from, k * kTileK, kTileK, first_column + t * width, width));
      }
    }
    return loaded;
  };
  for (int64_t m = 0; m < shape.m; m += block_m * kTileM) {
    const std::vector<TensorId> left = load_columns(lhs_t, m, block_m, kTileM);
    for (int64_t n = 0; n < shape.n; n += block_n * kTileN) {
      const std::vector<TensorId> right = load_columns(rhs, n, block_n, kTileN);
      for (int64_t bm = 0; bm < block_m; ++bm) {
        for (int64_t bn = 0; bn < block_n; ++bn) {
          const TensorId acc = b.psum(kTileM, kTileN);
          for (int64_t k = 0; k < k_tiles; ++k)
            b.matmul(b.all(acc), b.all(left[static_cast<size_t>(bm * k_tiles + k)]),
                     b.all(right[static_cast<size_t>(bn * k_tiles + k)]), k > 0);
          const TensorId result = b.sbuf(kTileM, kTileN, shape.dtype, "result");
          b.copy(b.all(result), b.all(acc));
          b.dma(b.part(out, m + bm * kTileM, kTileM, n + bn * kTileN, kTileN), b.all(result));
        }
      }
    }
  }
  return b.take();
}

std::shared_ptr<const isa::Program> matmul_fully_blocked(const MatmulShape& shape, int64_t block_m,
                                                         int64_t block_n, int64_t block_k) {
  ProgramBuilder b;
  const auto [lhs_t, rhs, out] = declare(b, shape);
  const int64_t wide_m = block_m * kTileM, wide_n = block_n * kTileN, wide_k = block_k * kTileK;
  for (int64_t n = 0; n < shape.n; n += wide_n) {
    std::vector<TensorId> sums;
    for (int64_t i = 0; i < shape.m / kTileM * block_n; ++i) {
      sums.push_back(b.sbuf(kTileM, kTileN, shape.dtype, "sum"));
      b.memset(b.all(sums.back()));
    }
    for (int64_t k = 0; k < shape.k; k += wide_k) {
      std::vector<TensorId> right;
      for (int64_t bk = 0; bk < block_k; ++bk) {
        right.push_back(b.sbuf(kTileK, wide_n, shape.dtype, "right"));
        b.dma(b.all(right.back()), b.part(rhs, k + bk * kTileK, kTileK, n, wide_n));
      }
      for (int64_t m = 0; m < shape.m; m += wide_m) {
        std::vector<TensorId> left;
        for (int64_t bk = 0; bk < block_k; ++bk) {
          left.push_back(b.sbuf(kTileK, wide_m, shape.dtype, "left"));
          b.dma(b.all(left.back()), b.part(lhs_t, k + bk * kTileK, kTileK, m, wide_m));
        }
        for (int64_t bn = 0; bn < block_n; ++bn) {
          for (int64_t bm = 0; bm < block_m; ++bm) {
            const TensorId acc = b.psum(kTileM, kTileN);
            for (int64_t bk = 0; bk < block_k; ++bk)
              b.matmul(b.all(acc), b.part(left[static_cast<size_t>(bk)], 0, kTileK, bm * kTileM, kTileM),
                       b.part(right[static_cast<size_t>(bk)], 0, kTileK, bn * kTileN, kTileN), bk > 0);
            const TensorId sum = sums[static_cast<size_t>((m / kTileM + bm) * block_n + bn)];
            b.tensor_tensor(b.all(sum), b.all(sum), b.all(acc));
          }
        }
      }
    }
    for (int64_t m = 0; m < shape.m; m += kTileM) {
      const TensorId packed = b.sbuf(kTileM, wide_n, shape.dtype, "packed");
      for (int64_t bn = 0; bn < block_n; ++bn)
        b.copy(b.part(packed, 0, kTileM, bn * kTileN, kTileN),
               b.all(sums[static_cast<size_t>(m / kTileM * block_n + bn)]));
      b.dma(b.part(out, m, kTileM, n, wide_n), b.all(packed));
    }
  }
  return b.take();
}

std::shared_ptr<const isa::Program> stream_tiles(int64_t count, int64_t columns, DType dtype) {
  ProgramBuilder b;
  const TensorId in = b.hbm({count * 128, columns}, dtype, "in");
  const TensorId out = b.hbm({count * 128, columns}, dtype, "out", true);
  for (int64_t i = 0; i < count; ++i) {
    const TensorId tile = b.sbuf(128, columns, dtype), scaled = b.sbuf(128, columns, dtype);
    b.dma(b.all(tile), b.part(in, i * 128, 128, 0, columns));
    b.tensor_scalar(b.all(scaled), b.all(tile), 2);
    b.dma(b.part(out, i * 128, 128, 0, columns), b.all(scaled));
  }
  return b.take();
}

std::shared_ptr<const isa::Program> random_program(uint64_t seed, int instructions) {
  SplitMix64 random(seed);
  ProgramBuilder b;
  const auto pick = [&](uint32_t n) { return static_cast<int64_t>(random.below(n)); };
  const TensorId dram = b.hbm({8, 64}, DType::kFloat32, "dram", true);
  std::vector<TensorId> tiles, banks;
  for (int i = 0; i < 3; ++i) tiles.push_back(b.sbuf(4, 16, DType::kFloat32));
  for (int i = 0; i < 2; ++i) banks.push_back(b.psum(4, 16));
  for (int i = 0; i < instructions; ++i) {
    if (random.below(4) == 0)
      tiles[static_cast<size_t>(pick(3))] = b.sbuf(1 + pick(100), 16, DType::kFloat32);
    if (random.below(6) == 0) banks[static_cast<size_t>(pick(2))] = b.psum(4, 16);
    const auto tile = [&] { return tiles[static_cast<size_t>(pick(3))]; };
    const auto bank = [&] { return banks[static_cast<size_t>(pick(2))]; };
    const int64_t column = pick(12), columns = 1 + pick(4);
    const auto cut = [&](TensorId id) { return b.part(id, 0, 1, column, columns); };
    switch (random.below(9)) {
      case 0: b.dma(cut(tile()), b.part(dram, pick(8), 1, pick(60), columns)); break;
      case 1: b.dma(b.part(dram, pick(8), 1, pick(60), columns), cut(tile())); break;
      case 2: b.matmul(cut(bank()), cut(tile()), cut(tile()), random.below(2) == 0); break;
      case 3: b.copy(cut(tile()), cut(bank())); break;
      case 4: b.copy(cut(tile()), cut(tile()), Engine::kGpSimd); break;
      case 5: b.activation(cut(tile()), cut(tile()), ActivationFunction::kExp); break;
      case 6: b.tensor_tensor(cut(tile()), cut(tile()), cut(bank())); break;
      case 7: b.memset(cut(tile()), random.below(2) == 0 ? Engine::kGpSimd : Engine::kVector); break;
      default: b.tensor_scalar(cut(tile()), cut(tile()), 3); break;
    }
    if (random.below(12) == 0 && b.program().size() > 3) {
      const auto last = static_cast<isa::InstructionIndex>(b.program().size() - 1);
      b.program().add_edge({last, static_cast<isa::InstructionIndex>(pick(last))});
    }
  }
  return b.take();
}

namespace {

class TileWork {
 public:
  TileWork(ProgramBuilder& b, SplitMix64& random) : b_(b), random_(random) {
    dram_ = b.hbm({128, 512}, DType::kFloat32, "dram", true);
    half_dram_ = b.hbm({128, 512}, DType::kBFloat16, "half_dram", true);
    for (int i = 0; i < 6; ++i) tiles_.push_back(b.sbuf(128, 512, DType::kFloat32));
    for (int i = 0; i < 6; ++i) halves_.push_back(b.sbuf(128, 512, DType::kBFloat16));
    for (int i = 0; i < 3; ++i) banks_.push_back(b.psum(128, 512));
  }

  void append(int count) {
    for (int i = 0; i < count; ++i) append();
  }

 private:
  int64_t pick(int64_t n) { return static_cast<int64_t>(random_.below(static_cast<uint32_t>(n))); }
  bool heads() { return random_.below(2) == 0; }
  Operand of(const std::vector<TensorId>& tensors, int64_t columns) {
    return b_.part(tensors[static_cast<size_t>(pick(static_cast<int64_t>(tensors.size())))], 0, 128, 0,
                   columns);
  }

  void load_rows(int64_t columns) {
    const int64_t first = pick(128), rows = 1 + pick(128 - first);
    b_.dma(b_.part(tiles_[static_cast<size_t>(pick(6))], first, rows, 0, columns),
           b_.part(dram_, 0, rows, 0, columns),
           random_.below(3) == 0 ? isa::DgeMode::kSwdge : isa::DgeMode::kNone);
  }

  void append() {
    const int64_t columns = 1 + pick(512);
    const auto tile = [&] { return of(tiles_, columns); };
    const auto half = [&] { return of(halves_, columns); };
    const auto bank = [&] { return of(banks_, columns); };
    switch (pick(12)) {
      case 0: load_rows(columns); break;
      case 1: b_.dma(b_.part(dram_, 0, 128, 0, columns), tile()); break;
      case 2: b_.dma(half(), b_.part(half_dram_, 0, 128, 0, columns)); break;
      case 3:
      case 4: b_.matmul(bank(), of(halves_, 128), half(), heads()); break;
      case 5: b_.copy(half(), bank(), heads() ? Engine::kUnknown : Engine::kScalar); break;
      case 6: b_.copy(half(), half(), heads() ? Engine::kGpSimd : Engine::kVector); break;
      case 7:
        b_.activation(tile(), tile(), heads() ? ActivationFunction::kExp : ActivationFunction::kTanh);
        break;
      case 8: b_.tensor_tensor(tile(), tile(), bank(), AluOp::kAdd, Engine::kVector); break;
      case 9: b_.memset(half(), heads() ? Engine::kGpSimd : Engine::kVector); break;
      case 10: b_.tensor_tensor(half(), half(), half(), AluOp::kAdd, Engine::kVector); break;
      default: b_.tensor_scalar(tile(), tile(), 3); break;
    }
  }

  ProgramBuilder& b_;
  SplitMix64& random_;
  TensorId dram_, half_dram_;
  std::vector<TensorId> tiles_, halves_, banks_;
};

}  // namespace

std::shared_ptr<const isa::Program> random_tiles(uint64_t seed, int64_t rounds) {
  SplitMix64 random(seed);
  ProgramBuilder b;
  TileWork work(b, random);
  work.append(20);
  if (rounds > 0) {
    const auto outer = b.program().add_register(), inner = b.program().add_register();
    const auto begin = b.loop_begin(outer, 0, rounds);
    work.append(30);
    const auto begin_inner = b.loop_begin(inner, 0, static_cast<int64_t>(random.below(7)));
    work.append(10);
    b.loop_end(inner, begin_inner);
    work.append(10);
    b.loop_end(outer, begin);
    work.append(20);
  }
  return b.take();
}

}  // namespace opentrn::backend
