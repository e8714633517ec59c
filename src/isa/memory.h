// Memory spaces and engines of a NeuronCore, as an instruction names them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace opentrn::isa {

enum class MemorySpace : uint8_t { kSbuf, kPsum, kHbm, kPrivateHbm, kSharedHbm };
inline constexpr int kMemorySpaceCount = 5;

constexpr bool is_on_chip(MemorySpace space) {
  return space == MemorySpace::kSbuf || space == MemorySpace::kPsum;
}
constexpr bool is_hbm(MemorySpace space) { return !is_on_chip(space); }

// Values are those of nki.isa.engine.
enum class Engine : uint8_t {
  kUnknown = 0,
  kTensor = 1,
  kScalar = 2,
  kGpSimd = 3,
  kDma = 4,
  kVector = 5,
  kSync = 6
};
inline constexpr int kEngineCount = 7;

using EngineMask = uint8_t;
constexpr EngineMask mask(Engine engine) { return static_cast<EngineMask>(1u << static_cast<int>(engine)); }

std::string_view name(MemorySpace space);  // "sbuf"
std::string_view name(Engine engine);      // "vector"
std::optional<MemorySpace> memory_space_from_name(std::string_view name);
std::optional<Engine> engine_from_name(std::string_view name);

}  // namespace opentrn::isa
