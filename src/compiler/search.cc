#include "compiler/search.h"

#include <array>
#include <limits>
#include <utility>

#include "arch/tables.h"
#include "backend/allocation.h"
#include "backend/compile.h"
#include "backend/lifetime.h"

namespace opentrn::compiler {

namespace {

constexpr std::array kShares = {0.8, 0.6, 0.4, 0.2};
constexpr double kShareOfLarge = 0.5;
constexpr std::array<int64_t, 3> kPanelBytes = {16 * 1024, 32 * 1024, 96 * 1024};
// Instructions of a program that is compiled again to be timed: a second or two.
constexpr size_t kTimedInstructions = 150'000;
constexpr double kNever = std::numeric_limits<double>::infinity();

// Every tensor has a place that nobody used shortly before: where memory is too full for that, kernels wait
// for one another.
bool rotates(const isa::Program& program, arch::Generation generation) {
  const backend::Options options{.generation = generation};
  try {
    return backend::allocate(program, backend::find_lifetimes(program, backend::find_loops(program)), options,
                             arch::neuron_core(generation), backend::Ways::kRotating)
        .has_value();
  } catch (const Fault& fault) {
    if (fault.kind() != FaultKind::kCapacity) throw;
    return false;
  }
}

class Search {
 public:
  Search(const std::function<Lowered(const Choices&)>& lower, arch::Generation generation)
      : lower_(lower), generation_(generation) {}

  void offer(Lowered lowered, const Choices& choices) {
    const double ns = estimate(lowered.module);
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
  double estimate(const CompiledModule& module) const {
    try {
      return backend::estimated_ns(
          module.program,
          {.generation = generation_, .tables = nullptr, .look_ahead = backend::kCompilerLookAhead});
    } catch (const Fault& fault) {
      if (fault.kind() != FaultKind::kCapacity) throw;
      return kNever;
    }
  }

  const std::function<Lowered(const Choices&)>& lower_;
  arch::Generation generation_;
  std::optional<CompiledModule> best_;
  double best_ns_ = kNever;
  Choices choices_;
};

}  // namespace

CompiledModule fastest(const std::function<Lowered(const Choices&)>& lower, const Options& options) {
  Lowered first = lower({});
  const bool thorough = options.level >= Level::k3;
  const bool large = first.module.program->size() > kTimedInstructions;
  if (large && !thorough) {
    if (first.crowded) first = lower({.kept_share = kShareOfLarge});
    if (!rotates(*first.module.program, options.generation)) first = lower({.kept_share = kShareOfLarge / 2});
    return std::move(first.module);
  }
  if (!thorough && !first.crowded && rotates(*first.module.program, options.generation))
    return std::move(first.module);
  Search search(lower, options.generation);
  search.offer(std::move(first), {});
  for (const double share : kShares) search.attempt({.kept_share = share});
  if (!thorough) return search.take();
  for (const int64_t bytes : kPanelBytes) {
    Choices choices = search.choices();
    choices.panel_bytes = bytes;
    search.attempt(choices);
  }
  for (const double step : {-0.1, 0.1}) {
    Choices choices = search.choices();
    choices.kept_share += step;
    search.attempt(choices);
  }
  Choices plain = search.choices();
  plain.arranged = false;
  search.attempt(plain);
  return search.take();
}

}  // namespace opentrn::compiler
