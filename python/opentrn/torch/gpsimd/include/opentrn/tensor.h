// Tensors of custom operators, and the three ways to their elements. Source: custom-ops-ref-guide.rst of the
// Neuron SDK, "Class torch::Tensor" to "TCM Accessor".
#ifndef OPENTRN_TORCH_GPSIMD_TENSOR_H_
#define OPENTRN_TORCH_GPSIMD_TENSOR_H_

#include <algorithm>
#include <array>
#include <cstdio>
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

#include "opentrn/types.h"

namespace c10 {

// Numbers that somebody else holds, as PyTorch's.
template <typename T>
class ArrayRef {
 public:
  ArrayRef() = default;
  ArrayRef(const T* data, size_t size) : data_(data), size_(size) {}
  ArrayRef(const std::vector<T>& of)
      : data_(of.data()), size_(of.size()) {}  // NOLINT(google-explicit-constructor)
  // As long as the expression that it stands in.
  ArrayRef(const std::initializer_list<T>& of)  // NOLINT(google-explicit-constructor)
      : data_(of.begin()), size_(of.size()) {}

  const T* data() const { return data_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const T& operator[](size_t i) const { return data_[i]; }
  std::vector<T> vec() const { return {begin(), end()}; }
  bool equals(ArrayRef other) const {
    return size_ == other.size_ && std::equal(begin(), end(), other.begin());
  }

 private:
  const T* data_ = nullptr;
  size_t size_ = 0;
};

template <typename T>
bool operator==(ArrayRef<T> a, ArrayRef<T> b) {
  return a.equals(b);
}
template <typename T>
bool operator!=(ArrayRef<T> a, ArrayRef<T> b) {
  return !a.equals(b);
}

using IntArrayRef = ArrayRef<int64_t>;

}  // namespace c10

namespace torch {

using c10::ArrayRef;
using c10::IntArrayRef;

// What happens where streams of a tensor could read what another one has not written back yet.
class CoherencyEnforcer {
 public:
  enum Policy { COHERENT, INCOHERENT_VERBOSE, INCOHERENT_QUIET };
};

namespace neuron {

// A tensor's memory, with the streams that are open on it.
struct Storage {
  std::vector<char> own;
  char* data = nullptr;
  bool is_input = false;  // another's memory, which is read only
  int readers = 0, writers = 0;
  CoherencyEnforcer::Policy policy = CoherencyEnforcer::COHERENT;
};

// A stream that opens: an error or a warning where its tensor's other streams are not coherent with it.
inline void open_stream(Storage& storage, bool writes) {
  const bool is_coherent = writes ? storage.readers + storage.writers == 0 : storage.writers == 0;
  if (!is_coherent && storage.policy != CoherencyEnforcer::INCOHERENT_QUIET) {
    const char* const what =
        "a stream is opened on a tensor that another open stream writes, or that is read while it is "
        "written: close() "
        "that one first, or say set_accessor_coherence_policy()";
    check(storage.policy == CoherencyEnforcer::INCOHERENT_VERBOSE, what);
    std::fprintf(stderr, "opentrn: custom operator: %s\n", what);
  }
  ++(writes ? storage.writers : storage.readers);
}

inline std::string listed(IntArrayRef sizes) {
  std::string text = "[";
  for (size_t i = 0; i < sizes.size(); ++i) text += (i != 0 ? ", " : "") + std::to_string(sizes[i]);
  return text + "]";
}

}  // namespace neuron

// An element, or a row, of a tensor: a[i][j].
template <typename T, size_t N, bool kReadOnly>
class TensorAccessor {
 public:
  using Data = std::conditional_t<kReadOnly, const T, T>;
  TensorAccessor(Data* data, const int64_t* sizes) : data_(data), sizes_(sizes) {}

  decltype(auto) operator[](int64_t i) const {
    neuron::check(i >= 0 && i < sizes_[0],
                  "accessor: place " + std::to_string(i) + " of " + std::to_string(sizes_[0]));
    return at(i, std::integral_constant<bool, N == 1>{});
  }
  int64_t size(int64_t i) const { return sizes_[i]; }
  IntArrayRef sizes() const { return {sizes_, N}; }

 private:
  Data& at(int64_t i, std::true_type /*is_element*/) const { return data_[i]; }
  auto at(int64_t i, std::false_type /*is_element*/) const {
    int64_t row = 1;
    for (size_t d = 1; d < N; ++d) row *= sizes_[d];
    return TensorAccessor<T, N - 1, kReadOnly>(data_ + i * row, sizes_ + 1);
  }

  Data* data_;
  const int64_t* sizes_;
};

// Reads or writes the elements one after the other.
template <typename T, bool kWrites>
class StreamAccessor {
 public:
  StreamAccessor(std::shared_ptr<neuron::Storage> storage, int64_t count)
      : storage_(std::move(storage)), count_(count) {
    neuron::open_stream(*storage_, kWrites);
  }
  StreamAccessor(StreamAccessor&& other) noexcept
      : storage_(std::move(other.storage_)), count_(other.count_), next_(other.next_) {}
  StreamAccessor& operator=(StreamAccessor&&) = delete;
  ~StreamAccessor() { close(); }

  T read() {
    static_assert(!kWrites, "a stream that writes has no read()");
    return place();
  }
  void write(T value) {
    static_assert(kWrites, "a stream that reads has no write()");
    place() = value;
  }
  int close() {
    if (storage_ != nullptr) --(kWrites ? storage_->writers : storage_->readers);
    storage_ = nullptr;
    return 0;
  }

 private:
  T& place() {
    neuron::check(storage_ != nullptr, "a stream is used after close()");
    neuron::check(next_ < count_, "a stream goes past its tensor's " + std::to_string(count_) + " elements");
    return reinterpret_cast<T*>(storage_->data)[next_++];
  }

  std::shared_ptr<neuron::Storage> storage_;
  int64_t count_;
  int64_t next_ = 0;
};
template <typename T>
using TensorReadStreamAccessor = StreamAccessor<T, false>;
template <typename T>
using TensorWriteStreamAccessor = StreamAccessor<T, true>;

// Copies between a tensor and memory of tcm_malloc().
template <bool kReadOnly>
class TensorTcmAccessor {
 public:
  TensorTcmAccessor(std::shared_ptr<neuron::Storage> storage, ScalarType type, int64_t count)
      : storage_(std::move(storage)), type_(type), count_(count) {}

  template <typename T>
  void tensor_to_tcm(T* tcm, size_t offset, size_t count) const {
    std::memcpy(tcm, place<T>(tcm, offset, count), count * sizeof(T));
  }
  template <typename T>
  void tcm_to_tensor(T* tcm, size_t offset, size_t count) const {
    static_assert(!kReadOnly, "tcm_to_tensor() of a const Tensor");
    std::memcpy(place<T>(tcm, offset, count), tcm, count * sizeof(T));
  }

 private:
  template <typename T>
  char* place(const void* tcm, size_t offset, size_t count) const {
    neuron::check(c10::TypeOf<T>::kType == type_, std::string("a TCM accessor of ") +
                                                      c10::TypeOf<T>::spelling() + " on a tensor of " +
                                                      c10::spelling(type_));
    neuron::check(tcm != nullptr,
                  "a TCM accessor got no memory: tcm_malloc() gives null where its 16 KB are used");
    const auto all = static_cast<size_t>(count_);
    neuron::check(offset <= all && count <= all - offset,
                  "a TCM accessor copies " + std::to_string(count) + " elements from " +
                      std::to_string(offset) + " on; the tensor has " + std::to_string(count_));
    return storage_->data + offset * sizeof(T);
  }

  std::shared_ptr<neuron::Storage> storage_;
  ScalarType type_;
  int64_t count_;
};

class Tensor {
 public:
  Tensor() = default;
  // New memory: every byte 0xFF, so that floats that nobody writes are NaN.
  Tensor(IntArrayRef sizes, ScalarType type) : Tensor(sizes, type, nullptr, false) {
    storage_->own.assign(static_cast<size_t>(count_) * c10::elementSize(type), static_cast<char>(0xFF));
    storage_->data = storage_->own.data();
  }
  // Memory of the caller's.
  Tensor(IntArrayRef sizes, ScalarType type, void* data, bool is_input)
      : storage_(std::make_shared<neuron::Storage>()), sizes_(sizes.vec()), type_(type) {
    for (const int64_t size : sizes_) {
      neuron::check(size >= 0, "a tensor of the sizes " + neuron::listed(sizes));
      neuron::check(size == 0 || count_ <= kElementsMax / size, "a tensor of more than 2^40 elements");
      count_ *= size;
    }
    storage_->data = static_cast<char*>(data);
    storage_->is_input = is_input;
  }

  bool defined() const { return storage_ != nullptr; }
  int64_t dim() const { return static_cast<int64_t>(sizes_.size()); }
  int64_t ndimension() const { return dim(); }
  IntArrayRef sizes() const { return sizes_; }
  int64_t size(int64_t i) const {
    const int64_t place = i < 0 ? i + dim() : i;
    neuron::check(place >= 0 && place < dim(),
                  "dimension " + std::to_string(i) + " of a tensor of rank " + std::to_string(dim()));
    return sizes_[static_cast<size_t>(place)];
  }
  int64_t numel() const { return count_; }
  ScalarType scalar_type() const { return type_; }
  ScalarType dtype() const { return type_; }
  TensorOptions options() const { return {type_}; }
  size_t element_size() const { return c10::elementSize(type_); }
  bool is_contiguous() const { return true; }

  template <typename T, size_t N>
  TensorAccessor<T, N, true> accessor() const& {
    return {data_for_accessor<T, N>(), sizes_.data()};
  }
  template <typename T, size_t N>
  TensorAccessor<T, N, false> accessor() & {
    writable();
    return {data_for_accessor<T, N>(), sizes_.data()};
  }
  template <typename T>
  TensorReadStreamAccessor<T> read_stream_accessor() const& {
    one_core("streams");
    of_type<T>();
    return {storage(), count_};
  }
  template <typename T>
  TensorWriteStreamAccessor<T> write_stream_accessor() & {
    one_core("streams");
    of_type<T>();
    writable();
    return {storage(), count_};
  }
  TensorTcmAccessor<true> tcm_accessor() const& { return {storage(), type_, count_}; }
  TensorTcmAccessor<false> tcm_accessor() & {
    writable();
    return {storage(), type_, count_};
  }

  CoherencyEnforcer::Policy get_accessor_coherence_policy() const { return storage()->policy; }
  void set_accessor_coherence_policy(CoherencyEnforcer::Policy policy) const { storage()->policy = policy; }

  Tensor& fill_(const Scalar& value) const {
    c10::with_type(type_, [&](auto zero) {
      using T = decltype(zero);
      T* const data = elements<T>();
      std::fill(data, data + count_, value.to<T>());
    });
    return const_cast<Tensor&>(*this);
  }

  // For the tensor library itself: without the rules of accessors.
  template <typename T>
  T* elements() const {
    of_type<T>();
    return reinterpret_cast<T*>(storage()->data);
  }
  char* bytes() const { return storage()->data; }

 private:
  static constexpr int64_t kElementsMax = int64_t{1} << 40;

  const std::shared_ptr<neuron::Storage>& storage() const {
    neuron::check(defined(), "a tensor is used that nothing was assigned to");
    return storage_;
  }
  template <typename T>
  void of_type() const {
    neuron::check(c10::TypeOf<T>::kType == type_, std::string("an accessor of ") +
                                                      c10::TypeOf<T>::spelling() + " on a tensor of " +
                                                      c10::spelling(type_));
  }
  template <typename T, size_t N>
  T* data_for_accessor() const {
    one_core("accessors of elements");
    neuron::check(static_cast<int64_t>(N) == dim(), "an accessor of " + std::to_string(N) +
                                                        " dimensions on a tensor of the sizes " +
                                                        neuron::listed(sizes_));
    return elements<T>();
  }
  static void one_core(const char* what) {
    const neuron::Call* const call = neuron::this_call();
    neuron::check(call == nullptr || !call->is_multicore,
                  std::string(what) + " are for one core: with multicore=True use tcm_accessor()");
  }
  // What may write to an operand of the operator gets a copy of it: operands are values, as XLA's are.
  void writable() {
    if (!storage()->is_input) return;
    Tensor copy(sizes_, type_);
    std::memcpy(copy.storage_->data, storage_->data, copy.storage_->own.size());
    *this = copy;
  }

  std::shared_ptr<neuron::Storage> storage_;
  std::vector<int64_t> sizes_;
  ScalarType type_ = ScalarType::Float;
  int64_t count_ = 1;
};

}  // namespace torch

// The operator's output, to write the result in place.
inline torch::Tensor get_dst_tensor() {
  torch::neuron::Call& call = torch::neuron::in_kernel("get_dst_tensor");
  call.took_result = true;
  return *call.result;
}

namespace at {
using torch::CoherencyEnforcer;
using torch::IntArrayRef;
using torch::Scalar;
using torch::ScalarType;
using torch::Tensor;
using torch::TensorOptions;
}  // namespace at

#endif  // OPENTRN_TORCH_GPSIMD_TENSOR_H_
