#include "import/onnx/proto.h"

#include <cstring>

#include <limits>

#include <fmt/format.h>

#include "base/fault.h"
#include "base/utf8.h"
#include "import/protobuf_reader.h"

namespace opentrn::import::onnx {

namespace {

using protozero::data_view;
using protozero::pbf_reader;
using protozero::pbf_wire_type;

// Graphs nest through If, Loop and Scan.
constexpr int kDepthMax = 64;

class ModelReader {
 public:
  explicit ModelReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  Model run() {
    Model model;
    bool has_graph = false;
    message(whole(), "ModelProto", [&](pbf_reader& m) {
      switch (m.tag()) {
        case 1: model.ir_version = m.get_int64(); return;
        case 2: model.producer = m.get_string(); return;
        case 7:
          model.graph = graph(m.get_view(), 0);
          has_graph = true;
          return;
        case 8: opset(m.get_view(), model.opsets); return;
        case 25: model.functions.push_back(function(m.get_view())); return;
        default: m.skip();
      }
    });
    // An empty file is a well-formed message, and so is the begin of one that was not copied to its end.
    if (!has_graph)
      throw Fault(FaultKind::kInput, "onnx.protobuf",
                  fmt::format("ModelProto of {} bytes holds no graph", bytes_.size()),
                  "check that the file is an ONNX model and complete");
    return model;
  }

 private:
  data_view whole() const { return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()}; }
  size_t offset_of(data_view view) const {
    return static_cast<size_t>(reinterpret_cast<const std::byte*>(view.data()) - bytes_.data());
  }

  // Reads every field of one message; faults of the wire format are told with the message's place.
  template <typename Field>
  void message(data_view view, std::string_view what, Field&& field) const {
    try {
      pbf_reader reader(view);
      while (reader.next()) field(reader);
    } catch (const protozero::exception& broken) {
      throw Fault(FaultKind::kInput, "onnx.protobuf",
                  fmt::format("{} of {} bytes at offset {} is malformed: {}", what, view.size(),
                              offset_of(view), broken.what()),
                  "check that the file is an ONNX model and complete");
    } catch (const std::length_error&) {
      throw Fault(FaultKind::kInput, "onnx.protobuf",
                  fmt::format("{} at offset {} has a field longer than memory", what, offset_of(view)));
    }
  }

  // A name: what becomes part of messages and of text forms.
  std::string text(pbf_reader& reader) const {
    const data_view view = reader.get_view();
    if (view.size() > 0 && std::memchr(view.data(), 0, view.size()) != nullptr)
      throw Fault(FaultKind::kInput, "onnx.protobuf",
                  fmt::format("a name at offset {} has a zero byte", offset_of(view)));
    std::string name(view.data(), view.size());
    if (!is_utf8(name))
      throw Fault(FaultKind::kInput, "onnx.protobuf",
                  fmt::format("a name at offset {} is not UTF-8 text: '{}'", offset_of(view), name));
    return name;
  }

  void check_depth(data_view view, int depth) const {
    if (depth > kDepthMax)
      throw Fault(FaultKind::kInput, "onnx.protobuf",
                  fmt::format("graphs nest more than {} deep at offset {}", kDepthMax, offset_of(view)));
  }

  void opset(data_view view, OpsetVersions& opsets) const {
    std::string domain;
    int64_t version = 0;
    message(view, "OperatorSetIdProto", [&](pbf_reader& m) {
      switch (m.tag()) {
        case 1: domain = text(m); return;
        case 2: version = m.get_int64(); return;
        default: m.skip();
      }
    });
    opsets[domain == "ai.onnx" ? "" : domain] = version;
  }

  Graph graph(data_view view, int depth) const {
    check_depth(view, depth);
    Graph g;
    message(view, "GraphProto", [&](pbf_reader& m) {
      switch (m.tag()) {
        case 1: g.nodes.push_back(node(m.get_view(), depth)); return;
        case 2: g.name = text(m); return;
        case 5: g.initializers.push_back(tensor(m.get_view())); return;
        case 11: g.inputs.push_back(value_info(m.get_view())); return;
        case 12: g.outputs.push_back(value_info(m.get_view())); return;
        case 13: g.value_infos.push_back(value_info(m.get_view())); return;
        case 15:
          g.has_sparse_initializers = true;
          m.skip();
          return;
        default: m.skip();
      }
    });
    return g;
  }

  NodeProto node(data_view view, int depth) const {
    NodeProto n;
    n.offset = offset_of(view);
    message(view, "NodeProto", [&](pbf_reader& m) {
      switch (m.tag()) {
        case 1: n.inputs.push_back(text(m)); return;
        case 2: n.outputs.push_back(text(m)); return;
        case 3: n.name = text(m); return;
        case 4: n.op_type = text(m); return;
        case 5: n.attributes.push_back(attribute(m.get_view(), depth)); return;
        case 7: n.domain = text(m); return;
        case 8: n.overload = text(m); return;
        case 9: node_metadata(m.get_view(), n); return;
        default: m.skip();
      }
    });
    if (n.domain == "ai.onnx") n.domain.clear();
    return n;
  }

  void node_metadata(data_view view, NodeProto& node) const {
    std::string key, value;
    message(view, "StringStringEntryProto", [&](pbf_reader& m) {
      switch (m.tag()) {
        case 1: key = text(m); return;
        case 2: value = text(m); return;
        default: m.skip();
      }
    });
    if (key == "pkg.torch.onnx.name_scopes") node.name_scopes = std::move(value);
    if (key == "pkg.torch.onnx.stack_trace") node.stack_trace = std::move(value);
  }

  FunctionProto function(data_view view) const {
    FunctionProto f;
    message(view, "FunctionProto", [&](pbf_reader& m) {
      switch (m.tag()) {
        case 1: f.name = text(m); return;
        case 4: f.inputs.push_back(text(m)); return;
        case 5: f.outputs.push_back(text(m)); return;
        case 6: f.attributes.push_back(text(m)); return;
        case 7: f.nodes.push_back(node(m.get_view(), 0)); return;
        case 9: opset(m.get_view(), f.opsets); return;
        case 10: f.domain = text(m); return;
        case 11: f.default_attributes.push_back(attribute(m.get_view(), 0)); return;
        case 13: f.overload = text(m); return;
        default: m.skip();
      }
    });
    if (f.domain == "ai.onnx") f.domain.clear();
    return f;
  }

  // Repeated numbers come packed or one by one.
  template <typename T, typename Packed, typename One>
  static void numbers(pbf_reader& m, pbf_wire_type single, std::vector<T>& out, Packed packed, One one) {
    if (m.wire_type() == single) {
      out.push_back(static_cast<T>(one(m)));
    } else if (m.wire_type() != pbf_wire_type::length_delimited) {
      throw protozero::unknown_pbf_wire_type_exception{};
    } else {
      for (const auto value : packed(m)) out.push_back(static_cast<T>(value));
    }
  }
  static void int64s(pbf_reader& m, std::vector<int64_t>& out) {
    numbers(
        m, pbf_wire_type::varint, out, [](pbf_reader& r) { return r.get_packed_int64(); },
        [](pbf_reader& r) { return r.get_int64(); });
  }
  static void floats(pbf_reader& m, std::vector<float>& out) {
    numbers(
        m, pbf_wire_type::fixed32, out, [](pbf_reader& r) { return r.get_packed_float(); },
        [](pbf_reader& r) { return r.get_float(); });
  }

  AttributeValue attribute(data_view view, int depth) const {
    AttributeValue a;
    message(view, "AttributeProto", [&](pbf_reader& m) {
      switch (m.tag()) {
        case 1: a.name = text(m); return;
        case 2: a.f = m.get_float(); return;
        case 3: a.i = m.get_int64(); return;
        case 4: a.s = m.get_string(); return;
        case 5: a.t = std::make_shared<const Tensor>(tensor(m.get_view())); return;
        case 6: a.g = std::make_shared<const Graph>(graph(m.get_view(), depth + 1)); return;
        case 7: floats(m, a.floats); return;
        case 8: int64s(m, a.ints); return;
        case 9: a.strings.push_back(m.get_string()); return;
        case 20: a.type = m.get_int32(); return;
        case 21: a.reference = text(m); return;
        default: m.skip();
      }
    });
    // proto3 leaves out zeros: the type says which field is meant.
    if (a.type == 1 && !a.f) a.f = 0.0F;
    if (a.type == 2 && !a.i) a.i = 0;
    if (a.type == 3 && !a.s) a.s = std::string();
    return a;
  }

  Tensor tensor(data_view view) const {
    Tensor t;
    t.offset = offset_of(view);
    message(view, "TensorProto", [&](pbf_reader& m) {
      switch (m.tag()) {
        case 1: int64s(m, t.dims); return;
        case 2: t.data_type = static_cast<DataType>(m.get_int32()); return;
        case 4: floats(m, t.floats); return;
        case 5:
          numbers(
              m, pbf_wire_type::varint, t.int32s, [](pbf_reader& r) { return r.get_packed_int32(); },
              [](pbf_reader& r) { return r.get_int32(); });
          return;
        case 7: int64s(m, t.int64s); return;
        case 8: t.name = text(m); return;
        case 9: {
          const data_view raw = m.get_view();
          t.raw = {reinterpret_cast<const std::byte*>(raw.data()), raw.size()};
          t.has_raw = true;
          return;
        }
        case 10:
          numbers(
              m, pbf_wire_type::fixed64, t.doubles, [](pbf_reader& r) { return r.get_packed_double(); },
              [](pbf_reader& r) { return r.get_double(); });
          return;
        case 11:
          numbers(
              m, pbf_wire_type::varint, t.uint64s, [](pbf_reader& r) { return r.get_packed_uint64(); },
              [](pbf_reader& r) { return r.get_uint64(); });
          return;
        case 13: entry(m.get_view(), t.external_data); return;
        case 14: t.external = m.get_int32() == 1; return;
        default: m.skip();
      }
    });
    return t;
  }

  void entry(data_view view, std::map<std::string, std::string>& entries) const {
    std::string key;
    std::string value;
    message(view, "StringStringEntryProto", [&](pbf_reader& m) {
      switch (m.tag()) {
        case 1: key = text(m); return;
        case 2: value = text(m); return;
        default: m.skip();
      }
    });
    entries[key] = value;
  }

  ValueInfo value_info(data_view view) const {
    ValueInfo info;
    info.offset = offset_of(view);
    message(view, "ValueInfoProto", [&](pbf_reader& m) {
      switch (m.tag()) {
        case 1: info.name = text(m); return;
        case 2: type(m.get_view(), info); return;
        default: m.skip();
      }
    });
    return info;
  }

  void type(data_view view, ValueInfo& info) const {
    message(view, "TypeProto", [&](pbf_reader& m) {
      switch (m.tag()) {
        case 1:
          info.type = TypeCase::kTensor;
          tensor_type(m.get_view(), info);
          return;
        case 4: info.type = TypeCase::kSequence; break;
        case 5: info.type = TypeCase::kMap; break;
        case 7: info.type = TypeCase::kOpaque; break;
        case 8: info.type = TypeCase::kSparse; break;
        case 9: info.type = TypeCase::kOptional; break;
        default: break;
      }
      m.skip();
    });
  }

  void tensor_type(data_view view, ValueInfo& info) const {
    message(view, "TypeProto.Tensor", [&](pbf_reader& m) {
      switch (m.tag()) {
        case 1: info.element = static_cast<DataType>(m.get_int32()); return;
        case 2:
          info.has_shape = true;
          shape(m.get_view(), info);
          return;
        default: m.skip();
      }
    });
  }

  void shape(data_view view, ValueInfo& info) const {
    message(view, "TensorShapeProto", [&](pbf_reader& m) {
      if (m.tag() != 1) {
        m.skip();
        return;
      }
      Dimension dimension;
      message(m.get_view(), "TensorShapeProto.Dimension", [&](pbf_reader& d) {
        switch (d.tag()) {
          case 1:
            if (const int64_t value = d.get_int64(); value >= 0) dimension.value = value;
            return;
          case 2: dimension.parameter = text(d); return;
          default: d.skip();
        }
      });
      info.shape.push_back(std::move(dimension));
    });
  }

  std::span<const std::byte> bytes_;
};

}  // namespace

Model read_model(std::span<const std::byte> bytes) { return ModelReader(bytes).run(); }

}  // namespace opentrn::import::onnx
