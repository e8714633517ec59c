#include "backend/estimate.h"

#include <algorithm>

#include "arch/stated.h"

namespace opentrn::backend {

namespace {

using isa::Engine;

constexpr Engine kComputeEngines[] = {Engine::kTensor, Engine::kVector, Engine::kScalar, Engine::kGpSimd,
                                      Engine::kSync};

// The mode that holds for an engine without looking at operands: its own, or the default.
const arch::CostMode* usual_mode(const arch::InstructionCost& cost, Engine engine) {
  const arch::CostMode* found = nullptr;
  for (const arch::CostMode& mode : cost.modes) {
    if (mode.engine == isa::name(engine)) return &mode;
    if (mode.engine.empty() && (found == nullptr || mode.name == "default")) found = &mode;
  }
  return found;
}

}  // namespace

Estimator::Estimator(const isa::Program& program, const arch::Tables& tables, arch::Generation generation)
    : program_(program) {
  const arch::TimingTable& timing = tables.timing(generation);
  for (Engine engine : kComputeEngines) {
    if (!arch::has_engine(timing, isa::name(engine))) continue;
    const double clock_ghz = timing.clock_ghz(isa::name(engine));
    for (const isa::InstructionDefinition& definition : isa::definitions()) {
      Line& line = lines_[static_cast<size_t>(definition.opcode)][static_cast<size_t>(engine)];
      line = {timing.constant("issue_interval_cycles") / clock_ghz, 1 / clock_ghz, 0};
      if (!timing.has_cost(definition.name)) continue;
      const arch::CostMode* mode = usual_mode(timing.cost(definition.name), engine);
      if (mode != nullptr)
        line = {mode->min_cycles / clock_ghz, mode->cycles_per_element / clock_ghz,
                mode->extra_cycles / clock_ghz};
    }
    latency_ns_[static_cast<size_t>(engine)] = timing.constant("static_overhead_cycles") / clock_ghz;
  }
  activation_overhead_ns_ =
      (timing.constant("activation_sbuf_issue_cycles") - timing.constant("scalar_issue_cycles")) /
      timing.clock_ghz("scalar");
  dma_latency_ns_ = timing.constant("dma_semaphore_to_start_ns");
  dma_bytes_per_ns_ = timing.constant("dma_engine_gb_s") * timing.constant("dma_engines");
  dma_descriptor_bytes_ = timing.constant("dma_engine_gb_s") * timing.constant("dma_descriptor_min_ns");
}

int64_t Estimator::elements(const isa::Instruction& in) {
  // The longest operand per partition: what the engine streams over.
  int64_t longest = 1;
  for (const isa::Operand& operand : program_.operands(in)) {
    if (!operand.is_access()) continue;
    if (per_partition_.size() <= operand.pattern) per_partition_.resize(program_.pattern_count(), -1);
    int64_t& cached = per_partition_[operand.pattern];
    if (cached < 0) cached = program_.pattern(operand).elements_per_partition();
    longest = std::max(longest, cached);
  }
  return longest;
}

double Estimator::busy_ns(const isa::Instruction& in, Engine engine) {
  if (engine == Engine::kDma) return dma_bytes(in) / dma_bytes_per_ns_;
  const Line& line = lines_[static_cast<size_t>(in.opcode)][static_cast<size_t>(engine)];
  const double n = static_cast<double>(elements(in));
  return std::max(line.min_ns, line.ns_per_element * n) + line.extra_ns;
}

int64_t Estimator::run(const isa::Operand& operand) {
  if (run_.size() <= operand.pattern) run_.resize(program_.pattern_count(), -1);
  int64_t& cached = run_[operand.pattern];
  if (cached < 0) {
    cached = 1;
    const auto dims = program_.pattern(operand).view();
    for (size_t d = dims.size(); d-- > 0;) {
      if (dims[d].count == 1) continue;
      if (dims[d].step != cached) break;
      cached *= dims[d].count;
    }
  }
  return cached;
}

double Estimator::dma_bytes(const isa::Instruction& in) {
  const isa::Operand& destination = program_.operand(in, 0);
  if (!destination.is_access()) return 0;
  const double elements = static_cast<double>(program_.pattern(destination).element_count());
  const double bytes = elements * size_bytes(destination.dtype);
  if (in.opcode != isa::Opcode::kDmaCopy) return bytes;
  const isa::Operand& source = program_.operand(in, isa::slot::dma_copy::kSrc);
  if (!source.is_access()) return bytes;
  const double descriptors = elements / static_cast<double>(std::min(run(destination), run(source)));
  return std::max(bytes, descriptors * dma_descriptor_bytes_);
}

}  // namespace opentrn::backend
