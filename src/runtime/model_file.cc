#include "runtime/model_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <fstream>
#include <tuple>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/fnv1a.h"
#include "isa/file.h"
#include "runtime/origin_file.h"

namespace opentrn::runtime {

using nlohmann::json;

namespace {

constexpr std::string_view kMagic = "OTNM";
constexpr uint32_t kVersion = 2;
constexpr size_t kPreamble = 24;
constexpr size_t kAlignment = 64;

[[noreturn]] void fail(const std::string& path, std::string message) {
  throw Fault(FaultKind::kInput, "model_file", fmt::format("{}: {}", path, message),
              "write the file again with `opentrn compile`");
}

size_t aligned(size_t offset) { return (offset + kAlignment - 1) / kAlignment * kAlignment; }

json ports_json(const std::vector<Port>& ports) {
  json rows = json::array();
  for (const Port& port : ports)
    rows.push_back(
        {{"name", port.name}, {"tensor", port.tensor}, {"element", port.element}, {"shape", port.shape}});
  return rows;
}

// The container's bytes, for as long as somebody holds them.
class Holder {
 public:
  Holder() = default;
  virtual ~Holder() = default;
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;
  virtual std::string_view text() const = 0;
};

// In memory, at a multiple of kAlignment as the file's pieces are.
class Copy final : public Holder {
 public:
  explicit Copy(std::string_view bytes)
      : data_(static_cast<char*>(::operator new (bytes.size(), std::align_val_t{kAlignment}))),
        size_(bytes.size()) {
    if (size_ > 0) std::memcpy(data_, bytes.data(), size_);
  }
  ~Copy() override { ::operator delete (data_, std::align_val_t{kAlignment}); }
  std::string_view text() const override { return {data_, size_}; }

 private:
  char* data_;
  size_t size_;
};

// A file.
class Mapping final : public Holder {
 public:
  explicit Mapping(const std::string& path) {
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat facts {};
    if (file < 0 || ::fstat(file, &facts) != 0) {
      const int error = errno;
      if (file >= 0) ::close(file);
      fail(path, std::strerror(error));
    }
    size_ = static_cast<size_t>(facts.st_size);
    if (size_ > 0) data_ = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file, 0);
    ::close(file);
    if (data_ == MAP_FAILED) fail(path, "cannot be mapped");
  }
  ~Mapping() override {
    if (data_ != nullptr && data_ != MAP_FAILED) ::munmap(data_, size_);
  }

  std::string_view text() const override { return {static_cast<const char*>(data_), size_}; }

 private:
  void* data_ = nullptr;
  size_t size_ = 0;
};

template <typename T>
T number_at(std::string_view bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

// A piece of the file that the header points to.
std::string_view piece(const std::string& path, std::string_view file, const json& at,
                       std::string_view what) {
  const auto offset = at.at("offset").get<uint64_t>(), bytes = at.at("bytes").get<uint64_t>();
  if (offset > file.size() || bytes > file.size() - offset)
    fail(path, fmt::format("{} at offset {}, {} bytes, reaches beyond the file's {}", what, offset, bytes,
                           file.size()));
  return file.substr(offset, bytes);
}

void check_tensor(const std::string& path, const isa::Program& program, isa::TensorId tensor,
                  std::string_view what) {
  if (tensor >= program.tensor_count() || !isa::is_hbm(program.tensor(tensor).space))
    fail(path, fmt::format("{} is tensor {}, which is no HBM tensor of the program", what, tensor));
}

std::vector<Port> ports_of(const std::string& path, const isa::Program& program, const json& rows) {
  std::vector<Port> ports;
  for (const json& row : rows) {
    Port port{row.at("name"), row.at("tensor"), row.at("element"), row.at("shape")};
    check_tensor(path, program, port.tensor, port.name);
    const isa::Tensor& tensor = program.tensor(port.tensor);
    int64_t elements = 1;
    for (const int64_t dim : port.shape)
      if (dim < 0 || __builtin_mul_overflow(elements, dim, &elements)) elements = -1;
    if (elements != tensor.rows * tensor.row_elements)
      fail(path, fmt::format("{} has another number of elements than its tensor", port.name));
    ports.push_back(std::move(port));
  }
  return ports;
}

struct FileFacts {
  int64_t bytes = -1, modified_ns = 0;
};

FileFacts facts_of(const std::string& file) {
  struct stat facts {};
  if (::stat(file.c_str(), &facts) != 0) return {};
  return {facts.st_size, int64_t{facts.st_mtim.tv_sec} * 1'000'000'000 + facts.st_mtim.tv_nsec};
}

// Files of the user's that constants lie in, each mapped once.
class WeightFiles {
 public:
  std::shared_ptr<Mapping> open(const std::string& path, const json& row) {
    const std::string name = row.at("file");
    auto& found = files_[name];
    if (!found) {
      const FileFacts now = facts_of(name);
      if (now.bytes != row.at("file_bytes").get<int64_t>() ||
          now.modified_ns != row.at("file_modified_ns").get<int64_t>())
        fail(path, fmt::format("takes weights from {}, which {}", name,
                               now.bytes < 0 ? "is gone" : "has changed since"));
      found = std::make_shared<Mapping>(name);
    }
    return found;
  }

 private:
  std::map<std::string, std::shared_ptr<Mapping>> files_;
};

Model read_model(const std::string& path, std::string_view file, const std::shared_ptr<Holder>& mapping,
                 WeightFiles& weights, const json& header, arch::Generation generation) {
  Model model;
  model.generation = generation;
  const std::string_view program = piece(path, file, header.at("program"), "the program");
  model.program = std::make_shared<isa::Program>(
      isa::decode_program({reinterpret_cast<const std::byte*>(program.data()), program.size()}, path));
  model.origin =
      decode_origin(piece(path, file, header.at("origin"), "the table of ops"), model.program->size());
  model.inputs = ports_of(path, *model.program, header.at("inputs"));
  model.outputs = ports_of(path, *model.program, header.at("outputs"));
  for (const json& row : header.at("constants")) {
    const isa::TensorId tensor = row.at("tensor");
    check_tensor(path, *model.program, tensor, "a constant");
    const bool referenced = row.contains("file");
    const std::shared_ptr<Holder> holder = referenced ? weights.open(path, row) : mapping;
    const std::string_view bytes = piece(path, holder->text(), row, "a constant");
    if (static_cast<int64_t>(bytes.size()) != model.program->tensor(tensor).bytes())
      fail(path, fmt::format("tensor {} has {} bytes of data; it takes {}", tensor, bytes.size(),
                             model.program->tensor(tensor).bytes()));
    model.constants.push_back(
        {tensor, sim::Buffer::wrap_read_only(bytes.data(), static_cast<int64_t>(bytes.size()), holder)});
    if (referenced) {
      model.constants.back().file = row.at("file");
      model.constants.back().file_offset = row.at("offset");
    }
  }
  return model;
}

Artifact read(const std::string& path, const std::shared_ptr<Holder>& mapping) {
  const std::string_view file = mapping->text();
  if (file.size() < kPreamble || file.substr(0, 4) != kMagic) fail(path, "is no compiled model");
  if (number_at<uint32_t>(file, 4) != kVersion)
    fail(path,
         fmt::format("is of version {}; this OpenTrn reads {}", number_at<uint32_t>(file, 4), kVersion));
  const auto header_bytes = number_at<uint64_t>(file, 8);
  if (header_bytes > file.size() - kPreamble) fail(path, "ends within its header");
  const std::string_view text = file.substr(kPreamble, header_bytes);
  if (fnv1a(text) != number_at<uint64_t>(file, 16)) fail(path, "has a damaged header");
  const json header = json::parse(text);
  const int generation = header.at("generation");
  if (generation < 1 || generation > 4) fail(path, fmt::format("is for NeuronCore-v{}", generation));
  Artifact artifact;
  WeightFiles weights;
  artifact.facts = header.at("facts").get<std::map<std::string, std::string>>();
  for (const json& row : header.at("buckets"))
    artifact.buckets.push_back(
        {row.at("dimensions").get<std::map<std::string, int64_t>>(),
         read_model(path, file, mapping, weights, row, static_cast<arch::Generation>(generation))});
  if (artifact.buckets.empty()) fail(path, "holds no program");
  if (header.contains("attachments"))
    for (const json& row : header.at("attachments"))
      artifact.attachments.push_back(
          {row.at("name"), piece(path, file, row, "an attached file"), mapping, ""});
  return artifact;
}

// Pieces of the file, in order, each written once however often it is asked for.
class Layout {
 public:
  // Where the piece lies, from the begin of the pieces. `bytes` must outlive the layout.
  json place(std::string_view bytes) {
    auto& same = known_[{bytes.size(), fnv1a(bytes)}];
    for (const size_t number : same)
      if (pieces_[number].bytes == bytes) return at(pieces_[number]);
    same.push_back(pieces_.size());
    pieces_.push_back({end_, bytes});
    end_ = aligned(end_ + bytes.size());
    return at(pieces_.back());
  }
  struct Piece {
    size_t offset;
    std::string_view bytes;
  };
  const std::vector<Piece>& pieces() const { return pieces_; }

 private:
  static json at(const Piece& piece) { return {{"offset", piece.offset}, {"bytes", piece.bytes.size()}}; }

  std::vector<Piece> pieces_;
  std::map<std::pair<size_t, uint64_t>, std::vector<size_t>> known_;
  size_t end_ = 0;
};

// A constant whose bytes stay in the user's file, and what shows that the file is still the same.
json reference(const ConstantData& constant) {
  const FileFacts facts = facts_of(constant.file);
  return {{"file", constant.file},
          {"offset", constant.file_offset},
          {"bytes", constant.bytes->bytes()},
          {"file_bytes", facts.bytes},
          {"file_modified_ns", facts.modified_ns}};
}

size_t offset_count(const json& header) {
  size_t count = 0;
  for (const json& bucket : header["buckets"]) count += 2 + bucket["constants"].size();
  return count + header["attachments"].size();
}

void move_pieces(json& header, size_t by) {
  const auto move = [by](json& place) { place["offset"] = place["offset"].get<size_t>() + by; };
  for (json& attachment : header["attachments"]) move(attachment);
  for (json& bucket : header["buckets"]) {
    move(bucket["program"]);
    move(bucket["origin"]);
    for (json& constant : bucket["constants"])
      if (!constant.contains("file")) move(constant);
  }
}

// A file beside `path` that takes its name when it is whole: readers see the old one or the new one.
class NewFile {
 public:
  explicit NewFile(const std::string& path)
      : path_(path),
        temporary_(fmt::format("{}.{}.{:x}.part", path, ::getpid(),
                               static_cast<uint64_t>(reinterpret_cast<uintptr_t>(this)))),
        file_(temporary_, std::ios::binary) {}
  ~NewFile() {
    if (!temporary_.empty()) ::unlink(temporary_.c_str());
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  void put(const void* data, size_t bytes) {
    file_.write(static_cast<const char*>(data), static_cast<std::streamsize>(bytes));
    written_ += bytes;
  }
  void pad_to(size_t offset) {
    static constexpr char kZeros[kAlignment] = {};
    while (written_ < offset) put(kZeros, std::min(sizeof kZeros, offset - written_));
  }
  void finish() {
    file_.close();
    if (!file_ || ::rename(temporary_.c_str(), path_.c_str()) != 0)
      throw Fault(FaultKind::kInput, "model_file",
                  fmt::format("{} cannot be written: {}", path_, std::strerror(errno)),
                  "give another path with -o");
    temporary_.clear();
  }

 private:
  std::string path_, temporary_;
  std::ofstream file_;
  size_t written_ = 0;
};

std::string_view text_of(const auto& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

namespace {

// Hands the container's bytes, in order, to `file`: put(data, bytes) and pad_to(offset).
void write(const Artifact& artifact, Weights weights, auto& file) {
  OPENTRN_CHECK(!artifact.buckets.empty(), "an artifact without a program");
  std::deque<std::vector<std::byte>> programs;
  std::deque<std::vector<uint8_t>> origins;
  Layout layout;
  json header{{"generation", static_cast<int>(artifact.buckets[0].model.generation)},
              {"facts", artifact.facts},
              {"buckets", json::array()},
              {"attachments", json::array()}};
  for (const Attachment& attachment : artifact.attachments) {
    json row = layout.place(attachment.bytes);
    row["name"] = attachment.name;
    header["attachments"].push_back(std::move(row));
  }
  // Where in the container a constant lies that is part of an attached file.
  const auto attached = [&](const ConstantData& constant) -> json {
    for (size_t i = 0; i < artifact.attachments.size(); ++i) {
      const Attachment& attachment = artifact.attachments[i];
      const auto offset = static_cast<size_t>(constant.file_offset),
                 bytes = static_cast<size_t>(constant.bytes->bytes());
      if (constant.file.empty() || attachment.path != constant.file) continue;
      if (offset > attachment.bytes.size() || bytes > attachment.bytes.size() - offset) continue;
      const size_t begin = header["attachments"][i]["offset"];
      return {{"offset", begin + offset}, {"bytes", bytes}};
    }
    return nullptr;
  };
  for (const Bucket& bucket : artifact.buckets) {
    const Model& model = bucket.model;
    json constants = json::array();
    for (const ConstantData& constant : model.constants) {
      const bool referenced = weights == Weights::kReferenced && !constant.file.empty();
      json row = referenced ? reference(constant) : attached(constant);
      if (row.is_null())
        row = layout.place({reinterpret_cast<const char*>(constant.bytes->data()),
                            static_cast<size_t>(constant.bytes->bytes())});
      row["tensor"] = constant.tensor;
      constants.push_back(std::move(row));
    }
    header["buckets"].push_back(
        {{"name", model.program->name},
         {"dimensions", bucket.dimensions},
         {"inputs", ports_json(model.inputs)},
         {"outputs", ports_json(model.outputs)},
         {"program", layout.place(text_of(programs.emplace_back(isa::encode(*model.program))))},
         {"origin", layout.place(text_of(origins.emplace_back(encode(model.origin))))},
         {"constants", std::move(constants)}});
  }
  // Offsets count from the begin of the file, behind a header whose size depends on them: room for one more
  // digit or two per offset is left.
  const size_t begin = aligned(kPreamble + header.dump().size() + 24 * offset_count(header));
  move_pieces(header, begin);
  const std::string text = header.dump();
  OPENTRN_CHECK(kPreamble + text.size() <= begin, "a header of {} bytes in {}", text.size(), begin);
  const uint64_t header_bytes = text.size(), check = fnv1a(text);
  file.put(kMagic.data(), kMagic.size());
  file.put(&kVersion, sizeof kVersion);
  file.put(&header_bytes, sizeof header_bytes);
  file.put(&check, sizeof check);
  file.put(text.data(), text.size());
  for (const Layout::Piece& piece : layout.pieces()) {
    file.pad_to(begin + piece.offset);
    file.put(piece.bytes.data(), piece.bytes.size());
  }
}

struct Text {
  std::string bytes;

  void put(const void* data, size_t count) { bytes.append(static_cast<const char*>(data), count); }
  void pad_to(size_t offset) { bytes.resize(offset); }
};

Artifact read_container(const std::string& name, const std::shared_ptr<Holder>& container) {
  try {
    return read(name, container);
  } catch (const json::exception& error) {
    fail(name, fmt::format("has a header that cannot be read: {}", error.what()));
  }
}

}  // namespace

void save(const Artifact& artifact, const std::string& path, Weights weights) {
  NewFile file(path);
  write(artifact, weights, file);
  file.finish();
}

std::string to_bytes(const Artifact& artifact) {
  Text text;
  write(artifact, Weights::kCopied, text);
  return std::move(text.bytes);
}

Artifact load_artifact(const std::string& path) {
  return read_container(path, std::make_shared<Mapping>(path));
}

Artifact artifact_of(std::string_view bytes, const std::string& name) {
  return read_container(name, std::make_shared<Copy>(bytes));
}

bool is_model_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  char magic[4] = {};
  return file.read(magic, sizeof magic) && std::string_view(magic, sizeof magic) == kMagic;
}

}  // namespace opentrn::runtime
