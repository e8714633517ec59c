#include "torch/group/call.h"

#include <algorithm>
#include <numeric>
#include <sstream>

#include <ATen/Functions.h>

#include "torch/device.h"
#include "torch/host_view.h"

namespace opentrn::torch_device {

namespace {

at::Tensor in_memory(const at::Tensor& like, const std::byte* at) {
  return at::from_blob(const_cast<std::byte*>(at), like.sizes(),
                       at::TensorOptions().dtype(like.dtype()).device(at::kCPU));
}

const char* name_of(at::ScalarType type) {
  switch (type) {
    case at::kBool: return "bool";
    case at::kChar: return "int8";
    case at::kShort: return "int16";
    case at::kInt: return "int32";
    case at::kLong: return "int64";
    case at::kByte: return "uint8";
    case at::kUInt16: return "uint16";
    case at::kUInt32: return "uint32";
    case at::kUInt64: return "uint64";
    case at::kHalf: return "float16";
    case at::kBFloat16: return "bfloat16";
    case at::kFloat:
    case at::kComplexFloat: return "float32";  // two of them
    case at::kDouble:
    case at::kComplexDouble: return "float64";
    case at::kFloat8_e4m3fn: return "float8_e4m3fn";
    case at::kFloat8_e5m2: return "float8_e5m2";
    default: return nullptr;
  }
}

int64_t elements_of(const std::vector<at::Tensor>& tensors) {
  int64_t count = 0;
  for (const at::Tensor& each : tensors) count += each.numel();
  return count;
}

std::string counted(const std::vector<at::Tensor>& tensors) {
  std::ostringstream out;
  out << c10::toString(tensors.at(0).scalar_type()) << ", " << elements_of(tensors) << " elements)";
  return out.str();
}

}  // namespace

void copy_in(const Part& part, std::byte* base) {
  if (part.tensor.numel() > 0)
    in_memory(part.tensor, base + part.offset).copy_(host_view(part.tensor.detach()));
}

void copy_out(const Part& part, const std::byte* base) {
  if (part.tensor.numel() > 0)
    host_view(part.tensor.detach()).copy_(in_memory(part.tensor, base + part.offset));
}

Reduction::Reduction(const c10d::ReduceOp& op, const std::vector<at::Tensor>& tensors,
                     const std::string& collective) {
  TORCH_CHECK(!tensors.empty(), collective, " got no tensor");
  const at::ScalarType type = tensors[0].scalar_type();
  const char* name = name_of(type);
  TORCH_CHECK(name != nullptr, collective, " on neuron does not reduce ", type);
  dtype = name;
  const bool is_float = at::isFloatingType(type), is_complex = at::isComplexType(type);
  switch (static_cast<c10d::ReduceOp::RedOpType>(op)) {
    case c10d::ReduceOp::AVG:
      TORCH_CHECK(is_float || is_complex, collective, " on neuron averages floating point only, not ", type,
                  ": take the SUM and divide");
      is_average = true;
      reduction = "add", text = "AVG";
      break;
    case c10d::ReduceOp::SUM: reduction = "add", text = "SUM"; break;
    case c10d::ReduceOp::PRODUCT: reduction = "multiply", text = "PRODUCT"; break;
    case c10d::ReduceOp::MIN: reduction = "minimum", text = "MIN"; break;
    case c10d::ReduceOp::MAX: reduction = "maximum", text = "MAX"; break;
    case c10d::ReduceOp::BAND: reduction = "and", text = "BAND"; break;
    case c10d::ReduceOp::BOR: reduction = "or", text = "BOR"; break;
    case c10d::ReduceOp::BXOR: reduction = "xor", text = "BXOR"; break;
    case c10d::ReduceOp::PREMUL_SUM:
      TORCH_CHECK(is_float, collective, " on neuron multiplies floating point only, not ", type);
      factor_ = op.supplement_;
      reduction = "add", text = "PREMUL_SUM";
      break;
    default: TORCH_CHECK(false, collective, " on neuron has no such reduction");
  }
  const bool is_bitwise = reduction == "and" || reduction == "or" || reduction == "xor";
  TORCH_CHECK(!is_bitwise || !(is_float || is_complex), "Cannot use ReduceOp.", text,
              " with floating point: ", collective, " of ", type);
  TORCH_CHECK(!is_complex || reduction == "add", collective, " does not support ", text,
              " on complex tensors");
}

std::vector<at::Tensor> Reduction::brought(const std::vector<at::Tensor>& tensors) const {
  const auto* given = dynamic_cast<const c10d::PreMulSumSupplement*>(factor_.get());
  if (given == nullptr) return tensors;
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> products;
  for (const at::Tensor& each : tensors)
    products.push_back(given->tensor_factor.defined() ? each.mul(given->tensor_factor).to(each.scalar_type())
                                                      : each.mul(given->double_factor));
  return products;
}

Backend::Call::Call(c10d::OpType op, const std::string& kind, const Tensors& like, Sizes sizes) : type(op) {
  TORCH_CHECK(!like.empty(), kind, " got no tensor");
  post.kind = kind;
  post.dtype = "uint8";
  const std::string dtype = c10::toString(like[0].scalar_type());
  post.what = kind + " (" + (sizes == kSameSizes ? counted(like) : dtype + ")");
  for (const at::Tensor& each : like)
    TORCH_CHECK(each.scalar_type() == like[0].scalar_type(), kind,
                " on neuron takes tensors of one type, not ", like[0].scalar_type(), " and ",
                each.scalar_type());
}

Backend::Call::Call(c10d::OpType op, const std::string& kind, const Reduction& by, const Tensors& like)
    : Call(op, kind, like) {
  post.dtype = by.dtype;
  post.reduction = by.reduction;
  post.what = kind + " (" + by.text + " of " + counted(like);
  is_average = by.is_average;
}

Backend::Call::Call(c10d::OpType op, const Reduction& by) : type(op) {
  post.kind = "all_reduce";
  post.what = "barrier";
  post.dtype = by.dtype;
  post.reduction = by.reduction;
}

void Backend::Call::take(const Tensors& tensors) {
  for (const at::Tensor& each : tensors) {
    check_tensor(each, post.what);
    sources.push_back({each, input_bytes});
    input_bytes += static_cast<int64_t>(each.nbytes());
  }
}

void Backend::Call::give(const Tensors& tensors) {
  for (const at::Tensor& each : tensors) {
    check_tensor(each, post.what);
    targets.push_back({each, output_bytes});
    output_bytes += static_cast<int64_t>(each.nbytes());
    results.push_back(each);
  }
}

void Backend::Call::root(int64_t rank, int size) {
  TORCH_CHECK_VALUE(rank >= 0 && rank < size, post.what, ": the root is rank ", rank,
                    "; there are ranks 0 to ", size - 1);
  post.root = static_cast<int>(rank);
  post.what.pop_back();
  post.what += ", root " + std::to_string(rank) + ")";
}

void check_tensor(const at::Tensor& tensor, const std::string& what) {
  TORCH_CHECK(tensor.layout() == at::kStrided, what, " on neuron takes dense tensors, not ", tensor.layout());
  TORCH_CHECK(tensor.device().type() == c10::DeviceType::PrivateUse1, what,
              ": the group neuron takes tensors on neuron, not on ", tensor.device(),
              "; a group of both is made by init_process_group(\"cpu:gloo,neuron:neuron\")");
}

c10::DeviceIndex device_of(const Backend::Call& call) {
  std::optional<c10::Device> device;
  for (const auto* parts : {&call.sources, &call.targets})
    for (const Part& part : *parts) {
      check_tensor(part.tensor, call.post.what);
      TORCH_CHECK(device.value_or(part.tensor.device()) == part.tensor.device(), call.post.what,
                  ": tensors on ", *device, " and on ", part.tensor.device());
      device = part.tensor.device();
    }
  return device ? device->index() : current_device();
}

void check_sizes(const Backend::Call& call, const at::Tensor& tensor, int64_t elements, at::ScalarType type) {
  TORCH_CHECK(tensor.scalar_type() == type, call.post.what, ": the other tensor is ", tensor.scalar_type());
  TORCH_CHECK(tensor.numel() == elements, call.post.what, ": the other tensor has ", tensor.numel(),
              " elements; it needs ", elements);
}

void check_count(const std::vector<at::Tensor>& tensors, int size, const char* collective) {
  TORCH_CHECK(tensors.size() == static_cast<size_t>(size), collective, " got ", tensors.size(),
              " tensors for ", size, " ranks");
}

std::vector<int64_t> bytes_of(const std::vector<at::Tensor>& tensors) {
  std::vector<int64_t> bytes;
  for (const at::Tensor& each : tensors) bytes.push_back(static_cast<int64_t>(each.nbytes()));
  return bytes;
}

std::vector<int64_t> split_bytes(const at::Tensor& tensor, const std::vector<int64_t>& splits, int size,
                                 const char* side) {
  const int64_t rows = tensor.dim() == 0 ? 1 : tensor.size(0);
  const auto bytes = static_cast<int64_t>(tensor.nbytes());
  if (splits.empty()) {
    TORCH_CHECK(rows % size == 0, "all_to_all: dimension 0 of the ", side, ", ", rows,
                ", does not divide by the ", size, " ranks");
    return std::vector<int64_t>(static_cast<size_t>(size), bytes / size);
  }
  TORCH_CHECK(splits.size() == static_cast<size_t>(size) && std::ranges::min(splits) >= 0 &&
                  std::accumulate(splits.begin(), splits.end(), int64_t{0}) == rows,
              "all_to_all: the ", side, " splits ", splits, " are not the ", rows, " rows for ", size,
              " ranks");
  std::vector<int64_t> parts;
  for (const int64_t each : splits) parts.push_back(rows == 0 ? 0 : bytes / rows * each);
  return parts;
}

}  // namespace opentrn::torch_device
