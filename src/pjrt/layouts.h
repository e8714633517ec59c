// Memory layouts: the order of an array's dimensions in a device's memory.
//
// On the host an array keeps its elements row-major, whatever its layout. A program takes and gives the bytes
// as they lie on the device: it transposes where a layout is not row-major, and its time says so.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/literal.h"
#include "graph/module.h"

namespace opentrn::pjrt {

// A permutation: the dimensions from the fastest to the slowest.
using MinorToMajor = std::vector<int64_t>;

MinorToMajor row_major(int64_t rank);
bool is_row_major(const MinorToMajor& order);
// Whether it names each of `rank` dimensions once.
bool is_order(MinorToMajor order, int64_t rank);
// As XLA writes it: "{1,0}".
std::string to_text(const MinorToMajor& order);

// Of a program's arguments and results, in order.
struct Layouts {
  std::vector<MinorToMajor> arguments, results;

  bool are_row_major() const;
};

// What `mhlo.layout_mode` asks for. "auto" is row-major, but for a result that is the transpose of another
// value: it lies as that value does, and costs nothing. `types` are the arguments' and results'. kNotModelled
// fault for a layout in tiles; input fault for one that is no permutation of the dimensions.
Layouts layouts_of(const graph::Function& entry, std::span<const graph::Type> arguments,
                   std::span<const graph::Type> results, std::string_view program);

// The function on arguments and results as they lie in memory: transposes stand between them and the ops.
void lay_out(graph::Function& function, const Layouts& layouts);

// The row-major array whose bytes are those of `type` in `order`.
graph::Type in_memory(const graph::Type& type, const MinorToMajor& order);
// Values between the host's order, in which they are of `type`, and the memory's.
graph::Literal in_memory(const graph::Literal& value, const MinorToMajor& order);
graph::Literal from_memory(const graph::Literal& value, const graph::Type& type, const MinorToMajor& order);
std::vector<graph::Literal> in_memory(std::span<const graph::Literal> values,
                                      std::span<const MinorToMajor> orders);
std::vector<graph::Literal> from_memory(std::span<const graph::Literal> values,
                                        std::span<const graph::Type> types,
                                        std::span<const MinorToMajor> orders);

}  // namespace opentrn::pjrt
