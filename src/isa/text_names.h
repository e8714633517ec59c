// Names of enumerated attribute values in the text form; "" is a value that does not exist.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "isa/definitions.h"
#include "isa/program.h"

namespace opentrn::isa::text {

// The name of `value`, or "" where the kind is not enumerated or the value not known.
std::string_view value_name(AttributeKind kind, int64_t value);
std::optional<int64_t> value_from_name(AttributeKind kind, std::string_view name);
bool is_enumerated(AttributeKind kind);
// Flags of an instruction, as words.
inline constexpr std::array<std::pair<uint8_t, std::string_view>, 4> kFlagWords{
    {{kFlagNoReorder, "no_reorder"}, {kFlagCore0, "core0"}, {kFlagCore1, "core1"}, {kFlagLaunch, "launch"}}};
// nc_matmul's accumulate: -1, 0, 1 are auto, false, true.
inline bool is_accumulate(const AttributeSlot& slot) { return slot.name == "accumulate"; }

}  // namespace opentrn::isa::text
