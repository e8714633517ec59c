// StableHLO in its portable form: VHLO 0.9 to 1.20 in MLIR bytecode, as jax.export, PJRT and
// stablehlo.serialize_portable_artifact write it, with the sdy and builtin attributes of mixed modules.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "graph/module.h"

namespace opentrn::import {

// By the first bytes, ML\xEFR.
inline bool is_vhlo(std::span<const std::byte> bytes) {
  return bytes.size() >= 4 && std::memcmp(bytes.data(), "ML\xEFR", 4) == 0;
}

struct VhloOptions {
  // Where given, a function that holds what OpenTrn does not take (Fault kNotModelled) is left out, and its
  // name and the reason go here: for looking at what a file has in scope.
  std::vector<std::pair<std::string, std::string>>* refused = nullptr;
};

// Throws Fault{kInput, "vhlo.bytecode"} with the offset. When `owner` keeps `bytes` alive, constants refer
// to them; otherwise they are copied.
graph::Module read_vhlo(std::span<const std::byte> bytes, std::shared_ptr<const void> owner = nullptr,
                        const VhloOptions& options = {});

}  // namespace opentrn::import
