// The printer of the text form; text_parse.cc is its inverse.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "isa/definitions.h"
#include "isa/text.h"
#include "isa/text_names.h"

namespace opentrn::isa {

namespace {

using Out = fmt::memory_buffer;

template <typename... Args>
void put(Out& out, fmt::format_string<Args...> format, Args&&... args) {
  fmt::format_to(std::back_inserter(out), format, std::forward<Args>(args)...);
}
void put_raw(Out& out, std::string_view text) { out.append(text.data(), text.data() + text.size()); }

void put_quoted(Out& out, std::string_view text) {
  out.push_back('"');
  for (char c : text) {
    if (c == '"' || c == '\\') {
      out.push_back('\\');
      out.push_back(c);
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      put(out, "\\x{:02x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    } else {
      out.push_back(c);
    }
  }
  out.push_back('"');
}

bool is_plain(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '/' || c == '-' ||
           c == '<' || c == '>';
  });
}

void put_word(Out& out, std::string_view text) {
  if (is_plain(text))
    put_raw(out, text);
  else
    put_quoted(out, text);
}

void put_location(Out& out, const Program& program, LocationId id) {
  if (id == 0) return;
  const SourceLocation location = program.location(id);
  put_raw(out, " @ ");
  put_word(out, location.file);
  put(out, ":{}", location.line);
  if (location.function.empty()) return;
  out.push_back(' ');
  put_word(out, location.function);
}

void put_real(Out& out, double value) {
  if (std::isnan(value)) return put_raw(out, std::signbit(value) ? "-nan" : "nan");
  put(out, "{}", value);
}

bool is_whole(const Tensor& tensor, const Operand& operand, const Pattern& pattern) {
  if (operand.offset != 0 || operand.dtype != tensor.dtype || pattern.rank != tensor.shape.size() ||
      pattern.rank == 0)
    return false;
  int64_t step = 1;
  for (int i = pattern.rank - 1; i >= 0; --i) {
    const Dim& dim = pattern.dims[static_cast<size_t>(i)];
    if (dim.count != tensor.shape[static_cast<size_t>(i)] || dim.step != step) return false;
    step *= dim.count;
  }
  return true;
}

void put_access(Out& out, const Program& program, const Operand& operand) {
  const Tensor& tensor = program.tensor(operand.tensor);
  const Pattern& pattern = program.pattern(operand);
  put(out, "%{}", operand.tensor);
  if (operand.dtype != tensor.dtype) put(out, ":{}", name(operand.dtype));
  if (!is_whole(tensor, operand, pattern)) {
    out.push_back('[');
    std::string_view separator;
    if (operand.offset != 0 || pattern.rank == 0) {
      put(out, "+{}", operand.offset);
      separator = ", ";
    }
    for (const Dim& dim : pattern.view()) {
      put(out, "{}{}:{}", separator, dim.step, dim.count);
      separator = ", ";
    }
    out.push_back(']');
  }
}

void put_operand(Out& out, const Program& program, const Operand& operand) {
  switch (operand.kind) {
    case OperandKind::kNone: return put_raw(out, "none");
    case OperandKind::kImmediate: return put_real(out, operand.immediate);
    case OperandKind::kRegister: return put(out, "r{}", operand.tensor);
    case OperandKind::kAccess: break;
  }
  put_access(out, program, operand);
  if (operand.indirect == kNoIndirect) return;
  const Indirect& indirect = program.indirect(operand);
  OPENTRN_CHECK(indirect.index.indirect == kNoIndirect, "an index is itself indirect");
  constexpr std::string_view kKinds[] = {"scalar", "vector", "tensor"};
  put(out, "{{{} dim={} index=", kKinds[static_cast<size_t>(indirect.kind)], indirect.dim);
  put_operand(out, program, indirect.index);
  put(out, " stride={} bound={} elements={}}}", indirect.stride, indirect.bound, indirect.num_elem);
}

void put_list(Out& out, std::span<const int64_t> list) {
  out.push_back('[');
  for (size_t i = 0; i < list.size(); ++i) put(out, "{}{}", i ? ", " : "", list[i]);
  out.push_back(']');
}

// Zero is left out, and none for an optional operator; operators and lists always show.
void put_attribute(Out& out, const Program& program, const Instruction& in, int index,
                   const AttributeSlot& slot) {
  const int64_t value = program.attribute_int(in, index);
  if (text::is_accumulate(slot) && value >= -1 && value <= 1)
    return put(out, " {}={}", slot.name, value < 0 ? "auto" : value ? "true" : "false");
  switch (slot.kind) {
    case AttributeKind::kOptionalAluOp:
      if (value == -1) return;
      break;
    case AttributeKind::kAluOp:
    case AttributeKind::kActivation: break;
    case AttributeKind::kIntList:
      put(out, " {}=", slot.name);
      return put_list(out, program.attribute_list(in, index));
    case AttributeKind::kReal:
      if (value == 0) return;  // the bits of +0.0
      put(out, " {}=", slot.name);
      return put_real(out, program.attribute_real(in, index));
    case AttributeKind::kString:
      put(out, " {}=", slot.name);
      return put_quoted(out, program.string(static_cast<uint32_t>(value)));
    default:
      if (value == 0) return;
  }
  const std::string_view named = text::value_name(slot.kind, value);
  if (named.empty())
    put(out, " {}={}", slot.name, value);
  else
    put(out, " {}={}", slot.name, named);
}

void put_instruction(Out& out, const Program& program, const Instruction& in) {
  const InstructionDefinition& row = definition(in.opcode);
  put_raw(out, row.name);
  if (in.engine != Engine::kUnknown) put(out, " on {}", name(in.engine));
  const int slots = static_cast<int>(row.operands.size());
  const bool repeats = slots > 0 && (row.operands.back().accepts & kRepeats);
  OPENTRN_CHECK(repeats || in.operand_count <= slots, "{} has {} operands", row.name, in.operand_count);
  for (int i = 0; i < in.operand_count; ++i) {
    const std::string_view slot_name = row.operands[static_cast<size_t>(std::min(i, slots - 1))].name;
    if (repeats && i == slots - 1) {
      put(out, " {}=[", slot_name);
      for (int k = i; k < in.operand_count; ++k) {
        if (k > i) put_raw(out, ", ");
        put_operand(out, program, program.operand(in, k));
      }
      out.push_back(']');
      break;
    }
    if (!program.operand(in, i).present()) continue;
    put(out, " {}=", slot_name);
    put_operand(out, program, program.operand(in, i));
  }
  OPENTRN_CHECK(in.attributes + row.attributes.size() <= program.attribute_word_count(),
                "{} lacks attributes", row.name);
  for (size_t i = 0; i < row.attributes.size(); ++i)
    put_attribute(out, program, in, static_cast<int>(i), row.attributes[i]);
  for (const auto& [flag, word] : text::kFlagWords)
    if (in.flags & flag) put(out, " {}", word);
  if (in.iteration != kNoIteration) put(out, " iteration={}", in.iteration);
  if (in.name != 0) {
    put_raw(out, " name=");
    put_quoted(out, program.string(in.name));
  }
}

int64_t product(std::span<const int64_t> sizes) {
  int64_t total = 1;
  for (int64_t size : sizes) total *= size;
  return total;
}

void put_tensor(Out& out, const Program& program, TensorId id) {
  const Tensor& tensor = program.tensor(id);
  put(out, "tensor %{} {} {} ", id, name(tensor.space), name(tensor.dtype));
  put_list(out, tensor.shape);
  const bool has_rows = is_on_chip(tensor.space) && !tensor.shape.empty();
  const int64_t rows = has_rows ? tensor.shape[0] : 1;
  const int64_t row_elements = product(std::span(tensor.shape).subspan(has_rows ? 1 : 0));
  if (tensor.rows != rows || tensor.row_elements != row_elements)
    put(out, " rows {} x {}", tensor.rows, tensor.row_elements);
  if (!tensor.name.empty()) {
    out.push_back(' ');
    put_quoted(out, tensor.name);
  }
  if (tensor.address) put(out, " at {}:{}", tensor.address->partition, tensor.address->byte_offset);
  if (tensor.is_input) put_raw(out, " input");
  if (tensor.is_output) put_raw(out, " output");
  if (tensor.filled) put_raw(out, " filled");
  if (tensor.loop) put(out, " loop {}", *tensor.loop);
  put_location(out, program, tensor.location);
  out.push_back('\n');
}

void put_iterations(Out& out, const Program& program) {
  WrittenLoopId known = 0;
  for (IterationId i = 1; i < program.iteration_count(); ++i) {
    const WrittenLoopId loop = program.loop_of(i);
    put(out, "iteration {} of {}", i, loop);
    if (loop >= known) {
      known = loop + 1;
      put(out, " in {}{}", program.written_loop(loop).outer,
          program.written_loop(loop).independent ? " independent" : "");
    }
    out.push_back('\n');
  }
}

bool begins(Opcode opcode) { return opcode == Opcode::kLoopBegin || opcode == Opcode::kWhileBegin; }
bool ends(Opcode opcode) { return opcode == Opcode::kLoopEnd || opcode == Opcode::kWhileEnd; }

void put_program(Out& out, const Program& program) {
  put_raw(out, "opentrn program 1 ");
  put_quoted(out, program.name);
  put(out, "\nregisters {}\n", program.register_count());
  for (TensorId id = 0; id < program.tensor_count(); ++id) put_tensor(out, program, id);
  put_iterations(out, program);
  size_t depth = 0;
  for (const Instruction& in : program.instructions()) {
    if (ends(in.opcode) && depth > 0) --depth;
    for (size_t i = 0; i < std::min<size_t>(depth, 20); ++i) put_raw(out, "  ");
    put_instruction(out, program, in);
    put_location(out, program, in.location);
    out.push_back('\n');
    if (begins(in.opcode)) ++depth;
  }
  for (const DependencyEdge& edge : program.edges())
    put(out, "edge {} after {}\n", edge.consumer, edge.producer);
}

void put_schedule_entry(Out& out, const Executable& executable, size_t index) {
  const ScheduledInstruction& entry = executable.schedule[index];
  put(out, "run {} stream {} on {}", entry.instruction, entry.stream, name(entry.engine));
  if (entry.trigger != Engine::kUnknown) put(out, " trigger {}", name(entry.trigger));
  // Compute instructions carry the default, none.
  if (entry.dge != DgeMode::kNone)
    put(out, " dge {}", text::value_name(AttributeKind::kDgeMode, static_cast<int64_t>(entry.dge)));
  if (entry.wait_count > 0) {
    put_raw(out, " wait [");
    const std::span<const uint32_t> waits = executable.waits_of(entry);
    for (size_t i = 0; i < waits.size(); ++i) put(out, "{}{}", i ? ", " : "", waits[i]);
    out.push_back(']');
  }
  put(out, "  # {}: ", index);
  put_instruction(out, *executable.program, executable.program->instruction(entry.instruction));
  out.push_back('\n');
}

}  // namespace

std::string to_text(const Program& program, const Instruction& instruction) {
  Out out;
  put_instruction(out, program, instruction);
  return fmt::to_string(out);
}

std::string to_text(const Program& program) {
  Out out;
  put_program(out, program);
  return fmt::to_string(out);
}

std::string to_text(const Executable& executable) {
  Out out;
  put_program(out, *executable.program);
  put(out, "executable 1 v{}\n", version(executable.generation));
  put(out, "totals semaphores={} sbuf={} psum_banks={} hbm={} spill_save={} spill_reload={}\n",
      executable.semaphore_count, executable.sbuf_bytes_per_partition_used, executable.psum_banks_used,
      executable.hbm_bytes_used, executable.spill_save_bytes, executable.spill_reload_bytes);
  for (size_t i = 0; i < executable.streams.size(); ++i)
    put(out, "stream {} {} queue {}\n", i, name(executable.streams[i].engine), executable.streams[i].queue);
  for (size_t i = 0; i < executable.placements.size(); ++i)
    if (executable.placements[i].placed)
      put(out, "place %{} at {}:{}\n", i, executable.placements[i].address.partition,
          executable.placements[i].address.byte_offset);
  for (size_t i = 0; i < executable.schedule.size(); ++i) put_schedule_entry(out, executable, i);
  return fmt::to_string(out);
}

}  // namespace opentrn::isa
