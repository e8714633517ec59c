#include "spmd/run/sharded_file.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/fault.h"
#include "graph/element_type.h"
#include "graph/text/text.h"
#include "graph/verify.h"

namespace opentrn::spmd {

using graph::Literal;
using graph::Type;
using nlohmann::json;

namespace {

constexpr std::string_view kRecord = "devices";
constexpr size_t kBytesInText = 64;  // constants of more are attached

// Visits the constants of a function by their number among its ops.
template <typename F, typename Visit>
void for_ops(F& function, Visit&& visit) {
  size_t number = 0;
  graph::walk(function, function.body(), [&](graph::OpId id) { visit(number++, function.op(id)); });
}

std::string mesh_text(const Mesh& mesh) {
  std::vector<std::string> axes;
  for (const Mesh::Axis& axis : mesh.axes) axes.push_back(fmt::format("{}={}", axis.name, axis.size));
  return fmt::format("{}", fmt::join(axes, ","));
}

json to_json(const Sharding& sharding) {
  json dims = json::array();
  for (const auto& axes : sharding.dims) {
    json& row = dims.emplace_back(json::array());
    for (const AxisPart& part : axes) row.push_back({part.axis, part.before, part.size});
  }
  return dims;
}

json to_json(const ShardedModel::Port& port) {
  if (!(port.type == Type::tensor(port.type.element(), port.type.dims_vector())))
    throw Fault(FaultKind::kNotModelled, "spmd.file_type",
                fmt::format("{} is {}; a file has tensors of plain element types and known sizes", port.name,
                            port.type.to_string()),
                "run the model without a file");
  return {{"name", port.name},
          {"element", graph::name(port.type.element())},
          {"shape", port.type.dims_vector()},
          {"cuts", to_json(port.sharding)}};
}

json to_json(const std::vector<ShardedModel::Port>& ports) {
  json rows = json::array();
  for (const ShardedModel::Port& port : ports) rows.push_back(to_json(port));
  return rows;
}

// Takes what is to be attached, and says which number it has.
class Attachments {
 public:
  explicit Attachments(std::vector<runtime::Attachment>& to) : to_(to) {}

  size_t add(std::string name, std::string_view bytes, std::shared_ptr<const void> owner) {
    to_.push_back({std::move(name), bytes, std::move(owner), "", 0});
    return to_.size() - 1;
  }
  size_t add(const Literal& literal) {
    auto owner = std::make_shared<const Literal>(literal);
    const std::span<const std::byte> bytes = owner->bytes();
    return add("constant", {reinterpret_cast<const char*>(bytes.data()), bytes.size()}, owner);
  }

 private:
  std::vector<runtime::Attachment>& to_;
};

// The program without its larger constants, which are attached: which op is which.
std::string text_without_constants(graph::Module module, Attachments& attachments, json& constants) {
  for_ops(module.entry(), [&](size_t number, graph::Op& op) {
    if (op.kind != graph::OpKind::constant_) return;
    const Literal literal = op.literal(graph::Attr::value);
    if (literal.bytes().size() <= kBytesInText) return;
    constants.push_back({number, attachments.add(literal)});
    const auto element = static_cast<size_t>(graph::storage_bytes(literal.type().element()));
    op.set(graph::Attr::value, graph::Attribute(Literal(literal.type(), std::vector<std::byte>(element))));
  });
  return graph::print_module(module);
}

class Reader {
 public:
  Reader(const runtime::Artifact& artifact, std::string name)
      : artifact_(artifact), name_(std::move(name)), record_(json::parse(fact(kRecord))) {}

  std::shared_ptr<ShardedModel> model() {
    const Mesh mesh = parse_mesh(fact(runtime::kMeshFact));
    const runtime::Settings settings = devices_of(record_.at("target").get<std::string>(), mesh,
                                                  record_.at("physical_cores_of_core").get<int>());
    for (const runtime::Bucket& bucket : artifact_.buckets)
      if (bucket.model.generation != settings.generation)
        fail(fmt::format("is for {}, and its programs are for NeuronCore-v{}", settings.target,
                         version(bucket.model.generation)));
    mesh_ = &mesh;
    ShardedModel::Compiled compiled;
    compiled.name = record_.at("name");
    compiled.choice = record_.at("choice");
    compiled.rounds_stochastically = record_.at("stochastic_rounding");
    compiled.is_of_one_device = record_.at("program_of_one_device");
    compiled.inputs = ports("inputs");
    compiled.outputs = ports("outputs");
    compiled.weights = ports("weights");
    for (const json& row : record_.at("control_inputs")) {
      compiled.control_inputs.push_back(row.get<size_t>());
      if (compiled.control_inputs.back() >= compiled.inputs.size())
        fail("has an input that it does not take");
    }
    compiled.local = local(compiled);
    compiled.parts = parts();
    auto model = std::make_shared<ShardedModel>(mesh, settings, std::move(compiled));
    if (!model->compiled().parts.are_used_up()) fail("has more parts than its program");
    return model;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Fault(FaultKind::kInput, "model_file", fmt::format("{} {}", name_, what),
                "write the file again with `opentrn compile --mesh`");
  }

  const std::string& fact(std::string_view name) const {
    const auto found = artifact_.facts.find(std::string(name));
    if (found == artifact_.facts.end()) fail(fmt::format("does not say its {}", name));
    return found->second;
  }

  std::string_view attached(size_t number) const {
    if (number >= artifact_.attachments.size())
      fail(fmt::format("refers to attached file {}; it has {}", number, artifact_.attachments.size()));
    return artifact_.attachments[number].bytes;
  }

  // A constant of the type; one element stands for all of them.
  Literal literal(size_t number, const Type& type) const {
    const std::string_view bytes = attached(number);
    const int64_t size = graph::storage_bytes(type.element());
    const auto given = static_cast<int64_t>(bytes.size());
    if (given != type.byte_count() && given != size)
      fail(fmt::format("has {} bytes for a constant of {}", given, type.to_string()));
    if (reinterpret_cast<uintptr_t>(bytes.data()) % static_cast<uintptr_t>(size) != 0)
      fail(fmt::format("has a constant of {} at a place that its elements cannot have", type.to_string()));
    return {type, std::as_bytes(std::span(bytes.data(), bytes.size())), artifact_.attachments[number].owner};
  }

  Type type_of(const json& row) const {
    const auto element = graph::element_type_from_name(row.at("element").get<std::string>());
    if (!element) fail("has a tensor of an unknown type");
    const std::vector<int64_t> shape = row.at("shape");
    int64_t bytes = graph::storage_bytes(*element);
    for (const int64_t size : shape)
      if (size < 0 || __builtin_mul_overflow(bytes, size, &bytes)) fail("has a tensor of an impossible size");
    return Type::tensor(*element, shape);
  }

  Sharding sharding_of(const json& dims, const Type& type) const {
    Sharding sharding{*mesh_, {}, {}};
    if (dims.size() > static_cast<size_t>(type.rank())) fail("cuts more dimensions than a tensor has");
    int64_t shards = 1;
    for (const json& axes : dims) {
      std::vector<AxisPart>& parts = sharding.dims.emplace_back();
      for (const json& row : axes) {
        parts.push_back(axis_part(row));
        shards *= parts.back().size > 0 ? parts.back().size : mesh_->axis(parts.back().axis).size;
        if (shards > devices()) fail("cuts a tensor into more parts than there are devices");
      }
    }
    return sharding;
  }

  AxisPart axis_part(const json& row) const {
    AxisPart part{row.at(0), row.at(1), row.at(2)};
    const auto axis = std::ranges::find(mesh_->axes, part.axis, &Mesh::Axis::name);
    if (axis == mesh_->axes.end())
      fail(fmt::format("cuts by '{}', an axis that its mesh does not have", part.axis));
    const bool whole = part.before == 1 && part.size == 0;
    if (!whole && (part.before < 1 || part.size < 1 || part.before > axis->size || part.size > axis->size ||
                   axis->size % (part.before * part.size) != 0))
      fail(fmt::format("cuts by a part of the axis '{}' that it cannot have", part.axis));
    return part;
  }

  int64_t devices() const {
    int64_t devices = 1;
    for (const Mesh::Axis& axis : mesh_->axes) devices *= axis.size;
    return devices;
  }

  std::vector<ShardedModel::Port> ports(const char* kind) const {
    std::vector<ShardedModel::Port> ports;
    for (const json& row : record_.at(kind)) {
      const Type type = type_of(row);
      ports.push_back({row.at("name"), type, sharding_of(row.at("cuts"), type)});
    }
    return ports;
  }

  SpmdModule local(const ShardedModel::Compiled& compiled) const {
    SpmdModule local;
    local.module = graph::parse_module(attached(record_.at("program").get<size_t>()), name_);
    graph::verify(local.module);
    put_constants(local.module.entry());
    for (const ShardedModel::Port& port : compiled.inputs) local.inputs.push_back(port.sharding);
    for (const ShardedModel::Port& port : compiled.outputs) local.outputs.push_back(port.sharding);
    const json& rows = record_.at("weights");
    for (size_t i = 0; i < compiled.weights.size(); ++i) {
      const ShardedModel::Port& port = compiled.weights[i];
      local.constants.push_back(
          {port.name, literal(rows.at(i).at("constant").get<size_t>(), port.type), port.sharding});
    }
    check_entry(local.module.entry(), compiled);
    return local;
  }

  void put_constants(graph::Function& function) const {
    std::map<size_t, size_t> attached;  // op -> file
    for (const json& row : record_.at("constants")) attached[row.at(0)] = row.at(1);
    size_t found = 0;
    for_ops(function, [&](size_t number, graph::Op& op) {
      const auto file = attached.find(number);
      if (file == attached.end()) return;
      if (op.kind != graph::OpKind::constant_)
        fail(fmt::format("has op {} as a constant, which it is not", number));
      op.set(graph::Attr::value, graph::Attribute(literal(file->second, function.type(op.results[0]))));
      ++found;
    });
    if (found != attached.size()) fail("has constants that its program lacks");
  }

  void check_entry(const graph::Function& entry, const ShardedModel::Compiled& compiled) const {
    std::vector<Type> arguments, results;
    for (const auto* ports : {&compiled.inputs, &compiled.weights})
      for (const ShardedModel::Port& port : *ports)
        arguments.push_back(port.sharding.padded_local(port.type));
    for (const ShardedModel::Port& port : compiled.outputs)
      results.push_back(port.sharding.padded_local(port.type));
    if (entry.argument_types() != arguments || entry.result_types != results)
      fail("has a program that does not take its inputs or give its results");
    for_ops(entry, [&](size_t, const graph::Op& op) {
      if (op.kind == graph::OpKind::call_) fail("has a program that calls a function");
    });
  }

  Parts parts() const {
    std::vector<Parts::Outcome> outcomes;
    for (const json& row : record_.at("parts")) {
      Parts::Outcome& outcome = outcomes.emplace_back();
      outcome.fingerprint = row.at("graph");
      if (outcome.fingerprint.empty()) fail("has a part without its graph");
      if (row.contains("reason")) {
        outcome.reason = row.at("reason");
        continue;
      }
      const auto number = row.at("program").get<size_t>();
      if (number >= artifact_.buckets.size())
        fail(fmt::format("refers to program {}; it has {}", number, artifact_.buckets.size()));
      outcome.model = std::make_shared<const runtime::Model>(artifact_.buckets[number].model);
    }
    return {std::move(outcomes), name_};
  }

  const runtime::Artifact& artifact_;
  const std::string name_;
  const json record_;
  const Mesh* mesh_ = nullptr;
};

}  // namespace

runtime::Artifact artifact_of(const ShardedModel& model, std::map<std::string, std::string> facts) {
  const ShardedModel::Compiled& from = model.compiled();
  runtime::Artifact artifact{{}, std::move(facts), {}};
  Attachments attachments(artifact.attachments);
  json record{{"name", from.name},
              {"choice", from.choice},
              {"target", model.settings().target},
              {"physical_cores_of_core", model.settings().physical_cores_per_core},
              {"stochastic_rounding", from.rounds_stochastically},
              {"program_of_one_device", from.is_of_one_device},
              {"inputs", to_json(from.inputs)},
              {"outputs", to_json(from.outputs)},
              {"weights", to_json(from.weights)},
              {"control_inputs", from.control_inputs},
              {"constants", json::array()},
              {"parts", json::array()}};
  for (size_t i = 0; i < from.weights.size(); ++i)
    record["weights"][i]["constant"] = attachments.add(from.local.constants[i].whole);
  auto text = std::make_shared<const std::string>(
      text_without_constants(from.local.module, attachments, record["constants"]));
  record["program"] = attachments.add("program", *text, text);
  for (const Parts::Outcome& part : from.parts.outcomes()) {
    json row{{"graph", part.fingerprint}};
    if (part.model) {
      row["program"] = artifact.buckets.size();
      artifact.buckets.push_back({{}, *part.model});
    } else {
      row["reason"] = part.reason;
    }
    record["parts"].push_back(std::move(row));
  }
  if (artifact.buckets.empty())
    throw Fault(
        FaultKind::kNotModelled, "spmd.no_part",
        fmt::format("no device computes anything of {}: a file of it would have no program", from.name),
        "run it without a file");
  artifact.facts[std::string(runtime::kMeshFact)] = mesh_text(model.mesh());
  artifact.facts[std::string(kRecord)] = record.dump(-1, ' ', false, json::error_handler_t::replace);
  return artifact;
}

bool is_of_devices(const runtime::Artifact& artifact) {
  return artifact.facts.contains(std::string(runtime::kMeshFact));
}

std::shared_ptr<ShardedModel> sharded_model_of(const runtime::Artifact& artifact, const std::string& name) {
  try {
    return Reader(artifact, name).model();
  } catch (const json::exception& error) {
    throw Fault(FaultKind::kInput, "model_file",
                fmt::format("{} has a record of its devices that cannot be read: {}", name, error.what()),
                "write the file again with `opentrn compile --mesh`");
  }
}

}  // namespace opentrn::spmd
