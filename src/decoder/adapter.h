// LoRA: changes of a model's matrices of low rank (Hu et al. 2021), in a folder as PEFT saves them:
// adapter_config.json and adapter_model.safetensors. They are added to the weights when those are loaded.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "import/weights/safetensors.h"

namespace opentrn::decoder {

class Adapter {
 public:
  // `file`: import::weights::read_adapter(). Input fault decoder.adapter for a configuration that is none;
  // not modelled decoder.adapter for more than matrices of low rank (DoRA, biases, ranks that differ by
  // module).
  explicit Adapter(import::weights::Checkpoint file);

  // What is added to a matrix [rows, columns] of the model: scale * b a, with b [rows, rank] and a [rank,
  // columns], in fp32.
  class Change {
   public:
    // Of rows [first, first + count) of the matrix; `values` has count * columns.
    void add_to(int64_t first, int64_t count, std::span<float> values) const;
    explicit operator bool() const { return a_ != nullptr; }

   private:
    friend class Adapter;
    const import::weights::StoredTensor* a_ = nullptr;
    const import::weights::StoredTensor* b_ = nullptr;
    float scale_ = 0;
  };
  // By the name of the matrix in Hugging Face's file; false for one that stays as it is. `base`: the matrix.
  // Input fault decoder.adapter for sizes that are not the matrix's, and for a copy of it that differs.
  Change of(std::string_view tensor, int64_t rows, int64_t columns,
            const import::weights::StoredTensor& base);
  // After the last of(): input fault decoder.adapter for a tensor that no matrix took.
  void expect_all_used() const;

 private:
  void expect_base(std::string_view tensor, const import::weights::StoredTensor& base);

  import::weights::Checkpoint file_;
  double scale_ = 0;
  std::set<std::string> used_;
};

}  // namespace opentrn::decoder
