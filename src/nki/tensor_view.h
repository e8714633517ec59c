// TensorView: what a kernel calls a tensor. A storage, and how it is looked at.
//
// A view is [stride, count] dimensions over the flat row-major storage of one isa::Tensor (see
// isa/program.h, "Addressing is flat"), so every view operation is arithmetic on strides and none
// touches data. At most one dimension is indirect. Rules of each operation: NkiTensor in
// nki/api/nki/language/__init__.py (NKI 0.6) and nki/deep-dives/nki-aps.rst.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "isa/program.h"

namespace opentrn::sim {
class Buffer;
}

namespace opentrn::nki {

class Machine;

// Shared by all views of one tensor; when the last view goes, the machine may drop the value. A storage
// keeps its machine alive, so results can be read after the kernel has returned. The storage of a host
// array has no machine: every machine that meets it gives it a tensor of its own over the same bytes.
struct Storage {
  Storage(std::shared_ptr<Machine> machine, isa::TensorId id, const isa::Tensor& tensor);
  Storage(std::shared_ptr<sim::Buffer> host_bytes, const isa::Tensor& tensor);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  std::shared_ptr<Machine> machine;
  std::shared_ptr<sim::Buffer> host_bytes;
  isa::TensorId id = 0;  // within `machine`
  isa::MemorySpace space;
  DType dtype;
  int64_t rows;
  int64_t row_elements;
  std::string name;

  int64_t elements() const { return rows * row_elements; }
};

class TensorView;

struct Indirection {
  isa::IndirectKind kind = isa::IndirectKind::kScalar;
  int dim = 0;                              // dimension of the view; -1 for kScalar (no dimension is tied)
  std::shared_ptr<const TensorView> index;  // index tile, or null when a register holds the index
  isa::RegisterId index_register = 0;
  int64_t stride = 1;
  int64_t bound = 0;
  int64_t num_elem = 0;
};

class TensorView {
 public:
  std::shared_ptr<Storage> storage;
  DType dtype = DType::kFloat32;
  isa::Pattern pattern;  // strides and shape
  int64_t offset = 0;    // elements of `dtype`
  std::optional<Indirection> indirection;
  bool may_leave_storage = false;  // made by ap(): its extent is checked when an instruction takes it

  // A whole new tensor in row-major order.
  static TensorView whole(std::shared_ptr<Storage> storage, std::span<const int64_t> shape);

  int rank() const { return pattern.rank; }
  int64_t size(int dim) const { return pattern.dims[dim].count; }
  int64_t stride(int dim) const { return pattern.dims[dim].step; }
  int64_t element_count() const { return pattern.element_count(); }
  bool on_chip() const { return isa::is_on_chip(storage->space); }
  // Elements of `dtype` in one row of the storage.
  int64_t row_elements() const {
    return storage->row_elements * size_bytes(storage->dtype) / size_bytes(dtype);
  }
  bool is_contiguous() const;
  // Elements of one partition of an on-chip view that are one run of the partition; 0 if they are not one
  // run.
  int64_t own_row_elements() const;
  std::string describe() const;  // "bfloat16[128, 512] in sbuf (q_tile)"

  // View operations. Errors are Fault{kProgram} labelled NkiTensor.<operation>.
  TensorView slice(int dim, int64_t start, int64_t end, int64_t step) const;
  // t[nl.ds(start, 0)]: no elements. Only nl.ds makes it (slices and .slice document start < end), and no
  // instruction takes it (Machine::operand): nki-library's cores without work make one and leave it alone.
  TensorView empty_slice(int dim, int64_t start) const;
  TensorView select(int dim, int64_t index) const;
  TensorView select_scalar(int dim, std::shared_ptr<const TensorView> index) const;
  TensorView select_register(int dim, isa::RegisterId index) const;
  // As slice with a run-time start: `size` elements from the register's value.
  TensorView slice_register(int dim, isa::RegisterId start, int64_t size) const;
  TensorView vector_select(int dim, std::shared_ptr<const TensorView> offsets) const;
  TensorView permute(std::span<const int64_t> dims) const;
  TensorView broadcast(int dim, int64_t size) const;
  TensorView expand_dim(int dim) const;
  TensorView squeeze_dim(int dim) const;
  TensorView reshape_dim(int dim, std::vector<int64_t> shape) const;
  TensorView flatten_dims(int start, int end) const;
  // Split, permute and merge by dimension names, as einops does. `text` is a pattern as the user wrote it.
  struct NamedDims {
    std::vector<std::vector<std::string>> groups;  // of names, one for each dimension
    std::string text;
  };
  TensorView rearrange(const NamedDims& source, const NamedDims& target,
                       const std::map<std::string, int64_t>& sizes) const;
  TensorView reshape(std::vector<int64_t> shape) const;
  TensorView reinterpret(DType to) const;
  TensorView indirect(std::shared_ptr<const TensorView> index, std::optional<int64_t> num_elem) const;

  struct ApArguments {
    std::vector<isa::Dim> pattern;
    std::optional<int64_t> offset;
    std::shared_ptr<const TensorView> scalar_offset;
    std::optional<isa::RegisterId> scalar_register;
    std::shared_ptr<const TensorView> vector_offset;
    int indirect_dim = 0;
    std::optional<DType> dtype;
  };
  TensorView ap(const ApArguments& arguments) const;

  // Fault{kProgram} when the view reaches outside its storage.
  void check_extent(std::string_view operation) const;

 private:
  void check_dim(std::string_view operation, int dim) const;
  void check_not_tied(std::string_view operation, int dim) const;
  void check_partition_kept(std::string_view operation, int dim) const;
  [[noreturn]] void fail(std::string_view operation, std::string message, std::string hint = {}) const;
  // Elements one unit of index along `dim` of this view's shape stands for.
  TensorView with_scalar_index(int dim, Indirection index) const;
};

// The shape in which two tiles of one rank meet, dimension by dimension. Fault{kProgram} "nki.shape" where
// they do not.
std::vector<int64_t> common_shape(std::span<const int64_t> x, std::span<const int64_t> y);

}  // namespace opentrn::nki
