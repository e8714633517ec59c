#include "torch/autograd_threads.h"

#include <pthread.h>

#include <atomic>
#include <string_view>

#include <ATen/Functions.h>
#include <torch/csrc/autograd/autograd.h>

#include "torch/device.h"

namespace opentrn::torch_device {

namespace {

std::atomic<bool> have_run = false;

bool is_autograd_thread() {
  char name[16] = {};
  ::pthread_getname_np(::pthread_self(), name, sizeof name);
  return std::string_view(name).starts_with("pt_autograd");
}

}  // namespace

void note_thread() {
  thread_local const bool is_one = is_autograd_thread();
  if (is_one && !have_run.load(std::memory_order_relaxed)) have_run = true;
}

void settle_autograd_threads() {
  if (!have_run) return;  // a backward pass would start threads
  // A thread lets go of a backward pass before it begins the next, and that of these tensors, which Python
  // never saw, holds nothing of Python's.
  for (int i = 0; i < configuration().device_count(); ++i) {
    const auto place = at::TensorOptions().device(
        c10::Device(c10::DeviceType::PrivateUse1, static_cast<c10::DeviceIndex>(i)));
    at::Tensor leaf = at::empty({1}, place);
    leaf.set_requires_grad(true);
    const at::Tensor seen = leaf.view({1, 1});
    torch::autograd::grad({seen}, {leaf}, {at::empty({1, 1}, place)});
  }
}

}  // namespace opentrn::torch_device
