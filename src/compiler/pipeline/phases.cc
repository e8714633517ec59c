#include "compiler/pipeline/phases.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/fault.h"
#include "base/interrupt.h"
#include "compiler/analysis/attention_op.h"
#include "compiler/analysis/endless_loops.h"
#include "compiler/analysis/graph_names.h"
#include "compiler/canonicalise/passes.h"
#include "compiler/expand/expand.h"
#include "compiler/lowering/hbm_capacity.h"
#include "graph/op_definitions.h"
#include "graph/verify.h"

namespace opentrn::compiler {
namespace {

std::string first_op(const Function& function, const std::function<bool(const Op&)>& is_it,
                     std::string_view what) {
  std::string found;
  graph::walk(function, function.body(), [&](OpId id) {
    const Op& op = function.op(id);
    if (found.empty() && is_it(op)) found = fmt::format("{} {}", graph::name(op.kind), what);
  });
  return found;
}

std::string not_inlined(const Function& function, const PassInput&) {
  return first_op(
      function, [](const Op& op) { return op.kind == OpKind::call_; }, "is not inlined");
}

std::string not_typed(const Function& function, const PassInput&) {
  const auto is_mixed = [&](const Op& op) {
    if (op.kind != OpKind::dot_general_ && op.kind != OpKind::convolution_) return false;
    const graph::Type &lhs = function.type(op.operands[0]), &rhs = function.type(op.operands[1]);
    return !lhs.quantization() && !rhs.quantization() && lhs.element() != rhs.element() &&
           graph::is_float(lhs.element()) && graph::is_float(rhs.element());
  };
  return first_op(function, is_mixed, "has operands of two float types");
}

// What the passes of `improve` still find. They work on a copy.
std::string not_canonical(const Function& function, const PassInput& input) {
  if (input.options.level < Level::k2) return {};
  for (const std::string_view name :
       {"simplify", "split-products", "fold-constants", "slice-at-known-places", "share-equal-ops",
        "join-products", "halve-products", "simplify-loops"}) {
    Function copy = function;
    PassCounts counts;
    if (const int64_t found = pass_named(name).run(copy, input, counts))
      return fmt::format("{} finds {} more", name, found);
  }
  return {};
}

std::string not_expanded(const Function& function, const PassInput&) {
  return first_op(
      function, [&](const Op& op) { return has_expansion(function, op); }, "is not expanded");
}

std::string not_recognised(const Function& function, const PassInput& input) {
  if (input.options.level < Level::k2 || !input.kernel_ops) return {};
  Function copy = function;
  PassCounts counts;
  const int64_t found = pass_named("recognise-attention").run(copy, input, counts);
  return found ? fmt::format("recognise-attention finds {} more", found) : "";
}

constexpr PhaseRow kPhases[] = {
    {Phase::kInlined, "inlined",
     "one function without calls; every value has elements; no loop carries a complex value", not_inlined},
    {Phase::kTyped, "typed",
     "weights are kept as the options say; operands of a product have one float type; auto-cast is done",
     not_typed},
    {Phase::kCanonical, "canonical",
     "at -O2: no op is an identity, a constant, a copy of another or invariant in its loop", not_canonical},
    {Phase::kExpanded, "expanded", "no op is left that is written as other ops (expand/expand.h)",
     not_expanded},
    {Phase::kRecognised, "recognised", "at -O2: what a kernel computes whole is one op", not_recognised},
    {Phase::kReady, "ready", "constants are as kernels read them", not_expanded},
};

class Pipeline {
 public:
  Pipeline(const PassInput& input, PassCounts& counts, const Observer& observer)
      : input_(input), counts_(counts), observer_(observer), improves_(input.options.level >= Level::k2) {}

  Function run(Phase last) {
    using Step = void (Pipeline::*)();
    constexpr Step kSteps[] = {&Pipeline::inlined,  &Pipeline::typed,      &Pipeline::canonical,
                               &Pipeline::expanded, &Pipeline::recognised, &Pipeline::ready};
    static_assert(std::size(kSteps) == std::size(kPhases));
    interrupt::during("compiling: verifying", [&] { graph::verify(input_.module); });
    function_ = input_.module.entry();
    for (size_t i = 0; i <= static_cast<size_t>(last); ++i) {
      const Step step = kSteps[i];  // g++ 12's UBSan checks another index in (this->*kSteps[i])()
      (this->*step)();
      if (observer_.reached) observer_.reached(kPhases[i], function_);
    }
    return std::move(function_);
  }

 private:
  int64_t pass(std::string_view name) {
    const Pass& pass = pass_named(name);
    const int64_t changes = compiler::run(pass, function_, input_, counts_);
    if (observer_.after) observer_.after(pass, function_, changes);
    return changes;
  }

  // Passes that leave less to do for one another.
  void improve() {
    for (bool more = true; more;) {
      int64_t changes = pass("simplify");
      pass("remove-dead-ops");  // before they are folded
      for (const std::string_view name :
           {"split-products", "fold-constants", "slice-at-known-places", "share-equal-ops", "join-products",
            "halve-products", "simplify-loops"})
        changes += pass(name);
      pass("remove-dead-ops");
      more = changes > 0;
    }
  }

  void inlined() {
    pass("inline-calls");
    pass("empty-values");
    pass("expand-mx-products");
    if (improves_) pass("integer-weights");
    pass("expand-decompositions");
    pass("split-complex-carries");
    pass("bring-ends-near");
  }

  void typed() {
    const Options& options = input_.options;
    if (options.weight_type != WeightType::kAsGiven) {
      improve();  // so that weights are constants
      pass("quantise-weights");
    }
    if (options.weight_sparsity && options.prune_weights) {
      improve();
      pass("prune-weights");
    }
    pass("widen-product-operands");
    pass("auto-cast");
  }

  void canonical() {
    if (improves_) {
      improve();
      int64_t changes = 0;
      for (const std::string_view name : {"unfold-recurrences", "unroll-loops", "hoist-products",
                                          "sum-behind-loops", "join-loops", "compare-fractions"})
        changes += pass(name);
      if (changes > 0) improve();
      return;
    }
    pass("write-constants");
    pass("slice-at-known-places");
    pass("remove-dead-ops");
  }

  void expanded() {
    refuse_endless_loops(input_.module, function_);
    if (improves_ && input_.kernel_ops) pass("recognise-activations");  // their terms have expansions
    if (improves_) {
      const int64_t joined = pass("join-functions"), found = pass("recognise-top-k");
      if (joined + found > 0) pass("remove-dead-ops");
    }
    recognise_attention();  // before its reductions are cut over partitions
    const bool expanded = pass("expand") > 0;
    if (expanded && improves_) improve();
    if (improves_ && pass("lift-reshapes") > 0) improve();
    if (improves_ && pass("arrange-constants") > 0) pass("fold-constants");
  }

  void recognised() {
    recognise_attention();
    pass("remove-dead-ops");
  }

  void recognise_attention() {
    if (!improves_ || !input_.kernel_ops || pass("recognise-attention") == 0) return;
    pass("simplify");
    pass("remove-dead-ops");
  }

  void ready() {
    if (!input_.kernel_ops) return;
    // After attention, whose kernel makes its masks: to other kernels they are data.
    expect_hbm_for_written(input_.module, function_, input_.options.generation,
                           input_.options.hbm_bytes_of_core);
    pass("write-constants");
    if (input_.options.weight_sparsity) pass("compress-weights");
    if (improves_ && pass("read-narrow-operands") > 0) pass("remove-dead-ops");
    if (improves_) pass("make-masks-early");
  }

  const PassInput& input_;
  PassCounts& counts_;
  const Observer& observer_;
  const bool improves_;
  Function function_{"main"};
};

}  // namespace

std::span<const PhaseRow> phases() { return kPhases; }
const PhaseRow& row_of(Phase phase) { return kPhases[static_cast<size_t>(phase)]; }

Phase phase_named(std::string_view name) {
  const auto* const found = std::ranges::find(kPhases, name, &PhaseRow::name);
  if (found != std::end(kPhases)) return found->phase;
  std::string known;
  for (const PhaseRow& row : kPhases) known += fmt::format("{}{}", known.empty() ? "" : ", ", row.name);
  throw Fault(FaultKind::kInput, "compiler.phase", fmt::format("no phase is named '{}'", name),
              fmt::format("the phases are {}", known));
}

Function run_until(Phase last, const PassInput& input, PassCounts& counts, const Observer& observer) {
  return Pipeline(input, counts, observer).run(last);
}

Function run_passes(std::span<const std::string> names, const PassInput& input, PassCounts& counts,
                    const Observer& observer) {
  for (const std::string& name : names) pass_named(name);  // refused before anything is done
  graph::verify(input.module);
  Function function = input.module.entry();
  for (const std::string& name : names) {
    const Pass& pass = pass_named(name);
    const int64_t changes = run(pass, function, input, counts);
    if (observer.after) observer.after(pass, function, changes);
  }
  return function;
}

}  // namespace opentrn::compiler
