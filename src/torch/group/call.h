// Tensors and options of torch.distributed as posts of a rendezvous: which bytes go where, and what all ranks
// must agree about.
#pragma once

#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "torch/group/backend.h"

namespace opentrn::torch_device {

// A tensor whose elements, row-major, lie at `offset` of what a rank brings or gets.
struct Part {
  at::Tensor tensor;
  int64_t offset = 0;
};

// Between a tensor and its part of an arena that begins at `base`.
void copy_in(const Part& part, std::byte* base);
void copy_out(const Part& part, const std::byte* base);

// How elements are reduced. An error for what the device cannot, with what to do instead.
struct Reduction {
  Reduction(const c10d::ReduceOp& op, const std::vector<at::Tensor>& tensors, const std::string& collective);
  static Reduction sum() { return Reduction("add", "int32", "SUM"); }

  std::string reduction, dtype;  // names of src/collectives
  std::string text;              // torch's: "SUM"
  bool is_average = false;       // the core divides the sum
  // What is brought: the tensors, or what the core makes of them by PREMUL_SUM's factor.
  std::vector<at::Tensor> brought(const std::vector<at::Tensor>& tensors) const;

 private:
  Reduction(std::string reduction_name, std::string dtype_name, std::string op_text)
      : reduction(std::move(reduction_name)), dtype(std::move(dtype_name)), text(std::move(op_text)) {}
  c10::intrusive_ptr<c10d::_SupplementBase> factor_;
};

struct Backend::Call {
  enum Sizes { kSameSizes, kOwnSizes };  // whether all ranks bring as much
  // `like`: the tensors that `what` counts, all of one type.
  Call(c10d::OpType op, const std::string& kind, const Tensors& like, Sizes sizes = kSameSizes);
  Call(c10d::OpType op, const std::string& kind, const Reduction& by, const Tensors& like);
  Call(c10d::OpType op, const Reduction& by);  // a barrier

  void take(const Tensors& tensors);  // sources, one after the other
  void give(const Tensors& tensors);  // targets
  void root(int64_t rank, int size);  // whom a broadcast or a reduction is from or to

  c10d::OpType type;
  Post post;
  std::vector<Part> sources, targets;
  int64_t input_bytes = 0, output_bytes = 0;
  Tensors results;
  bool is_average = false;
};

// Dense, and on a core.
void check_tensor(const at::Tensor& tensor, const std::string& what);
// The one device of all tensors; the current one where there are none.
c10::DeviceIndex device_of(const Backend::Call& call);
void check_sizes(const Backend::Call& call, const at::Tensor& tensor, int64_t elements, at::ScalarType type);
void check_count(const std::vector<at::Tensor>& tensors, int size, const char* collective);
std::vector<int64_t> bytes_of(const std::vector<at::Tensor>& tensors);
// Of the rows for each rank; `splits` empty: equal parts.
std::vector<int64_t> split_bytes(const at::Tensor& tensor, const std::vector<int64_t>& splits, int size,
                                 const char* side);

}  // namespace opentrn::torch_device
