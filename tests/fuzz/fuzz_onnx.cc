// ONNX models of one node of every operator, with inputs, attributes and subgraphs that may be anything,
// whole and damaged: a module that verifies and prints, or a fault of the file's that says where; never a
// crash, a hang or memory without end.
#include <limits>

#include <protozero/pbf_writer.hpp>

#include "graph/element_value.h"
#include "graph/text/text.h"
#include "import/load.h"
#include "import/onnx/onnx.h"
#include "import/onnx/stages.h"
#include "import/onnx_writer_for_test.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/mutate.h"

namespace opentrn::fuzz {

namespace {

using import::onnx::value_info;
using protozero::pbf_writer;

// TensorProto.DataType and AttributeProto.AttributeType of onnx.proto.
constexpr int kFloat = 1, kInt64 = 7, kLastType = 26;
enum Kind : int { kReal = 1, kInteger = 2, kString = 3, kTensor = 4, kGraph = 5, kReals = 6, kIntegers = 7 };

struct Attribute {
  std::string_view name;
  Kind kind;
};
constexpr Attribute kAttributes[] = {{"axis", kInteger},
                                     {"axes", kIntegers},
                                     {"alpha", kReal},
                                     {"beta", kReal},
                                     {"gamma", kReal},
                                     {"epsilon", kReal},
                                     {"bias", kReal},
                                     {"scale", kReal},
                                     {"scales", kReals},
                                     {"clip", kReal},
                                     {"lambd", kReal},
                                     {"min", kReal},
                                     {"max", kReal},
                                     {"softcap", kReal},
                                     {"spatial_scale", kReal},
                                     {"threshold", kReal},
                                     {"cubic_coeff_a", kReal},
                                     {"extrapolation_value", kReal},
                                     {"mode", kString},
                                     {"direction", kString},
                                     {"reduction", kString},
                                     {"auto_pad", kString},
                                     {"equation", kString},
                                     {"approximate", kString},
                                     {"padding_mode", kString},
                                     {"nearest_mode", kString},
                                     {"coordinate_transformation_mode", kString},
                                     {"keep_aspect_ratio_policy", kString},
                                     {"activations", kString},
                                     {"round_mode", kString},
                                     {"group", kInteger},
                                     {"pads", kIntegers},
                                     {"strides", kIntegers},
                                     {"dilations", kIntegers},
                                     {"kernel_shape", kIntegers},
                                     {"output_padding", kIntegers},
                                     {"output_shape", kIntegers},
                                     {"starts", kIntegers},
                                     {"ends", kIntegers},
                                     {"split", kIntegers},
                                     {"shape", kIntegers},
                                     {"perm", kIntegers},
                                     {"value_ints", kIntegers},
                                     {"value_int", kInteger},
                                     {"value_float", kReal},
                                     {"value_floats", kReals},
                                     {"value", kTensor},
                                     {"to", kInteger},
                                     {"dtype", kInteger},
                                     {"output_dtype", kInteger},
                                     {"stash_type", kInteger},
                                     {"keepdims", kInteger},
                                     {"p", kInteger},
                                     {"k", kInteger},
                                     {"blocksize", kInteger},
                                     {"block_size", kInteger},
                                     {"q_num_heads", kInteger},
                                     {"kv_num_heads", kInteger},
                                     {"num_heads", kInteger},
                                     {"num_groups", kInteger},
                                     {"num_outputs", kInteger},
                                     {"hidden_size", kInteger},
                                     {"is_causal", kInteger},
                                     {"transA", kInteger},
                                     {"transB", kInteger},
                                     {"ceil_mode", kInteger},
                                     {"count_include_pad", kInteger},
                                     {"storage_order", kInteger},
                                     {"batch_dims", kInteger},
                                     {"batch_axis", kInteger},
                                     {"time_axis", kInteger},
                                     {"layout", kInteger},
                                     {"start", kInteger},
                                     {"end", kInteger},
                                     {"size", kInteger},
                                     {"upper", kInteger},
                                     {"exclusive", kInteger},
                                     {"reverse", kInteger},
                                     {"largest", kInteger},
                                     {"sorted", kInteger},
                                     {"fmod", kInteger},
                                     {"allowzero", kInteger},
                                     {"noop_with_empty_axes", kInteger},
                                     {"select_last_index", kInteger},
                                     {"onesided", kInteger},
                                     {"inverse", kInteger},
                                     {"periodic", kInteger},
                                     {"sampling_ratio", kInteger},
                                     {"output_height", kInteger},
                                     {"output_width", kInteger},
                                     {"offset_group", kInteger},
                                     {"rotary_embedding_dim", kInteger},
                                     {"interleaved", kInteger},
                                     {"ignore_index", kInteger},
                                     {"left_window_size", kInteger},
                                     {"right_window_size", kInteger},
                                     {"precision", kInteger},
                                     {"training_mode", kInteger},
                                     {"antialias", kInteger},
                                     {"exclude_outside", kInteger},
                                     {"num_scan_inputs", kInteger},
                                     {"scan_input_axes", kIntegers},
                                     {"scan_output_axes", kIntegers},
                                     {"scan_input_directions", kIntegers},
                                     {"scan_output_directions", kIntegers},
                                     {"body", kGraph},
                                     {"then_branch", kGraph},
                                     {"else_branch", kGraph}};
constexpr std::string_view kStrings[] = {
    "",        "SAME_UPPER", "SAME_LOWER", "VALID",         "NOTSET",        "linear",
    "nearest", "cubic",      "bilinear",   "constant",      "reflect",       "edge",
    "wrap",    "add",        "mul",        "max",           "none",          "mean",
    "sum",     "forward",    "reverse",    "bidirectional", "tanh",          "relu",
    "silu",    "swiglu",     "half_pixel", "asymmetric",    "align_corners", "tf_crop_and_resize",
    "DCR",     "CRD",        "LEFT",       "ij,jk->ik",     "...ii->...i",   "i,->",
    "->",      "abc,cd",     "\xff"};

// Of fused operators (com.microsoft): with them and sizes that divide each other, cases come past the first
// checks.
constexpr Attribute kFusedAttributes[] = {{"num_heads", kInteger},
                                          {"kv_num_heads", kInteger},
                                          {"q_num_heads", kInteger},
                                          {"k", kInteger},
                                          {"N", kInteger},
                                          {"K", kInteger},
                                          {"bits", kInteger},
                                          {"block_size", kInteger},
                                          {"expert_weight_bits", kInteger},
                                          {"swiglu_fusion", kInteger},
                                          {"gather_axis", kInteger},
                                          {"quantize_axis", kInteger},
                                          {"local_window_size", kInteger},
                                          {"sliding_window_cache", kInteger},
                                          {"do_rotary", kInteger},
                                          {"causal", kInteger},
                                          {"unidirectional", kInteger},
                                          {"rotary_embedding_dim", kInteger},
                                          {"activation_type", kString},
                                          {"activation", kString},
                                          {"softcap", kReal},
                                          {"scale", kReal},
                                          {"qkv_hidden_sizes", kIntegers}};

class Model {
 public:
  explicit Model(uint64_t seed) : random_(seed) {}

  std::vector<std::byte> bytes() {
    static const std::vector<import::onnx::OperatorRow> operators = import::onnx::operators();
    const auto& row = operators[below(operators.size())];
    std::string inputs, values, attributes, names;
    pbf_writer node(names);
    std::string graph;
    pbf_writer g(graph);
    fits_ = row.domain == "com.microsoft" && random_.below(4) != 0;
    const uint32_t count = random_.below(fits_ ? 18 : 6);
    std::vector<int64_t> usual = dims();
    const bool lists = row.op_type.find("Sequence") != std::string::npos || random_.below(16) == 0;
    if (lists) {
      add_node(g, "SequenceConstruct", {"x0", "x1", "x0"}, "s0");
      add_node(g, "SplitToSequence", {"x0"}, "s1");
      add_node(g, "Optional", {"x1"}, "s2");
    }
    for (uint32_t i = 0; i < count; ++i) {
      const std::string name = random_.below(12) == 0 ? "" : fmt::format("x{}", i);
      node.add_string(1, lists && random_.below(2) == 0 ? fmt::format("s{}", random_.below(3)) : name);
      if (name.empty()) continue;
      if (random_.below(3) == 0) usual = dims();
      const int type = random_.below(2) == 0 ? kFloat : element();
      if (random_.below(3) == 0)
        g.add_message(5, tensor(name));
      else
        g.add_message(11, value_info(name, type, usual));
    }
    const uint32_t outputs = 1 + random_.below(3);
    for (uint32_t i = 0; i < outputs; ++i) {
      node.add_string(2, fmt::format("y{}", i));
      if (random_.below(2) == 0 || i == 0) g.add_message(12, value_info(fmt::format("y{}", i), kFloat, {}));
    }
    node.add_string(3, "the_node");
    node.add_string(4, row.op_type);
    for (uint32_t n = random_.below(fits_ ? 9 : 5); n > 0; --n)
      node.add_message(5, attribute(fits_ ? kFusedAttributes[below(std::size(kFusedAttributes))]
                                          : kAttributes[below(std::size(kAttributes))]));
    node.add_string(7, row.domain);
    g.add_message(1, names);
    g.add_string(2, "graph");
    std::string model;
    pbf_writer m(model);
    m.add_int64(1, 10);
    m.add_message(7, graph);
    std::string opset;
    pbf_writer o(opset);
    o.add_string(1, row.domain);
    o.add_int64(2, row.since <= 21 && random_.below(2) == 0 ? 21 : std::max<int64_t>(7, row.since));
    m.add_message(8, opset);
    std::vector<std::byte> result;
    for (const char c : model) result.push_back(static_cast<std::byte>(c));
    return result;
  }
  SplitMix64& random() { return random_; }

 private:
  static void add_node(pbf_writer& graph, const std::string& op, const std::vector<std::string>& inputs,
                       const std::string& output) {
    std::string data;
    pbf_writer node(data);
    for (const std::string& input : inputs) node.add_string(1, input);
    node.add_string(2, output);
    node.add_string(4, op);
    graph.add_message(1, data);
  }
  size_t below(size_t n) { return random_.below(static_cast<uint32_t>(n)); }
  int element() { return 1 + static_cast<int>(random_.below(kLastType)); }
  int64_t number() {
    if (fits_ && random_.below(8) != 0) return int64_t{1} << random_.below(6);
    switch (random_.below(24)) {
      case 0: return std::numeric_limits<int64_t>::max();
      case 1: return std::numeric_limits<int64_t>::min();
      case 2: return int64_t{1} << random_.below(63);
      case 3: return -1;
      default: return static_cast<int64_t>(random_.below(6)) - 1;
    }
  }
  float real() {
    constexpr float kReals[] = {0,
                                1,
                                -1,
                                0.5f,
                                3,
                                1e38f,
                                -1e-38f,
                                std::numeric_limits<float>::infinity(),
                                std::numeric_limits<float>::quiet_NaN()};
    return kReals[below(std::size(kReals))];
  }
  std::vector<int64_t> dims() {
    std::vector<int64_t> result(random_.below(5));
    for (int64_t& dim : result) {
      if (fits_ && random_.below(8) != 0) {
        dim = int64_t{1} << random_.below(5);
        continue;
      }
      dim = random_.below(40) == 0 ? number() : static_cast<int64_t>(random_.below(5));
      if (dim < 0) dim = 3;
    }
    return result;
  }
  // Integers mostly: shapes, axes, sizes; now and then fewer or more of them than the shape says.
  std::string tensor(const std::string& name) {
    std::string data;
    pbf_writer w(data);
    const uint32_t n = random_.below(5);
    if (random_.below(4) != 0) w.add_int64(1, random_.below(10) == 0 ? number() : n);
    std::vector<int64_t> integers;
    std::vector<float> reals;
    for (uint32_t i = 0; i < n; ++i) integers.push_back(number()), reals.push_back(real());
    const uint32_t which = random_.below(4);
    w.add_int32(2, which < 2 ? kInt64 : which == 2 ? kFloat : element());
    if (which < 2)
      w.add_packed_int64(7, integers.begin(), integers.end());
    else if (which == 2)
      w.add_packed_float(4, reals.begin(), reals.end());
    else
      w.add_bytes(9, std::string(random_.below(40), '\x01'));
    w.add_string(8, name);
    return data;
  }
  std::string subgraph() {
    std::string data, node;
    pbf_writer n(node);
    n.add_string(1, random_.below(2) == 0 ? "x0" : "in");
    n.add_string(2, "out");
    n.add_string(4, "Identity");
    pbf_writer g(data);
    g.add_message(1, node);
    for (uint32_t i = random_.below(4); i > 0; --i)
      g.add_message(11, value_info(i == 1 ? "in" : fmt::format("in{}", i), element(), dims()));
    for (uint32_t i = random_.below(4); i > 0; --i) g.add_message(12, value_info("out", kFloat, dims()));
    return data;
  }
  std::string attribute(const Attribute& wanted) {
    std::string data;
    pbf_writer a(data);
    a.add_string(1, std::string(wanted.name));
    const int kind = random_.below(12) == 0 ? 1 + static_cast<int>(random_.below(7)) : wanted.kind;
    std::vector<int64_t> integers(random_.below(6));
    for (int64_t& i : integers) i = number();
    std::vector<float> reals(random_.below(5));
    for (float& f : reals) f = real();
    switch (kind) {
      case kReal: a.add_float(2, real()); break;
      case kInteger: a.add_int64(3, number()); break;
      case kString: a.add_string(4, std::string(kStrings[below(std::size(kStrings))])); break;
      case kTensor: a.add_message(5, tensor("value")); break;
      case kGraph: a.add_message(6, subgraph()); break;
      case kReals: a.add_packed_float(7, reals.begin(), reals.end()); break;
      default: a.add_packed_int64(8, integers.begin(), integers.end());
    }
    a.add_int32(20, kind);
    return data;
  }

  SplitMix64 random_;
  bool fits_ = false;  // sizes and attributes are small powers of two
};

// A byte of the file, the node, or that it is the model as a whole.
bool says_where(const Fault& fault) {
  if (fault.location().known()) return true;
  const std::string text = fault.what();
  for (const std::string_view word :
       {"byte", "offset", "node", "the_node", "input ", "output ", "line", "computation", "the model"})
    if (text.find(word) != std::string::npos) return true;
  return false;
}

// The stages of a model whose shapes depend on data, for answers that may be anything of the right type.
void follow_stages(SplitMix64& random, const std::vector<std::byte>& bytes) {
  auto stage = import::onnx::first_stage(bytes, std::make_shared<int>(), {});
  for (int depth = 0; depth < 4 && !stage->is_last(); ++depth) {
    std::vector<graph::Literal> answers;
    for (const import::onnx::Ask& ask : stage->asks) {
      const int64_t most = ask.counts ? ask.bound : 5;
      std::vector<std::byte> data(static_cast<size_t>(ask.type.byte_count()));
      const auto size = static_cast<size_t>(graph::storage_bytes(ask.type.element()));
      for (size_t at = 0; at + size <= data.size(); at += size) {
        const auto value =
            static_cast<int64_t>(random.below(static_cast<uint32_t>(most) + 2)) - (ask.counts ? 0 : 1);
        if (graph::is_integer(ask.type.element())) graph::store_integer(ask.type.element(), value, &data[at]);
      }
      answers.emplace_back(ask.type, std::move(data));
    }
    stage = stage->next(answers);
  }
}

}  // namespace

void onnx_case(uint64_t seed) {
  Model model(seed);
  std::vector<std::byte> bytes = model.bytes();
  if (model.random().below(3) == 0) mutate(model.random(), bytes, {});
  try {
    const bool is_onnx = import::sniff(bytes, "fuzz.onnx") == import::Format::kOnnx;
    if (is_onnx && model.random().below(2) == 0) return follow_stages(model.random(), bytes);
    const graph::Module module = import::load(bytes, "fuzz.onnx");
    const std::string printed = graph::print_module(module);
    if (graph::print_module(graph::parse_module(printed, "printed.mlir")) != printed)
      broken("printing what was read gives another text:\n{}", printed);
  } catch (const Fault& fault) {
    if (fault.kind() != FaultKind::kInput && fault.kind() != FaultKind::kNotModelled &&
        fault.kind() != FaultKind::kCapacity)
      broken("a bad model is not an input error: {}", fault.what());
    if (!says_where(fault)) broken("a fault that does not say where: {}", fault.what());
  }
}

}  // namespace opentrn::fuzz
