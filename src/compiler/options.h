// What a user may choose about a compilation.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "arch/arch.h"
#include "compiler/canonicalise/auto_cast_mode.h"
#include "compiler/weights/weight_type.h"
#include "graph/element_type.h"
#include "numerics/sparsity.h"

namespace opentrn::compiler {

// 1: ops as they stand; only calls are inlined and dead ops dropped, and each product is a kernel of its own.
// 2: simplification, folding and sharing of equal ops, and fused kernels.
// 3: 2, and the fastest of a dozen lowerings by the timing model (pipeline/search.h).
enum class Level : uint8_t { k1 = 1, k2 = 2, k3 = 3 };

struct Options {
  Generation generation = Generation::kV3;
  // Whose costs choose between lowerings, where they are not those of `generation`: of a generation whose
  // instructions another one's stand in for (arch/stated.h).
  std::optional<Generation> costs_of;
  Level level = Level::k2;
  AutoCastMode auto_cast = AutoCastMode::kNone;
  graph::ElementType auto_cast_type = graph::ElementType::kBF16;
  WeightType weight_type = WeightType::kAsGiven;
  // Of what runs the program, not of the program: engines round stochastically (runtime::StochasticRounding).
  bool stochastic_rounding = false;
  // Products with weights that obey the pattern are sparse ones; `prune`: all weights are made to.
  std::optional<numerics::SparsityPattern> weight_sparsity;
  bool prune_weights = false;
  // What no device kernel takes is refused. Else the host does it (expand/host_ops.h), and whoever asks for
  // that says so to the user.
  bool strict = true;
  // What a core may use of its chip's HBM, where whoever runs the program holds it to that; else the whole
  // chip's.
  std::optional<int64_t> hbm_bytes_of_core;
  // Inputs that name the result which takes their place (`tf.aliasing_output`, as JAX writes donated
  // arguments) are updated where they lie, where the graph allows it: the result's port then has the input's
  // tensor, and whoever runs the program hands over memory that may be written (runtime/model.h).
  bool donate_inputs = false;
  // Activations and attention become one op each (Level::k2). Without it every op of the graph is computed as
  // it stands, which is what `diff` judges.
  bool recognise = true;
};

// The options that these names and values mean: neuronx-cc's long names without the dashes in front, and
// ours.
//   optlevel        1, 2, 3
//   auto-cast       none, matmult, all
//   auto-cast-type  bf16, fp16, tf32, fp8_e4m3
//   enable-stochastic-rounding  true, false
//   weight-dtype    none, int8, fp8_e4m3, fp8_e4m3fn, fp8_e5m2, mxfp8, mxfp4
//   weight-sparsity none, or a pattern of numerics/sparsity.h: 2:4
//   prune-weights   true, false
//   strict          true, false
// Input fault for another name or value, and for values that exclude each other.
Options options_from(Generation generation, const std::map<std::string, std::string>& given);

// One that users choose: the row from which NEURON_CC_FLAGS, the options of jax.jit and torch.compile, the
// keyword arguments of Python's functions and the command line with its help are made. `strict` is none of
// them: whoever runs the program sets it.
enum class OptionType : uint8_t { kWord, kNumber, kSwitch };
struct OptionRow {
  std::string_view name, standard;  // what it is where nobody says
  OptionType type = OptionType::kWord;
  std::vector<std::string> values;
  std::string_view help;
  std::string_view letter;   // its flag of one letter, as "-O"; or nothing
  std::string_view pattern;  // what --help writes in place of the values, as "M:N"; or nothing
  bool of_program = true;    // it says which numbers are computed, not how the program is run
  bool is_switch() const { return type == OptionType::kSwitch; }
};
const std::vector<OptionRow>& option_rows();

}  // namespace opentrn::compiler
