#include "isa/memory.h"
#include "profile/reports.h"

namespace opentrn::profile {

using Json = nlohmann::ordered_json;

namespace {

Json layer_json(const Layer& layer, double total_ns) {
  Json bound = Json::object();
  for (size_t r = 0; r < layer.bound_by_ns.size(); ++r)
    if (layer.bound_by_ns[r] > 0)
      bound[std::string(trace::name(static_cast<trace::Resource>(r)))] = layer.bound_by_ns[r];
  const auto bytes = static_cast<double>(layer.hbm_bytes());
  Json out{{"name", layer.name},
           {"critical_ns", layer.critical_ns},
           {"critical_percent", total_ns > 0 ? 100 * layer.critical_ns / total_ns : 0},
           {"active_ns", layer.active_ns},
           {"mfu_percent", layer.mfu_percent},
           {"mbu_percent", layer.mbu_percent},
           {"tensor_flops", layer.tensor_flops},
           {"model_flops", layer.model_flops},
           {"hbm_bytes_read", layer.hbm_bytes_read},
           {"hbm_bytes_written", layer.hbm_bytes_written},
           {"intermediate_bytes", layer.intermediate_bytes},
           {"moved_bytes", layer.moved_bytes},
           {"arithmetic_intensity", bytes > 0 ? Json(layer.tensor_flops / bytes) : Json()},
           {"transposes", layer.transposes},
           {"instructions", layer.instructions},
           {"ops", layer.ops},
           {"bound_by", bound.empty() ? Json() : Json(trace::name(layer.bound_by()))},
           {"bound_by_ns", std::move(bound)},
           {"children", Json::array()}};
  for (const Layer& child : layer.children) out["children"].push_back(layer_json(child, total_ns));
  return out;
}

void add_op(Json& out, const ModelProfile& model, uint32_t number) {
  if (number >= model.op_table.size()) return;
  const isa::ModelOp& op = model.op_table[number];
  out["op"] = op.kind;
  out["name"] = op.where.function;
  out["file"] = op.where.file;
  out["line"] = op.where.line;
  out["result"] = op.result;
}

Json host_json(const ModelProfile& model) {
  Json calls = Json::array();
  for (const HostCall& call : model.host.calls) {
    Json out = Json::object();
    add_op(out, model, call.op);
    out["bytes"] = call.bytes;
    out["transfer_us"] = call.transfer_ns > 0 ? Json(call.transfer_ns / 1e3) : Json();
    out["compute_us"] = Json();  // unknown: no host is modelled
    calls.push_back(std::move(out));
  }
  return {
      {"calls", std::move(calls)},
      {"transfer_us", model.host.transfer_ns / 1e3},
      {"assumptions",
       "transfers at runtime.host_transfer_gb_s, of one iteration where they stand in a loop; how long the "
       "host computes is unknown; no other time of this profile has either in it"}};
}

Json movements_json(const ModelProfile& model) {
  Json rows = Json::array();
  for (const Movement& row : model.movements) {
    Json out{{"what", row.what}};
    add_op(out, model, row.op);
    out["instructions"] = row.instructions;
    out["bytes"] = row.bytes;
    out["busy_ns"] = row.busy_ns;
    out["critical_ns"] = row.critical_ns;
    rows.push_back(std::move(out));
  }
  return rows;
}

Json memory_json(const ModelProfile& model) {
  Json rows = Json::array();
  for (const MemoryCurve& curve : model.memory) {
    Json steps = Json::array();
    for (const auto& [ns, bytes] : curve.steps) steps.push_back({ns, bytes});
    rows.push_back({{"memory", isa::name(curve.space)},
                    {"capacity_bytes", curve.capacity_bytes < 0 ? Json() : Json(curve.capacity_bytes)},
                    {"peak_bytes", curve.peak_bytes},
                    {"peak_ns", curve.peak_ns},
                    {"steps", std::move(steps)}});
  }
  return rows;
}

Json serving_json(const ModelProfile& model) {
  const auto rate = [](const Serving::Rate& given) {
    return given.known ? Json{{"usd_h", given.usd_h}, {"usd_per_million", given.usd_per_million}} : Json();
  };
  Json rows = Json::array();
  for (const Serving& row : model.serving)
    rows.push_back({{"instance", row.instance},
                    {"chip", row.chip},
                    {"chips", row.chips},
                    {"cores", row.cores},
                    {"fits", row.fits},
                    {"latency_us", model.latency_ns / 1e3},
                    {"busy_latency_us", model.busy_latency_ns / 1e3},
                    {"inferences_per_s", row.inferences_per_s},
                    {"on_demand", rate(row.on_demand)},
                    {"reserved_3_years", rate(row.reserved)},
                    {"capacity_block", rate(row.capacity_block)}});
  return rows;
}

}  // namespace

Json json(const ModelProfile& model) {
  return {
      {"ops", model.ops},
      {"kernels", model.kernels},
      {"latency_us", model.latency_ns / 1e3},
      {"launch_us", model.launch_ns / 1e3},
      {"tensor_peak_tflops", model.tensor_peak_flops_per_ns / 1e3},
      {"hbm_peak_gb_s", model.hbm_peak_bytes_per_ns},
      {"layers", layer_json(model.whole, model.whole.critical_ns)},
      {"movements", movements_json(model)},
      {"memory", memory_json(model)},
      {"host", host_json(model)},
      {"serving", serving_json(model)},
      {"serving_assumptions",
       "one copy of the model per NeuronCore, all cores busy and begun at one time, so that those of an HBM "
       "stack share its bandwidth (busy_latency_us); launches are not overlapped with runs; host and network "
       "are "
       "not counted; usd_per_million = usd_h / 3600 / inferences_per_s * 1e6"}};
}

}  // namespace opentrn::profile
