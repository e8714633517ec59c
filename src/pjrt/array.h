// What a buffer holds, and copies between it and the host.
//
// An array keeps elements as graph::Literal does, in the model's own types and row-major, whatever its
// layout; what the device narrows (64-bit types) is converted when a program reads it. Its value comes with
// its completion.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "graph/literal.h"
#include "pjrt/client.h"
#include "pjrt/completion.h"
#include "pjrt/layouts.h"

namespace opentrn::pjrt {

struct Array {
  // Takes room in the device's HBM while it lives.
  Array(Device* device, graph::Type type) : Array(device, std::move(type), {}) {}
  Array(Device* device, graph::Type type, MinorToMajor order);
  ~Array();
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;

  Device* const device;
  const graph::Type type;
  const MinorToMajor order;  // in the device's memory; empty: row-major
  std::shared_ptr<Completion> ready = std::make_shared<Completion>();

  void set(graph::Literal literal);
  void fail(Status status) { ready->set(std::move(status)); }
  // Once ready. Other arrays may have the same bytes, of which a program hands arguments through, as long as
  // nobody can tell: until a pointer to them is asked for.
  graph::Literal value() const;
  // For another array. Whoever has a pointer to these bytes may write to them, so they are copied then.
  graph::Literal value_for_another() const;
  // Where the elements lie from now on: in memory of their own.
  const std::byte* pointer();
  bool has_pointer() const;

 private:
  mutable std::mutex mutex_;
  graph::Literal value_;
  bool has_pointer_ = false;
};

// PJRT_Buffer: a handle to an array, until it is deleted or donated, which another thread may do at any time.
struct Buffer {
  explicit Buffer(std::shared_ptr<Array> array);

  Device* const device;
  const graph::Type type;
  std::vector<int64_t> dims;
  MinorToMajor minor_to_major;

  // Input fault when it has been deleted.
  std::shared_ptr<Array> live() const;
  bool deleted() const;
  // Whoever has the array keeps it.
  void remove();
  // External references: the array's memory stays where it is until each has been given back, even when the
  // buffer is deleted or donated meanwhile.
  void reference();
  void dereference();

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<Array> array_;       // null: deleted
  std::shared_ptr<Array> referenced_;  // null: nobody refers to it
  int64_t references_ = 0;
};

// Between neighbours in each dimension.
std::vector<int64_t> byte_strides_of(const graph::Type& type, std::span<const int64_t> minor_to_major);
// Row-major elements of a host array; byte strides may be negative or 0, and are empty for row-major.
std::vector<std::byte> read_host(const void* data, const graph::Type& type,
                                 std::span<const int64_t> byte_strides);
// The other way. `minor_to_major` is the order of dimensions in memory, fastest first; empty for row-major.
void write_host(std::span<const std::byte> elements, const graph::Type& type,
                std::span<const int64_t> minor_to_major, void* data);

}  // namespace opentrn::pjrt
