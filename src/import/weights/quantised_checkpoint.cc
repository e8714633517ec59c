#include "import/weights/quantised_checkpoint.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/fault.h"
#include "base/utf8.h"

namespace opentrn::import::weights {

namespace {

using Json = nlohmann::json;

constexpr const char* kLabel = "checkpoint.quantization";

[[noreturn]] void refuse_parts(std::string message) {
  throw Fault(FaultKind::kInput, kLabel, std::move(message),
              "is the folder complete, and was it made by the method that its config.json names?");
}

std::string described(const StoredTensor& tensor) {
  return fmt::format("{} {} [{}]", printable(tensor.name), name(tensor.encoding),
                     fmt::join(tensor.shape, ", "));
}

// One scale or zero for each block of a matrix.
class Grid {
 public:
  Grid() = default;
  Grid(std::vector<float> values, int64_t block_rows, int64_t block_columns, int64_t columns)
      : values_(std::move(values)),
        block_rows_(block_rows),
        block_columns_(block_columns),
        columns_(columns) {}

  // Of row r: those of its blocks, from the first column on.
  std::span<const float> row(int64_t r) const {
    return std::span(values_).subspan(static_cast<size_t>(r / block_rows_ * columns_),
                                      static_cast<size_t>(columns_));
  }
  int64_t block_columns() const { return block_columns_; }
  int64_t columns() const { return columns_; }
  bool empty() const { return values_.empty(); }
  std::vector<float>& values() { return values_; }

 private:
  std::vector<float> values_;
  int64_t block_rows_ = 1, block_columns_ = 1, columns_ = 0;
};

// Blocks of rows and columns, where config.json says them.
struct BlockSize {
  int64_t rows = 0, columns = 0;  // 0: what the number of scales says
};

// How many rows of a matrix share one of `count` scales. Nothing where they do not cover it.
std::optional<int64_t> block_of(int64_t size, int64_t count, int64_t stated) {
  if (count == 1) return std::max<int64_t>(size, 1);
  if (count == size) return 1;
  if (stated > 0 && size / stated + (size % stated != 0 ? 1 : 0) == count) return stated;
  if (count > 0 && size % count == 0) return size / count;
  return std::nullopt;
}

Grid grid_of(const StoredTensor& of, int64_t rows, int64_t columns, BlockSize stated) {
  std::vector<int64_t> shape = of.shape;
  while (shape.size() < 2) shape.push_back(1);
  const auto high = shape.size() == 2 ? block_of(rows, shape[0], stated.rows) : std::nullopt;
  const auto wide = shape.size() == 2 ? block_of(columns, shape[1], stated.columns) : std::nullopt;
  if (!high || !wide) refuse_parts(fmt::format("{} covers no matrix [{}, {}]", described(of), rows, columns));
  return {of.decoded(), *high, *wide, shape[1]};
}

// In a type of numbers, or in E8M0, as scales of MX types are.
Grid scales_of(const StoredTensor& of, int64_t rows, int64_t columns, BlockSize stated) {
  Grid scales = grid_of(of, rows, columns, stated);
  if (of.encoding == Encoding::kU8)
    std::ranges::transform(of.bytes, scales.values().begin(),
                           [](std::byte bits) { return power_of_two(static_cast<uint8_t>(bits)); });
  else if (of.encoding > Encoding::kU8)
    refuse_parts(fmt::format("{} are no scales", described(of)));
  return scales;
}

// Which block of a row has a column: in turn, or as a table says (activation order).
class Groups {
 public:
  Groups(int64_t size, std::vector<int32_t> table) : size_(size), table_(std::move(table)) {}
  size_t operator()(size_t column) const {
    return table_.empty() ? column / static_cast<size_t>(size_) : static_cast<size_t>(table_[column]);
  }

 private:
  int64_t size_;
  std::vector<int32_t> table_;
};

std::vector<int32_t> table_of(const StoredTensor* tensor, int64_t columns, int64_t groups) {
  if (!tensor) return {};
  if (tensor->encoding != Encoding::kI32 || tensor->shape != std::vector<int64_t>{columns})
    refuse_parts(fmt::format("{} names no groups of {} columns", described(*tensor), columns));
  std::vector<int32_t> table(static_cast<size_t>(columns));
  std::memcpy(table.data(), tensor->bytes.data(), tensor->bytes.size());
  if (const auto outside = std::ranges::find_if(table, [&](int32_t g) { return g < 0 || g >= groups; });
      outside != table.end())
    refuse_parts(fmt::format("{} names group {} of {}", described(*tensor), *outside, groups));
  return table;
}

// (number - zero) * scale, in fp32.
class Scaled : public Rows {
 public:
  Scaled(Grid scales, Grid zeros, std::vector<int32_t> groups)
      : scales_(std::move(scales)),
        zeros_(std::move(zeros)),
        groups_(scales_.block_columns(), std::move(groups)) {}

  void decode(int64_t row, std::span<float> out) const final {
    numbers(row, out);
    const std::span<const float> scales = scales_.row(row);
    if (!zeros_.empty()) {
      const std::span<const float> zeros = zeros_.row(row);
      for (size_t i = 0; i < out.size(); ++i) out[i] -= zeros[groups_(i)];
    }
    for (size_t i = 0; i < out.size(); ++i) out[i] *= scales[groups_(i)];
  }

 protected:
  virtual void numbers(int64_t row, std::span<float> out) const = 0;

 private:
  Grid scales_, zeros_;
  Groups groups_;
};

// Numbers of a plain type.
class OfPlain : public Scaled {
 public:
  OfPlain(const StoredTensor& from, Grid scales, Grid zeros)
      : Scaled(std::move(scales), std::move(zeros), {}), from_(from) {}
  void numbers(int64_t row, std::span<float> out) const override { from_.decode_rows(row, out); }

 private:
  const StoredTensor& from_;
};

// Two of FP4 in a byte.
class OfFp4 : public Scaled {
 public:
  OfFp4(const StoredTensor& from, Grid scales) : Scaled(std::move(scales), {}, {}), from_(from) {}
  void numbers(int64_t row, std::span<float> out) const override {
    const size_t bytes = out.size() / 2;
    decode_fp4(from_.bytes.subspan(static_cast<size_t>(row) * bytes, bytes), out);
  }

 private:
  const StoredTensor& from_;
};

// Whole numbers of a few bits in words of 32, the first one lowest; words follow each other along the rows or
// along the columns of what is packed.
struct Words {
  const StoredTensor* of = nullptr;
  int bits = 4;

  uint32_t word(int64_t row, int64_t column) const {
    uint32_t value = 0;
    const int64_t at = row * of->shape[1] + column;
    std::memcpy(&value, of->bytes.data() + static_cast<size_t>(at) * sizeof(value), sizeof(value));
    return value;
  }
  int in_word() const { return 32 / bits; }
  int part(uint32_t word, int place) const {
    return static_cast<int>(word >> (place * bits) & ((uint32_t{1} << bits) - 1));
  }
  // `word_at`: word number i of those that the numbers lie in, one behind the other; each number less `zero`.
  template <typename WordAt>
  void unpack(std::span<float> out, int zero, WordAt word_at) const {
    const auto count = static_cast<size_t>(in_word());
    for (size_t first = 0; first < out.size(); first += count) {
      const uint32_t all = word_at(static_cast<int64_t>(first / count));
      for (size_t i = 0; i < std::min(count, out.size() - first); ++i)
        out[first + i] = static_cast<float>(part(all, static_cast<int>(i)) - zero);
    }
  }
};

int64_t words_for(int64_t numbers, int bits) {
  const int64_t in_word = 32 / bits;
  return (numbers + in_word - 1) / in_word;
}

void expect_words(const StoredTensor& tensor, int64_t rows, int64_t columns) {
  if (tensor.encoding != Encoding::kI32 || tensor.shape != std::vector<int64_t>{rows, columns})
    refuse_parts(fmt::format("{} is not I32 [{}, {}]", described(tensor), rows, columns));
}

// compressed-tensors' weight_packed: a row's numbers in a row of words.
class OfPackedRows : public Scaled {
 public:
  OfPackedRows(Words words, Grid scales, Grid zeros, std::vector<int32_t> groups)
      : Scaled(std::move(scales), std::move(zeros), std::move(groups)), words_(words) {}
  void numbers(int64_t row, std::span<float> out) const override {
    const int half = 1 << (words_.bits - 1);
    words_.unpack(out, half, [&](int64_t at) { return words_.word(row, at); });
  }

 private:
  Words words_;
};

// GPTQ's qweight [columns of the matrix / in a word, rows of it].
class OfGptq : public Scaled {
 public:
  OfGptq(Words words, Grid scales, Grid zeros, std::vector<int32_t> groups)
      : Scaled(std::move(scales), std::move(zeros), std::move(groups)), words_(words) {}
  void numbers(int64_t row, std::span<float> out) const override {
    words_.unpack(out, 0, [&](int64_t at) { return words_.word(at, row); });
  }

 private:
  Words words_;
};

// Where a word of AWQ's has number j of its eight (AutoAWQ, packing_utils.py, the inverse of AWQ_ORDER).
constexpr std::array<int, 8> kAwqPlace{0, 4, 1, 5, 2, 6, 3, 7};

// AWQ's qweight [columns of the matrix, rows of it / 8].
class OfAwq : public Scaled {
 public:
  OfAwq(Words words, Grid scales, Grid zeros)
      : Scaled(std::move(scales), std::move(zeros), {}), words_(words) {}
  void numbers(int64_t row, std::span<float> out) const override {
    const int place = kAwqPlace[static_cast<size_t>(row % 8)];
    for (size_t i = 0; i < out.size(); ++i)
      out[i] = static_cast<float>(words_.part(words_.word(static_cast<int64_t>(i), row / 8), place));
  }

 private:
  Words words_;
};

// What config.json says.
struct Method {
  std::string name;
  BlockSize block;
  int bits = 4;
  int64_t group = 0;            // columns that share a scale; 0: what the number of scales says
  int zero_of_stored_zero = 1;  // GPTQ's first format keeps zeros less one
};

int64_t whole(const Json& json, const char* key, int64_t absent) {
  const auto found = json.find(key);
  return found != json.end() && found->is_number_integer() ? found->get<int64_t>() : absent;
}

std::string text(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// [rows, columns] of a key, or of one in a group of compressed-tensors'.
BlockSize block_size(const Json& json) {
  const auto read = [](const Json& from, const char* key) -> std::optional<BlockSize> {
    const auto found = from.find(key);
    if (found == from.end() || !found->is_array() || found->size() != 2) return std::nullopt;
    if (!(*found)[0].is_number_integer() || !(*found)[1].is_number_integer()) return std::nullopt;
    return BlockSize{(*found)[0].get<int64_t>(), (*found)[1].get<int64_t>()};
  };
  if (const auto size = read(json, "weight_block_size")) return *size;
  const auto groups = json.find("config_groups");
  if (groups == json.end() || !groups->is_object()) return {};
  for (const auto& [name, group] : groups->items())
    if (group.is_object() && group.contains("weights") && group["weights"].is_object())
      if (const auto size = read(group["weights"], "block_structure")) return *size;
  return {};
}

constexpr std::string_view kScaled[] = {"fp8", "fbgemm_fp8", "compressed-tensors", "modelopt"};

Method method_of(const Json& json) {
  Method method;
  method.name = text(json, "quant_method");
  method.block = block_size(json);
  const bool packs = method.name == "gptq" || method.name == "awq";
  if (!packs && std::ranges::find(kScaled, method.name) == std::end(kScaled))
    throw Fault(
        FaultKind::kNotModelled, kLabel,
        fmt::format("the weights are quantised by '{}'", printable(method.name)),
        "fp8, fbgemm_fp8, compressed-tensors, modelopt, gptq, awq and mxfp4 are read; or take the model in "
        "bf16 and --quantization");
  if (!packs) return method;
  method.bits = static_cast<int>(whole(json, "bits", whole(json, "w_bit", 4)));
  method.group = std::max<int64_t>(whole(json, "group_size", whole(json, "q_group_size", 0)), 0);
  if (text(json, "checkpoint_format") == "gptq_v2") method.zero_of_stored_zero = 0;
  const std::string version = text(json, "version");
  const bool is_known = method.name == "gptq" || version.empty() || version == "gemm" || version == "GEMM";
  const bool has_bits =
      method.name == "gptq" ? method.bits == 2 || method.bits == 4 || method.bits == 8 : method.bits == 4;
  if (!is_known || !has_bits)
    throw Fault(FaultKind::kNotModelled, kLabel,
                fmt::format("{} of {} bits{}{}", method.name, method.bits,
                            version.empty() ? "" : ", version ", printable(version)),
                "gptq of 2, 4 or 8 bits and awq of 4, version gemm, are read");
  return method;
}

class Joiner {
 public:
  Joiner(TensorTable tensors, Method method)
      : given_(std::make_shared<const TensorTable>(std::move(tensors))), method_(std::move(method)) {}

  TensorTable run() {
    TensorTable made;
    for (const StoredTensor& tensor : given_->all()) {
      if (is_part_of_other(tensor)) continue;
      made.add(joined(tensor), kLabel);
    }
    made.keep(given_);
    return made;
  }

 private:
  static constexpr std::string_view kSuffixes[] = {".weight_scale",
                                                   ".weight_scale_inv",
                                                   ".weight_scale_2",
                                                   ".weight_zero_point",
                                                   ".weight_shape",
                                                   ".weight_g_idx",
                                                   ".input_scale",
                                                   ".activation_scale",
                                                   ".weight_global_scale",
                                                   ".input_global_scale",
                                                   ".input_zero_point",
                                                   ".qzeros",
                                                   ".scales",
                                                   ".g_idx",
                                                   ".k_scale",
                                                   ".v_scale",
                                                   ".q_scale"};
  static constexpr std::string_view kMain[] = {".weight_packed", ".qweight", ".weight"};

  static std::string_view stem_of(const StoredTensor& tensor, std::string_view suffix) {
    std::string_view name = tensor.name;
    return name.ends_with(suffix) ? name.substr(0, name.size() - suffix.size()) : std::string_view();
  }
  const StoredTensor* part(std::string_view stem, std::string_view suffix) const {
    return given_->find(fmt::format("{}{}", stem, suffix));
  }
  const StoredTensor& needed(std::string_view stem, std::string_view suffix) const {
    const StoredTensor* found = part(stem, suffix);
    if (!found) refuse_parts(fmt::format("there is no {}{}", printable(std::string(stem)), suffix));
    return *found;
  }

  bool is_part_of_other(const StoredTensor& tensor) const {
    for (const std::string_view suffix : kSuffixes) {
      const std::string_view stem = stem_of(tensor, suffix);
      if (stem.empty()) continue;
      // Of keys, values and queries, whose cache keeps its type here.
      if (suffix == ".k_scale" || suffix == ".v_scale" || suffix == ".q_scale") return true;
      return std::ranges::any_of(kMain, [&](std::string_view main) { return part(stem, main) != nullptr; });
    }
    return false;
  }

  StoredTensor joined(const StoredTensor& tensor) const {
    if (const std::string_view stem = stem_of(tensor, ".qweight"); !stem.empty())
      return method_.name == "awq" ? awq(tensor, stem) : gptq(tensor, stem);
    if (const std::string_view stem = stem_of(tensor, ".weight_packed"); !stem.empty())
      return tensor.encoding == Encoding::kU8 ? fp4(tensor, stem) : packed(tensor, stem);
    const std::string_view stem = stem_of(tensor, ".weight");
    if (stem.empty() || tensor.shape.size() != 2) return tensor;
    if (tensor.encoding == Encoding::kU8 && part(stem, ".weight_scale_2")) return fp4(tensor, stem);
    const StoredTensor* scale = part(stem, ".weight_scale");
    if (!scale) scale = part(stem, ".weight_scale_inv");
    return scale ? plain(tensor, *scale, part(stem, ".weight_zero_point")) : tensor;
  }

  static StoredTensor matrix(std::string_view stem, int64_t rows, int64_t columns,
                             std::shared_ptr<const Rows> of) {
    return {fmt::format("{}.weight", stem), Encoding::kF32, {rows, columns}, {}, std::move(of)};
  }

  StoredTensor plain(const StoredTensor& tensor, const StoredTensor& scale, const StoredTensor* zero) const {
    const int64_t rows = tensor.shape[0], columns = tensor.shape[1];
    Grid scales = scales_of(scale, rows, columns, method_.block), zeros;
    if (zero) zeros = same_grid(*zero, scale, scales, rows, columns);
    return matrix(stem_of(tensor, ".weight"), rows, columns,
                  std::make_shared<OfPlain>(tensor, std::move(scales), std::move(zeros)));
  }

  Grid same_grid(const StoredTensor& zero, const StoredTensor& scale, const Grid& scales, int64_t rows,
                 int64_t columns) const {
    Grid zeros = grid_of(zero, rows, columns, method_.block);
    if (zeros.block_columns() != scales.block_columns() || zeros.columns() != scales.columns())
      refuse_parts(fmt::format("{} has other groups than {}", described(zero), described(scale)));
    return zeros;
  }

  StoredTensor fp4(const StoredTensor& tensor, std::string_view stem) const {
    if (tensor.encoding != Encoding::kU8 || tensor.shape.size() != 2)
      refuse_parts(fmt::format("{} holds no matrix of FP4", described(tensor)));
    const int64_t rows = tensor.shape[0], columns = 2 * tensor.shape[1];
    Grid scales = scales_of(needed(stem, ".weight_scale"), rows, columns, {});
    const auto all_by = [&](const StoredTensor* factor, const std::function<float(float, float)>& by) {
      if (!factor) return;
      if (factor->element_count() != 1) refuse_parts(fmt::format("{} is not one number", described(*factor)));
      const float value = factor->decoded()[0];
      for (float& scale : scales.values()) scale = by(scale, value);
    };
    all_by(part(stem, ".weight_global_scale"), std::divides<>());
    all_by(part(stem, ".weight_scale_2"), std::multiplies<>());
    return matrix(stem, rows, columns, std::make_shared<OfFp4>(tensor, std::move(scales)));
  }

  StoredTensor packed(const StoredTensor& tensor, std::string_view stem) const {
    const StoredTensor& shape = needed(stem, ".weight_shape");
    if (shape.element_count() != 2 || tensor.shape.size() != 2)
      refuse_parts(fmt::format("{} and {} are no matrix", described(tensor), described(shape)));
    const std::vector<float> sizes = shape.decoded();
    constexpr float kLargest = 1 << 24;  // what config.json may say, and what fp32 counts up to
    const bool fits = sizes[0] >= 1 && sizes[0] <= kLargest && sizes[1] >= 1 && sizes[1] <= kLargest;
    const int64_t rows = fits ? static_cast<int64_t>(sizes[0]) : 0,
                  columns = fits ? static_cast<int64_t>(sizes[1]) : 0;
    if (!fits || rows != tensor.shape[0])
      refuse_parts(fmt::format("{} is of a matrix [{}, {}]", described(tensor), rows, columns));
    for (const int bits : {2, 4, 8})
      if (tensor.shape[1] == words_for(columns, bits)) return packed(tensor, stem, {&tensor, bits}, columns);
    throw Fault(FaultKind::kNotModelled, kLabel,
                fmt::format("{} holds {} numbers in a row", described(tensor), columns),
                "numbers of 2, 4 or 8 bits are read");
  }

  StoredTensor packed(const StoredTensor& tensor, std::string_view stem, Words words, int64_t columns) const {
    const int64_t rows = tensor.shape[0];
    expect_words(tensor, rows, words_for(columns, words.bits));
    const StoredTensor& scale = needed(stem, ".weight_scale");
    Grid scales = scales_of(scale, rows, columns, method_.block), zeros;
    if (const StoredTensor* zero = part(stem, ".weight_zero_point"))
      zeros = zero->encoding == Encoding::kI32 ? packed_zeros(*zero, words.bits, rows, scales)
                                               : same_grid(*zero, scale, scales, rows, columns);
    std::vector<int32_t> groups = table_of(part(stem, ".weight_g_idx"), columns, scales.columns());
    return matrix(
        stem, rows, columns,
        std::make_shared<OfPackedRows>(words, std::move(scales), std::move(zeros), std::move(groups)));
  }

  // Packed along the rows.
  static Grid packed_zeros(const StoredTensor& zero, int bits, int64_t rows, const Grid& scales) {
    expect_words(zero, words_for(rows, bits), scales.columns());
    const Words words{&zero, bits};
    std::vector<float> values;
    values.reserve(static_cast<size_t>(rows * scales.columns()));
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t group = 0; group < scales.columns(); ++group)
        values.push_back(static_cast<float>(
            words.part(words.word(row / words.in_word(), group), static_cast<int>(row % words.in_word())) -
            (1 << (bits - 1))));
    return {std::move(values), 1, scales.block_columns(), scales.columns()};
  }

  // Scales [groups, rows of the matrix], as both methods have them, turned.
  Grid turned(const StoredTensor& from, int64_t rows, int64_t columns) const {
    const int64_t groups = from.shape.size() == 2 ? from.shape[0] : 0;
    const std::optional<int64_t> size = groups > 0 ? block_of(columns, groups, method_.group) : std::nullopt;
    if (!size || from.shape[1] != rows || from.encoding >= Encoding::kU8)
      refuse_parts(fmt::format("{} scales no matrix [{}, {}]", described(from), rows, columns));
    const std::vector<float> values = from.decoded();
    std::vector<float> made(values.size());
    for (int64_t group = 0; group < groups; ++group)
      for (int64_t row = 0; row < rows; ++row)
        made[static_cast<size_t>(row * groups + group)] = values[static_cast<size_t>(group * rows + row)];
    return {std::move(made), 1, *size, groups};
  }

  // Zeros of [groups, rows of the matrix], packed along the rows: of each, what `of` makes of a word.
  template <typename Place>
  static Grid turned_zeros(const StoredTensor& from, int bits, int64_t rows, const Grid& scales, int more,
                           Place place) {
    const int64_t groups = scales.columns();
    expect_words(from, groups, words_for(rows, bits));
    const Words words{&from, bits};
    std::vector<float> made;
    made.reserve(static_cast<size_t>(rows * groups));
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t group = 0; group < groups; ++group)
        made.push_back(static_cast<float>(words.part(words.word(group, row / words.in_word()),
                                                     place(static_cast<int>(row % words.in_word()))) +
                                          more));
    return {std::move(made), 1, scales.block_columns(), groups};
  }

  StoredTensor gptq(const StoredTensor& tensor, std::string_view stem) const {
    const StoredTensor& scale = needed(stem, ".scales");
    if (tensor.shape.size() != 2) refuse_parts(fmt::format("{} is no matrix", described(tensor)));
    const int64_t rows = tensor.shape[1], columns = tensor.shape[0] * (32 / method_.bits);
    expect_words(tensor, words_for(columns, method_.bits), rows);
    Grid scales = turned(scale, rows, columns);
    Grid zeros = turned_zeros(needed(stem, ".qzeros"), method_.bits, rows, scales,
                              method_.zero_of_stored_zero, [](int place) { return place; });
    std::vector<int32_t> groups = table_of(part(stem, ".g_idx"), columns, scales.columns());
    return matrix(stem, rows, columns,
                  std::make_shared<OfGptq>(Words{&tensor, method_.bits}, std::move(scales), std::move(zeros),
                                           std::move(groups)));
  }

  StoredTensor awq(const StoredTensor& tensor, std::string_view stem) const {
    const StoredTensor& scale = needed(stem, ".scales");
    if (tensor.shape.size() != 2) refuse_parts(fmt::format("{} is no matrix", described(tensor)));
    const int64_t columns = tensor.shape[0], rows = tensor.shape[1] * 8;
    expect_words(tensor, columns, rows / 8);
    Grid scales = turned(scale, rows, columns);
    Grid zeros = turned_zeros(needed(stem, ".qzeros"), 4, rows, scales, 0,
                              [](int place) { return kAwqPlace[static_cast<size_t>(place)]; });
    return matrix(stem, rows, columns,
                  std::make_shared<OfAwq>(Words{&tensor, 4}, std::move(scales), std::move(zeros)));
  }

  std::shared_ptr<const TensorTable> given_;
  Method method_;
};

}  // namespace

TensorTable with_whole_matrices(TensorTable tensors, std::string_view config) {
  const Json json = Json::parse(config, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return tensors;  // config_of_json() says what is wrong
  const auto found = json.find("quantization_config");
  if (found == json.end() || found->is_null()) return tensors;
  if (!found->is_object())
    throw Fault(FaultKind::kInput, kLabel, "quantization_config of config.json is not an object");
  if (text(*found, "quant_method") == "mxfp4") return tensors;
  return Joiner(std::move(tensors), method_of(*found)).run();
}

}  // namespace opentrn::import::weights
