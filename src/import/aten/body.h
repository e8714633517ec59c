// StableHLO text, op by op: values, and the ops that the rules for ATen's ops (rules.h) are made of.
//
// A graph of torch's crosses to the compiler as text, which is also the file that `opentrn compile` takes.
// Types are torch's: int64 and float64 stay what they are in the text, and the compiler gives them 32 bits.
#pragma once

#include <complex>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "graph/element_type.h"

namespace opentrn::import::aten {

using graph::ElementType;
using Shape = std::vector<int64_t>;
using Number = std::variant<bool, int64_t, double, std::complex<double>>;

// A tensor of the program.
struct Value {
  std::string name;
  Shape shape;
  ElementType dtype = ElementType::kF32;

  int rank() const { return static_cast<int>(shape.size()); }
  std::string type() const;
};

// Shape, type and strides (in elements) of a tensor.
struct Spec {
  Shape shape;
  ElementType dtype = ElementType::kF32;
  Shape stride;
};

using Kind = std::pair<Shape, ElementType>;
using Pairs = std::vector<std::pair<int64_t, int64_t>>;

// What an op is given: nothing, a number, a tensor, a type, a word, or a list of such.
struct Arg {
  std::variant<std::monostate, Number, Value, ElementType, std::string, std::vector<Arg>> held;

  bool is_none() const { return std::holds_alternative<std::monostate>(held); }
  bool is_value() const { return std::holds_alternative<Value>(held); }
  bool is_number() const { return std::holds_alternative<Number>(held); }
  bool is_list() const { return std::holds_alternative<std::vector<Arg>>(held); }
  bool is_integer() const;  // a whole number of Python's, bool included
  const Value& value() const;
  const Number& number() const;
  int64_t integer() const;
  double real() const;
  bool flag() const;
  const std::string& text() const;
  const std::vector<Arg>& list() const;
  Shape integers() const;
  std::vector<Value> values() const;
};

double real_of(const Number& number);
bool equals(const Number& number, double other);
// Whether a float type of 16 bits holds a number that is no complex one as float32 does.
bool holds(ElementType dtype, const Number& number);

// tensor<2x3xf32>
std::string type_text(const Shape& shape, ElementType dtype);
// array<i64: 1, 2>
std::string numbers(const Shape& values);
// Padding: dense<[[1, 2], [0, 0]]> : tensor<2x2xi64>
std::string pairs(const Pairs& values);
// [0, 1]
std::string list_text(const Shape& values);

int64_t size_of(const Shape& shape);
bool is_empty(const Shape& shape);
bool has(const Shape& values, int64_t value);
// 0, 1, ... count - 1
Shape counted_up(int64_t count);
Shape broadcast_shape(const std::vector<Shape>& shapes);
// From the end where it is negative.
int64_t axis_of(int64_t axis, int64_t rank);

bool is_signed(ElementType dtype);  // as torch has it: floats are, bool is not
// The lowest and the highest whole number that a device holds of a type.
std::pair<int64_t, uint64_t> integer_range(ElementType dtype);
// What a formula of several steps is computed in: fp32 for narrower floats, as torch's own kernels do.
ElementType math_dtype(ElementType dtype);

// What is torch's to say: it differs between its versions.
struct Torch {
  bool e4m3_saturates = false;  // what is out of float8_e4m3fn's range becomes its largest number, not NaN
  std::function<uint8_t(double, ElementType)> byte_of;  // a number as a float of one byte
};
Torch& torch();

// A number as MLIR spells it in a constant. Fault kNotModelled for one without a form.
std::string literal(const Number& value, ElementType dtype);

// Fault kNotModelled unless the condition holds. message: what follows the name of the op.
void require(bool condition, const std::string& message);

// A function or region being written. Names are unique over all regions of a program.
class Body {
 public:
  using Build = std::function<std::vector<Value>(Body&, const std::vector<Value>&)>;

  Body() = default;

  std::string fresh();
  const std::vector<std::string>& lines() const { return lines_; }
  int depth() const { return depth_; }  // of regions in regions
  std::string location;                 // behind every op that is written
  // Results of the op being written that anything reads; nothing where all may be.
  std::optional<std::set<int64_t>> read;
  bool is_read(int64_t number) const { return !read || read->count(number) > 0; }

  // `name` without a dialect is StableHLO's.
  Value op(std::string_view name, const std::vector<Value>& operands, Shape shape, ElementType dtype,
           const std::string& attributes = "", const std::string& regions = "");
  std::vector<Value> ops(std::string_view name, const std::vector<Value>& operands,
                         const std::vector<Kind>& results, const std::string& attributes = "",
                         const std::string& regions = "");

  // A region over numbers, as reductions and sorts take it; build gives its results.
  std::string region(const std::vector<ElementType>& arguments, const Build& build);
  // A region over tensors; it may read values of this body too.
  std::string block(const std::vector<Kind>& arguments, const Build& build);
  // The same with this body itself, whose ops are those of the region until close_block() gives its text.
  std::vector<Value> open_block(const std::vector<Kind>& arguments);
  std::string close_block(const std::vector<Value>& results);

  // A constant of one value; the same one for the same value and type.
  Value splat(const Number& value, ElementType dtype, const Shape& shape = {});
  Value like(const Number& value, const Value& other) { return splat(value, other.dtype, other.shape); }
  // Elements one after the other, as torch has them in memory.
  Value constant(const Shape& shape, ElementType dtype, std::string_view bytes);
  Value constant(const Shape& shape, const std::vector<float>& elements);
  Value constant(const Shape& shape, const std::vector<int32_t>& elements);
  Value constant(const Shape& shape, const std::vector<bool>& elements);
  Value iota(const Shape& shape, int64_t dimension, ElementType dtype);
  // A Value or a number, in that type and broadcast to that shape.
  Value tensor(const Arg& value, ElementType dtype, const Shape& shape);
  Value tensor(const Value& value, ElementType dtype, const Shape& shape);

  // As torch converts: numbers become true unless they are zero, complex numbers lose their imaginary part.
  Value convert(const Value& value, ElementType dtype);
  Value reshape(const Value& value, const Shape& shape);
  Value transpose(const Value& value, const Shape& permutation);
  Value broadcast_in_dim(const Value& value, const Shape& shape, const Shape& dimensions);
  // By torch's rule: dimensions count from the last.
  Value broadcast(const Value& value, const Shape& shape);
  Value slice(const Value& value, const Shape& start, const Shape& limit,
              const std::optional<Shape>& strides = {});
  Value slice_axis(const Value& value, int64_t axis, int64_t start, int64_t limit, int64_t step = 1);
  // Negative amounts cut.
  Value pad(const Value& value, const Shape& low, const Shape& high,
            const std::optional<Shape>& interior = {}, const Number& fill = int64_t{0});
  Value concatenate(const std::vector<Value>& values, int64_t axis);
  Value reverse(const Value& value, const Shape& axes);

  Value unary(std::string_view name, const Value& value) {
    return op(name, {value}, value.shape, value.dtype);
  }
  Value binary(std::string_view name, const Value& left, const Value& right);
  Value add(const Value& left, const Value& right);
  Value subtract(const Value& left, const Value& right) { return binary("subtract", left, right); }
  Value multiply(const Value& left, const Value& right);
  Value divide(const Value& left, const Value& right) { return binary("divide", left, right); }
  // direction: EQ, NE, LT, LE, GT, GE
  Value compare(std::string_view direction, const Value& left, const Value& right);
  Value select(const Value& condition, const Value& left, const Value& right);
  Value is_nan(const Value& value) { return compare("NE", value, value); }
  Value is_finite(const Value& value) { return op("is_finite", {value}, value.shape, ElementType::kI1); }
  // What no value of a type is below, or above.
  static Number lowest(ElementType dtype);
  static Number highest(ElementType dtype);

  // Without the axes. combiner: the StableHLO op of two numbers.
  Value reduce(std::string_view combiner, const Value& value, Shape axes, const Number& initial);
  Value reduce_window(std::string_view combiner, const Value& value, const Number& initial,
                      const Shape& window, const Shape& strides, const Pairs& padding,
                      const std::optional<Shape>& dilation = {});
  // dot_general: dimensions of the batch, then free ones of the left, then of the right.
  Value dot(const Value& left, const Value& right, const std::pair<Shape, Shape>& contract,
            const std::pair<Shape, Shape>& batch = {}, std::optional<ElementType> dtype = {});

  // Uniform 32-bit words; another stream for each call in a graph.
  Value random_words(const Shape& shape);
  // What the next call draws from, in the first of `count` bytes, as torch keeps a generator's state.
  Value saved_state(int64_t count);
  // From here on calls draw what they would have drawn when saved_state() made `saved`; until resume_draws().
  void draw_from(const Value& saved);
  void resume_draws();
  const std::optional<Value>& state() const { return state_; }  // of the random generator: four words

  // A result that every run looks at: LAPACK's `info`, for which torch raises LinAlgError where it is not 0,
  // or whether an assertion does not hold, for which RuntimeError is raised.
  struct Check {
    Value value;
    std::string name;        // of the op, or what the assertion says
    bool is_matrix = false;  // no batch of them
    bool is_assertion = false;
  };
  void check_info(const Value& info, std::string name, bool is_matrix);
  void check_that(const Value& condition, std::string message);  // one element
  const std::vector<Check>& checks() const { return checks_; }
  // That a mask chooses as many elements as there are rows for them: `message` says that there are others.
  // Held where `holds_masks` is, in the graph itself: a region of it has no results to look at.
  void check_chosen(const Value& mask, std::string_view comparison, int64_t rows, std::string message);
  bool holds_masks = false;
  int64_t draws() const { return draws_; }

 private:
  using Splats = std::map<std::pair<std::string, std::string>, Value>;
  struct Outer {
    std::vector<std::string> lines;
    Splats splats;
    std::string location;
    std::optional<std::set<int64_t>> read;
    std::vector<Value> given;
  };

  Body(std::shared_ptr<int64_t> counter, int depth) : counter_(std::move(counter)), depth_(depth) {}
  Value within_e4m3(Value value);
  Value state_words();

  std::vector<std::string> lines_;
  std::shared_ptr<int64_t> counter_ = std::make_shared<int64_t>(0);
  int depth_ = 0;
  Splats splats_;
  std::vector<Outer> outer_;
  std::optional<Value> state_;
  int64_t draws_ = 0;
  std::vector<Check> checks_;
  std::vector<std::pair<std::optional<Value>, int64_t>> resumed_;
};

}  // namespace opentrn::import::aten
