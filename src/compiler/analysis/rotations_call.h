// @opentrn.rotations(state, vectors): a custom call of the compiler's own, which expanding eigenvalues and
// singular values writes (expand/eigen.cc) and a kernel takes (lowering/small_rotations.cc). It is `state`
// [batch, rows, n] and `vectors` [batch, n, n] after rounds of Jacobi's rotations, n of which bring any two
// columns together once and leave the columns in another order; after twice as many they are in the order in
// which they came. The backend_config is the number of rounds, behind "both" where the rows of the state are
// turned with its columns.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "graph/module.h"

namespace opentrn::compiler {

inline constexpr const char* kRotationsTarget = "opentrn.rotations";

struct RotationsCall {
  bool both = false;
  int64_t rounds = 0;

  std::string words() const { return (both ? "both " : "") + std::to_string(rounds); }
  static std::optional<RotationsCall> of(const graph::Op& op) {
    if (op.kind != graph::OpKind::custom_call_ ||
        op.string(graph::Attr::call_target_name) != kRotationsTarget)
      return std::nullopt;
    const std::string words = op.string(graph::Attr::backend_config);
    const bool both = words.starts_with("both ");
    return RotationsCall{both, std::stoll(words.substr(both ? 5 : 0))};
  }
};

// @opentrn.row_rotations(state): the same of rows. It is `state` [batch, n, length] after rounds in which
// pairs of its rows are turned until their first `measured` elements are orthogonal; n is even, and rows
// change their order as columns do above. The backend_config has the two numbers.
inline constexpr const char* kRowRotationsTarget = "opentrn.row_rotations";

struct RowRotationsCall {
  int64_t measured = 0, rounds = 0;

  std::string words() const { return std::to_string(measured) + " " + std::to_string(rounds); }
  static std::optional<RowRotationsCall> of(const graph::Op& op) {
    if (op.kind != graph::OpKind::custom_call_ ||
        op.string(graph::Attr::call_target_name) != kRowRotationsTarget)
      return std::nullopt;
    const std::string words = op.string(graph::Attr::backend_config);
    return RowRotationsCall{std::stoll(words), std::stoll(words.substr(words.find(' ') + 1))};
  }
};

}  // namespace opentrn::compiler
