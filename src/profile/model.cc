#include "profile/model.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>

#include "isa/definitions.h"
#include "profile/intervals.h"

namespace opentrn::profile {

namespace {

using isa::Opcode;
using isa::Purpose;
using trace::Event;
using trace::TrackKind;

bool is_transpose(const isa::Program& program, const isa::Instruction& in) {
  if (in.opcode == Opcode::kNcTranspose || in.opcode == Opcode::kDmaTranspose) return true;
  return in.opcode == Opcode::kNcMatmul && program.attribute_bool(in, isa::slot::nc_matmul::kAIsTranspose);
}

// A layer while it is added up; children are found by name.
struct Node {
  Layer layer;
  Intervals active;
  std::vector<std::unique_ptr<Node>> children;
  std::map<std::string, Node*, std::less<>> by_name;

  Node& child(const std::string& name) {
    Node*& found = by_name[name];
    if (!found) {
      children.push_back(std::make_unique<Node>());
      found = children.back().get();
      found->layer.name = name;
    }
    return *found;
  }
};

void add(Layer& into, const Layer& part) {
  into.critical_ns += part.critical_ns;
  into.tensor_flops += part.tensor_flops;
  into.model_flops += part.model_flops;
  into.hbm_bytes_read += part.hbm_bytes_read;
  into.hbm_bytes_written += part.hbm_bytes_written;
  into.intermediate_bytes += part.intermediate_bytes;
  into.moved_bytes += part.moved_bytes;
  into.transposes += part.transposes;
  into.instructions += part.instructions;
  into.ops += part.ops;
  for (size_t r = 0; r < into.bound_by_ns.size(); ++r) into.bound_by_ns[r] += part.bound_by_ns[r];
}

class LayerAnalysis {
 public:
  LayerAnalysis(const trace::Trace& trace, const isa::Executable& executable, const isa::Origin& origin)
      : trace_(trace), program_(*executable.program), origin_(origin) {
    for (const isa::ModelOp& op : origin.ops) {
      Node* node = &root_;
      for (const std::string& name : layer_path(op)) node = &node->child(name);
      ++node->layer.ops;
      node->layer.model_flops += op.flops;
      node_of_op_.push_back(node);
    }
    for (isa::InstructionIndex i = 0; i < program_.size(); ++i) source_.push_back(origin.at(i));
  }

  void run() {
    for (const Event& event : trace_.events) {
      const TrackKind kind = trace_.tracks[event.track].kind;
      if (kind == TrackKind::kDmaEngine || event.instruction >= source_.size()) continue;
      Node& node = node_of(event.instruction);
      node.active.push_back({event.start_ns, event.end_ns, event.times});
      if (kind == TrackKind::kEngine) add_engine_event(node.layer, event);
      if (kind == TrackKind::kDmaQueue) add_transfer(node.layer, event);
    }
    for (const trace::CriticalSegment& segment : trace_.critical_path) {
      if (segment.instruction >= source_.size()) continue;
      const double ns = static_cast<double>(segment.times) * (segment.end_ns - segment.start_ns);
      Layer& layer = node_of(segment.instruction).layer;
      layer.critical_ns += ns;
      layer.bound_by_ns[static_cast<size_t>(segment.resource)] += ns;
      if (Movement* movement = movement_of(segment.instruction)) movement->critical_ns += ns;
    }
  }

  Layer take_layers() {
    finish(root_);
    return std::move(root_.layer);
  }

  std::vector<Movement> movements() const {
    std::vector<Movement> rows;
    for (const auto& [key, row] : movements_) rows.push_back(row);
    std::ranges::stable_sort(rows, std::ranges::greater{},
                             [](const Movement& row) { return std::pair(row.bytes, row.busy_ns); });
    return rows;
  }

 private:
  Node& node_of(isa::InstructionIndex instruction) {
    const uint32_t op = source_[instruction].op;
    return op == isa::kNoModelOp ? root_.child("(no op)") : *node_of_op_[op];
  }

  void add_engine_event(Layer& layer, const Event& event) {
    layer.instructions += event.times;
    const auto times = static_cast<double>(event.times);
    const isa::Instruction& in = program_.instruction(event.instruction);
    if (!is_transpose(program_, in)) {
      if (trace_.tracks[event.track].engine == isa::Engine::kTensor)
        layer.tensor_flops += times * event.flops;
      return;
    }
    layer.transposes += event.times;
    if (Movement* movement = movement_of(event.instruction)) {
      movement->instructions += event.times;
      movement->busy_ns += times * event.busy_ns;
      movement->bytes += event.times * written(in);
    }
  }

  void add_transfer(Layer& layer, const Event& event) {
    const isa::Instruction& in = program_.instruction(event.instruction);
    const double written_size = size_bytes(program_.operand(in, 0).dtype);
    for (int i = 0; i < in.operand_count; ++i) {
      const isa::Operand& operand = program_.operand(in, i);
      if (!operand.is_access() || !isa::is_hbm(program_.tensor(operand.tensor).space)) continue;
      const auto bytes = event.times * static_cast<int64_t>(static_cast<double>(event.bytes) *
                                                            size_bytes(operand.dtype) / written_size);
      (i == 0 ? layer.hbm_bytes_written : layer.hbm_bytes_read) += bytes;
      const isa::Tensor& tensor = program_.tensor(operand.tensor);
      if (!tensor.is_input && !tensor.is_output) layer.intermediate_bytes += bytes;
    }
    Movement* movement = movement_of(event.instruction);
    if (!movement) return;
    if (source_[event.instruction].purpose != Purpose::kCompute)
      layer.moved_bytes += event.times * event.bytes;
    movement->instructions += event.times;
    movement->bytes += event.times * event.bytes;
    movement->busy_ns += static_cast<double>(event.times) * (event.end_ns - event.start_ns);
  }

  int64_t written(const isa::Instruction& in) const {
    const isa::Operand& dst = program_.operand(in, 0);
    return program_.pattern(dst.pattern).element_count() * size_bytes(dst.dtype);
  }

  Movement* movement_of(isa::InstructionIndex instruction) {
    const isa::OriginSpan& source = source_[instruction];
    std::string_view what;
    if (source.purpose != Purpose::kCompute)
      what = isa::name(source.purpose);
    else if (is_transpose(program_, program_.instruction(instruction)))
      what = "transpose";
    else
      return nullptr;
    Movement& row = movements_[{what, source.op}];
    row.what = what;
    row.op = source.op;
    return &row;
  }

  void finish(Node& node) {
    unite(node.active);
    for (const auto& child : node.children) {
      finish(*child);
      add(node.layer, child->layer);
      node.active.insert(node.active.end(), child->active.begin(), child->active.end());
      child->active = {};
      node.layer.children.push_back(std::move(child->layer));
    }
    unite(node.active);
    Layer& layer = node.layer;
    layer.active_ns = length(node.active);
    const trace::Summary& s = trace_.summary;
    const auto percent = [&](double work, double peak) {
      return layer.active_ns > 0 && peak > 0 ? 100 * work / (peak * layer.active_ns) : 0;
    };
    layer.mfu_percent = percent(layer.tensor_flops, s.tensor_peak_flops_per_ns * s.cores);
    layer.mbu_percent = percent(static_cast<double>(layer.hbm_bytes()), s.hbm_peak_bytes_per_ns);
  }

  const trace::Trace& trace_;
  const isa::Program& program_;
  const isa::Origin& origin_;
  Node root_;
  std::vector<Node*> node_of_op_;
  std::vector<isa::OriginSpan> source_;  // by instruction
  std::map<std::pair<std::string_view, uint32_t>, Movement> movements_;
};

}  // namespace

trace::Resource Layer::bound_by() const {
  return static_cast<trace::Resource>(std::ranges::max_element(bound_by_ns) - bound_by_ns.begin());
}

// Slashes inside parentheses belong to a name: "jit(f)/vmap(a/b)/add" has three parts.
std::vector<std::string> layer_path(const isa::ModelOp& op) {
  std::vector<std::string> parts;
  std::string part;
  int depth = 0;
  const auto end_part = [&] {
    if (!part.empty()) parts.push_back(std::move(part));
    part.clear();
  };
  for (const char c : op.where.function) {
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (c == '/' && depth <= 0)
      end_part();
    else
      part += c;
  }
  end_part();
  if (!parts.empty()) return parts;
  const std::string kind = op.kind.substr(op.kind.rfind('.') + 1);
  if (!op.where.known()) return {kind};
  return {fmt::format("{}:{} {}", op.where.file.substr(op.where.file.rfind('/') + 1), op.where.line, kind)};
}

ModelProfile analyse_model(const trace::Trace& trace, const isa::Executable& executable,
                           const isa::Origin& origin, const arch::Tables& tables) {
  ModelProfile profile;
  LayerAnalysis analysis(trace, executable, origin);
  analysis.run();
  profile.whole = analysis.take_layers();
  profile.movements = analysis.movements();
  profile.memory = memory_over_time(trace, executable, tables);
  profile.launch_ns = trace.summary.launch_ns;
  profile.latency_ns = trace.summary.launch_ns + trace.summary.total_ns;
  profile.host = host_work(*executable.program, origin, tables);
  profile.kernels = origin.kernel_count();
  profile.ops = static_cast<int64_t>(origin.ops.size());
  profile.op_table = origin.ops;
  profile.tensor_peak_flops_per_ns = trace.summary.tensor_peak_flops_per_ns * trace.summary.cores;
  profile.hbm_peak_bytes_per_ns = trace.summary.hbm_peak_bytes_per_ns;
  return profile;
}

}  // namespace opentrn::profile
