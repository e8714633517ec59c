// Data of tensors that lies in files beside an ONNX model: which files those may be, and which of their
// bytes.
//
// A model is a file from anywhere, and what it names here is read, hashed and copied into what is made of it.
// So everybody who touches such a file asks here: the reader of tensors, the cache's key and what goes along
// with a model of several stages.
#pragma once

#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "import/onnx/proto.h"

namespace opentrn::import::onnx {

// The folder that the files of a model lie in.
class ExternalFolder {
 public:
  // None: data outside the model's own bytes is refused.
  ExternalFolder() = default;
  // Implicit: most callers have a folder, and no model file in it.
  ExternalFolder(const std::filesystem::path& folder);  // NOLINT(google-explicit-constructor)
  // The folder of a model file. Where the file is a link, its target's folder counts as well, as in Hugging
  // Face's cache, where a model and its data are links to files that lie side by side.
  static ExternalFolder of_model(const std::filesystem::path& model);

  bool empty() const { return folder_.empty(); }
  // The file at `location`, which tensor `tensor` names. Input fault "onnx.external_data" when it is not
  // there, is no regular file, or its real path lies outside the model's folder.
  std::filesystem::path resolved(const std::string& location, const std::string& tensor) const;
  std::shared_ptr<const MappedFile> open(const std::string& location, const std::string& tensor) const;

 private:
  std::filesystem::path folder_;             // as given: locations count from it
  std::vector<std::filesystem::path> real_;  // without links
  std::string model_;                        // as messages call it
};

// Bytes of a file beside the model.
struct DataRange {
  std::string location;  // normalised, relative to the model
  std::string tensor;    // who names it
  int64_t offset = 0, bytes = 0;
};

// Which bytes the tensor declares: as many as its type takes. Input fault when it declares others, or a place
// that is outside the model's folder by its name alone.
DataRange declared_range(const Tensor& tensor);

// The ranges of all tensors that importing the model reads: not those of functions that nobody calls, nor of
// initializers that nobody names. In order, those that touch put together.
std::vector<DataRange> declared_ranges(const Model& model);

// The names that nodes, outputs and inputs of the model use, in all its graphs.
std::set<std::string> names_used(const Model& model);

}  // namespace opentrn::import::onnx
