#include "isa/program.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "base/host_memory.h"
#include "base/interrupt.h"

namespace opentrn::isa {

namespace {

uint64_t hash_words(std::span<const uint64_t> words) {
  uint64_t h = 0x9E3779B97F4A7C15u ^ words.size();
  for (uint64_t word : words) {
    h ^= word;
    h *= 0xFF51AFD7ED558CCDu;
    h ^= h >> 32;
  }
  return h;
}

std::span<const uint64_t> as_words(const void* data, size_t count) {
  return {static_cast<const uint64_t*>(data), count};
}

uint64_t hash_pattern(const Pattern& pattern) {
  return hash_words(as_words(pattern.dims.data(), 2 * static_cast<size_t>(pattern.rank))) * 31 + pattern.rank;
}

// How often, and for how much: what a program takes here and while it is scheduled.
constexpr size_t kInstructionsOfCheck = size_t{1} << 18;
constexpr int64_t kBytesPerInstruction = 400;

// A program that is too large for the host's memory ends here, not the process.
void expect_room(size_t instructions) {
  expect_host_memory(static_cast<int64_t>(instructions) * kBytesPerInstruction,
                     fmt::format("a program of {} instructions and more", instructions));
}

}  // namespace

int64_t Pattern::element_count() const {
  int64_t count = 1;
  for (const Dim& dim : view()) count *= dim.count;
  return count;
}

int64_t Pattern::elements_per_partition() const {
  int64_t count = 1;
  for (int i = 1; i < rank; ++i) count *= dims[i].count;
  return count;
}

int64_t Pattern::min_offset() const {
  int64_t offset = 0;
  for (const Dim& dim : view()) offset += std::min<int64_t>(0, dim.step * (dim.count - 1));
  return offset;
}

int64_t Pattern::max_offset() const {
  int64_t offset = 0;
  for (const Dim& dim : view()) offset += std::max<int64_t>(0, dim.step * (dim.count - 1));
  return offset;
}

Program::Program() {
  intern_string("");
  add(patterns_, {});
  add(locations_, {0, 0, 0});
  add(iterations_, WrittenLoopId{0});
}

TensorId Program::add_tensor(Tensor tensor) {
  const auto id = static_cast<TensorId>(tensors_.size());
  if (tensor.loop) made_in_loop_[*tensor.loop].push_back(id);
  add(tensors_, std::move(tensor));
  return id;
}

std::span<const TensorId> Program::made_in_loop(InstructionIndex begin) const {
  const auto found = made_in_loop_.find(begin);
  if (found == made_in_loop_.end()) return {};
  return found->second;
}

PatternId Program::intern_pattern(const Pattern& pattern) {
  if (patterns_[last_pattern_] == pattern) return last_pattern_;
  const uint64_t key = hash_pattern(pattern);
  auto [first, last] = pattern_index_.equal_range(key);
  for (; first != last; ++first)
    if (patterns_[first->second] == pattern) return last_pattern_ = first->second;
  add(patterns_, pattern);
  last_pattern_ = static_cast<PatternId>(patterns_.size() - 1);
  pattern_index_.emplace(key, last_pattern_);
  return last_pattern_;
}

uint32_t Program::intern_string(std::string_view text) {
  auto [it, inserted] = string_index_.try_emplace(std::string(text), static_cast<uint32_t>(strings_.size()));
  if (inserted) add(strings_, std::string(text));
  return it->second;
}

LocationId Program::intern_location(std::string_view file, int line, std::string_view function) {
  const Location location{intern_string(file), line, intern_string(function)};
  const uint64_t words[] = {(uint64_t{location.file} << 32) | location.function, static_cast<uint64_t>(line)};
  const uint64_t key = hash_words(words);
  auto [first, last] = location_index_.equal_range(key);
  for (; first != last; ++first) {
    const Location& other = locations_[first->second];
    if (other.file == location.file && other.line == line && other.function == location.function)
      return first->second;
  }
  add(locations_, location);
  location_index_.emplace(key, static_cast<LocationId>(locations_.size() - 1));
  return static_cast<LocationId>(locations_.size() - 1);
}

uint32_t Program::intern_list(std::span<const int64_t> values) {
  const uint64_t key = hash_words(as_words(values.data(), values.size()));
  auto [first, last] = list_index_.equal_range(key);
  for (; first != last; ++first) {
    const auto [begin, length] = lists_[first->second];
    if (std::ranges::equal(std::span(list_words_).subspan(begin, length), values)) return first->second;
  }
  add(lists_, {static_cast<uint32_t>(list_words_.size()), static_cast<uint32_t>(values.size())});
  add_all(list_words_, values);
  list_index_.emplace(key, static_cast<uint32_t>(lists_.size() - 1));
  return static_cast<uint32_t>(lists_.size() - 1);
}

uint32_t Program::intern_attributes(std::span<const AttributeWord> words) {
  if (words.empty()) return 0;
  const uint64_t key = hash_words(as_words(words.data(), words.size()));
  auto [first, last] = attribute_index_.equal_range(key);
  for (; first != last; ++first) {
    const uint32_t begin = first->second;
    if (begin + words.size() <= attributes_.size() &&
        std::memcmp(attributes_.data() + begin, words.data(), words.size_bytes()) == 0)
      return begin;
  }
  const uint32_t begin = static_cast<uint32_t>(attributes_.size());
  add_all(attributes_, words);
  attribute_index_.emplace(key, begin);
  return begin;
}

uint32_t Program::add_indirect(const Indirect& indirect) {
  add(indirects_, indirect);
  return static_cast<uint32_t>(indirects_.size());
}

InstructionIndex Program::append(Opcode opcode, Engine engine, std::span<const Operand> operands,
                                 std::span<const AttributeWord> attributes, LocationId location,
                                 uint32_t name, uint8_t flags) {
  interrupt::poll();
  OPENTRN_CHECK(operands.size() <= 255, "{} operands", operands.size());
  if (instructions_.size() % kInstructionsOfCheck == kInstructionsOfCheck - 1)
    expect_room(instructions_.size());
  Instruction instruction;
  instruction.opcode = opcode;
  instruction.engine = engine;
  instruction.operand_count = static_cast<uint8_t>(operands.size());
  instruction.flags = flags;
  instruction.operands = static_cast<uint32_t>(operands_.size());
  instruction.location = location;
  instruction.name = name;
  instruction.iteration = now_;
  const bool is_marker = opcode >= Opcode::kLoopBegin && opcode <= Opcode::kWhileEnd;
  if (is_marker) {  // markers are patched later, so they own their block
    instruction.attributes = static_cast<uint32_t>(attributes_.size());
    add_all(attributes_, attributes);
  } else {
    instruction.attributes = intern_attributes(attributes);
  }
  add_all(operands_, operands);
  add(instructions_, instruction);
  return static_cast<InstructionIndex>(instructions_.size() - 1);
}

IterationId Program::begin_written_loop(WrittenLoop loop) {
  OPENTRN_CHECK(loop.outer < iterations_.size(), "iteration {} of {}", loop.outer, iterations_.size());
  add(written_loops_, loop);
  return next_iteration(static_cast<WrittenLoopId>(written_loops_.size() - 1));
}

IterationId Program::next_iteration(WrittenLoopId loop) {
  OPENTRN_CHECK(loop < written_loops_.size(), "loop {} of {}", loop, written_loops_.size());
  add(iterations_, loop);
  return static_cast<IterationId>(iterations_.size() - 1);
}

void Program::set_attribute(InstructionIndex index, int slot, AttributeWord word) {
  const Opcode opcode = instructions_[index].opcode;
  OPENTRN_CHECK(opcode >= Opcode::kLoopBegin && opcode <= Opcode::kWhileEnd, "attribute block is shared");
  attributes_[instructions_[index].attributes + slot] = word;
}

Program Program::without_instructions() const {
  Program result = *this;
  result.instructions_ = {};
  result.operands_ = {};
  result.edges_.clear();
  return result;
}

InstructionIndex Program::append_like(const Instruction& instruction, std::span<const Operand> operands) {
  interrupt::poll();
  OPENTRN_CHECK(operands.size() <= 255, "{} operands", operands.size());
  Instruction copy = instruction;
  copy.operand_count = static_cast<uint8_t>(operands.size());
  copy.operands = static_cast<uint32_t>(operands_.size());
  add_all(operands_, operands);
  add(instructions_, copy);
  return static_cast<InstructionIndex>(instructions_.size() - 1);
}

void Program::set_before_move(std::function<void()> wait) {
  before_move_ = nullptr;
  if (!wait) return;
  const auto twice = [this](auto&... tables) {
    (make_room(tables, std::max<size_t>(4096, tables.size())), ...);
  };
  twice(instructions_, operands_, patterns_, indirects_, attributes_, list_words_, lists_, strings_,
        locations_, tensors_, written_loops_, iterations_);
  before_move_ = std::move(wait);
}

std::span<const int64_t> Program::attribute_list(const Instruction& in, int slot) const {
  const auto [begin, length] = lists_[static_cast<size_t>(attribute_int(in, slot))];
  return {list_words_.data() + begin, length};
}

SourceLocation Program::location(LocationId id) const {
  const Location& location = locations_[id];
  return {strings_[location.file], location.line, strings_[location.function]};
}

size_t Program::memory_bytes() const {
  return instructions_.capacity() * sizeof(Instruction) + operands_.capacity() * sizeof(Operand) +
         patterns_.capacity() * sizeof(Pattern) + indirects_.capacity() * sizeof(Indirect) +
         attributes_.capacity() * sizeof(AttributeWord) + tensors_.capacity() * sizeof(Tensor) +
         written_loops_.capacity() * sizeof(WrittenLoop) + iterations_.capacity() * sizeof(WrittenLoopId) +
         edges_.capacity() * sizeof(DependencyEdge);
}

}  // namespace opentrn::isa
