#include "import/weights/weight_file.h"

#include <utility>

#include <fmt/format.h>

#include "base/fault.h"
#include "base/utf8.h"

namespace opentrn::import::weights {

int64_t StoredTensor::element_count() const {
  int64_t count = 1;
  for (const int64_t dim : shape) count *= dim;
  return count;
}

void StoredTensor::decode_rows(int64_t first, std::span<float> out) const {
  const auto width = static_cast<size_t>(shape.empty() ? 1 : shape.back());
  if (rows) {
    for (size_t at = 0; at < out.size(); at += width) rows->decode(first++, out.subspan(at, width));
    return;
  }
  const auto bytes_of = [&](size_t elements) {
    return elements / static_cast<size_t>(block_elements(encoding)) *
           static_cast<size_t>(block_bytes(encoding));
  };
  weights::decode(encoding, bytes.subspan(static_cast<size_t>(first) * bytes_of(width), bytes_of(out.size())),
                  out);
}

std::vector<float> StoredTensor::decoded() const {
  std::vector<float> values(static_cast<size_t>(element_count()));
  decode_rows(0, values);
  return values;
}

void TensorTable::add(StoredTensor tensor, std::string_view label) {
  if (!places_.emplace(tensor.name, tensors_.size()).second)
    throw Fault(FaultKind::kInput, std::string(label),
                fmt::format("tensor '{}' is there twice", printable(tensor.name)));
  tensors_.push_back(std::move(tensor));
}

void TensorTable::merge(TensorTable other, std::string_view label) {
  for (StoredTensor& tensor : other.tensors_) add(std::move(tensor), label);
  for (auto& owner : other.owners_) keep(std::move(owner));
}

const StoredTensor* TensorTable::find(std::string_view name) const {
  const auto found = places_.find(std::string(name));
  return found == places_.end() ? nullptr : &tensors_[found->second];
}

}  // namespace opentrn::import::weights
