#include "import/vhlo/container.h"

#include <array>
#include <tuple>

#include "import/vhlo.h"

namespace opentrn::import::vhlo {

namespace {

// Sections by id.
enum : uint8_t {
  kStrings,
  kDialects,
  kAttrTypeData,
  kAttrTypeOffsets,
  kProgram,
  kResources,
  kResourceOffsets,
  kDialectVersions,
  kProperties,
  kSectionCount
};
static_assert(kProgram == kProgramSection);

// What each version of the format brought.
constexpr uint64_t kWithDialectVersions = 1;
constexpr uint64_t kWithOpCount = 4;
constexpr uint64_t kWithRegisteredFlag = 5;

void read_strings(const Section& section, Container& into) {
  Reader reader(section.data, section.offset);
  const size_t count = reader.count();
  std::vector<uint64_t> sizes(count);  // of the last string first
  for (uint64_t& size : sizes) size = reader.varint();
  const std::span<const std::byte> data = reader.take(reader.left());
  into.strings.resize(count);
  size_t end = data.size();
  for (size_t i = 0; i < count; ++i) {
    if (sizes[i] == 0 || sizes[i] > end) fail("the string section is shorter than its strings");
    const size_t start = end - static_cast<size_t>(sizes[i]);
    into.strings[count - 1 - i] = {reinterpret_cast<const char*>(data.data()) + start, end - start - 1};
    end = start;
  }
  if (end != 0) fail("the string section is longer than its strings");
}

// Entries in groups of one dialect each.
template <typename Read>
void read_group(Reader& reader, const Container& container, Read&& read) {
  const uint64_t dialect = reader.varint();
  if (dialect >= container.dialects.size())
    fail(fmt::format("dialect {} of {}", dialect, container.dialects.size()));
  const size_t count = reader.count();
  for (size_t i = 0; i < count; ++i) read(container.dialects[static_cast<size_t>(dialect)]);
}

void read_dialects(const Section& section, Container& into) {
  Reader reader(section.data, section.offset);
  const size_t count = reader.count();
  for (size_t i = 0; i < count; ++i) {
    uint64_t name = 0;
    bool versioned = false;
    if (into.version < kWithDialectVersions) {
      name = reader.varint();
    } else {
      std::tie(name, versioned) = reader.varint_with_flag();
    }
    into.dialects.push_back(into.string(name));
    if (versioned) (void)read_section(reader);
  }
  if (into.version >= kWithOpCount) (void)reader.varint();
  while (!reader.empty()) {
    read_group(reader, into, [&](std::string_view dialect) {
      const uint64_t name =
          into.version < kWithRegisteredFlag ? reader.varint() : reader.varint_with_flag().first;
      into.op_names.push_back({dialect, into.string(name)});
    });
  }
}

void read_entries(const Section& offsets, const Section& data, Container& into) {
  Reader reader(offsets.data, offsets.offset);
  const size_t attributes = reader.count();
  const size_t types = reader.count();
  size_t at = 0;
  const auto read = [&](std::vector<Entry>& entries, size_t count) {
    while (entries.size() < count) {
      read_group(reader, into, [&](std::string_view dialect) {
        const auto [size, custom] = reader.varint_with_flag();
        if (size > data.data.size() - at)
          fail(fmt::format("an entry of {} bytes behind offset {}", size, data.offset + at));
        entries.push_back(
            {dialect, custom, data.data.subspan(at, static_cast<size_t>(size)), data.offset + at});
        at += static_cast<size_t>(size);
      });
      if (reader.empty() && entries.size() < count) fail("fewer attributes or types than announced");
    }
    if (entries.size() != count) fail("more attributes or types than announced");
  };
  read(into.attributes, attributes);
  read(into.types, types);
}

void read_properties(const Section& section, Container& into) {
  Reader reader(section.data, section.offset);
  const size_t count = reader.count();
  for (size_t i = 0; i < count; ++i) {
    const uint64_t size = reader.varint();
    const size_t offset = reader.offset();
    into.properties.push_back({{}, true, reader.take(size), offset});
  }
}

}  // namespace

std::string_view Container::string(uint64_t index) const {
  if (index >= strings.size()) fail(fmt::format("string {} of {}", index, strings.size()));
  return strings[static_cast<size_t>(index)];
}

Section read_section(Reader& reader) {
  const uint8_t head = reader.byte();
  const uint64_t size = reader.varint();
  if (head & 0x80) reader.align(reader.varint());
  const size_t offset = reader.offset();
  return {static_cast<uint8_t>(head & 0x7F), reader.take(size), offset};
}

Container read_container(std::span<const std::byte> bytes) {
  if (!is_vhlo(bytes)) fail("the file does not start with ML\\xEFR");
  Reader reader(bytes, 0);
  (void)reader.take(4);
  Container container;
  container.version = reader.varint();
  if (container.version > kVersionMax)
    throw Fault(
        FaultKind::kNotModelled, "vhlo.bytecode",
        fmt::format("bytecode version {}; versions up to {} are read", container.version, kVersionMax),
        "serialise for an older target: stablehlo.serialize_portable_artifact(module, \"1.16.0\")");
  container.producer = reader.c_string();
  std::array<std::optional<Section>, kSectionCount> sections;
  while (!reader.empty()) {
    const Section section = read_section(reader);
    if (section.id >= kSectionCount || sections[section.id])
      fail(fmt::format("section {} at offset {} is unknown or there twice", section.id, section.offset));
    sections[section.id] = section;
  }
  for (const uint8_t id : {kStrings, kDialects, kAttrTypeData, kAttrTypeOffsets, kProgram})
    if (!sections[id]) fail(fmt::format("section {} is missing", id));
  read_strings(*sections[kStrings], container);
  read_dialects(*sections[kDialects], container);
  read_entries(*sections[kAttrTypeOffsets], *sections[kAttrTypeData], container);
  if (sections[kProperties]) read_properties(*sections[kProperties], container);
  container.program = {{}, true, sections[kProgram]->data, sections[kProgram]->offset};
  return container;
}

}  // namespace opentrn::import::vhlo
