#include "torch/call.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "torch/device.h"

namespace opentrn::torch_device {

namespace {

enum Tag : uint64_t {
  kNone,
  kTensor,
  kInt,
  kDouble,
  kLifted,
  kBool,
  kComplex,
  kList,
  kText,
  kPlace,
  kDraws,
  kOther
};

bool is_ours(const at::Tensor& tensor) { return tensor.device().type() == c10::DeviceType::PrivateUse1; }

// A number of Python's joins tensors with dimensions without a say in the result's type; where no tensor has
// any, the rules depend on its type, and a program is made for the value.
bool joins_only_tensors_without_dimensions(c10::ArrayRef<c10::IValue> values) {
  for (const c10::IValue& value : values)
    if (value.isTensor() && value.toTensor().defined() && value.toTensor().dim() > 0) return false;
  return true;
}

class Reader {
 public:
  Reader(Call& call, bool lifts) : call_(call), lifts_(lifts) {}

  void read(const c10::IValue& value, bool is_written) {
    is_written_ = is_written;
    is_listed_ = !value.isTensor();
    read(value);
  }

  void read(const c10::IValue& value) {
    if (value.isNone()) return put(kNone);
    if (value.isTensor()) return read_tensor(value.toTensor());
    if (value.isInt()) return put(kInt, static_cast<uint64_t>(value.toInt()));
    if (value.isUnsigned()) return put(kInt, value.toUInt());
    if (value.isBool()) return put(kBool, value.toBool() ? 1 : 0);
    if (value.isDouble()) return read_double(value.toDouble());
    if (value.isComplexDouble()) {
      const auto number = value.toComplexDouble();
      put(kComplex, std::bit_cast<uint64_t>(number.real()));
      return put(std::bit_cast<uint64_t>(number.imag()));
    }
    if (value.isSymInt()) return put(kInt, static_cast<uint64_t>(value.toSymInt().expect_int()));
    if (value.isIntList())
      return read_all(value.toIntVector(), [&](int64_t n) { put(static_cast<uint64_t>(n)); });
    if (value.isTensorList())
      return read_all(value.toTensorVector(), [&](const at::Tensor& tensor) { read_tensor(tensor); });
    if (value.isList()) return read_all(value.toListRef(), [&](const c10::IValue& each) { read(each); });
    if (value.isString()) {
      call_.text += value.toStringRef();
      call_.text += '\0';
      return put(kText, value.toStringRef().size());
    }
    if (value.isDevice()) {
      const c10::Device device = value.toDevice();
      if (device.type() == c10::DeviceType::PrivateUse1 && !has_device_ && device.has_index())
        call_.device = device.index();
      return put(kPlace, static_cast<uint64_t>(device.type()));
    }
    if (value.isGenerator()) {
      call_.generator = value.toGenerator();
      return put(kDraws);
    }
    TORCH_CHECK_NOT_IMPLEMENTED(false, call_.op->schema().name(),
                                ": the device neuron takes no argument of type ", value.tagKind());
  }

 private:
  void put(uint64_t word) { call_.key.push_back(word); }
  void put(Tag tag, uint64_t word) {
    put(tag);
    put(word);
  }
  template <typename Items, typename One>
  void read_all(const Items& items, One one) {
    put(kList, items.size());
    for (const auto& item : items) one(item);
  }

  void read_double(double number) {
    if (!lifts_ || number == 0 || number == 1) return put(kDouble, std::bit_cast<uint64_t>(number));
    put(kLifted);
    call_.numbers.push_back(number);
  }

  void read_tensor(const at::Tensor& tensor) {
    if (!tensor.defined()) return put(kNone);
    Argument row;
    row.tensor = tensor;
    row.is_wrapped = tensor.unsafeGetTensorImpl()->is_wrapped_number();
    row.is_written = is_written_ && !is_listed_;
    call_.has_lazy = call_.has_lazy || tensor.is_conj() || tensor.is_neg();
    if (is_ours(tensor)) {
      if (!has_device_) call_.device = tensor.device().index();
      TORCH_CHECK(!has_device_ || call_.device == tensor.device().index(),
                  "Expected all tensors to be on the same device, but found at least two devices, neuron:",
                  static_cast<int>(call_.device), " and neuron:", static_cast<int>(tensor.device().index()),
                  "! (in ", call_.op->schema().name(), ")");
      has_device_ = true;
      row.layout = layout_of(tensor);
    } else if (tensor.dim() == 0 && tensor.device().is_cpu() && !is_written_) {
      const bool is_type_free = tensor.scalar_type() != at::kBool && !tensor.is_complex() &&
                                !(row.is_wrapped && joins_only_tensors_without_dimensions(call_.values));
      row.kind = is_type_free ? Argument::kScalar : Argument::kNumber;
    } else {
      row.kind = Argument::kForeign;
      call_.has_foreign = true;
    }
    write_key(row);
    call_.tensors.push_back(std::move(row));
  }

  void write_key(const Argument& row) {
    const at::Tensor& tensor = row.tensor;
    put(kTensor, static_cast<uint64_t>(tensor.scalar_type()) | static_cast<uint64_t>(row.kind) << 8 |
                     static_cast<uint64_t>(row.is_wrapped) << 16 |
                     static_cast<uint64_t>(row.layout.kind) << 24 |
                     static_cast<uint64_t>(tensor.dim()) << 32);
    for (const int64_t size : tensor.sizes()) put(static_cast<uint64_t>(size));
    for (const int64_t dimension : row.layout.order) put(static_cast<uint64_t>(dimension));
    if (!row.layout.expanded.empty()) {
      put(~uint64_t{0});
      for (const int64_t dimension : row.layout.expanded) put(static_cast<uint64_t>(dimension));
    }
    if (row.kind == Argument::kNumber) {
      const auto number = tensor.item().toComplexDouble();
      put(std::bit_cast<uint64_t>(number.real()));
      put(std::bit_cast<uint64_t>(number.imag()));
    }
  }

  Call& call_;
  const bool lifts_;
  bool has_device_ = false, is_written_ = false, is_listed_ = false;
};

// Whether dimensions of more than one element stand in their own order.
bool is_in_sequence(c10::ArrayRef<int64_t> order, at::IntArrayRef sizes) {
  int64_t before = -1;
  for (const int64_t i : order) {
    if (sizes[static_cast<size_t>(i)] == 1) continue;
    if (i < before) return false;
    before = i;
  }
  return true;
}

}  // namespace

Layout layout_of(const at::Tensor& tensor) {
  Layout layout;
  if (tensor.is_contiguous()) return layout;
  const at::IntArrayRef sizes = tensor.sizes(), strides = tensor.strides();
  c10::SmallVector<int64_t, 6> order;
  for (int64_t i = 0; i < tensor.dim(); ++i) {
    const auto at = static_cast<size_t>(i);
    if (strides[at] == 0 && sizes[at] > 1) layout.expanded.push_back(i);
    order.push_back(i);
  }
  // Dimensions of one element, and expanded ones, may stand anywhere: before all others.
  const auto key = [&](int64_t i) {
    const auto at = static_cast<size_t>(i);
    return sizes[at] == 1 || strides[at] == 0 ? std::numeric_limits<int64_t>::max() : strides[at];
  };
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return key(a) > key(b); });
  int64_t step = 1;
  for (size_t i = order.size(); i-- > 0;) {
    const auto at = static_cast<size_t>(order[i]);
    if (sizes[at] == 1 || strides[at] == 0) continue;
    if (strides[at] != step) {
      layout.kind = Layout::kScattered;
      if (layout.expanded.empty() && !is_in_sequence(order, sizes)) layout.order = std::move(order);
      layout.expanded.clear();
      return layout;
    }
    step *= sizes[at];
  }
  layout.kind = Layout::kPermuted;
  layout.order = std::move(order);
  return layout;
}

void read_call(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> values, bool lifts, Call& call) {
  call.op = &op;
  call.values = values;
  call.device = current_device();
  call.key.push_back(reinterpret_cast<uintptr_t>(&op.schema()));
  call.key.push_back(static_cast<uint64_t>(c10::get_default_dtype_as_scalartype()));
  Reader reader(call, lifts);
  const auto& declared = op.schema().arguments();
  for (size_t i = 0; i < values.size(); ++i) {
    const auto* alias = declared[i].alias_info();
    reader.read(values[i], alias != nullptr && alias->isWrite());
  }
}

}  // namespace opentrn::torch_device
