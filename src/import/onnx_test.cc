// Models written here byte by byte with protozero, imported and evaluated.
#include "import/onnx/onnx.h"

#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <protozero/pbf_writer.hpp>

#include "base/fault.h"
#include "base/random.h"
#include "base/temporary_folder_for_test.h"
#include "graph/element_value.h"
#include "graph/eval/evaluate.h"
#include "import/onnx/proto.h"
#include "import/onnx_writer_for_test.h"

namespace opentrn::import::onnx {
namespace {

using graph::ElementType;
using graph::Literal;
using graph::Type;
using protozero::pbf_writer;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int kOnnxFloat = 1;
constexpr int kOnnxInt64 = 7;

std::string tensor_of_floats(const std::string& name, const std::vector<int64_t>& dims,
                             const std::vector<float>& values) {
  std::string data;
  pbf_writer w(data);
  for (const int64_t dim : dims) w.add_int64(1, dim);
  w.add_int32(2, kOnnxFloat);
  w.add_string(8, name);
  w.add_bytes(9, reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  return data;
}

std::string tensor_of_integers(const std::string& name, const std::vector<int64_t>& values) {
  std::string data;
  pbf_writer w(data);
  w.add_int64(1, static_cast<int64_t>(values.size()));
  w.add_int32(2, kOnnxInt64);
  w.add_packed_int64(7, values.begin(), values.end());
  w.add_string(8, name);
  return data;
}

struct Attribute {
  std::string name;
  int64_t value;
};

std::string onnx_node(const std::string& op, const std::vector<std::string>& inputs,
                      const std::string& output, const std::vector<Attribute>& attributes = {},
                      const std::string& domain = "") {
  std::string data;
  pbf_writer w(data);
  for (const std::string& input : inputs) w.add_string(1, input);
  w.add_string(2, output);
  w.add_string(3, "node_of_" + output);
  w.add_string(4, op);
  for (const Attribute& attribute : attributes) {
    std::string one;
    pbf_writer a(one);
    a.add_string(1, attribute.name);
    a.add_int64(3, attribute.value);
    a.add_int32(20, 2);
    w.add_message(5, one);
  }
  w.add_string(7, domain);
  return data;
}

struct ModelText {
  std::vector<std::string> nodes, initializers, inputs, outputs;
  int64_t opset = 17;

  std::string bytes() const {
    std::string graph, opset_import, data;
    pbf_writer g(graph);
    for (const std::string& each : nodes) g.add_message(1, each);
    for (const std::string& each : initializers) g.add_message(5, each);
    for (const std::string& each : inputs) g.add_message(11, each);
    for (const std::string& each : outputs) g.add_message(12, each);
    pbf_writer(opset_import).add_int64(2, opset);
    pbf_writer m(data);
    m.add_int64(1, 8);
    m.add_message(7, graph);
    m.add_message(8, opset_import);
    return data;
  }
};

graph::Module imported(const std::string& bytes, const Options& options = {},
                       const ExternalFolder& folder = {}) {
  const auto copy = std::make_shared<const std::string>(bytes);
  return import_bytes(std::as_bytes(std::span(*copy)), copy, folder, options);
}

std::vector<float> run(const graph::Module& module, const std::vector<std::vector<float>>& arguments) {
  std::vector<graph::eval::RuntimeValue> values;
  const auto types = module.entry().argument_types();
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto bytes = std::as_bytes(std::span(arguments[i]));
    values.push_back({Literal(types[i], std::vector<std::byte>(bytes.begin(), bytes.end()))});
  }
  const auto results = graph::eval::evaluate(module, module.entry(), values);
  const auto bytes = results.at(0).literal().dense();
  std::vector<float> floats(bytes.size() / sizeof(float));
  std::memcpy(floats.data(), bytes.data(), bytes.size());
  return floats;
}

std::string label_of(auto&& call) {
  try {
    call();
  } catch (const Fault& fault) {
    return fault.label();
  }
  return "";
}

// y = x w + b with x [batch, 2].
ModelText linear() {
  ModelText m;
  m.inputs = {value_info("x", kOnnxFloat, {-1, 2})};
  m.outputs = {value_info("y", kOnnxFloat, {-1, 3})};
  m.initializers = {tensor_of_floats("w", {2, 3}, {1, 2, 3, 4, 5, 6}),
                    tensor_of_floats("b", {3}, {10, 20, 30})};
  m.nodes = {onnx_node("MatMul", {"x", "w"}, "product"), onnx_node("Add", {"product", "b"}, "y")};
  return m;
}

// The chain that exporters write for view(batch, -1): Shape, Gather, Unsqueeze, Concat, Reshape.
ModelText reshaping() {
  ModelText m;
  m.inputs = {value_info("x", kOnnxFloat, {-1, 2, 3})};
  m.outputs = {value_info("y", kOnnxFloat, {-1, 6})};
  m.initializers = {tensor_of_integers("zero", {0}), tensor_of_integers("minus_one", {-1})};
  m.nodes = {onnx_node("Shape", {"x"}, "shape"),
             onnx_node("Gather", {"shape", "zero"}, "size", {{"axis", 0}}),
             onnx_node("Concat", {"size", "minus_one"}, "target", {{"axis", 0}}),
             onnx_node("Reshape", {"x", "target"}, "y")};
  return m;
}

TEST(Onnx, AModelWithWeightsRuns) {
  const graph::Module module = imported(linear().bytes(), {.dimensions = {{"batch", 2}}, .constants = {}});
  EXPECT_THAT(run(module, {{1, 0, 0, 1}}), ElementsAre(11, 22, 33, 14, 25, 36));
}

TEST(Onnx, ASymbolicDimensionNeedsASize) {
  try {
    imported(linear().bytes());
    FAIL();
  } catch (const Fault& fault) {
    EXPECT_EQ(fault.label(), "onnx.dimension");
    EXPECT_THAT(fault.what(), HasSubstr("'batch' (dimension 0 of input 'x')"));
    EXPECT_THAT(fault.hint(), HasSubstr("dimensions={'batch': 1}"));
  }
}

// Exporters write "?" for all that they do not know, whose sizes differ.
TEST(Onnx, AQuestionMarkIsNoName) {
  ModelText m;
  m.inputs = {value_info("x", kOnnxFloat, {-1, -1}, "?")};
  m.outputs = {value_info("y", kOnnxFloat, {-1, -1}, "?")};
  m.nodes = {onnx_node("Neg", {"x"}, "y")};
  const graph::Module module = imported(m.bytes(), {.dimensions = {{"x.0", 1}, {"x.1", 2}}, .constants = {}});
  EXPECT_THAT(run(module, {{1, 2}}), ElementsAre(-1, -2));
  EXPECT_EQ(label_of([&] {
              imported(m.bytes(), {.dimensions = {{"?", 2}}, .constants = {}});
            }),
            "onnx.dimension");
}

TEST(Onnx, ASizeOfNoDimensionIsRefused) {
  try {
    imported(linear().bytes(), {.dimensions = {{"batch", 2}, {"btach", 3}}, .constants = {}});
    FAIL();
  } catch (const Fault& fault) {
    EXPECT_EQ(fault.label(), "onnx.dimension");
    EXPECT_THAT(fault.hint(), HasSubstr("did you mean 'batch'?"));
  }
}

TEST(Onnx, ShapeArithmeticFolds) {
  const graph::Module module = imported(reshaping().bytes(), {.dimensions = {{"batch", 4}}, .constants = {}});
  const graph::Function& main = module.entry();
  EXPECT_EQ(main.result_types[0].to_string(), "tensor<4x6xf32>");
  // The chain is gone: a reshape and the return are left.
  EXPECT_EQ(main.block(main.body()).ops.size(), 2U);
}

TEST(Onnx, AnOpsPlaceIsItsNodesName) {
  const graph::Module module = imported(linear().bytes(), {.dimensions = {{"batch", 2}}, .constants = {}});
  const graph::Function& main = module.entry();
  bool found = false;
  for (const graph::OpId id : main.block(main.body()).ops)
    found |= module.location(main.op(id).location).name == "node_of_product";
  EXPECT_TRUE(found);
}

TEST(Onnx, RefusalsNameOperatorAndNode) {
  ModelText m = linear();
  m.nodes[1] = onnx_node("NoSuchOperator", {"product", "b"}, "y");
  const Options options{.dimensions = {{"batch", 2}}, .constants = {}};
  try {
    imported(m.bytes(), options);
    FAIL();
  } catch (const Fault& fault) {
    EXPECT_EQ(fault.label(), "onnx.operator");
    EXPECT_THAT(fault.what(), HasSubstr("NoSuchOperator"));
    EXPECT_THAT(fault.what(), HasSubstr("node_of_y"));
  }
  m.nodes[1] = onnx_node("NonZero", {"product"}, "y");
  EXPECT_THAT(label_of([&] { imported(m.bytes(), options); }), "onnx.data_shape");
  m.nodes[1] = onnx_node("Add", {"product", "nobody"}, "y");
  EXPECT_EQ(label_of([&] { imported(m.bytes(), options); }), "onnx.name");
  m.nodes[1] = onnx_node("Add", {"product", "w"}, "y");
  m.initializers[0] = tensor_of_floats("w", {2, 3}, {1, 2, 3});
  EXPECT_EQ(label_of([&] { imported(m.bytes(), options); }), "onnx.tensor");
}

TEST(Onnx, IndicesAreWholeNumbers) {
  ModelText m = linear();
  m.nodes[1] = onnx_node("ScatterElements", {"product", "product", "product"}, "y");
  EXPECT_EQ(label_of([&] {
              imported(m.bytes(), {.dimensions = {{"batch", 2}}, .constants = {}});
            }),
            "onnx.whole_numbers");
}

TEST(Onnx, AttributesThatNoSizeCanBeAreRefused) {
  ModelText m;
  m.inputs = {value_info("x", kOnnxFloat, {1, 4, 2, 2})};
  m.outputs = {value_info("y", kOnnxFloat, {1, 1, 4, 4})};
  m.nodes = {onnx_node("DepthToSpace", {"x"}, "y", {{"blocksize", INT64_MAX}})};
  EXPECT_EQ(label_of([&] { imported(m.bytes()); }), "onnx.DepthToSpace");
  m.nodes = {onnx_node("Shape", {"x"}, "y", {{"end", INT64_MAX}})};
  m.opset = 15;
  EXPECT_EQ(label_of([&] { imported(m.bytes()); }), "");
}

TEST(Onnx, AttentionNeedsAValueHeadForEachKeyHead) {
  ModelText m;
  m.opset = 23;
  m.inputs = {value_info("q", kOnnxFloat, {1, 2, 4, 8}), value_info("v", kOnnxFloat, {1, 0, 4, 8})};
  m.outputs = {value_info("y", kOnnxFloat, {1, 2, 4, 8})};
  m.nodes = {onnx_node("Attention", {"q", "q", "v"}, "y")};
  EXPECT_EQ(label_of([&] { imported(m.bytes()); }), "onnx.Attention");
}

TEST(Onnx, InputsThatNoMemoryHoldsAreRefused) {
  ModelText m;
  m.inputs = {value_info("x", kOnnxFloat, {4, INT64_MAX, 1})};
  m.outputs = {value_info("y", kOnnxFloat, {4, INT64_MAX, 1})};
  m.nodes = {onnx_node("Relu", {"x"}, "y")};
  EXPECT_EQ(label_of([&] { imported(m.bytes()); }), "graph.type");
}

TEST(Onnx, OneBlockOfScalesMayBeLargerThanTheAxis) {
  ModelText m;
  m.opset = 21;
  m.inputs = {value_info("x", kOnnxFloat, {3, 2})};
  m.outputs = {value_info("y", kOnnxFloat, {3, 2})};
  m.initializers = {tensor_of_floats("scale", {1, 2}, {2, 0.5f})};
  m.nodes = {onnx_node("DequantizeLinear", {"x", "scale"}, "y", {{"axis", 0}, {"block_size", 1000}})};
  EXPECT_THAT(run(imported(m.bytes()), {{1, 2, 3, 4, 5, 6}}), ElementsAre(2, 1, 6, 2, 10, 3));
}

TEST(Onnx, AShapeThatIsAnInputNeedsItsValue) {
  ModelText m;
  m.inputs = {value_info("x", kOnnxFloat, {2, 3}), value_info("shape", kOnnxInt64, {1})};
  m.outputs = {value_info("y", kOnnxFloat, {6})};
  m.nodes = {onnx_node("Reshape", {"x", "shape"}, "y")};
  EXPECT_EQ(label_of([&] { imported(m.bytes()); }), "onnx.constant");
  const int64_t six = 6;
  const auto bytes = std::as_bytes(std::span(&six, 1));
  const Options options{
      .dimensions = {},
      .constants = {{"shape", Literal(Type::tensor(ElementType::kI64, {1}),
                                      std::vector<std::byte>(bytes.begin(), bytes.end()))}}};
  EXPECT_EQ(imported(m.bytes(), options).entry().result_types[0].to_string(), "tensor<6xf32>");
}

class ExternalData : public testing::Test {
 protected:
  void SetUp() override {
    const std::vector<float> values{0, 1, 2, 3, 4, 5, 6};
    std::ofstream(folder_.path() / "weights.bin", std::ios::binary)
        .write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(values.size() * 4));
  }

  static ModelText model(const std::string& location, const std::string& length) {
    std::string tensor;
    pbf_writer w(tensor);
    w.add_int64(1, 2);
    w.add_int64(1, 3);
    w.add_int32(2, kOnnxFloat);
    w.add_string(8, "w");
    for (const auto& [key, value] : std::vector<std::pair<std::string, std::string>>{
             {"location", location}, {"offset", "4"}, {"length", length}}) {
      std::string entry;
      pbf_writer e(entry);
      e.add_string(1, key);
      e.add_string(2, value);
      w.add_message(13, entry);
    }
    w.add_int32(14, 1);
    ModelText m = linear();
    m.initializers[0] = tensor;
    return m;
  }

  const TemporaryFolderForTest folder_;
  Options options_{.dimensions = {{"batch", 2}}, .constants = {}};
};

TEST_F(ExternalData, IsReadFromBesideTheModel) {
  const graph::Module module = imported(model("weights.bin", "24").bytes(), options_, folder_.path());
  EXPECT_THAT(run(module, {{1, 0, 0, 1}}), ElementsAre(11, 22, 33, 14, 25, 36));
}

TEST_F(ExternalData, StaysInTheModelsFolderAndInTheFile) {
  const auto label = [&](const std::string& location, const std::string& length) {
    return label_of([&] { imported(model(location, length).bytes(), options_, folder_.path()); });
  };
  for (const char* location : {"../weights.bin", "/etc/passwd", "a/../../weights.bin", "none.bin", "."})
    EXPECT_EQ(label(location, "24"), "onnx.external_data") << location;
  EXPECT_EQ(label("weights.bin", "28"), "onnx.external_data");
  EXPECT_EQ(label("weights.bin", "-1"), "onnx.external_data");
  std::filesystem::resize_file(folder_.path() / "weights.bin", 27);
  EXPECT_EQ(label("weights.bin", "24"), "onnx.external_data");
}

TEST_F(ExternalData, OfALinkTheRealPathCounts) {
  const auto inner = folder_.path() / "inner", blobs = folder_.path() / "blobs";
  for (const auto& each : {inner, blobs}) std::filesystem::create_directory(each);
  std::filesystem::create_symlink(folder_.path() / "weights.bin", inner / "link.bin");
  std::filesystem::create_symlink(folder_.path(), inner / "up");
  const auto label = [&](const std::string& location) {
    return label_of([&] { imported(model(location, "24").bytes(), options_, inner); });
  };
  EXPECT_EQ(label("link.bin"), "onnx.external_data");
  EXPECT_EQ(label("up/weights.bin"), "onnx.external_data");
  // A model and its data that are links to files of one folder, as in Hugging Face's cache.
  std::filesystem::rename(folder_.path() / "weights.bin", blobs / "1");
  std::ofstream(blobs / "2", std::ios::binary) << model("weights.bin", "24").bytes();
  std::filesystem::create_symlink(blobs / "1", inner / "weights.bin");
  std::filesystem::create_symlink(blobs / "2", inner / "model.onnx");
  const graph::Module module = import_file(inner / "model.onnx", options_);
  EXPECT_THAT(run(module, {{1, 0, 0, 1}}), ElementsAre(11, 22, 33, 14, 25, 36));
  EXPECT_EQ(external_parts(inner / "model.onnx").size(), 1u);
}

TEST_F(ExternalData, OnlyRegularFilesAreOpened) {
  ASSERT_EQ(::mkfifo((folder_.path() / "fifo").c_str(), 0600), 0);
  std::filesystem::create_directory(folder_.path() / "folder");
  for (const char* location : {"fifo", "folder"})
    EXPECT_EQ(label_of([&] { imported(model(location, "24").bytes(), options_, folder_.path()); }),
              "onnx.external_data");
}

// Of a tensor that nobody names no file is touched, wherever it says that its data is.
TEST_F(ExternalData, OfTensorsThatNobodyReadsIsLeftAlone) {
  ModelText m = model("weights.bin", "24");
  const std::string passwords = model("/etc/passwd", "24").initializers[0];
  std::string other = passwords;
  pbf_writer(other).add_string(8, "nobody");
  m.initializers.push_back(other);
  std::ofstream(folder_.path() / "model.onnx", std::ios::binary) << m.bytes();
  EXPECT_NO_THROW(import_file(folder_.path() / "model.onnx", options_));
  const auto parts = external_parts(folder_.path() / "model.onnx");
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_EQ(parts[0].location, "weights.bin");
  EXPECT_EQ(parts[0].begin, 4u);
  EXPECT_EQ(parts[0].bytes.size(), 24u);
}

TEST(OnnxProtobuf, FaultsSayWhere) {
  const std::string whole = linear().bytes();
  try {
    imported(whole.substr(0, whole.size() - 5));
    FAIL();
  } catch (const Fault& fault) {
    EXPECT_EQ(fault.kind(), FaultKind::kInput);
    EXPECT_THAT(fault.what(), HasSubstr("offset"));
  }
}

TEST(OnnxProtobuf, FieldsOfAnotherWireTypeAreFaults) {
  std::string graph_as_number, name_as_number, version_as_text, number_as_fixed;
  pbf_writer(graph_as_number).add_int64(7, 1);
  pbf_writer(version_as_text).add_string(1, "ten");
  std::string graph;
  pbf_writer(graph).add_int64(2, 40);
  pbf_writer(name_as_number).add_message(7, graph);
  std::string tensor, holder;
  pbf_writer(tensor).add_fixed64(1, 3);
  pbf_writer(holder).add_message(5, tensor);
  pbf_writer(number_as_fixed).add_message(7, holder);
  for (const std::string& model : {graph_as_number, version_as_text, name_as_number, number_as_fixed})
    EXPECT_EQ(label_of([&] { imported(model); }), "onnx.protobuf");
}

TEST(OnnxProtobuf, AFileWithoutAGraphIsNoModel) {
  std::string version_only;
  pbf_writer(version_only).add_int64(1, 8);
  for (const std::string& model : {std::string(), version_only})
    EXPECT_EQ(label_of([&] { imported(model); }), "onnx.protobuf");
}

TEST(OnnxProtobuf, GraphsNestToALimit) {
  std::string graph;
  for (int i = 0; i < 100; ++i) {
    std::string attribute, outer_node, outer;
    pbf_writer a(attribute);
    a.add_string(1, "body");
    a.add_message(6, graph);
    pbf_writer n(outer_node);
    n.add_string(4, "Loop");
    n.add_message(5, attribute);
    pbf_writer(outer).add_message(1, outer_node);
    graph = outer;
  }
  std::string model;
  pbf_writer(model).add_message(7, graph);
  EXPECT_EQ(label_of([&] { imported(model); }), "onnx.protobuf");
}

// Damaged models are faults of the input, of what is not modelled, or models: never a crash.
TEST(OnnxFuzz, DamagedModelsNeverCrash) {
  SplitMix64 random(20261121);
  const std::string originals[] = {linear().bytes(), reshaping().bytes()};
  for (int i = 0; i < 4000; ++i) {
    std::string bytes = originals[random.below(2)];
    for (uint32_t n = 1 + random.below(4); n > 0 && !bytes.empty(); --n) {
      const size_t at = random.below(static_cast<uint32_t>(bytes.size()));
      switch (random.below(4)) {
        case 0: bytes[at] = static_cast<char>(random.below(256)); break;
        case 1: bytes[at] = static_cast<char>(bytes[at] ^ (1 << random.below(8))); break;
        case 2: bytes.erase(at, 1 + random.below(8)); break;
        default:
          bytes.insert(at, bytes, random.below(static_cast<uint32_t>(bytes.size())), 1 + random.below(8));
      }
    }
    try {
      imported(bytes, {.dimensions = {{"batch", 2}}, .constants = {}});
    } catch (const Fault& fault) {
      EXPECT_TRUE(fault.kind() == FaultKind::kInput || fault.kind() == FaultKind::kNotModelled ||
                  fault.kind() == FaultKind::kCapacity)
          << fault.what();
    }
  }
}

TEST(OnnxOperators, HaveOneRowPerVersion) {
  std::set<std::pair<std::string, int64_t>> seen;
  for (const OperatorRow& row : operators())
    EXPECT_TRUE(seen.emplace(row.domain + "." + row.op_type, row.since).second) << row.op_type;
  EXPECT_GT(seen.size(), 170U);
}

}  // namespace
}  // namespace opentrn::import::onnx
