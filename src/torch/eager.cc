// One boxed kernel runs ops as programs: it looks for the class of the call, has Python write and compile a
// program where there is none, hands over addresses and wraps what comes back.
#include "torch/eager.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <list>
#include <shared_mutex>
#include <unordered_map>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/native/Resize.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include "torch/autograd_threads.h"
#include "torch/generator.h"
#include "torch/host_view.h"
#include "torch/overlaps.h"
#include "torch/places.h"
#include "torch/values.h"

namespace opentrn::torch_device {

namespace {

struct Key {
  std::vector<uint64_t> words;
  std::string text;
  bool operator==(const Key&) const = default;
};

struct KeyView {
  c10::ArrayRef<uint64_t> words;
  const std::string& text;
};

struct Hash {
  using is_transparent = void;
  static size_t of(c10::ArrayRef<uint64_t> words, const std::string& text) {
    uint64_t hash = 0x9E3779B97F4A7C15;
    for (const uint64_t word : words) {
      hash = (hash ^ word) * 0xBF58476D1CE4E5B9;
      hash ^= hash >> 29;
    }
    return text.empty() ? hash : hash ^ std::hash<std::string>()(text);
  }
  size_t operator()(const Key& key) const { return of(key.words, key.text); }
  size_t operator()(const KeyView& key) const { return of(key.words, key.text); }
};

struct Equal {
  using is_transparent = void;
  bool operator()(const Key& a, const Key& b) const { return a == b; }
  bool operator()(const KeyView& a, const Key& b) const {
    return a.words == c10::ArrayRef(b.words) && a.text == b.text;
  }
  bool operator()(const Key& a, const KeyView& b) const { return (*this)(b, a); }
};

// Never destroyed, and locked across a fork so that the child finds it whole and open.
class Cache {
 public:
  std::shared_ptr<Program> find(const Call& call) {
    const std::lock_guard lock(mutex_);
    const auto found = rows_.find(KeyView{{call.key.data(), call.key.size()}, call.text});
    if (found == rows_.end()) return nullptr;
    by_use_.splice(by_use_.begin(), by_use_, found->second.place);
    return found->second.program;
  }
  // Another thread may have been first.
  std::shared_ptr<Program> add(const Call& call, std::shared_ptr<Program> made) {
    std::shared_ptr<Program> kept;
    {
      const std::lock_guard lock(mutex_);
      const auto [row, is_new] =
          rows_.try_emplace({{call.key.begin(), call.key.end()}, call.text}, Row{made, {}});
      if (is_new) {
        by_use_.push_front(&row->first);
        row->second.place = by_use_.begin();
      }
      kept = row->second.program;
    }
    shrink();
    return kept;
  }
  void bound(size_t most) {
    {
      const std::lock_guard lock(mutex_);
      most_ = most;
    }
    shrink();
  }
  c10::WarningHandler* ignores_warnings() {
    static struct : c10::WarningHandler {
      void process(const c10::Warning&) override {}
    } handler;
    return &handler;
  }

  std::vector<std::shared_ptr<Program>> programs() {
    const std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<Program>> all;
    for (const auto& [key, row] : rows_) all.push_back(row.program);
    return all;
  }
  static Cache& instance() {
    static Cache* cache = [] {
      pthread_atfork([] { instance_->mutex_.lock(); }, [] { instance_->mutex_.unlock(); },
                     [] { instance_->mutex_.unlock(); });
      return instance_ = new Cache;
    }();
    return *cache;
  }

 private:
  struct Row {
    std::shared_ptr<Program> program;
    std::list<const Key*>::iterator place;
  };

  std::shared_ptr<Program> take_oldest() {
    const std::lock_guard lock(mutex_);
    if (most_ == 0 || rows_.size() <= most_) return nullptr;
    const auto row = rows_.find(*by_use_.back());
    by_use_.pop_back();
    std::shared_ptr<Program> program = std::move(row->second.program);
    rows_.erase(row);
    return program;
  }
  // What goes takes the interpreter lock with it, which others wait for with the table's lock held.
  void shrink() {
    while (const std::shared_ptr<Program> program = take_oldest())
      if (program->time.use_count() > 1)
        program->time->time_ns();  // a stream will ask when the program is gone
  }

  static Cache* instance_;
  std::mutex mutex_;
  std::unordered_map<Key, Row, Hash, Equal> rows_;
  std::list<const Key*> by_use_;  // the last one first
  size_t most_ = 0;
};
Cache* Cache::instance_ = nullptr;

std::atomic<bool> counts_host_time = false;

// What is asked once per op: whether it takes numbers as inputs, and what torch asks of its arguments'
// values.
struct Traits {
  bool lifts = false, refuses_same_memory = false;
  Asks asks = Asks::kNothing;
  Places places = Places::kNone;
};

Traits traits(const c10::OperatorHandle& op) {
  thread_local std::unordered_map<const void*, Traits> known;
  const auto [row, is_new] = known.try_emplace(&op.schema());
  if (is_new)
    row->second = {lifts_numbers(c10::toString(op.operator_name())), refuses_same_memory(op.schema().name()),
                   asks_of(op.schema().name()), places_of(op.schema().name())};
  return row->second;
}

void refuse_foreign(const Call& call) {
  for (const Argument& row : call.tensors) {
    if (row.kind != Argument::kForeign) continue;
    TORCH_CHECK(false,
                "Expected all tensors to be on the same device, but found at least two devices, neuron:",
                static_cast<int>(call.device), " and ", row.tensor.device(), "! (in ",
                c10::toString(call.op->operator_name()), ")");
  }
}

bool takes_host_indices(const std::string& name) {
  return name == "aten::index" || name == "aten::index_put" || name == "aten::index_put_" ||
         name == "aten::_index_put_impl_" || name == "aten::_unsafe_index" ||
         name == "aten::_unsafe_index_put";
}

// Torch finds the size of x[mask] before it asks for the values, and warns there of masks that are bytes.
bool has_warned_of_bytes(const c10::FunctionSchema& schema) {
  return schema.name() == "aten::index" && schema.overload_name() == "Tensor_out";
}

// The host's tensors among indices, which PyTorch takes from anywhere, become the device's; whether there was
// one.
bool move_indices(const Call& call, torch::jit::Stack& stack) {
  const c10::Device place(c10::DeviceType::PrivateUse1, call.device);
  const size_t first = stack.size() - call.values.size();
  bool is_moved = false;
  for (size_t i = first; i < stack.size(); ++i) {
    if (!stack[i].isList()) continue;
    c10::List<std::optional<at::Tensor>> indices;
    for (const c10::IValue& each : stack[i].toListRef()) {
      const bool is_index = each.isTensor() && each.toTensor().defined();
      is_moved = is_moved || (is_index && each.toTensor().device() != place);
      indices.push_back(is_index ? std::optional(each.toTensor().to(place)) : std::nullopt);
    }
    stack[i] = indices;
  }
  return is_moved;
}

// An optimizer's rate of one element on the host is read there, as for CUDA; whether there was one that has
// dimensions.
bool take_rate(const c10::OperatorHandle& op, torch::jit::Stack& stack) {
  if (op.schema().overload_name() != "tensor_lr") return false;
  const auto& declared = op.schema().arguments();
  for (size_t i = 0; i < declared.size(); ++i) {
    c10::IValue& value = stack[stack.size() - declared.size() + i];
    if (declared[i].name() != "lr" || !value.isTensor()) continue;
    const at::Tensor rate = value.toTensor();
    if (!rate.is_cpu() || rate.dim() == 0 || rate.numel() != 1) return false;
    value = rate.reshape({});
    return true;
  }
  return false;
}

// A tensor's numbers as they are read, and whether that is another tensor.
std::pair<at::Tensor, bool> resolved(const at::Tensor& tensor) {
  if (!tensor.defined() || !(tensor.is_conj() || tensor.is_neg())) return {tensor, false};
  return {tensor.resolve_conj().resolve_neg(), true};
}

// PyTorch leaves it to the kernels of products (mm, dot, addmm, ...) to conjugate operands whose conjugate is
// yet to be taken, and to triangular solvers to negate theirs. Programs read memory as it is: what is read is
// resolved before the call, and what is written is written through the lazy view after it.
void run_resolved(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto& declared = op.schema().arguments();
  const size_t first = stack->size() - declared.size();
  std::vector<std::pair<at::Tensor, at::Tensor>> written;  // as it was given, as it was called with
  for (size_t i = 0; i < declared.size(); ++i) {
    c10::IValue& value = (*stack)[first + i];
    if (value.isTensor()) {
      const at::Tensor given = value.toTensor();
      const auto [read, is_other] = resolved(given);
      const auto* alias = declared[i].alias_info();
      if (is_other && alias != nullptr && alias->isWrite()) written.emplace_back(given, read);
      value = read;
    } else if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& each : value.toTensorVector()) list.push_back(resolved(each).first);
      value = list;
    } else if (value.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> list;
      for (const std::optional<at::Tensor>& each : value.toOptionalTensorVector())
        list.push_back(each ? std::optional(resolved(*each).first) : std::nullopt);
      value = list;
    }
  }
  op.callBoxed(stack);
  for (const auto& [given, called] : written) {
    at::native::resize_output(given, called.sizes());
    given.copy_(called);
    for (size_t i = first; i < stack->size(); ++i)
      if ((*stack)[i].isTensor() && (*stack)[i].toTensor().is_same(called)) (*stack)[i] = given;
  }
}

// PyTorch's words where `out=` has another number of elements than a sequence; whether this is one.
bool resized_as_sequence(const std::string& name, const at::Tensor& target, int64_t count) {
  const bool warns = name == "aten::arange" || name == "aten::range";
  if (!warns && name != "aten::linspace" && name != "aten::logspace") return false;
  if (warns && target.numel() > 0)
    TORCH_WARN(
        "The number of elements in the out tensor of shape ", target.sizes(), " is ", target.numel(),
        " which does not match the computed number of elements ", count,
        ". Note that this may occur as a result of rounding error. The out tensor will be resized to a "
        "tensor of shape (",
        count, ",).");
  target.resize_({count});
  return true;
}

class Run {
 public:
  Run(Program& program, const Call& call) : program_(program), call_(call) {}

  void operator()() {
    numbers_.reserve(program_.inputs.size());
    gather_inputs();
    make_outputs();
    if (program_.run != nullptr) {
      run_program(program_, call_.device, inputs_.data(), outputs_.data());
      note_run(call_.device, program_.time);
    }
    for (const auto& [from, to] : late_copies_) copy_within(from, to);
  }

  at::Tensor result(size_t i) const { return results_[i]; }
  const at::Tensor& argument(size_t i) const { return call_.tensors[i].tensor; }

 private:
  void gather_inputs() {
    for (const Input& input : program_.inputs) {
      switch (input.kind) {
        case Input::kConstant: inputs_.push_back(input.constant.data_ptr()); break;
        case Input::kNumber: inputs_.push_back(number(call_.numbers[input.index], input.type)); break;
        case Input::kScalar:
          inputs_.push_back(number(value_of(call_.tensors[input.index].tensor), input.type));
          break;
        case Input::kTensor: inputs_.push_back(address(call_.tensors[input.index])); break;
      }
    }
    if (program_.draws) {
      at::Generator generator = call_.generator.value_or(default_generator(call_.device));
      TORCH_CHECK(generator.device().type() == c10::DeviceType::PrivateUse1,
                  "Expected a 'neuron' device type for ", "generator but found '", generator.device().type(),
                  "'");
      state_ = generator.get<Generator>()->draw();
      inputs_.push_back(state_.data());
    }
  }

  // Of a tensor of the host without dimensions.
  static double value_of(const at::Tensor& scalar) {
    if (scalar.scalar_type() == at::kDouble) return *scalar.const_data_ptr<double>();
    if (scalar.scalar_type() == at::kLong) return static_cast<double>(*scalar.const_data_ptr<int64_t>());
    return scalar.item().toDouble();
  }

  const void* number(double value, c10::ScalarType type) {
    if (type == at::kFloat && numbers_.size() < numbers_.capacity()) {
      numbers_.push_back(static_cast<float>(value));
      return &numbers_.back();
    }
    at::Tensor held = at::scalar_tensor(value, at::TensorOptions().dtype(type).device(at::kCPU));
    scratch_.push_back(held);
    return held.data_ptr();
  }

  const void* address(const Argument& row) {
    const at::Tensor& tensor = row.tensor;
    if (tensor.numel() == 0) return nullptr;
    if (row.layout.kind != Layout::kScattered)
      return as_truths(tensor, tensor.const_data_ptr(), elements_in_memory(tensor));  // a lazy copy stays one
    // A copy that the core makes before.
    const at::Tensor view = read_view(tensor);
    const auto& order = row.layout.order;
    scratch_.push_back(
        (order.empty() ? view : view.permute(at::IntArrayRef(order.data(), order.size()))).contiguous());
    note_copy(call_.device, static_cast<int64_t>(scratch_.back().nbytes()));
    return as_truths(tensor, scratch_.back().data_ptr(), tensor.numel());
  }

  static int64_t elements_in_memory(const at::Tensor& tensor) {
    int64_t count = 1;
    for (int64_t i = 0; i < tensor.dim(); ++i)
      if (tensor.stride(i) != 0) count *= tensor.size(i);
    return count;
  }

  // A byte other than 0 is true, and bytes that were made by `view(torch.bool)` may be any; programs take 1.
  const void* as_truths(const at::Tensor& tensor, const void* data, int64_t count) {
    if (tensor.scalar_type() != at::kBool || !has_other_truths(static_cast<const uint8_t*>(data), count))
      return data;
    scratch_.push_back(at::from_blob(const_cast<void*>(data), {count}, at::kByte).ne(0));
    return scratch_.back().data_ptr();
  }

  static bool has_other_truths(const uint8_t* data, int64_t count) {
    uint8_t found = 0;
    for (int64_t i = 0; i < count; ++i) found |= data[i];
    return found > 1;
  }

  at::Tensor destination(const Output& output) const {
    const auto place = at::TensorOptions()
                           .dtype(output.type)
                           .device(c10::Device(c10::DeviceType::PrivateUse1, call_.device));
    if (output.target < 0) return at::empty_strided(output.sizes, output.strides, place);
    const at::Tensor& target = argument(static_cast<size_t>(output.target));
    if (target.sizes() == output.sizes) return target;
    if (output.sizes.size() == 1 && target.numel() != output.sizes[0] &&
        resized_as_sequence(call_.op->schema().name(), target, output.sizes[0]))
      return target;
    if (at::native::resize_output(target, output.sizes))
      target.unsafeGetTensorImpl()->set_sizes_and_strides(output.sizes, output.strides);
    return target;
  }

  void make_outputs() {
    for (const Output& output : program_.outputs) {
      const at::Tensor result = destination(output);
      results_.push_back(result);
      if (output.copied_from >= 0) {
        const at::Tensor& from = argument(static_cast<size_t>(output.copied_from));
        if (!from.is_same(result)) late_copies_.emplace_back(from, result);
        continue;
      }
      if (output.repeats >= 0) {
        late_copies_.emplace_back(results_[static_cast<size_t>(output.repeats)], result);
        continue;
      }
      if (output.is_in_order) {
        outputs_.push_back(result.numel() ? result.data_ptr() : nullptr);
        continue;
      }
      const at::Tensor row_major =
          at::empty(output.sizes, at::TensorOptions().dtype(output.type).device(at::kCPU));
      outputs_.push_back(row_major.numel() ? row_major.data_ptr() : nullptr);
      late_copies_.emplace_back(row_major, result);
    }
  }

  void copy_within(const at::Tensor& from, const at::Tensor& to) {
    const bool is_ours = from.device().type() == c10::DeviceType::PrivateUse1;
    const at::Tensor place = host_view(to), value = is_ours ? read_view(from) : from;
    copy_to_shared(value, place);
    note_copy(call_.device, static_cast<int64_t>(to.nbytes()));
  }

  Program& program_;
  const Call& call_;
  std::vector<float> numbers_;  // never grows beyond what was reserved: addresses of it are handed over
  c10::SmallVector<const void*, 8> inputs_;
  c10::SmallVector<void*, 4> outputs_;
  c10::SmallVector<at::Tensor, 4> results_;
  std::vector<at::Tensor> scratch_;
  c10::SmallVector<std::pair<at::Tensor, at::Tensor>, 2> late_copies_;
  std::array<uint32_t, 4> state_{};
};

void give_back(const Program& program, const Run& run, torch::jit::Stack& stack) {
  for (const Returned& row : program.returned) {
    switch (row.kind) {
      case Returned::kOutput: stack.emplace_back(run.result(row.index)); break;
      case Returned::kArgument: stack.emplace_back(run.argument(row.index)); break;
      case Returned::kNone: stack.emplace_back(at::Tensor()); break;
      case Returned::kList: {
        c10::List<at::Tensor> list;
        for (const size_t item : row.items) list.push_back(run.result(item));
        stack.emplace_back(std::move(list));
        break;
      }
    }
  }
}

void run_on_device(Program& program, const Call& call, torch::jit::Stack& stack) {
  using Clock = std::chrono::steady_clock;
  note_thread();
  const bool counts = counts_host_time.load(std::memory_order_relaxed);
  const auto began = counts ? Clock::now() : Clock::time_point();
  const c10::DeviceGuard guard(c10::Device(c10::DeviceType::PrivateUse1, call.device));
  Run run(program, call);
  run();
  ++program.runs;
  if (counts) program.host_ns += std::chrono::nanoseconds(Clock::now() - began).count();
  // The call's arguments lie on the stack, which shares what `call` holds.
  const size_t first = stack.size() - call.values.size();
  torch::jit::Stack results;
  give_back(program, run, results);
  stack.resize(first);
  for (c10::IValue& value : results) stack.push_back(std::move(value));
}

}  // namespace

namespace {

// An op of the host draws from a generator of the host, which begins at the next numbers of the device's.
void give_host_generator(c10::ArrayRef<c10::IValue> arguments, torch::jit::Stack& stack) {
  const size_t first = stack.size() - arguments.size();
  for (size_t i = first; i < stack.size(); ++i) {
    if (!stack[i].isGenerator()) continue;
    at::Generator given = stack[i].toGenerator();
    if (given.device().type() != c10::DeviceType::PrivateUse1) continue;
    const std::array<uint32_t, 4> words = given.get<Generator>()->draw();
    const uint64_t seed = (uint64_t{words[1]} << 32 | words[0]) ^ uint64_t { words[3] } << 16;
    stack[i] = at::detail::createCPUGenerator(seed);
  }
}

}  // namespace

void run_boxed(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const size_t count = op.schema().arguments().size();
  Call call;
  const auto [lifted, refuses_same, asks, places] = traits(op);
  read_call(op, torch::jit::last(*stack, count), lifted, call);
  if (call.has_foreign) {
    // Once: what is foreign after it are no indices.
    const bool is_taken =
        takes_host_indices(op.schema().name()) ? move_indices(call, *stack) : take_rate(op, *stack);
    if (!is_taken) refuse_foreign(call);
    return op.callBoxed(stack);
  }
  if (call.has_lazy) return run_resolved(op, stack);
  if (has_overlap(call, refuses_same)) hold_overlap(op, torch::jit::last(*stack, count));
  if (asks != Asks::kNothing) hold_values(asks, torch::jit::last(*stack, count));
  if (places != Places::kNone && has_places_out_of_range(places, torch::jit::last(*stack, count)))
    return at::native::cpu_fallback(op, stack);  // which raises what the CPU says of them
  std::shared_ptr<Program> program = Cache::instance().find(call);
  if (program == nullptr) program = Cache::instance().add(call, compile(call, lifted));
  if (program->kind == Program::kHost) {
    ++program->runs;
    const c10::DeviceGuard guard(c10::Device(c10::DeviceType::PrivateUse1, call.device));
    std::optional<c10::WarningUtils::WarningHandlerGuard> quiet;
    if (has_warned_of_bytes(op.schema())) quiet.emplace(ignores_warnings());
    if (call.generator) give_host_generator(torch::jit::last(*stack, count), *stack);
    return at::native::cpu_fallback(op, stack);
  }
  run_on_device(*program, call, *stack);
}

namespace {

TORCH_LIBRARY_IMPL(_, PrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&run_boxed>());
}

// Torch's own form for all devices calls a kernel that only the CPU and GPUs have.
TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  for (const char* name : {"conj_physical_", "kaiser_window", "kaiser_window.periodic", "kaiser_window.beta"})
    library.impl(name, torch::CppFunction::makeFromBoxedFunction<&run_boxed>());
}

}  // namespace

double ProgramTime::time_ns() {
  {
    const std::lock_guard lock(mutex_);
    if (time_ns_) return *time_ns_;
  }
  const double computed = time_of(number_);  // two threads may compute it, and find the same
  const std::lock_guard lock(mutex_);
  return *(time_ns_ = computed);
}

void take_over(const std::vector<std::string>& names) {
  static auto* library =
      new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  for (const std::string& name : names)
    library->impl(name.c_str(), torch::CppFunction::makeFromBoxedFunction<&run_boxed>());
}

c10::WarningHandler* ignores_warnings() {
  static struct : c10::WarningHandler {
    void process(const c10::Warning&) override {}
  } handler;
  return &handler;
}

std::vector<std::shared_ptr<Program>> programs() { return Cache::instance().programs(); }

void bound_programs(size_t most) { Cache::instance().bound(most); }

void count_host_time(bool on) { counts_host_time = on; }

}  // namespace opentrn::torch_device
