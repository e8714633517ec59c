#include "isa/constraints_context.h"

#include <algorithm>

#include "arch/stated.h"
#include "arch/tables.h"
#include "isa/constraints.h"

namespace opentrn::isa::constraint {

namespace {

std::string describe(const Program& program, const Operand& operand) {
  switch (operand.kind) {
    case OperandKind::kNone: return "none";
    case OperandKind::kImmediate: return fmt::format("{}", operand.immediate);
    case OperandKind::kRegister: return fmt::format("register {}", operand.tensor);
    case OperandKind::kAccess: break;
  }
  const Tensor& tensor = program.tensor(operand.tensor);
  std::string text = fmt::format("{}[", name(operand.dtype));
  const Pattern& pattern = program.pattern(operand);
  for (int i = 0; i < pattern.rank; ++i) text += fmt::format("{}{}", i ? ", " : "", pattern.dims[i].count);
  text += fmt::format("] in {}", name(tensor.space));
  if (!tensor.name.empty()) text += fmt::format(" ({})", tensor.name);
  return text;
}

std::string shape(const Tile& tile) {
  return fmt::format("{} partitions x {} elements", tile.partitions, tile.free);
}

}  // namespace

const Limits& limits(Generation generation) {
  static const auto* const all = [] {
    auto* table = new std::array<Limits, size_t{version(kGenerations.back())} + 1>{};
    for (Generation g : kGenerations) {
      const arch::NeuronCore& core = arch::neuron_core(g);
      if (arch::stand_in(g) != g) continue;  // NKI starts with v2
      (*table)[static_cast<size_t>(version(g))] = {core.partitions,
                                                   core.sbuf_bytes_per_partition,
                                                   core.psum_bytes_per_partition,
                                                   core.psum_bank_bytes_per_partition,
                                                   core.matmul_contraction_max,
                                                   core.matmul_stationary_columns_max};
    }
    return table;
  }();
  const Limits& found = all->at(static_cast<size_t>(version(generation)));
  if (found.partitions == 0)
    throw Fault(FaultKind::kInput, "isa.generation",
                fmt::format("no limits are known for NeuronCore-v{}", version(generation)),
                "NKI programs need NeuronCore-v2, v3 or v4");
  return found;
}

std::string DTypes::text() const {
  std::string list;
  for (int i = 0; i < kDTypeCount; ++i)
    if (has(static_cast<DType>(i)))
      list += fmt::format("{}{}", list.empty() ? "" : ", ", name(static_cast<DType>(i)));
  return list;
}

Tile Check::resolve(const Operand& operand) const {
  const Tensor& tensor = program.tensor(operand.tensor);
  const Pattern& pattern = program.pattern(operand);
  Tile tile{&operand, &tensor, &pattern, 1, 1};
  int first = 0;
  if (is_on_chip(tensor.space) && pattern.rank > 0) {
    tile.partitions = pattern.dims[0].count;
    first = 1;
  }
  for (int i = first; i < pattern.rank; ++i) tile.free *= pattern.dims[i].count;
  return tile;
}

std::string_view Check::slot_name(int slot) const {
  const auto last = static_cast<int>(definition.operands.size()) - 1;
  return definition.operands[static_cast<size_t>(std::min(slot, last))].name;
}

void Check::raise(FaultKind kind, std::string label, std::string message, std::string hint) const {
  OPENTRN_CHECK(std::ranges::any_of(constraints(), [&](const Constraint& c) { return c.label == label; }),
                "rule {} is not in the table", label);
  Fault fault(kind, std::move(label),
              fmt::format("{}: {} ({})", definition.name, message, opentrn::name(generation)),
              std::move(hint));
  for (int i = 0; i < in.operand_count; ++i)
    if (operand(i).present())
      fault.add_note(fmt::format("{} = {}", slot_name(i), describe(program, operand(i))));
  if (in.engine != Engine::kUnknown) fault.add_note(fmt::format("engine = {}", name(in.engine)));
  throw fault;
}

void Check::fail(int number, std::string message, std::string hint) const {
  raise(FaultKind::kProgram, fmt::format("{}.C{}", definition.name, number), std::move(message),
        std::move(hint));
}

void Check::fail_shared(int number, FaultKind kind, std::string message, std::string hint) const {
  raise(kind, fmt::format("isa.C{}", number), std::move(message), std::move(hint));
}

void Check::shapes_differ(int number, int a, int b) const {
  fail(number,
       fmt::format("{} has {}, {} has {}; they must be equal", slot_name(a), shape(tile(a)), slot_name(b),
                   shape(tile(b))),
       "slice or reshape one of them");
}

void Check::dtypes_differ(int number, int a, int b) const {
  fail(number,
       fmt::format("{} is {}, {} is {}; they must be equal", slot_name(a), name(tile(a).dtype()),
                   slot_name(b), name(tile(b).dtype())),
       "convert with tensor_copy first");
}

void Check::wrong_elements(int number, int slot, int64_t expected) const {
  fail(number, fmt::format("{} has {} elements per partition; it must have {}", slot_name(slot),
                           tile(slot).free, expected));
}

void Check::not_a_vector(int number, int slot, int data) const {
  fail(number,
       fmt::format("{} has {}; it must be a [{}, 1] tile", slot_name(slot), shape(tile(slot)),
                   tile(data).partitions),
       "pass a tile with one element per partition");
}

void Check::wrong_dtype(int number, int slot, DTypes allowed) const {
  fail(number, fmt::format("{} is {}; it must be one of {}", slot_name(slot), name(tile(slot).dtype()),
                           allowed.text()));
}

void Check::both_in_psum(int number, int a, int b) const {
  fail(number, fmt::format("{} and {} are both in PSUM; only one of them may be", slot_name(a), slot_name(b)),
       "copy one of them to SBUF with tensor_copy");
}

void Check::is_a_bitvec(int number, AluOp op) const {
  fail(number, fmt::format("{} is a bit-vector operator; this instruction takes arithmetic ones", name(op)));
}

}  // namespace opentrn::isa::constraint
