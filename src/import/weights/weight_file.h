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

// A matrix whose numbers several tensors of a file hold together (quantised_checkpoint.h).
class Rows {
 public:
  virtual ~Rows() = default;
  // Row `row`, which is as long as `out`.
  virtual void decode(int64_t row, std::span<float> out) const = 0;
};

struct StoredTensor {
  std::string name;
  Encoding encoding = Encoding::kF32;
  std::vector<int64_t> shape;  // outermost first
  std::span<const std::byte> bytes;
  std::shared_ptr<const Rows> rows;  // where it is set, no bytes are

  int64_t element_count() const;
  // Numbers from row `first` on, of rows that are as long as the innermost dimension; whole rows.
  void decode_rows(int64_t first, std::span<float> out) const;
  std::vector<float> decoded() const;  // all of them
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
