// Constant data of a graph: the value of stablehlo.constant, weights included.
//
// Shared and immutable, so that copying a module does not copy weights. A splat holds one element.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "graph/type.h"

namespace opentrn::graph {

// Row-major elements, each in storage_bytes(element) little-endian bytes; i1 is 0 or 1; 2-, 4- and
// 6-bit elements take a byte (integers sign- or zero-extended).
class Literal {
 public:
  Literal() = default;
  // bytes: element_count() elements, or exactly one for a splat of more. Input fault on any other size.
  Literal(Type type, std::vector<std::byte> bytes);
  // Bytes that somebody else keeps, for example a mapped file; `owner` keeps them alive.
  Literal(Type type, std::span<const std::byte> bytes, std::shared_ptr<const void> owner);

  const Type& type() const { return type_; }
  std::span<const std::byte> bytes() const { return bytes_; }
  bool is_splat() const;  // one stored element stands for all (also when there is only one)
  const std::byte* element(int64_t index) const {
    return bytes_.data() + (is_splat() ? 0 : index * storage_bytes(type_.element()));
  }
  // All elements, expanded when splat.
  std::vector<std::byte> dense() const;
  bool operator==(const Literal& other) const;  // same type and same bits

 private:
  void check_size() const;

  Type type_;
  std::shared_ptr<const void> owner_;
  std::span<const std::byte> bytes_;
};

}  // namespace opentrn::graph
