#include <cstring>
#include <string>

#include <fmt/ranges.h>

#include "base/fault.h"
#include "decoder/config.h"
#include "import/weights/gguf.h"
#include "import/weights/quantised_checkpoint.h"
#include "import/weights/safetensors.h"
#include "tests/fuzz/bodies.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/mutate.h"

namespace opentrn::fuzz {

namespace {

namespace weights = import::weights;

class File {
 public:
  template <typename Value>
  void put(Value value) {
    const auto* data = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), data, data + sizeof(value));
  }
  void text(std::string_view value) {
    put(static_cast<uint64_t>(value.size()));
    for (const char c : value) put(c);
  }
  void integer(std::string_view key, uint32_t value) {
    text(key);
    put(uint32_t{4});
    put(value);
  }
  void align() { bytes_.resize((bytes_.size() + 31) / 32 * 32); }
  std::vector<std::byte>& bytes() { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

constexpr std::string_view kWords[] = {"dtype", "shape", "data_offsets",        "[[",
                                       "-1",    "1e400", "18446744073709551615"};

constexpr std::string_view kSizes[] = {
    "block_count",          "embedding_length",        "feed_forward_length",  "context_length",
    "attention.head_count", "attention.head_count_kv", "rope.dimension_count", "attention.key_length"};

void decode_all(const weights::TensorTable& tensors) {
  for (const weights::StoredTensor& tensor : tensors.all()) (void)tensor.decoded();
}

// A checkpoint's matrices in parts, and what its config.json says of them.
constexpr std::string_view kMethods[] = {
    R"({"quantization_config":{"quant_method":"gptq","bits":4,"group_size":8}})",
    R"({"quantization_config":{"quant_method":"awq","bits":4}})",
    R"({"quantization_config":{"quant_method":"compressed-tensors"}})",
    R"({"quantization_config":{"quant_method":"fp8","weight_block_size":[3,5]}})"};

std::vector<std::byte> quantised_seed(SplitMix64& random) {
  struct Part {
    std::string_view name, dtype;
    std::vector<int64_t> shape;
    size_t bytes;
  };
  const Part parts[] = {{"g.qweight", "I32", {2, 16}, 4},      {"g.qzeros", "I32", {2, 2}, 4},
                        {"g.scales", "F16", {2, 16}, 2},       {"g.g_idx", "I32", {16}, 4},
                        {"p.weight_packed", "I32", {4, 2}, 4}, {"p.weight_shape", "I64", {2}, 8},
                        {"p.weight_scale", "BF16", {4, 2}, 2}, {"p.weight_zero_point", "I32", {1, 2}, 4},
                        {"f.weight", "F8_E4M3", {4, 8}, 1},    {"f.weight_scale_inv", "F32", {2, 2}, 4},
                        {"n.weight_packed", "U8", {4, 8}, 1},  {"n.weight_scale", "F8_E4M3", {4, 1}, 1}};
  std::string text;
  size_t end = 0;
  for (const Part& part : parts) {
    size_t bytes = part.bytes;
    for (const int64_t size : part.shape) bytes *= static_cast<size_t>(size);
    text += fmt::format(R"({}"{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                        text.empty() ? "{" : ",", part.name, part.dtype, fmt::join(part.shape, ","), end,
                        end + bytes);
    end += bytes;
  }
  File file;
  file.text(text + "}");
  const size_t first = file.bytes().size();
  // A table of groups has numbers below 2.
  for (size_t i = 0; i < end; ++i) file.put(static_cast<uint8_t>(i % 4 == 0 ? random.below(2) : 0));
  // Sizes of the matrix in words, 4 and 16, behind the parts of the first matrix and the words.
  const size_t shape = first + 128 + 16 + 64 + 64 + 32;
  file.bytes()[shape] = std::byte{4};
  file.bytes()[shape + 8] = std::byte{16};
  for (size_t i = 1; i < 8; ++i) file.bytes()[shape + i] = file.bytes()[shape + 8 + i] = std::byte{0};
  return file.bytes();
}

std::vector<std::byte> safetensors_seed(SplitMix64& random) {
  File file;
  const uint64_t rows = random.below(4);
  const std::string text = fmt::format(
      R"({{"__metadata__":{{"format":"pt"}},"a":{{"dtype":"F32","shape":[{0},3],"data_offsets":[0,{1}]}},)"
      R"("b":{{"dtype":"BF16","shape":[5],"data_offsets":[{1},{2}]}}}})",
      rows, rows * 12, rows * 12 + 10);
  file.text(text);
  for (uint64_t i = 0; i < rows * 12 + 10; ++i) file.put(static_cast<uint8_t>(random.below(256)));
  return file.bytes();
}

// Reads everything that the file holds.
void read_all(Bytes bytes) {
  if (!weights::is_gguf(bytes)) {
    decode_all(weights::read_safetensors(bytes, nullptr));
    for (const std::string_view config : kMethods) {
      try {
        decode_all(weights::with_whole_matrices(weights::read_safetensors(bytes, nullptr), config));
      } catch (const Fault& fault) {
        if (fault.kind() != FaultKind::kInput && fault.kind() != FaultKind::kNotModelled) throw;
      }
    }
    return;
  }
  const weights::Gguf file = weights::read_gguf(bytes, nullptr);
  decode_all(file.tensors);
  (void)decoder::config_of(file);
}

}  // namespace

void weights_bytes(Bytes file) {
  try {
    read_all(file);
  } catch (const Fault& fault) {
    if (fault.kind() != FaultKind::kInput && fault.kind() != FaultKind::kNotModelled)
      broken("a bad weight file is neither an input error nor not modelled: {}", fault.what());
  }
}

std::vector<std::byte> weights_seed(SplitMix64& random) {
  if (random.below(3) == 0) return random.below(2) ? quantised_seed(random) : safetensors_seed(random);
  File file;
  for (const char c : std::string_view("GGUF")) file.put(c);
  const uint64_t tensors = random.below(4) + 1;
  file.put(uint32_t{3});
  file.put(tensors);
  file.put(uint64_t{2 + std::size(kSizes)});
  file.text("general.architecture");
  file.put(uint32_t{8});
  file.text(random.below(2) ? "llama" : "qwen3");
  for (const std::string_view size : kSizes)
    file.integer(fmt::format("llama.{}", size), 1 + static_cast<uint32_t>(random.below(64)));
  file.text("tokenizer.ggml.tokens");
  file.put(uint32_t{9});
  file.put(uint32_t{8});
  file.put(uint64_t{2});
  file.text("a");
  file.text("b");
  std::vector<weights::Encoding> encodings;
  uint64_t offset = 0;
  for (uint64_t i = 0; i < tensors; ++i) {
    constexpr uint32_t kTypes[] = {0, 1, 2, 3, 6, 7, 8, 10, 11, 12, 13, 14, 20, 23, 28, 30};
    const uint32_t type = kTypes[random.below(std::size(kTypes))];
    encodings.push_back(*weights::encoding_of_ggml(type));
    file.text(i == 0 ? "token_embd.weight" : fmt::format("blk.0.{}", i));
    file.put(uint32_t{2});
    file.put(static_cast<uint64_t>(block_elements(encodings.back())));
    file.put(uint64_t{3});
    file.put(type);
    file.put(offset);
    offset += static_cast<uint64_t>(3 * block_bytes(encodings.back()) + 31) / 32 * 32;
  }
  file.align();
  for (const weights::Encoding encoding : encodings) {
    for (int64_t i = 0; i < 3 * block_bytes(encoding); ++i) file.put(static_cast<uint8_t>(random.below(256)));
    file.align();
  }
  return file.bytes();
}

void weights_case(uint64_t seed) {
  SplitMix64 random(seed);
  const std::vector<std::byte> whole = weights_seed(random);
  if (weights::is_gguf(whole))
    (void)weights::read_gguf(whole, nullptr);
  else if (const weights::TensorTable tensors = weights::read_safetensors(whole, nullptr);
           !tensors.find("g.qweight"))
    decode_all(tensors);
  else
    for (const std::string_view config : kMethods)
      if (config.find("awq") == std::string_view::npos)
        decode_all(weights::with_whole_matrices(tensors, config));
  for (int i = 0; i < 50; ++i) {
    std::vector<std::byte> bad = whole;
    mutate(random, bad, kWords);
    weights_bytes(bad);
  }
}

}  // namespace opentrn::fuzz
