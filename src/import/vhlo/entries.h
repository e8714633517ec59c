// The attributes and types of a container, decoded when asked for, once each.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/module.h"
#include "import/vhlo/container.h"

namespace opentrn::import::vhlo {

// A type of VHLO or builtin: of a value, of an element, or of a function.
struct DecodedType {
  enum class Kind : uint8_t { kValue, kElement, kQuantized, kFunction, kNone, kOther };
  Kind kind = Kind::kNone;
  graph::Type value;
  graph::ElementType element = graph::ElementType::kF32;
  graph::Quantization quantization;
  std::vector<graph::Type> inputs;
  std::vector<graph::Type> results;
  std::string name;  // of kOther, for messages
};

struct DecodedAttribute {
  graph::Attribute value = {};
  std::optional<graph::Location> location = {};
  std::optional<DecodedType> type = {};                        // of a type attribute
  std::vector<std::pair<std::string, uint64_t>> members = {};  // of a dictionary: key, attribute
  bool absent = false;  // VHLO writes an optional attribute that is not there as the none type
};

class Entries {
 public:
  // `owner` keeps the bytes alive for literals that refer to them; null: literals copy.
  Entries(const Container& container, std::shared_ptr<const void> owner);

  const DecodedAttribute& attribute(uint64_t index);
  const DecodedType& type(uint64_t index);
  // Of a value; a fault on any other.
  const graph::Type& value_type(uint64_t index);

 private:
  DecodedAttribute decode_attribute(const Entry& entry);
  DecodedAttribute vhlo_attribute(Reader& reader);
  DecodedAttribute builtin_attribute(Reader& reader);
  DecodedAttribute sdy_attribute(Reader& reader);
  DecodedType decode_type(const Entry& entry);
  DecodedType vhlo_type(Reader& reader);
  DecodedType builtin_type(Reader& reader);
  DecodedType function_type(Reader& reader);

  graph::Attribute next_attribute(Reader& reader) { return attribute(reader.varint()).value; }
  graph::AttributeList attributes(Reader& reader);
  std::vector<graph::Type> value_types(Reader& reader);
  DecodedAttribute dictionary(Reader& reader);
  std::vector<int64_t> integers(Reader& reader);
  graph::Attribute number(Reader& reader, const DecodedType& type);
  graph::Attribute real(Reader& reader, const DecodedType& type);
  graph::Attribute literal(const DecodedType& type, std::span<const std::byte> bytes);
  DecodedType tensor(std::vector<int64_t> dims, const DecodedType& element);
  std::string_view text_of(uint64_t attribute_index);
  std::string_view opaque_of(uint64_t attribute_index);
  std::string joined(Reader& reader);
  void charge(size_t bytes);

  const Container& container_;
  std::shared_ptr<const void> owner_;
  std::vector<std::optional<DecodedAttribute>> attributes_;
  std::vector<std::optional<DecodedType>> types_;
  int depth_ = 0;
  size_t budget_;  // bytes of decoded attributes that one file may make
};

}  // namespace opentrn::import::vhlo
