// The texts of src/arch/tables/*.toml, put into a library for tests by embed_tables.cmake at build time:
// packed tables are compared with them.
#pragma once

#include <span>
#include <string_view>

namespace opentrn::arch {

struct EmbeddedTable {
  std::string_view file;  // "neuron_core.toml"
  std::string_view text;
};

std::span<const EmbeddedTable> embedded_tables();

}  // namespace opentrn::arch
