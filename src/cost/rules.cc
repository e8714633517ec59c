#include "cost/rules.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>

#include "arch/stated.h"

namespace opentrn::cost {

namespace {

using isa::Engine;
using isa::Opcode;

constexpr Engine kStreamingEngines[] = {Engine::kVector, Engine::kScalar, Engine::kGpSimd, Engine::kSync};

bool is_bf16_or_fp16(DType dtype) { return dtype == DType::kBFloat16 || dtype == DType::kFloat16; }

constexpr std::string_view kTensorModes[kTensorModeCount] = {"default", "fp32", "double_row",
                                                             "transpose_fp32", "sparse"};

}  // namespace

std::string_view name(TensorMode mode) { return kTensorModes[static_cast<size_t>(mode)]; }

CostRules::CostRules(const arch::TimingTable& table)
    : partitions_(static_cast<int64_t>(table.constant("partitions"))) {
  for (Engine engine : {Engine::kTensor, Engine::kVector, Engine::kScalar, Engine::kGpSimd, Engine::kSync})
    if (arch::has_engine(table, isa::name(engine)))
      ps_per_cycle_[static_cast<size_t>(engine)] = kPsPerNs / table.clock_ghz(isa::name(engine));
  ps_per_cycle_[static_cast<size_t>(Engine::kTensor)] /= table.constant("tensor_sustained_rate");
  for (Engine engine : {Engine::kVector, Engine::kScalar}) {
    const auto at = static_cast<size_t>(engine);
    issue_ps_[at] =
        table.constant(engine == Engine::kVector ? "vector_issue_cycles" : "scalar_issue_cycles") *
        ps_per_cycle_[at];
  }
  pointer_ps_ = table.constant("vector_pointer_cycles") * ps_per_cycle_[static_cast<size_t>(Engine::kVector)];
  const auto activation = [&](const char* issue_cycles) {
    return Overhead{table.constant(issue_cycles) * ps_per_cycle_[static_cast<size_t>(Engine::kScalar)],
                    table.constant("activation_extra_latency_ns") * kPsPerNs};
  };
  activation_from_sbuf_ = activation("activation_sbuf_issue_cycles");
  activation_from_psum_ = activation("activation_psum_issue_cycles");
  dynamic_min_cycles_ = table.constant("dynamic_address_interval_cycles");
  strided_bytes_ = table.constant("sbuf_strided_access_bytes");
  strided_ps_per_element_ =
      kPsPerNs / table.constant("memory_interface_clock_ghz") / table.constant("sbuf_strided_access_rate");
  for (const isa::InstructionDefinition& definition : isa::definitions()) add_rules(table, definition);
  for (const arch::CostMode& mode : table.cost("load_stationary").modes)
    add_tensor_row(load_rows_, "load_stationary", mode);
}

void CostRules::add_tensor_row(TensorRows& rows, const std::string& instruction,
                               const arch::CostMode& mode) const {
  const auto* found = std::ranges::find(kTensorModes, mode.name);
  if (found == std::end(kTensorModes))
    throw Fault(
        FaultKind::kInput, "timing.mode",
        fmt::format("the timing table has a cost '{}' for {} on the Tensor engine, and no rule says when "
                    "it applies",
                    mode.name, instruction),
        "add the mode to src/cost/rules.h and its rule to src/cost/tensor.cc");
  const double cycle = ps_per_cycle_[static_cast<size_t>(Engine::kTensor)];
  rows[static_cast<size_t>(found - std::begin(kTensorModes))] = {mode.min_cycles * cycle,
                                                                 mode.cycles_per_element * cycle};
}

void CostRules::add_rules(const arch::TimingTable& table, const isa::InstructionDefinition& definition) {
  const bool control = isa::is_control(definition.opcode) || definition.opcode == Opcode::kDevicePrint;
  const std::string name(control ? std::string_view("register_op") : definition.name);
  if (!table.has_cost(name)) return;
  const size_t op = static_cast<size_t>(definition.opcode);
  unstated_[op] = table.cost(name).unstated;
  for (const arch::CostMode& mode : table.cost(name).modes) {
    if (mode.engine == isa::name(Engine::kTensor) ||
        (mode.engine.empty() && (definition.engines & mask(Engine::kTensor)) != 0)) {
      add_tensor_row(tensor_rows_[op], name, mode);
      if ((definition.engines & ~mask(Engine::kTensor)) == 0 || !mode.engine.empty()) continue;
    }
    for (Engine engine : kStreamingEngines) {
      const bool meant = mode.engine.empty() ? control || (definition.engines & mask(engine)) != 0
                                             : mode.engine == isa::name(engine);
      if (!meant || !arch::has_engine(table, isa::name(engine))) continue;
      const double cycle = ps_per_cycle_[static_cast<size_t>(engine)];
      rules_[op][static_cast<size_t>(engine)].push_back(
          {condition_named(name, mode.name), mode.min_cycles * cycle, mode.cycles_per_element * cycle,
           mode.extra_cycles * cycle, mode.cycles_per_output * cycle, mode.local_gather ? &mode : nullptr,
           engine == Engine::kVector && mode.borrows_gpsimd_bus});
    }
  }
  // The usual row of one engine takes the place of the general one there.
  for (Engine engine : kStreamingEngines) {
    const bool has_own = table.cost(name).has_mode(isa::name(engine));
    auto& rules = rules_[op][static_cast<size_t>(engine)];
    if (!has_own || rules.size() < 2) continue;
    bool first_usual = true;
    std::erase_if(rules, [&](const Rule& rule) {
      return rule.condition.kind == RowKind::kUsual && std::exchange(first_usual, false);
    });
  }
}

CostRules::Streaming CostRules::custom_op(const isa::Program& program, const isa::Instruction& in) const {
  const double ns = program.attribute_real(in, isa::slot::custom_op::kANs);
  const double cycles_per_element = program.attribute_real(in, isa::slot::custom_op::kACyclesPerElement);
  if (ns < 0 && cycles_per_element < 0) {
    const auto text = static_cast<uint64_t>(program.attribute_int(in, isa::slot::custom_op::kAOp));
    const bool named = text < program.string_count();  // a program may come from a file
    Fault fault(FaultKind::kNotModelled, "custom_op",
                fmt::format("how long the custom operator '{}' takes is not known",
                            named ? program.string(static_cast<uint32_t>(text)) : "?"),
                "state it: ns or cycles_per_element in custom_op.register() of a Python function, "
                "opentrn_custom_op_time() in a library, or custom_op.set_time() for either; or run without "
                "timing");
    fault.set_location(program.location(in.location));
    throw fault;
  }
  // An operand in HBM has no partitions; it is shared out among the engine's lanes, one for each partition.
  int64_t longest = 1;
  for (const isa::Operand& operand : program.operands(in)) {
    if (!operand.is_access()) continue;
    const isa::Pattern& pattern = program.pattern(operand);
    const bool on_chip = isa::is_on_chip(program.tensor(operand.tensor).space);
    longest = std::max(longest, on_chip ? pattern.elements_per_partition()
                                        : (pattern.element_count() + partitions_ - 1) / partitions_);
  }
  const double cycles = std::max(0.0, cycles_per_element) * static_cast<double>(longest);
  const double ps =
      std::max(0.0, ns) * kPsPerNs + cycles * ps_per_cycle_[static_cast<size_t>(Engine::kGpSimd)];
  return {static_cast<Ps>(ps + 0.5), static_cast<Ps>(ps + 0.5), false};
}

CostRules::Streaming CostRules::streaming(const isa::Program& program, const isa::Instruction& in,
                                          const OperandFeatures& f) const {
  if (in.opcode == Opcode::kCustomOp) [[unlikely]]
    return custom_op(program, in);
  const auto& rules = rules_[static_cast<size_t>(in.opcode)][static_cast<size_t>(f.engine)];
  if (rules.empty()) [[unlikely]] {
    Fault fault(FaultKind::kNotModelled, std::string(isa::name(in.opcode)),
                fmt::format("there is no sourced timing rule for it on the {} engine", isa::name(f.engine)),
                arch::how_to_state(unstated_[static_cast<size_t>(in.opcode)]));
    fault.set_location(program.location(in.location));
    throw fault;
  }
  Cost usual{-1, 0}, slower{-1, 0};
  bool fast = false;
  for (const Rule& rule : rules) {
    if (rule.condition.applies != nullptr && !rule.condition.applies(program, in, f)) continue;
    const Cost cost = evaluate(rule, program, in, f);
    if (rule.condition.kind == RowKind::kSlower) {
      if (cost.busy > slower.busy) slower = cost;
    } else if (usual.busy < 0 || cost.busy < usual.busy) {
      usual = cost;
      fast = rule.borrows_gpsimd_bus;
    }
  }
  Cost best = slower.busy >= 0 ? slower : usual;
  if (f.dynamic_address)
    best.busy = std::max(best.busy, dynamic_min_cycles_ * ps_per_cycle_[static_cast<size_t>(f.engine)]);
  if (f.far_strides)
    best.stream = std::max(best.stream, static_cast<double>(f.longest) * strided_ps_per_element_);
  const Overhead beyond = overhead(in, f);
  best.busy = std::max(best.busy, best.stream + beyond.issue_ps);
  return {static_cast<Ps>(best.busy + 0.5), static_cast<Ps>(best.stream + beyond.latency_ps + 0.5),
          fast && slower.busy < 0};
}

CostRules::Overhead CostRules::overhead(const isa::Instruction& in, const OperandFeatures& f) const {
  if (f.engine == Engine::kScalar && in.opcode != Opcode::kTensorCopy)
    return f.wide_inputs_in_psum > 0 ? activation_from_psum_ : activation_from_sbuf_;
  Overhead result{issue_ps_[static_cast<size_t>(f.engine)], 0};
  if (f.engine == Engine::kVector && f.has_pointer) {
    result.issue_ps += pointer_ps_;
    result.latency_ps += pointer_ps_;
  }
  return result;
}

CostRules::Cost CostRules::evaluate(const Rule& rule, const isa::Program& program, const isa::Instruction& in,
                                    const OperandFeatures& f) const {
  if (rule.mode != nullptr) {
    namespace s = isa::slot::local_gather;
    const isa::Operand& source = program.operand(in, s::kSrcBuffer);
    const double cycles = rule.mode->cycles(
        {.elements = static_cast<double>(program.attribute_int(in, s::kANumValidIndices)),
         .outputs = 0,
         .elements_per_index = static_cast<double>(program.attribute_int(in, s::kANumElemPerIdx)),
         .element_bytes = static_cast<double>(size_bytes(source.dtype))});
    const double ps = cycles * ps_per_cycle_[static_cast<size_t>(f.engine)];
    return {ps, ps};
  }
  double n = static_cast<double>(f.longest);
  if (in.opcode == Opcode::kTopk) n *= 16;  // its formula counts the elements of all its 16 partitions
  double extra = rule.extra_ps;
  if (rule.ps_per_output > 0) extra += rule.ps_per_output * static_cast<double>(output_count(program, in));
  const double stream = rule.ps_per_element * n;
  return {std::max(rule.min_ps, stream) + extra, stream + extra};
}

int64_t CostRules::output_count(const isa::Program& program, const isa::Instruction& in) const {
  return in.opcode == Opcode::kTopk ? program.attribute_int(in, isa::slot::topk::kAN) : 1;
}

Ps CostRules::TensorRow::of(int64_t elements) const {
  return static_cast<Ps>(std::max(min_ps, ps_per_element * static_cast<double>(elements)) + 0.5);
}

const CostRules::TensorRow& CostRules::tensor_row(Opcode opcode, TensorMode mode) const {
  const auto& row = tensor_rows_[static_cast<size_t>(opcode)][static_cast<size_t>(mode)];
  if (!row) [[unlikely]]
    throw Fault(FaultKind::kNotModelled, std::string(isa::name(opcode)),
                fmt::format("there is no sourced timing rule '{}' for it", name(mode)),
                "add a row to src/arch/tables/timing_v*.toml with its source");
  return *row;
}

Ps CostRules::tensor(Opcode opcode, TensorMode mode, int64_t elements) const {
  return tensor_row(opcode, mode).of(elements);
}

int64_t CostRules::least_tensor_elements(Opcode opcode, TensorMode mode) const {
  const TensorRow& row = tensor_row(opcode, mode);
  return row.ps_per_element > 0 ? std::max<int64_t>(1, std::llround(row.min_ps / row.ps_per_element)) : 1;
}

Ps CostRules::load_stationary(bool fp32, int64_t columns) const {
  const auto& row = load_rows_[static_cast<size_t>(fp32 ? TensorMode::kFp32 : TensorMode::kDefault)];
  return row ? row->of(columns) : 0;
}

OperandFeatures CostRules::features(const isa::Program& program, const isa::Instruction& in, Engine engine,
                                    const std::vector<PatternFacts>& patterns) const {
  OperandFeatures f;
  f.engine = engine;
  const auto slots = isa::definition(in.opcode).operands;
  size_t slot = 0;
  for (const isa::Operand& operand : program.operands(in)) {
    const size_t at = std::min(slot++, slots.size() - 1);
    if (!operand.is_access()) continue;
    const PatternFacts& facts = patterns[operand.pattern];
    const bool wide = facts.per_partition > 1;
    const isa::MemorySpace space = program.tensor(operand.tensor).space;
    f.longest = std::max(f.longest, facts.per_partition);
    f.rows = std::max(f.rows, facts.rows);
    f.bytes += static_cast<double>(facts.elements * size_bytes(operand.dtype));
    ++f.access_operands;
    f.has_pointer |=
        slots[at].role == isa::Role::kIn && (slots[at].accepts & isa::kAcceptsImmediate) != 0 && !wide;
    if (operand.indirect != isa::kNoIndirect) {
      f.indirect = true;
      f.dynamic_address |= program.indirect(operand).kind == isa::IndirectKind::kScalar;
    }
    if (space == isa::MemorySpace::kPsum) ++f.psum_operands, f.all_in_sbuf = false;
    if (slots[at].role == isa::Role::kIn && wide) {
      ++f.wide_inputs;
      if (space == isa::MemorySpace::kPsum) ++f.wide_inputs_in_psum, f.inputs_in_sbuf = false;
    }
    if (!wide) continue;  // a [P, 1] vector operand does not stream
    f.all_bf16 &= operand.dtype == DType::kBFloat16;
    f.all_16bit &= is_bf16_or_fp16(operand.dtype);
    f.all_narrow_floats &= is_bf16_or_fp16(operand.dtype) || is_fp8(operand.dtype);
    f.any_fp32 |= operand.dtype == DType::kFloat32;
    f.all_fp32 &= operand.dtype == DType::kFloat32;
    f.contiguous &= facts.inner_step == 1;
    f.far_strides |=
        static_cast<double>(std::abs(facts.inner_step) * size_bytes(operand.dtype)) >= strided_bytes_;
  }
  return f;
}

}  // namespace opentrn::cost
