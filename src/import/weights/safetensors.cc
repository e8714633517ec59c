#include "import/weights/safetensors.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/fault.h"
#include "base/mapped_file.h"
#include "base/utf8.h"
#include "import/weights/quantised_checkpoint.h"

namespace opentrn::import::weights {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// As the library safetensors has it (MAX_HEADER_SIZE).
constexpr uint64_t kHeaderBytesMax = 100'000'000;

[[noreturn]] void refuse_safetensors(std::string label, std::string message, std::string hint = {}) {
  throw Fault(FaultKind::kInput, std::move(label), std::move(message), std::move(hint));
}

std::optional<Encoding> encoding_of(std::string_view dtype) {
  for (const Encoding encoding :
       {Encoding::kF32, Encoding::kF16, Encoding::kBF16, Encoding::kF64, Encoding::kF8_E4M3,
        Encoding::kF8_E5M2, Encoding::kU8, Encoding::kI8, Encoding::kI32, Encoding::kI64, Encoding::kBool})
    if (name(encoding) == dtype) return encoding;
  return std::nullopt;
}

std::optional<std::vector<uint64_t>> numbers(const Json& row, const char* key) {
  const auto found = row.find(key);
  if (found == row.end() || !found->is_array()) return std::nullopt;
  std::vector<uint64_t> values;
  for (const Json& value : *found) {
    if (!value.is_number_unsigned()) return std::nullopt;
    values.push_back(value.get<uint64_t>());
  }
  return values;
}

StoredTensor tensor_of(const std::string& name, const Json& row, std::span<const std::byte> data) {
  const std::string shown = printable(name);
  const auto malformed = [&](std::string_view what) {
    refuse_safetensors("safetensors.tensor", fmt::format("tensor '{}' {}", shown, what));
  };
  if (!row.is_object() || !row.contains("dtype") || !row["dtype"].is_string()) malformed("has no dtype");
  const auto shape = numbers(row, "shape"), offsets = numbers(row, "data_offsets");
  if (!shape || !offsets || offsets->size() != 2) malformed("has no shape or no data_offsets");
  const std::string dtype = row["dtype"].get<std::string>();
  const auto encoding = encoding_of(dtype);
  if (!encoding)
    throw Fault(FaultKind::kNotModelled, "safetensors.type",
                fmt::format("tensor '{}' is {}", shown, printable(dtype)),
                "take a model with tensors in F32, F16, BF16, F64, F8_E4M3, F8_E5M2, or whole numbers of 8, "
                "32 or 64 bits");
  const uint64_t begin = (*offsets)[0], end = (*offsets)[1];
  if (begin > end || end > data.size())
    malformed(fmt::format("lies at bytes {} to {} of {}", begin, end, data.size()));
  StoredTensor tensor{name, *encoding, {}, data.subspan(begin, end - begin), {}};
  // No product passes the number of bytes, which is that of a file.
  uint64_t elements = static_cast<uint64_t>(block_bytes(*encoding));
  for (const uint64_t dim : *shape) {
    if (dim != 0 && elements > data.size() / dim) malformed("has more elements than the file has bytes");
    elements *= dim;
    tensor.shape.push_back(static_cast<int64_t>(dim));
  }
  if (elements != end - begin)
    malformed(fmt::format("takes {} bytes by its shape and {} by its place", elements, end - begin));
  return tensor;
}

// Places follow each other without holes, as the format asks: no byte means two things.
void expect_no_overlap(std::vector<std::pair<uint64_t, uint64_t>> places, uint64_t bytes) {
  std::ranges::sort(places);
  uint64_t at = 0;
  for (const auto& [begin, end] : places) {
    if (begin != at)
      refuse_safetensors("safetensors.header", fmt::format("tensors overlap or leave a hole at byte {}", at));
    at = end;
  }
  if (at != bytes)
    refuse_safetensors("safetensors.header", fmt::format("the tensors end at byte {} of {}", at, bytes),
                       "the file may be cut off: download it again");
}

std::string text_of(const fs::path& path) {
  const auto file = MappedFile::open(path, "checkpoint.folder");
  return {reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()};
}

TensorTable read_file(const fs::path& path) {
  const auto file = MappedFile::open(path, "checkpoint.folder");
  return read_safetensors(file->bytes(), file);
}

TensorTable read_parts(const fs::path& folder, const fs::path& index) {
  const Json json = Json::parse(text_of(index), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object())
    refuse_safetensors("checkpoint.folder", fmt::format("{} has no weight_map", printable(index.string())));
  std::set<std::string> names;
  for (const auto& [tensor, name] : json["weight_map"].items()) {
    if (!name.is_string())
      refuse_safetensors("checkpoint.folder", fmt::format("no file for tensor '{}'", printable(tensor)));
    names.insert(name.get<std::string>());
  }
  TensorTable all;
  for (const std::string& name : names) {
    if (name.empty() || fs::path(name).filename() != name || name == "." || name == "..")
      refuse_safetensors(
          "checkpoint.folder",
          fmt::format("the index names '{}', which is not a file of the folder", printable(name)));
    all.merge(read_file(folder / name), "safetensors.tensor");
  }
  return all;
}

}  // namespace

TensorTable read_safetensors(std::span<const std::byte> bytes, std::shared_ptr<const void> owner) {
  uint64_t length = 0;
  if (bytes.size() < sizeof(length))
    refuse_safetensors("safetensors.header", "the file ends inside its first eight bytes");
  std::memcpy(&length, bytes.data(), sizeof(length));
  if (length > kHeaderBytesMax || length > bytes.size() - sizeof(length))
    refuse_safetensors("safetensors.header",
                       fmt::format("the header has {} bytes, the file {}; {} are read at most", length,
                                   bytes.size(), kHeaderBytesMax),
                       "the file may be cut off, or be no safetensors file");
  const auto* text = reinterpret_cast<const char*>(bytes.data() + sizeof(length));
  const Json json = Json::parse(text, text + length, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) refuse_safetensors("safetensors.header", "the header is not a JSON object");
  const auto data = bytes.subspan(sizeof(length) + length);
  TensorTable table;
  std::vector<std::pair<uint64_t, uint64_t>> places;
  for (const auto& [name, row] : json.items()) {
    if (name == "__metadata__") continue;
    StoredTensor tensor = tensor_of(name, row, data);
    const auto begin = static_cast<uint64_t>(tensor.bytes.data() - data.data());
    places.emplace_back(begin, begin + tensor.bytes.size());
    table.add(std::move(tensor), "safetensors.tensor");
  }
  expect_no_overlap(std::move(places), data.size());
  table.keep(std::move(owner));
  return table;
}

Checkpoint read_checkpoint(const fs::path& folder) {
  Checkpoint result;
  result.config = text_of(folder / "config.json");
  const fs::path index = folder / "model.safetensors.index.json";
  result.tensors = with_whole_matrices(
      fs::exists(index) ? read_parts(folder, index) : read_file(folder / "model.safetensors"), result.config);
  return result;
}

Checkpoint read_adapter(const fs::path& folder) {
  return {text_of(folder / "adapter_config.json"), read_file(folder / "adapter_model.safetensors")};
}

}  // namespace opentrn::import::weights
