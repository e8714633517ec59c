// dense<...>: nested lists, one value for all, or "0x..." with the raw bytes. The type stands behind the
// data, so the data is skipped first and read when the type is known.
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include <fmt/format.h>

#include "graph/element_value.h"
#include "graph/own_attribute.h"
#include "graph/text/hex.h"
#include "graph/text/parser.h"

namespace opentrn::graph::text {

namespace {

// Reads the elements of one literal, flattened, and checks that the lists have the type's shape.
class ElementReader {
 public:
  ElementReader(Cursor& in, const Type& type) : in_(in), type_(type) {
    size_ = static_cast<size_t>(storage_bytes(type.element()));
  }

  std::vector<std::byte> read() {
    if (in_.peek() == '[') {
      bytes_.reserve(reserve_bytes());
      list(0);
    } else {
      element();  // one for all
      if (type_.element_count() == 0) bytes_.clear();
    }
    return std::move(bytes_);
  }

 private:
  // A literal takes at least two characters per element: a type cannot make us reserve more than that.
  size_t reserve_bytes() const {
    const auto wanted = static_cast<size_t>(type_.byte_count());
    return std::min(wanted, in_.text().size() * size_);
  }

  void list(int axis) {
    in_.expect("[");
    const size_t start = in_.position();
    const int64_t wanted = axis < type_.rank() ? type_.dim(axis) : -1;
    int64_t count = 0;
    if (!in_.eat("]")) {
      do {
        if (axis + 1 < type_.rank()) {
          list(axis + 1);
        } else {
          element();
        }
        ++count;
      } while (in_.eat(","));
      in_.expect("]");
    }
    if (count != wanted)
      in_.fail(start, axis < type_.rank()
                          ? fmt::format("{} entries here; dimension {} of {} has {}", count, axis,
                                        type_.to_string(), wanted)
                          : fmt::format("lists nest deeper than {} has dimensions", type_.to_string()));
  }

  void element() {
    std::byte value[16] = {};
    const ElementType element = type_.element();
    if (is_complex(element)) {
      const ElementType part = real_part(element);
      in_.expect("(");
      scalar(part, value);
      in_.expect(",");
      scalar(part, value + storage_bytes(part));
      in_.expect(")");
    } else {
      scalar(element, value);
    }
    bytes_.insert(bytes_.end(), value, value + size_);
  }

  void scalar(ElementType element, std::byte* to) {
    if (is_float(element)) {
      real(element, to);
      return;
    }
    if (is_bool(element)) {
      to[0] = std::byte{boolean() ? uint8_t{1} : uint8_t{0}};
      return;
    }
    const size_t start = (in_.peek(), in_.position());
    if (in_.eat_word("true")) {
      store_integer(element, 1, to);
    } else if (in_.eat_word("false")) {
      store_integer(element, 0, to);
    } else {
      const int64_t value = in_.integer();
      store_integer(element, value, to);
      const int bits = bit_width(element);
      // i8 has no sign of its own: 255 is another spelling of -1.
      const bool fits = bits == 64 || (value >= -(int64_t{1} << (bits - 1)) && value < (int64_t{1} << bits));
      const bool sign_ok = !is_unsigned_integer(element) || value >= 0 || bits == 64;
      if (!fits || !sign_ok)
        in_.fail(start, fmt::format("{} is out of the range of {}", value, name(element)));
    }
  }

  bool boolean() {
    if (in_.eat_word("true")) return true;
    if (in_.eat_word("false")) return false;
    const size_t start = (in_.peek(), in_.position());
    const int64_t value = in_.integer();
    if (value != 0 && value != 1 && value != -1)
      in_.fail(start, fmt::format("{} is not a value of i1", value));
    return value != 0;
  }

  // 1.5, -2.0e3, or the bits in hexadecimal: 0x7FC0. An integer is no float.
  void real(ElementType element, std::byte* to) {
    const size_t start = (in_.peek(), in_.position());
    std::string_view digits = in_.number();
    if (digits.find('x') != std::string_view::npos) {
      in_.move_to(start);
      const auto bits = static_cast<uint64_t>(in_.integer());
      const int width = element == ElementType::kTF32 ? 19 : bit_width(element);
      if (digits.front() == '-' || (width < 64 && bits >> width != 0))
        in_.fail(start, fmt::format("{} does not fit the {} bits of {}", digits, width, name(element)));
      store_bits(element, element == ElementType::kTF32 ? bits << 13 : bits, to);
      return;
    }
    if (digits.front() == '+') digits.remove_prefix(1);
    if (element == ElementType::kF32) {
      float value = 0;
      const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), value);
      if (result.ec == std::errc::result_out_of_range) value = static_cast<float>(beyond(digits));
      store_bits(element, std::bit_cast<uint32_t>(value), to);
      return;
    }
    double value = 0;
    const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (result.ec == std::errc::result_out_of_range) value = beyond(digits);
    store_real(element, value, to);
  }

  // from_chars says only that a value is out of range: too large or too small?
  static double beyond(std::string_view digits) {
    const double value = std::strtod(std::string(digits).c_str(), nullptr);
    return value;
  }

  Cursor& in_;
  const Type& type_;
  size_t size_;
  std::vector<std::byte> bytes_;
};

// The type of an attribute dense<> : tensor<...>; quantized tensors keep their storage type there.
void require_static(const Cursor& in, size_t position, const Type& type) {
  if (!type.is_tensor() || !type.is_static())
    in.fail(position, fmt::format("a constant needs a static tensor type, found {}", type.to_string()));
}

}  // namespace

Literal Parser::parse_dense() {
  const size_t open = (in_.peek(), in_.position());
  in_.expect("<");
  const size_t start = in_.position();
  // No bracket of this kind stands inside but in the string, which holds hexadecimal digits only.
  size_t end = start;
  if (in_.peek() == '"') {
    const size_t quote = in_.position();
    end = in_.text().find('"', quote + 1);
    if (end != std::string_view::npos) end = in_.text().find('>', end);
  } else {
    end = in_.text().find('>', start);
  }
  if (end == std::string_view::npos) in_.fail(open, "this `<` is never closed");
  in_.move_to(end + 1);
  in_.expect(":");
  const size_t type_position = (in_.peek(), in_.position());
  Type type = parse_type();
  const size_t after = in_.position();
  require_static(in_, type_position, type);
  Literal literal = literal_from_elements(in_.slice(start, end), start, std::move(type));
  in_.move_to(after);
  return literal;
}

Literal Parser::literal_from_elements(std::string_view elements, size_t position, Type type) {
  in_.move_to(position);
  const size_t end = position + elements.size();
  if (in_.peek() == '"') {
    const size_t quote = in_.position();
    const size_t close = in_.text().find('"', quote + 1);
    const std::string_view digits = in_.slice(quote + 1, close);
    if (!digits.starts_with("0x")) in_.fail(quote, "found a string, expected \"0x...\"");
    return literal_from_hex(digits.substr(2), quote + 3, std::move(type));
  }
  if (in_.peek() == '>') {
    if (type.element_count() != 0) in_.fail(fmt::format("no data for {}", type.to_string()));
    return {std::move(type), std::vector<std::byte>{}};
  }
  std::vector<std::byte> bytes = ElementReader(in_, type).read();
  in_.skip_space();
  if (in_.position() != end) in_.fail_expected("`>` after the data");
  return {std::move(type), std::move(bytes)};
}

// The bytes as they lie in memory.
Literal Parser::literal_from_hex(std::string_view digits, size_t position, Type type) {
  auto bytes = std::make_shared<std::vector<std::byte>>(digits.size() / 2);
  if (digits.size() % 2 != 0 || !decode_hex(digits, bytes->data()))
    in_.fail(position, "expected pairs of hexadecimal digits");
  const std::span<const std::byte> view = *bytes;
  try {
    return literal_from_storage(std::move(type), view, std::move(bytes));
  } catch (const Fault& fault) {
    if (fault.kind() == FaultKind::kNotModelled) in_.fail_not_modelled(position, fault.message());
    in_.fail(position, fault.message());
  }
}

// dense_resource<name> : type, whose bytes stand at the end of the file, behind the alignment in 4 bytes.
Literal Parser::parse_resource() {
  in_.expect("<");
  const size_t start = (in_.peek(), in_.position());
  const std::string name = in_.at_string() ? in_.string() : std::string(in_.word("a resource's name"));
  in_.expect(">");
  in_.expect(":");
  Type type = parse_type();
  require_static(in_, start, type);
  const auto found = resources_.find(name);
  if (found == resources_.end())
    in_.fail(start, fmt::format("resource `{}` is not in this file", name),
             "write the program with its resources (no elision)");
  const auto& [position, digits] = found->second;
  if (!digits.starts_with("0x") || digits.size() < 10)
    in_.fail(position, "expected \"0x\", the alignment in 8 digits and the data");
  return literal_from_hex(digits.substr(10), position, std::move(type));
}

}  // namespace opentrn::graph::text
