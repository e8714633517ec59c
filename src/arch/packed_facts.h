// The machine tables as bytes, which take a twentieth of the time that their TOML takes to read: every
// command begins with them. The program opentrn_pack_tables reads the TOML when OpenTrn is built, so that a
// mistake in a table is an error of the build; what-if files and settings are still read as TOML.
//
// The bytes are of this build and for this build, numbers in the machine's own order: nothing keeps them.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "arch/fact_table.h"

namespace opentrn::arch {

// Facts in file order with what they inherit, and the items below each prefix.
std::string pack_facts(const FactTable& table);
// What pack_facts() was given.
FactTable unpack_facts(std::string_view bytes);

// The tables of src/arch/tables, packed.
std::string_view packed_tables();

// A table of facts that have been read before; implemented where the TOML is read.
FactTable fact_table_of(std::deque<Fact> facts,
                        std::map<std::string, std::vector<std::string>> items_by_prefix);

}  // namespace opentrn::arch
