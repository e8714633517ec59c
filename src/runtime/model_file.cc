#include "runtime/model_file.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <fstream>
#include <tuple>

#include <sys/stat.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/checksum.h"
#include "base/interrupt.h"
#include "base/mapped_file.h"
#include "base/new_file.h"
#include "base/utf8.h"
#include "isa/file.h"
#include "runtime/origin_file.h"

namespace opentrn::runtime {

using nlohmann::json;

namespace {

constexpr std::string_view kMagic = "OTNM";
constexpr uint32_t kVersion = 3;
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

// The container's bytes, and who keeps them.
struct Container {
  std::string_view text;
  std::shared_ptr<const void> owner;
};

std::string_view text_of(const auto& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Container mapped(const std::string& path) {
  auto file = MappedFile::open(path, "model_file", "give a file that `opentrn compile` wrote",
                               MappedFile::Owner::kOpenTrn);
  const std::string_view text = text_of(file->bytes());
  return {text, std::move(file)};
}

// In memory, at a multiple of kAlignment as the file's pieces are.
Container copied(std::string_view bytes) {
  const auto release = [](char* data) { ::operator delete (data, std::align_val_t{kAlignment}); };
  std::shared_ptr<char> data(static_cast<char*>(::operator new (bytes.size(), std::align_val_t{kAlignment})),
                             release);
  if (!bytes.empty()) std::memcpy(data.get(), bytes.data(), bytes.size());
  const std::string_view text(data.get(), bytes.size());
  return {text, std::move(data)};
}

template <typename T>
T number_at(std::string_view bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

// What lies behind the header. Each piece has a checksum, which is compared when somebody first asks for
// bytes of it: of weights too, so a model whose file was damaged is refused rather than wrong.
class Pieces {
 public:
  Pieces(const std::string& path, std::string_view file, const json& rows) : path_(path), file_(file) {
    uint64_t end = kPreamble;
    for (const json& row : rows) {
      const Piece piece{row.at(0), row.at(1), row.at(2)};
      if (piece.offset < end || piece.offset > file.size() || piece.bytes > file.size() - piece.offset)
        fail(path, fmt::format("a piece at offset {}, {} bytes, reaches into another or beyond the file's {}",
                               piece.offset, piece.bytes, file.size()));
      end = piece.offset + piece.bytes;
      pieces_.push_back(piece);
    }
  }

  std::string_view at(const json& place, std::string_view what) {
    const auto offset = place.at("offset").get<uint64_t>(), bytes = place.at("bytes").get<uint64_t>();
    auto found = std::ranges::upper_bound(pieces_, offset, {}, &Piece::offset);
    const bool known = found != pieces_.begin();
    if (known) --found;
    if (!known || offset - found->offset > found->bytes || bytes > found->bytes - (offset - found->offset))
      fail(path_, fmt::format("{} at offset {}, {} bytes, lies in no piece", what, offset, bytes));
    const std::string_view piece = file_.substr(found->offset, found->bytes);
    if (!found->checked && checksum(piece) != found->sum)
      fail(path_, fmt::format("is damaged: {} at offset {} is not what was written", what, offset));
    found->checked = true;
    return piece.substr(offset - found->offset, bytes);
  }

 private:
  struct Piece {
    uint64_t offset = 0, bytes = 0, sum = 0;
    bool checked = false;
  };
  const std::string& path_;
  std::string_view file_;
  std::vector<Piece> pieces_;
};

void check_tensor(const std::string& path, const isa::Program& program, isa::TensorId tensor,
                  std::string_view what) {
  if (tensor >= program.tensor_count() || !isa::is_hbm(program.tensor(tensor).space))
    fail(path, fmt::format("{} is tensor {}, which is not an HBM tensor of the program", what, tensor));
}

std::vector<Port> ports_of(const std::string& path, const isa::Program& program, const json& rows) {
  std::vector<Port> ports;
  for (const json& row : rows) {
    Port port{row.at("name"), row.at("tensor"), row.at("element"), row.at("shape")};
    check_tensor(path, program, port.tensor, port.name);
    const isa::Tensor& tensor = program.tensor(port.tensor);
    int64_t elements = port.element.starts_with("complex<") ? 2 : 1;  // pairs in memory
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
  std::shared_ptr<const MappedFile> open(const std::string& path, const json& row) {
    const std::string name = row.at("file");
    auto& found = files_[name];
    if (!found) {
      const FileFacts now = facts_of(name);
      if (now.bytes != row.at("file_bytes").get<int64_t>() ||
          now.modified_ns != row.at("file_modified_ns").get<int64_t>())
        fail(path, fmt::format("takes weights from {}, which {}", name,
                               now.bytes < 0 ? "is gone" : "has changed since"));
      found = MappedFile::open(name, "model_file", "compile the model again");
    }
    return found;
  }

 private:
  std::map<std::string, std::shared_ptr<const MappedFile>> files_;
};

// Bytes of the user's file that a constant refers to.
std::string_view referenced_bytes(const std::string& path, const MappedFile& file, const json& row) {
  const std::string_view all = text_of(file.bytes());
  const auto offset = row.at("offset").get<uint64_t>(), bytes = row.at("bytes").get<uint64_t>();
  if (offset > all.size() || bytes > all.size() - offset)
    fail(path, fmt::format("a constant at offset {}, {} bytes, reaches beyond the {} of {}", offset, bytes,
                           all.size(), file.path().string()));
  return all.substr(offset, bytes);
}

Generation generation_of(const std::string& path, int version) {
  const auto found = generation_of_version(version);
  if (!found) fail(path, fmt::format("is for NeuronCore-v{}", version));
  return *found;
}

class ModelReader {
 public:
  ModelReader(const std::string& path, const Container& container, const json& header)
      : path_(path),
        container_(container),
        pieces_(path, container.text, header.at("pieces")),
        generation_(generation_of(path, header.at("generation").get<int>())) {
    if (header.contains("attachments"))
      for (const json& row : header.at("attachments"))
        attachments.push_back({row.at("name"), pieces_.at(row, "an attached file"), container.owner, "",
                               row.at("begin").get<uint64_t>()});
  }

  Model model(const json& row) {
    Model model;
    model.generation = generation_;
    const std::string_view program = pieces_.at(row.at("program"), "the program");
    model.program = std::make_shared<isa::Program>(isa::decode_program(bytes_of(program), path_));
    model.origin =
        decode_origin(bytes_of(pieces_.at(row.at("origin"), "the table of ops")), model.program->size());
    model.inputs = ports_of(path_, *model.program, row.at("inputs"));
    model.outputs = ports_of(path_, *model.program, row.at("outputs"));
    for (const json& constant : row.at("constants"))
      model.constants.push_back(read_constant(*model.program, constant));
    return model;
  }

  std::vector<Attachment> attachments;

 private:
  static std::span<const std::byte> bytes_of(std::string_view text) {
    return std::as_bytes(std::span(text.data(), text.size()));
  }

  ConstantData read_constant(const isa::Program& program, const json& row) {
    const isa::TensorId id = row.at("tensor");
    check_tensor(path_, program, id, "a constant");
    const isa::Tensor& tensor = program.tensor(id);
    const bool referenced = row.contains("file");
    std::shared_ptr<const void> owner = container_.owner;
    std::string_view bytes;
    if (referenced) {
      const auto file = weights_.open(path_, row);
      bytes = referenced_bytes(path_, *file, row);
      owner = file;
    } else {
      bytes = pieces_.at(row, "a constant");
      expect_aligned(bytes, tensor, id);
    }
    if (static_cast<int64_t>(bytes.size()) != tensor.bytes())
      fail(path_,
           fmt::format("tensor {} has {} bytes of data; it takes {}", id, bytes.size(), tensor.bytes()));
    ConstantData constant{id,
                          sim::Buffer::wrap_read_only(bytes.data(), static_cast<int64_t>(bytes.size()),
                                                      std::const_pointer_cast<void>(owner)),
                          "", 0};
    if (referenced) {
      constant.file = row.at("file");
      constant.file_offset = row.at("offset");
    }
    return constant;
  }

  // What a writer placed is aligned. Inside an attached file a constant lies where that file has it, as in a
  // model that is compiled from the file.
  void expect_aligned(std::string_view bytes, const isa::Tensor& tensor, isa::TensorId id) const {
    const auto address = reinterpret_cast<uintptr_t>(bytes.data());
    if (address % static_cast<uintptr_t>(size_bytes(tensor.dtype)) == 0) return;
    for (const Attachment& file : attachments)
      if (bytes.data() >= file.bytes.data() && bytes.data() < file.bytes.data() + file.bytes.size()) return;
    fail(path_, fmt::format("the data of tensor {} is at offset {}, which is not a place for {}", id,
                            bytes.data() - container_.text.data(), name(tensor.dtype)));
  }

  const std::string& path_;
  const Container& container_;
  Pieces pieces_;
  Generation generation_;
  WeightFiles weights_;
};

json header_of(const std::string& path, const Container& container) {
  const std::string_view file = container.text;
  if (file.size() < kPreamble || file.substr(0, 4) != kMagic) fail(path, "is not a compiled model");
  if (const auto version = number_at<uint32_t>(file, 4); version != kVersion)
    fail(path,
         fmt::format("is of version {} of the format, and this OpenTrn reads version {}", version, kVersion));
  const auto header_bytes = number_at<uint64_t>(file, 8);
  if (header_bytes > file.size() - kPreamble) fail(path, "ends within its header");
  const std::string_view text = file.substr(kPreamble, header_bytes);
  if (checksum(text) != number_at<uint64_t>(file, 16)) fail(path, "has a damaged header");
  return json::parse(text);
}

std::map<std::string, std::string> facts_of(const json& header) {
  return header.at("facts").get<std::map<std::string, std::string>>();
}

Artifact read(const std::string& path, const Container& container) {
  const json header = header_of(path, container);
  Artifact artifact;
  artifact.facts = facts_of(header);
  ModelReader reader(path, container, header);
  for (const json& row : header.at("buckets"))
    artifact.buckets.push_back(
        {row.at("dimensions").get<std::map<std::string, int64_t>>(), reader.model(row)});
  if (artifact.buckets.empty()) fail(path, "holds no program");
  artifact.attachments = std::move(reader.attachments);
  return artifact;
}

// Pieces of the file, in order, each written once however often it is asked for.
class Layout {
 public:
  // Where the piece lies, from the begin of the pieces. `bytes` must outlive the layout.
  json place(std::string_view bytes) {
    const uint64_t sum = checksum(bytes);
    auto& same = known_[{bytes.size(), sum}];
    for (const size_t number : same)
      if (pieces_[number].bytes == bytes) return at(pieces_[number]);
    same.push_back(pieces_.size());
    pieces_.push_back({end_, bytes, sum});
    end_ = aligned(end_ + bytes.size());
    return at(pieces_.back());
  }
  struct Piece {
    size_t offset;
    std::string_view bytes;
    uint64_t sum;
  };
  const std::vector<Piece>& pieces() const { return pieces_; }
  json table() const {
    json rows = json::array();
    for (const Piece& piece : pieces_) rows.push_back({piece.offset, piece.bytes.size(), piece.sum});
    return rows;
  }

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
  return count + header["attachments"].size() + header["pieces"].size();
}

void move_pieces(json& header, size_t by) {
  const auto move = [by](json& place) { place["offset"] = place["offset"].get<size_t>() + by; };
  for (json& piece : header["pieces"]) piece[0] = piece[0].get<size_t>() + by;
  for (json& attachment : header["attachments"]) move(attachment);
  for (json& bucket : header["buckets"]) {
    move(bucket["program"]);
    move(bucket["origin"]);
    for (json& constant : bucket["constants"])
      if (!constant.contains("file")) move(constant);
  }
}

// Hands the container's bytes, in order, to `file`: put(data, bytes) and pad_to(offset).
void write(const Artifact& artifact, Weights weights, auto& file) {
  OPENTRN_CHECK(!artifact.buckets.empty(), "an artifact without a program");
  std::deque<std::vector<std::byte>> programs;
  std::deque<std::vector<std::byte>> origins;
  Layout layout;
  json header{{"generation", version(artifact.buckets[0].model.generation)},
              {"facts", artifact.facts},
              {"buckets", json::array()},
              {"attachments", json::array()}};
  for (const Attachment& attachment : artifact.attachments) {
    json row = layout.place(attachment.bytes);
    row["name"] = attachment.name;
    row["begin"] = attachment.begin;
    header["attachments"].push_back(std::move(row));
  }
  // Where in the container a constant lies that is part of an attached file.
  const auto attached = [&](const ConstantData& constant) -> json {
    for (size_t i = 0; i < artifact.attachments.size(); ++i) {
      const Attachment& attachment = artifact.attachments[i];
      const auto in_file = static_cast<size_t>(constant.file_offset),
                 bytes = static_cast<size_t>(constant.bytes->bytes());
      if (constant.file.empty() || attachment.path != constant.file || in_file < attachment.begin) continue;
      const size_t offset = in_file - attachment.begin;
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
      const bool referenced =
          weights == Weights::kReferenced && !constant.file.empty() && is_utf8(constant.file);
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
  header["pieces"] = layout.table();
  const auto dumped = [&] { return header.dump(-1, ' ', false, json::error_handler_t::replace); };
  const size_t begin = aligned(kPreamble + dumped().size() + 24 * offset_count(header));
  move_pieces(header, begin);
  const std::string text = dumped();
  OPENTRN_CHECK(kPreamble + text.size() <= begin, "a header of {} bytes in {}", text.size(), begin);
  const uint64_t header_bytes = text.size(), check = checksum(text);
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

auto read_by(auto&& reader, const std::string& name, const Container& container) {
  try {
    return reader(name, container);
  } catch (const json::exception& error) {
    fail(name, fmt::format("has a header that cannot be read: {}", error.what()));
  }
}

}  // namespace

void save(const Artifact& artifact, const std::string& path, Weights weights, unsigned permissions) {
  NewFile file(path, "model_file", "give another path with -o", permissions);
  write(artifact, weights, file);
  file.finish();
}

std::string to_bytes(const Artifact& artifact) {
  Text text;
  write(artifact, Weights::kCopied, text);
  return std::move(text.bytes);
}

Artifact load_artifact(const std::string& path) { return read_by(read, path, mapped(path)); }

std::map<std::string, std::string> load_facts(const std::string& path) {
  const auto facts = [](const std::string& name, const Container& container) {
    return facts_of(header_of(name, container));
  };
  return read_by(facts, path, mapped(path));
}

Artifact artifact_of(std::string_view bytes, const std::string& name) {
  return read_by(read, name, copied(bytes));
}

bool is_model_file(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return false;  // nothing is waited for
  std::ifstream file(path, std::ios::binary);
  char magic[4] = {};
  return file.read(magic, sizeof magic) && std::string_view(magic, sizeof magic) == kMagic;
}

}  // namespace opentrn::runtime
