// TensorProto to graph::Literal.
#pragma once

#include <filesystem>
#include <map>
#include <memory>

#include "graph/literal.h"
#include "import/onnx/onnx.h"
#include "import/onnx/proto.h"

namespace opentrn::import::onnx {

// A file mapped into memory, read-only.
class MappedFile {
 public:
  // Input fault when it cannot be opened.
  static std::shared_ptr<const MappedFile> open(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  explicit MappedFile(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::span<const std::byte> bytes_;
};

// The graph's element type; not-modelled fault for strings.
graph::ElementType element_type(DataType type);
DataType data_type(graph::ElementType element);

// Where tensor data lies: the model's own bytes, and files beside it, each mapped once. Literals share what
// they can and hold the mapping; packed 4- and 2-bit elements and typed lists are copied.
class TensorReader {
 public:
  // `folder`: where external data is looked for that is not in `files`; empty refuses it. `owner` keeps the
  // model's bytes.
  TensorReader(std::filesystem::path folder, std::shared_ptr<const void> owner,
               std::map<std::string, Options::File> files = {})
      : folder_(std::move(folder)), owner_(std::move(owner)), files_(std::move(files)) {}

  graph::Literal literal(const Tensor& tensor);

 private:
  std::span<const std::byte> external_bytes(const Tensor& tensor, std::shared_ptr<const void>& owner);

  std::filesystem::path folder_;
  std::shared_ptr<const void> owner_;
  std::map<std::string, Options::File> files_;
};

}  // namespace opentrn::import::onnx
