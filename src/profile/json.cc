#include "isa/definitions.h"
#include "profile/reports.h"

namespace opentrn::profile {

using Json = nlohmann::ordered_json;

namespace {

Json or_null(int64_t value) { return value < 0 ? Json() : Json(value); }
double seconds(double ns) { return ns * 1e-9; }
double of_run(double ns, const trace::Summary& s) { return s.total_ns > 0 ? 100 * ns / s.total_ns : 0; }

// A logical core of two has each engine twice: times are the mean of both, as percentages are.
void add_engine(Json& out, const Engine& engine, int cores) {
  const std::string prefix = fmt::format("{}_engine_", isa::name(engine.engine));
  out[prefix + "active_time"] = seconds(engine.totals.busy_ns / cores);
  out[prefix + "active_time_percent"] = engine.active_percent;
  out[prefix + "instruction_count"] = engine.totals.instructions;
}

// The keys of Neuron Explorer's Summary table that a simulation can fill, in its units.
Json summary_json(const Profile& p) {
  const trace::Summary& s = p.summary;
  const double transposes = s.flops[static_cast<size_t>(trace::FlopKind::kTranspose)];
  Json out;
  out["total_time"] = seconds(s.total_ns);
  out["model_flops"] = s.tensor_flops();
  out["hardware_flops"] = s.tensor_flops() + transposes;
  out["transpose_flops"] = transposes;
  out["mfu_estimated_percent"] = p.mfu_estimated_percent;
  out["hfu_estimated_percent"] = p.hfu_estimated_percent;
  out["mbu_estimated_percent"] = p.mbu_estimated_percent;
  out["mm_arithmetic_intensity"] =
      s.dma.hbm_bytes_read + s.dma.hbm_bytes_written > 0 ? Json(p.arithmetic_intensity) : Json();
  out["peak_flops_bandwidth_ratio"] = p.ridge_intensity;
  out["hbm_read_bytes"] = s.dma.hbm_bytes_read;
  out["hbm_write_bytes"] = s.dma.hbm_bytes_written;
  out["dma_active_time"] = seconds(s.dma.active_ns);
  out["dma_active_time_percent"] = of_run(s.dma.active_ns, s);
  out["dma_packet_time"] = seconds(s.dma.engine_busy_ns);
  out["dma_transfer_count"] = s.dma.transfers;
  out["dma_transfer_total_bytes"] = s.dma.bytes;
  out["dma_transfer_average_bytes"] = s.dma.transfers > 0 ? Json(p.bytes_per_transfer) : Json();
  out["spill_save_bytes"] = p.memory.spill_save_bytes;
  out["spill_reload_bytes"] = p.memory.spill_reload_bytes;
  for (const Engine& engine : p.engines) add_engine(out, engine, s.cores);
  return out;
}

Json line_json(const Line& line, const trace::Summary& s) {
  Json out{{"file", line.file},
           {"line", line.line},
           {"function", line.function},
           {"critical_ns", line.critical_ns},
           {"critical_percent", s.total_ns > 0 ? 100 * line.critical_ns / s.total_ns : 0},
           {"busy_ns", line.busy_ns},
           {"stall_ns", line.stall_ns},
           {"dma_ns", line.dma_ns},
           {"dma_bytes", line.dma_bytes},
           {"flops", line.flops},
           {"instructions", line.instructions}};
  Json& opcodes = out["opcodes"] = Json::object();
  for (const OpcodeCount& opcode : line.opcodes)
    opcodes[std::string(isa::name(opcode.opcode))] = opcode.count;
  return out;
}

Json dma_json(const Profile& p) {
  const trace::DmaTotals& dma = p.summary.dma;
  Json out{
      {"transfers", dma.transfers},
      {"descriptors", dma.descriptors},
      {"bytes", dma.bytes},
      {"bytes_per_descriptor", dma.descriptors > 0 ? Json(p.bytes_per_descriptor) : Json()},
      {"bytes_per_transfer", dma.transfers > 0 ? Json(p.bytes_per_transfer) : Json()},
      {"efficiency_percent", dma.engine_busy_ns > 0 ? Json(100 * dma.efficiency) : Json()},
      {"achieved_gb_s", dma.active_ns > 0 ? Json(static_cast<double>(dma.bytes) / dma.active_ns) : Json()},
      {"queues", Json::array()}};
  for (const DmaQueue& q : p.queues) {
    Json stalls = Json::object();
    for (size_t cause = 1; cause < q.stall_ns.size(); ++cause)
      if (q.stall_ns[cause] > 0)
        stalls[std::string(trace::name(static_cast<trace::Stall>(cause)))] = q.stall_ns[cause];
    out["queues"].push_back({{"queue", q.name},
                             {"core", q.core},
                             {"transfers", q.transfers},
                             {"bytes", q.bytes},
                             {"active_ns", q.active_ns},
                             {"achieved_gb_s", q.achieved_gb_s},
                             {"latency_mean_ns", q.latency_mean_ns},
                             {"latency_max_ns", q.latency_max_ns},
                             {"stall_ns", std::move(stalls)}});
  }
  return out;
}

Json engines_json(const Profile& p) {
  Json out = Json::array();
  for (const Engine& e : p.engines)
    out.push_back({{"engine", isa::name(e.engine)},
                   {"busy_ns", e.totals.busy_ns},
                   {"active_percent", e.active_percent},
                   {"stall_engine_ns", e.totals.stall_engine_ns},
                   {"stall_dma_ns", e.totals.stall_dma_ns},
                   {"stall_other_ns", e.totals.stall_other_ns},
                   {"instructions", e.totals.instructions}});
  return out;
}

Json waits_json(const Profile& p) {
  const auto place = [&p](uint32_t row) {
    const Line& line = p.lines[row];
    return Json{{"file", line.file}, {"line", line.line}, {"function", line.function}};
  };
  Json out = Json::array();
  for (const Wait& w : p.waits)
    out.push_back({{"engine", isa::name(w.engine)},
                   {"cause", trace::name(w.cause)},
                   {"ns", w.ns},
                   {"count", w.count},
                   {"waiting", place(w.waiting)},
                   {"waited_for", place(w.waited_for)},
                   {"waited_for_opcode", isa::name(w.waited_for_opcode)}});
  return out;
}

Json memory_json(const Memory& m) {
  return {{"sbuf_bytes_per_partition_used", m.sbuf_bytes_per_partition_used},
          {"sbuf_bytes_per_partition_limit", or_null(m.sbuf_bytes_per_partition_limit)},
          {"psum_banks_used", m.psum_banks_used},
          {"psum_banks_limit", or_null(m.psum_banks_limit)},
          {"hbm_bytes_used", m.hbm_bytes_used},
          {"spill_save_bytes", m.spill_save_bytes},
          {"spill_reload_bytes", m.spill_reload_bytes}};
}

}  // namespace

Json json(const Profile& p) {
  const trace::Summary& s = p.summary;
  Json out{{"schema", "opentrn.profile"},
           {"schema_version", kJsonSchemaVersion},
           {"is_simulation", true},
           {"program", s.program},
           {"neuron_core", name(s.generation)},
           {"cores", s.cores},
           {"total_ns", s.total_ns},
           {"launch_overhead_ns", s.launch_ns},
           {"extrapolated_ns", s.extrapolated_ns},
           {"instructions", s.instructions},
           {"events", p.events}};
  out["summary"] = summary_json(p);
  out["bound_by"] = {{"verdict", p.bound_by.empty() ? Json() : Json(trace::name(p.bound_by[0].resource))},
                     {"shares", Json::array()}};
  for (const Share& share : p.bound_by)
    out["bound_by"]["shares"].push_back(
        {{"resource", trace::name(share.resource)}, {"ns", share.ns}, {"percent", share.percent}});
  out["engines"] = engines_json(p);
  out["stalls"] = Json::array();
  for (const StallTime& stall : p.stalls)
    out["stalls"].push_back({{"engine", isa::name(stall.engine)},
                             {"cause", trace::name(stall.cause)},
                             {"ns", stall.ns},
                             {"count", stall.count}});
  out["lines"] = Json::array();
  for (const Line& line : p.lines) out["lines"].push_back(line_json(line, s));
  out["waits"] = waits_json(p);
  out["opcodes"] = Json::array();
  for (const OpcodeTime& o : p.opcodes)
    out["opcodes"].push_back({{"engine", isa::name(o.engine)},
                              {"opcode", isa::name(o.opcode)},
                              {"count", o.count},
                              {"busy_ns", o.busy_ns}});
  out["dma"] = dma_json(p);
  out["memory"] = memory_json(p.memory);
  out["flops"] = Json::object();
  for (int kind = 0; kind < trace::kFlopKindCount; ++kind)
    out["flops"][std::string(trace::name(static_cast<trace::FlopKind>(kind)))] =
        s.flops[static_cast<size_t>(kind)];
  out["flops"]["elementwise"] = s.vector_flops;
  return out;
}

}  // namespace opentrn::profile
