// How attributes, literals, strings and symbols are written in MLIR text.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/module.h"
#include "graph/op_definitions.h"
#include "graph/text/text.h"

namespace opentrn::graph::text {

std::string spelled_string(std::string_view text);
// @name, quoted where it must be.
std::string spelled_symbol(std::string_view name);
std::string spelled_key(std::string_view key);
// With the point that MLIR wants; the bits in hexadecimal where it is infinite or no number.
std::string spelled_real(ElementType element, const std::byte* bytes);
// dense<...> : type
std::string spelled_literal(const Literal& literal, const PrintOptions& options);
std::string spelled_attribute(std::string_view key, const Attribute& value, const PrintOptions& options);
// {a = 1 : i64, b}
std::string spelled_dictionary(const Dictionary& entries, const PrintOptions& options);
std::string spelled_integers(std::span<const int64_t> values);  // [1, ?, 2]
std::string spelled_location(const Location& location);         // loc(...)

// An op's own attributes as StableHLO names them: those that belong to one struct are joined into it.
// `skip`: names of flat attributes that a pretty form has written already.
struct SpelledAttribute {
  std::string name;
  std::string text;  // empty: the name alone
};
std::vector<SpelledAttribute> spelled_own_attributes(const Function& function, const Op& op,
                                                     const std::vector<Attr>& skip,
                                                     const PrintOptions& options);
// [b, 0, f]x[0, i, o]->[b, 0, f]; empty when the numbers are no permutation of the dimensions.
std::string spelled_convolution_dimensions(const Op& op);
std::string spelled_dot_algorithm(const Op& op);
std::string_view enum_word(AttrKind kind, int64_t number);

}  // namespace opentrn::graph::text
