// Ops whose results' sizes, or the lengths of whose parts, PyTorch's kernels find among values: the host
// reads those few numbers, and the device computes the rest by other ops.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/TensorSubclassLikeUtils.h>
#include <ATen/core/Reduction.h>
#include <torch/library.h>

#include "torch/host_view.h"

namespace opentrn::torch_device {

namespace {

using at::Tensor;

Tensor on_host(const Tensor& tensor) { return tensor.is_privateuseone() ? read_view(tensor) : tensor; }

// ---- connectionist temporal classification

// Of host tensors of whole numbers, on the host.
Tensor lengths_of(const Tensor& given) { return given.to(at::kCPU, at::kLong).contiguous(); }

// What PyTorch's CPU kernel takes; what it does not, it words itself.
bool is_valid(const Tensor& log_probs, const Tensor& targets, const Tensor& steps, const Tensor& letters,
              int64_t blank) {
  if (log_probs.dim() != 3 || log_probs.numel() == 0 || !log_probs.is_floating_point()) return false;
  const int64_t batch = log_probs.size(1);
  if (steps.dim() != 1 || letters.dim() != 1 || steps.numel() != batch || letters.numel() != batch)
    return false;
  if (blank < 0 || blank >= log_probs.size(2)) return false;
  if (targets.dim() != 1 && targets.dim() != 2) return false;
  if (targets.scalar_type() != at::kLong && targets.scalar_type() != at::kInt) return false;
  const int64_t longest = letters.max().item<int64_t>();
  if (letters.min().item<int64_t>() < 0 || steps.min().item<int64_t>() < 0) return false;
  if (steps.max().item<int64_t>() > log_probs.size(0)) return false;
  if (targets.dim() == 2) return targets.size(0) == batch && targets.size(1) >= longest;
  return targets.size(0) == letters.sum().item<int64_t>();
}

// Targets that lie one after the other, as rows of the longest one's length.
Tensor as_rows(const Tensor& targets, const Tensor& letters) {
  if (targets.dim() == 2) return targets;
  const Tensor flat = on_host(targets);
  const int64_t longest = letters.max().item<int64_t>();
  Tensor rows = at::zeros({letters.numel(), longest}, flat.options());
  int64_t begin = 0;
  for (int64_t i = 0; i < letters.numel(); ++i) {
    const int64_t count = letters[i].item<int64_t>();
    rows[i].narrow(0, 0, count).copy_(flat.narrow(0, begin, count));
    begin += count;
  }
  return rows;
}

Tensor reduced(const Tensor& losses, const Tensor& letters, int64_t reduction) {
  if (reduction == at::Reduction::Mean)
    return (losses / letters.clamp_min(1).to(losses.device(), losses.scalar_type())).mean();
  return reduction == at::Reduction::Sum ? losses.sum() : losses;
}

Tensor loss_of_tensors(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                       const Tensor& target_lengths, int64_t blank, int64_t reduction, bool zero_infinity) {
  const bool is_batch = log_probs.dim() == 3;
  const Tensor given = is_batch ? log_probs : log_probs.unsqueeze(1);
  Tensor steps = input_lengths, letters = target_lengths, rows = targets;
  if (!at::areAnyTensorSubclassLike({log_probs, targets, input_lengths, target_lengths})) {
    steps = lengths_of(input_lengths.reshape({-1})), letters = lengths_of(target_lengths.reshape({-1}));
    if (!is_valid(given, targets, steps, letters, blank))
      return at::ctc_loss(log_probs.cpu(), targets.cpu(), steps, letters, blank, reduction, zero_infinity)
          .to(log_probs.device());
    rows = as_rows(targets, letters);
  }
  Tensor losses = std::get<0>(at::_ctc_loss(given, rows.to(given.device()), steps.to(given.device()),
                                            letters.to(given.device()), blank, zero_infinity));
  if (!is_batch) losses = losses.squeeze(0);
  if (zero_infinity) losses = at::where(losses == INFINITY, at::zeros({}, losses.options()), losses);
  return reduced(losses, letters, reduction);
}

Tensor loss_of_lists(const Tensor& log_probs, const Tensor& targets, at::IntArrayRef input_lengths,
                     at::IntArrayRef target_lengths, int64_t blank, int64_t reduction, bool zero_infinity) {
  const auto as_tensor = [](at::IntArrayRef list) { return at::tensor(list, at::kLong); };
  return loss_of_tensors(log_probs, targets, as_tensor(input_lengths), as_tensor(target_lengths), blank,
                         reduction, zero_infinity);
}

// ---- counts

Tensor bincount(const Tensor& self, const std::optional<Tensor>& weights, int64_t minlength) {
  const bool is_weighted = weights.has_value() && weights->defined();
  const Tensor numbers = read_view(self);
  const bool is_whole = at::isIntegralType(self.scalar_type(), false);
  const bool is_valid = is_whole && self.dim() == 1 && minlength >= 0 &&
                        (self.numel() == 0 || numbers.min().item<int64_t>() >= 0) &&
                        (!is_weighted || (weights->dim() == 1 && weights->size(0) == self.size(0)));
  if (!is_valid)  // the CPU words the error
    return at::bincount(numbers, is_weighted ? std::optional(weights->cpu()) : std::nullopt, minlength)
        .to(self.device());
  const int64_t count = self.numel() == 0 ? 0 : numbers.max().item<int64_t>() + 1;
  const at::ScalarType type = !is_weighted || self.numel() == 0      ? at::kLong
                              : weights->scalar_type() == at::kFloat ? at::kFloat
                                                                     : at::kDouble;
  Tensor sums = at::zeros({std::max(count, minlength)}, self.options().dtype(type));
  if (self.numel() == 0) return sums;
  const Tensor each = is_weighted ? weights->to(type) : at::ones(self.sizes(), sums.options());
  return sums.index_add_(0, self.to(at::kLong), each);
}

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, library) {
  library.impl("ctc_loss.Tensor", &loss_of_tensors);
  library.impl("ctc_loss.IntList", &loss_of_lists);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("ctc_loss.Tensor", &loss_of_tensors);
  library.impl("ctc_loss.IntList", &loss_of_lists);
  library.impl("bincount", &bincount);
}

}  // namespace

}  // namespace opentrn::torch_device
