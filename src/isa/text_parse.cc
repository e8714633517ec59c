// The parser of the text form: the inverse of text_print.cc. Whatever it accepts satisfies file_check.h.
#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "isa/definitions.h"
#include "isa/file_check.h"
#include "isa/text.h"
#include "isa/text_cursor.h"
#include "isa/text_names.h"

namespace opentrn::isa {

namespace {

using text::Cursor;

constexpr int64_t kTextVersion = 1;
constexpr int64_t kIdMax = std::numeric_limits<uint32_t>::max() - 1;
constexpr int64_t kTextRegistersMax = 1 << 24;
constexpr size_t kOperandsMax = 255;

class Parser {
 public:
  Parser(std::string_view text, std::string_view filename) : at_(text, filename) {}

  Program program() {
    read_program();
    if (more_) at_.fail("the program ended before this line");
    return std::move(program_);
  }
  Executable executable();

 private:
  void require(std::string error) const {
    if (!error.empty()) at_.fail(std::move(error));
  }
  void read_program();
  void read_header(std::string_view kind);
  void read_tensor();
  void read_edge();
  void read_iteration();
  void read_instruction();
  void read_operand_list(const InstructionDefinition& row, size_t slot, std::vector<Operand>& operands);
  AttributeWord read_attribute(const AttributeSlot& slot);
  Operand read_operand();
  Operand read_access(bool may_be_indirect);
  Pattern whole(const Tensor& tensor);
  Pattern read_pattern(Operand& operand);
  uint32_t read_indirect();
  LocationId read_location();
  std::vector<int64_t> read_list();
  Engine read_engine();
  DType read_dtype();
  Address read_address();
  void read_stream(Executable& executable);
  void read_placement(Executable& executable);
  void read_run(Executable& executable);
  void read_totals(Executable& executable);

  Cursor at_;
  Program program_;
  bool more_ = false;  // a line that belongs to no program stands next
};

void Parser::read_header(std::string_view kind) {
  if (!at_.next_line()) at_.fail("the text is empty");
  if (!at_.accept_word("opentrn") || !at_.accept_word(kind))
    at_.fail(fmt::format("expected 'opentrn {}'", kind));
  at_.integer(kTextVersion, kTextVersion, "the version");
}

void Parser::read_program() {
  read_header("program");
  program_.name = at_.quoted();
  at_.expect_line_end();
  if (!at_.next_line() || !at_.accept_word("registers")) at_.fail("expected 'registers'");
  const int64_t registers = at_.integer(0, kTextRegistersMax, "the number of registers");
  for (int64_t i = 0; i < registers; ++i) program_.add_register();
  at_.expect_line_end();
  while ((more_ = at_.next_line())) {
    if (at_.accept_word("tensor"))
      read_tensor();
    else if (at_.accept_word("edge"))
      read_edge();
    else if (at_.accept_word("iteration"))
      read_iteration();
    else if (at_.accept_word("executable"))
      break;
    else
      read_instruction();
    at_.expect_line_end();
  }
  require(program_error(program_));
}

std::vector<int64_t> Parser::read_list() {
  std::vector<int64_t> list;
  at_.expect('[');
  if (at_.accept(']')) return list;
  do list.push_back(at_.integer());
  while (at_.accept(','));
  at_.expect(']');
  return list;
}

DType Parser::read_dtype() {
  const std::string_view word = at_.word();
  const auto dtype = dtype_from_name(word);
  if (!dtype) at_.fail(fmt::format("'{}' is not an element type", word));
  return *dtype;
}

Engine Parser::read_engine() {
  const std::string_view word = at_.word();
  const auto engine = engine_from_name(word);
  if (!engine) at_.fail(fmt::format("'{}' is not an engine", word));
  return *engine;
}

Address Parser::read_address() {
  Address address;
  address.partition =
      static_cast<int32_t>(at_.integer(0, std::numeric_limits<int32_t>::max(), "the partition"));
  at_.expect(':');
  address.byte_offset = at_.integer();
  return address;
}

LocationId Parser::read_location() {
  if (!at_.accept('@')) return 0;
  const std::string file = at_.plain_or_quoted();
  at_.expect(':');
  const auto line = static_cast<int>(
      at_.integer(std::numeric_limits<int>::min(), std::numeric_limits<int>::max(), "the line"));
  const std::string function = at_.line_ends() ? std::string() : at_.plain_or_quoted();
  return program_.intern_location(file, line, function);
}

void Parser::read_tensor() {
  at_.expect('%');
  const auto next = static_cast<int64_t>(program_.tensor_count());
  at_.integer(next, next, "the tensor's number");
  Tensor tensor;
  const std::string_view space = at_.word();
  const auto memory = memory_space_from_name(space);
  if (!memory) at_.fail(fmt::format("'{}' is not a memory", space));
  tensor.space = *memory;
  tensor.dtype = read_dtype();
  tensor.shape = read_list();
  const bool has_rows = is_on_chip(tensor.space) && !tensor.shape.empty();
  tensor.rows = has_rows ? tensor.shape[0] : 1;
  tensor.row_elements = 1;
  for (size_t i = has_rows ? 1 : 0; i < tensor.shape.size(); ++i)
    if (__builtin_mul_overflow(tensor.row_elements, tensor.shape[i], &tensor.row_elements))
      at_.fail("the tensor is too large");
  if (at_.accept_word("rows")) {
    tensor.rows = at_.integer();
    if (!at_.accept_word("x")) at_.fail("expected 'x'");
    tensor.row_elements = at_.integer();
  }
  if (at_.peek() == '"') tensor.name = at_.quoted();
  if (at_.accept_word("at")) tensor.address = read_address();
  tensor.is_input = at_.accept_word("input");
  tensor.is_output = at_.accept_word("output");
  tensor.filled = at_.accept_word("filled");
  if (at_.accept_word("loop"))
    tensor.loop = static_cast<InstructionIndex>(at_.integer(0, UINT32_MAX, "the loop's first instruction"));
  tensor.location = read_location();
  require(tensor_error(tensor));
  program_.add_tensor(std::move(tensor));
}

void Parser::read_edge() {
  const auto consumer = static_cast<InstructionIndex>(at_.integer(0, kIdMax, "the consumer"));
  if (!at_.accept_word("after")) at_.fail("expected 'after'");
  program_.add_edge({consumer, static_cast<InstructionIndex>(at_.integer(0, kIdMax, "the producer"))});
}

Pattern Parser::whole(const Tensor& tensor) {
  if (tensor.shape.empty()) at_.fail("a tensor without a shape needs a pattern");
  Pattern pattern;
  pattern.rank = static_cast<uint8_t>(tensor.shape.size());
  int64_t step = 1;
  for (size_t i = tensor.shape.size(); i-- > 0;) {
    pattern.dims[i] = {step, tensor.shape[i]};
    step *= tensor.shape[i];
  }
  return pattern;
}

// After '['.
Pattern Parser::read_pattern(Operand& operand) {
  Pattern pattern;
  if (at_.accept('+')) {
    operand.offset = at_.integer();
    if (at_.accept(']')) return pattern;
    at_.expect(',');
  }
  do {
    if (pattern.rank == kMaxRank) at_.fail(fmt::format("more than {} dimensions", kMaxRank));
    Dim& dim = pattern.dims[pattern.rank++];
    dim.step = at_.integer();
    at_.expect(':');
    dim.count = at_.integer();
  } while (at_.accept(','));
  at_.expect(']');
  return pattern;
}

// After '{'.
uint32_t Parser::read_indirect() {
  Indirect indirect;
  const std::string_view kind = at_.word();
  if (kind == "scalar")
    indirect.kind = IndirectKind::kScalar;
  else if (kind == "vector")
    indirect.kind = IndirectKind::kVector;
  else if (kind == "tensor")
    indirect.kind = IndirectKind::kTensor;
  else
    at_.fail(fmt::format("'{}' is not a kind of index; scalar, vector and tensor are", kind));
  const auto key = [&](std::string_view name) {
    if (!at_.accept_word(name)) at_.fail(fmt::format("expected '{}='", name));
    at_.expect('=');
  };
  key("dim");
  indirect.dim = static_cast<uint8_t>(at_.integer(0, kMaxRank - 1, "dim"));
  key("index");
  indirect.index = at_.peek() == '%' ? read_access(false) : read_operand();
  key("stride");
  indirect.stride = at_.integer();
  key("bound");
  indirect.bound = at_.integer();
  key("elements");
  indirect.num_elem = at_.integer();
  at_.expect('}');
  return program_.add_indirect(indirect);
}

Operand Parser::read_access(bool may_be_indirect) {
  at_.expect('%');
  Operand operand;
  operand.kind = OperandKind::kAccess;
  operand.offset = 0;
  operand.tensor = static_cast<TensorId>(
      at_.integer(0, static_cast<int64_t>(program_.tensor_count()) - 1, "the tensor's number"));
  const Tensor& tensor = program_.tensor(operand.tensor);
  operand.dtype = at_.accept(':') ? read_dtype() : tensor.dtype;
  const Pattern pattern = at_.accept('[') ? read_pattern(operand) : whole(tensor);
  require(pattern_error(pattern));
  operand.pattern = program_.intern_pattern(pattern);
  if (may_be_indirect && at_.accept('{')) operand.indirect = read_indirect();
  require(operand_error(program_, operand));
  return operand;
}

Operand Parser::read_operand() {
  const char next = at_.peek();
  if (next == '%') return read_access(true);
  if (next == 'r') {
    at_.accept('r');
    const Operand operand = Operand::reg(static_cast<RegisterId>(at_.integer(0, kIdMax, "the register")));
    require(operand_error(program_, operand));
    return operand;
  }
  if (at_.accept_word("none")) return Operand::none();
  return Operand::imm(at_.real());
}

AttributeWord Parser::read_attribute(const AttributeSlot& slot) {
  AttributeWord word{.integer = 0};
  if (slot.kind == AttributeKind::kIntList) {
    word.integer = program_.intern_list(read_list());
  } else if (slot.kind == AttributeKind::kString) {
    word.integer = program_.intern_string(at_.quoted());
  } else if (slot.kind == AttributeKind::kReal) {
    word.real = at_.real();
  } else if (text::is_accumulate(slot) && at_.accept_word("auto")) {
    word.integer = -1;
  } else if (text::is_accumulate(slot) && at_.accept_word("true")) {
    word.integer = 1;
  } else if (text::is_accumulate(slot) && at_.accept_word("false")) {
    word.integer = 0;
  } else if (text::is_enumerated(slot.kind)) {
    const std::string_view name = at_.word();
    const auto value = text::value_from_name(slot.kind, name);
    if (!value) at_.fail(fmt::format("'{}' is not a value of {}", name, slot.name));
    word.integer = *value;
  } else {
    word.integer = at_.integer();
  }
  return word;
}

void Parser::read_operand_list(const InstructionDefinition& row, size_t slot,
                               std::vector<Operand>& operands) {
  at_.expect('[');
  operands.resize(slot);
  do {
    if (operands.size() == kOperandsMax)
      at_.fail(fmt::format("{} has more than {} operands", row.name, kOperandsMax));
    operands.push_back(read_operand());
  } while (at_.accept(','));
  at_.expect(']');
}

void Parser::read_iteration() {
  const auto next = static_cast<int64_t>(program_.iteration_count());
  at_.integer(next, next, "the iteration's number");
  if (!at_.accept_word("of")) at_.fail("expected 'of'");
  const auto loops = static_cast<int64_t>(program_.written_loop_count());
  const int64_t loop = at_.integer(0, loops, "the loop's number");
  if (loop < loops) {
    program_.next_iteration(static_cast<WrittenLoopId>(loop));
    return;
  }
  if (!at_.accept_word("in")) at_.fail("expected 'in', since the loop is new");
  const auto outer = static_cast<IterationId>(at_.integer(0, next - 1, "the iteration around it"));
  program_.begin_written_loop({outer, at_.accept_word("independent")});
}

void Parser::read_instruction() {
  const std::string_view opcode_name = at_.word();
  const auto opcode = opcode_from_name(opcode_name);
  if (!opcode) at_.fail(fmt::format("'{}' is not an instruction", opcode_name));
  const InstructionDefinition& row = definition(*opcode);
  const Engine engine = at_.accept_word("on") ? read_engine() : Engine::kUnknown;

  std::vector<Operand> operands(row.operands.size());
  std::vector<AttributeWord> attributes(row.attributes.size(), AttributeWord{.integer = 0});
  uint64_t seen = 0;
  for (size_t i = 0; i < attributes.size(); ++i) {
    if (row.attributes[i].kind == AttributeKind::kOptionalAluOp) attributes[i].integer = -1;
    if (row.attributes[i].kind == AttributeKind::kIntList) attributes[i].integer = program_.intern_list({});
  }
  uint32_t name = 0;
  uint8_t flags = 0;
  IterationId iteration = kNoIteration;
  while (!at_.line_ends() && at_.peek() != '@') {
    const std::string_view key = at_.word();
    if (const auto flag =
            std::ranges::find(text::kFlagWords, key, &std::pair<uint8_t, std::string_view>::second);
        flag != text::kFlagWords.end()) {
      flags |= flag->first;
      continue;
    }
    at_.expect('=');
    if (key == "iteration") {
      const auto last = static_cast<int64_t>(program_.iteration_count()) - 1;
      iteration = static_cast<IterationId>(at_.integer(0, last, "the iteration"));
      continue;
    }
    if (key == "name") {
      name = program_.intern_string(at_.quoted());
      continue;
    }
    const auto operand = std::ranges::find(row.operands, key, &OperandSlot::name);
    const auto attribute = std::ranges::find(row.attributes, key, &AttributeSlot::name);
    const bool is_operand = operand != row.operands.end();
    if (!is_operand && attribute == row.attributes.end())
      at_.fail(fmt::format("{} has no '{}'", row.name, key));
    const auto slot =
        static_cast<size_t>(is_operand ? operand - row.operands.begin() : attribute - row.attributes.begin());
    const uint64_t bit = uint64_t{1} << (is_operand ? slot : 32 + slot);
    if (seen & bit) at_.fail(fmt::format("'{}' is given twice", key));
    seen |= bit;
    if (!is_operand)
      attributes[slot] = read_attribute(*attribute);
    else if (operand->accepts & kRepeats)
      read_operand_list(row, slot, operands);
    else
      operands[slot] = read_operand();
  }
  program_.set_iteration(iteration);
  program_.append(*opcode, engine, operands, attributes, read_location(), name, flags);
  program_.set_iteration(kNoIteration);
}

void Parser::read_totals(Executable& executable) {
  const auto key = [&](std::string_view name) {
    if (!at_.accept_word(name)) at_.fail(fmt::format("expected '{}='", name));
    at_.expect('=');
    return at_.integer(0, std::numeric_limits<int64_t>::max(), name);
  };
  if (!at_.next_line() || !at_.accept_word("totals")) at_.fail("expected 'totals'");
  executable.semaphore_count = static_cast<uint32_t>(std::min<int64_t>(key("semaphores"), kIdMax));
  executable.sbuf_bytes_per_partition_used = key("sbuf");
  executable.psum_banks_used = key("psum_banks");
  executable.hbm_bytes_used = key("hbm");
  executable.spill_save_bytes = key("spill_save");
  executable.spill_reload_bytes = key("spill_reload");
  at_.expect_line_end();
}

void Parser::read_stream(Executable& executable) {
  const auto next = static_cast<int64_t>(executable.streams.size());
  if (next == std::numeric_limits<StreamId>::max()) at_.fail("too many streams");
  at_.integer(next, next, "the stream's number");
  Stream stream;
  stream.engine = read_engine();
  if (!at_.accept_word("queue")) at_.fail("expected 'queue'");
  stream.queue = static_cast<uint16_t>(at_.integer(0, std::numeric_limits<uint16_t>::max(), "the queue"));
  executable.streams.push_back(stream);
}

void Parser::read_placement(Executable& executable) {
  at_.expect('%');
  const int64_t tensor =
      at_.integer(0, static_cast<int64_t>(executable.placements.size()) - 1, "the tensor's number");
  if (!at_.accept_word("at")) at_.fail("expected 'at'");
  executable.placements[static_cast<size_t>(tensor)] = {true, read_address()};
}

void Parser::read_run(Executable& executable) {
  ScheduledInstruction entry;
  entry.instruction = static_cast<InstructionIndex>(at_.integer(0, kIdMax, "the instruction"));
  if (!at_.accept_word("stream")) at_.fail("expected 'stream'");
  entry.stream = static_cast<StreamId>(at_.integer(0, std::numeric_limits<StreamId>::max(), "the stream"));
  if (!at_.accept_word("on")) at_.fail("expected 'on'");
  entry.engine = read_engine();
  if (at_.accept_word("trigger")) entry.trigger = read_engine();
  if (at_.accept_word("dge")) {
    const std::string_view name = at_.word();
    const auto mode = text::value_from_name(AttributeKind::kDgeMode, name);
    if (!mode) at_.fail(fmt::format("'{}' is not a DGE mode", name));
    entry.dge = static_cast<DgeMode>(*mode);
  }
  entry.waits = static_cast<uint32_t>(executable.waits.size());
  if (at_.accept_word("wait"))
    for (int64_t wait : read_list()) {
      if (wait < 0 || wait > kIdMax) at_.fail(fmt::format("a wait for {}", wait));
      executable.waits.push_back(static_cast<uint32_t>(wait));
      ++entry.wait_count;
    }
  executable.schedule.push_back(entry);
}

Executable Parser::executable() {
  read_program();
  if (!more_) at_.fail("expected 'executable' after the program");
  Executable result;
  at_.integer(kTextVersion, kTextVersion, "the version");
  at_.expect('v');
  result.generation = static_cast<Generation>(at_.integer(1, 4, "the generation"));
  at_.expect_line_end();
  result.program = std::make_shared<const Program>(std::move(program_));
  result.placements.resize(result.program->tensor_count());
  read_totals(result);
  while (at_.next_line()) {
    if (at_.accept_word("stream"))
      read_stream(result);
    else if (at_.accept_word("place"))
      read_placement(result);
    else if (at_.accept_word("run"))
      read_run(result);
    else
      at_.fail("expected 'stream', 'place' or 'run'");
    at_.expect_line_end();
  }
  require(executable_error(result));
  return result;
}

}  // namespace

Program parse_program(std::string_view text, std::string_view filename) {
  return Parser(text, filename).program();
}
Executable parse_executable(std::string_view text, std::string_view filename) {
  return Parser(text, filename).executable();
}

}  // namespace opentrn::isa
