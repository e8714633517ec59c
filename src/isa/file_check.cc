#include "isa/file_check.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "isa/definitions.h"

namespace opentrn::isa {

namespace {

constexpr int64_t kBytesMax = int64_t{1} << 56;

bool product_fits(int64_t& product, int64_t factor) {
  return !__builtin_mul_overflow(product, factor, &product) && product <= kBytesMax;
}

int match_slot(Opcode opcode) {
  return opcode == Opcode::kLoopBegin || opcode == Opcode::kLoopEnd ? int{slot::loop::kAMatch}
                                                                    : int{slot::while_loop::kAMatch};
}

// Markers nest, and each names its partner.
std::string loops_error(const Program& program) {
  std::vector<InstructionIndex> open;
  for (InstructionIndex i = 0; i < program.size(); ++i) {
    const Instruction& in = program.instruction(i);
    if (opens_loop(in.opcode)) open.push_back(i);
    if (!closes_loop(in.opcode)) continue;
    if (open.empty()) return fmt::format("instruction {} ends a loop that did not begin", i);
    const InstructionIndex begin = open.back();
    open.pop_back();
    const Instruction& first = program.instruction(begin);
    const bool same_kind = (first.opcode == Opcode::kLoopBegin) == (in.opcode == Opcode::kLoopEnd);
    if (!same_kind || program.attribute_int(in, match_slot(in.opcode)) != begin ||
        program.attribute_int(first, match_slot(first.opcode)) != i)
      return fmt::format("instructions {} and {} are not each other's match", begin, i);
  }
  if (!open.empty()) return fmt::format("instruction {} begins a loop that does not end", open.back());
  return {};
}

}  // namespace

std::string tensor_error(const Tensor& tensor) {
  const int64_t fewest =
      is_on_chip(tensor.space) ? 1 : 0;  // inputs and results of no elements, which no access has
  if (tensor.rows < fewest || tensor.row_elements < fewest)
    return fmt::format("{} rows of {} elements", tensor.rows, tensor.row_elements);
  int64_t bytes = size_bytes(tensor.dtype);
  if (!product_fits(bytes, std::max<int64_t>(tensor.rows, 1)) ||
      !product_fits(bytes, std::max<int64_t>(tensor.row_elements, 1)))
    return fmt::format("{} rows of {} elements are more than 2^56 bytes", tensor.rows, tensor.row_elements);
  if (tensor.shape.size() > kMaxRank)
    return fmt::format("{} dimensions; at most {}", tensor.shape.size(), kMaxRank);
  int64_t elements = 1, places = 1;
  for (int64_t size : tensor.shape)
    if (size < fewest || !product_fits(places, std::max<int64_t>(size, 1)) || !product_fits(elements, size))
      return fmt::format("a dimension of {}", size);
  if (!tensor.shape.empty() && elements != tensor.rows * tensor.row_elements)
    return fmt::format("a shape of {} elements for {} rows of {}", elements, tensor.rows,
                       tensor.row_elements);
  if (tensor.address && (tensor.address->partition < 0 || tensor.address->byte_offset < 0 ||
                         tensor.address->byte_offset > kBytesMax))
    return fmt::format("address {}:{}", tensor.address->partition, tensor.address->byte_offset);
  return {};
}

std::string pattern_error(const Pattern& pattern) {
  if (pattern.rank > kMaxRank) return fmt::format("{} dimensions; at most {}", pattern.rank, kMaxRank);
  int64_t count = 1, reach = 0;
  for (const Dim& dim : pattern.view()) {
    if (dim.count < 1 || !product_fits(count, dim.count)) return fmt::format("a count of {}", dim.count);
    int64_t extent = 0;
    if (dim.step == std::numeric_limits<int64_t>::min() ||
        __builtin_mul_overflow(dim.step < 0 ? -dim.step : dim.step, dim.count - 1, &extent) ||
        extent > kBytesMax || __builtin_add_overflow(reach, extent, &reach) || reach > kBytesMax)
      return fmt::format("a step of {} over {}", dim.step, dim.count);
  }
  return {};
}

std::string operand_error(const Program& program, const Operand& operand) {
  if (operand.kind == OperandKind::kRegister && operand.tensor >= program.register_count())
    return fmt::format("register {} of {}", operand.tensor, program.register_count());
  if (!operand.is_access()) return {};
  if (operand.tensor >= program.tensor_count())
    return fmt::format("tensor {} of {}", operand.tensor, program.tensor_count());
  if (operand.indirect > program.indirect_count())
    return fmt::format("indirection {} of {}", operand.indirect, program.indirect_count());
  const Pattern& pattern = program.pattern(operand);
  const int64_t bytes = size_bytes(operand.dtype);
  if (operand.offset < 0 || operand.offset > kBytesMax / bytes)
    return fmt::format("offset {}", operand.offset);
  if (operand.indirect != kNoIndirect) {
    const Indirect& indirect = program.indirect(operand);
    if (indirect.dim != 0 && indirect.dim >= pattern.rank)
      return fmt::format("dimension {} of {}", indirect.dim, pattern.rank);
    if (indirect.index.indirect != kNoIndirect) return "an index that is itself indirect";
    if (indirect.bound < 0 || indirect.bound > kBytesMax || indirect.num_elem < 0 ||
        indirect.num_elem > kBytesMax || indirect.stride < -kBytesMax || indirect.stride > kBytesMax)
      return "an indirection out of range";
    if (indirect.index.kind != OperandKind::kRegister && indirect.index.kind != OperandKind::kAccess)
      return "an index that is neither register nor tile";
    return operand_error(program, indirect.index);
  }
  const Tensor& tensor = program.tensor(operand.tensor);
  const int64_t last = operand.offset + pattern.max_offset();
  if (operand.offset + pattern.min_offset() < 0 || last >= kBytesMax / bytes ||
      (last + 1) * bytes > tensor.bytes())
    return fmt::format("an access that ends at element {} of a tensor of {} bytes", last, tensor.bytes());
  return {};
}

std::string program_error(const Program& program) {
  std::string error = loops_error(program);
  if (!error.empty()) return error;
  for (TensorId id = 0; id < program.tensor_count(); ++id) {
    const auto loop = program.tensor(id).loop;
    if (loop && (*loop >= program.size() || !opens_loop(program.instruction(*loop).opcode)))
      return fmt::format("tensor {} is made in a loop at instruction {}, where none begins", id, *loop);
  }
  for (const DependencyEdge& edge : program.edges())
    if (edge.consumer >= program.size() || edge.producer >= program.size())
      return fmt::format("edge {} -> {} in a program of {}", edge.consumer, edge.producer, program.size());
  return {};
}

std::string executable_error(const Executable& executable) {
  if (!generation_of_version(version(executable.generation)))
    return fmt::format("generation {}", version(executable.generation));
  if (executable.placements.size() > executable.program->tensor_count())
    return fmt::format("{} placements of {} tensors", executable.placements.size(),
                       executable.program->tensor_count());
  for (const Placement& place : executable.placements)
    if (place.placed && (place.address.partition < 0 || place.address.byte_offset < 0 ||
                         place.address.byte_offset > kBytesMax))
      return fmt::format("placement {}:{}", place.address.partition, place.address.byte_offset);
  for (const ScheduledInstruction& entry : executable.schedule)
    if (entry.waits > executable.waits.size() || entry.wait_count > executable.waits.size() - entry.waits)
      return fmt::format("waits {} + {} of {}", entry.waits, entry.wait_count, executable.waits.size());
  try {
    verify(executable);
  } catch (const Fault& fault) {
    return fault.message();
  }
  return {};
}

}  // namespace opentrn::isa
