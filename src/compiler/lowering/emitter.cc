#include "compiler/lowering/emitter.h"
#include "compiler/lowering/hbm_capacity.h"

#include <algorithm>

#include <fmt/format.h>

#include "arch/core_features.h"
#include "arch/tables.h"
#include "compiler/lowering/partitions.h"
#include "compiler/lowering/repeated_load.h"
#include "compiler/lowering/residency.h"
#include "compiler/lowering/transposed_copy.h"
#include "isa/constraints.h"
#include "isa/definitions.h"
#include "isa/splice.h"
#include "numerics/mx.h"

namespace opentrn::compiler {

using isa::Dim;
using isa::Engine;
using isa::Opcode;
using isa::Operand;

Tile Tile::row_range(int64_t begin, int64_t count) const {
  Tile part = *this;
  part.offset += begin * row_elements;
  part.rows = count;
  return part;
}

Tile Tile::column_range(int64_t begin, int64_t count) const {
  Tile part = *this;
  part.offset += begin * column_step;
  part.columns = count;
  return part;
}

Tile Tile::patch(int64_t begin, int64_t run_count, int64_t step_of_runs, int64_t count, int64_t step) const {
  Tile part = *this;
  part.offset += begin * column_step;
  part.columns = count;
  part.column_step = column_step * step;
  part.runs = run_count;
  part.run_step = column_step * step_of_runs;
  return part;
}

Tile Tile::patches(int64_t begin, int64_t group_count, int64_t group_stride, int64_t run_count,
                   int64_t run_stride, int64_t count, int64_t step) const {
  Tile result = patch(begin, run_count, run_stride, count, step);
  result.groups = group_count;
  result.group_step = group_stride;
  return result;
}

Tile Tile::repeated(int64_t count) const {
  OPENTRN_CHECK(columns == 1, "a tile of {} columns cannot be repeated", columns);
  Tile wide = *this;
  wide.columns = count;
  wide.column_step = 0;
  return wide;
}

Tile Tile::as(DType other) const {
  OPENTRN_CHECK(size_bytes(other) == size_bytes(dtype), "{} seen as {}", name(dtype), name(other));
  Tile same = *this;
  same.dtype = other;
  return same;
}

int64_t View::element_count() const {
  int64_t count = 1;
  for (const Dim& dim : dims) count *= dim.count;
  return count;
}

std::vector<isa::Dim> merged(std::vector<isa::Dim> dims) {
  View view;
  view.dims = std::move(dims);
  return view.merged().dims;
}

View View::merged() const {
  View result{tensor, dtype, offset, {}};
  for (const Dim& dim : dims) {
    if (dim.count == 1) continue;
    if (!result.dims.empty() && result.dims.back().step == dim.step * dim.count) {
      result.dims.back() = {dim.step, result.dims.back().count * dim.count};
      continue;
    }
    result.dims.push_back(dim);
  }
  return result;
}

// Both shapes are walked from the outside; a run of source dimensions and a run of target dimensions with
// one product are matched, and the run must be one stride.
std::optional<View> reshaped(const View& view, std::span<const int64_t> dims) {
  View made{view.tensor, view.dtype, view.offset, {}};
  const View source = view.merged();
  if (view.element_count() == 0) {
    for (const int64_t dim : dims) made.dims.push_back({1, dim});
    return made;
  }
  size_t at = 0;
  int64_t left = source.dims.empty() ? 1 : source.dims[0].count;  // of source.dims[at] not yet handed out
  for (const int64_t dim : dims) {
    if (dim == 1) {
      made.dims.push_back({0, 1});
      continue;
    }
    while (left == 1 && at + 1 < source.dims.size()) left = source.dims[++at].count;
    if (left % dim != 0) return std::nullopt;
    left /= dim;
    made.dims.push_back({source.dims[at].step * left, dim});
  }
  return made;
}

bool View::contiguous() const {
  const View whole = merged();
  return whole.dims.empty() || (whole.dims.size() == 1 && whole.dims[0].step == 1);
}

namespace {

// Banks for tiles that are transposed on their way into SBUF.
constexpr int64_t kTurningBanks = 2;

// Of one program. They lie in HBM; beyond this, transfers have theirs generated.
constexpr int64_t kPreparedDescriptorsMax = int64_t{1} << 20;

}  // namespace

Emitter::Emitter(std::shared_ptr<isa::Program> program, Generation generation, Generation costs_of)
    : program_(std::move(program)),
      generation_(generation),
      psum_banks_(arch::neuron_core(generation).psum_banks),
      psum_bank_bytes_(arch::neuron_core(generation).psum_bank_bytes_per_partition),
      costs_(cost::default_costs(costs_of)) {}

void Emitter::set_op(uint32_t op, const SourceLocation& location) {
  span_.op = op;
  location_ = location.known() || !location.function.empty()
                  ? program_->intern_location(location.file, location.line, location.function)
                  : 0;
}

Tile Emitter::on_chip(isa::MemorySpace space, int64_t rows, int64_t columns, DType dtype, std::string name) {
  isa::Tensor tensor;
  tensor.space = space;
  tensor.dtype = dtype;
  tensor.rows = rows;
  tensor.row_elements = columns;
  tensor.shape = {rows, columns};
  tensor.name = std::move(name);
  tensor.location = location_;
  if (!open_loops_.empty()) tensor.loop = open_loops_.back();
  const isa::TensorId id = program_->add_tensor(std::move(tensor));
  return {.tensor = id,
          .space = space,
          .dtype = dtype,
          .row_elements = columns,
          .rows = rows,
          .columns = columns};
}

Tile Emitter::sbuf(int64_t rows, int64_t columns, DType dtype, std::string name) {
  return on_chip(isa::MemorySpace::kSbuf, rows, columns, dtype, std::move(name));
}

Tile Emitter::psum(int64_t rows, int64_t columns, DType dtype, std::string name) {
  OPENTRN_CHECK(columns * size_bytes(dtype) <= psum_bank_bytes_, "{} columns of {} in one bank", columns,
                opentrn::name(dtype));
  const Tile tile = on_chip(isa::MemorySpace::kPsum, rows, columns, dtype, std::move(name));
  const int64_t bank = next_psum_bank_ % psum_banks_;
  program_->tensor(tile.tensor).address = isa::Address{0, bank * psum_bank_bytes_};
  next_psum_bank_ = bank + 1;
  return tile;
}

Tile Emitter::psum_banks(int64_t rows, int64_t columns, std::string name) {
  const int64_t banks = (columns + kPsumBankColumns - 1) / kPsumBankColumns;
  const int64_t usable = psum_banks_ - kTurningBanks;
  if (next_psum_bank_ + banks > usable) next_psum_bank_ = 0;
  const Tile tile = on_chip(isa::MemorySpace::kPsum, rows, columns, DType::kFloat32, std::move(name));
  program_->tensor(tile.tensor).address = isa::Address{0, next_psum_bank_ * psum_bank_bytes_};
  next_psum_bank_ = (next_psum_bank_ + banks) % usable;
  return tile;
}

Tile Emitter::psum_transposed(int64_t rows, int64_t columns, DType dtype, std::string name) {
  constexpr int64_t kSlotBytes = kPartitions * sizeof(float);
  const int64_t slots = kTurningBanks * psum_bank_bytes_ / kSlotBytes;
  // What is turned may be added to sums that still lie in the bank which psum() gave last.
  const int64_t bank_slots = psum_bank_bytes_ / kSlotBytes, first_bank = psum_banks_ - kTurningBanks;
  int64_t slot = next_psum_slot_;
  if (first_bank + slot / bank_slots == next_psum_bank_ - 1)
    slot = (slot / bank_slots + 1) * bank_slots % slots;
  next_psum_slot_ = (slot + 1) % slots;
  return psum_at(first_bank, slot * kSlotBytes, rows, columns, dtype, std::move(name));
}

Tile Emitter::psum_at(int64_t bank, int64_t byte, int64_t rows, int64_t columns, DType dtype,
                      std::string name) {
  const Tile tile = on_chip(isa::MemorySpace::kPsum, rows, columns, dtype, std::move(name));
  program_->tensor(tile.tensor).address = isa::Address{0, bank * psum_bank_bytes_ + byte};
  return tile;
}

View Emitter::in_hbm(std::span<const int64_t> shape, DType dtype, std::string name, bool is_input) {
  View view;
  view.dtype = dtype;
  int64_t step = 1;
  view.dims.resize(shape.size());
  for (size_t i = shape.size(); i-- > 0;) {
    view.dims[i] = {step, shape[i]};
    step *= shape[i];
  }
  isa::Tensor tensor;
  tensor.space = isa::MemorySpace::kHbm;
  tensor.dtype = dtype;
  tensor.rows = 1;
  tensor.row_elements = step;
  tensor.shape.assign(shape.begin(), shape.end());
  tensor.name = std::move(name);
  tensor.location = location_;
  tensor.is_input = is_input;
  if (!is_input && !open_loops_.empty()) tensor.loop = open_loops_.back();
  expect_hbm_for(*program_, tensor, generation_);
  view.tensor = program_->add_tensor(std::move(tensor));
  return view;
}

View Emitter::hbm(std::span<const int64_t> shape, DType dtype, std::string name) {
  return in_hbm(shape, dtype, std::move(name), false);
}

View Emitter::input(std::span<const int64_t> shape, DType dtype, std::string name) {
  return in_hbm(shape, dtype, std::move(name), true);
}

void Emitter::reshape(isa::TensorId tensor, std::vector<int64_t> dims) {
  program_->tensor(tensor).shape = std::move(dims);
}

void Emitter::mark_output(const View& whole, std::string name) {
  isa::Tensor& tensor = program_->tensor(whole.tensor);
  tensor.is_output = true;
  tensor.name = std::move(name);
}

Operand Emitter::operand(const Tile& tile) {
  isa::Pattern pattern;
  pattern.rank = 0;
  pattern.dims[pattern.rank++] = {tile.row_elements, tile.rows};
  if (tile.groups > 1) pattern.dims[pattern.rank++] = {tile.group_step, tile.groups};
  if (tile.runs > 1) pattern.dims[pattern.rank++] = {tile.run_step, tile.runs};
  pattern.dims[pattern.rank++] = {tile.column_step, tile.columns};
  Operand result;
  result.kind = isa::OperandKind::kAccess;
  result.dtype = tile.dtype;
  result.tensor = tile.tensor;
  result.pattern = program_->intern_pattern(pattern);
  result.offset = tile.offset;
  return result;
}

Operand Emitter::operand(const View& view) { return box_operand(view.merged()); }

// With the dimensions that the view has.
Operand Emitter::box_operand(const View& box) {
  OPENTRN_CHECK(box.dims.size() <= isa::kMaxRank, "a view of {} dimensions reached a DMA", box.dims.size());
  isa::Pattern pattern;
  pattern.rank = static_cast<uint8_t>(box.dims.size());
  for (size_t i = 0; i < box.dims.size(); ++i) pattern.dims[i] = box.dims[i];
  Operand result;
  result.kind = isa::OperandKind::kAccess;
  result.dtype = box.dtype;
  result.tensor = memory_of(box.tensor);
  result.pattern = program_->intern_pattern(pattern);
  result.offset = box.offset;
  if (is_moved(box.tensor)) {
    const Moved& moved = moved_[box.tensor - kFirstMoved];
    result.indirect = by_register(moved.offset, moved.bound);
  }
  return result;
}

Operand Emitter::read_operand(const View& view) {
  if (residency_) residency_->flush(memory_of(view.tensor));
  return operand(view);
}

Operand Emitter::operand(const Scalar& scalar) {
  if (const auto* number = std::get_if<double>(&scalar)) return Operand::imm(*number);
  return operand(std::get<Tile>(scalar));
}

void Emitter::append(Opcode opcode, Engine engine, std::initializer_list<Operand> operands,
                     std::initializer_list<int64_t> attributes) {
  std::vector<isa::AttributeWord> words;
  for (const int64_t value : attributes) words.push_back({.integer = value});
  append(opcode, std::span(operands.begin(), operands.size()), words, engine);
}

isa::InstructionIndex Emitter::append(Opcode opcode, std::span<const Operand> operands,
                                      std::span<const isa::AttributeWord> words, Engine engine) {
  const auto index = program_->append(opcode, engine, operands, words, location_);
  span_.begin = index;
  origin_.note(span_);
  try {
    isa::check(*program_, program_->instruction(index), generation());
  } catch (Fault& fault) {
    throw Fault(FaultKind::kInternal, "compiler.kernel",
                fmt::format("a device kernel broke a rule: {}", fault.what()), "please report this model");
  }
  count_work(program_->instruction(index));
  return index;
}

void Emitter::inline_kernel(const isa::Kernel& kernel,
                            const std::map<isa::TensorId, isa::TensorId>& tensors) {
  std::optional<isa::InstructionIndex> loop;
  if (!open_loops_.empty()) loop = open_loops_.back();
  isa::Splice splice(kernel.program, *program_, loop);
  for (const auto& [theirs, ours] : tensors) {
    splice.bind(theirs, ours);
    if (kernel.program.tensor(theirs).filled) program_->tensor(ours).filled = true;
  }
  span_.begin = static_cast<isa::InstructionIndex>(program_->size());
  origin_.note(span_);
  splice.copy();
  for (auto i = span_.begin; i < program_->size(); ++i) {
    const isa::Instruction& instruction = program_->instruction(i);
    try {
      // On which partitions an access may start was checked by the rules of the kernel's dialect when it was
      // recorded: the compiler of NKI 0.1 moves rows.
      isa::check(*program_, instruction, generation(), /*moves_rows=*/true);
    } catch (Fault& fault) {
      fault.set_location(program_->location(instruction.location));
      throw;
    }
  }
}

// By what instructions usually take: to look at each one's operands gives programs that are no faster
// (decision 0035). Except on NeuronCore-v2, the backend shares copies and scaling between the two.
void Emitter::count_work(const isa::Instruction& instruction) {
  int64_t columns = 0;
  bool psum = false;
  for (const Operand& operand : program_->operands(instruction)) {
    if (!operand.is_access()) continue;
    columns = std::max(columns, program_->pattern(operand).elements_per_partition());
    psum |= program_->tensor(operand.tensor).space == isa::MemorySpace::kPsum;
  }
  constexpr double kLeadMaxNs = 20'000;  // further back nothing is owed
  double lead = 0;
  switch (instruction.opcode) {
    case Opcode::kActivation: lead = -busy_ns(instruction.opcode, Engine::kScalar, columns); break;
    case Opcode::kTensorTensor:  // from PSUM one of two tensors streams beside the other, as in a copy
      lead = busy_ns(psum ? Opcode::kTensorCopy : instruction.opcode, Engine::kVector, columns);
      break;
    case Opcode::kTensorCopy:
    case Opcode::kTensorScalar:
      if (arch::core_features(generation()).scalar_copies) return;
      [[fallthrough]];
    case Opcode::kTensorReduce: lead = busy_ns(instruction.opcode, Engine::kVector, columns); break;
    default: return;
  }
  vector_lead_ns_ = std::clamp(vector_lead_ns_ + lead, -kLeadMaxNs, kLeadMaxNs);
}

double Emitter::busy_ns(Opcode opcode, Engine engine, int64_t columns) const {
  return costs_.usual.busy_ns(opcode, engine, columns);
}

// On NeuronCore-v2 Vector squares: published models there whose norms bound them take longer than predicted
// already (fidelity/README.md, the Perceivers).
void Emitter::square(const Tile& dst, const Tile& data) {
  if (!arch::core_features(generation()).scalar_copies)
    return tensor_tensor(AluOp::kMultiply, dst, data, data);
  const int64_t columns = dst.columns * dst.runs * dst.groups;
  const double vector = busy_ns(Opcode::kTensorTensor, Engine::kVector, columns),
               scalar = busy_ns(Opcode::kActivation, Engine::kScalar, columns),
               on_the_way =
                   costs_.usual.latency_ns(Engine::kVector) + costs_.usual.latency_ns(Engine::kScalar);
  if (std::min(0.0, vector_lead_ns_) + vector > scalar + on_the_way)
    return activation(ActivationFunction::kSquare, dst, data);
  tensor_tensor(AluOp::kMultiply, dst, data, data);
}

bool Emitter::scalar_is_freer(const Tile& dst) const {
  if (arch::core_features(generation()).scalar_copies) return false;
  const int64_t columns = dst.columns * dst.runs * dst.groups;
  return vector_lead_ns_ + busy_ns(Opcode::kTensorCopy, Engine::kVector, columns) >
         busy_ns(Opcode::kActivation, Engine::kScalar, columns);
}

namespace {

// How many elements follow each other at both ends of a transfer, at least: of each end its innermost run.
int64_t run_elements(const isa::Pattern& pattern) {
  if (pattern.rank == 0) return 1;
  const Dim& inner = pattern.dims[pattern.rank - 1];
  return inner.step == 1 ? std::max<int64_t>(1, inner.count) : 1;
}

}  // namespace

// With descriptors that are written before the launch, one for each piece that is contiguous at both ends:
// those that are generated while the program runs take the unit that does it 600 ns each (decision 0146).
void Emitter::transfer(const Operand& dst, const Operand& src) {
  const isa::Pattern &into = program_->pattern(dst), &from = program_->pattern(src);
  int64_t elements = 1;
  for (int d = 0; d < into.rank; ++d) elements *= into.dims[d].count;
  const int64_t descriptors = elements / std::min(run_elements(into), run_elements(from));
  const bool prepared = arch::core_features(generation()).hardware_descriptors &&
                        dst.indirect == isa::kNoIndirect && src.indirect == isa::kNoIndirect &&
                        prepared_descriptors_ + descriptors <= kPreparedDescriptorsMax;
  if (prepared) prepared_descriptors_ += descriptors;
  append(Opcode::kDmaCopy, Engine::kUnknown, {dst, src},
         {-1, 0, static_cast<int64_t>(prepared ? isa::DgeMode::kNone : isa::DgeMode::kUnknown)});
}

namespace {

// Elements that DMA moves one by one within SBUF, where rows become columns: as many as take no longer than
// the way over HBM.
constexpr int64_t kMovedOneByOne = 1024;

bool engines_reach_rows(const Tile& tile) {
  return engines_reach(tile.row_elements == 0 ? 0 : tile.offset / tile.row_elements, tile.rows);
}

}  // namespace

void Emitter::move(const Tile& dst, const Tile& src) {
  if (engines_reach_rows(dst) && engines_reach_rows(src)) return tensor_copy(dst, src);
  transfer(operand(dst), operand(src));
}

// What lies in SBUF is not stored first to be loaded again.
bool Emitter::load_resident(const Tile& dst, const View& src) {
  if (residency_ == nullptr || dst.dtype != src.dtype) return false;
  const std::vector<Tile> parts = residency_->parts(src);
  if (parts.empty()) return false;
  const int64_t columns = dst.columns * dst.runs * dst.groups;
  if (parts.front().columns == columns) {
    int64_t row = 0;
    for (const Tile& part : parts) {
      move(dst.row_range(row, part.rows), part);
      row += part.rows;
    }
    return true;
  }
  if (parts.size() != 1 || dst.rows * columns > kMovedOneByOne) return false;
  transfer(operand(dst), operand(parts.front()));
  return true;
}

// The same for results in HBM, where a row of the value is a run of the result.
bool Emitter::copy_resident(const View& dst, const View& src) {
  if (residency_ == nullptr || dst.dtype != src.dtype) return false;
  const std::vector<Tile> parts = residency_->parts(src);
  if (parts.empty()) return false;
  const int64_t columns = parts.front().columns, rows = src.element_count() / columns;
  const auto seen = reshaped(dst, std::vector<int64_t>{rows, columns});
  if (!seen || (columns > 1 && seen->dims[1].step != 1) || (columns == 1 && rows > kMovedOneByOne))
    return false;
  int64_t row = 0;
  for (const Tile& part : parts) {
    View place = *seen;
    place.offset += row * place.dims[0].step;
    place.dims[0].count = part.rows;
    store(place, part);
    row += part.rows;
  }
  return true;
}

void Emitter::load(const Tile& dst, const View& src) {
  if (load_resident(dst, src) || load_repeated(*this, dst, src)) return;
  if ((turns_ && load_transposed(*this, dst, src)) || load_strided(*this, dst, src)) return;
  const Operand source = read_operand(src);
  transfer(operand(dst), source);
}

void Emitter::store(const View& dst, const Tile& src) {
  if (turns_ && store_transposed(*this, dst, src)) return;
  transfer(operand(dst), operand(src));
}

void Emitter::copy(const View& dst, const View& src, bool gaps_are_written) {
  if (copy_resident(dst, src)) return;
  if ((turns_ && copy_transposed(*this, dst, src)) || copy_filling(*this, dst, src) ||
      copy_strided(*this, dst, src, gaps_are_written))
    return;
  const Operand source = read_operand(src);
  transfer(operand(dst), source);
}

void Emitter::custom_op(std::string_view name, std::span<const View> outputs, std::span<const View> inputs) {
  std::vector<Operand> operands;
  for (const View& output : outputs) operands.push_back(box_operand(output));
  for (const View& input : inputs) {
    if (residency_) residency_->flush(memory_of(input.tensor));
    operands.push_back(box_operand(input));
  }
  append_custom_op(name, isa::custom_op_time(name), operands, outputs.size());
}

void Emitter::host_call(std::string_view ops, std::span<const View> outputs, std::span<const View> inputs) {
  std::vector<Operand> operands;
  for (const View& output : outputs) operands.push_back(operand(output));
  for (const View& input : inputs) operands.push_back(read_operand(input));
  append_custom_op(std::string(isa::kHostOpPrefix).append(ops), {.ns = 0, .cycles_per_element = 0}, operands,
                   outputs.size());
}

void Emitter::append_custom_op(std::string_view name, isa::CustomOpTime time,
                               std::span<const Operand> operands, size_t outputs) {
  const isa::AttributeWord words[] = {{.integer = program_->intern_string(name)},
                                      {.integer = static_cast<int64_t>(outputs)},
                                      {.real = time.ns},
                                      {.real = time.cycles_per_element}};
  append(Opcode::kCustomOp, operands, words, Engine::kGpSimd);
}

// The rows of a table that an index tile names.
Operand Emitter::indexed_rows(const View& table, int64_t rows, const Tile& index) {
  OPENTRN_CHECK(table.dims.size() == 2 && !is_moved(table.tensor),
                "a table has rows and columns where it begins, this one {} dimensions", table.dims.size());
  isa::Pattern pattern;
  pattern.rank = 2;
  pattern.dims[0] = {table.dims[0].step, rows};
  pattern.dims[1] = table.dims[1];
  Operand operand_of_rows;
  operand_of_rows.kind = isa::OperandKind::kAccess;
  operand_of_rows.dtype = table.dtype;
  operand_of_rows.tensor = table.tensor;
  operand_of_rows.pattern = program_->intern_pattern(pattern);
  operand_of_rows.offset = table.offset;
  isa::Indirect indirect;
  indirect.kind = isa::IndirectKind::kVector;
  indirect.dim = 0;
  indirect.index = operand(index);
  indirect.stride = table.dims[0].step;
  indirect.bound = table.dims[0].count;
  operand_of_rows.indirect = program_->add_indirect(indirect);
  return operand_of_rows;
}

void Emitter::gather_rows(const Tile& dst, const View& table, const Tile& index) {
  if (residency_) residency_->flush(table.tensor);
  append(Opcode::kDmaCopy, Engine::kUnknown, {operand(dst), indexed_rows(table, dst.rows, index)},
         {-1, 0, 0});
}

void Emitter::scatter_rows(const View& table, const Tile& index, const Tile& src) {
  append(Opcode::kDmaCopy, Engine::kUnknown, {indexed_rows(table, src.rows, index), operand(src)},
         {-1, static_cast<int64_t>(isa::OobMode::kSkip), 0});
}

namespace {

Operand either(const Emitter::RegisterOrNumber& x) {
  const auto* id = std::get_if<isa::RegisterId>(&x);
  return id ? Operand::reg(*id) : Operand::imm(static_cast<double>(std::get<int64_t>(x)));
}

isa::AttributeWord word(int64_t value) { return {.integer = value}; }

}  // namespace

void Emitter::register_load(isa::RegisterId dst, const View& element) {
  const auto kept = residency_ ? residency_->find(element.tensor, element.offset, 1, 1) : std::nullopt;
  const Operand source = kept ? operand(*kept) : read_operand(element);
  append(Opcode::kRegisterLoad, Engine::kUnknown, {Operand::reg(dst), source}, {});
}

void Emitter::register_load(isa::RegisterId dst, const Tile& element) {
  append(Opcode::kRegisterLoad, Engine::kUnknown, {Operand::reg(dst), operand(element)}, {});
}

void Emitter::register_store(const View& element, isa::RegisterId src) {
  append(Opcode::kRegisterStore, Engine::kUnknown, {operand(element), Operand::reg(src)}, {});
}

void Emitter::register_store(const Tile& element, isa::RegisterId src) {
  append(Opcode::kRegisterStore, Engine::kUnknown, {operand(element), Operand::reg(src)}, {});
}

void Emitter::begin_loop(isa::RegisterId counter, RegisterOrNumber lower, RegisterOrNumber upper,
                         int64_t step) {
  const Operand operands[] = {Operand::reg(counter), either(lower), either(upper)};
  const isa::AttributeWord words[] = {word(step), word(0)};
  open_loops_.push_back(append(Opcode::kLoopBegin, operands, words, Engine::kUnknown));
}

void Emitter::begin_while(isa::RegisterId condition) {
  const Operand operands[] = {Operand::reg(condition)};
  const isa::AttributeWord words[] = {word(0)};
  open_loops_.push_back(append(Opcode::kWhileBegin, operands, words, Engine::kUnknown));
}

// Begin and end name each other.
void Emitter::end_loop() {
  const isa::InstructionIndex begin = open_loops_.back();
  open_loops_.pop_back();
  const isa::Instruction first = program_->instruction(begin);
  const bool counted = first.opcode == Opcode::kLoopBegin;
  const Operand operands[] = {program_->operand(first, 0)};
  std::vector<isa::AttributeWord> words;
  if (counted) words.push_back(word(program_->attribute_int(first, isa::slot::loop::kAStep)));
  words.push_back(word(begin));
  const auto end = append(counted ? Opcode::kLoopEnd : Opcode::kWhileEnd, operands, words, Engine::kUnknown);
  program_->set_attribute(
      begin, counted ? int{isa::slot::loop::kAMatch} : int{isa::slot::while_loop::kAMatch}, word(end));
}

void Emitter::register_alu(AluOp op, isa::RegisterId dst, RegisterOrNumber a, RegisterOrNumber b) {
  append(Opcode::kRegisterAlu, Engine::kUnknown, {Operand::reg(dst), either(a), either(b)},
         {static_cast<int64_t>(op)});
}

void Emitter::memset(const Tile& dst, double value) {
  append(Opcode::kMemset, Engine::kUnknown, {operand(dst), Operand::imm(value)}, {});
}

void Emitter::tensor_copy(const Tile& dst, const Tile& src, Engine engine) {
  const auto is_float = [](DType dtype) {
    return dtype == DType::kFloat32 || dtype == DType::kBFloat16 || dtype == DType::kFloat16;
  };
  // Scalar has no tensor_copy on NeuronCore-v2; an activation does the same.
  const bool scalar = engine == Engine::kScalar || (engine == Engine::kUnknown && scalar_is_freer(dst));
  if (!arch::core_features(generation()).scalar_copies && scalar && is_float(dst.dtype) &&
      is_float(src.dtype))
    return activation(ActivationFunction::kCopy, dst, src);
  append(Opcode::kTensorCopy, engine, {operand(dst), operand(src)}, {});
}

void Emitter::tensor_tensor(AluOp op, const Tile& dst, const Tile& a, const Tile& b) {
  append(Opcode::kTensorTensor, Engine::kUnknown, {operand(dst), operand(a), operand(b)},
         {static_cast<int64_t>(op)});
}

void Emitter::tensor_scalar(AluOp op, const Tile& dst, const Tile& data, const Scalar& scalar, bool reverse) {
  append(Opcode::kTensorScalar, Engine::kUnknown,
         {operand(dst), operand(data), operand(scalar), Operand::none()},
         {static_cast<int64_t>(op), reverse, -1, 0});
}

void Emitter::tensor_scalar(AluOp op0, const Scalar& scalar0, AluOp op1, const Scalar& scalar1,
                            const Tile& dst, const Tile& data, bool reverse1) {
  append(Opcode::kTensorScalar, Engine::kUnknown,
         {operand(dst), operand(data), operand(scalar0), operand(scalar1)},
         {static_cast<int64_t>(op0), 0, static_cast<int64_t>(op1), reverse1});
}

void Emitter::load_table(ActivationFunction function) {
  const Tile number = sbuf(1, 1, DType::kFloat32, "table"), result = sbuf(1, 1, DType::kFloat32, "table");
  memset(number, 1.0);
  activation(function, result, number);
}

void Emitter::activation(ActivationFunction function, const Tile& dst, const Tile& data, double scale,
                         std::optional<Tile> bias) {
  append(Opcode::kActivation, Engine::kUnknown,
         {operand(dst), operand(data), bias ? operand(*bias) : Operand::none(), Operand::imm(scale),
          Operand::none()},
         {static_cast<int64_t>(function), -1, 0});
}

void Emitter::activation_sum(ActivationFunction function, const Tile& dst, const Tile& data, double scale,
                             const Tile& bias, bool begins, std::optional<Tile> sum) {
  append(Opcode::kActivation, Engine::kUnknown,
         {operand(dst), operand(data), operand(bias), Operand::imm(scale),
          sum ? operand(*sum) : Operand::none()},
         {static_cast<int64_t>(function), static_cast<int64_t>(AluOp::kAdd),
          static_cast<int64_t>(begins ? isa::ReduceCmd::kResetReduce : isa::ReduceCmd::kReduce)});
}

void Emitter::tensor_scalar_max(AluOp op, const Tile& dst, const Tile& data, const Scalar& scalar,
                                const Chain& chain) {
  const auto command = !chain.begins ? isa::ReduceCmd::kReduce
                       : chain.first ? isa::ReduceCmd::kLoadReduce
                                     : isa::ReduceCmd::kResetReduce;
  append(
      Opcode::kTensorScalarReduce, Engine::kUnknown,
      {operand(dst), operand(data), operand(scalar),
       chain.negated ? operand(*chain.negated) : Operand::none(),
       chain.first ? operand(*chain.first) : Operand::none()},
      {static_cast<int64_t>(op), 0, static_cast<int64_t>(AluOp::kMaximum), static_cast<int64_t>(command), 1});
}

void Emitter::scalar_tensor_tensor(AluOp op0, const Scalar& scalar, AluOp op1, const Tile& dst,
                                   const Tile& data, const Tile& tensor, bool reverse1) {
  append(Opcode::kScalarTensorTensor, Engine::kUnknown,
         {operand(dst), operand(data), operand(scalar), operand(tensor)},
         {static_cast<int64_t>(op0), static_cast<int64_t>(op1), 0, reverse1});
}

void Emitter::scan(AluOp op0, AluOp op1, const Tile& dst, const Tile& factor, const Tile& data,
                   const Scalar& start) {
  append(Opcode::kTensorTensorScan, Engine::kUnknown,
         {operand(dst), operand(factor), operand(data), operand(start)},
         {static_cast<int64_t>(op0), static_cast<int64_t>(op1), 0, 0});
}

void Emitter::reduce(AluOp op, const Tile& dst, const Tile& data) {
  append(Opcode::kTensorReduce, Engine::kUnknown, {operand(dst), operand(data)},
         {static_cast<int64_t>(op), 1, 0});
}

void Emitter::max8(const Tile& dst, const Tile& data) {
  append(Opcode::kMax8, Engine::kUnknown, {operand(dst), operand(data)}, {});
}

void Emitter::find_index8(const Tile& dst, const Tile& data, const Tile& values) {
  append(Opcode::kNcFindIndex8, Engine::kUnknown, {operand(dst), operand(data), operand(values)}, {});
}

void Emitter::match_replace8(const Tile& dst, const Tile& data, const Tile& values, double replacement) {
  const Operand operands[] = {operand(dst), operand(data), operand(values), Operand::none()};
  const isa::AttributeWord words[] = {{.real = replacement}};
  append(Opcode::kNcMatchReplace8, operands, words, Engine::kUnknown);
}

void Emitter::copy_where(const Tile& dst, const Tile& src, const Tile& predicate) {
  append(Opcode::kTensorCopyPredicated, Engine::kUnknown, {operand(dst), operand(src), operand(predicate)},
         {0});
}

void Emitter::matmul(const Tile& dst, const Tile& stationary, const Tile& moving, bool accumulate) {
  append(Opcode::kNcMatmul, Engine::kUnknown, {operand(dst), operand(stationary), operand(moving)},
         {accumulate ? 1 : 0, 0, 0, 0, 0, 0, 0, 0, 0});
}

void Emitter::matmul_double_row(const Tile& dst, const Tile& stationary, const Tile& moving,
                                bool accumulate) {
  append(Opcode::kNcMatmul, Engine::kUnknown, {operand(dst), operand(stationary), operand(moving)},
         {accumulate ? 1 : 0, 0, 0, 0, 0, 0, 0, 0, static_cast<int64_t>(isa::MatmulPerfMode::kDoubleRow)});
}

void Emitter::matmul_mx(const Tile& dst, const Tile& stationary, const Tile& moving,
                        const Tile& stationary_scale, const Tile& moving_scale, bool accumulate) {
  append(
      Opcode::kNcMatmulMx, Engine::kUnknown,
      {operand(dst), operand(stationary), operand(moving), operand(stationary_scale), operand(moving_scale)},
      {accumulate ? 1 : 0, 0, 0, 0, 0});
}

void Emitter::matmul_sparse(const Tile& dst, const Tile& stationary, const Tile& moving, const Tile& tags,
                            int64_t ratio, bool accumulate) {
  append(Opcode::kNcMatmulSparse, Engine::kUnknown,
         {operand(dst), operand(stationary), operand(moving), operand(tags)},
         {accumulate ? 1 : 0, 4 * 100 + 4 * ratio});
}

void Emitter::quantize_mx(const Tile& dst, const Tile& scale, const Tile& data) {
  append(Opcode::kQuantizeMx, Engine::kUnknown, {operand(dst), operand(data), operand(scale)},
         {static_cast<int64_t>(numerics::MxScaleRule::kNeuron)});
}

void Emitter::transpose(const Tile& dst, const Tile& data) {
  append(Opcode::kNcTranspose, Engine::kTensor, {operand(dst), operand(data)}, {});
}

}  // namespace opentrn::compiler
