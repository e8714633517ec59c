// GGUF, version 2 and 3: llama.cpp's files of weights, with the model's configuration and its tokenizer.
// Layout: ggml's docs/gguf.md. Files are untrusted: sizes are compared with the file before anything is
// allocated for them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "import/weights/weight_file.h"

namespace opentrn::import::weights {

// Strings are views of the file.
using GgufList = std::variant<std::vector<std::string_view>, std::vector<int64_t>, std::vector<double>>;
using GgufValue = std::variant<bool, int64_t, double, std::string_view, GgufList>;

struct Gguf {
  std::map<std::string, GgufValue, std::less<>> metadata;
  TensorTable tensors;

  // Null, or nullopt, where the key is absent; an input fault `gguf.metadata` where it has another type.
  std::optional<int64_t> integer(std::string_view key) const;
  std::optional<double> real(std::string_view key) const;  // integers too
  std::optional<std::string_view> text(std::string_view key) const;
};

// `owner` keeps `bytes` alive. Input faults gguf.header, gguf.metadata and gguf.tensor; not modelled
// gguf.type for tensors whose type is not read.
Gguf read_gguf(std::span<const std::byte> bytes, std::shared_ptr<const void> owner);
// Mapped. The first of several files that gguf-split made stands for all, which lie beside it; an input fault
// gguf.split where they do not belong to each other.
Gguf read_gguf(const std::filesystem::path& path);
bool is_gguf(std::span<const std::byte> bytes);

}  // namespace opentrn::import::weights
