#include "isa/splice.h"

#include "isa/definitions.h"

namespace opentrn::isa {

Splice::Splice(const Program& from, Program& into, std::optional<InstructionIndex> loop)
    : from_(from),
      into_(into),
      loop_(loop),
      first_register_(into.register_count()),
      tensors_(from.tensor_count()),
      locations_(from.location_count()) {
  for (uint32_t i = 0; i < from.register_count(); ++i) into.add_register();
}

void Splice::bind(TensorId tensor, TensorId place) {
  const Tensor &source = from_.tensor(tensor), &target = into_.tensor(place);
  OPENTRN_CHECK(is_on_chip(source.space) == is_on_chip(target.space) && source.bytes() == target.bytes(),
                "'{}' of {} bytes stands for '{}' of {}", target.name, target.bytes(), source.name,
                source.bytes());
  tensors_[tensor] = place;
}

TensorId Splice::tensor(TensorId of_source) {
  std::optional<TensorId>& known = tensors_[of_source];
  if (known) return *known;
  Tensor made = from_.tensor(of_source);
  made.location = location(made.location);
  made.is_input = made.is_output = false;
  if (made.loop)
    made.loop = made_.at(*made.loop);
  else
    made.loop = loop_;
  known = into_.add_tensor(std::move(made));
  return *known;
}

LocationId Splice::location(LocationId of_source) {
  std::optional<LocationId>& known = locations_[of_source];
  if (!known) {
    const SourceLocation where = from_.location(of_source);
    known = of_source == 0 ? 0 : into_.intern_location(where.file, where.line, where.function);
  }
  return *known;
}

Operand Splice::operand(const Operand& of_source) {
  Operand made = of_source;
  if (made.kind == OperandKind::kRegister) made.tensor += first_register_;
  if (!made.is_access()) return made;
  made.tensor = tensor(of_source.tensor);
  made.pattern = into_.intern_pattern(from_.pattern(of_source));
  if (of_source.indirect == kNoIndirect) return made;
  const auto [found, fresh] = indirects_.try_emplace(of_source.indirect, kNoIndirect);
  if (fresh) {
    Indirect indirect = from_.indirect(of_source);
    indirect.index = operand(indirect.index);
    found->second = into_.add_indirect(indirect);
  }
  made.indirect = found->second;
  return made;
}

AttributeWord Splice::attribute(const Instruction& instruction, size_t slot) {
  const auto at = static_cast<int>(slot);
  switch (definition(instruction.opcode).attributes[slot].kind) {
    case AttributeKind::kIntList:
      return {.integer = into_.intern_list(from_.attribute_list(instruction, at))};
    case AttributeKind::kString:
      return {.integer = into_.intern_string(
                  from_.string(static_cast<uint32_t>(from_.attribute_int(instruction, at))))};
    default: return {.integer = from_.attribute_int(instruction, at)};
  }
}

InstructionIndex Splice::copy(const Instruction& instruction, uint8_t flags) {
  const auto index = static_cast<InstructionIndex>(&instruction - from_.instructions().data());
  std::vector<Operand> operands;
  for (const Operand& each : from_.operands(instruction)) operands.push_back(operand(each));
  std::vector<AttributeWord> words;
  for (size_t i = 0; i < definition(instruction.opcode).attributes.size(); ++i)
    words.push_back(attribute(instruction, i));
  const bool ends_loop = instruction.opcode == Opcode::kLoopEnd,
             ends_while = instruction.opcode == Opcode::kWhileEnd;
  const int match = ends_while || instruction.opcode == Opcode::kWhileBegin
                        ? static_cast<int>(slot::while_loop::kAMatch)
                        : static_cast<int>(slot::loop::kAMatch);
  InstructionIndex begin = 0;
  if (ends_loop || ends_while) {
    begin = made_.at(static_cast<InstructionIndex>(from_.attribute_int(instruction, match)));
    words[static_cast<size_t>(match)].integer = begin;
  }
  const uint32_t name = instruction.name == 0 ? 0 : into_.intern_string(from_.string(instruction.name));
  const InstructionIndex made = into_.append(instruction.opcode, instruction.engine, operands, words,
                                             location(instruction.location), name, instruction.flags | flags);
  if (ends_loop || ends_while) into_.set_attribute(begin, match, {.integer = made});
  made_[index] = made;
  return made;
}

void Splice::copy() {
  for (const Instruction& instruction : from_.instructions()) copy(instruction);
  for (const DependencyEdge& edge : from_.edges())
    into_.add_edge({made_.at(edge.consumer), made_.at(edge.producer)});
}

}  // namespace opentrn::isa
