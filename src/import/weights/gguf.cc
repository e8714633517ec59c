#include "import/weights/gguf.h"

#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "base/fault.h"
#include "base/mapped_file.h"
#include "base/utf8.h"

namespace opentrn::import::weights {

namespace {

constexpr int64_t kFilesMax = 99999;  // five digits in a name
constexpr std::string_view kMagic = "GGUF";
constexpr int64_t kDimensionsMax = 4;       // ggml.h, GGML_MAX_DIMS
constexpr int64_t kAlignmentStandard = 32;  // ggml's docs/gguf.md, general.alignment
constexpr int64_t kAlignmentMax = 1 << 20;  // beyond any file that is known; keeps sums small

// ggml's enum gguf_type.
enum class ValueType : uint32_t {
  kUint8,
  kInt8,
  kUint16,
  kInt16,
  kUint32,
  kInt32,
  kFloat32,
  kBool,
  kString,
  kArray,
  kUint64,
  kInt64,
  kFloat64,
};

[[noreturn]] void refuse(std::string label, std::string message, std::string hint = {}) {
  throw Fault(FaultKind::kInput, std::move(label), std::move(message), std::move(hint));
}

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  void begin(std::string_view part) { part_ = part; }
  size_t at() const { return at_; }

  template <typename Value>
  Value number() {
    need(sizeof(Value), 1);
    Value value;
    std::memcpy(&value, bytes_.data() + at_, sizeof(Value));
    at_ += sizeof(Value);
    return value;
  }

  std::string_view string() {
    const auto length = number<uint64_t>();
    need(length, 1);
    const auto* begin = reinterpret_cast<const char*>(bytes_.data() + at_);
    at_ += length;
    return {begin, static_cast<size_t>(length)};
  }

  // The file holds at least `count` things of `size` bytes from here.
  void need(uint64_t count, uint64_t size) const {
    const uint64_t left = bytes_.size() - at_;
    if (count > left / size)
      refuse("gguf.header",
             fmt::format("the file ends inside {}: {} times {} bytes are said to follow byte {} of {}", part_,
                         count, size, at_, bytes_.size()),
             "the file may be cut off: download it again");
  }

 private:
  std::span<const std::byte> bytes_;
  size_t at_ = 0;
  std::string_view part_ = "the header";
};

// Bytes that a value takes at least.
uint64_t least_bytes(ValueType type) {
  switch (type) {
    case ValueType::kUint8:
    case ValueType::kInt8:
    case ValueType::kBool: return 1;
    case ValueType::kUint16:
    case ValueType::kInt16: return 2;
    case ValueType::kUint32:
    case ValueType::kInt32:
    case ValueType::kFloat32: return 4;
    default: return 8;
  }
}

int64_t integer(Reader& in, ValueType type, std::string_view key) {
  switch (type) {
    case ValueType::kUint8: return in.number<uint8_t>();
    case ValueType::kInt8: return in.number<int8_t>();
    case ValueType::kUint16: return in.number<uint16_t>();
    case ValueType::kInt16: return in.number<int16_t>();
    case ValueType::kUint32: return in.number<uint32_t>();
    case ValueType::kInt32: return in.number<int32_t>();
    case ValueType::kInt64: return in.number<int64_t>();
    case ValueType::kUint64: {
      const auto value = in.number<uint64_t>();
      if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
        refuse("gguf.metadata", fmt::format("{} is {}, beyond 63 bits", printable(key), value));
      return static_cast<int64_t>(value);
    }
    case ValueType::kBool: return in.number<uint8_t>() != 0;
    default: break;
  }
  refuse("gguf.metadata",
         fmt::format("{} has a value of unknown type {}", printable(key), static_cast<uint32_t>(type)));
}

GgufList list(Reader& in, std::string_view key) {
  const auto type = static_cast<ValueType>(in.number<uint32_t>());
  const auto count = in.number<uint64_t>();
  if (type == ValueType::kArray)
    refuse("gguf.metadata", fmt::format("{} is a list of lists", printable(key)));
  in.need(count, least_bytes(type));
  const auto filled = [&](auto values, auto&& next) {
    values.reserve(static_cast<size_t>(count));
    for (uint64_t i = 0; i < count; ++i) values.push_back(next());
    return GgufList(std::move(values));
  };
  if (type == ValueType::kString) return filled(std::vector<std::string_view>{}, [&] { return in.string(); });
  if (type == ValueType::kFloat32)
    return filled(std::vector<double>{}, [&] { return static_cast<double>(in.number<float>()); });
  if (type == ValueType::kFloat64) return filled(std::vector<double>{}, [&] { return in.number<double>(); });
  return filled(std::vector<int64_t>{}, [&] { return integer(in, type, key); });
}

GgufValue value(Reader& in, std::string_view key) {
  const auto type = static_cast<ValueType>(in.number<uint32_t>());
  switch (type) {
    case ValueType::kBool: return in.number<uint8_t>() != 0;
    case ValueType::kString: return in.string();
    case ValueType::kFloat32: return static_cast<double>(in.number<float>());
    case ValueType::kFloat64: return in.number<double>();
    case ValueType::kArray: return list(in, key);
    default: return integer(in, type, key);
  }
}

struct Header {
  uint64_t tensors = 0, values = 0;
};

Header header(Reader& in, std::span<const std::byte> bytes) {
  if (!is_gguf(bytes)) refuse("gguf.header", "the file does not begin with 'GGUF'");
  (void)in.number<uint32_t>();
  const auto version = in.number<uint32_t>();
  if (version != 2 && version != 3)
    refuse("gguf.header",
           version == 2U << 24 || version == 3U << 24
               ? "the file is big-endian"
               : fmt::format("the file has version {}; 2 and 3 are read", version),
           "convert the model again with a current llama.cpp");
  Header result;
  result.tensors = in.number<uint64_t>();
  result.values = in.number<uint64_t>();
  return result;
}

// A tensor before it is known where data begins.
struct Declared {
  StoredTensor tensor;
  uint64_t offset = 0;
};

uint64_t multiplied(uint64_t a, uint64_t b, const std::string& name) {
  if (a != 0 && b > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) / a)
    refuse("gguf.tensor", fmt::format("tensor '{}' has more than 2^63 elements", printable(name)));
  return a * b;
}

Declared declared(Reader& in) {
  Declared made;
  made.tensor.name = std::string(in.string());
  const std::string shown = printable(made.tensor.name);
  const auto rank = in.number<uint32_t>();
  if (rank > kDimensionsMax)
    refuse("gguf.tensor",
           fmt::format("tensor '{}' has {} dimensions; ggml has at most {}", shown, rank, kDimensionsMax));
  uint64_t elements = 1;
  for (uint32_t i = 0; i < rank; ++i) {
    const auto dim = in.number<uint64_t>();
    elements = multiplied(elements, dim, made.tensor.name);
    if (dim > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
      refuse("gguf.tensor", fmt::format("tensor '{}' has a dimension of {}", shown, dim));
    made.tensor.shape.insert(made.tensor.shape.begin(), static_cast<int64_t>(dim));  // innermost first there
  }
  const auto type = in.number<uint32_t>();
  const auto encoding = encoding_of_ggml(type);
  if (!encoding) {
    const std::string_view known = ggml_type_name(type);
    if (known.empty())
      refuse("gguf.tensor", fmt::format("tensor '{}' has type {}, which ggml does not have", shown, type));
    throw Fault(FaultKind::kNotModelled, "gguf.type", fmt::format("tensor '{}' is {}", shown, known),
                "take a file with F32, F16, BF16, F64, MXFP4, IQ4_NL, IQ4_XS, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0 "
                "or Q2_K to Q6_K");
  }
  made.tensor.encoding = *encoding;
  const int64_t block = block_elements(*encoding);
  const int64_t row = rank == 0 ? 1 : made.tensor.shape.back();
  if (row % block != 0)
    refuse("gguf.tensor", fmt::format("tensor '{}' is {} with rows of {}, no multiple of {}", shown,
                                      name(*encoding), row, block));
  made.offset = in.number<uint64_t>();
  return made;
}

void place(Declared& declared, std::span<const std::byte> data, const std::string& shown) {
  StoredTensor& tensor = declared.tensor;
  const auto blocks =
      static_cast<uint64_t>(tensor.element_count()) / static_cast<uint64_t>(block_elements(tensor.encoding));
  const uint64_t bytes = multiplied(blocks, static_cast<uint64_t>(block_bytes(tensor.encoding)), tensor.name);
  if (declared.offset > data.size() || bytes > data.size() - declared.offset)
    refuse("gguf.tensor",
           fmt::format("tensor '{}' takes {} bytes from byte {} of the data, which has {}", shown, bytes,
                       declared.offset, data.size()),
           "the file may be cut off: download it again");
  tensor.bytes = data.subspan(static_cast<size_t>(declared.offset), static_cast<size_t>(bytes));
}

[[noreturn]] void wrong_type(std::string_view key, std::string_view wanted) {
  refuse("gguf.metadata", fmt::format("{} is not {}", printable(key), wanted));
}

// "m-00002-of-00003.gguf" for m-00001-of-00003.gguf, as llama.cpp's gguf-split names files.
std::filesystem::path name_of_part(const std::filesystem::path& first, int64_t part, int64_t files) {
  const std::string end = fmt::format("-{:05}-of-{:05}.gguf", 1, files), name = first.filename().string();
  if (!name.ends_with(end))
    refuse("gguf.split",
           fmt::format("{} is one of {} files and is not named ...{}", printable(name), files, end));
  return first.parent_path() /
         fmt::format("{}-{:05}-of-{:05}.gguf", name.substr(0, name.size() - end.size()), part, files);
}

// The tensors of a model's other files, which lie beside its first one.
void add_other_files(Gguf& first, const std::filesystem::path& path, int64_t files) {
  const std::string shown = printable(path.filename().string());
  if (const int64_t number = first.integer("split.no").value_or(0); number != 0)
    refuse("gguf.split", fmt::format("{} is file {} of {}", shown, number + 1, files),
           "the first file is the one to name: it has the model's configuration");
  if (files > kFilesMax) refuse("gguf.split", fmt::format("{} is one of {} files", shown, files));
  for (int64_t part = 2; part <= files; ++part) {
    const auto file = MappedFile::open(name_of_part(path, part, files));
    Gguf other = read_gguf(file->bytes(), file);
    if (other.integer("split.no") != part - 1 || other.integer("split.count") != files)
      refuse("gguf.split", fmt::format("file {} says that it is number {} of {}", part,
                                       other.integer("split.no").value_or(0) + 1,
                                       other.integer("split.count").value_or(1)));
    first.tensors.merge(std::move(other.tensors), "gguf.tensor");
  }
  const auto found = static_cast<int64_t>(first.tensors.all().size());
  if (const auto stated = first.integer("split.tensors.count"); stated && *stated != found)
    refuse("gguf.split",
           fmt::format("{} files have {} tensors; the first one says {}", files, found, *stated));
}

}  // namespace

bool is_gguf(std::span<const std::byte> bytes) {
  return bytes.size() >= kMagic.size() && std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) == 0;
}

std::optional<int64_t> Gguf::integer(std::string_view key) const {
  const auto found = metadata.find(key);
  if (found == metadata.end()) return std::nullopt;
  if (const auto* number = std::get_if<int64_t>(&found->second)) return *number;
  wrong_type(key, "an integer");
}

std::optional<double> Gguf::real(std::string_view key) const {
  const auto found = metadata.find(key);
  if (found == metadata.end()) return std::nullopt;
  if (const auto* number = std::get_if<double>(&found->second)) return *number;
  if (const auto* number = std::get_if<int64_t>(&found->second)) return static_cast<double>(*number);
  wrong_type(key, "a number");
}

std::optional<std::string_view> Gguf::text(std::string_view key) const {
  const auto found = metadata.find(key);
  if (found == metadata.end()) return std::nullopt;
  if (const auto* text = std::get_if<std::string_view>(&found->second)) return *text;
  wrong_type(key, "a string");
}

Gguf read_gguf(std::span<const std::byte> bytes, std::shared_ptr<const void> owner) {
  Gguf result;
  Reader in(bytes);
  const Header counts = header(in, bytes);
  in.begin("the metadata");
  // A key of no characters and a value of one byte; a name, no dimensions, a type and an offset.
  in.need(counts.values, 8 + 4 + 1);
  for (uint64_t i = 0; i < counts.values; ++i) {
    const std::string_view key = in.string();
    if (!result.metadata.emplace(std::string(key), value(in, key)).second)
      refuse("gguf.metadata", fmt::format("{} is there twice", printable(key)));
  }
  in.begin("the list of tensors");
  in.need(counts.tensors, 8 + 4 + 4 + 8);
  std::vector<Declared> tensors;
  for (uint64_t i = 0; i < counts.tensors; ++i) tensors.push_back(declared(in));
  const int64_t alignment = result.integer("general.alignment").value_or(kAlignmentStandard);
  if (alignment < 1 || alignment > kAlignmentMax)
    refuse("gguf.metadata",
           fmt::format("general.alignment is {}; 1 to {} are read", alignment, kAlignmentMax));
  const size_t step = static_cast<size_t>(alignment), begin = (in.at() + step - 1) / step * step;
  const auto data = begin < bytes.size() ? bytes.subspan(begin) : std::span<const std::byte>{};
  for (Declared& one : tensors) {
    place(one, data, printable(one.tensor.name));
    result.tensors.add(std::move(one.tensor), "gguf.tensor");
  }
  result.tensors.keep(std::move(owner));
  return result;
}

Gguf read_gguf(const std::filesystem::path& path) {
  const auto file = MappedFile::open(path);
  Gguf first = read_gguf(file->bytes(), file);
  if (const int64_t files = first.integer("split.count").value_or(1); files > 1)
    add_other_files(first, path, files);
  return first;
}

}  // namespace opentrn::import::weights
