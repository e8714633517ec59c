// The NeuronCore generations, and the many names people give them.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace opentrn::arch {

// The value is the version number that NKI reports: nc_version.gen2 == 2.
enum class Generation : uint8_t { kV1 = 1, kV2 = 2, kV3 = 3, kV4 = 4 };

inline constexpr std::array<Generation, 4> kGenerations = {Generation::kV1, Generation::kV2, Generation::kV3,
                                                           Generation::kV4};

constexpr int version(Generation generation) { return static_cast<int>(generation); }
std::string_view table_key(Generation generation);  // "v3", as in neuron_core.v3
std::string_view name(Generation generation);       // "NeuronCore-v3"

}  // namespace opentrn::arch
