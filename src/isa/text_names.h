// Names of enumerated attribute values in the text form; "" is a value that does not exist.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "isa/definitions.h"

namespace opentrn::isa::text {

// The name of `value`, or "" where the kind is not enumerated or the value not known.
std::string_view value_name(AttributeKind kind, int64_t value);
std::optional<int64_t> value_from_name(AttributeKind kind, std::string_view name);
bool is_enumerated(AttributeKind kind);
// nc_matmul's accumulate: -1, 0, 1 are auto, false, true.
inline bool is_accumulate(const AttributeSlot& slot) { return slot.name == "accumulate"; }

}  // namespace opentrn::isa::text
