#include "torch/places.h"

#include <set>

#include <ATen/Functions.h>

#include "torch/host_view.h"

namespace opentrn::torch_device {

namespace {

struct Range {
  int64_t low = 0, high = 0;  // from low to below high
  std::optional<int64_t> also;
};

// Every element is looked at, so that the loop has no branches.
template <typename T>
bool any_outside(const T* values, int64_t count, const Range& range) {
  const auto low = static_cast<T>(range.low), high = static_cast<T>(range.high);
  const T also = range.also ? static_cast<T>(*range.also) : low;
  bool found = false;
  for (int64_t i = 0; i < count; ++i)
    found |= (values[i] < low || values[i] >= high) && (values[i] != also || !range.also);
  return found;
}

// Each element once, however often an expanded tensor has it.
at::Tensor without_repeats(at::Tensor tensor) {
  for (int64_t d = tensor.dim() - 1; d >= 0; --d)
    if (tensor.stride(d) == 0) tensor = tensor.select(d, 0);
  return tensor.contiguous();
}

bool is_outside(const at::Tensor& index, const Range& range) {
  if (!index.defined() || index.numel() == 0 || range.high > INT32_MAX) return false;
  const bool is_long = index.scalar_type() == at::kLong;
  if (!is_long && index.scalar_type() != at::kInt) return false;
  at::Tensor copy;
  if (!index.is_contiguous()) copy = without_repeats(read_view(index));
  const at::Tensor& read = copy.defined() ? copy : index;
  return is_long ? any_outside(static_cast<const int64_t*>(read.const_data_ptr()), read.numel(), range)
                 : any_outside(static_cast<const int32_t*>(read.const_data_ptr()), read.numel(), range);
}

int64_t size_along(const at::Tensor& tensor, int64_t dim) {
  return tensor.dim() == 0 ? 1 : tensor.size(dim < 0 ? dim + tensor.dim() : dim);
}

bool is_dimension_of(const at::Tensor& tensor, int64_t dim) {
  const int64_t rank = std::max<int64_t>(tensor.dim(), 1);
  return dim >= -rank && dim < rank;
}

// self, dim, index
bool along(c10::ArrayRef<c10::IValue> arguments, bool is_from_end) {
  if (!arguments[1].isInt() || !arguments[2].isTensor()) return false;
  const at::Tensor& self = arguments[0].toTensor();
  if (!is_dimension_of(self, arguments[1].toInt())) return false;
  const int64_t size = size_along(self, arguments[1].toInt());
  return is_outside(arguments[2].toTensor(), {is_from_end ? -size : 0, size, {}});
}

// self, indices. A mask takes several dimensions, and the host asks itself of those.
bool listed(c10::ArrayRef<c10::IValue> arguments) {
  const at::Tensor& self = arguments[0].toTensor();
  const auto indices = arguments[1].toListRef();
  if (static_cast<int64_t>(indices.size()) > self.dim()) return false;
  const auto is_tensor = [](const c10::IValue& each) { return each.isTensor() && each.toTensor().defined(); };
  for (const c10::IValue& each : indices) {
    if (!is_tensor(each)) continue;
    const c10::ScalarType type = each.toTensor().scalar_type();
    if (type != at::kLong && type != at::kInt) return false;
  }
  for (size_t d = 0; d < indices.size(); ++d) {
    const int64_t size = self.size(static_cast<int64_t>(d));
    if (is_tensor(indices[d]) && is_outside(indices[d].toTensor(), {-size, size, {}})) return true;
  }
  return false;
}

// scores, target, weight, reduction, ignored class
bool classes(c10::ArrayRef<c10::IValue> arguments) {
  const at::Tensor& scores = arguments[0].toTensor();
  if (scores.dim() == 0) return false;
  const int64_t count = scores.size(scores.dim() == 1 ? 0 : 1);
  return is_outside(arguments[1].toTensor(), {0, count, arguments[4].toInt()});
}

}  // namespace

Places places_of(const std::string& name) {
  std::string plain = name.substr(name.find("::") + 2);
  if (plain.back() == '_') plain.pop_back();
  static const std::set<std::string, std::less<>> along{"index_select", "index_add",     "index_copy",
                                                        "index_reduce", "gather",        "scatter",
                                                        "scatter_add",  "scatter_reduce"};
  if (along.contains(plain)) return Places::kAlong;
  if (plain == "index_fill") return Places::kAlongFromEnd;
  if (plain == "index" || plain == "index_put" || plain == "_index_put_impl") return Places::kListed;
  if (plain == "embedding" || plain == "_embedding_bag" || plain == "_embedding_bag_forward_only")
    return Places::kRows;
  if (plain == "take" || plain == "put") return Places::kFlat;
  if (plain == "nll_loss_forward" || plain == "nll_loss2d_forward") return Places::kClasses;
  return Places::kNone;
}

bool has_places_out_of_range(Places places, c10::ArrayRef<c10::IValue> arguments) {
  const at::Tensor& self = arguments[0].toTensor();
  switch (places) {
    case Places::kNone: return false;
    case Places::kAlong: return along(arguments, false);
    case Places::kAlongFromEnd: return along(arguments, true);
    case Places::kListed: return listed(arguments);
    case Places::kRows: return self.dim() > 0 && is_outside(arguments[1].toTensor(), {0, self.size(0), {}});
    case Places::kFlat: return is_outside(arguments[1].toTensor(), {-self.numel(), self.numel(), {}});
    case Places::kClasses: return classes(arguments);
  }
  return false;
}

}  // namespace opentrn::torch_device
