// The NeuronCore generations. Every layer names them by this enumeration: a number stands for a generation
// only in a file, in a message and in Python.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace opentrn {

// The value is the version number that NKI reports: nc_version.gen2 == 2.
enum class Generation : uint8_t { kV1 = 1, kV2 = 2, kV3 = 3, kV4 = 4 };

inline constexpr std::array<Generation, 4> kGenerations = {Generation::kV1, Generation::kV2, Generation::kV3,
                                                           Generation::kV4};

constexpr int version(Generation generation) { return static_cast<int>(generation); }
std::optional<Generation> generation_of_version(int64_t version);
std::string_view table_key(Generation generation);  // "v3", as in neuron_core.v3
std::string_view name(Generation generation);       // "NeuronCore-v3"

}  // namespace opentrn
