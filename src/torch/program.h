// What runs the calls of one class: a program of the device, or PyTorch's own op on the host.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <c10/core/ScalarType.h>

#include "runtime/program_call.h"
#include "torch/call.h"
#include "torch/device.h"

namespace opentrn::torch_device {

struct Input {
  enum Kind : uint8_t { kTensor, kScalar, kNumber, kConstant } kind = kTensor;
  size_t index = 0;        // among the call's tensors or numbers
  c10::ScalarType type{};  // kScalar (a number of Python's), kNumber: in which it is handed over
  at::Tensor constant;
};

struct Output {
  int64_t target = -1;       // the call's tensor that it is written into; -1: a new one
  int64_t copied_from = -1;  // the call's tensor that it is a copy of; -1: none
  int64_t repeats = -1;      // the number of the output before it that it equals; -1: a result of the program
  std::vector<int64_t> sizes, strides;
  c10::ScalarType type{};
  bool is_in_order = true;  // of the result's memory; else it is written row-major and copied
};

struct Returned {
  enum Kind : uint8_t { kOutput, kArgument, kList, kNone } kind = kNone;
  size_t index = 0;
  std::vector<size_t> items;  // kList: outputs
};

// Kept by streams longer than the table keeps the program.
class ProgramTime final : public Timed {
 public:
  ProgramTime(size_t number, std::string name) : number_(number), name_(std::move(name)) {}
  double time_ns() override;
  std::string label() const override { return name_; }

 private:
  const size_t number_;
  const std::string name_;
  std::mutex mutex_;
  std::optional<double> time_ns_;
};

struct Program {
  enum Kind : uint8_t { kDevice, kHost } kind = kDevice;
  std::string name;
  runtime::ProgramCall run = nullptr;
  void* model = nullptr;       // kept by `plan`
  std::shared_ptr<void> plan;  // Python's object; letting go of it takes the interpreter lock
  bool draws = false;
  std::vector<Input> inputs;
  std::vector<Output> outputs;
  std::vector<Returned> returned;
  size_t number = 0;  // among all programs
  std::atomic<int64_t> runs = 0;
  std::atomic<int64_t> host_ns = 0;  // that runs took on this host, counted where somebody asked for it
  std::shared_ptr<Timed> time;
};

// The program for a class that has none yet, made by Python (opentrn.torch.eager.compiler). Throws what
// Python raises.
std::unique_ptr<Program> compile(const Call& call, bool lifts);

// Nanoseconds of a program that is in the table by the timing model, 0 where it has none; asks Python.
double time_of(size_t number);

// Calls what is in hand with the interpreter lock dropped if this thread has it; throws the Python error of a
// run.
void run_program(const Program& program, c10::DeviceIndex device, const void* const* inputs,
                 void* const* outputs);

// Whether numbers of this op are inputs of its programs.
bool lifts_numbers(const std::string& op);

}  // namespace opentrn::torch_device
