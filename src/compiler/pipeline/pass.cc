#include "compiler/pipeline/pass.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "arch/core_features.h"
#include "base/fault.h"
#include "base/interrupt.h"
#include "compiler/analysis/graph_names.h"
#include "compiler/canonicalise/passes.h"
#include "compiler/expand/decompositions.h"
#include "compiler/expand/expand.h"
#include "compiler/expand/host_ops.h"
#include "compiler/recognise/recognise.h"
#include "compiler/weights/mx_product.h"

namespace opentrn::compiler {
namespace {

int64_t quantise(Function& function, const PassInput& input, PassCounts& counts) {
  const WeightType type = input.options.weight_type;
  if (type == WeightType::kAsGiven) return 0;
  counts.weights = is_microscaled(type) ? microscale_weights(function, type, input.kernel_ops)
                                        : quantise_weights(function, type);
  return counts.weights.count;
}

int64_t prune(Function& function, const PassInput& input, PassCounts&) {
  if (input.options.weight_sparsity && input.options.prune_weights)
    prune_weights(function, *input.options.weight_sparsity);
  return 0;
}

int64_t compress(Function& function, const PassInput& input, PassCounts& counts) {
  if (!input.options.weight_sparsity) return 0;
  counts.weights = compress_weights(function, *input.options.weight_sparsity);
  return counts.weights.count;
}

// One of those that give a number, which adds to one of the counts.
template <int64_t (*kPass)(Function&), int64_t PassCounts::*kCount>
int64_t counted(Function& function, const PassInput&, PassCounts& counts) {
  const int64_t changed = kPass(function);
  counts.*kCount += changed;
  return changed;
}

template <int64_t (*kPass)(Function&)>
int64_t uncounted(Function& function, const PassInput&, PassCounts&) {
  return kPass(function);
}

template <void (*kPass)(Function&)>
int64_t silent(Function& function, const PassInput&, PassCounts&) {
  kPass(function);
  return 0;
}

template <bool kFoldOps>
int64_t fold(Function& function, const PassInput&, PassCounts& counts) {
  const int64_t folded = fold_constants(function, kFoldOps);
  counts.folded += folded;
  return folded;
}

constexpr Pass kPasses[] = {
    {"inline-calls", "compiling: inlining calls", "calls and composites are replaced by their bodies",
     [](Function& function, const PassInput& input, PassCounts&) -> int64_t {
       function = inline_calls(input.module, function);
       return 0;
     }},
    {"empty-values", "compiling: replacing empty values", "values without elements become constants",
     silent<replace_empty_values>},
    {"expand-mx-products", "compiling: expanding MX products",
     "products with microscaled weights become one op each for kernels, or are written out",
     [](Function& function, const PassInput& input, PassCounts&) {
       return expand_mx_products(function,
                                 input.kernel_ops && arch::core_features(input.options.generation).matmul_mx);
     }},
    {"integer-weights", "compiling: keeping integer weights",
     "weights that the model has in integers stay in eight bits",
     counted<keep_integer_weights, &PassCounts::integer_weights>},
    {"expand-decompositions", "compiling: expanding decompositions",
     "QR, LU, eigenvalues and singular values are written as loops",
     [](Function& function, const PassInput&, PassCounts&) -> int64_t {
       return expand_decompositions(function);
     }},
    {"split-complex-carries", "compiling: splitting complex values",
     "complex values that loops carry and regions combine become two real ones",
     silent<split_complex_carries>},
    {"bring-ends-near", "compiling: bringing ends near",
     "the ends of the 64-bit range become those of the 32-bit one where they bound, fill or start something",
     [](Function& function, const PassInput&, PassCounts&) -> int64_t { return bring_ends_near(function); }},
    {"quantise-weights", "compiling: quantising weights",
     "weights are kept in int8, fp8 or MX, as the option weight-dtype says", quantise},
    {"prune-weights", "compiling: pruning weights",
     "only the largest weights of each group stay, as weight-sparsity and prune-weights say", prune},
    {"widen-product-operands", "compiling: widening operands", "operands of products get one float type",
     silent<widen_product_operands>},
    {"auto-cast", "compiling: casting", "fp32 becomes a narrower type, as the option auto-cast says",
     [](Function& function, const PassInput& input, PassCounts& counts) {
       const int64_t casts = auto_cast(function, input.options.auto_cast, input.options.auto_cast_type);
       counts.casts += casts;
       return casts;
     }},
    {"simplify", "compiling: simplifying ops", "identities that keep every bit",
     counted<simplify, &PassCounts::simplified>},
    {"remove-dead-ops", "compiling: removing dead ops", "ops that nobody reads are dropped",
     silent<remove_dead_ops>},
    {"fold-constants", "compiling: folding constants", "ops of constants become constants", fold<true>},
    {"split-products", "compiling: shaping products",
     "products are computed in the shape in which their results are read",
     counted<split_products, &PassCounts::simplified>},
    {"join-products", "compiling: joining products",
     "products of parts of one tensor by the same weights become one product",
     counted<join_products, &PassCounts::simplified>},
    {"halve-products", "compiling: halving products",
     "a product of which one half gates the other becomes two products",
     counted<halve_products, &PassCounts::simplified>},
    {"slice-at-known-places", "compiling: folding slices",
     "gathers and dynamic slices at constant places become slices",
     counted<slice_at_known_places, &PassCounts::simplified>},
    {"share-equal-ops", "compiling: sharing equal ops", "one op for all that compute the same",
     counted<share_equal_ops, &PassCounts::shared>},
    {"simplify-loops", "compiling: simplifying loops",
     "what a loop's body does not change moves in front of it",
     counted<simplify_loops, &PassCounts::simplified>},
    {"unroll-loops", "compiling: unrolling loops", "loops of a few iterations are written out",
     counted<unroll_loops, &PassCounts::simplified>},
    {"unfold-recurrences", "compiling: unfolding loops",
     "loops whose iterations hang together by recurrences alone become ops on all of them",
     counted<unfold_recurrences, &PassCounts::simplified>},
    {"hoist-products", "compiling: moving products out of loops",
     "products of slices that a loop takes of one tensor become one product in front of it",
     counted<hoist_products, &PassCounts::simplified>},
    {"sum-behind-loops", "compiling: moving sums out of loops",
     "sums to which a loop adds a product in every iteration become one product behind it",
     counted<sum_behind_loops, &PassCounts::simplified>},
    {"join-loops", "compiling: joining loops", "small loops that count alike become one loop",
     counted<join_loops, &PassCounts::simplified>},
    {"compare-fractions", "compiling: comparing fractions",
     "fractions that are made of random bits are compared as whole numbers",
     counted<compare_fractions, &PassCounts::simplified>},
    {"recognise-activations", "compiling: recognising activations",
     "GELU and SiLU become one function of the Scalar engine",
     counted<recognise_activations, &PassCounts::activations>},
    {"join-functions", "compiling: joining functions",
     "one function of parts of one small tensor becomes one op",
     counted<join_functions, &PassCounts::simplified>},
    {"recognise-top-k", "compiling: recognising top_k",
     "sorts of which the first elements are read become chlo.top_k", uncounted<recognise_top_k>},
    {"expand", "compiling: expanding ops", "ops that no kernel takes are written as ops that kernels take",
     [](Function& function, const PassInput&, PassCounts&) -> int64_t { return expand(function); }},
    {"lift-reshapes", "compiling: moving reshapes",
     "reshapes of what is computed of long rows move in front of it",
     counted<lift_reshapes, &PassCounts::simplified>},
    {"arrange-constants", "compiling: arranging constants",
     "kernels of convolutions that are constants get the order in which they are read",
     uncounted<arrange_constants>},
    {"recognise-attention", "compiling: recognising attention", "softmax(Q K^T) V becomes one op",
     counted<recognise_attention, &PassCounts::attention>},
    {"write-constants", "compiling: writing constants", "iotas of every size become constants", fold<false>},
    {"compress-weights", "compiling: compressing weights",
     "products with sparse weights become one op each, as the option weight-sparsity says", compress},
    {"read-narrow-operands", "compiling: reading narrow operands",
     "products read constants and arguments in the type that they are kept in",
     uncounted<read_narrow_operands>},
    {"make-masks-early", "compiling: making masks early",
     "masks that are made of a few numbers move in front of products that they wait beside",
     uncounted<make_masks_early>},
    {"put-channels-first", "compiling: turning images", "images with channels last get them first",
     counted<put_channels_first, &PassCounts::channels_first>},
    {"move-to-host", "compiling: moving ops to the host", "ops that no kernel takes become calls of the host",
     [](Function& function, const PassInput& input, PassCounts&) {
       return move_to_host(input.module, function);
     }},
};

}  // namespace

std::span<const Pass> passes() { return kPasses; }

const Pass& pass_named(std::string_view name) {
  const auto* const found = std::ranges::find(kPasses, name, &Pass::name);
  if (found != std::end(kPasses)) return *found;
  std::string known;
  for (const Pass& pass : kPasses) known += fmt::format("{}{}", known.empty() ? "" : ", ", pass.name);
  throw Fault(FaultKind::kInput, "compiler.pass", fmt::format("no pass is named '{}'", name),
              fmt::format("the passes are {}", known));
}

int64_t run(const Pass& pass, Function& function, const PassInput& input, PassCounts& counts) {
  return interrupt::during(pass.activity, [&] {
    interrupt::poll();
    return pass.run(function, input, counts);
  });
}

}  // namespace opentrn::compiler
