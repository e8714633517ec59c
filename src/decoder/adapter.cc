#include "decoder/adapter.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/fault.h"
#include "base/utf8.h"

namespace opentrn::decoder {

using import::weights::StoredTensor;

namespace {

using Json = nlohmann::json;

constexpr std::string_view kLabel = "decoder.adapter";

[[noreturn]] void refuse_adapter(std::string message, std::string hint = {}) {
  throw Fault(FaultKind::kInput, std::string(kLabel), std::move(message), std::move(hint));
}
[[noreturn]] void not_modelled(std::string what) {
  throw Fault(FaultKind::kNotModelled, std::string(kLabel), fmt::format("an adapter with {}", what),
              "merge it into the model with PEFT's merge_and_unload()");
}

bool is_set(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || found->is_null() || *found == false || *found == "none") return false;
  return !((found->is_object() || found->is_array()) && found->empty());
}

double scale_of(const Json& json) {
  if (json.value("peft_type", Json()) != "LORA")
    refuse_adapter(
        fmt::format("adapter_config.json is of type {}", printable(json.value("peft_type", Json()).dump())),
        "LoRA adapters are read");
  // What PEFT has beyond products of low rank, by its own keys.
  for (const char* key :
       {"use_dora", "bias", "rank_pattern", "alpha_pattern", "modules_to_save", "fan_in_fan_out",
        "trainable_token_indices", "lora_bias", "alora_invocation_tokens"})
    if (is_set(json, key)) not_modelled(key);
  const Json rank = json.value("r", Json()), alpha = json.value("lora_alpha", Json());
  if (!rank.is_number_integer() || rank.get<int64_t>() < 1 || !alpha.is_number())
    refuse_adapter("adapter_config.json does not say its r and lora_alpha");
  const auto r = static_cast<double>(rank.get<int64_t>());
  const double scale = alpha.get<double>() / (is_set(json, "use_rslora") ? std::sqrt(r) : r);
  if (!std::isfinite(scale))
    refuse_adapter(fmt::format("lora_alpha {} over r {}", alpha.dump(), rank.dump()));
  return scale;
}

}  // namespace

Adapter::Adapter(import::weights::Checkpoint file) : file_(std::move(file)) {
  const Json json = Json::parse(file_.config, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) refuse_adapter("adapter_config.json is not a JSON object");
  scale_ = scale_of(json);
}

namespace {

bool has_equal_values(const StoredTensor& one, const StoredTensor& other) {
  if (one.shape != other.shape) return false;
  if (one.encoding == other.encoding && !one.rows && !other.rows)
    return std::ranges::equal(one.bytes, other.bytes);
  return one.decoded() == other.decoded();
}

}  // namespace

// PEFT keeps the matrix itself beside the change of a head or a table of embeddings (save_embedding_layers).
void Adapter::expect_base(std::string_view tensor, const StoredTensor& base) {
  const std::string name = fmt::format("base_model.model.{}.base_layer.weight", tensor);
  const StoredTensor* found = file_.tensors.find(name);
  if (found == nullptr) return;
  if (!has_equal_values(*found, base))
    refuse_adapter(fmt::format("the adapter's {} differs from the model's", printable(name)),
                   "the model that the adapter was made for, or one merged by PEFT's merge_and_unload()");
  used_.insert(name);
}

Adapter::Change Adapter::of(std::string_view tensor, int64_t rows, int64_t columns,
                            const StoredTensor& base) {
  constexpr std::string_view kWeight = ".weight";
  if (tensor.ends_with(kWeight)) tensor.remove_suffix(kWeight.size());
  Change change;
  const std::string names[] = {fmt::format("base_model.model.{}.lora_A.weight", tensor),
                               fmt::format("base_model.model.{}.lora_B.weight", tensor)};
  change.a_ = file_.tensors.find(names[0]);
  change.b_ = file_.tensors.find(names[1]);
  if (change.a_ == nullptr && change.b_ == nullptr) return {};
  if (change.a_ == nullptr || change.b_ == nullptr)
    refuse_adapter(fmt::format("the adapter has one of {} and {} alone", names[0], names[1]));
  const std::vector<int64_t>&a = change.a_->shape, &b = change.b_->shape;
  if (a.size() != 2 || b.size() != 2 || a[0] != b[1] || b[0] != rows || a[1] != columns)
    refuse_adapter(fmt::format("{} of [{}] and [{}] change a matrix [{}, {}]", printable(tensor),
                               fmt::join(b, ", "), fmt::join(a, ", "), rows, columns),
                   "is it an adapter of this model?");
  change.scale_ = static_cast<float>(scale_);
  used_.insert(names, names + 2);
  expect_base(tensor, base);
  return change;
}

void Adapter::Change::add_to(int64_t first, int64_t count, std::span<float> values) const {
  const std::vector<float> a = a_->decoded(), b = b_->decoded();
  const int64_t rank = a_->shape[0], columns = a_->shape[1];
  for (int64_t row = 0; row < count; ++row) {
    float* out = values.data() + row * columns;
    for (int64_t j = 0; j < rank; ++j) {
      const float factor = scale_ * b[static_cast<size_t>((first + row) * rank + j)];
      const float* from = a.data() + j * columns;
      for (int64_t column = 0; column < columns; ++column) out[column] += factor * from[column];
    }
  }
}

void Adapter::expect_all_used() const {
  for (const StoredTensor& tensor : file_.tensors.all())
    if (!used_.contains(tensor.name))
      refuse_adapter(
          fmt::format("the adapter's tensor {} belongs to no matrix that is changed", printable(tensor.name)),
          "those of attention, feed-forward layers and an own head are");
}

}  // namespace opentrn::decoder
