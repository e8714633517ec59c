// TensorProto to graph::Literal.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "graph/literal.h"
#include "import/onnx/external_data.h"
#include "import/onnx/onnx.h"
#include "import/onnx/proto.h"

namespace opentrn::import::onnx {

// The graph's element type; not-modelled fault for strings.
graph::ElementType element_type(DataType type);
DataType data_type(graph::ElementType element);
// Of a tensor's data; input fault for a negative dimension.
graph::Type tensor_type(const Tensor& tensor);

// Where tensor data lies: the model's own bytes, and files beside it, each mapped once. Literals share what
// they can and hold the mapping; packed 4- and 2-bit elements and typed lists are copied.
class TensorReader {
 public:
  // `folder`: where external data is looked for that is not in `files`. `owner` keeps the model's bytes.
  TensorReader(ExternalFolder folder, std::shared_ptr<const void> owner, Options::Files files = {})
      : folder_(std::move(folder)), owner_(std::move(owner)), files_(std::move(files)) {}

  graph::Literal literal(const Tensor& tensor);

 private:
  std::span<const std::byte> external_bytes(const Tensor& tensor, std::shared_ptr<const void>& owner);

  ExternalFolder folder_;
  std::shared_ptr<const void> owner_;
  Options::Files files_;                                           // given in place of the folder's
  std::map<std::string, std::shared_ptr<const MappedFile>> open_;  // of the folder, by location
};

}  // namespace opentrn::import::onnx
