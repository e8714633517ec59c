#include "import/vhlo/entries.h"

#include <array>

#include "graph/element_value.h"
#include "graph/own_attribute.h"

namespace opentrn::import::vhlo {

using graph::Attribute;
using graph::ElementType;
using graph::Literal;
using graph::Opaque;
using graph::Type;

namespace {

constexpr int kDepthMax = 200;

class Depth {
 public:
  explicit Depth(int& depth) : depth_(depth) {
    if (++depth_ > kDepthMax) fail("attributes or types nest deeper than 200 levels, or hold themselves");
  }
  ~Depth() { --depth_; }
  Depth(const Depth&) = delete;
  Depth& operator=(const Depth&) = delete;

 private:
  int& depth_;
};

[[noreturn]] void not_read(std::string_view what, uint64_t code) {
  throw Fault(FaultKind::kNotModelled, "vhlo.bytecode", fmt::format("{} {} is not read", what, code),
              "serialise for an older target: stablehlo.serialize_portable_artifact(module, \"1.16.0\")");
}

DecodedType element_type(ElementType element) {
  DecodedType type;
  type.kind = DecodedType::Kind::kElement;
  type.element = element;
  return type;
}

DecodedType value(Type type) {
  DecodedType decoded;
  decoded.kind = DecodedType::Kind::kValue;
  decoded.value = std::move(type);
  return decoded;
}

DecodedType other(std::string_view name) {
  DecodedType decoded;
  decoded.kind = DecodedType::Kind::kOther;
  decoded.name = name;
  return decoded;
}

// VHLO's codes of element types. Source: stablehlo/dialect/VhloBytecode.cpp, TypeCode.
std::optional<ElementType> vhlo_element(uint64_t code) {
  switch (code) {
    case 0: return ElementType::kI1;
    case 2: return ElementType::kBF16;
    case 3: return ElementType::kF16;
    case 4: return ElementType::kF32;
    case 5: return ElementType::kF64;
    case 6: return ElementType::kF8E4M3FN;
    case 7: return ElementType::kF8E5M2;
    case 9: return ElementType::kIndex;
    case 10: return ElementType::kI4;
    case 11: return ElementType::kI8;
    case 12: return ElementType::kI16;
    case 13: return ElementType::kI32;
    case 14: return ElementType::kI64;
    case 15: return ElementType::kUI4;
    case 16: return ElementType::kUI8;
    case 17: return ElementType::kUI16;
    case 18: return ElementType::kUI32;
    case 19: return ElementType::kUI64;
    case 27: return ElementType::kF8E4M3FNUZ;
    case 28: return ElementType::kF8E5M2FNUZ;
    case 29: return ElementType::kF8E4M3B11FNUZ;
    case 31: return ElementType::kI2;
    case 32: return ElementType::kUI2;
    case 34: return ElementType::kTF32;
    case 35: return ElementType::kF8E4M3;
    case 36: return ElementType::kF8E3M4;
    case 37: return ElementType::kF4E2M1FN;
    case 38: return ElementType::kF6E2M3FN;
    case 39: return ElementType::kF6E3M2FN;
    case 40: return ElementType::kF8E8M0FNU;
    default: return std::nullopt;
  }
}

// An integer of a known width: a byte up to 8 bits, a signed varint up to 64, words above.
uint64_t known_width(Reader& reader, int bits) {
  if (bits <= 8) return reader.byte();
  if (bits <= 64) return static_cast<uint64_t>(reader.signed_varint());
  fail(fmt::format("a number of {} bits at offset {}", bits, reader.offset()));
}

double f64(Reader& reader) { return std::bit_cast<double>(known_width(reader, 64)); }

}  // namespace

Entries::Entries(const Container& container, std::shared_ptr<const void> owner)
    : container_(container),
      owner_(std::move(owner)),
      attributes_(container.attributes.size()),
      types_(container.types.size()),
      budget_(size_t{64} << 20) {
  for (const Entry& entry : container.attributes) budget_ += 16 * entry.data.size();
}

void Entries::charge(size_t bytes) {
  if (bytes > budget_)
    fail("the attributes of this file refer to each other so often that they would not fit");
  budget_ -= bytes;
}

const DecodedAttribute& Entries::attribute(uint64_t index) {
  if (index >= attributes_.size()) fail(fmt::format("attribute {} of {}", index, attributes_.size()));
  std::optional<DecodedAttribute>& slot = attributes_[static_cast<size_t>(index)];
  if (!slot) {
    const Depth depth(depth_);
    slot = decode_attribute(container_.attributes[static_cast<size_t>(index)]);
  }
  return *slot;
}

const DecodedType& Entries::type(uint64_t index) {
  if (index >= types_.size()) fail(fmt::format("type {} of {}", index, types_.size()));
  std::optional<DecodedType>& slot = types_[static_cast<size_t>(index)];
  if (!slot) {
    const Depth depth(depth_);
    slot = decode_type(container_.types[static_cast<size_t>(index)]);
  }
  return *slot;
}

const Type& Entries::value_type(uint64_t index) {
  const DecodedType& decoded = type(index);
  if (decoded.kind == DecodedType::Kind::kOther)
    throw Fault(FaultKind::kNotModelled, "vhlo.bytecode",
                fmt::format("values of {} are not taken", decoded.name));
  if (decoded.kind != DecodedType::Kind::kValue) fail(fmt::format("type {} is not that of a value", index));
  return decoded.value;
}

std::vector<Type> Entries::value_types(Reader& reader) {
  std::vector<Type> types;
  const size_t count = reader.count();
  charge(count * sizeof(Type));
  for (size_t i = 0; i < count; ++i) types.push_back(value_type(reader.varint()));
  return types;
}

graph::AttributeList Entries::attributes(Reader& reader) {
  graph::AttributeList list;
  const size_t count = reader.count();
  for (size_t i = 0; i < count; ++i) {
    list.push_back(next_attribute(reader));
    charge(sizeof(Attribute));
    if (const auto* text = list.back().get<std::string>()) charge(text->size());
    if (const auto* text = list.back().get<Opaque>()) charge(text->text.size());
    if (const auto* numbers = list.back().get<std::vector<int64_t>>()) charge(8 * numbers->size());
  }
  return list;
}

DecodedAttribute Entries::dictionary(Reader& reader) {
  graph::Dictionary entries;
  DecodedAttribute made;
  const size_t count = reader.count(2);
  for (size_t i = 0; i < count; ++i) {
    const std::string key(text_of(reader.varint()));
    const uint64_t index = reader.varint();
    const DecodedAttribute& decoded = attribute(index);
    made.members.emplace_back(key, index);
    charge(key.size() + sizeof(Attribute));
    if (const auto* text = decoded.value.get<std::string>()) charge(text->size());
    if (!decoded.absent) entries[key] = decoded.value;
  }
  made.value = Attribute::dictionary(std::move(entries));
  return made;
}

std::vector<int64_t> Entries::integers(Reader& reader) {
  std::vector<int64_t> values(reader.count());
  for (int64_t& each : values) each = reader.signed_varint();
  return values;
}

std::string_view Entries::text_of(uint64_t index) {
  const DecodedAttribute& decoded = attribute(index);
  const auto* text = decoded.value.get<std::string>();
  const auto* symbol = decoded.value.get<graph::SymbolRef>();
  if (!text && !symbol) fail(fmt::format("attribute {} is not a string", index));
  return text ? *text : symbol->name;
}

std::string_view Entries::opaque_of(uint64_t index) {
  const auto* text = attribute(index).value.get<Opaque>();
  if (!text) fail(fmt::format("attribute {} is not of the kind expected", index));
  return text->text;
}

DecodedAttribute Entries::decode_attribute(const Entry& entry) {
  Reader reader(entry.data, entry.offset);
  if (!entry.custom) {
    // As text; the jaxlib that wrote it did not know a shorter form.
    return {Attribute(Opaque{std::string(reader.c_string())})};
  }
  if (entry.dialect == "vhlo") return vhlo_attribute(reader);
  if (entry.dialect == "builtin") return builtin_attribute(reader);
  if (entry.dialect == "sdy") return sdy_attribute(reader);
  throw Fault(FaultKind::kNotModelled, "vhlo.bytecode",
              fmt::format("attributes of dialect {} are not read", entry.dialect));
}

// An integer attribute. i1 is a boolean.
Attribute Entries::number(Reader& reader, const DecodedType& type) {
  if (type.kind != DecodedType::Kind::kElement)
    fail(fmt::format("an integer without a type at offset {}", reader.offset()));
  const int bits = graph::bit_width(type.element);
  std::array<std::byte, 16> bytes{};
  graph::store_integer(type.element, static_cast<int64_t>(known_width(reader, bits)), bytes.data());
  const int64_t value = graph::load_integer(type.element, bytes.data());
  return graph::is_bool(type.element) ? Attribute(value != 0) : Attribute(value);
}

Attribute Entries::real(Reader& reader, const DecodedType& type) {
  if (type.kind != DecodedType::Kind::kElement || !graph::is_float(type.element))
    fail(fmt::format("a float without a type at offset {}", reader.offset()));
  std::array<std::byte, 16> bytes{};
  graph::store_bits(type.element, known_width(reader, graph::bit_width(type.element)), bytes.data());
  return Attribute(graph::load_real(type.element, bytes.data()));
}

Attribute Entries::literal(const DecodedType& type, std::span<const std::byte> bytes) {
  if (type.kind != DecodedType::Kind::kValue || !type.value.is_tensor() || !type.value.is_static())
    fail("data without a static tensor type");
  if (owner_) return Attribute(graph::literal_from_storage(type.value, bytes, owner_));
  auto copy = std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end());
  const std::span<const std::byte> view = *copy;
  return Attribute(graph::literal_from_storage(type.value, view, std::move(copy)));
}

// Source: stablehlo/dialect/VhloBytecode.cpp, AttributeCode.
DecodedAttribute Entries::vhlo_attribute(Reader& reader) {
  const uint64_t code = reader.varint();
  const auto made = [](Attribute value) { return DecodedAttribute{std::move(value)}; };
  switch (code) {
    case 1: return made(Attribute::list(attributes(reader)));
    case 2: return made(Attribute(reader.varint() != 0));
    case 3:
    case 4:
    case 5:
    case 7:
    case 11:
    case 12:
    case 13:
    case 16: return made(Attribute(static_cast<int64_t>(reader.varint())));  // enumerations
    case 6: return dictionary(reader);
    case 8: {
      const DecodedType& of = type(reader.varint());
      return made(real(reader, of));
    }
    case 9: {
      const DecodedType& of = type(reader.varint());
      return made(number(reader, of));
    }
    case 10: {
      const std::vector<int64_t> output = integers(reader);
      const int64_t operand = reader.signed_varint();
      const std::vector<int64_t> tuple = integers(reader);
      return made(Attribute(Opaque{
          fmt::format("#stablehlo.output_operand_alias<output_tuple_indices = [{}], operand_index = {}, "
                      "operand_tuple_indices = [{}]>",
                      fmt::join(output, ", "), operand, fmt::join(tuple, ", "))}));
    }
    case 14: return made(Attribute(std::string(container_.string(reader.varint()))));
    case 15: {
      const DecodedType& of = type(reader.varint());
      return made(literal(of, reader.take(reader.varint())));
    }
    case 17: {
      const DecodedType& of = type(reader.varint());
      DecodedAttribute decoded;
      decoded.type = of;
      decoded.absent = of.kind == DecodedType::Kind::kNone;
      if (decoded.absent) decoded.value = Attribute(Opaque{"none"});
      if (of.kind == DecodedType::Kind::kValue) decoded.value = Attribute(of.value);
      if (of.kind == DecodedType::Kind::kElement)
        decoded.value = Attribute(Opaque{std::string(graph::name(of.element))});
      return decoded;
    }
    case 18: return made(Attribute(integers(reader)));
    case 19: {
      constexpr std::array kModes{"DEFAULT", "HIGHEST", "TOLERANCE"};
      const uint64_t mode = reader.varint();
      if (mode >= kModes.size()) not_read("accuracy mode", mode);
      return made(Attribute(Opaque{fmt::format("#stablehlo.result_accuracy_mode<{}>", kModes[mode])}));
    }
    case 20: {
      const double atol = f64(reader);
      const double rtol = f64(reader);
      const int64_t ulps = reader.signed_varint();
      std::string text = "#stablehlo.result_accuracy<";
      if (atol != 0) text += fmt::format("atol = {:e}, ", atol);
      if (rtol != 0) text += fmt::format("rtol = {:e}, ", rtol);
      if (ulps != 0) text += fmt::format("ulps = {}, ", ulps);
      return made(Attribute(Opaque{fmt::format("{}mode = {}>", text, opaque_of(reader.varint()))}));
    }
    default: not_read("VHLO attribute", code);
  }
}

// Source: mlir/include/mlir/IR/BuiltinDialectBytecode.td.
DecodedAttribute Entries::builtin_attribute(Reader& reader) {
  const uint64_t code = reader.varint();
  const auto made = [](Attribute value) { return DecodedAttribute{std::move(value)}; };
  const auto place = [](graph::Location location) { return DecodedAttribute{{}, std::move(location)}; };
  // What `from` knows and `into` does not: the innermost file, the outermost name.
  const auto fill = [&](graph::Location& into, uint64_t index) {
    const DecodedAttribute& from = attribute(index);
    if (!from.location) fail(fmt::format("attribute {} is not a location", index));
    if (into.file.empty()) {
      into.file = from.location->file;
      into.line = from.location->line;
      into.column = from.location->column;
    }
    if (into.name.empty()) into.name = from.location->name;
  };
  graph::Location location;
  switch (code) {
    case 0: return made(Attribute::list(attributes(reader)));
    case 1: return dictionary(reader);
    case 2: return made(Attribute(std::string(container_.string(reader.varint()))));
    case 3: return made(Attribute(std::string(container_.string(reader.varint()))));
    case 4: return made(Attribute(graph::SymbolRef{std::string(text_of(reader.varint()))}));
    case 6: {
      DecodedAttribute decoded;
      decoded.type = type(reader.varint());
      if (decoded.type->kind == DecodedType::Kind::kValue) decoded.value = Attribute(decoded.type->value);
      return decoded;
    }
    case 7: return made(Attribute(graph::Unit{}));
    case 8: {
      const DecodedType& of = type(reader.varint());
      return made(number(reader, of));
    }
    case 9: {
      const DecodedType& of = type(reader.varint());
      return made(real(reader, of));
    }
    case 10:
      fill(location, reader.varint());
      fill(location, reader.varint());
      return place(std::move(location));
    case 11:
      location.file = text_of(reader.varint());
      location.line = static_cast<int>(reader.varint());
      location.column = static_cast<int>(reader.varint());
      return place(std::move(location));
    case 12:
    case 13: {
      const size_t count = reader.count();
      for (size_t i = 0; i < count; ++i) fill(location, reader.varint());
      return place(std::move(location));
    }
    case 14:
      location.name = text_of(reader.varint());
      fill(location, reader.varint());
      return place(std::move(location));
    case 15: return place({});
    case 17: {
      const DecodedType& of = type(reader.varint());
      const uint64_t count = reader.varint();
      const auto bytes = reader.take(reader.varint());
      if (of.kind != DecodedType::Kind::kElement) fail("an array without an element type");
      const auto size = static_cast<size_t>(graph::storage_bytes(of.element));
      if (bytes.size() / size != count) fail("an array whose size is not that of its data");
      std::vector<int64_t> values;
      for (size_t i = 0; i < count; ++i)
        values.push_back(graph::load_integer(of.element, bytes.data() + i * size));
      return made(Attribute(std::move(values)));
    }
    case 18: {
      const DecodedType& of = type(reader.varint());
      return made(literal(of, reader.take(reader.varint())));
    }
    case 22: {
      location.file = text_of(reader.varint());
      const size_t count = reader.count();
      if (count > 0) location.line = static_cast<int>(reader.varint());
      if (count > 1) location.column = static_cast<int>(reader.varint());
      return place(std::move(location));
    }
    default: not_read("builtin attribute", code);
  }
}

DecodedType Entries::decode_type(const Entry& entry) {
  Reader reader(entry.data, entry.offset);
  if (!entry.custom) return other(std::string(reader.c_string()));
  if (entry.dialect == "vhlo") return vhlo_type(reader);
  if (entry.dialect == "builtin") return builtin_type(reader);
  // What Shardy's ops give and take stays StableHLO's: a token is the first of its types
  // (StablehloBytecode.cpp).
  if (entry.dialect == "stablehlo" && reader.varint() == 0) return value(Type::token());
  return other(entry.dialect);
}

DecodedType Entries::tensor(std::vector<int64_t> dims, const DecodedType& element) {
  for (const int64_t dim : dims)
    if (dim < 0 && dim != graph::kDynamic) fail(fmt::format("a dimension of {}", dim));
  if (element.kind == DecodedType::Kind::kQuantized)
    return value(Type::quantized(element.quantization, std::move(dims)));
  if (element.kind != DecodedType::Kind::kElement) return other("a tensor of " + element.name);
  return value(Type::tensor(element.element, std::move(dims)));
}

// A function of values that are not taken is so itself, and refused where it stands.
DecodedType Entries::function_type(Reader& reader) {
  DecodedType function;
  function.kind = DecodedType::Kind::kFunction;
  try {
    function.inputs = value_types(reader);
    function.results = value_types(reader);
  } catch (const Fault& fault) {
    if (fault.kind() != FaultKind::kNotModelled) throw;
    return other(fault.message());
  }
  return function;
}

DecodedType Entries::vhlo_type(Reader& reader) {
  const uint64_t code = reader.varint();
  if (const auto element = vhlo_element(code)) return element_type(*element);
  switch (code) {
    case 1: {
      const DecodedType& part = type(reader.varint());
      if (part.kind == DecodedType::Kind::kElement && part.element == ElementType::kF32)
        return element_type(ElementType::kComplexF32);
      if (part.kind == DecodedType::Kind::kElement && part.element == ElementType::kF64)
        return element_type(ElementType::kComplexF64);
      fail("complex of neither f32 nor f64");
    }
    case 8: return function_type(reader);
    case 20: {
      std::vector<int64_t> dims = integers(reader);
      return tensor(std::move(dims), type(reader.varint()));
    }
    case 21: {
      const Attribute encoding = next_attribute(reader);
      std::vector<int64_t> dims = integers(reader);
      const size_t rank = dims.size();
      DecodedType made = tensor(std::move(dims), type(reader.varint()));
      const auto* bounds = encoding.get<std::vector<int64_t>>();
      if (!bounds || made.kind != DecodedType::Kind::kValue) return other("a tensor with an encoding");
      if (bounds->size() != rank)
        fail(fmt::format("{} bounds for {}", bounds->size(), made.value.to_string()));
      made.value.set_bounds(*bounds);
      return made;
    }
    case 22: return value(Type::token());
    case 23: return value(Type::tuple(value_types(reader)));
    case 24:
    case 30: {
      DecodedType made;
      made.kind = DecodedType::Kind::kQuantized;
      (void)reader.varint();  // flags: signedness, which the storage type has
      const DecodedType storage = type(reader.varint());
      const DecodedType expressed = type(reader.varint());
      if (storage.kind != DecodedType::Kind::kElement || expressed.kind != DecodedType::Kind::kElement ||
          !graph::is_integer(storage.element))
        fail("a quantized type without a storage type");
      graph::Quantization& q = made.quantization;
      q.storage = storage.element;
      q.expressed = expressed.element;
      if (code == 24) {
        q.scales = {f64(reader)};
        q.zero_points = {reader.signed_varint()};
        q.storage_min = reader.signed_varint();
        q.storage_max = reader.signed_varint();
      } else {
        q.axis = static_cast<int64_t>(reader.varint());
        q.storage_min = reader.signed_varint();
        q.storage_max = reader.signed_varint();
        const size_t scales = reader.count();
        for (size_t i = 0; i < scales; ++i) q.scales.push_back(f64(reader));
        q.zero_points = integers(reader);
        if (q.scales.size() != q.zero_points.size()) fail("as many scales as zero points are wanted");
      }
      return made;
    }
    case 25: return other("a tensor without a rank");
    case 26: return other("witness");
    case 33: return {};
    case 41: return other("buffer");
    case 42: return other("future");
    default: not_read("VHLO type", code);
  }
}

DecodedType Entries::builtin_type(Reader& reader) {
  const uint64_t code = reader.varint();
  switch (code) {
    case 0: {
      const uint64_t both = reader.varint();
      const uint64_t width = both >> 2;
      const bool is_unsigned = (both & 3) == 2;
      const auto element = graph::element_type_from_name(fmt::format("{}i{}", is_unsigned ? "u" : "", width));
      if (!element) return other(fmt::format("i{}", width));
      return element_type(*element);
    }
    case 1: return element_type(ElementType::kIndex);
    case 2: return function_type(reader);
    case 3: return element_type(ElementType::kBF16);
    case 4: return element_type(ElementType::kF16);
    case 5: return element_type(ElementType::kF32);
    case 6: return element_type(ElementType::kF64);
    case 9: {
      const DecodedType& part = type(reader.varint());
      return element_type(part.element == ElementType::kF64 ? ElementType::kComplexF64
                                                            : ElementType::kComplexF32);
    }
    case 12: return {};
    case 13: {
      std::vector<int64_t> dims = integers(reader);
      return tensor(std::move(dims), type(reader.varint()));
    }
    case 15: return value(Type::tuple(value_types(reader)));
    default: return other(fmt::format("a builtin type of code {}", code));
  }
}

}  // namespace opentrn::import::vhlo
