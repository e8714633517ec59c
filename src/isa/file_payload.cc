// The payload of the file form: strings, locations, patterns, indirections, lists, tensors, instructions,
// edges, and for executables the schedule.
#include <limits>
#include <optional>
#include <unordered_map>

#include "isa/definitions.h"
#include "isa/file.h"
#include "isa/file_bytes.h"
#include "isa/file_check.h"
#include "isa/text_names.h"

namespace opentrn::isa {

namespace {

using file::Reader;
using file::Writer;

constexpr uint64_t kRegistersMax = 1 << 24;

// -- writing

void put_operand(Writer& out, const Operand& operand) {
  out.byte(static_cast<uint8_t>(operand.kind));
  switch (operand.kind) {
    case OperandKind::kNone: return;
    case OperandKind::kImmediate: return out.real(operand.immediate);
    case OperandKind::kRegister: return out.number(operand.tensor);
    case OperandKind::kAccess: break;
  }
  out.byte(static_cast<uint8_t>(operand.dtype));
  out.number(operand.tensor);
  out.number(operand.pattern);
  out.signed_number(operand.offset);
  out.number(operand.indirect);
}

class ProgramWriter {
 public:
  explicit ProgramWriter(const Program& program) : program_(program) {}

  void write(Writer& out) {
    number_lists();
    out.text(program_.name);
    out.number(program_.register_count());
    write_strings(out);
    write_patterns(out);
    write_lists(out);
    write_tensors(out);
    write_indirects(out);
    write_iterations(out);
    write_instructions(out);
    out.number(program_.edges().size());
    for (const DependencyEdge& edge : program_.edges()) {
      out.number(edge.consumer);
      out.number(edge.producer);
    }
  }

 private:
  // Lists are named by the order in which attributes first use them.
  void number_lists() {
    for (const Instruction& in : program_.instructions()) {
      const auto& slots = definition(in.opcode).attributes;
      for (size_t i = 0; i < slots.size(); ++i) {
        if (slots[i].kind != AttributeKind::kIntList) continue;
        const auto slot = static_cast<int>(i);
        if (list_ids_.try_emplace(program_.attribute_int(in, slot), lists_.size()).second)
          lists_.push_back(program_.attribute_list(in, slot));
      }
    }
  }
  void write_strings(Writer& out) {
    out.number(program_.string_count());
    for (uint32_t i = 0; i < program_.string_count(); ++i) out.text(program_.string(i));
    out.number(program_.location_count());
    for (LocationId i = 0; i < program_.location_count(); ++i) {
      const SourceLocation location = program_.location(i);
      out.text(location.file);
      out.signed_number(location.line);
      out.text(location.function);
    }
  }
  void write_patterns(Writer& out) {
    out.number(program_.pattern_count());
    for (PatternId i = 0; i < program_.pattern_count(); ++i) {
      const Pattern& pattern = program_.pattern(i);
      out.byte(pattern.rank);
      for (const Dim& dim : pattern.view()) {
        out.signed_number(dim.step);
        out.signed_number(dim.count);
      }
    }
  }
  void write_lists(Writer& out) {
    out.number(lists_.size());
    for (const auto& list : lists_) {
      out.number(list.size());
      for (int64_t value : list) out.signed_number(value);
    }
  }
  void write_tensors(Writer& out) {
    out.number(program_.tensor_count());
    for (TensorId i = 0; i < program_.tensor_count(); ++i) {
      const Tensor& tensor = program_.tensor(i);
      out.byte(static_cast<uint8_t>(tensor.space));
      out.byte(static_cast<uint8_t>(tensor.dtype));
      out.byte(static_cast<uint8_t>((tensor.address ? 1 : 0) | (tensor.is_input ? 2 : 0) |
                                    (tensor.is_output ? 4 : 0) | (tensor.loop ? 8 : 0) |
                                    (tensor.filled ? 16 : 0)));
      out.signed_number(tensor.rows);
      out.signed_number(tensor.row_elements);
      out.number(tensor.shape.size());
      for (int64_t size : tensor.shape) out.signed_number(size);
      out.text(tensor.name);
      out.number(tensor.location);
      if (tensor.loop) out.number(*tensor.loop);
      if (!tensor.address) continue;
      out.signed_number(tensor.address->partition);
      out.signed_number(tensor.address->byte_offset);
    }
  }
  void write_indirects(Writer& out) {
    out.number(program_.indirect_count());
    Operand handle;
    for (uint32_t i = 1; i <= program_.indirect_count(); ++i) {
      handle.indirect = i;
      const Indirect& indirect = program_.indirect(handle);
      out.byte(static_cast<uint8_t>(indirect.kind));
      out.byte(indirect.dim);
      put_operand(out, indirect.index);
      out.signed_number(indirect.stride);
      out.signed_number(indirect.bound);
      out.signed_number(indirect.num_elem);
    }
  }
  // The loop of each iteration; a loop that comes for the first time brings where it stands.
  void write_iterations(Writer& out) {
    out.number(program_.iteration_count() - 1);
    WrittenLoopId known = 0;
    for (IterationId i = 1; i < program_.iteration_count(); ++i) {
      const WrittenLoopId loop = program_.loop_of(i);
      out.number(loop);
      if (loop < known) continue;
      known = loop + 1;
      out.number(program_.written_loop(loop).outer);
      out.byte(program_.written_loop(loop).independent ? 1 : 0);
    }
  }
  void write_instructions(Writer& out) {
    out.number(program_.size());
    for (const Instruction& in : program_.instructions()) {
      const auto& slots = definition(in.opcode).attributes;
      OPENTRN_CHECK(in.attributes + slots.size() <= program_.attribute_word_count(), "{} lacks attributes",
                    name(in.opcode));
      out.byte(static_cast<uint8_t>(in.opcode));
      out.byte(static_cast<uint8_t>(in.engine));
      out.byte(in.flags);
      const auto& operands = definition(in.opcode).operands;
      const bool repeats = !operands.empty() && (operands.back().accepts & kRepeats);
      const size_t count =
          repeats ? in.operand_count : operands.size();  // what is left out at the end is none
      OPENTRN_CHECK(in.operand_count <= count, "{} has {} operands", name(in.opcode), in.operand_count);
      out.byte(static_cast<uint8_t>(count));
      out.number(in.location);
      out.number(in.name);
      out.number(in.iteration);
      for (const Operand& operand : program_.operands(in)) put_operand(out, operand);
      for (size_t i = in.operand_count; i < count; ++i) put_operand(out, Operand::none());
      for (size_t i = 0; i < slots.size(); ++i) {
        const int64_t value = program_.attribute_int(in, static_cast<int>(i));
        if (slots[i].kind == AttributeKind::kIntList)
          out.number(list_ids_.at(value));
        else if (slots[i].kind == AttributeKind::kReal)
          out.word(static_cast<uint64_t>(value));
        else
          out.signed_number(value);
      }
    }
  }

  const Program& program_;
  std::unordered_map<int64_t, uint64_t> list_ids_;
  std::vector<std::span<const int64_t>> lists_;
};

// -- reading

class ProgramReader {
 public:
  explicit ProgramReader(Reader& in) : in_(in) {}

  Program read() {
    program_.name = in_.text();
    for (uint64_t n = in_.below(kRegistersMax + 1, "register"), i = 0; i < n; ++i) program_.add_register();
    read_strings();
    read_patterns();
    read_lists();
    read_tensors();
    read_indirects();
    read_iterations();
    read_instructions();
    for (size_t n = in_.count("edges"), i = 0; i < n; ++i) {
      const auto consumer = static_cast<InstructionIndex>(in_.below(program_.size(), "instruction"));
      program_.add_edge({consumer, static_cast<InstructionIndex>(in_.below(program_.size(), "instruction"))});
    }
    in_.require(program_error(program_));
    return std::move(program_);
  }

 private:
  // Ids of the file are mapped: interning may number things in another order.
  void read_strings() {
    for (size_t n = in_.count("strings"), i = 0; i < n; ++i)
      strings_.push_back(program_.intern_string(in_.text()));
    for (size_t n = in_.count("locations"), i = 0; i < n; ++i) {
      const std::string name = in_.text();
      const int64_t line = in_.signed_number();
      if (line < std::numeric_limits<int>::min() || line > std::numeric_limits<int>::max())
        in_.fail(fmt::format("line {}", line));
      const std::string function = in_.text();
      locations_.push_back(i == 0 ? 0 : program_.intern_location(name, static_cast<int>(line), function));
    }
  }
  void read_patterns() {
    for (size_t n = in_.count("patterns"), i = 0; i < n; ++i) {
      Pattern pattern;
      pattern.rank = in_.byte();
      if (pattern.rank > kMaxRank) in_.fail(fmt::format("a pattern of rank {}", pattern.rank));
      for (size_t k = 0; k < pattern.rank; ++k) {
        pattern.dims[k].step = in_.signed_number();
        pattern.dims[k].count = in_.signed_number();
      }
      in_.require(pattern_error(pattern));
      patterns_.push_back(program_.intern_pattern(pattern));
    }
  }
  void read_lists() {
    for (size_t n = in_.count("lists"), i = 0; i < n; ++i) {
      std::vector<int64_t> list(in_.count("numbers"));
      for (int64_t& value : list) value = in_.signed_number();
      lists_.push_back(program_.intern_list(list));
    }
  }
  void read_tensors() {
    for (size_t n = in_.count("tensors"), i = 0; i < n; ++i) {
      Tensor tensor;
      tensor.space = static_cast<MemorySpace>(in_.below(kMemorySpaceCount, "memory"));
      tensor.dtype = static_cast<DType>(in_.below(kDTypeCount, "type"));
      const uint8_t flags = in_.byte();
      tensor.is_input = flags & 2;
      tensor.is_output = flags & 4;
      tensor.filled = flags & 16;
      tensor.rows = in_.signed_number();
      tensor.row_elements = in_.signed_number();
      tensor.shape.resize(in_.below(kMaxRank + 1, "rank"));
      for (int64_t& size : tensor.shape) size = in_.signed_number();
      tensor.name = in_.text();
      tensor.location = mapped(locations_, "location");
      if (flags & 8) tensor.loop = static_cast<InstructionIndex>(in_.below(UINT32_MAX, "loop"));
      if (flags & 1) {
        const int64_t partition = in_.signed_number();
        if (partition < 0 || partition > std::numeric_limits<int32_t>::max())
          in_.fail(fmt::format("partition {}", partition));
        tensor.address = Address{static_cast<int32_t>(partition), in_.signed_number()};
      }
      in_.require(tensor_error(tensor));
      program_.add_tensor(std::move(tensor));
    }
  }
  void read_indirects() {
    for (size_t n = in_.count("indirections"), i = 0; i < n; ++i) {
      Indirect indirect;
      indirect.kind = static_cast<IndirectKind>(in_.below(3, "kind of index"));
      indirect.dim = static_cast<uint8_t>(in_.below(kMaxRank, "dimension"));
      indirect.index = read_operand(false);
      indirect.stride = in_.signed_number();
      indirect.bound = in_.signed_number();
      indirect.num_elem = in_.signed_number();
      program_.add_indirect(indirect);
    }
  }
  Operand read_operand(bool may_be_indirect) {
    switch (static_cast<OperandKind>(in_.below(4, "kind of operand"))) {
      case OperandKind::kNone: return Operand::none();
      case OperandKind::kImmediate: return Operand::imm(in_.real());
      case OperandKind::kRegister:
        return Operand::reg(static_cast<RegisterId>(in_.below(program_.register_count(), "register")));
      case OperandKind::kAccess: break;
    }
    Operand operand;
    operand.kind = OperandKind::kAccess;
    operand.dtype = static_cast<DType>(in_.below(kDTypeCount, "type"));
    operand.tensor = static_cast<TensorId>(in_.below(program_.tensor_count(), "tensor"));
    operand.pattern = mapped(patterns_, "pattern");
    operand.offset = in_.signed_number();
    operand.indirect =
        static_cast<uint32_t>(in_.below(may_be_indirect ? program_.indirect_count() + 1 : 1, "indirection"));
    in_.require(operand_error(program_, operand));
    return operand;
  }
  AttributeWord read_attribute(const AttributeSlot& slot) {
    if (slot.kind == AttributeKind::kIntList) return {.integer = mapped(lists_, "list")};
    if (slot.kind == AttributeKind::kReal) return {.integer = static_cast<int64_t>(in_.word())};
    const int64_t value = in_.signed_number();
    if (slot.kind == AttributeKind::kString) {
      if (value < 0 || static_cast<uint64_t>(value) >= strings_.size())
        in_.fail(fmt::format("string {}", value));
      return {.integer = strings_[static_cast<size_t>(value)]};
    }
    if (value != 0 && text::is_enumerated(slot.kind) && text::value_name(slot.kind, value).empty())
      in_.fail(fmt::format("{} is {}", slot.name, value));
    return {.integer = value};
  }
  void read_iterations() {
    for (size_t n = in_.count("iterations"), i = 0; i < n; ++i) {
      const auto loop =
          static_cast<WrittenLoopId>(in_.below(program_.written_loop_count() + 1, "written-out loop"));
      if (loop < program_.written_loop_count()) {
        program_.next_iteration(loop);
        continue;
      }
      const auto outer = static_cast<IterationId>(in_.below(program_.iteration_count(), "iteration"));
      program_.begin_written_loop({outer, in_.below(2, "flag") != 0});
    }
  }
  void read_instructions() {
    std::vector<Operand> operands;
    std::vector<AttributeWord> attributes;
    for (size_t n = in_.count("instructions"), i = 0; i < n; ++i) {
      const auto opcode = static_cast<Opcode>(in_.below(kOpcodeCount, "opcode"));
      const InstructionDefinition& row = definition(opcode);
      const auto engine = static_cast<Engine>(in_.below(kEngineCount, "engine"));
      const uint8_t flags = in_.byte();
      if (flags & ~kFlagsAll) in_.fail(fmt::format("flags {}", flags));
      operands.resize(in_.byte());
      const bool repeats = !row.operands.empty() && (row.operands.back().accepts & kRepeats);
      if (!repeats && operands.size() != row.operands.size())
        in_.fail(
            fmt::format("{} has {} operands; it takes {}", row.name, operands.size(), row.operands.size()));
      const LocationId location = mapped(locations_, "location");
      const uint32_t name = mapped(strings_, "string");
      program_.set_iteration(static_cast<IterationId>(in_.below(program_.iteration_count(), "iteration")));
      for (Operand& operand : operands) operand = read_operand(true);
      attributes.resize(row.attributes.size());
      for (size_t k = 0; k < attributes.size(); ++k) attributes[k] = read_attribute(row.attributes[k]);
      program_.append(opcode, engine, operands, attributes, location, name, flags);
    }
    program_.set_iteration(kNoIteration);
  }
  uint32_t mapped(const std::vector<uint32_t>& ids, std::string_view what) {
    return ids[static_cast<size_t>(in_.below(ids.size(), what))];
  }

  Reader& in_;
  Program program_;
  std::vector<uint32_t> strings_, locations_, patterns_, lists_;
};

void write_executable(Writer& out, const Executable& executable) {
  out.number(static_cast<uint64_t>(version(executable.generation)));
  out.number(executable.semaphore_count);
  for (int64_t total :
       {executable.sbuf_bytes_per_partition_used, executable.psum_banks_used, executable.hbm_bytes_used,
        executable.spill_save_bytes, executable.spill_reload_bytes})
    out.signed_number(total);
  out.number(executable.streams.size());
  for (const Stream& stream : executable.streams) {
    out.byte(static_cast<uint8_t>(stream.engine));
    out.number(stream.queue);
  }
  out.number(executable.placements.size());
  for (const Placement& place : executable.placements) {
    out.byte(place.placed ? 1 : 0);
    if (!place.placed) continue;
    out.signed_number(place.address.partition);
    out.signed_number(place.address.byte_offset);
  }
  out.number(executable.schedule.size());
  for (const ScheduledInstruction& entry : executable.schedule) {
    out.number(entry.instruction);
    out.number(entry.stream);
    out.byte(static_cast<uint8_t>(entry.engine));
    out.byte(static_cast<uint8_t>(entry.trigger));
    out.byte(static_cast<uint8_t>(entry.dge));
    out.number(entry.wait_count);
    for (uint32_t wait : executable.waits_of(entry)) out.number(wait);
  }
}

Executable read_executable(Reader& in) {
  Executable result;
  result.program = std::make_shared<const Program>(ProgramReader(in).read());
  result.generation = static_cast<Generation>(in.below(5, "generation"));  // executable_error() refuses 0
  result.semaphore_count =
      static_cast<uint32_t>(in.below(std::numeric_limits<uint32_t>::max(), "semaphores"));
  for (int64_t* total : {&result.sbuf_bytes_per_partition_used, &result.psum_banks_used,
                         &result.hbm_bytes_used, &result.spill_save_bytes, &result.spill_reload_bytes})
    *total = in.signed_number();
  result.streams.resize(in.count("streams"));
  for (Stream& stream : result.streams) {
    stream.engine = static_cast<Engine>(in.below(kEngineCount, "engine"));
    stream.queue = static_cast<uint16_t>(in.below(1 << 16, "queue"));
  }
  result.placements.resize(in.count("placements"));
  for (Placement& place : result.placements) {
    place.placed = in.byte() != 0;
    if (!place.placed) continue;
    const int64_t partition = in.signed_number();
    if (partition < 0 || partition > std::numeric_limits<int32_t>::max())
      in.fail(fmt::format("partition {}", partition));
    place.address = {static_cast<int32_t>(partition), in.signed_number()};
  }
  result.schedule.resize(in.count("scheduled instructions"));
  for (ScheduledInstruction& entry : result.schedule) {
    entry.instruction = static_cast<InstructionIndex>(in.below(result.program->size(), "instruction"));
    entry.stream = static_cast<StreamId>(in.below(result.streams.size(), "stream"));
    entry.engine = static_cast<Engine>(in.below(kEngineCount, "engine"));
    entry.trigger = static_cast<Engine>(in.below(kEngineCount, "engine"));
    entry.dge = static_cast<DgeMode>(in.below(4, "DGE mode"));
    entry.waits = static_cast<uint32_t>(result.waits.size());
    entry.wait_count = static_cast<uint32_t>(in.count("waits"));
    for (uint32_t i = 0; i < entry.wait_count; ++i)
      result.waits.push_back(static_cast<uint32_t>(in.below(result.schedule.size(), "wait")));
  }
  in.require(executable_error(result));
  return result;
}

void require_end(const Reader& in) {
  if (in.left() != 0) in.fail(fmt::format("{} bytes too many", in.left()));
}

}  // namespace

std::vector<std::byte> encode(const Program& program, Compression compression) {
  Writer out;
  ProgramWriter(program).write(out);
  return wrap(FileKind::kProgram, out.take(), compression);
}

std::vector<std::byte> encode(const Executable& executable, Compression compression) {
  Writer out;
  ProgramWriter(*executable.program).write(out);
  write_executable(out, executable);
  return wrap(FileKind::kExecutable, out.take(), compression);
}

Program decode_program(std::span<const std::byte> file, std::string_view filename) {
  const std::vector<std::byte> payload = unwrap(file, FileKind::kProgram, filename);
  Reader in(payload, filename);
  Program program = ProgramReader(in).read();
  require_end(in);
  return program;
}

Executable decode_executable(std::span<const std::byte> file, std::string_view filename) {
  const std::vector<std::byte> payload = unwrap(file, FileKind::kExecutable, filename);
  Reader in(payload, filename);
  Executable executable = read_executable(in);
  require_end(in);
  return executable;
}

}  // namespace opentrn::isa
