#include "cost/usual.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "arch/arch.h"
#include "arch/stated.h"

namespace opentrn::cost {

namespace {

using isa::Engine;

constexpr Engine kComputeEngines[] = {Engine::kTensor, Engine::kVector, Engine::kScalar, Engine::kGpSimd,
                                      Engine::kSync};

// The engine's own row, or the default one. Of several rows of its own the first: from NeuronCore-v3 on that
// is Vector's fastest mode of copies and of arithmetic with scalars, so that the scheduler gives Vector more
// of them than it would if it asked for each one's types (decision 0035).
const arch::CostMode* usual_mode(const arch::InstructionCost& cost, Engine engine) {
  const arch::CostMode* found = nullptr;
  for (const arch::CostMode& mode : cost.modes) {
    if (mode.engine == isa::name(engine)) return &mode;
    if (mode.engine.empty() && (found == nullptr || mode.name == "default")) found = &mode;
  }
  return found;
}

}  // namespace

UsualCosts::UsualCosts(const arch::TimingTable& table) {
  clock_ghz_.fill(1);
  for (Engine engine : kComputeEngines) {
    if (!arch::has_engine(table, isa::name(engine))) continue;
    const double clock_ghz = table.clock_ghz(isa::name(engine));
    for (const isa::InstructionDefinition& definition : isa::definitions()) {
      Line& line = lines_[static_cast<size_t>(definition.opcode)][static_cast<size_t>(engine)];
      line = {table.constant("issue_interval_cycles"), 1, 0};
      if (!table.has_cost(definition.name)) continue;
      if (const arch::CostMode* mode = usual_mode(table.cost(definition.name), engine))
        line = {mode->min_cycles, mode->cycles_per_element, mode->extra_cycles};
    }
    clock_ghz_[static_cast<size_t>(engine)] = clock_ghz;
    latency_ns_[static_cast<size_t>(engine)] = table.constant("static_overhead_cycles") / clock_ghz;
  }
  issue_cycles_[static_cast<size_t>(Engine::kVector)] = table.constant("vector_issue_cycles");
  issue_cycles_[static_cast<size_t>(Engine::kScalar)] = table.constant("scalar_issue_cycles");
  activation_extra_ns_ =
      (table.constant("activation_sbuf_issue_cycles") - table.constant("scalar_issue_cycles")) /
      clock_ghz_[static_cast<size_t>(Engine::kScalar)];
  table_load_ns_ = table.constant("activation_table_load_ns");
  const auto without =
      table.constant_fact("activation_functions_without_table").as<std::vector<std::string>>();
  for (int f = 0; f < kActivationFunctionCount; ++f)
    has_table_[static_cast<size_t>(f)] =
        std::ranges::find(without, opentrn::name(static_cast<ActivationFunction>(f))) == without.end();
  dma_latency_ns_ = table.constant("dma_semaphore_to_start_ns");
  dma_bytes_per_ns_ = table.constant("dma_engines") * table.constant("dma_engine_gb_s");
  dma_engines_ = table.constant("dma_engines");
  descriptor_ns_ = table.constant("dma_descriptor_min_ns");
  transfer_extra_ns_ = table.constant("dma_transfer_extra_ns");
  tensor_clock_ghz_ = table.clock_ghz(isa::name(Engine::kTensor));
  const arch::InstructionCost& product = table.cost(isa::name(isa::Opcode::kNcMatmul));
  for (size_t mode = 0; mode < kTensorModeCount; ++mode)
    if (const std::string named(name(static_cast<TensorMode>(mode))); product.has_mode(named))
      products_[mode] = {product.mode(named).min_cycles, product.mode(named).cycles_per_element};
}

std::optional<ActivationFunction> UsualCosts::table_of(const isa::Program& program,
                                                       const isa::Instruction& in) const {
  using isa::Opcode;
  const auto is_one_of = {Opcode::kActivation, Opcode::kActivationReduce, Opcode::kActivate2};
  if (std::ranges::find(is_one_of, in.opcode) == is_one_of.end()) return std::nullopt;
  const ActivationFunction function = program.attribute_activation(in, isa::slot::activation::kAOp);
  return has_table(function) ? std::optional(function) : std::nullopt;
}

double UsualCosts::transfer_ns(int64_t partitions, int64_t bytes) const {
  const double moved = static_cast<double>(partitions * bytes) / dma_bytes_per_ns_;
  return std::max(moved, static_cast<double>(partitions) / dma_engines_ * descriptor_ns_) +
         transfer_extra_ns_;
}

double UsualCosts::product_ns(TensorMode mode, int64_t columns) const {
  const Product& row = products_[static_cast<size_t>(mode)];
  return std::max(row.min_cycles, row.cycles_per_element * static_cast<double>(columns)) / tensor_clock_ghz_;
}

double UsualCosts::stream_ns(isa::Opcode opcode, Engine engine, int64_t elements) const {
  const Line& line = lines_[static_cast<size_t>(opcode)][static_cast<size_t>(engine)];
  const double clock_ghz = clock_ghz_[static_cast<size_t>(engine)];
  const double streamed_ns = line.cycles_per_element / clock_ghz * static_cast<double>(elements);
  return std::max(line.min_cycles / clock_ghz, streamed_ns) + line.extra_cycles / clock_ghz;
}

double UsualCosts::busy_ns(isa::Opcode opcode, Engine engine, int64_t elements) const {
  const Line& line = lines_[static_cast<size_t>(opcode)][static_cast<size_t>(engine)];
  const double streamed = line.cycles_per_element * static_cast<double>(elements);
  const double cycles = std::max(line.min_cycles, streamed + issue_cycles_[static_cast<size_t>(engine)]);
  return (cycles + line.extra_cycles) / clock_ghz_[static_cast<size_t>(engine)];
}

const Costs& default_costs(Generation generation) {
  static std::mutex mutex;
  static std::map<Generation, Costs> made;
  const std::lock_guard lock(mutex);
  return made.try_emplace(generation, arch::timing(generation)).first->second;
}

}  // namespace opentrn::cost
