#include "torch/generator.h"

#include <cstring>
#include <mutex>
#include <vector>

#include <ATen/EmptyTensor.h>

#include "torch/device.h"

namespace opentrn::torch_device {

namespace {

constexpr int64_t kStateBytes = 16;  // seed and offset
// Streams of words that one call may take from; the emitter numbers its draws from 1.
constexpr uint64_t kDrawsPerCall = 64;

}  // namespace

Generator::Generator(c10::DeviceIndex device)
    : c10::GeneratorImpl(c10::Device(c10::DeviceType::PrivateUse1, device),
                         c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)) {}

void Generator::set_current_seed(uint64_t seed) {
  seed_ = seed;
  offset_ = 0;
}

uint64_t Generator::seed() {
  set_current_seed(c10::detail::getNonDeterministicRandom());
  return seed_;
}

void Generator::set_state(const c10::TensorImpl& state) {
  TORCH_CHECK(state.layout() == c10::kStrided && state.device().is_cpu() &&
                  state.dtype() == caffe2::TypeMeta::Make<uint8_t>() && state.is_contiguous(),
              "a generator's state is a contiguous uint8 tensor of the CPU");
  TORCH_CHECK(state.numel() == kStateBytes, "a state of the device neuron has ", kStateBytes,
              " bytes; this one has ", state.numel());
  const auto* bytes = static_cast<const std::byte*>(state.data());
  TORCH_CHECK(bytes != nullptr, "a generator's state has no memory: it is a fake tensor");
  std::memcpy(&seed_, bytes, sizeof seed_);
  std::memcpy(&offset_, bytes + sizeof seed_, sizeof offset_);
}

c10::intrusive_ptr<c10::TensorImpl> Generator::get_state() const {
  // Past the dispatcher: under FakeTensorMode an op would give memory that nothing may be written to.
  const at::TensorBase state = at::detail::empty_cpu({kStateBytes}, at::kByte);
  auto* bytes = static_cast<std::byte*>(state.data_ptr());
  std::memcpy(bytes, &seed_, sizeof seed_);
  std::memcpy(bytes + sizeof seed_, &offset_, sizeof offset_);
  return state.getIntrusivePtr();
}

Generator* Generator::clone_impl() const {
  auto* copy = new Generator(device_.index());
  copy->seed_ = seed_;
  copy->offset_ = offset_;
  return copy;
}

// The counter's low word counts elements, its high word calls and their draws.
std::array<uint32_t, 4> Generator::draw() {
  const std::lock_guard lock(mutex_);
  const uint64_t calls = offset_;
  offset_ += kDrawsPerCall;
  return {static_cast<uint32_t>(seed_),
          static_cast<uint32_t>(seed_ >> 32) ^ static_cast<uint32_t>(calls >> 32), 0,
          static_cast<uint32_t>(calls)};
}

const at::Generator& default_generator(c10::DeviceIndex device) {
  static auto* all = [] {
    auto* made = new std::vector<at::Generator>;
    for (int i = 0; i < configuration().device_count(); ++i)
      made->push_back(at::make_generator<Generator>(static_cast<c10::DeviceIndex>(i)));
    return made;
  }();
  if (device == -1) device = current_device();
  check_device(device);
  return (*all)[static_cast<size_t>(device)];
}

}  // namespace opentrn::torch_device
