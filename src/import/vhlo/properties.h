// Which attributes an op of bytecode version 5 and later has among its properties, in their order: MLIR
// writes a bare list of attribute indices, sorted by name.
#pragma once

#include <string_view>
#include <vector>

#include "graph/op_kind.h"

namespace opentrn::import::vhlo {

// "gather_v2" -> the op and 2. kind is empty for func_v1 and for names that VHLO does not have.
struct VersionedName {
  std::string_view base;
  int version = 0;
};
VersionedName versioned_name(std::string_view name);

// `name` as in the bytecode, without the dialect: "gather_v2", "func_v1".
std::vector<std::string_view> vhlo_properties(std::string_view name);
// Of sdy ops and builtin.module; a trailing `?` marks an optional attribute.
std::vector<std::string_view> other_properties(std::string_view dialect, std::string_view name);

}  // namespace opentrn::import::vhlo
