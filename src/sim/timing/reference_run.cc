#include "sim/timing/reference_run.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "sim/timing/machine.h"

namespace opentrn::sim::timing {

namespace {

using isa::Engine;
using isa::Opcode;

// Everything the hardware holds on to between two instructions.
struct State {
  std::map<Engine, Ps> engine_free;
  std::map<int, Ps> tile_free;  // Tensor: tile of the array
  Ps last_multiply_start = 0, last_tile_issue = 0;
  bool tiled = false;
  Ps background_free = 0;  // Tensor: transposes beside other work
  std::optional<Ps> ramp_begin;
  Ps window_begin = 0, window_busy = 0;
  std::map<Engine, Ps> sbuf_port, psum_port;  // held until
  struct DmaEngine {
    Ps time = 0;
    std::map<int, Ps> left;  // by queue
  };
  std::map<int, DmaEngine> dma_engines;
  std::map<Engine, Ps> descriptor_unit_free;
  std::map<int64_t, double> hbm_used;  // bytes, by microsecond
  std::optional<ActivationFunction> table;
};

class Reference {
 public:
  Reference(const isa::Executable& executable, const arch::TimingTable& table)
      : executable_(executable),
        program_(*executable.program),
        table_(table),
        machine_(table),
        patterns_(all_pattern_facts(program_)) {}

  ReferenceTimes run() {
    const size_t n = executable_.schedule.size();
    std::map<uint32_t, Ps> visible;
    std::map<uint32_t, Ps> started;
    while (started.size() < n) {
      std::optional<uint32_t> best;
      Ps best_start = 0;
      std::set<Engine> looked_at;
      for (uint32_t at = 0; at < n; ++at) {
        const Engine issuer = issuer_of(at);
        if (started.contains(at) || !looked_at.insert(issuer).second) continue;  // not the head of its queue
        const std::optional<Ps> start = start_of(at, visible);
        // Of two that can start together the engine listed first goes first.
        if (start &&
            (!best || *start < best_start || (*start == best_start && rank(issuer) < rank(issuer_of(*best)))))
          best = at, best_start = *start;
      }
      OPENTRN_CHECK(best.has_value(), "nothing can start");
      started[*best] = best_start;
      visible[*best] = execute(*best, best_start, ready_of(*best, visible));
    }
    ReferenceTimes times;
    for (uint32_t at = 0; at < n; ++at) {
      times.start_ns.push_back(to_ns(started[at]));
      times.end_ns.push_back(to_ns(visible[at]));
      times.total_ns = std::max(times.total_ns, to_ns(visible[at]));
    }
    return times;
  }

 private:
  static int rank(Engine engine) {
    constexpr Engine kOrder[] = {Engine::kTensor, Engine::kVector, Engine::kScalar, Engine::kGpSimd,
                                 Engine::kSync};
    return static_cast<int>(std::ranges::find(kOrder, engine) - kOrder);
  }
  const isa::Instruction& instruction(uint32_t at) const {
    return program_.instruction(executable_.schedule[at].instruction);
  }
  bool is_dma(uint32_t at) const { return executable_.schedule[at].engine == Engine::kDma; }
  Engine issuer_of(uint32_t at) const {
    return is_dma(at) ? executable_.schedule[at].trigger : executable_.schedule[at].engine;
  }
  bool on_array(uint32_t at) const {
    return executable_.schedule[at].engine == Engine::kTensor &&
           (isa::is_matmul(instruction(at).opcode) || instruction(at).opcode == Opcode::kNcTranspose);
  }
  InstructionCost cost(uint32_t at) const {
    return machine_.costs.of(program_, instruction(at), executable_.schedule[at].engine, patterns_);
  }

  Ps ready_of(uint32_t at, const std::map<uint32_t, Ps>& visible) const {
    Ps ready = 0;
    for (uint32_t wait : executable_.waits_of(executable_.schedule[at]))
      ready = std::max(ready, visible.at(wait));
    return ready;
  }

  Ps array_free(uint16_t tiles) {
    Ps free = 0;
    for (int tile = 0; tile < 16; ++tile)
      if ((tiles >> tile & 1) != 0) free = std::max(free, state_.tile_free[tile]);
    if (tiles != 0xFFFF) free = std::max(free, state_.last_tile_issue);
    return free;
  }

  bool in_background(const TensorWork& work) {
    return table_.constant_fact("background_transpose").as<bool>() &&
           work.kind == trace::FlopKind::kTranspose && work.tiles == 0xFFFF &&
           state_.background_free < array_free(work.tiles);
  }

  std::optional<Ps> start_of(uint32_t at, const std::map<uint32_t, Ps>& visible) {
    for (uint32_t wait : executable_.waits_of(executable_.schedule[at]))
      if (!visible.contains(wait)) return std::nullopt;
    const Engine engine = issuer_of(at);
    Ps start = std::max(ready_of(at, visible), state_.engine_free[engine]);
    if (is_dma(at)) return start;
    const InstructionCost c = cost(at);
    if (on_array(at))
      return std::max(start, in_background(c.tensor) ? state_.background_free : array_free(c.tensor.tiles));
    if (c.uses_sbuf && engine == Engine::kVector &&
        (machine_.vector_gpsimd_share_sbuf || (machine_.fast_modes_share_gpsimd_bus && c.fast_mode)))
      start = std::max(start, state_.sbuf_port[Engine::kGpSimd]);
    if (c.uses_sbuf && engine == Engine::kGpSimd) start = std::max(start, state_.sbuf_port[Engine::kVector]);
    if (c.uses_psum && machine_.vector_scalar_share_psum && engine == Engine::kVector)
      start = std::max(start, state_.psum_port[Engine::kScalar]);
    if (c.uses_psum && machine_.vector_scalar_share_psum && engine == Engine::kScalar)
      start = std::max(start, state_.psum_port[Engine::kVector]);
    return start;
  }

  Ps execute(uint32_t at, Ps start, Ps ready) {
    if (is_dma(at)) return transfer(at, start);
    const Engine engine = executable_.schedule[at].engine;
    const InstructionCost c = cost(at);
    Ps end = 0;  // of streaming
    if (on_array(at)) {
      end = multiply(c.tensor, std::max(ready, state_.engine_free[engine]));
    } else {
      const Ps begin = start + table_switch(at);
      end = begin + c.stream;
      const Ps free = begin + c.busy;
      state_.engine_free[engine] = free;
      if (c.uses_sbuf && (engine == Engine::kGpSimd ||
                          (engine == Engine::kVector && (c.fast_mode || machine_.vector_gpsimd_share_sbuf))))
        state_.sbuf_port[engine] = free;
      if (c.uses_psum) state_.psum_port[engine] = free;
    }
    return end + machine_.result_latency[static_cast<size_t>(engine)] + machine_.semaphore;
  }

  Ps multiply(const TensorWork& work, Ps ready) {
    const bool background = in_background(work) && ready < array_free(work.tiles);
    const Ps free = background ? state_.background_free : array_free(work.tiles);
    const Ps loaded = std::max(ready, state_.last_multiply_start) +
                      std::max(work.load, to_ps(table_.constant("tensor_load_exposed_ns")));
    const Ps begin = std::max(loaded, free);
    Ps busy = work.multiply;
    if (background)
      busy = static_cast<Ps>(static_cast<double>(busy) / (table_.constant("background_transpose_rate") - 1) +
                             0.5);
    const double rate = clock_rate(begin);
    if (rate < 1) busy = static_cast<Ps>(static_cast<double>(busy) / rate + 0.5);
    state_.window_busy += busy;
    if (background) state_.background_free = begin + busy;
    for (int tile = 0; tile < 16 && !background; ++tile)
      if ((work.tiles >> tile & 1) != 0) state_.tile_free[tile] = begin + busy;
    state_.last_multiply_start = begin;
    state_.last_tile_issue =
        begin + to_ps(table_.constant("tensor_tile_issue_cycles") / table_.clock_ghz("tensor") /
                      table_.constant("tensor_sustained_rate"));
    return begin + busy;
  }

  double clock_rate(Ps time) {
    const double low = table_.constant("tensor_ramp_start_rate"),
                 ramp = table_.constant("tensor_ramp_ns") * kPsPerNs;
    const Ps window = to_ps(table_.constant("tensor_ramp_window_ns"));
    if (ramp == 0 || low >= 1) return 1;
    if (!state_.ramp_begin) {
      state_.ramp_begin = state_.window_begin = time;
    } else if (time - state_.window_begin >= window) {
      const double use =
          static_cast<double>(state_.window_busy) / static_cast<double>(time - state_.window_begin);
      if (use < table_.constant("tensor_ramp_utilisation")) state_.ramp_begin = time;
      state_.window_begin = time;
      state_.window_busy = 0;
    }
    return low + (1 - low) * std::min(1.0, static_cast<double>(time - *state_.ramp_begin) / ramp);
  }

  Ps table_switch(uint32_t at) {
    const isa::Instruction& in = instruction(at);
    if (in.opcode != Opcode::kActivation && in.opcode != Opcode::kActivationReduce &&
        in.opcode != Opcode::kActivate2)
      return 0;
    const ActivationFunction function = program_.attribute_activation(in, isa::slot::activation::kAOp);
    if (!machine_.needs_table(function) || state_.table == function) return 0;
    state_.table = function;
    return machine_.table_load;
  }

  // Queues that have work get equal shares of the engine up to `now`.
  static void share_out(State::DmaEngine& engine, Ps now) {
    while (engine.time < now) {
      std::vector<Ps*> active;
      for (auto& [queue, left] : engine.left)
        if (left > 0) active.push_back(&left);
      if (active.empty()) {
        engine.time = now;
        return;
      }
      const Ps count = static_cast<Ps>(active.size());
      Ps share = (now - engine.time) / count;
      for (const Ps* left : active) share = std::min(share, *left);
      share = std::max<Ps>(1, share);
      for (Ps* left : active) *left -= share;
      engine.time = std::min(now, engine.time + share * count);
    }
  }
  static Ps through(const State::DmaEngine& engine, int queue, Ps work) {
    Ps end = engine.time + work;
    for (const auto& [other, left] : engine.left)
      if (other != queue) end += std::min(left, work);
    return end;
  }

  // Takes what is left of each microsecond of HBM time from `begin` on.
  Ps hbm_through(Ps begin, double bytes) {
    constexpr Ps kSlice = 1'000'000;
    const double rate = table_.constant("hbm_sustained_gb_s") / kPsPerNs,
                 room = rate * static_cast<double>(kSlice);
    const Ps alone = begin + static_cast<Ps>(bytes / rate + 0.5);
    for (int64_t slice = begin / kSlice;; ++slice) {
      double& used = state_.hbm_used[slice];
      if (used >= room) continue;
      const double part = std::min(bytes, room - used);
      used += part;
      bytes -= part;
      if (bytes <= 0) return std::max(alone, slice * kSlice + static_cast<Ps>(used / rate + 0.5));
    }
  }

  Ps transfer(uint32_t at, Ps start) {
    const isa::ScheduledInstruction& entry = executable_.schedule[at];
    const DmaWork work = machine_.costs.of_transfer(program_, program_.instruction(entry.instruction),
                                                    executable_.placements, patterns_);
    Ps arrival = 0;
    switch (entry.dge) {
      case isa::DgeMode::kHwdge: {
        Ps& unit = state_.descriptor_unit_free[entry.trigger];
        unit = std::max(unit, start) + to_ps(table_.constant("hwdge_instruction_ns"));
        arrival = unit + to_ps(table_.constant("dma_hwdge_start_latency_ns"));
        state_.engine_free[entry.trigger] = start + to_ps(table_.constant("dma_hwdge_trigger_cycles") /
                                                          table_.clock_ghz(isa::name(entry.trigger)));
        break;
      }
      case isa::DgeMode::kSwdge:
        arrival = start + to_ps(table_.constant("dma_swdge_start_latency_ns"));
        state_.engine_free[entry.trigger] =
            start + static_cast<Ps>(table_.constant("dma_swdge_descriptor_ns") * kPsPerNs *
                                        static_cast<double>(work.descriptors) +
                                    0.5);
        break;
      default:
        arrival = start + to_ps(table_.constant("dma_start_latency_ns"));
        state_.engine_free[entry.trigger] = start + to_ps(table_.constant("dma_trigger_ns"));
    }
    Ps first = 0, end = 0, later = 0;
    if (entry.dge == isa::DgeMode::kSwdge)
      later = static_cast<Ps>(table_.constant("dma_swdge_spread_ns") * kPsPerNs *
                                  static_cast<double>(work.descriptors) / work.engines() +
                              0.5);
    const int queue = executable_.streams[entry.stream].queue;
    for (int e = work.first_engine; e <= work.last_engine; ++e) {
      State::DmaEngine& engine = state_.dma_engines[e];
      const Ps busy = e == work.first_engine  ? work.first_busy
                      : e == work.last_engine ? work.last_busy
                                              : work.middle_busy;
      const Ps there = arrival + later * (e - work.first_engine);
      share_out(engine, there);
      const Ps left = engine.left[queue];
      const Ps begin = left > 0 ? through(engine, queue, left) : std::max(there, engine.time);
      end = std::max(end, through(engine, queue, left + busy));
      if (e == work.first_engine || begin < first) first = begin;
      engine.left[queue] += busy;
    }
    const int64_t hbm_bytes = work.hbm_read + work.hbm_written;
    if (hbm_bytes > 0) {
      end = std::max(end, hbm_through(first, static_cast<double>(hbm_bytes)));
    }
    return end + to_ps(table_.constant("dma_completion_latency_ns"));
  }

  const isa::Executable& executable_;
  const isa::Program& program_;
  const arch::TimingTable& table_;
  Machine machine_;
  std::vector<PatternFacts> patterns_;
  State state_;
};

}  // namespace

ReferenceTimes reference_run(const isa::Executable& executable, const arch::TimingTable& table) {
  return Reference(executable, table).run();
}

}  // namespace opentrn::sim::timing
