#include "runtime/model_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "isa/file.h"

namespace opentrn::runtime {

using nlohmann::json;

namespace {

constexpr std::string_view kMagic = "OTNM";
constexpr uint32_t kVersion = 1;
constexpr size_t kPreamble = 24;
constexpr size_t kAlignment = 64;

[[noreturn]] void fail(const std::string& path, std::string message) {
  throw Fault(FaultKind::kInput, "model_file", fmt::format("{}: {}", path, message),
              "write the file again with `opentrn compile`");
}

uint64_t fnv1a(std::string_view bytes) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : bytes) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
  return hash;
}

size_t aligned(size_t offset) { return (offset + kAlignment - 1) / kAlignment * kAlignment; }

json ports_json(const std::vector<Port>& ports) {
  json rows = json::array();
  for (const Port& port : ports)
    rows.push_back(
        {{"name", port.name}, {"tensor", port.tensor}, {"element", port.element}, {"shape", port.shape}});
  return rows;
}

// A file in memory for as long as somebody holds it.
class Mapping {
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
  ~Mapping() {
    if (data_ != nullptr && data_ != MAP_FAILED) ::munmap(data_, size_);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  std::string_view text() const { return {static_cast<const char*>(data_), size_}; }

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

Model read(const std::string& path, const std::shared_ptr<Mapping>& mapping) {
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
  Model model;
  const int generation = header.at("generation");
  if (generation < 1 || generation > 4) fail(path, fmt::format("is for NeuronCore-v{}", generation));
  model.generation = static_cast<arch::Generation>(generation);
  const std::string_view program = piece(path, file, header.at("program"), "the program");
  model.program = std::make_shared<isa::Program>(
      isa::decode_program({reinterpret_cast<const std::byte*>(program.data()), program.size()}, path));
  model.inputs = ports_of(path, *model.program, header.at("inputs"));
  model.outputs = ports_of(path, *model.program, header.at("outputs"));
  for (const json& row : header.at("constants")) {
    const isa::TensorId tensor = row.at("tensor");
    check_tensor(path, *model.program, tensor, "a constant");
    const std::string_view bytes = piece(path, file, row, "a constant");
    if (static_cast<int64_t>(bytes.size()) != model.program->tensor(tensor).bytes())
      fail(path, fmt::format("tensor {} has {} bytes of data; it takes {}", tensor, bytes.size(),
                             model.program->tensor(tensor).bytes()));
    model.constants.push_back(
        {tensor, sim::Buffer::wrap_read_only(bytes.data(), static_cast<int64_t>(bytes.size()), mapping)});
  }
  return model;
}

}  // namespace

void save(const Model& model, const std::string& path) {
  const std::vector<std::byte> program = isa::encode(*model.program);
  json header{{"name", model.program->name},
              {"generation", static_cast<int>(model.generation)},
              {"inputs", ports_json(model.inputs)},
              {"outputs", ports_json(model.outputs)}};
  // The header says where things lie, and its own size moves them: a few rounds settle it.
  std::string text;
  size_t begin = 0;
  for (int round = 0; round < 8; ++round) {
    size_t at = begin;
    header["program"] = {{"offset", at}, {"bytes", program.size()}};
    at = aligned(at + program.size());
    json constants = json::array();
    for (const ConstantData& constant : model.constants) {
      constants.push_back({{"tensor", constant.tensor}, {"offset", at}, {"bytes", constant.bytes->bytes()}});
      at = aligned(at + static_cast<size_t>(constant.bytes->bytes()));
    }
    header["constants"] = std::move(constants);
    text = header.dump();
    const size_t needed = aligned(kPreamble + text.size());
    if (needed <= begin) break;
    begin = needed + kAlignment;
  }
  std::ofstream file(path, std::ios::binary);
  size_t written = 0;
  const auto put = [&](const void* data, size_t bytes) {
    file.write(static_cast<const char*>(data), static_cast<std::streamsize>(bytes));
    written += bytes;
  };
  const auto pad_to = [&](size_t offset) {
    static constexpr char kZeros[2 * kAlignment] = {};
    while (written < offset) put(kZeros, std::min(sizeof kZeros, offset - written));
  };
  const uint64_t header_bytes = text.size(), check = fnv1a(text);
  put(kMagic.data(), kMagic.size());
  put(&kVersion, sizeof kVersion);
  put(&header_bytes, sizeof header_bytes);
  put(&check, sizeof check);
  put(text.data(), text.size());
  pad_to(begin);
  put(program.data(), program.size());
  for (const ConstantData& constant : model.constants) {
    pad_to(aligned(written));
    put(constant.bytes->data(), static_cast<size_t>(constant.bytes->bytes()));
  }
  file.flush();
  if (!file)
    throw Fault(FaultKind::kInput, "model_file",
                fmt::format("{} cannot be written: {}", path, std::strerror(errno)),
                "does the folder exist, and is there room?");
}

Model load_model(const std::string& path) {
  const auto mapping = std::make_shared<Mapping>(path);
  try {
    return read(path, mapping);
  } catch (const json::exception& error) {
    fail(path, fmt::format("has a header that cannot be read: {}", error.what()));
  }
}

bool is_model_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  char magic[4] = {};
  return file.read(magic, sizeof magic) && std::string_view(magic, sizeof magic) == kMagic;
}

}  // namespace opentrn::runtime
