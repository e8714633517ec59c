// Source of names, engines and generations: nki/api/nki/isa/__init__.py (NKI 0.6.0 stub) and the
// architecture guides; nc_matmul_sparse: trainium2_arch.rst, "structured sparsity" (no public NKI call).
#include "isa/definitions.h"

#include <algorithm>
#include <array>
#include <functional>
#include <unordered_map>

#include "isa/instructions/row.h"

namespace opentrn::isa {

namespace {

constexpr auto kRows = [] {
  std::array<const InstructionDefinition*, kOpcodeCount> rows{};
#define OPENTRN_PLACE(opcode, name, number) rows.at(number) = &instructions::name;
  OPENTRN_INSTRUCTIONS(OPENTRN_PLACE)
#undef OPENTRN_PLACE
  return rows;
}();
// Of numbers and not of kRows: with UndefinedBehaviorSanitizer GCC compares no addresses in a constant.
constexpr auto kGiven = [] {
  std::array<bool, kOpcodeCount> given{};
#define OPENTRN_PLACE(opcode, name, number) given.at(number) = true;
  OPENTRN_INSTRUCTIONS(OPENTRN_PLACE)
#undef OPENTRN_PLACE
  return given;
}();
static_assert(std::ranges::all_of(kGiven, std::identity{}),
              "two instructions have one number, or a number was left out");

constexpr std::array<std::string_view, kMemorySpaceCount> kSpaceNames = {"sbuf", "psum", "hbm", "private_hbm",
                                                                         "shared_hbm"};
constexpr std::array<std::string_view, kEngineCount> kEngineNames = {"unknown", "tensor", "scalar", "gpsimd",
                                                                     "dma",     "vector", "sync"};

template <typename T, size_t N>
std::optional<T> find_name(const std::array<std::string_view, N>& names, std::string_view name) {
  for (size_t i = 0; i < N; ++i)
    if (names[i] == name) return static_cast<T>(i);
  return std::nullopt;
}

}  // namespace

const InstructionDefinition& definition(Opcode opcode) { return *kRows[static_cast<size_t>(opcode)]; }
Definitions definitions() { return Definitions(kRows); }

std::optional<Opcode> opcode_from_name(std::string_view name) {
  static const auto* index = [] {
    auto* map = new std::unordered_map<std::string_view, Opcode>;
    for (const InstructionDefinition* row : kRows) map->emplace(row->name, row->opcode);
    return map;
  }();
  const auto it = index->find(name);
  if (it == index->end()) return std::nullopt;
  return it->second;
}

std::string_view name(MemorySpace space) { return kSpaceNames[static_cast<size_t>(space)]; }
std::string_view name(Engine engine) { return kEngineNames[static_cast<size_t>(engine)]; }
std::optional<MemorySpace> memory_space_from_name(std::string_view name) {
  return find_name<MemorySpace>(kSpaceNames, name);
}
std::optional<Engine> engine_from_name(std::string_view name) {
  return find_name<Engine>(kEngineNames, name);
}

}  // namespace opentrn::isa
