// The container of MLIR bytecode: strings, dialects, op names, the encoded attributes and types, and the
// sections that hold the program. What the entries mean is in entries.h.
// Source: mlir/docs/BytecodeFormat.md; versions 0 to 6.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "import/vhlo/encoding.h"

namespace opentrn::import::vhlo {

// An attribute or type, not decoded yet.
struct Entry {
  std::string_view dialect;
  bool custom = false;  // encoded by its dialect, else as text
  std::span<const std::byte> data;
  size_t offset = 0;
};

struct OpName {
  std::string_view dialect;
  std::string_view name;
};

struct Container {
  uint64_t version = 0;
  std::string_view producer;
  std::vector<std::string_view> strings;
  std::vector<std::string_view> dialects;
  std::vector<OpName> op_names;
  std::vector<Entry> attributes;
  std::vector<Entry> types;
  std::vector<Entry> properties;  // dialect empty
  Entry program;                  // the IR section

  std::string_view string(uint64_t index) const;
};

inline constexpr uint64_t kVersionMax = 6;
Container read_container(std::span<const std::byte> bytes);

struct Section {
  uint8_t id;
  std::span<const std::byte> data;
  size_t offset;
};
inline constexpr uint8_t kProgramSection = 4;
Section read_section(Reader& reader);

}  // namespace opentrn::import::vhlo
