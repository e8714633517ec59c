// Kernels of test_custom_operators.py, as authors of custom operators write them.
#include <stdint.h>
#include <stdlib.h>
#include <torch/torch.h>

float twice(float x) { return 2 * x; }  // no kernel

torch::Tensor relu_forward(const torch::Tensor& t_in) {
  torch::Tensor t_out = torch::zeros(t_in.sizes(), torch::kFloat);
  auto in = t_in.accessor<float, 2>();
  auto out = t_out.accessor<float, 2>();
  auto shape = t_in.sizes();
  for (int i = 0; i < shape[0]; i++)
    for (int j = 0; j < shape[1]; j++) out[i][j] = in[i][j] > 0.0 ? in[i][j] : 0.0;
  return t_out;
}

torch::Tensor relu_backward(const torch::Tensor& t_grad, const torch::Tensor& t_in) {
  torch::Tensor t_out = torch::empty(t_in.sizes(), torch::kFloat);
  auto grads = t_grad.read_stream_accessor<float>();
  auto in = t_in.read_stream_accessor<float>();
  auto out = t_out.write_stream_accessor<float>();
  for (int i = 0; i < t_in.numel(); i++) {
    float grad = grads.read();
    out.write(in.read() > 0 ? grad : 0);
  }
  return t_out;
}

torch::Tensor negate(const torch::Tensor& t_in) {
  size_t num_elem = t_in.numel();
  torch::Tensor t_out = get_dst_tensor();
  static constexpr size_t buffer_size = 1024;
  float* buffer = (float*)torch::neuron::tcm_malloc(sizeof(float) * buffer_size);
  auto in = t_in.tcm_accessor();
  auto out = t_out.tcm_accessor();
  for (size_t i = 0; i < num_elem; i += buffer_size) {
    size_t count = num_elem - i > buffer_size ? buffer_size : num_elem - i;
    in.tensor_to_tcm<float>(buffer, i, count);
    for (size_t j = 0; j < count; j++) buffer[j] *= -1;
    out.tcm_to_tensor<float>(buffer, i, count);
  }
  torch::neuron::tcm_free(buffer);
  return t_out;
}

// All parameters that an operator can have; a helper that is not of the library.
static torch::Tensor same(torch::Tensor t) { return t; }
torch::Tensor scaled(torch::Tensor a, double by, int64_t times, const torch::Scalar& plus) {
  return torch::add(torch::mul(same(a), by), plus, times);
}

template <typename T>
static torch::Tensor narrowed(const torch::Tensor& t) {
  torch::Tensor made = torch::empty(t.sizes(), c10::TypeOf<T>::kType);
  auto in = t.accessor<float, 1>();
  auto out = made.accessor<T, 1>();
  for (int64_t i = 0; i < t.size(0); ++i) out[i] = in[i];
  return made;
}
torch::Tensor to_half(const torch::Tensor& t) { return narrowed<torch::Half>(t); }
torch::Tensor to_bfloat16(const torch::Tensor& t) { return narrowed<torch::BFloat16>(t); }

torch::Tensor function(const torch::Tensor& a, const torch::Tensor& b, int64_t which) {
  torch::Tensor out = torch::empty(a.sizes(), a.scalar_type());
  switch (which) {
    case 0: return torch::abs(a);
    case 1: return torch::ceil_out(out, a);
    case 2: return torch::floor(a);
    case 3: return torch::sin(a);
    case 4: return torch::cos(a);
    case 5: return torch::tan_out(out, a);
    case 6: return torch::log(b);
    case 7: return torch::log2(b);
    case 8: return torch::log10(b);
    case 9: return torch::exp(a);
    case 10: return torch::pow(b, 1.5);
    case 11: return torch::pow(2, a);
    case 12: return torch::pow(b, a);
    case 13: return torch::clamp(a, -0.5, 0.75);
    case 14: return torch::add(a, b, 3);
    case 15: return torch::sub(a, 2, 2);
    case 16: return torch::div(a, b);
    case 17: return torch::bitwise_and(a, b);
    case 18: return torch::bitwise_or(a, 12);
    case 19: return torch::bitwise_and(12, b);
    case 20: return torch::bitwise_not(a);
    case 21: return torch::sub_out(out, a, b);
    default:
      return torch::mul(torch::eye(a.size(0), a.size(1), torch::dtype(a.scalar_type())),
                        torch::full(a.sizes(), 3, a.options()));
  }
}

// What is against the guide's rules.
torch::Tensor mistake(torch::Tensor t, int64_t which) {
  torch::Tensor out = torch::zeros(t.sizes(), torch::kFloat);
  if (which == 0) return torch::zeros({3, 4, 5}, torch::kFloat);
  if (which == 1) {
    auto first = out.write_stream_accessor<float>();
    auto second = out.read_stream_accessor<float>();
  }
  if (which == 2) {
    auto a = t.read_stream_accessor<float>();
    for (int i = 0; i <= t.numel(); ++i) a.read();
  }
  if (which == 3) t.accessor<int32_t, 1>();
  if (which == 4) t.accessor<float, 1>()[t.numel()];
  if (which == 5) {
    void* a = torch::neuron::tcm_malloc(16 * 1024);
    if (torch::neuron::tcm_malloc(1) == nullptr) t.tcm_accessor().tensor_to_tcm<float>(nullptr, 0, 1);
    torch::neuron::tcm_free(a);
  }
  if (which == 6) torch::neuron::tcm_free(&out);
  if (which == 7)
    t.tcm_accessor().tensor_to_tcm<float>((float*)torch::neuron::tcm_malloc(64), t.numel() - 1, 2);
  if (which == 8) return torch::add(t, torch::zeros({1}, torch::kFloat));
  if (which == 9) return torch::zeros(t.sizes(), torch::TensorOptions());
  // Allowed: streams of one that is closed, warnings that the author asks for, an operand that is written to.
  if (which == 10) {
    auto first = out.write_stream_accessor<float>();
    first.close();
    auto second = out.read_stream_accessor<float>();
  }
  if (which == 11) {
    out.set_accessor_coherence_policy(torch::CoherencyEnforcer::INCOHERENT_QUIET);
    auto a = out.write_stream_accessor<float>();
    auto b = out.write_stream_accessor<float>();
  }
  if (which == 12) {
    t.accessor<float, 1>()[0] = 7;
    return t;
  }
  return out;
}
