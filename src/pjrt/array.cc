#include "pjrt/array.h"

#include <cstring>
#include <utility>

#include "base/fault.h"

namespace opentrn::pjrt {

namespace {

// Calls move(offset, index) for every row-major element, `offset` by the strides.
template <typename Move>
void for_elements(const graph::Type& type, std::span<const int64_t> strides, Move&& move) {
  const int64_t count = type.element_count();
  std::vector<int64_t> at(strides.size());
  int64_t offset = 0;
  for (int64_t i = 0; i < count; ++i) {
    move(offset, i);
    for (size_t d = at.size(); d-- > 0;) {
      offset += strides[d];
      if (++at[d] < type.dims()[d]) break;
      offset -= strides[d] * type.dims()[d];
      at[d] = 0;
    }
  }
}

// A host's byte of a narrow integer may have anything in its upper bits; a literal's extends the value.
void extend(graph::ElementType element, std::span<std::byte> elements) {
  const int width = graph::bit_width(element);
  if (width >= 8 || !graph::is_integer(element)) return;
  for (std::byte& byte : elements) {
    const auto high = static_cast<uint8_t>(static_cast<uint8_t>(byte) << (8 - width));
    byte = graph::is_signed_integer(element) ? std::byte(static_cast<int8_t>(high) >> (8 - width))
                                             : std::byte(high >> (8 - width));
  }
}

}  // namespace

Array::Array(Device* on, graph::Type of, MinorToMajor in)
    : device(on), type(std::move(of)), order(is_row_major(in) ? MinorToMajor{} : std::move(in)) {
  device->take(type.byte_count());
}

Array::~Array() { device->give_back(type.byte_count()); }

void Array::set(graph::Literal literal) {
  {
    std::lock_guard lock(mutex_);
    value_ = std::move(literal);
  }
  ready->set(std::nullopt);
}

graph::Literal Array::value() const {
  std::lock_guard lock(mutex_);
  return value_;
}

graph::Literal Array::value_for_another() const {
  std::lock_guard lock(mutex_);
  return has_pointer_ ? graph::Literal(value_.type(), value_.dense()) : value_;
}

const std::byte* Array::pointer() {
  std::lock_guard lock(mutex_);
  if (!has_pointer_) value_ = graph::Literal(value_.type(), value_.dense());
  has_pointer_ = true;
  return value_.bytes().data();
}

bool Array::has_pointer() const {
  std::lock_guard lock(mutex_);
  return has_pointer_;
}

Buffer::Buffer(std::shared_ptr<Array> holds)
    : device(holds->device),
      type(holds->type),
      dims(type.dims_vector()),
      minor_to_major(holds->order.empty() ? row_major(type.rank()) : holds->order),
      array_(std::move(holds)) {}

std::shared_ptr<Array> Buffer::live() const {
  std::lock_guard lock(mutex_);
  if (!array_)
    throw Fault(FaultKind::kInput, "pjrt.deleted", "the buffer has been deleted or donated",
                "keep a copy of an array that is donated, or do not donate it");
  return array_;
}

bool Buffer::deleted() const {
  std::lock_guard lock(mutex_);
  return !array_;
}

void Buffer::remove() {
  std::shared_ptr<Array> last;  // its end frees much: not under the lock
  std::lock_guard lock(mutex_);
  last.swap(array_);
}

void Buffer::reference() {
  const std::shared_ptr<Array> array = live();
  std::lock_guard lock(mutex_);
  ++references_;
  referenced_ = array;
}

void Buffer::dereference() {
  std::shared_ptr<Array> last;  // its end frees much: not under the lock
  std::lock_guard lock(mutex_);
  if (references_ == 0)
    throw Fault(FaultKind::kInput, "pjrt.references", "the buffer has no external reference to give back",
                "give back each reference once");
  if (--references_ == 0) last.swap(referenced_);
}

std::vector<int64_t> byte_strides_of(const graph::Type& type, std::span<const int64_t> minor_to_major) {
  std::vector<int64_t> strides(static_cast<size_t>(type.rank()));
  int64_t step = graph::storage_bytes(type.element());
  for (const int64_t d : minor_to_major) {
    strides[static_cast<size_t>(d)] = step;
    step *= type.dim(static_cast<int>(d));
  }
  return strides;
}

std::vector<std::byte> read_host(const void* data, const graph::Type& type,
                                 std::span<const int64_t> byte_strides) {
  const auto* from = static_cast<const std::byte*>(data);
  std::vector<std::byte> elements(static_cast<size_t>(type.byte_count()));
  const std::vector<int64_t> plain = byte_strides_of(type, row_major(type.rank()));
  const auto size = static_cast<size_t>(graph::storage_bytes(type.element()));
  if (byte_strides.empty() ||
      std::equal(plain.begin(), plain.end(), byte_strides.begin(), byte_strides.end())) {
    if (!elements.empty()) std::memcpy(elements.data(), from, elements.size());
  } else {
    for_elements(type, byte_strides, [&](int64_t offset, int64_t i) {
      std::memcpy(elements.data() + static_cast<size_t>(i) * size, from + offset, size);
    });
  }
  extend(type.element(), elements);
  return elements;
}

void write_host(std::span<const std::byte> elements, const graph::Type& type,
                std::span<const int64_t> minor_to_major, void* data) {
  auto* to = static_cast<std::byte*>(data);
  const auto size = static_cast<size_t>(graph::storage_bytes(type.element()));
  const std::vector<int64_t> strides = byte_strides_of(type, minor_to_major);
  if (minor_to_major.empty() || is_row_major({minor_to_major.begin(), minor_to_major.end()})) {
    if (!elements.empty()) std::memcpy(to, elements.data(), elements.size());
    return;
  }
  for_elements(type, strides, [&](int64_t offset, int64_t i) {
    std::memcpy(to + offset, elements.data() + static_cast<size_t>(i) * size, size);
  });
}

}  // namespace opentrn::pjrt
