// What a shape rule sees of one op, and how it refuses one.
//
// A rule is a function from a Context to result types. Rules live by family in this folder; the table
// that says which op has which rule, and which constraint of the specification a wrong stated result
// breaks, is in ../shape_rules.cc.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/module.h"

namespace opentrn::graph::shape {

using Types = std::vector<Type>;
using Dims = std::vector<int64_t>;

// Kinds of elements that an operand may have; a set.
enum ElementSet : uint32_t {
  kBools = 1,
  kSigned = 2,
  kUnsigned = 4,
  kFloats = 8,
  kComplexes = 16,
  kQuantizedPerTensor = 32,
  kQuantizedPerAxis = 64,
  kInts = kSigned | kUnsigned,
  kNumbers = kInts | kFloats | kComplexes,
  kQuantized = kQuantizedPerTensor | kQuantizedPerAxis,
  kAnyPlain = kBools | kNumbers,
  kAnyElement = kAnyPlain | kQuantized,
  kPerTensor = kAnyPlain | kQuantizedPerTensor,  // what most ops take
};

struct Signature {
  Types arguments;
  Types results;
};

class Context {
 public:
  Context(const Module& module, const Function& function, const Op& op, std::span<const Type> stated,
          uint32_t elements)
      : module_(module), function_(function), op_(op), stated_(stated), elements_(elements) {}

  const Module& module() const { return module_; }
  const Op& op() const { return op_; }
  // What the table of rules allows as elements of this op's tensors.
  uint32_t elements() const { return elements_; }
  size_t operand_count() const { return op_.operands.size(); }
  // Any type.
  const Type& operand_type(size_t i) const { return function_.type(op_.operands[i]); }
  // A tensor whose elements are of `allowed`; "op.I<i+1>" otherwise.
  const Type& tensor(size_t i, uint32_t allowed = kPerTensor) const;
  const Type& scalar(size_t i, uint32_t allowed = kPerTensor) const;
  const Type& vector(size_t i, uint32_t allowed = kPerTensor) const;
  void want_tensor(const Type& type, std::string_view what, std::string_view label, uint32_t allowed) const;

  bool has_stated() const { return !stated_.empty(); }
  std::span<const Type> stated() const { return stated_; }
  // The type that the program states for result i, a tensor of `allowed` elements; a fault when the program
  // states none.
  const Type& stated_tensor(size_t i, uint32_t allowed = kAnyElement) const;

  int64_t integer(Attr attr) const { return op_.integer(attr); }
  std::span<const int64_t> integers(Attr attr) const { return op_.integers(attr); }
  Dims integers_or(Attr attr, size_t count, int64_t absent) const {
    return op_.integers_or(attr, count, absent);
  }
  // The list, empty when absent.
  Dims list(Attr attr) const { return op_.integers_or(attr, 0, 0); }

  size_t region_count() const { return op_.regions.size(); }
  // Types of the arguments and of what the region's return_ returns.
  Signature region(size_t i) const;

  // "dot_general", "chlo.erf": the head of labels.
  std::string op_name() const;
  // Label "op.C<constraint>".
  template <typename... Args>
  void check(bool holds, int constraint, fmt::format_string<Args...> format, Args&&... args) const {
    if (!holds) [[unlikely]]
      fail(constraint, fmt::format(format, std::forward<Args>(args)...));
  }
  [[noreturn]] void fail(int constraint, std::string message) const;
  [[noreturn]] void fail(std::string_view suffix, std::string message) const;

 private:
  const Module& module_;
  const Function& function_;
  const Op& op_;
  std::span<const Type> stated_;
  uint32_t elements_;
};

// Dimensions agree when equal or when one is dynamic.
inline bool agrees(int64_t a, int64_t b) { return a == b || a == kDynamic || b == kDynamic; }
inline bool is_dynamic(int64_t dim) { return dim == kDynamic; }
bool shapes_agree(std::span<const int64_t> a, std::span<const int64_t> b);
// The same element type; of quantized types, all but scales, zero points and quantized axis.
bool same_element(const Type& a, const Type& b);
// Types agree when a value of one may be a value of the other: same kind, same element, agreeing
// dimensions within the other's bounds.
bool agree(const Type& a, const Type& b);
bool agree(std::span<const Type> a, std::span<const Type> b);
// The dimensions that both say, static where one is; they agree. Element of a.
Type merged(const Type& a, const Type& b);
// Whether a value of type `from` may be combined in `to`: spec, is_promotable.
bool is_promotable(const Type& from, const Type& to);
// The element of `like` with dimensions; quantized stays quantized.
Type typed(const Type& like, Dims dims);

bool is_unique(std::span<const int64_t> values);
bool is_sorted(std::span<const int64_t> values);
bool in_range(std::span<const int64_t> values, int64_t low, int64_t high);  // [low, high)
bool contains(std::span<const int64_t> values, int64_t value);
Dims concatenated(std::initializer_list<std::span<const int64_t>> lists);

// Arithmetic on sizes; "graph.type" when it passes int64. Dynamic in, dynamic out.
int64_t plus(int64_t a, int64_t b);
int64_t times(int64_t a, int64_t b);

// "[2, ?, 3]"
std::string text(std::span<const int64_t> dims);

// Sizes of one dimension of convolution, reduce_window and select_and_scatter: how often a window fits.
struct Window {
  int64_t size = 1;
  int64_t stride = 1;
  int64_t padding_low = 0;
  int64_t padding_high = 0;
  int64_t base_dilation = 1;
  int64_t window_dilation = 1;
};
int64_t window_count(int64_t input, const Window& window);

// A region that combines two tuples of scalars into one: (E0.., E0..) -> (E0..), each of `inputs`
// promotable to its E. Returns the E's; `constraint` is broken otherwise.
Types combiner(const Context& c, size_t region, std::span<const Type> inputs, int constraint);

}  // namespace opentrn::graph::shape
