// For tests: a small program, its tiles and a core to run it on.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <initializer_list>
#include <string>
#include <vector>

#include "numerics/convert.h"
#include "sim/functional/core.h"

namespace opentrn::sim {

struct Tile {
  isa::TensorId id = 0;
  int64_t rows = 0;
  int64_t columns = 0;
  DType dtype = DType::kFloat32;
};

inline isa::AttributeWord word(int64_t value) { return {.integer = value}; }
inline isa::AttributeWord word(AluOp value) { return {.integer = static_cast<int64_t>(value)}; }
inline isa::AttributeWord word(ActivationFunction value) { return {.integer = static_cast<int64_t>(value)}; }
inline isa::AttributeWord word(isa::ReduceCmd value) { return {.integer = static_cast<int64_t>(value)}; }
inline isa::AttributeWord word_real(double value) { return {.real = value}; }

class TestKernel {
 public:
  explicit TestKernel(Generation generation = Generation::kV3, ThreadPool* pool = nullptr,
                      CheckOptions checks = {})
      : core(generation, pool, checks) {}

  isa::Program program;
  Core core;

  Tile tile(isa::MemorySpace space, int64_t rows, int64_t columns, DType dtype = DType::kFloat32) {
    isa::Tensor tensor;
    tensor.space = space;
    tensor.dtype = dtype;
    tensor.rows = isa::is_on_chip(space) ? rows : 1;
    tensor.row_elements = isa::is_on_chip(space) ? columns : rows * columns;
    tensor.shape = {rows, columns};
    tensor.name = fmt::format("t{}", program.tensor_count());
    return {program.add_tensor(tensor), rows, columns, dtype};
  }
  Tile sbuf(int64_t rows, int64_t columns, DType dtype = DType::kFloat32) {
    return tile(isa::MemorySpace::kSbuf, rows, columns, dtype);
  }
  Tile psum(int64_t rows, int64_t columns, DType dtype = DType::kFloat32) {
    return tile(isa::MemorySpace::kPsum, rows, columns, dtype);
  }
  Tile hbm(int64_t rows, int64_t columns, DType dtype = DType::kFloat32) {
    return tile(isa::MemorySpace::kHbm, rows, columns, dtype);
  }
  // A tile with values, row-major.
  Tile filled(Tile t, const std::vector<float>& values) {
    set(t, values);
    return t;
  }
  Tile sbuf_of(int64_t rows, int64_t columns, const std::vector<float>& values,
               DType dtype = DType::kFloat32) {
    return filled(sbuf(rows, columns, dtype), values);
  }

  void set(Tile t, const std::vector<float>& values) {
    ASSERT_EQ(static_cast<int64_t>(values.size()), t.rows * t.columns);
    const auto buffer = core.buffer(program, t.id);
    if (is_integer(t.dtype)) {
      std::vector<int64_t> wide(values.begin(), values.end());
      numerics::store_i64(t.dtype, wide.data(), buffer->data(), 1, wide.size());
    } else {
      numerics::store_f32(t.dtype, values.data(), buffer->data(), values.size());
    }
    buffer->mark_all_initialised();
  }
  std::vector<float> get(Tile t) {
    const auto buffer = core.buffer(program, t.id);
    std::vector<float> values(static_cast<size_t>(t.rows * t.columns));
    numerics::load_f32(t.dtype, buffer->data(), values.data(), values.size());
    return values;
  }
  std::vector<int64_t> get_integers(Tile t) {
    const auto buffer = core.buffer(program, t.id);
    std::vector<int64_t> values(static_cast<size_t>(t.rows * t.columns));
    numerics::load_i64(t.dtype, buffer->data(), 1, values.data(), values.size());
    return values;
  }

  // The whole tile as [rows, columns].
  isa::Operand op(Tile t) { return op(t, 0, {{t.columns, t.rows}, {1, t.columns}}); }
  isa::Operand op(Tile t, int64_t offset, std::initializer_list<isa::Dim> dims) {
    isa::Pattern pattern;
    for (const isa::Dim& dim : dims) pattern.dims[pattern.rank++] = dim;
    isa::Operand operand;
    operand.kind = isa::OperandKind::kAccess;
    operand.dtype = t.dtype;
    operand.tensor = t.id;
    operand.pattern = program.intern_pattern(pattern);
    operand.offset = offset;
    return operand;
  }
  isa::Operand indirect(isa::Operand operand, isa::Indirect how) {
    operand.indirect = program.add_indirect(how);
    return operand;
  }
  int64_t list(std::initializer_list<int64_t> values) {
    return program.intern_list(std::vector<int64_t>(values));
  }

  isa::InstructionIndex emit(isa::Opcode opcode, std::initializer_list<isa::Operand> operands,
                             std::initializer_list<isa::AttributeWord> attributes = {},
                             isa::Engine engine = isa::Engine::kUnknown) {
    const std::vector<isa::Operand> ops(operands);
    const std::vector<isa::AttributeWord> words(attributes);
    const auto line = static_cast<int>(program.size()) + 1;
    return program.append(opcode, engine, ops, words, program.intern_location("kernel.py", line, "kernel"));
  }
  // Appends and executes.
  void run(isa::Opcode opcode, std::initializer_list<isa::Operand> operands,
           std::initializer_list<isa::AttributeWord> attributes = {},
           isa::Engine engine = isa::Engine::kUnknown) {
    const isa::InstructionIndex index = emit(opcode, operands, attributes, engine);
    core.run(program, index, index + 1);
  }
  // Loop markers, patched to each other.
  isa::InstructionIndex loop_begin(isa::RegisterId counter, isa::Operand lower, isa::Operand upper,
                                   int64_t step = 1) {
    return emit(isa::Opcode::kLoopBegin, {isa::Operand::reg(counter), lower, upper},
                {word(step), word(int64_t{0})});
  }
  void loop_end(isa::RegisterId counter, isa::InstructionIndex begin, int64_t step = 1) {
    const isa::InstructionIndex end =
        emit(isa::Opcode::kLoopEnd, {isa::Operand::reg(counter)}, {word(step), word(int64_t{begin})});
    program.set_attribute(begin, isa::slot::loop::kAMatch, word(int64_t{end}));
  }
};

// A 4 x 3 tile of which only [1, 2] was never written.
inline Tile with_a_gap(TestKernel& k) {
  const Tile tile = k.sbuf(4, 3);
  for (const int64_t row : {0, 2, 3})
    k.run(isa::Opcode::kMemset, {k.op(tile, row * 3, {{3, 1}, {1, 3}}), isa::Operand::imm(1)});
  k.run(isa::Opcode::kMemset, {k.op(tile, 3, {{3, 1}, {1, 2}}), isa::Operand::imm(1)});
  return tile;
}

// Runs `statement` and expects a Fault with this label; the Fault is `fault` for further checks.
template <typename Statement>
Fault fault_of(Statement&& statement) {
  try {
    statement();
  } catch (const Fault& fault) {
    return fault;
  }
  ADD_FAILURE() << "no Fault was thrown";
  return Fault(FaultKind::kInternal, "none", "");
}

}  // namespace opentrn::sim
