// Random numbers of a core: Philox, keyed by the seed; a program draws from a counter of its own.
#pragma once

#include <array>
#include <cstdint>

#include <ATen/core/Generator.h>
#include <c10/core/GeneratorImpl.h>

namespace opentrn::torch_device {

class Generator final : public c10::GeneratorImpl {
 public:
  explicit Generator(c10::DeviceIndex device);
  static c10::DeviceType device_type() { return c10::DeviceType::PrivateUse1; }

  void set_current_seed(uint64_t seed) override;
  uint64_t current_seed() const override { return seed_; }
  uint64_t seed() override;
  void set_offset(uint64_t offset) override { offset_ = offset; }
  uint64_t get_offset() const override { return offset_; }
  void set_state(const c10::TensorImpl& state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;

  // The four words that a program draws from (key, counter), and one call further.
  std::array<uint32_t, 4> draw();

 private:
  Generator* clone_impl() const override;

  uint64_t seed_ = c10::default_rng_seed_val;
  uint64_t offset_ = 0;
};

// Of a device: the one that ops take where none is given.
const at::Generator& default_generator(c10::DeviceIndex device);

}  // namespace opentrn::torch_device
