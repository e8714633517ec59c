// Named tensors of a weight file, wherever they lie in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "import/weights/encoding.h"

namespace opentrn::import::weights {

struct StoredTensor {
  std::string name;
  Encoding encoding = Encoding::kF32;
  std::vector<int64_t> shape;  // outermost first
  std::span<const std::byte> bytes;

  int64_t element_count() const;
};

// Tensors of one file or of several. What the spans refer to is kept by `owners`.
class TensorTable {
 public:
  // An input fault `label` for a name that is there already.
  void add(StoredTensor tensor, std::string_view label);
  void keep(std::shared_ptr<const void> owner) { owners_.push_back(std::move(owner)); }
  // Of another table, for models in several files.
  void merge(TensorTable other, std::string_view label);

  const StoredTensor* find(std::string_view name) const;  // null when there is none
  const std::vector<StoredTensor>& all() const { return tensors_; }

 private:
  std::vector<StoredTensor> tensors_;
  std::unordered_map<std::string, size_t> places_;
  std::vector<std::shared_ptr<const void>> owners_;
};

}  // namespace opentrn::import::weights
