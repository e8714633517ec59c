// One call of an op, taken apart: its tensors in a row, how each lies in memory, and the key of its class.
//
// Calls of one class run one program. A class is the op, the type, sizes and order in memory of every tensor,
// and every number; but the value of a scalar tensor of the host (`x * 0.5`), and of a number that the op
// may take as an input, is no part of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/util/SmallVector.h>

namespace opentrn::torch_device {

// How a tensor's elements lie: dense, in the order of its dimensions or in another; or neither.
struct Layout {
  enum Kind : uint8_t { kContiguous, kPermuted, kScattered };
  Kind kind = kContiguous;
  // Dimensions from the slowest to the fastest in memory: kPermuted; kScattered too where that is not their
  // own order, and a copy without gaps keeps it. Those that are expanded (stride 0) hold one element there.
  c10::SmallVector<int64_t, 6> order;
  c10::SmallVector<int64_t, 6> expanded;
};

Layout layout_of(const at::Tensor& tensor);

struct Argument {
  enum Kind : uint8_t {
    kDevice,   // of a core
    kScalar,   // no dimensions, of the host: its value is an input
    kNumber,   // as kScalar, but its value is part of the class
    kForeign,  // of the host, with dimensions
  };
  at::Tensor tensor;
  Kind kind = kDevice;
  bool is_wrapped = false;  // a Python number: gives way to tensors' types
  bool is_written = false;  // and no part of a list
  Layout layout;
};

struct Call {
  const c10::OperatorHandle* op = nullptr;
  c10::ArrayRef<c10::IValue> values;  // the arguments
  c10::SmallVector<Argument, 6> tensors;
  c10::SmallVector<double, 2> numbers;  // that are inputs, in the order of the arguments
  c10::SmallVector<uint64_t, 48> key;
  std::string text;  // of the key: strings
  c10::DeviceIndex device = 0;
  bool has_foreign = false;
  bool has_lazy = false;  // a tensor whose conjugate, or negative, is yet to be taken
  std::optional<at::Generator> generator;
};

// `lifts`: floating-point arguments other than 0 and 1 are inputs.
void read_call(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> values, bool lifts, Call& call);

}  // namespace opentrn::torch_device
