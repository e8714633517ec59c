#include "isa/kernel.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "isa/definitions.h"
#include "isa/file.h"
#include "isa/file_bytes.h"
#include "isa/roles.h"
#include "isa/splice.h"

namespace opentrn::isa {

namespace {

constexpr std::string_view kKernelMagic = "opentrn-kernel-1 ";
constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

[[noreturn]] void malformed(std::string message) {
  throw Fault(FaultKind::kInput, "kernel.payload", std::move(message),
              "trace the kernel again: opentrn.kernel.trace.trace(kernel, ...)");
}

std::string base64(std::span<const std::byte> bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - i);
    uint32_t word = 0;
    for (size_t k = 0; k < 3; ++k)
      word = word << 8 | (k < count ? std::to_integer<uint32_t>(bytes[i + k]) : 0u);
    for (size_t k = 0; k < 4; ++k) text += k <= count ? kDigits[word >> (18 - 6 * k) & 63] : '=';
  }
  return text;
}

std::vector<std::byte> from_base64(std::string_view text) {
  static const auto values = [] {
    std::array<int8_t, 256> table;
    table.fill(-1);
    for (size_t i = 0; i < kDigits.size(); ++i)
      table[static_cast<unsigned char>(kDigits[i])] = static_cast<int8_t>(i);
    return table;
  }();
  if (text.size() % 4 != 0)
    malformed(fmt::format("{} characters of base64 are not a multiple of 4", text.size()));
  const size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  std::vector<std::byte> bytes;
  bytes.reserve(text.size() / 4 * 3);
  for (size_t i = 0; i < text.size(); i += 4) {
    uint32_t word = 0;
    const size_t kept = i + 4 == text.size() ? 4 - padding : 4;
    for (size_t k = 0; k < 4; ++k) {
      const int8_t value = k < kept ? values[static_cast<unsigned char>(text[i + k])] : int8_t{0};
      if (value < 0) malformed(fmt::format("character {} is not of base64", i + k));
      word = word << 6 | static_cast<uint32_t>(value);
    }
    for (size_t k = 0; k + 1 < kept; ++k) bytes.push_back(static_cast<std::byte>(word >> (16 - 8 * k)));
  }
  return bytes;
}

void put_numbers(file::Writer& out, const std::vector<int64_t>& numbers) {
  out.number(numbers.size());
  for (const int64_t number : numbers) out.signed_number(number);
}

std::vector<int64_t> numbers(file::Reader& in, std::string_view what) {
  std::vector<int64_t> made(in.count(what));
  for (int64_t& number : made) number = in.signed_number();
  return made;
}

void put_ports(file::Writer& out, const std::vector<Kernel::Port>& ports) {
  out.number(ports.size());
  for (const Kernel::Port& port : ports) {
    out.number(port.tensor);
    out.text(port.name);
    put_numbers(out, port.shape);
  }
}

std::vector<Kernel::Port> ports(file::Reader& in) {
  std::vector<Kernel::Port> made(in.count("ports"));
  for (Kernel::Port& port : made) {
    port.tensor = static_cast<TensorId>(in.below(UINT32_MAX, "tensor"));
    port.name = in.text();
    port.shape = numbers(in, "dimensions");
  }
  return made;
}

const Tensor& hbm_tensor(const Kernel& kernel, TensorId id) {
  if (id >= kernel.program.tensor_count())
    malformed(fmt::format("tensor {} of {}", id, kernel.program.tensor_count()));
  const Tensor& tensor = kernel.program.tensor(id);
  if (!is_hbm(tensor.space)) malformed(fmt::format("'{}' does not lie in HBM", tensor.name));
  if (tensor.loop) malformed(fmt::format("'{}' belongs to a loop", tensor.name));
  return tensor;
}

void check_port(const Kernel& kernel, const Kernel::Port& port) {
  const Tensor& tensor = hbm_tensor(kernel, port.tensor);
  int64_t count = 1;
  for (const int64_t size : port.shape)
    if (size < 1 || __builtin_mul_overflow(count, size, &count)) malformed("a shape that no tensor has");
  if (count != tensor.rows * tensor.row_elements)
    malformed(fmt::format("'{}' has {} elements, its shape {}", port.name, tensor.rows * tensor.row_elements,
                          count));
}

// Ids exist, and shapes are those of the tensors. The program has been checked by its reader.
void check(const Kernel& kernel) {
  const std::vector<bool> written = written_tensors(kernel.program);
  for (const Kernel::Port& port : kernel.inputs) {
    check_port(kernel, port);
    if (written[port.tensor]) malformed(fmt::format("operand '{}' is written", port.name));
  }
  std::set<TensorId> taken;
  for (const Kernel::Port& port : kernel.inputs) taken.insert(port.tensor);
  for (const Kernel::Port& port : kernel.outputs) {
    check_port(kernel, port);
    if (!taken.insert(port.tensor).second) malformed(fmt::format("'{}' stands for two tensors", port.name));
  }
  for (const Kernel::Constant& constant : kernel.constants)
    if (const Tensor& tensor = hbm_tensor(kernel, constant.tensor);
        static_cast<size_t>(tensor.bytes()) != constant.bytes.size())
      malformed(fmt::format("{} bytes for '{}' of {}", constant.bytes.size(), tensor.name, tensor.bytes()));
}

}  // namespace

bool is_kernel_text(std::string_view text) { return text.starts_with(kKernelMagic); }

std::string_view kernel_name(std::string_view text) {
  text.remove_prefix(std::min(kKernelMagic.size(), text.size()));
  return text.substr(0, text.find(' '));
}

namespace {

// `to` becomes what `from` is.
void append_copy(Program& program, TensorId to, TensorId from, std::span<const int64_t> shape) {
  Pattern pattern;
  int64_t step = 1;
  pattern.rank = static_cast<uint8_t>(shape.size());
  for (size_t i = shape.size(); i-- > 0; step *= shape[i]) pattern.dims[i] = {step, shape[i]};
  Operand operands[2];
  const TensorId tensors[] = {to, from};
  for (size_t i = 0; i < 2; ++i) {
    operands[i].kind = OperandKind::kAccess;
    operands[i].dtype = program.tensor(tensors[i]).dtype;
    operands[i].tensor = tensors[i];
    operands[i].pattern = program.intern_pattern(pattern);
  }
  std::vector<AttributeWord> words(definition(Opcode::kDmaCopy).attributes.size(), AttributeWord{});
  words[slot::dma_copy::kAPriority].integer = -1;  // none given
  program.append(Opcode::kDmaCopy, Engine::kUnknown, operands, words, 0);
}

TensorId like(Program& program, TensorId of, const Kernel::Port& port) {
  Tensor tensor;
  tensor.space = MemorySpace::kPrivateHbm;
  tensor.dtype = program.tensor(of).dtype;
  tensor.row_elements = program.tensor(of).rows * program.tensor(of).row_elements;
  tensor.shape = port.shape;
  tensor.name = port.name;
  return program.add_tensor(std::move(tensor));
}

}  // namespace

void separate(Kernel& kernel) {
  const std::vector<bool> written = written_tensors(kernel.program);
  Kernel made{kernel.name,   kernel.generation, kernel.grid,     {},
              kernel.inputs, kernel.outputs,    kernel.constants};
  Splice splice(kernel.program, made.program);
  made.program.name = kernel.program.name;
  for (Kernel::Port& port : made.inputs) {
    const TensorId before = port.tensor;
    if (!written[before]) {
      port.tensor = splice.tensor(before);
      continue;
    }
    const TensorId worked_on = splice.tensor(before);
    port.tensor = like(made.program, worked_on, port);
    append_copy(made.program, worked_on, port.tensor, port.shape);
  }
  for (Kernel::Constant& constant : made.constants) constant.tensor = splice.tensor(constant.tensor);
  splice.copy();
  std::set<TensorId> taken;
  for (const Kernel::Port& port : made.inputs) taken.insert(port.tensor);
  for (Kernel::Port& port : made.outputs) {
    const TensorId result = splice.tensor(port.tensor);
    port.tensor = result;
    if (!taken.insert(result).second) {
      port.tensor = like(made.program, result, port);
      append_copy(made.program, port.tensor, result, port.shape);
      taken.insert(port.tensor);
    }
  }
  for (const Kernel::Port& port : made.inputs) made.program.tensor(port.tensor).is_input = true;
  for (const Kernel::Constant& constant : made.constants)
    made.program.tensor(constant.tensor).is_input = true;
  for (const Kernel::Port& port : made.outputs) made.program.tensor(port.tensor).is_output = true;
  kernel = std::move(made);
}

std::string to_text(const Kernel& kernel) {
  file::Writer out;
  out.number(static_cast<uint64_t>(version(kernel.generation)));
  put_numbers(out, kernel.grid);
  put_ports(out, kernel.inputs);
  put_ports(out, kernel.outputs);
  out.number(kernel.constants.size());
  for (const Kernel::Constant& constant : kernel.constants) {
    out.number(constant.tensor);
    out.data(constant.bytes);
  }
  out.data(encode(kernel.program));
  std::string name = kernel.name;
  std::replace(name.begin(), name.end(), ' ', '_');
  return fmt::format("{}{} {}", kKernelMagic, name, base64(out.take()));
}

Kernel kernel_from_text(std::string_view text) {
  if (!is_kernel_text(text)) malformed("this is not a kernel of OpenTrn's");
  Kernel kernel;
  kernel.name = kernel_name(text);
  const size_t head = kKernelMagic.size() + kernel.name.size() + 1;
  if (head > text.size()) malformed("nothing follows the kernel's name");
  const std::vector<std::byte> bytes = from_base64(text.substr(head));
  file::Reader in(bytes, kernel.name);
  kernel.generation = static_cast<Generation>(in.below(5, "generation"));
  kernel.grid = numbers(in, "grid axes");
  kernel.inputs = ports(in);
  kernel.outputs = ports(in);
  kernel.constants.resize(in.count("constants"));
  for (Kernel::Constant& constant : kernel.constants) {
    constant.tensor = static_cast<TensorId>(in.below(UINT32_MAX, "tensor"));
    constant.bytes = in.data();
  }
  kernel.program = decode_program(in.data(), kernel.name);
  if (in.left() != 0) in.fail("bytes follow the program");
  check(kernel);
  return kernel;
}

namespace {

// How often the body runs, where the program says so.
double trips(const Program& program, const Instruction& begin) {
  if (begin.opcode != Opcode::kLoopBegin) return 1;
  const Operand &lower = program.operand(begin, slot::loop::kLower),
                &upper = program.operand(begin, slot::loop::kUpper);
  const double step = static_cast<double>(program.attribute_int(begin, slot::loop::kAStep));
  if (lower.kind != OperandKind::kImmediate || upper.kind != OperandKind::kImmediate || step <= 0) return 1;
  return std::max(0.0, std::ceil((upper.immediate - lower.immediate) / step));
}

double partitions(const Program& program, const Operand& operand) {
  const Pattern& pattern = program.pattern(operand);
  return pattern.rank == 0 ? 1 : static_cast<double>(pattern.dims[0].count);
}

}  // namespace

double matmul_flops(const Program& program) {
  double total = 0;
  std::vector<double> repeats{1};
  for (const Instruction& in : program.instructions()) {
    if (opens_loop(in.opcode)) repeats.push_back(repeats.back() * trips(program, in));
    if (closes_loop(in.opcode) && repeats.size() > 1) repeats.pop_back();
    if (in.opcode != Opcode::kNcMatmul) continue;
    namespace s = slot::nc_matmul;
    if (program.attribute_bool(in, s::kAIsTranspose)) continue;
    const Operand &dst = program.operand(in, s::kDst), &moving = program.operand(in, s::kMoving);
    total += repeats.back() * 2 * partitions(program, moving) *
             static_cast<double>(program.pattern(dst).element_count());
  }
  return total;
}

}  // namespace opentrn::isa
