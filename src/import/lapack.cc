#include "import/lapack.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/fault.h"
#include "graph/builder.h"

namespace opentrn::import {

using graph::Attr;
using graph::Attribute;
using graph::Builder;
using graph::Function;
using graph::Module;
using graph::Op;
using graph::OpId;
using graph::OpKind;
using graph::Type;
using graph::ValueId;

namespace {

// What follows the element type's letter: "geqrf" of "lapack_sgeqrf_ffi", "" of another name.
std::string_view lapack_routine(std::string_view target) {
  constexpr std::string_view kBefore = "lapack_", kBehind = "_ffi";
  if (!target.starts_with(kBefore) || !target.ends_with(kBehind)) return "";
  target.remove_prefix(kBefore.size());
  target.remove_suffix(kBehind.size());
  if (target.empty() || std::string_view("sdcz").find(target[0]) == std::string_view::npos) return "";
  return target.substr(1);
}

// The number of `name` in MLIR's text of a dictionary: {mode = 83 : ui8}.
std::optional<int64_t> number_in(std::string_view text, std::string_view name) {
  for (size_t at = text.find(name); at != std::string_view::npos; at = text.find(name, at + 1)) {
    const bool begins = at == 0 || text[at - 1] == '{' || text[at - 1] == ' ' || text[at - 1] == ',';
    std::string_view rest = text.substr(at + name.size());
    if (!begins || !rest.starts_with(" = ")) continue;
    rest.remove_prefix(3);
    int64_t number = 0;
    if (std::from_chars(rest.data(), rest.data() + rest.size(), number).ec == std::errc()) return number;
  }
  return std::nullopt;
}

class LapackCall {
 public:
  LapackCall(Builder& builder, const Op& op, std::string_view routine)
      : b_(builder), op_(op), routine_(routine) {}

  // The values that stand for the call's results; nothing of a routine that is not known.
  std::optional<std::vector<ValueId>> replaced() {
    if (routine_ == "geqrf") return solver("geqrf", {operand(0)});
    if (routine_ == "getrf") return solver("getrf", {operand(0)});
    if (routine_ == "orgqr" || routine_ == "ungqr") return factor();
    if (routine_ == "gesdd") return singular_values();
    if (routine_ == "syevd" || routine_ == "heevd") return eigenvalues();
    if (routine_ == "potrf") return cholesky();
    if (routine_ == "trsm") return triangular();
    return std::nullopt;
  }

  [[noreturn]] void refuse(std::string_view why) const {
    Fault fault(FaultKind::kInput, "import.lapack",
                fmt::format("@{}: {}", op_.string(Attr::call_target_name), why),
                "give the program as it was lowered, for the cpu or for another platform");
    fault.set_location(b_.module().source(op_.location));
    throw fault;
  }

 private:
  ValueId operand(size_t i) const {
    if (i >= op_.operands.size()) refuse(fmt::format("it has {} operands", op_.operands.size()));
    return op_.operands[i];
  }
  const Type& matrix(size_t i) const {
    const Type& type = b_.type(operand(i));
    if (!type.is_tensor() || !type.is_static() || type.rank() < 2)
      refuse(fmt::format("operand {} is {}, no matrix of known sizes", i, type.to_string()));
    return type;
  }
  // A letter of LAPACK's, as a number in the call's attributes.
  char letter(const char* name) const {
    std::optional<int64_t> found;
    const auto look = [&](const Attribute* from) {
      if (from == nullptr || found) return;
      if (const auto* text = from->get<std::string>()) found = number_in(*text, name);
      if (const graph::Dictionary* entries = from->as_dictionary())
        if (const auto entry = entries->find(name); entry != entries->end())
          if (const auto* number = entry->second.get<int64_t>()) found = *number;
    };
    look(op_.find(Attr::backend_config));
    if (op_.extra)
      if (const auto config = op_.extra->find("mhlo.backend_config"); config != op_.extra->end())
        look(&config->second);
    if (!found || *found < 0 || *found > 127) refuse(fmt::format("its attribute {} is missing", name));
    return static_cast<char>(*found);
  }
  bool says(const char* name, char yes, char no) const {
    const char found = letter(name);
    if (found != yes && found != no) refuse(fmt::format("{} is '{}'", name, found));
    return found == yes;
  }

  std::vector<ValueId> solver(const char* name, std::vector<ValueId> operands, const char* words = "") {
    const OpId made = b_.add_op(OpKind::custom_call_, std::move(operands),
                                {{Attr::call_target_name, Attribute(fmt::format("opentrn.{}", name))},
                                 {Attr::backend_config, Attribute(std::string(words))}});
    return b_.function().op(made).results;
  }

  ValueId iota(const Type& type, int64_t axis) {
    return b_.add(OpKind::iota_, {}, {{Attr::iota_dimension, Attribute(axis)}},
                  {Type::tensor(graph::ElementType::kI32, type.dims_vector())});
  }
  ValueId zeros(const Type& type) { return b_.splat(type, 0); }
  // 0 for every matrix: the routine came to its end.
  ValueId no_failure(const Type& of) {
    std::vector<int64_t> dims = of.dims_vector();
    dims.resize(dims.size() - 2);
    return zeros(Type::tensor(graph::ElementType::kI32, std::move(dims)));
  }

  // Q: the product of the reflections, in as many columns as the packed factors have.
  std::vector<ValueId> factor() {
    const Type type = matrix(0);
    const ValueId diagonal =
        b_.compare(graph::ComparisonDirection::kEq, iota(type, type.rank() - 2), iota(type, type.rank() - 1));
    return solver("ormqr", {operand(0), operand(1), b_.convert(diagonal, type.element())});
  }

  // (A, values, U, V^H, info). Without vectors ('N') U and V^H have the sizes of some, and nobody reads them.
  std::vector<ValueId> singular_values() {
    const Type type = matrix(0);
    const char mode = letter("mode");
    if (mode != 'A' && mode != 'S' && mode != 'N') refuse(fmt::format("mode is '{}'", mode));
    const bool is_full = op_.results.size() == 5 && b_.type(op_.results[2]).is_tensor() &&
                         b_.type(op_.results[2]).dims().back() == type.dim(type.rank() - 2) &&
                         b_.type(op_.results[3]).is_tensor() &&
                         b_.type(op_.results[3]).dim(type.rank() - 2) == type.dim(type.rank() - 1);
    const std::vector<ValueId> made = solver("svd", {operand(0)}, is_full ? "full" : "");
    return {operand(0), made[1], made[0], made[2], no_failure(type)};
  }

  // (eigenvectors, eigenvalues rising, info)
  std::vector<ValueId> eigenvalues() {
    const Type type = matrix(0);
    const bool is_upper = says("uplo", 'U', 'L');
    const bool has_vectors = says("mode", 'V', 'N');
    const std::vector<ValueId> made = solver("eigh", {operand(0)}, is_upper ? "sorted upper" : "sorted");
    return {has_vectors ? made[1] : operand(0), made[0], no_failure(type)};
  }

  // (factor, and in the other triangle what A has there; info). A matrix that is not positive definite has
  // NaN as factor and info 1: which leading minor it was is not told.
  std::vector<ValueId> cholesky() {
    const Type type = matrix(0);
    const bool is_lower = says("uplo", 'L', 'U');
    const ValueId whole = b_.add(OpKind::cholesky_, {operand(0)}, {{Attr::lower, Attribute(is_lower)}});
    const ValueId kept =
        b_.compare(is_lower ? graph::ComparisonDirection::kGe : graph::ComparisonDirection::kLe,
                   iota(type, type.rank() - 2), iota(type, type.rank() - 1));
    const ValueId made = b_.add(OpKind::select_, {kept, whole, operand(0)});
    const ValueId is_nan = b_.compare(graph::ComparisonDirection::kNe, whole, whole);
    const ValueId failed =
        b_.reduce(OpKind::or_, b_.add(OpKind::and_, {kept, is_nan}), {type.rank() - 2, type.rank() - 1});
    return {made, b_.convert(failed, graph::ElementType::kI32)};
  }

  // op(A) X = B, or X op(A) = B.
  std::vector<ValueId> triangular() {
    matrix(0);
    matrix(1);
    const char transposed = letter("trans_x");
    using graph::Transpose;
    const Transpose transpose = transposed == 'N'   ? Transpose::kNone
                                : transposed == 'T' ? Transpose::kTranspose
                                : transposed == 'C' ? Transpose::kAdjoint
                                                    : Transpose::kInvalid;
    if (transpose == Transpose::kInvalid) refuse(fmt::format("trans_x is '{}'", transposed));
    return {b_.add(OpKind::triangular_solve_, {operand(0), operand(1)},
                   {{Attr::left_side, Attribute(says("side", 'L', 'R'))},
                    {Attr::lower, Attribute(says("uplo", 'L', 'U'))},
                    {Attr::unit_diagonal, Attribute(says("diag", 'U', 'N'))},
                    {Attr::transpose_a, Attribute(static_cast<int64_t>(transpose))}})};
  }

  Builder& b_;
  const Op& op_;
  std::string_view routine_;
};

void take_results(Builder& builder, const LapackCall& call, const std::vector<ValueId>& stated,
                  const std::vector<ValueId>& made) {
  Function& function = builder.function();
  if (stated.size() != made.size()) call.refuse(fmt::format("it has {} results", stated.size()));
  for (size_t i = 0; i < made.size(); ++i) {
    if (!(function.type(stated[i]) == function.type(made[i])))
      call.refuse(fmt::format("result {} is {}, not {}", i, function.type(stated[i]).to_string(),
                              function.type(made[i]).to_string()));
    function.replace_uses(stated[i], made[i]);
  }
}

void replace_in_block(Module& module, Function& function, graph::BlockId block) {
  const auto is_lapack = [&](OpId id) {
    const Op& op = function.op(id);
    return op.kind == OpKind::custom_call_ && !lapack_routine(op.string(Attr::call_target_name)).empty();
  };
  if (std::ranges::none_of(function.block(block).ops, is_lapack)) return;
  const std::vector<OpId> ops = std::move(function.block(block).ops);
  function.block(block).ops.clear();
  Builder builder(module, function, block);
  for (const OpId id : ops) {
    if (is_lapack(id)) {
      const Op op = function.op(id);
      builder.set_location(op.location);
      LapackCall call(builder, op, lapack_routine(op.string(Attr::call_target_name)));
      if (const auto made = call.replaced()) {
        take_results(builder, call, op.results, *made);
        continue;
      }
    }
    function.block(block).ops.push_back(id);
  }
}

}  // namespace

void replace_lapack_calls(Module& module) {
  for (Function& function : module.functions)
    for (size_t block = 0; block < function.block_count(); ++block)
      replace_in_block(module, function, static_cast<graph::BlockId>(block));
}

}  // namespace opentrn::import
