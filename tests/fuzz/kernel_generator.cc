#include "tests/fuzz/kernel_generator.h"

#include <algorithm>

#include "backend/sample_programs.h"
#include "isa/constraints.h"
#include "isa/definitions.h"

namespace opentrn::fuzz {

namespace {

using isa::Engine;
using isa::Opcode;
using isa::Operand;
using isa::TensorId;

constexpr int64_t kQuadrant = 32;

struct Tile {
  TensorId id;
  int64_t rows, columns;
  DType dtype;
};

class Generator {
 public:
  Generator(SplitMix64& random, bool loops) : random_(random), loops_(loops) {}

  Kernel make() {
    Kernel kernel;
    for (int i = 0; i < 2; ++i) kernel.inputs.push_back(builder_.hbm({128, 64}, DType::kFloat32, "in"));
    inputs_ = kernel.inputs;
    scratch_ = builder_.hbm({128, 64}, DType::kFloat32, "scratch");
    builder_.dma(builder_.all(scratch_), builder_.all(inputs_[0]));
    for (int i = 0; i < 3; ++i) load();
    for (uint32_t n = 3 + random_.below(30); n > 0; --n) {
      if (loops_ && random_.below(12) == 0)
        loop();
      else if (!loops_ && random_.below(6) == 0)
        written_loop();
      else
        step(false);
    }
    for (const Tile& tile : tiles_) {
      const TensorId out = builder_.hbm({tile.rows, tile.columns}, tile.dtype, "out", true);
      builder_.dma(builder_.all(out), builder_.all(tile.id));
      kernel.outputs.push_back(out);
    }
    kernel.program = builder_.take();
    return kernel;
  }

 private:
  Tile fresh(int64_t rows, int64_t columns, DType dtype) {
    tiles_.push_back({builder_.sbuf(rows, columns, dtype), rows, columns, dtype});
    return tiles_.back();
  }
  DType float_type() { return random_.below(3) == 0 ? DType::kBFloat16 : DType::kFloat32; }
  Tile any() { return tiles_[random_.below(static_cast<uint32_t>(tiles_.size()))]; }
  // Another tile of that size, or the same one.
  Tile like(const Tile& tile) {
    for (int tries = 0; tries < 8; ++tries) {
      const Tile other = any();
      if (other.rows == tile.rows && other.columns == tile.columns) return other;
    }
    return tile;
  }
  Engine one_of(std::initializer_list<Engine> engines) {
    return engines.begin()[random_.below(static_cast<uint32_t>(engines.size()))];
  }
  // A destination of that size: an existing tile, or a new one outside loops.
  Tile destination(const Tile& tile, bool in_loop) {
    return in_loop || random_.below(2) ? like(tile) : fresh(tile.rows, tile.columns, float_type());
  }
  // Columns of a tile, the same range for every operand of one instruction.
  struct Range {
    int64_t row, rows, column, columns;
  };
  Range range(const Tile& tile) {
    const int64_t quadrants = tile.rows / kQuadrant;
    Range r{0, tile.rows, 0, tile.columns};
    if (random_.below(3) == 0)
      r = {kQuadrant * random_.below(static_cast<uint32_t>(quadrants)), kQuadrant, 0, tile.columns};
    if (random_.below(3) == 0) {
      r.column = random_.below(static_cast<uint32_t>(tile.columns));
      r.columns = 1 + random_.below(static_cast<uint32_t>(tile.columns - r.column));
    }
    return r;
  }
  Operand part(const Tile& tile, const Range& r) {
    return builder_.part(tile.id, r.row, r.rows, r.column, r.columns);
  }

  void load() {
    const int64_t rows = kQuadrant << random_.below(3), columns = 8 << random_.below(4);
    const Tile tile = fresh(rows, columns, float_type());
    const TensorId from = random_.below(3) == 0 ? scratch_ : inputs_[random_.below(2)];
    builder_.dma(builder_.all(tile.id), builder_.part(from, 0, rows, 0, columns));
    mark(tile);
  }
  void store() {
    const Tile tile = any();
    builder_.dma(builder_.part(scratch_, 0, tile.rows, 0, tile.columns), builder_.all(tile.id));
  }
  void elementwise(bool in_loop) {
    const Tile a = any(), b = like(a), dst = destination(a, in_loop);
    constexpr AluOp kOps[] = {AluOp::kAdd,     AluOp::kSubtract, AluOp::kMultiply,
                              AluOp::kMaximum, AluOp::kMinimum,  AluOp::kGreater};
    const AluOp op = kOps[random_.below(std::size(kOps))];
    const Range whole{0, a.rows, 0, a.columns};
    const bool written = is_written(dst);
    const Range r = written ? range(a) : whole;
    switch (random_.below(4)) {
      case 0:
        builder_.tensor_tensor(part(dst, r), part(a, r), part(b, r), op,
                               one_of({Engine::kUnknown, Engine::kVector, Engine::kGpSimd}));
        break;
      case 1:
        builder_.tensor_scalar(part(dst, r), part(a, r), random_.uniform() - 0.5, op,
                               one_of({Engine::kUnknown, Engine::kVector}));
        break;
      case 2:
        builder_.copy(part(dst, r), part(a, r),
                      one_of({Engine::kUnknown, Engine::kVector, Engine::kScalar, Engine::kGpSimd}));
        break;
      default:
        builder_.activation(part(dst, r), part(a, r),
                            random_.below(2) ? ActivationFunction::kTanh : ActivationFunction::kRelu);
    }
    mark(dst);
  }
  void matmul() {
    const Tile a = any();
    for (int tries = 0; tries < 8; ++tries) {
      const Tile b = any();
      if (a.rows != b.rows || a.dtype != b.dtype) continue;
      const TensorId acc = builder_.psum(a.columns, b.columns);
      for (uint32_t n = 1 + random_.below(2), i = 0; i < n; ++i)
        builder_.matmul(builder_.all(acc), builder_.all(a.id), builder_.all(b.id), i > 0);
      if (a.columns % kQuadrant != 0) return;  // later tiles are whole quadrants
      const Tile out = fresh(a.columns, b.columns, float_type());
      builder_.copy(builder_.all(out.id), builder_.all(acc),
                    one_of({Engine::kUnknown, Engine::kVector, Engine::kScalar}));
      mark(out);
      return;
    }
  }
  void transpose() {
    const Tile a = any();
    if (a.columns != kQuadrant || a.rows != kQuadrant) return;
    const Tile out = fresh(kQuadrant, kQuadrant, a.dtype);
    builder_.append(Opcode::kNcTranspose, {builder_.all(out.id), builder_.all(a.id)}, {}, Engine::kVector);
    mark(out);
  }
  void reduce() {
    const Tile a = any();
    const Tile out = fresh(a.rows, 1, DType::kFloat32);
    builder_.append(Opcode::kTensorReduce, {builder_.all(out.id), builder_.all(a.id)},
                    {static_cast<int64_t>(random_.below(2) ? AluOp::kAdd : AluOp::kMaximum), 1, 0});
    mark(out);
  }
  void step(bool in_loop) {
    switch (random_.below(in_loop ? 5 : 9)) {
      case 0: return store();
      case 5: return load();
      case 6: return matmul();
      case 7: return random_.below(2) ? transpose() : reduce();
      case 8: {
        const Tile tile = any();
        return builder_.dma(builder_.all(like(tile).id), builder_.all(tile.id));
      }
      default: return elementwise(in_loop);
    }
  }
  void loop() {
    const isa::RegisterId counter = builder_.program().add_register();
    const isa::InstructionIndex begin = builder_.loop_begin(counter, 0, 1 + random_.below(3));
    for (uint32_t n = 1 + random_.below(4); n > 0; --n) step(true);
    builder_.loop_end(counter, begin);
  }
  // One statement of a written-out loop: what it does, and where its operands are in iteration `i`.
  struct Place {
    int temporary = -1;  // of the same iteration, by statement; else columns of a tile that advance
    Tile tile{};
    int64_t column = 0, step = 0;
  };
  struct Statement {
    uint32_t kind = 0;
    Place a, b, dst;
    bool psum = false;  // where its temporary is
  };
  // Iterations write the same instructions at columns that advance; some overlap, so that not all may be
  // merged.
  void written_loop() {
    const Tile first = any();
    const int64_t iterations = 2 + random_.below(7),
                  width = 1 + random_.below(static_cast<uint32_t>(std::min<int64_t>(8, first.columns)));
    const auto place = [&](size_t statements) {
      Place p;
      if (statements > 0 && random_.below(2) == 0) {
        p.temporary = static_cast<int>(random_.below(static_cast<uint32_t>(statements)));
        return p;
      }
      p.tile = like_rows(first, width);
      const int64_t room = p.tile.columns - width;
      const int64_t steps[] = {0, 1, width, width, 2 * width};
      p.step = steps[random_.below(std::size(steps))];
      if (room < p.step * (iterations - 1)) p.step = 0;
      p.column = random_.below(static_cast<uint32_t>(room - p.step * (iterations - 1) + 1));
      return p;
    };
    std::vector<Statement> body;
    for (uint32_t n = 1 + random_.below(4); n > 0; --n) {
      Statement s{random_.below(5), place(body.size()), place(body.size()), place(0), random_.below(3) == 0};
      if (random_.below(2) == 0) s.dst.temporary = static_cast<int>(body.size());
      body.push_back(s);
    }
    isa::Program& program = builder_.program();
    const bool independent = random_.below(4) > 0;
    isa::IterationId now = program.begin_written_loop({isa::kNoIteration, independent});
    for (int64_t i = 0; i < iterations; ++i) {
      if (i > 0) now = program.next_iteration(program.loop_of(now));
      program.set_iteration(now);
      run(body, i, width, first);
    }
    program.set_iteration(isa::kNoIteration);
  }
  void run(const std::vector<Statement>& body, int64_t i, int64_t width, const Tile& first) {
    const int64_t rows = first.rows;
    std::vector<Operand> temporaries;
    const auto at = [&](const Place& p) {
      if (p.temporary >= 0) return temporaries[static_cast<size_t>(p.temporary)];
      return builder_.part(p.tile.id, 0, rows, p.column + i * p.step, width);
    };
    for (const Statement& s : body) {
      // Statements without a temporary have their destination there, so that every number names something.
      const bool own = s.dst.temporary >= 0;
      const Operand dst = own ? builder_.all(s.psum ? builder_.psum(rows, width)
                                                    : builder_.sbuf(rows, width, DType::kFloat32))
                              : builder_.part(s.dst.tile.id, 0, rows, s.dst.column + i * s.dst.step, width);
      const Operand a = at(s.a);
      Operand b = at(s.b);
      if (in_psum(a) && in_psum(b))
        b = builder_.part(first.id, 0, rows, 0, width);  // one of two may be there
      switch (s.kind) {
        case 0: builder_.tensor_tensor(dst, a, b, AluOp::kAdd); break;
        case 1: builder_.tensor_scalar(dst, a, 0.75, AluOp::kMultiply); break;
        case 2: builder_.copy(dst, a); break;
        case 3: builder_.activation(dst, a, ActivationFunction::kTanh); break;
        default: sum(dst, a, rows, width);
      }
      temporaries.push_back(dst);
    }
  }
  bool in_psum(const Operand& operand) {
    return builder_.program().tensor(operand.tensor).space == isa::MemorySpace::kPsum;
  }
  // The sum of each row into the first column of dst, which is copied there first.
  void sum(const Operand& dst, const Operand& a, int64_t rows, int64_t width) {
    builder_.copy(dst, a);
    Operand column = dst;
    isa::Pattern pattern = builder_.program().pattern(dst);
    OPENTRN_CHECK(pattern.rank == 2 && pattern.dims[0].count == rows && pattern.dims[1].count == width,
                  "not a tile");
    pattern.dims[1].count = 1;
    column.pattern = builder_.program().intern_pattern(pattern);
    builder_.append(Opcode::kTensorReduce, {column, a}, {static_cast<int64_t>(AluOp::kAdd), 1, 0});
  }
  Tile like_rows(const Tile& tile, int64_t columns) {
    for (int tries = 0; tries < 8; ++tries)
      if (const Tile other = any(); other.rows == tile.rows && other.columns >= columns) return other;
    return tile;
  }
  // A fresh tile is written whole by the instruction that asked for it.
  bool is_written(const Tile& tile) const { return std::ranges::find(written_, tile.id) != written_.end(); }
  void mark(const Tile& tile) { written_.push_back(tile.id); }

  SplitMix64& random_;
  bool loops_;
  backend::ProgramBuilder builder_;
  std::vector<TensorId> inputs_;
  TensorId scratch_ = 0;
  std::vector<Tile> tiles_;
  std::vector<TensorId> written_;
};

}  // namespace

Kernel random_kernel(SplitMix64& random, bool loops) { return Generator(random, loops).make(); }

}  // namespace opentrn::fuzz
