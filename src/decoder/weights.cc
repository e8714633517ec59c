#include "decoder/weights.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <unordered_set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/fault.h"
#include "base/interrupt.h"
#include "base/thread_pool.h"
#include "base/utf8.h"
#include "decoder/narrow.h"

namespace opentrn::decoder {

using graph::ElementType;
using import::weights::StoredTensor;
using import::weights::TensorTable;

namespace {

// Rows that are decoded and turned together: 32 elements of 16 bits are a cache line.
constexpr int64_t kRowsTogether = 32;

// Numbers of a file, on the way into memory of the device's type.
class Target {
 public:
  Target(ElementType element, std::byte* data) : element_(element), data_(data) {}

  void put(int64_t index, float value) {
    switch (element_) {
      case ElementType::kBF16: return put_bits(index, import::weights::float_to_bfloat(value));
      case ElementType::kF16: return put_bits(index, import::weights::float_to_half(value));
      default: std::memcpy(data_ + index * 4, &value, 4);
    }
  }

 private:
  void put_bits(int64_t index, uint16_t bits) { std::memcpy(data_ + index * 2, &bits, 2); }

  ElementType element_;
  std::byte* data_;
};

class Loader {
 public:
  Loader(const Config& config, const TensorTable& tensors, FileFormat format, ElementType element,
         Adapter* adapter)
      : config_(config), tensors_(tensors), format_(format), element_(element), adapter_(adapter) {}

  // A matrix of so many rows, transposed as products read it.
  std::shared_ptr<sim::Buffer> transposed(std::string_view part, int64_t depth, int64_t count) {
    auto buffer = sim::Buffer::allocate(depth * count * graph::storage_bytes(element_));
    columns(part, Target(element_, buffer->data()), depth, count, 0, count);
    run_tasks();
    return kept(buffer);
  }

  std::vector<std::shared_ptr<sim::Buffer>> run(const GivenWeights& given) {
    std::vector<std::shared_ptr<sim::Buffer>> made;
    const std::vector<Weight> stated = weights(config_, element_);
    for (size_t i = 0; i < stated.size(); ++i) {
      const Weight& weight = stated[i];
      if (const auto own = given.find(weight.name); own != given.end()) {
        made.push_back(own->second);
        continue;
      }
      auto buffer = sim::Buffer::allocate(weight.type.byte_count());
      made.push_back(kept(buffer));
      if (i + 1 == stated.size() || stated[i + 1].name != weight.name + kScale) {
        begin(weight, Target(weight.type.element(), buffer->data()));
        continue;
      }
      const Weight& of_scales = stated[++i];
      auto scales = sim::Buffer::allocate(of_scales.type.byte_count());
      made.push_back(kept(scales));
      load_narrow(weight, buffer->data(), scales->data());
    }
    if (adapter_) adapter_->expect_all_used();
    const bool is_whole =
        std::ranges::all_of(given, [](const auto& row) { return row.first == kFeatureWeight; });
    if (is_whole && !config_.pooled) expect_all_read();
    run_tasks();
    return made;
  }

 private:
  static std::shared_ptr<sim::Buffer> kept(const std::shared_ptr<sim::Buffer>& buffer) {
    buffer->mark_all_initialised();
    return sim::Buffer::wrap_read_only(buffer->data(), buffer->bytes(), buffer);
  }

  void run_tasks() {
    ThreadPool pool(default_thread_count());
    pool.parallel_for(
        tasks_.size(),
        [&](size_t from, size_t to, int) {
          for (size_t i = from; i < to; ++i) {
            interrupt::poll();
            tasks_[i]();
          }
        },
        Split::kAlways);
    tasks_.clear();
  }

  // One at a time, as it is in fp32 in between.
  void load_narrow(const Weight& weight, std::byte* numbers, std::byte* scales) {
    std::vector<float> values(static_cast<size_t>(weight.groups * weight.rows * weight.type.dim(1)));
    begin(weight, Target(ElementType::kF32, reinterpret_cast<std::byte*>(values.data())));
    run_tasks();
    quantise(*config_.narrow, values, weight.tensors, weight.groups, numbers, scales, weight.name);
  }

  void begin(const Weight& weight, Target target) {
    const std::string& name = weight.name;
    if (name == "rope")
      return tasks_.push_back([this, target] { turns(target, config_.rope_base, rope_divisors()); });
    if (name == "local_rope")
      return tasks_.push_back(
          [this, target] { turns(target, config_.local_rope_base, config_.local_rope_divisors); });
    if (name == kQueryGrowth) return tasks_.push_back([this, target] { growths(target); });
    size_t dot = name.rfind('.');
    layer_ = dot == std::string::npos ? std::string() : name.substr(7, dot - 7);
    const std::string part = dot == std::string::npos ? name : name.substr(dot + 1);
    const int64_t hidden = config_.hidden, q = config_.query_features(), kv = config_.kv_features();
    if (part == "embedding") return rows("embedding", target, config_.vocabulary, hidden);
    if (part == "head")
      return columns(is_tied() ? "embedding" : "head", target, hidden, config_.head_words(), 0,
                     config_.head_words());
    if (part == "fc") return columns("fc", target, 2 * hidden, hidden, 0, hidden);
    if (part == "positions") {
      const StoredTensor& from = tensor(part, {config_.first_position + config_.context, hidden});
      return placed_rows(
          from, target, config_.context, hidden, hidden, [](int64_t column) { return column; },
          config_.first_position);
    }
    if (config_.by_rows && weight.type.rank() == 2)  // as the file has them
      return rows(part, target, weight.rows > 0 ? weight.rows : weight.type.dim(0), weight.type.dim(1));
    if (part == "qkv") {
      const int64_t depth = config_.eagle3 ? 2 * hidden : hidden;
      columns("q", target, depth, q, 0, q + 2 * kv);
      columns("k", target, depth, kv, q, q + 2 * kv);
      return columns("v", target, depth, kv, q + kv, q + 2 * kv);
    }
    if (part == "qkv_bias" && !config_.by_rows) {
      vector("q_bias", target, q, 0);
      vector("k_bias", target, kv, q);
      return vector("v_bias", target, kv, q + kv);
    }
    if (config_.is_latent() && begin_latent(part, target)) return;
    if (part == "output") return columns("output", target, config_.weighed_features(), hidden, 0, hidden);
    if (part == "gate_up") return gate_up("gate", "up", target, config_.feed_forward, 0);
    if (config_.experts > 0 && begin_mixture(part, target)) return;
    if (part == "up") return columns("up", target, hidden, config_.feed_forward, 0, config_.feed_forward);
    if (part == "down") return columns("down", target, config_.feed_forward, hidden, 0, hidden);
    vector(part, target, weight.type.dim(0), 0);
  }

  // False for a part that lies as other models' do.
  bool begin_latent(const std::string& part, Target target) {
    const int64_t hidden = config_.hidden, q = config_.query_features(), latent = config_.latent_features;
    const auto whole = [&](int64_t depth, int64_t count) { columns(part, target, depth, count, 0, count); };
    if (part == "q_a")
      whole(hidden, config_.query_rank);
    else if (part == "q_b")
      whole(config_.query_rank, q);
    else if (part == "q")
      whole(hidden, q);
    else if (part == "kv_a")
      whole(hidden, latent + config_.turned_features);
    else if (part == "key_up")
      rows_of_heads(target, config_.plain_features(), 0);
    else if (part == "value_up")
      rows_of_heads(target, config_.value_features, config_.plain_features());
    else
      return false;
    return true;
  }
  // Of kv_b_proj, in which each head has rows of its key and, behind them, of its value: `count` of each from
  // `first` on.
  void rows_of_heads(Target target, int64_t count, int64_t first) {
    const int64_t of_head = config_.plain_features() + config_.value_features,
                  width = config_.latent_features;
    const StoredTensor& from = tensor("key_up", {config_.heads * of_head, width});
    for (int64_t head = 0; head < config_.heads; ++head)
      tasks_.push_back([&from, target, head, count, first, of_head, width]() mutable {
        std::vector<float> values(static_cast<size_t>(width));
        for (int64_t r = 0; r < count; ++r) {
          from.decode_rows(head * of_head + first + r, values);
          for (int64_t i = 0; i < width; ++i)
            target.put((head * count + r) * width + i, values[static_cast<size_t>(i)]);
        }
      });
  }

  // A tensor that nothing reads is of something that the program does not compute: a bias, a norm.
  void expect_all_read() const {
    std::vector<std::string_view> others;
    for (const StoredTensor& tensor : tensors_.all())
      if (!read_.contains(tensor.name) && !is_known_otherwise(tensor.name) && !adds_nothing(tensor))
        others.emplace_back(tensor.name);
    if (others.empty()) return;
    const size_t shown = std::min<size_t>(others.size(), 3);
    throw Fault(FaultKind::kNotModelled, "decoder.architecture",
                fmt::format("the file has {} tensors that the builder of '{}' makes nothing of: {}{}",
                            others.size(), config_.architecture,
                            printable(fmt::format("{}", fmt::join(std::span(others).first(shown), ", "))),
                            others.size() > shown ? ", ..." : ""),
                "models with more parts run as a graph: torch.export and `opentrn run`");
  }

  // Tools that quantise write biases of zeros to matrices that have none.
  static bool adds_nothing(const StoredTensor& tensor) {
    return tensor.name.ends_with(".bias") &&
           std::ranges::all_of(tensor.decoded(), [](float v) { return v == 0; });
  }

  // Tables that follow from the configuration, and the copy of a tied table.
  bool is_known_otherwise(std::string_view name) const {
    if (name.ends_with(".rotary_emb.inv_freq") || name.starts_with("rope_freqs") ||
        name.starts_with("rope_factors_"))
      return true;
    // Which words an EAGLE-3 head has, and its fc, which its model reads.
    if (config_.eagle3 && (name == "d2t" || name == "t2d" || name.ends_with("fc.weight"))) return true;
    // Masks.
    if (config_.by_rows && (name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias"))) return true;
    if (config_.by_heads && (name.ends_with(".attention.bias") || name.ends_with(".attention.masked_bias")))
      return true;
    if (config_.beside_images && is_of_images(name)) return true;
    if (config_.beside_later_layers && is_of_a_later_layer(name)) return true;
    return config_.tied && (name == "embed_out.weight" || name == "lm_head.weight");
  }

  // Of a layer behind the model's own.
  bool is_of_a_later_layer(std::string_view name) const {
    constexpr std::string_view kLayers = "model.layers.";
    int64_t layer = 0;
    if (!name.starts_with(kLayers)) return false;
    name.remove_prefix(kLayers.size());
    return std::from_chars(name.data(), name.data() + name.size(), layer).ec == std::errc() &&
           layer >= config_.layers;
  }
  static bool is_of_images(std::string_view name) {
    constexpr std::string_view kModel = "model.";
    if (name.starts_with(kModel)) name.remove_prefix(kModel.size());
    for (const std::string_view tower :
         {"vision_tower.", "vision_model.", "visual.", "multi_modal_projector.", "image_newline"})
      if (name.starts_with(tower)) return true;
    return false;
  }

  void gate_up(const char* gate, const char* up, Target target, int64_t features, int64_t first_row) {
    columns(gate, target, config_.hidden, features, 0, 2 * features, first_row);
    columns(up, target, config_.hidden, features, features, 2 * features, first_row);
  }

  // False for a part that is not of a mixture of experts.
  bool begin_mixture(const std::string& part, Target target) {
    const int64_t hidden = config_.hidden, features = config_.expert_features,
                  shared = config_.shared_features;
    if (config_.expert_biases() && begin_gpt_oss(part, target)) return true;
    if (config_.stacked_experts && part.starts_with("experts_")) {
      const int64_t depth = part == "experts_down" ? features : hidden;
      const int64_t count = part == "experts_down" ? hidden : 2 * features;
      placed_rows(tensor(part, {config_.experts, depth, count}), target, config_.experts * depth, count,
                  count, [](int64_t column) { return column; });
      return true;
    }
    if (part == "router")
      columns("router", target, hidden, config_.experts, 0, config_.experts);
    else if (part == "shared_gate")
      columns("shared_gate", target, hidden, 1, 0, 1);
    else if (part == "shared_gate_up")
      gate_up("shared_expert_gate", "shared_expert_up", target, shared, 0);
    else if (part == "shared_down")
      columns("shared_expert_down", target, shared, hidden, 0, hidden);
    else if (part != "experts_gate_up" && part != "experts_down")
      return false;
    for (expert_ = 0; part.starts_with("experts_") && expert_ < config_.experts; ++expert_) {
      if (part == "experts_gate_up")
        gate_up("expert_gate", "expert_up", target, features, expert_ * hidden);
      else
        columns("expert_down", target, features, hidden, 0, hidden, expert_ * features);
    }
    return true;
  }

  // False for a part that lies as other models' do.
  bool begin_gpt_oss(const std::string& part, Target target) {
    const int64_t hidden = config_.hidden, features = config_.expert_features, experts = config_.experts;
    const bool of_gguf = format_ == FileFormat::kGguf;
    const auto as_it_lies = [](int64_t column) { return column; };
    // Hugging Face's files have gate and up in turns.
    const auto halves = [features](int64_t column) { return column / 2 + column % 2 * features; };
    if (part == "experts_down_bias") {
      placed_rows(tensor(part, {experts, hidden}), target, experts, hidden, hidden, as_it_lies);
    } else if (part == "experts_gate_up_bias" && of_gguf) {
      placed_rows(tensor("expert_gate_bias", {experts, features}), target, experts, features, 2 * features,
                  as_it_lies);
      placed_rows(tensor("expert_up_bias", {experts, features}), target, experts, features, 2 * features,
                  [features](int64_t column) { return features + column; });
    } else if (part == "experts_gate_up_bias") {
      placed_rows(tensor(part, {experts, 2 * features}), target, experts, 2 * features, 2 * features, halves);
    } else if (of_gguf || (part != "experts_gate_up" && part != "experts_down")) {
      return false;
    } else if (tensors_.find(name_of(part) + "_blocks")) {
      const int64_t blocked = part == "experts_down" ? hidden : 2 * features;
      mxfp4_experts(part, target, part == "experts_down" ? features : hidden, blocked);
    } else if (part == "experts_down") {
      placed_rows(tensor(part, {experts, features, hidden}), target, experts * features, hidden, hidden,
                  as_it_lies);
    } else {
      placed_rows(tensor(part, {experts, hidden, 2 * features}), target, experts * hidden, 2 * features,
                  2 * features, halves);
    }
    return true;
  }

  // Experts as blocks [experts, count, depth / 32, 16] and scales [experts, count, depth / 32].
  void mxfp4_experts(const std::string& part, Target target, int64_t depth, int64_t count) {
    constexpr int64_t kNumbers = 32;  // of a block
    const int64_t blocks_of_row = (depth + kNumbers - 1) / kNumbers;
    if (depth % kNumbers != 0)
      throw Fault(FaultKind::kInput, "decoder.weights",
                  fmt::format("{} of {} features are no blocks of {}", name_of(part), depth, kNumbers));
    const StoredTensor& blocks = bytes_of(part, "_blocks", {config_.experts, count, blocks_of_row, 16});
    const StoredTensor& scales = bytes_of(part, "_scales", {config_.experts, count, blocks_of_row});
    const bool in_turns = part == "experts_gate_up";
    for (int64_t expert = 0; expert < config_.experts; ++expert)
      transposed(
          [&blocks, &scales, blocks_of_row, in_turns, first = expert * count, half = count / 2](
              int64_t column, std::span<float> values) {
            const int64_t row = first + (in_turns ? column % half * 2 + column / half : column);
            const auto part_of = [&](const StoredTensor& from, int64_t bytes) {
              return from.bytes.subspan(static_cast<size_t>(row * bytes), static_cast<size_t>(bytes));
            };
            import::weights::decode_mxfp4(part_of(blocks, blocks_of_row * 16), part_of(scales, blocks_of_row),
                                          values);
          },
          target, depth, count, 0, count, expert * depth, {});
  }

  const StoredTensor& bytes_of(const std::string& part, const char* suffix,
                               const std::vector<int64_t>& shape) {
    const std::string name = name_of(part) + suffix;
    return read(tensors_.find(name), name, shape, /*is_of_bytes=*/true);
  }

  std::string name_of(std::string_view part) const { return name_of(part, format_); }
  std::string name_of(std::string_view part, FileFormat format) const {
    return tensor_name(config_, format, part, layer_, expert_);
  }

  // Files of models with images say at two places, and not alike, whether they tie; transformers 5 does where
  // there is no head.
  bool is_tied() const { return config_.beside_images ? !find(name_of("head")) : config_.tied; }

  // By its name, or by that of files that have the model inside another.
  const StoredTensor* find(const std::string& name) const {
    constexpr std::string_view kModel = "model.", kFirst = "model.layers.0.";
    const StoredTensor* found = tensors_.find(name);
    if (!found && config_.by_rows) found = tensors_.find("transformer." + name);
    if (!found && config_.eagle && name.starts_with(kModel))  // as EAGLE's authors publish heads
      found = tensors_.find(std::string_view(name).substr(kModel.size()));
    if (!found && config_.eagle3 && name.starts_with(kFirst))
      found = tensors_.find(fmt::format("midlayer.{}", name.substr(kFirst.size())));
    if (!found && config_.beside_images) found = tensors_.find("language_model." + name);
    if (!found && config_.beside_images && name.starts_with(kModel))
      found = tensors_.find(fmt::format("model.language_model.{}", name.substr(kModel.size())));
    return found;
  }

  const StoredTensor& tensor(std::string_view part, std::vector<int64_t> shape) const {
    const std::string name = name_of(part);
    const StoredTensor* found = find(name);
    // Of a table of positions those are read that programs reach.
    const bool longer =
        found && part == "positions" && found->shape.size() == 2 && found->shape[0] > shape[0];
    if (longer) shape[0] = found->shape[0];
    return read(found, name, shape, /*is_of_bytes=*/false);
  }

  const StoredTensor& read(const StoredTensor* found, const std::string& name,
                           const std::vector<int64_t>& shape, bool is_of_bytes) const {
    const StoredTensor& tensor = expected(found, name, shape, is_of_bytes);
    read_.insert(tensor.name);
    return tensor;
  }

  static const StoredTensor& expected(const StoredTensor* found, const std::string& name,
                                      const std::vector<int64_t>& shape, bool is_of_bytes) {
    if (!found)
      throw Fault(FaultKind::kInput, "decoder.weights", fmt::format("the file has no tensor {}", name),
                  "is it the whole model? A model in several files is named by its index or its first one");
    using import::weights::Encoding;
    if (is_of_bytes ? found->encoding != Encoding::kU8 : found->encoding >= Encoding::kU8)
      throw Fault(FaultKind::kInput, "decoder.weights",
                  fmt::format("{} is {}", name, import::weights::name(found->encoding)),
                  "config.json's quantization_config says how such numbers become a matrix");
    if (found->shape != shape)
      throw Fault(FaultKind::kInput, "decoder.weights",
                  fmt::format("{} is [{}]; the model's sizes ask for [{}]", name,
                              fmt::join(found->shape, ", "), fmt::join(shape, ", ")));
    return *found;
  }

  // As it lies.
  void rows(std::string_view part, Target target, int64_t count, int64_t width) {
    placed_rows(tensor(part, {count, width}), target, count, width, width,
                [](int64_t column) { return column; });
  }

  // Rows of `width` to rows of `target_width`, in which `place` says where a column goes; in parts.
  template <typename PlaceOf>
  void placed_rows(const StoredTensor& from, Target target, int64_t count, int64_t width,
                   int64_t target_width, PlaceOf place, int64_t first_of_file = 0) {
    constexpr int64_t kPart = 1024;
    for (int64_t row = 0; row < count; row += kPart)
      tasks_.push_back([&from, target, row, count, width, target_width, place, first_of_file]() mutable {
        std::vector<float> values(static_cast<size_t>(width));
        for (int64_t r = row; r < std::min(count, row + kPart); ++r) {
          interrupt::poll();
          from.decode_rows(first_of_file + r, values);
          for (int64_t i = 0; i < width; ++i)
            target.put(r * target_width + place(i), values[static_cast<size_t>(i)]);
        }
      });
  }

  // A file's [columns, depth] to columns [first, first + count) of [depth, width], which begins at row
  // `first_row` of the target.
  void columns(std::string_view part, Target target, int64_t depth, int64_t count, int64_t first,
               int64_t width, int64_t first_row = 0) {
    const bool of_gguf = format_ == FileFormat::kGguf, stacked = of_gguf && part.starts_with("expert_");
    // Older GGUF files have one row as a vector.
    const StoredTensor* row = of_gguf && part == "shared_gate" ? tensors_.find(name_of(part)) : nullptr;
    const bool flat = row && row->shape.size() == 1;
    const Place in_file = place_in_file(part, count);
    const StoredTensor& from = stacked ? tensor(part, {config_.experts, count, depth})
                               : flat  ? tensor(part, {depth})
                                       : tensor(part, {in_file.whole, depth});
    const int64_t first_of_file = stacked ? expert_ * count : 0;
    Adapter::Change change;
    // A tied head's table is read by rows, too: an adapter of it would change one of the two.
    if (adapter_ && part != "embedding")
      change = adapter_->of(name_of(part, FileFormat::kHuggingFace), in_file.whole, depth, from);
    transposed(
        [&from, first_of_file, in_file](int64_t row, std::span<float> values) {
          from.decode_rows(first_of_file + in_file.row(row), values);
        },
        target, depth, count, first, width, first_row, change, place_in_adapter(in_file));
  }

  // Which rows of a file's matrix a part is: `whole` rows, the part's from `first` on, or, with a stride,
  // those of each head from `first` on behind the rows of the heads before it. With `interleaved` features of
  // each head, `behind` its first ones, the rows of the two halves of these lie in turns.
  struct Place {
    int64_t whole, first, stride = 0, of_head = 0, interleaved = 0, behind = 0;
    bool is_in_order() const { return stride == 0 && interleaved == 0; }
    int64_t row(int64_t r) const {
      if (interleaved > 0) return first + interleaved_row(r, of_head, interleaved, behind);
      return stride == 0 ? first + r : r / of_head * stride + first + r % of_head;
    }
  };
  Place place_in_file(std::string_view part, int64_t count) const {
    const int64_t q = config_.query_features(), kv = config_.kv_features(), f = config_.feed_forward,
                  d = config_.head_features;
    const bool is_q = part == "q" || part == "q_bias", is_k = part == "k" || part == "k_bias";
    const bool is_one_of_three = is_q || is_k || part == "v" || part == "v_bias";
    if (config_.by_heads && is_one_of_three) return {3 * q, is_q ? 0 : is_k ? d : 2 * d, 3 * d, d};
    if (config_.fused_qkv && is_one_of_three) return {q + 2 * kv, is_q ? 0 : is_k ? q : q + kv};
    if (config_.fused_gate_up && (part == "gate" || part == "up")) return {2 * f, part == "gate" ? 0 : f};
    if (config_.is_latent() && (part == "q" || part == "q_b"))
      return {count, 0, 0, d, config_.turned_features, config_.plain_features()};
    if (part == "kv_a") return {count, 0, 0, count, config_.turned_features, config_.latent_features};
    if (config_.rows_interleaved && (is_q || is_k)) return {count, 0, 0, d, config_.rope_features()};
    return {count, 0};
  }
  // An adapter's rows lie as those of Hugging Face's file, which are not in turns where llama.cpp's are.
  Place place_in_adapter(Place in_file) const {
    if (format_ == FileFormat::kGguf && !config_.adapter_rows_interleaved) in_file.interleaved = 0;
    return in_file;
  }

  // `read`: decodes row r of a matrix [count, depth], which becomes column first + r.
  template <typename Read>
  void transposed(Read read, Target target, int64_t depth, int64_t count, int64_t first, int64_t width,
                  int64_t first_row, const Adapter::Change& change, Place in_file = {0, 0}) {
    constexpr int64_t kPart = 8 * kRowsTogether;
    for (int64_t row = 0; row < count; row += kPart)
      tasks_.push_back([=]() mutable {
        std::vector<float> values(static_cast<size_t>(kRowsTogether * depth));
        const int64_t last = std::min(count, row + kPart);
        for (int64_t r = row; r < last; r += kRowsTogether) {
          interrupt::poll();
          const int64_t together = std::min(kRowsTogether, last - r);
          for (int64_t i = 0; i < together; ++i)
            read(r + i,
                 std::span(values).subspan(static_cast<size_t>(i * depth), static_cast<size_t>(depth)));
          for (int64_t i = 0; change && i < together; i += in_file.is_in_order() ? together : 1)
            change.add_to(in_file.row(r + i), in_file.is_in_order() ? together : 1,
                          std::span(values).subspan(static_cast<size_t>(i * depth)));
          for (int64_t d = 0; d < depth; ++d)
            for (int64_t i = 0; i < together; ++i)
              target.put((first_row + d) * width + first + r + i, values[static_cast<size_t>(i * depth + d)]);
        }
      });
  }

  void vector(std::string_view part, Target target, int64_t size, int64_t first) {
    const Place in_file = place_in_file(part, size);
    const StoredTensor& from = tensor(part, {in_file.whole});
    const float more = config_.norms_less_one && part.ends_with("norm") ? 1.0f : 0.0f;
    const std::vector<float> values = from.decoded();
    for (int64_t i = 0; i < size; ++i)
      target.put(first + i, values[static_cast<size_t>(in_file.row(i))] + more);
  }

  const std::vector<double>& rope_divisors() const {
    const bool beyond = !config_.rope_divisors_beyond.empty() && config_.context > config_.rope_trained;
    return beyond ? config_.rope_divisors_beyond : config_.rope_divisors;
  }

  // cos, cos, -sin, sin of each position, for both halves of a head's features. Angles and their functions in
  // double, as fp32 angles of late positions are off by 1e-3.
  void turns(Target target, double base, const std::vector<double>& divisors) const {
    const int64_t half = config_.rope_features() / 2;
    for (int64_t i = 0; i < half; ++i) {
      double frequency =
          std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(config_.rope_features()));
      if (!divisors.empty()) frequency /= divisors[static_cast<size_t>(i)];
      for (int64_t position = 0; position < config_.context; ++position) {
        const double angle = static_cast<double>(position) * frequency;
        const auto cosine = static_cast<float>(std::cos(angle)), sine = static_cast<float>(std::sin(angle));
        const int64_t row = position * 4 * half;
        Target to = target;
        to.put(row + i, cosine);
        to.put(row + half + i, cosine);
        to.put(row + 2 * half + i, -sine);
        to.put(row + 3 * half + i, sine);
      }
    }
  }

  void growths(Target target) const {
    for (int64_t position = 0; position < config_.context; ++position) {
      const int64_t spans =
          (config_.all_queries_grow ? position : position + 1) / config_.query_growth_positions;
      target.put(position,
                 static_cast<float>(1 + config_.query_growth * std::log1p(static_cast<double>(spans))));
    }
  }

  const Config& config_;
  const TensorTable& tensors_;
  FileFormat format_;
  ElementType element_;
  Adapter* adapter_;
  std::string layer_;  // of the weight that begin() is at
  int64_t expert_ = 0;
  mutable std::unordered_set<std::string_view> read_;  // names of tensors
  std::vector<std::function<void()>> tasks_;
};

}  // namespace

int64_t interleaved_row(int64_t row, int64_t head_features, int64_t turned, int64_t first) {
  const int64_t feature = row % head_features - first, half = turned / 2;
  if (feature < 0 || feature >= turned) return row;
  return row - feature + feature % half * 2 + feature / half;
}

std::vector<std::shared_ptr<sim::Buffer>> load_weights(const Config& config, const TensorTable& tensors,
                                                       FileFormat format, ElementType element,
                                                       Adapter* adapter, const GivenWeights& given) {
  return Loader(config, tensors, format, element, adapter).run(given);
}

std::shared_ptr<sim::Buffer> load_feature_weight(const Config& model, const TensorTable& head,
                                                 ElementType element) {
  Config config = model;
  config.eagle = true;  // whose names may have no "model." in front
  const auto layers = static_cast<int64_t>(model.feature_layers.size());
  return Loader(config, head, FileFormat::kHuggingFace, element, /*adapter=*/nullptr)
      .transposed("fc", layers * model.hidden, model.hidden);
}

}  // namespace opentrn::decoder
