#include "sim/functional/context.h"

#include <algorithm>
#include <mutex>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "arch/core_features.h"
#include "isa/tensor_label.h"
#include "numerics/convert.h"

namespace opentrn::sim {

using isa::Dim;
using isa::Indirect;
using isa::IndirectKind;
using isa::MemorySpace;
using isa::Operand;
using isa::OperandKind;
using isa::Pattern;

namespace {

bool multiply_overflows(int64_t a, int64_t b, int64_t* out) { return __builtin_mul_overflow(a, b, out); }
bool add_overflows(int64_t a, int64_t b, int64_t* out) { return __builtin_add_overflow(a, b, out); }

// Lowest and highest offset that dimensions reach, relative to the first element.
struct Extent {
  int64_t low = 0;
  int64_t high = 0;

  // False on overflow.
  bool add(int64_t step, int64_t count) {
    int64_t reach;
    if (multiply_overflows(step, count - 1, &reach)) return false;
    return reach < 0 ? !add_overflows(low, reach, &low) : !add_overflows(high, reach, &high);
  }
};

// A runaway broadcast would keep us busy for hours: at most this many visits per byte of the largest tensor
// that the instruction reads or writes, and for small tensors at most kBroadcastMax * kBroadcastFree.
constexpr int64_t kBroadcastMax = 4096;
constexpr int64_t kBroadcastFree = 4096;

// Instructions whose operands are tiles of up to 128 partitions, wherever a malformed program puts them.
bool works_on_tiles(isa::Opcode opcode) {
  using O = isa::Opcode;
  return !isa::is_dma(opcode) && !isa::is_control(opcode) && opcode != O::kSendRecv &&
         opcode != O::kCoreBarrier && opcode != O::kCustomOp && opcode != O::kDevicePrint;
}

std::string describe_pattern(const Pattern& pattern, int64_t offset) {
  std::string text = fmt::format("offset {}, [step, count]", offset);
  for (const Dim& dim : pattern.view()) text += fmt::format(" [{}, {}]", dim.step, dim.count);
  return text;
}

}  // namespace

// -- faults

void Context::fail(FaultKind kind, std::string label, std::string message, std::string hint) const {
  throw Fault(kind, std::move(label), std::move(message), std::move(hint));
}

void Context::broken(std::string_view rule, std::string message, std::string hint) const {
  throw Fault(FaultKind::kProgram, fmt::format("{}.{}", name(), rule), std::move(message), std::move(hint));
}

std::string Context::operand_name(int slot) const {
  const auto slots = isa::definition(in.opcode).operands;
  if (slot < static_cast<int>(slots.size())) return std::string(slots[slot].name);
  return fmt::format("operand {}", slot);
}

std::string Context::describe(int slot) const {
  const Operand& op = operand(slot);
  switch (op.kind) {
    case OperandKind::kNone: return fmt::format("{}: none", operand_name(slot));
    case OperandKind::kImmediate: return fmt::format("{}: {}", operand_name(slot), op.immediate);
    case OperandKind::kRegister: return fmt::format("{}: register {}", operand_name(slot), op.tensor);
    case OperandKind::kAccess: break;
  }
  if (op.tensor >= program.tensor_count() || op.pattern >= program.pattern_count()) return operand_name(slot);
  const isa::Tensor& tensor = program.tensor(op.tensor);
  std::vector<int64_t> counts;
  const Pattern& pattern = program.pattern(op);
  for (int i = 0; i < std::min<int>(pattern.rank, isa::kMaxRank); ++i)
    counts.push_back(pattern.dims[i].count);
  const int dtype = static_cast<int>(op.dtype);
  std::string access =
      fmt::format("{}: {}[{}] of {}", operand_name(slot), dtype < kDTypeCount ? opentrn::name(op.dtype) : "?",
                  fmt::join(counts, ", "), isa::tensor_label(program, op.tensor));
  if (tensor.name.empty()) return access;  // its label says the rest
  return fmt::format("{} ({} rows of {} {}) in {}", access, tensor.rows, tensor.row_elements,
                     opentrn::name(tensor.dtype), isa::name(tensor.space));
}

void Context::locate(Fault& fault) const {
  fault.add_note(fmt::format("in {}{}{} (instruction {})", name(), in.name != 0 ? " " : "",
                             in.name < program.string_count() ? program.string(in.name) : "", index));
  for (int slot = 0; slot < in.operand_count; ++slot)
    if (operand(slot).present()) fault.add_note(describe(slot));
  if (in.location < program.location_count()) fault.set_location(program.location(in.location));
}

void Context::validate() const {
  const isa::InstructionDefinition& def = isa::definition(in.opcode);
  const size_t wanted = def.operands.size();
  const bool repeats = wanted > 0 && (def.operands.back().accepts & isa::kRepeats) != 0;
  if (repeats ? in.operand_count < wanted : in.operand_count != wanted)
    broken("operands", fmt::format("{} operands, {} expected", in.operand_count, wanted));
  if (in.attributes + def.attributes.size() > program.attribute_word_count())
    broken("attributes", fmt::format("attribute block {} of {} words lies outside the program", in.attributes,
                                     def.attributes.size()));
}

// -- resolving

void Context::check_operand(const Operand& op, int slot) const {
  if (op.kind != OperandKind::kAccess)
    broken("operand_kind", fmt::format("{} is not a tensor access", operand_name(slot)));
  if (op.tensor >= program.tensor_count())
    broken("operand",
           fmt::format("{} names tensor {} of {}", operand_name(slot), op.tensor, program.tensor_count()));
  if (op.pattern >= program.pattern_count())
    broken("operand", fmt::format("{} names access pattern {} of {}", operand_name(slot), op.pattern,
                                  program.pattern_count()));
  if (static_cast<int>(op.dtype) >= kDTypeCount)
    broken("operand", fmt::format("{} has no dtype", operand_name(slot)));
  const Pattern& pattern = program.pattern(op);
  if (pattern.rank > isa::kMaxRank)
    broken("operand", fmt::format("{} has rank {}", operand_name(slot), pattern.rank));
  if (op.indirect > program.indirect_count())
    broken("operand", fmt::format("{} names an indirection that does not exist", operand_name(slot)));
}

std::optional<int64_t> Context::scalar_index(const Indirect& indirect, int slot) {
  int64_t value;
  if (indirect.index.kind == OperandKind::kRegister) {
    value = register_value(slot, indirect.index);
  } else {
    if (indirect.index.indirect != isa::kNoIndirect) broken("indirect", "an index is itself indirect");
    const View view = source_of(indirect.index, slot);
    if (view.total() != 1)
      broken("indirect",
             fmt::format("the scalar index of {} has {} elements", operand_name(slot), view.total()));
    if (!is_integer(view.dtype))
      broken("indirect",
             fmt::format("the scalar index of {} is {}", operand_name(slot), opentrn::name(view.dtype)),
             "use an int32 or uint32 tile");
    numerics::load_i64(view.dtype, view.base, 1, &value, 1);
  }
  if (indirect.bound > 0 && (value < 0 || value >= indirect.bound)) {
    if (skip_indices_out_of_bounds) return std::nullopt;
    broken("index_out_of_bounds",
           fmt::format("scalar index {} of {} is outside [0, {})", value, operand_name(slot), indirect.bound),
           "oob_mode.skip drops such transfers");
  }
  return value;
}

// Index values, partition first: index[i % P, i / P]. [doc: nki.isa.dma_transpose, indices.T.flatten()]
std::span<const int64_t> Context::vector_index(const Indirect& indirect, int64_t count, int slot) {
  if (indirect.index.indirect != isa::kNoIndirect) broken("indirect", "an index is itself indirect");
  const View view = source_of(indirect.index, slot);
  if (!is_integer(view.dtype))
    broken("indirect", fmt::format("the index of {} is {}", operand_name(slot), opentrn::name(view.dtype)),
           "use an int32 or uint32 tile");
  if (view.total() < count)
    broken("indirect", fmt::format("the index of {} has {} elements for {} rows", operand_name(slot),
                                   view.total(), count));
  int64_t* values = scratch.array<int64_t>(view.total());
  for (int64_t p = 0; p < view.partitions; ++p) {
    int64_t f = 0;
    for_runs_of_partition(view, p, [&](std::byte* at, int64_t n, int64_t stride) {
      for (int64_t i = 0; i < n; ++i, ++f)
        numerics::load_i64(view.dtype, at + i * stride, 1, &values[f * view.partitions + p], 1);
    });
  }
  return {values, static_cast<size_t>(count)};
}

int64_t Context::largest_operand_bytes() const {
  int64_t largest = 0;
  for (int slot = 0; slot < operand_count(); ++slot) {
    if (!operand(slot).is_access()) continue;
    check_operand(operand(slot), slot);
    largest = std::max(largest, core.touch(program, operand(slot).tensor).ready->bytes());
  }
  return largest;
}

View Context::resolve(const Operand& op, int slot) {
  const View view = resolve_as_it_is(op, slot);
  if (view.buffer->awaits_fill()) settle_fill(view, false);
  return view;
}

View Context::resolve_as_it_is(const Operand& op, int slot) {
  check_operand(op, slot);
  const Pattern& pattern = program.pattern(op);
  const int64_t element = size_bytes(op.dtype);
  int64_t offset = op.offset;
  bool skipped = false;
  int indirect_dim = -1;
  const Indirect* indirect = op.indirect == isa::kNoIndirect ? nullptr : &program.indirect(op);
  if (indirect != nullptr) {
    if (indirect->kind == IndirectKind::kScalar) {
      const std::optional<int64_t> value = scalar_index(*indirect, slot);
      int64_t distance = 0;
      if (!value)
        skipped = true;
      else if (multiply_overflows(*value, indirect->stride, &distance) ||
               add_overflows(offset, distance, &offset))
        broken("bounds", fmt::format("the address of {} overflows", operand_name(slot)));
    } else {
      indirect_dim = indirect->dim;
      if (indirect_dim >= pattern.rank)
        broken("indirect", fmt::format("{} has no dimension {}", operand_name(slot), indirect_dim));
    }
  }

  // Resolving the index above may move the slots, so the reference is taken after it.
  const Core::TensorSlot& tensor = core.touch(program, op.tensor);
  Buffer& buffer = *tensor.ready;
  const bool on_chip = isa::is_on_chip(tensor.space);
  const int64_t row_bytes = tensor.row_bytes;
  const int64_t tensor_rows = tensor.rows;
  const int64_t pitch = buffer.row_pitch();
  if (on_chip && indirect != nullptr && indirect->kind == IndirectKind::kVector)
    broken("indirect", fmt::format("{}: a vector offset needs a tensor in HBM", operand_name(slot)));

  View view;
  view.buffer = &buffer;
  view.dtype = op.dtype;
  view.element_bytes = static_cast<uint8_t>(element);
  view.space = tensor.space;
  view.tensor = op.tensor;
  view.skipped = skipped;

  const auto out_of_bounds = [&]() -> void {
    if (skip_indices_out_of_bounds && indirect != nullptr && indirect->kind == IndirectKind::kScalar) {
      view.skipped = true;
      return;
    }
    broken("bounds",
           fmt::format("{} reaches outside its tensor: {}", operand_name(slot),
                       describe_pattern(pattern, offset)),
           "an access must stay inside the rows and the row length of its tensor");
  };

  int64_t offset_bytes;
  if (multiply_overflows(offset, element, &offset_bytes)) broken("bounds", "the offset overflows");
  int64_t first_row = 0, column = offset_bytes;
  if (on_chip && (offset_bytes < 0 || offset_bytes >= row_bytes) && row_bytes > 0) {
    first_row = offset_bytes / row_bytes;
    column = offset_bytes % row_bytes;
  }

  Extent rows, columns;
  std::array<ByteDim, isa::kMaxRank> dims;
  for (int d = 0; d < pattern.rank; ++d) {
    const Dim& dim = pattern.dims[d];
    if (dim.count <= 0)
      broken("operand", fmt::format("dimension {} of {} has {} elements", d, operand_name(slot), dim.count));
    int64_t step;
    if (multiply_overflows(dim.step, element, &step)) broken("bounds", "a step overflows");
    dims[d] = {dim.count, dim.count == 1 ? 0 : step};
    if (dim.count == 1 || d == indirect_dim) continue;
    const bool along_row = !on_chip || (d > 0 && std::abs(step) < row_bytes);
    if (along_row) {
      if (!columns.add(step, dim.count)) broken("bounds", "an extent overflows");
      continue;
    }
    int64_t row_step = step == row_bytes ? 1 : 0;
    if (row_step == 0 && step != 0) {
      if (row_bytes == 0 || step % row_bytes != 0)
        broken(
            "partition_step",
            fmt::format("dimension {} of {} steps by {} bytes, which is not a whole number of {}-byte rows",
                        d, operand_name(slot), step, row_bytes));
      row_step = step / row_bytes;
    }
    if (!rows.add(row_step, dim.count)) broken("bounds", "an extent overflows");
    dims[d].stride = row_step * pitch;
  }

  const int64_t row_length = on_chip ? row_bytes : buffer.bytes();
  const bool inside = first_row + rows.low >= 0 && offset_bytes >= 0 &&
                      (!on_chip || first_row + rows.high < tensor_rows) && column + columns.low >= 0 &&
                      columns.high <= row_length - element - column && column <= row_length - element;
  if (!inside && !skipped) out_of_bounds();
  if (view.skipped) first_row = column = 0;

  view.base = buffer.data() + first_row * pitch + column;
  view.row_begin = first_row + rows.low;
  view.row_end = first_row + rows.high + 1;
  view.column_begin = column + columns.low;
  view.column_end = column + columns.high + element;

  if (pattern.rank > 0) {
    view.partitions = dims[0].count;
    view.partition_stride = dims[0].stride;
  }
  int64_t elements = 1;
  for (int d = 1; d < pattern.rank; ++d)
    if (multiply_overflows(elements, dims[d].count, &elements))
      broken("bounds", "the element count overflows");
  view.elements = elements;
  int64_t all;
  if (multiply_overflows(elements, view.partitions, &all) ||
      (all / kBroadcastMax > buffer.bytes() + kBroadcastFree &&
       all / kBroadcastMax > largest_operand_bytes() + kBroadcastFree))
    broken("bounds", fmt::format("{} has too many elements", operand_name(slot)));
  const bool tile_sized = on_chip || works_on_tiles(in.opcode);
  if (tile_sized && (view.partitions > kPartitionsMax || elements > kElementsPerPartitionMax))
    broken("tile_size",
           fmt::format("{} has {} partitions of {} elements", operand_name(slot), view.partitions, elements),
           fmt::format("a tile has at most {} partitions", kPartitionsMax));

  if (indirect_dim < 0 && !keep_dimensions) {
    for (int d = 1; d < pattern.rank; ++d) view.free[d - 1] = dims[d];
    view.free_rank = static_cast<uint8_t>(collapse(view.free.data(), std::max(0, pattern.rank - 1)));
    return view;
  }

  for (int d = 1; d < pattern.rank; ++d) view.free[d - 1] = dims[d];
  view.free_rank = static_cast<uint8_t>(std::max(0, pattern.rank - 1));
  if (indirect_dim < 0 || indirect->kind == IndirectKind::kTensor) return view;
  const std::span<const int64_t> index = vector_index(*indirect, dims[indirect_dim].count, slot);
  int64_t* table = scratch.array<int64_t>(static_cast<int64_t>(index.size()));
  for (size_t i = 0; i < index.size(); ++i) {
    int64_t distance;
    const bool bad_index = indirect->bound > 0 && (index[i] < 0 || index[i] >= indirect->bound);
    const bool overflows = multiply_overflows(index[i], indirect->stride, &distance) ||
                           multiply_overflows(distance, element, &distance);
    const bool outside = bad_index || overflows || distance < -(column + columns.low) ||
                         distance > row_length - element - column - columns.high;
    if (outside && !skip_indices_out_of_bounds)
      broken("index_out_of_bounds",
             fmt::format("index {} at position {} of {} is outside [0, {})", index[i], i, operand_name(slot),
                         indirect->bound),
             "oob_mode.skip drops such rows");
    table[i] = outside ? kSkippedIndex : distance;
  }
  view.table = table;
  view.table_dim = indirect_dim;
  view.column_begin = 0;  // anywhere
  view.column_end = row_length;
  return view;
}

View Context::source_of(const Operand& op, int slot) {
  if (is_tensor_indirect(op)) return gather(resolve_tensor_indirect(op, slot), slot);
  const View view = resolve(op, slot);
  if (view.skipped) return view;
  check_or_spoil(view, slot);
  note_read(view);
  return view;
}

void Context::check_or_spoil(const View& source, int slot) {
  if (first_unwritten(source) < 0) return;
  // Once a destination is marked as written, it is too late to spoil it.
  if (!has_destination_) {
    if (!spoilt_) spoilt_ = std::make_unique<Spoilt>();
    if (spoilt_->note(*this, source, slot)) return;
  }
  check_initialised(source, slot);
}

View Context::destination(int slot, Writer writer) {
  if (is_tensor_indirect(operand(slot))) {
    IndirectTile tile = resolve_tensor_indirect(operand(slot), slot);
    tile.values = scratch_like(tile.values);
    for_indirect_elements(tile, [&](std::byte* at, std::byte*) {
      View one = tile.first;
      one.base = at;
      one.partitions = one.elements = 1;
      one.free_rank = 0;
      mark_written(one, writer);
    });
    scatters_.push_back(tile);
    return rounding(tile.values, slot);
  }
  const View view = resolve_as_it_is(operand(slot), slot);
  if (view.buffer->awaits_fill()) settle_fill(view, true);
  if (view.skipped) return rounding(view, slot);
  write(view, writer);
  return rounding(view, slot);
}

void Context::write(const View& destination, Writer writer) {
  note_write(destination);
  mark_written(destination, writer);
  has_destination_ = true;
  if (spoilt_ && spoilt_->any()) spoilt_->spoil(*this, destination);
}

void Context::round_stochastically(uint64_t seed, uint32_t times_before) {
  if (isa::is_dma(in.opcode)) return;
  constexpr uint64_t kSpread = 0x9E3779B97F4A7C15;  // golden ratio: seeds of instructions are far apart
  rounding_ = {.mode = numerics::Rounding::Mode::kStochastic,
               .seed = seed ^ (kSpread * (index + uint64_t{1})),
               .counter = uint64_t{times_before} << 36};
}

// Elements of an instruction's destinations are numbered: 2^32 of each slot.
View Context::rounding(View view, int slot) const {
  view.rounding = rounding_;
  view.rounding.counter += static_cast<uint64_t>(slot) << 32;
  return view;
}

View Context::in_out(int slot, Writer writer) {
  if (is_tensor_indirect(operand(slot))) {
    const View values = gather(resolve_tensor_indirect(operand(slot), slot), slot);
    destination(slot, writer);
    scatters_.back().values = values;
    return rounding(values, slot);
  }
  const View view = resolve(operand(slot), slot);
  if (view.skipped) return view;
  check_initialised(view, slot);
  note_read(view);
  write(view, writer);
  return rounding(view, slot);
}

View Context::unchecked(int slot) { return rounding(resolve(operand(slot), slot), slot); }

View Context::unchecked_as_it_is(int slot) { return rounding(resolve_as_it_is(operand(slot), slot), slot); }

View Context::column(int slot, int64_t partitions) {
  const View view = destination(slot);
  expect_partitions(view, slot, partitions);
  expect_elements(view, slot, 1);
  return view;
}

double Context::immediate(int slot) const {
  if (!has(slot) || operand(slot).kind != OperandKind::kImmediate)
    broken("operand_kind", fmt::format("{} is not a constant", operand_name(slot)));
  return operand(slot).immediate;
}

int64_t Context::register_value(int slot, const Operand& op) const {
  if (op.kind != OperandKind::kRegister)
    broken("operand_kind", fmt::format("{} is not a register", operand_name(slot)));
  const std::optional<int64_t> value = core.register_value(op.tensor);
  if (!value && core.checks_.uninitialised_reads)
    fail(FaultKind::kProgram, "sim.uninitialised_read",
         fmt::format("{} reads register r{}, which nothing has set", operand_name(slot), op.tensor),
         "give register_alloc a value, or set it with register_move or register_load first; a loop that sets "
         "it "
         "may have run no iteration");
  return value.value_or(0);
}

int64_t Context::register_or_immediate(int slot) const {
  const Operand& op = operand(slot);
  if (op.kind == OperandKind::kRegister) return register_value(slot, op);
  const double value = immediate(slot);
  if (!(value >= -0x1p62 && value <= 0x1p62))
    broken("operand", fmt::format("{} is {}", operand_name(slot), value));
  return static_cast<int64_t>(value);
}

isa::RegisterId Context::register_id(int slot) const {
  const Operand& op = operand(slot);
  if (op.kind != OperandKind::kRegister)
    broken("operand_kind", fmt::format("{} is not a register", operand_name(slot)));
  return op.tensor;
}

bool Context::in_psum(int slot) const {
  if (!has(slot)) return false;
  const Operand& op = operand(slot);
  return op.is_access() && op.tensor < program.tensor_count() &&
         program.tensor(op.tensor).space == MemorySpace::kPsum;
}

// -- masks

namespace {

// Whether the bytes of a view are one range of its tensor's, though rows may lie apart in memory.
bool is_one_range(const View& view) {
  if (view.dense()) return view.buffer->contiguous() || view.partitions == 1;
  const Buffer& buffer = *view.buffer;
  return view.table == nullptr && view.free_contiguous() && view.partition_stride == buffer.row_pitch() &&
         view.elements * view.element_bytes == buffer.logical(buffer.data() + buffer.row_pitch());
}

// Whether each partition has several runs of bytes, as far apart from each other.
bool is_runs_apart(const View& view) {
  return view.table == nullptr && view.free_rank == 2 && view.free[1].stride == view.element_bytes &&
         view.free[0].stride >= view.free[1].count * view.element_bytes;
}

}  // namespace

int64_t Context::first_unwritten(const View& view) const {
  if (view.buffer == nullptr || !core.checks_.uninitialised_reads) return -1;
  const ByteMask& mask = view.buffer->initialised();
  if (mask.all()) return -1;
  int64_t missing = -1;
  std::unique_lock guard(view.buffer->mask_lock());
  const int64_t total_bytes = view.total() * view.element_bytes;
  if (is_one_range(view) && mask.test_all(view.buffer->logical(view.base), total_bytes)) return -1;
  for_runs(view, [&](std::byte* at, int64_t count, int64_t stride) {
    if (missing >= 0) return;
    const int64_t first = view.buffer->logical(at);
    const int64_t distinct = stride == 0 ? 1 : count;
    // Logical bytes are as far apart as addresses, unless a stride leads to other rows of a placed buffer.
    if (stride >= view.element_bytes && view.buffer->contiguous() &&
        mask.test_all_of_each(first, view.element_bytes, stride, count))
      return;
    for (int64_t i = 0; i < distinct && missing < 0; ++i) {
      const int64_t byte = view.buffer->logical(at + i * stride);
      if (!mask.test_all(byte, view.element_bytes)) missing = byte;
    }
  });
  return missing;
}

void Context::check_initialised(const View& view, int slot) const {
  const int64_t missing = first_unwritten(view);
  if (missing < 0) return;
  const std::string& origin = view.buffer->unwritten_origin();
  const int64_t row_bytes = std::max<int64_t>(1, program.tensor(view.tensor).row_bytes());
  fail(FaultKind::kProgram, "sim.uninitialised_read",
       fmt::format("{} reads element [{}, {}] of {}, which nothing has written{}", operand_name(slot),
                   missing / row_bytes, missing % row_bytes / view.element_bytes,
                   isa::tensor_label(program, view.tensor),
                   origin.empty() ? "" : fmt::format(" ({})", origin)),
       watched(view) != nullptr ? "what the other core writes is there once both have met: "
                                  "nisa.core_barrier(data=tensor, cores=(0, 1)); "
                                  "--uninitialised fill reads NaN and 4"
                                : "write the whole tile first, or read only what was written; "
                                  "--uninitialised fill reads NaN and 4");
}

void Context::mark_written(const View& view, Writer writer) const {
  if (view.buffer == nullptr) return;
  Buffer& buffer = *view.buffer;
  if (!buffer.writable())
    fail(FaultKind::kProgram, "sim.read_only",
         fmt::format("{} is an input of the kernel and cannot be written",
                     isa::tensor_label(program, view.tensor)));
  // From NeuronCore-v4 on, a matmul may accumulate onto what another engine wrote. [doc: nki.isa.nc_matmul]
  const bool psum = view.space == MemorySpace::kPsum;
  const bool sets =
      psum && (writer == Writer::kMatmul || arch::core_features(generation()).psum_accumulates_any);
  const bool clears = psum && !sets;
  const bool done = buffer.initialised().all() && (!sets || buffer.accumulatable().all()) &&
                    (!clears || buffer.accumulatable().none());
  if (done) return;
  std::lock_guard guard(buffer.mask_lock());
  const auto mark = [&](int64_t begin, int64_t bytes) {
    buffer.initialised().set(begin, bytes);
    if (sets) buffer.accumulatable().set(begin, bytes);
    if (clears) buffer.accumulatable().clear(begin, bytes);
  };
  if (is_one_range(view)) return mark(buffer.logical(view.base), view.total() * view.element_bytes);
  if (!sets && !clears && is_runs_apart(view)) {
    const int64_t run_bytes = view.free[1].count * view.element_bytes, stride = view.free[0].stride,
                  runs = view.free[0].count;
    for (int64_t p = 0; p < view.partitions; ++p)
      buffer.initialised().set_each(buffer.logical(view.row(p)), run_bytes, stride, runs);
    return;
  }
  for_runs(view, [&](std::byte* at, int64_t count, int64_t stride) {
    if (stride == view.element_bytes) {
      mark(buffer.logical(at), count * stride);
    } else if (stride > view.element_bytes && buffer.contiguous() && !clears) {
      buffer.initialised().set_each(buffer.logical(at), view.element_bytes, stride, count);
      if (sets) buffer.accumulatable().set_each(buffer.logical(at), view.element_bytes, stride, count);
    } else {
      for (int64_t i = 0; i < count; ++i) mark(buffer.logical(at + i * stride), view.element_bytes);
    }
  });
}

// -- shapes

void Context::expect_partitions(const View& view, int slot, int64_t partitions) const {
  if (view.partitions != partitions)
    broken("shape",
           fmt::format("{} has {} partitions, {} expected", operand_name(slot), view.partitions, partitions));
}

void Context::expect_elements(const View& view, int slot, int64_t elements) const {
  if (view.elements != elements)
    broken("shape", fmt::format("{} has {} elements per partition, {} expected", operand_name(slot),
                                view.elements, elements));
}

void Context::expect_same_shape(const View& a, const View& b, int slot_a, int slot_b) const {
  if (a.partitions == b.partitions && a.elements == b.elements) return;
  broken("shape", fmt::format("{} is {} partitions x {} elements, {} is {} x {}", operand_name(slot_a),
                              a.partitions, a.elements, operand_name(slot_b), b.partitions, b.elements));
}

int64_t Context::lane(const View& view, int slot) const {
  if (view.buffer == nullptr) return 0;
  if (view.row_begin < 0 || view.row_begin + view.partitions > kPartitionsMax)
    broken("partitions", fmt::format("{} lies in rows {} to {}; an engine has {} lanes", operand_name(slot),
                                     view.row_begin, view.row_begin + view.partitions - 1, kPartitionsMax));
  return view.row_begin;
}

View Context::scratch_like(const View& view) {
  View copy;
  copy.dtype = view.dtype;
  copy.element_bytes = view.element_bytes;
  copy.space = view.space;
  copy.tensor = view.tensor;
  copy.partitions = view.partitions;
  copy.elements = view.elements;
  copy.partition_stride = view.elements * view.element_bytes;
  if (view.elements > 1) {
    copy.free_rank = 1;
    copy.free[0] = {view.elements, view.element_bytes};
  }
  copy.base = scratch.bytes(view.total() * view.element_bytes);
  return copy;
}

View Context::snapshot(const View& view) {
  View copy = scratch_like(view);
  std::byte* to = copy.base;
  for_runs(view, [&](std::byte* at, int64_t count, int64_t stride) {
    numerics::copy_bits(view.element_bytes, at, stride / view.element_bytes, to, 1,
                        static_cast<size_t>(count));
    to += count * view.element_bytes;
  });
  return copy;
}

void Context::separate_one(const View& destination, View& source) {
  if (!destination.overlaps(source) || destination.same_walk(source)) return;
  source = snapshot(source);
}

// -- v4 `.indirect()`: free-axis gather and scatter
//
// Offset i of a group of G partitions comes from index[g * G + i % G, i / G], G = 16 for Vector, Scalar and
// GpSimd and 32 for Tensor. [doc: nki.language NkiTensor.indirect]

bool Context::is_tensor_indirect(const Operand& op) const {
  return op.is_access() && op.indirect != isa::kNoIndirect && op.indirect <= program.indirect_count() &&
         program.indirect(op).kind == IndirectKind::kTensor;
}

Context::IndirectTile Context::resolve_tensor_indirect(const Operand& op, int slot) {
  IndirectTile tile;
  const Indirect& indirect = program.indirect(op);
  tile.first = resolve(op, slot);
  const Pattern& pattern = program.pattern(op);
  if (!isa::is_on_chip(tile.first.space) || indirect.dim < 1)
    broken("indirect",
           fmt::format("{}: .indirect() addresses the free axis of an on-chip tile", operand_name(slot)));
  if (indirect.num_elem < 1) broken("indirect", fmt::format("{} elements per index", indirect.num_elem));
  tile.dim = indirect.dim;
  tile.rank = pattern.rank;
  tile.positions = pattern.dims[indirect.dim].count;
  tile.group = isa::is_matmul(in.opcode) ? 32 : 16;

  const View index = source_of(indirect.index, slot);
  if (!is_integer(index.dtype))
    broken("indirect", fmt::format("the index of {} is {}", operand_name(slot), opentrn::name(index.dtype)));
  const int64_t groups = (tile.first.partitions + tile.group - 1) / tile.group;
  const int64_t indices = (tile.positions + indirect.num_elem - 1) / indirect.num_elem;
  int64_t* values = scratch.array<int64_t>(index.total());
  int64_t* at = values;
  for_runs(index, [&](std::byte* from, int64_t n, int64_t stride) {
    numerics::load_i64(index.dtype, from, stride / index.element_bytes, at, static_cast<size_t>(n));
    at += n;
  });
  int64_t* offsets = scratch.array<int64_t>(groups * tile.positions);
  const int64_t element = tile.first.element_bytes;
  const int64_t row_bytes = core.touch(program, op.tensor).row_bytes;
  const int64_t inner_step = pattern.dims[indirect.dim].step;
  for (int64_t g = 0; g < groups; ++g)
    for (int64_t i = 0; i < tile.positions; ++i) {
      const int64_t k = i / indirect.num_elem;
      const int64_t p = g * tile.group + k % tile.group;
      const int64_t f = k / tile.group;
      if (p >= index.partitions || f >= index.elements)
        broken("indirect",
               fmt::format("{} needs {} indices per {} partitions; its index tile is {} x {}",
                           operand_name(slot), indices, tile.group, index.partitions, index.elements));
      const int64_t value = values[p * index.elements + f];
      int64_t distance;
      const bool bad = (indirect.bound > 0 && (value < 0 || value >= indirect.bound)) ||
                       multiply_overflows(value, indirect.stride, &distance) ||
                       add_overflows(distance, i % indirect.num_elem * inner_step, &distance) ||
                       multiply_overflows(distance, element, &distance) ||
                       distance < -tile.first.column_begin || distance > row_bytes - tile.first.column_end;
      if (bad)
        broken("index_out_of_bounds", fmt::format("index {} at [{}, {}] of {} is outside [0, {})", value, p,
                                                  f, operand_name(slot), indirect.bound));
      offsets[g * tile.positions + i] = distance;
    }
  tile.offsets = offsets;
  tile.values = tile.first;  // shape only, until gathered
  return tile;
}

// element(address in the tensor, address in the dense values)
template <typename Element>
void Context::for_indirect_elements(const IndirectTile& tile, Element&& element) const {
  const View& first = tile.first;
  std::byte* value = tile.values.base;
  for (int64_t p = 0; p < first.partitions; ++p) {
    const int64_t* offsets = tile.offsets + p / tile.group * tile.positions;
    std::array<int64_t, isa::kMaxRank> index{};
    for (int64_t i = 0; i < first.elements; ++i) {
      std::byte* at = first.row(p);
      for (int d = 1; d < tile.rank; ++d)
        at += d == tile.dim ? offsets[index[d]] : index[d] * first.free[d - 1].stride;
      element(at, value);
      value += first.element_bytes;
      for (int d = tile.rank - 1; d >= 1; --d) {
        if (++index[d] < first.free[d - 1].count) break;
        index[d] = 0;
      }
    }
  }
}

View Context::gather(const IndirectTile& tile, int slot) {
  IndirectTile filled = tile;
  filled.values = scratch_like(tile.first);
  const int bytes = tile.first.element_bytes;
  const bool checks = core.checks_.uninitialised_reads && !tile.first.buffer->initialised().all();
  std::unique_lock guard(tile.first.buffer->mask_lock(), std::defer_lock);
  if (checks) guard.lock();
  for_indirect_elements(filled, [&](std::byte* at, std::byte* value) {
    if (checks && !tile.first.buffer->initialised().test_all(tile.first.buffer->logical(at), bytes))
      fail(FaultKind::kProgram, "sim.uninitialised_read",
           fmt::format("{} gathers an element of {} that nothing has written", operand_name(slot),
                       isa::tensor_label(program, tile.first.tensor)));
    std::copy(at, at + bytes, value);
  });
  return filled.values;
}

void Context::finish() {
  for (const IndirectTile& tile : scatters_)
    for_indirect_elements(tile, [&](std::byte* at, std::byte* value) {
      std::copy(value, value + tile.first.element_bytes, at);
    });
  for (const SharedWrite& write : shared_writes_) write.view.buffer->shared()->finish_write(*this, write);
}

// -- attributes

AluOp Context::alu(int slot) const {
  const int64_t value = integer(slot);
  if (value < 0 || value >= kAluOpCount) broken("attribute", fmt::format("{} is not an ALU operator", value));
  return static_cast<AluOp>(value);
}

std::optional<AluOp> Context::optional_alu(int slot) const {
  if (integer(slot) == -1) return std::nullopt;
  return alu(slot);
}

ActivationFunction Context::activation(int slot) const {
  const int64_t value = integer(slot);
  if (value < 0 || value >= kActivationFunctionCount)
    broken("attribute", fmt::format("{} is not an activation function", value));
  return static_cast<ActivationFunction>(value);
}

isa::ReduceCmd Context::reduce_cmd(int slot) const {
  const int64_t value = integer(slot);
  if (value < 0 || value > static_cast<int64_t>(isa::ReduceCmd::kLoadReduce))
    broken("attribute", fmt::format("{} is not a reduce command", value));
  return static_cast<isa::ReduceCmd>(value);
}

std::span<const int64_t> Context::list(int slot) const {
  const int64_t id = integer(slot);
  if (id < 0 || static_cast<size_t>(id) >= program.list_count())
    broken("attribute", fmt::format("list {} does not exist", id));
  return program.attribute_list(in, slot);
}

}  // namespace opentrn::sim
