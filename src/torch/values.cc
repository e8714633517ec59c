#include "torch/values.h"

#include <cmath>

#include <ATen/Context.h>
#include <ATen/Functions.h>

#include "torch/host_view.h"

namespace opentrn::torch_device {

namespace {

int64_t count_of(const at::Tensor& mask) { return read_view(mask).count_nonzero().item<int64_t>(); }

bool is_mask(const c10::IValue& index) {
  if (!index.isTensor() || !index.toTensor().defined()) return false;
  const c10::ScalarType type = index.toTensor().scalar_type();
  return type == at::kBool || type == at::kByte;
}

// self, indices, values: one mask over the first dimensions. Several indices are the host's, which asks
// itself.
void hold_index_put(c10::ArrayRef<c10::IValue> arguments) {
  const auto indices = arguments[1].toListRef();
  if (indices.size() != 1 || !is_mask(indices[0]) || !arguments[2].isTensor()) return;
  const at::Tensor& self = arguments[0].toTensor();
  const at::Tensor& mask = indices[0].toTensor();
  const at::Tensor& values = arguments[2].toTensor();
  const int64_t rest = self.dim() - mask.dim();
  // With as many dimensions as the rest of self it is one row, or a number, for all places.
  if (rest < 0 || values.dim() <= rest || values.size(values.dim() - rest - 1) == 1) return;
  const int64_t count = count_of(mask);
  std::vector<int64_t> chosen{count};
  for (int64_t i = mask.dim(); i < self.dim(); ++i) chosen.push_back(self.size(i));
  TORCH_CHECK(values.dim() == rest + 1 && values.size(0) == count, "shape mismatch: value tensor of shape ",
              values.sizes(), " cannot be broadcast to indexing result of shape ", c10::IntArrayRef(chosen));
  TORCH_CHECK(values.scalar_type() == self.scalar_type(),
              "Index put requires the source and destination dtypes match, got ", self.scalar_type(),
              " for the destination and ", values.scalar_type(), " for the source.");
}

// self, mask, source
void hold_masked_scatter(c10::ArrayRef<c10::IValue> arguments) {
  const at::Tensor& self = arguments[0].toTensor();
  const at::Tensor& mask = arguments[1].toTensor();
  if (mask.scalar_type() != at::kBool || mask.numel() == 0 || self.numel() == 0) return;
  const int64_t spread = std::max<int64_t>(self.numel() / mask.numel(), 1);  // a mask is broadcast to self
  TORCH_CHECK(count_of(mask) * spread <= arguments[2].toTensor().numel(),
              "Number of elements of source < number of ones in mask");
}

// weights, count, replacement. Sizes and types are the meta function's to refuse.
void hold_multinomial(c10::ArrayRef<c10::IValue> arguments) {
  const at::Tensor weights = read_view(arguments[0].toTensor());
  if (weights.numel() == 0 || !weights.is_floating_point()) return;
  const at::Tensor is_valid = weights.ge(0).logical_and(weights.lt(INFINITY));  // a NaN is neither
  TORCH_CHECK(is_valid.all().item<bool>(), "probability tensor contains either `inf`, `nan` or element < 0");
  TORCH_CHECK(weights.sum(-1).gt(0).all().item<bool>(),
              "invalid multinomial distribution (sum of probabilities <= 0)");
}

// self, dim, index
void hold_index_select(c10::ArrayRef<c10::IValue> arguments) {
  const int64_t count = arguments[2].toTensor().numel();
  TORCH_CHECK_INDEX(arguments[0].toTensor().dim() > 0 || count == 1,
                    "index_select(): Index to scalar can have only 1 value, got ", count, " value(s)");
}

// self, index, source, accumulate: PyTorch leaves the order open on every device.
void hold_put(c10::ArrayRef<c10::IValue> arguments) {
  if (!arguments[3].toBool()) at::globalContext().alertNotDeterministic("put_");
}

// self, bins, min, max: without limits, those of the values.
void hold_histogram(c10::ArrayRef<c10::IValue> arguments) {
  const at::Tensor values = read_view(arguments[0].toTensor());
  const double low = arguments[2].toScalar().toDouble(), high = arguments[3].toScalar().toDouble();
  if (low != high || values.numel() == 0 || !values.is_floating_point()) return;
  const auto [least, most] = values.aminmax();
  const double first = least.item<double>(), last = most.item<double>();
  TORCH_CHECK(std::isfinite(first) && std::isfinite(last), "torch.histc: range of [", first, ", ", last,
              "] is not finite");
}

// self, from, to, generator; or without from, or without both. The CPU asks, and warns of floats that do not
// hold every number between, before it looks whether there is anything to draw.
void hold_random(c10::ArrayRef<c10::IValue> arguments) {
  const at::Tensor nothing = at::empty({0}, arguments[0].toTensor().options().device(at::kCPU));
  if (arguments.size() == 4) nothing.random_(arguments[1].toInt(), arguments[2].toOptional<int64_t>());
  if (arguments.size() == 3) nothing.random_(arguments[1].toInt());
}

}  // namespace

Asks asks_of(const std::string& name) {
  if (name == "aten::index_put" || name == "aten::index_put_" || name == "aten::_index_put_impl_" ||
      name == "aten::_unsafe_index_put")
    return Asks::kIndexPut;
  if (name == "aten::masked_scatter" || name == "aten::masked_scatter_") return Asks::kMaskedScatter;
  if (name == "aten::multinomial") return Asks::kMultinomial;
  if (name == "aten::index_select") return Asks::kIndexSelect;
  if (name == "aten::put_" || name == "aten::put") return Asks::kPut;
  if (name == "aten::histc") return Asks::kHistogram;
  if (name == "aten::random_") return Asks::kRandom;
  return Asks::kNothing;
}

void hold_values(Asks asks, c10::ArrayRef<c10::IValue> arguments) {
  switch (asks) {
    case Asks::kNothing: break;
    case Asks::kIndexPut: return hold_index_put(arguments);
    case Asks::kMaskedScatter: return hold_masked_scatter(arguments);
    case Asks::kMultinomial: return hold_multinomial(arguments);
    case Asks::kIndexSelect: return hold_index_select(arguments);
    case Asks::kPut: return hold_put(arguments);
    case Asks::kHistogram: return hold_histogram(arguments);
    case Asks::kRandom: return hold_random(arguments);
  }
}

}  // namespace opentrn::torch_device
