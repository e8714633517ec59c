// The operators and kernels of a library of custom operators, by name, and calls of them with operands that
// come as custom_op_abi.h's. A tensor is one operand. A number is one too, of two int32: the halves of its 64
// bits, low first.
#ifndef OPENTRN_TORCH_GPSIMD_OPERATORS_H_
#define OPENTRN_TORCH_GPSIMD_OPERATORS_H_

#include <functional>
#include <map>
#include <tuple>

#include "custom_op_abi.h"
#include "opentrn/tensor.h"

namespace torch {
namespace neuron {

template <typename T>
using Plain = std::remove_cv_t<std::remove_reference_t<T>>;

// What a parameter is: 't' a tensor, 'd' a double, 'i' an int64_t, 's' a Scalar; '?' is what no operator
// takes.
template <typename T>
constexpr char kind_of() {
  if (std::is_same<Plain<T>, Tensor>::value) return 't';
  if (std::is_same<Plain<T>, double>::value) return 'd';
  if (std::is_same<Plain<T>, int64_t>::value) return 'i';
  return std::is_same<Plain<T>, Scalar>::value ? 's' : '?';
}

template <typename... Args>
constexpr bool are_parameters() {
  return ((kind_of<Args>() != '?') && ...);
}

struct Argument {
  Tensor tensor;
  double real = 0;
  int64_t whole = 0;

  operator const Tensor&() const { return tensor; }  // NOLINT(google-explicit-constructor)
  operator double() const { return real; }           // NOLINT(google-explicit-constructor)
  operator int64_t() const { return whole; }         // NOLINT(google-explicit-constructor)
};

template <typename T>
Plain<T> given(const Argument& argument) {
  return static_cast<Plain<T>>(argument);
}
template <>
inline Scalar given<Scalar>(const Argument& argument) {
  return argument.real;
}

struct Function {
  std::string kinds;
  std::function<Tensor(const std::vector<Argument>&)> call;
};

template <typename... Args, size_t... I>
Function function_of(Tensor (*function)(Args...), std::index_sequence<I...> /*places*/) {
  return {{kind_of<Args>()...}, [function](const std::vector<Argument>& arguments) {
            // What a kernel takes by reference lives as long as its call.
            std::tuple<Plain<Args>...> values(given<Plain<Args>>(arguments[I])...);
            return function(static_cast<Args>(std::get<I>(values))...);
          }};
}
template <typename... Args>
Function function_of(Tensor (*function)(Args...)) {
  return function_of(function, std::index_sequence_for<Args...>{});
}

struct Operator {
  std::string name;  // library::op
  Function shape;
  std::string kernel;
};

inline std::vector<Operator>& operators() {
  static std::vector<Operator> every;
  return every;
}
inline std::map<std::string, Function>& kernels() {
  static std::map<std::string, Function> every;
  return every;
}
// What is wrong with the library; it is not loaded then.
inline std::string& fault() {
  static std::string text;
  return text;
}

// "the library can have 10 functions registered": custom-ops-ref-guide.rst, "Library Limitations".
constexpr size_t kOperatorsMax = 10;

class Library {
 public:
  explicit Library(std::string name) : name_(std::move(name)) {}

  template <typename... Args>
  void def(const char* op, Tensor (*shape)(Args...), const char* kernel) {
    static_assert(
        are_parameters<Args...>(),
        "an operator takes torch::Tensor, torch::Scalar, double and int64_t, and gives a torch::Tensor");
    operators().push_back({name_ + "::" + op, function_of(shape), kernel});
    if (operators().size() > kOperatorsMax)
      fault() = "the library has more than " + std::to_string(kOperatorsMax) +
                " operators, which is Neuron's limit";
  }

 private:
  std::string name_;
};

inline bool define_library(const char* name, void (*define)(Library&)) {
  Library library(name);
  define(library);
  return true;
}

// Every function of a source of kernels comes here; those that are no kernel by their type are left out.
template <typename... Args>
std::enable_if_t<are_parameters<Args...>(), bool> add_kernel(const char* name, Tensor (*kernel)(Args...)) {
  kernels()[name] = function_of(kernel);
  return true;
}
template <typename T>
bool add_kernel(const char* /*name*/, T /*another_function*/) {
  return false;
}

inline ScalarType type_of(const std::string& name) {
  for (const ScalarType type : {kByte, kChar, kShort, kInt, kHalf, kFloat, kBFloat16})
    if (name == c10::spelling(type)) return type;
  throw Fault("custom C++ operators have no " + name +
              "; they have float32, bfloat16, float16, int32, int16, int8 and uint8");
}

// "up to 8 dimensions": custom-ops-ref-guide.rst, "Library Limitations".
constexpr int32_t kRankMax = 8;

inline IntArrayRef shape_of(const opentrn_tensor& tensor) {
  return {tensor.shape, static_cast<size_t>(tensor.rank)};
}

inline std::vector<Argument> arguments_of(const Operator& op, const opentrn_tensor* inputs, int32_t count) {
  const std::string& kinds = op.shape.kinds;
  check(static_cast<size_t>(count) == kinds.size(),
        "takes " + std::to_string(kinds.size()) + " arguments, not " + std::to_string(count));
  std::vector<Argument> arguments(kinds.size());
  for (size_t i = 0; i < kinds.size(); ++i) {
    const opentrn_tensor& input = inputs[i];
    if (kinds[i] == 't') {
      check(input.rank <= kRankMax,
            "an operand of rank " + std::to_string(input.rank) + "; Neuron's limit is 8");
      arguments[i].tensor = Tensor(shape_of(input), type_of(input.dtype), input.data, true);
      continue;
    }
    check(input.element_bytes == 4 && input.rank == 1 && input.shape[0] == 2, "a number is two int32");
    if (kinds[i] == 'i') {
      std::memcpy(&arguments[i].whole, input.data, sizeof(int64_t));
    } else {
      std::memcpy(&arguments[i].real, input.data, sizeof(double));
    }
  }
  return arguments;
}

inline void copy_result(const Tensor& from, const Tensor& to) {
  check(from.defined() && from.sizes() == to.sizes() && from.scalar_type() == to.scalar_type(),
        "the kernel returns " +
            (from.defined() ? c10::spelling(from.scalar_type()) + listed(from.sizes())
                            : std::string("nothing")) +
            " and the shape function " + c10::spelling(to.scalar_type()) + listed(to.sizes()));
  std::memcpy(to.bytes(), from.bytes(), static_cast<size_t>(to.numel()) * to.element_size());
}

// Runs the kernel on one core, or on each of the eight, one after the other: they are not synchronised.
inline void run(const Operator& op, bool is_multicore, const opentrn_tensor& output,
                const opentrn_tensor* inputs, int32_t count) {
  const Function& kernel = kernels().at(op.kernel);
  Tensor result(shape_of(output), type_of(output.dtype), output.data, false);
  for (uint32_t core = 0; core < (is_multicore ? kCores : 1); ++core) {
    Call call;
    call.result = &result;
    call.is_multicore = is_multicore;
    call.core = core;
    struct Within {
      explicit Within(Call* now) { this_call() = now; }
      ~Within() { this_call() = nullptr; }
    } within(&call);
    const Tensor returned = kernel.call(arguments_of(op, inputs, count));
    check(
        call.took_result || !is_multicore,
        "a kernel with multicore=True writes its result to get_dst_tensor(), and this one never asks for it");
    if (!call.took_result) copy_result(returned, result);
  }
}

// Calls `what`; 0, or 1 with the reason in `message`.
template <typename F>
int guarded(const std::string& name, char* message, size_t bytes, F&& what) noexcept {
  try {
    what();
    return 0;
  } catch (const std::exception& fault) {
    std::snprintf(message, bytes, "%s: %s", name.c_str(), fault.what());
  } catch (...) {
    std::snprintf(message, bytes, "%s: its kernel threw something", name.c_str());
  }
  return 1;
}

}  // namespace neuron
}  // namespace torch

#endif  // OPENTRN_TORCH_GPSIMD_OPERATORS_H_
