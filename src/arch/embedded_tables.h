// The texts of src/arch/tables/*.toml, put into the library by embed_tables.cmake at build time.
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
