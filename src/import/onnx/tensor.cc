#include "import/onnx/tensor.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <map>
#include <mutex>

#include <fmt/format.h>

#include "base/fault.h"
#include "graph/element_value.h"
#include "import/onnx/onnx.h"

namespace opentrn::import::onnx {

using graph::ElementType;
using graph::Literal;
using graph::Type;

namespace {

struct Row {
  DataType type;
  ElementType element;
};

constexpr Row kTypes[] = {
    {DataType::kFloat, ElementType::kF32},
    {DataType::kUint8, ElementType::kUI8},
    {DataType::kInt8, ElementType::kI8},
    {DataType::kUint16, ElementType::kUI16},
    {DataType::kInt16, ElementType::kI16},
    {DataType::kInt32, ElementType::kI32},
    {DataType::kInt64, ElementType::kI64},
    {DataType::kBool, ElementType::kI1},
    {DataType::kFloat16, ElementType::kF16},
    {DataType::kDouble, ElementType::kF64},
    {DataType::kUint32, ElementType::kUI32},
    {DataType::kUint64, ElementType::kUI64},
    {DataType::kComplex64, ElementType::kComplexF32},
    {DataType::kComplex128, ElementType::kComplexF64},
    {DataType::kBFloat16, ElementType::kBF16},
    {DataType::kFloat8E4M3Fn, ElementType::kF8E4M3FN},
    {DataType::kFloat8E4M3Fnuz, ElementType::kF8E4M3FNUZ},
    {DataType::kFloat8E5M2, ElementType::kF8E5M2},
    {DataType::kFloat8E5M2Fnuz, ElementType::kF8E5M2FNUZ},
    {DataType::kUint4, ElementType::kUI4},
    {DataType::kInt4, ElementType::kI4},
    {DataType::kFloat4E2M1, ElementType::kF4E2M1FN},
    {DataType::kFloat8E8M0, ElementType::kF8E8M0FNU},
    {DataType::kUint2, ElementType::kUI2},
    {DataType::kInt2, ElementType::kI2},
};

[[noreturn]] void malformed(const Tensor& tensor, std::string message) {
  throw Fault(FaultKind::kInput, "onnx.tensor", fmt::format("tensor '{}': {}", tensor.name, message));
}

int64_t parsed_integer(const Tensor& tensor, const std::string& key, int64_t absent) {
  const auto found = tensor.external_data.find(key);
  if (found == tensor.external_data.end()) return absent;
  const std::string& text = found->second;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0)
    malformed(tensor, fmt::format("external data has {} = '{}'", key, text));
  return value;
}

// Several elements per byte, the first in the low bits.
std::vector<std::byte> unpacked(const Tensor& tensor, std::span<const std::byte> packed, ElementType element,
                                int64_t count) {
  const int bits = graph::bit_width(element);
  const int64_t per_byte = 8 / bits;
  const int64_t wanted = count / per_byte + (count % per_byte != 0);
  if (static_cast<int64_t>(packed.size()) != wanted)
    malformed(tensor, fmt::format("{} bytes of data for {} elements of {} bits", packed.size(), count, bits));
  std::vector<std::byte> bytes(static_cast<size_t>(count));
  const bool sign = graph::is_signed_integer(element);
  for (int64_t i = 0; i < count; ++i) {
    const auto byte = static_cast<uint8_t>(packed[static_cast<size_t>(i / per_byte)]);
    const int code = (byte >> (bits * (i % per_byte))) & ((1 << bits) - 1);
    if (sign)
      graph::store_integer(element, code, &bytes[static_cast<size_t>(i)]);
    else
      bytes[static_cast<size_t>(i)] = static_cast<std::byte>(code);
  }
  return bytes;
}

std::vector<std::byte> booleans(std::span<const std::byte> raw) {
  std::vector<std::byte> bytes(raw.size());
  std::transform(raw.begin(), raw.end(), bytes.begin(),
                 [](std::byte b) { return std::byte{b != std::byte{0}}; });
  return bytes;
}

template <typename T>
std::vector<std::byte> copied(const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

// int32_data holds every type of at most 32 bits, one element (of packed types: one byte) per entry.
std::vector<std::byte> narrowed(const Tensor& tensor, const Type& type) {
  const auto size = static_cast<size_t>(graph::storage_bytes(type.element()));
  std::vector<std::byte> bytes;
  for (const int32_t value : tensor.int32s) {
    std::byte one[4];
    std::memcpy(one, &value, 4);
    bytes.insert(bytes.end(), one, one + std::min<size_t>(size, 4));
  }
  return bytes;
}

std::vector<std::byte> listed(const Tensor& tensor, const Type& type) {
  switch (type.element()) {
    case ElementType::kF32:
    case ElementType::kComplexF32: return copied(tensor.floats);
    case ElementType::kF64:
    case ElementType::kComplexF64: return copied(tensor.doubles);
    case ElementType::kI64: return copied(tensor.int64s);
    case ElementType::kUI64: return copied(tensor.uint64s);
    case ElementType::kUI32: {
      const std::vector<uint32_t> values(tensor.uint64s.begin(), tensor.uint64s.end());
      return copied(values);
    }
    default: return narrowed(tensor, type);
  }
}

}  // namespace

namespace {

// Every file that is mapped, for file_place(). Never destroyed: literals may outlive static objects.
struct OpenFiles {
  struct File {
    size_t size;
    std::filesystem::path path;
  };
  std::mutex mutex;
  std::map<const std::byte*, File> by_begin;
};
OpenFiles& open_files() {
  static auto* files = new OpenFiles;
  return *files;
}

}  // namespace

std::shared_ptr<const MappedFile> MappedFile::open(const std::filesystem::path& path) {
  const auto refuse = [&](const char* what) {
    throw Fault(FaultKind::kInput, "onnx.file",
                fmt::format("{}: {}: {}", path.string(), what, std::strerror(errno)));
  };
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) refuse("cannot be opened");
  struct stat status {};
  if (::fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(file);
    errno = EINVAL;
    refuse("is no regular file");
  }
  const auto size = static_cast<size_t>(status.st_size);
  if (size == 0) {
    ::close(file);
    return std::shared_ptr<const MappedFile>(new MappedFile({}));
  }
  void* place = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
  ::close(file);
  if (place == MAP_FAILED) refuse("cannot be mapped");
  std::shared_ptr<const MappedFile> mapped(new MappedFile({static_cast<const std::byte*>(place), size}));
  OpenFiles& files = open_files();
  const std::lock_guard turn(files.mutex);
  files.by_begin[mapped->bytes().data()] = {size, std::filesystem::absolute(path)};
  return mapped;
}

std::optional<FilePlace> file_place(const std::byte* byte) {
  OpenFiles& files = open_files();
  const std::lock_guard turn(files.mutex);
  auto found = files.by_begin.upper_bound(byte);
  if (found == files.by_begin.begin()) return std::nullopt;
  --found;
  const auto offset = static_cast<size_t>(byte - found->first);
  if (offset >= found->second.size) return std::nullopt;
  return FilePlace{found->second.path, offset};
}

MappedFile::~MappedFile() {
  if (bytes_.empty()) return;
  {
    OpenFiles& files = open_files();
    const std::lock_guard turn(files.mutex);
    files.by_begin.erase(bytes_.data());
  }
  ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

ElementType element_type(DataType type) {
  for (const Row& row : kTypes)
    if (row.type == type) return row.element;
  if (type == DataType::kString)
    throw Fault(FaultKind::kNotModelled, "onnx.string", "strings are no tensors that a device holds",
                "cut the part that handles text off the model");
  throw Fault(FaultKind::kInput, "onnx.type", fmt::format("{} is no element type", static_cast<int>(type)));
}

DataType data_type(ElementType element) {
  for (const Row& row : kTypes)
    if (row.element == element) return row.type;
  return DataType::kUndefined;
}

std::span<const std::byte> TensorReader::external_bytes(const Tensor& tensor,
                                                        std::shared_ptr<const void>& owner) {
  const auto found = tensor.external_data.find("location");
  if (found == tensor.external_data.end()) malformed(tensor, "external data has no location");
  const std::filesystem::path location = found->second;
  if (folder_.empty() && files_.empty())
    malformed(tensor, "its data is in a file beside the model, and the model did not come from a file");
  // The ONNX specification: a path relative to the model, not outside its folder.
  const std::filesystem::path normal = location.lexically_normal();
  if (location.is_absolute() || normal.empty() || *normal.begin() == "..")
    malformed(tensor, fmt::format("external data '{}' is outside the model's folder", location.string()));
  auto& file = files_[normal.string()];
  if (!file.owner) {
    const auto mapped = MappedFile::open(folder_ / normal);
    file = {mapped->bytes(), mapped};
  }
  owner = file.owner;
  const auto size = static_cast<int64_t>(file.bytes.size());
  const int64_t offset = parsed_integer(tensor, "offset", 0);
  if (offset > size)
    malformed(tensor,
              fmt::format("offset {} is behind the {} bytes of '{}'", offset, size, location.string()));
  const int64_t length = parsed_integer(tensor, "length", size - offset);
  if (length > size - offset)
    malformed(tensor, fmt::format("{} bytes at {} pass the {} bytes of '{}'", length, offset, size,
                                  location.string()));
  return file.bytes.subspan(static_cast<size_t>(offset), static_cast<size_t>(length));
}

Literal TensorReader::literal(const Tensor& tensor) {
  for (const int64_t dim : tensor.dims)
    if (dim < 0) malformed(tensor, fmt::format("a dimension is {}", dim));
  const Type type = Type::tensor(element_type(tensor.data_type), tensor.dims);
  const int64_t count = type.element_count();
  std::shared_ptr<const void> owner = owner_;
  std::span<const std::byte> raw = tensor.raw;
  std::vector<std::byte> list;
  const bool packed = graph::bit_width(type.element()) < 8 && type.element() != ElementType::kI1;
  if (tensor.external) {
    raw = external_bytes(tensor, owner);
  } else if (!tensor.has_raw) {
    list = listed(tensor, type);
    if (!packed) {
      if (static_cast<int64_t>(list.size()) != type.byte_count())
        malformed(tensor, fmt::format("{} bytes of data for {}", list.size(), type.to_string()));
      return {type, type.element() == ElementType::kI1 ? booleans(list) : std::move(list)};
    }
    raw = list;
  }
  if (packed) return {type, unpacked(tensor, raw, type.element(), count)};
  if (static_cast<int64_t>(raw.size()) != type.byte_count())
    malformed(tensor, fmt::format("{} bytes of data for {}", raw.size(), type.to_string()));
  if (type.element() == ElementType::kI1) return {type, booleans(raw)};
  return {type, raw, std::move(owner)};
}

}  // namespace opentrn::import::onnx
