#include "compiler/pipeline/search.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <utility>

#include "arch/tables.h"
#include "backend/allocation.h"
#include "backend/compile.h"
#include "backend/engine_choice.h"
#include "backend/lifetime.h"
#include "backend/pair.h"
#include "base/interrupt.h"
#include "sim/timing/simulate.h"

namespace opentrn::compiler {

namespace {

constexpr std::array kShares = {0.8, 0.6, 0.4, 0.2};
constexpr double kShareOfLarge = 0.5;
constexpr std::array<int64_t, 3> kPanelBytes = {16 * 1024, 32 * 1024, 96 * 1024};
// Operands that get a prologue have so many elements: small ones find room in SBUF beside any kernel, and a
// kernel of their own uses more partitions than they have rows.
constexpr std::array<int64_t, 2> kPrologueElements = {16 * 1024, kNoPrologues};
// Instructions of a program that is compiled again to be timed: a second or two.
constexpr size_t kTimedInstructions = 150'000;
constexpr double kNever = std::numeric_limits<double>::infinity();
// Iterations of a loop that only values end, for comparing: any number that is the same for all.
constexpr int64_t kAssumedIterations = 8;

// Every tensor has a place that nobody used shortly before: where memory is too full for that, kernels wait
// for one another.
bool rotates(const std::shared_ptr<const isa::Program>& program, Generation generation) {
  const backend::Options options{.generation = generation};
  const auto part_rotates = [&](const backend::CorePart& part) {
    return backend::allocate(*part.program,
                             backend::find_lifetimes(*part.program, backend::find_loops(*part.program)),
                             options, arch::neuron_core(generation), backend::Ways::kRotating)
        .has_value();
  };
  try {
    return std::ranges::all_of(backend::core_parts(program), part_rotates);
  } catch (const Fault& fault) {
    if (fault.kind() != FaultKind::kCapacity) throw;
    return false;
  }
}

double simulated_ns(const CompiledModule& module, const backend::Options& options) {
  sim::timing::SimulateOptions assumed;
  assumed.default_trip_count = kAssumedIterations;
  const isa::Executable executable = backend::compile(module.program, options);
  return sim::timing::simulate(executable, arch::timing(options.generation), nullptr, assumed).total_ns;
}

// Of a program that does not fit: never.
double time_ns(const CompiledModule& module, const backend::Options& options, bool simulated) {
  try {
    return interrupt::during("compiling: timing candidates", [&] {
      return simulated ? simulated_ns(module, options) : backend::estimated_ns(module.program, options);
    });
  } catch (const Fault& fault) {
    if (fault.kind() != FaultKind::kCapacity) throw;
    return kNever;
  }
}

backend::Options timed(Generation generation) {
  return {.generation = generation, .tables = nullptr, .look_ahead = backend::usual_look_ahead(false)};
}

class Search {
 public:
  Search(const std::function<Lowered(const Choices&)>& lower, const Options& options)
      : lower_(lower), generation_(options.generation), costs_of_(options.costs_of) {}

  void offer(Lowered lowered, const Choices& choices) {
    const double ns = time_ns(lowered.module);
    if (best_ && ns >= best_ns_) return;
    best_ = std::move(lowered.module);
    best_ns_ = ns;
    choices_ = choices;
  }
  void attempt(const Choices& choices) { offer(lower_(choices), choices); }
  // Of the best so far.
  const Choices& choices() const { return choices_; }
  CompiledModule take() { return std::move(*best_); }

 private:
  // By the timing model, or by the scheduler's own estimate where an instruction has no sourced cost: then
  // none of the lowerings is timed.
  double time_ns(const CompiledModule& module) {
    if (costs_of_) {
      try {
        return compiler::time_ns(module, timed(*costs_of_), true);
      } catch (const Fault& fault) {
        if (fault.kind() != FaultKind::kNotModelled) throw;
        // It has no engine for an instruction of the generation that stands in for it.
        if (best_) return kNever;
        costs_of_.reset();
      }
    }
    const backend::Options options = timed(generation_);
    if (has_costs_) {
      try {
        return compiler::time_ns(module, options, true);
      } catch (const Fault& fault) {
        if (fault.kind() != FaultKind::kNotModelled) throw;
        OPENTRN_CHECK(!best_, "some lowerings of a model have costs and some have not");
        has_costs_ = false;
      }
    }
    return compiler::time_ns(module, options, false);
  }

  const std::function<Lowered(const Choices&)>& lower_;
  Generation generation_;
  std::optional<Generation> costs_of_;
  bool has_costs_ = true;
  std::optional<CompiledModule> best_;
  double best_ns_ = kNever;
  Choices choices_;
};

}  // namespace

CompiledModule faster(CompiledModule one, CompiledModule other, const Options& options) {
  const backend::Options timing = timed(options.generation);
  const auto pick = [&](bool simulated) {
    return time_ns(other, timing, simulated) < time_ns(one, timing, simulated) ? std::move(other)
                                                                               : std::move(one);
  };
  if (std::max(one.program->size(), other.program->size()) > kTimedInstructions) return pick(false);
  try {
    return pick(true);
  } catch (const Fault& fault) {
    if (fault.kind() != FaultKind::kNotModelled) throw;
    return pick(false);
  }
}

CompiledModule with_shared_work(CompiledModule module, const Options& options) {
  // Longer ones have enough to do for all engines, and take longer to be timed twice.
  constexpr size_t kShortInstructions = 2048;
  if (module.program->size() > kShortInstructions) return module;
  const backend::Options timing = timed(options.generation);
  const std::shared_ptr<isa::Program> by_load = module.program;
  const std::shared_ptr<isa::Program> by_end = backend::with_engines_by_end(by_load, timing);
  if (by_end == by_load) return module;
  try {
    const double before = time_ns(module, timing, true);
    module.program = by_end;
    if (time_ns(module, timing, true) < before) return module;
  } catch (const Fault& fault) {
    if (fault.kind() != FaultKind::kNotModelled) throw;  // an instruction without a cost
  }
  module.program = by_load;
  return module;
}

CompiledModule fastest(const std::function<Lowered(const Choices&)>& lower, const Options& options) {
  Choices choices;
  Lowered first = lower(choices);
  const bool thorough = options.level >= Level::k3;
  const bool crowded = first.crowded || !rotates(first.module.program, options.generation);
  if (first.module.program->size() > kTimedInstructions) {
    // What may cost more than it saves is for programs that are timed.
    if (!thorough && first.module.passes.prologues > 0)
      first = lower(choices = {.prologue_elements = kNoPrologues});
    if (first.crowded)
      first =
          lower(choices = {.resident_share = kShareOfLarge, .prologue_elements = choices.prologue_elements});
    if (!rotates(first.module.program, options.generation))
      first = lower(
          choices = {.resident_share = kShareOfLarge / 2, .prologue_elements = choices.prologue_elements});
    if (!thorough) return std::move(first.module);
  } else if (!thorough && !crowded && first.module.passes.prologues == 0) {
    return std::move(first.module);
  }
  // What Level::k2 gives is among what Level::k3 looks at, which is so no slower.
  Search search(lower, options);
  const bool has_prologues = first.module.passes.prologues > 0;
  search.offer(std::move(first), choices);
  if (has_prologues)
    for (const int64_t elements : kPrologueElements)
      search.attempt({.resident_share = choices.resident_share, .prologue_elements = elements});
  if (!thorough && !crowded) return search.take();
  for (const double share : kShares)
    search.attempt({.resident_share = share, .prologue_elements = search.choices().prologue_elements});
  if (!thorough) return search.take();
  for (const int64_t bytes : kPanelBytes) {
    Choices choices = search.choices();
    choices.panel_bytes = bytes;
    search.attempt(choices);
  }
  for (const double step : {-0.1, 0.1}) {
    Choices choices = search.choices();
    choices.resident_share += step;
    search.attempt(choices);
  }
  Choices plain = search.choices();
  plain.arranged = false;
  search.attempt(plain);
  return search.take();
}

}  // namespace opentrn::compiler
