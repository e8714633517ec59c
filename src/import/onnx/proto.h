// ONNX models as structs: what onnx.proto (onnx/onnx, IR version 3 to 13) says, read with protozero.
//
// Tensor data stays where it is: a Tensor names bytes of the model file. Field numbers are in proto.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace opentrn::import::onnx {

// TensorProto.DataType.
enum class DataType : int32_t {
  kUndefined = 0,
  kFloat = 1,
  kUint8 = 2,
  kInt8 = 3,
  kUint16 = 4,
  kInt16 = 5,
  kInt32 = 6,
  kInt64 = 7,
  kString = 8,
  kBool = 9,
  kFloat16 = 10,
  kDouble = 11,
  kUint32 = 12,
  kUint64 = 13,
  kComplex64 = 14,
  kComplex128 = 15,
  kBFloat16 = 16,
  kFloat8E4M3Fn = 17,
  kFloat8E4M3Fnuz = 18,
  kFloat8E5M2 = 19,
  kFloat8E5M2Fnuz = 20,
  kUint4 = 21,
  kInt4 = 22,
  kFloat4E2M1 = 23,
  kFloat8E8M0 = 24,
  kUint2 = 25,
  kInt2 = 26,
};

struct Tensor {
  std::string name;
  size_t offset = 0;  // of the message in the file
  DataType data_type = DataType::kUndefined;
  std::vector<int64_t> dims;
  std::span<const std::byte> raw;  // of the file; empty when a typed list holds the data
  bool has_raw = false;
  std::vector<float> floats;
  std::vector<double> doubles;
  std::vector<int32_t> int32s;
  std::vector<int64_t> int64s;
  std::vector<uint64_t> uint64s;
  bool external = false;
  std::map<std::string, std::string> external_data;  // location, offset, length
};

struct Graph;

struct AttributeValue {
  std::string name;
  std::string reference;  // inside a function: the function's attribute that gives the value
  int32_t type = 0;       // AttributeProto.AttributeType; 0 in old models
  std::optional<float> f;
  std::optional<int64_t> i;
  std::optional<std::string> s;
  std::shared_ptr<const Tensor> t;
  std::shared_ptr<const Graph> g;
  std::vector<float> floats;
  std::vector<int64_t> ints;
  std::vector<std::string> strings;
};

struct NodeProto {
  std::string name;
  std::string op_type;
  std::string domain;
  std::string overload;
  std::vector<std::string> inputs;  // "" where an optional input is left out
  std::vector<std::string> outputs;
  std::vector<AttributeValue> attributes;
  std::string name_scopes, stack_trace;  // what PyTorch's exporter says in the metadata (location.h)
  size_t offset = 0;                     // of the message in the file
};

struct Dimension {
  std::optional<int64_t>
      value;              // none also where the file says -1, as some exporters do for an open dimension
  std::string parameter;  // "batch"; "" when nothing is said
};

enum class TypeCase : uint8_t { kNone, kTensor, kSequence, kOptional, kMap, kSparse, kOpaque };

struct ValueInfo {
  std::string name;
  size_t offset = 0;  // of the message in the file
  TypeCase type = TypeCase::kNone;
  DataType element = DataType::kUndefined;
  bool has_shape = false;
  std::vector<Dimension> shape;
};

struct Graph {
  std::string name;
  std::vector<NodeProto> nodes;
  std::vector<Tensor> initializers;
  std::vector<ValueInfo> inputs;
  std::vector<ValueInfo> outputs;
  std::vector<ValueInfo> value_infos;
  bool has_sparse_initializers = false;
};

using OpsetVersions = std::map<std::string, int64_t>;  // "" is ai.onnx

struct FunctionProto {
  std::string name;
  std::string domain;
  std::string overload;
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
  std::vector<std::string> attributes;  // without default
  std::vector<AttributeValue> default_attributes;
  std::vector<NodeProto> nodes;
  OpsetVersions opsets;
};

struct Model {
  int64_t ir_version = 0;
  std::string producer;
  OpsetVersions opsets;
  Graph graph;
  std::vector<FunctionProto> functions;
};

// Input fault "onnx.protobuf" with the offset of the message that is broken. Tensors' raw bytes point into
// `bytes`.
Model read_model(std::span<const std::byte> bytes);

}  // namespace opentrn::import::onnx
