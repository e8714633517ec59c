#include "compiler/options.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "arch/core_features.h"
#include "arch/stated.h"
#include "base/fault.h"

namespace opentrn::compiler {

namespace {

template <typename Value>
struct Named {
  std::string_view text;
  Value meaning;
};
constexpr Named<Level> kLevels[] = {{"1", Level::k1}, {"2", Level::k2}, {"3", Level::k3}};
constexpr Named<AutoCastMode> kAutoCasts[] = {
    {"none", AutoCastMode::kNone}, {"matmult", AutoCastMode::kMatmult}, {"all", AutoCastMode::kAll}};
constexpr Named<graph::ElementType> kAutoCastTypes[] = {{"bf16", graph::ElementType::kBF16},
                                                        {"fp16", graph::ElementType::kF16},
                                                        {"tf32", graph::ElementType::kTF32},
                                                        {"fp8_e4m3", graph::ElementType::kF8E4M3}};
constexpr Named<bool> kSwitch[] = {{"true", true}, {"false", false}};

std::string joined(const std::vector<std::string>& values) {
  return fmt::format("{}", fmt::join(values, ", "));
}

template <auto& table>
std::vector<std::string> texts_of() {
  std::vector<std::string> texts;
  for (const auto& row : table) texts.emplace_back(row.text);
  return texts;
}

template <auto member, auto& table>
void choose(Options& options, std::string_view name, const std::string& value) {
  for (const auto& [text, meaning] : table)
    if (text == value) {
      options.*member = meaning;
      return;
    }
  throw Fault(FaultKind::kInput, "compiler.option", fmt::format("{} is '{}'", name, value),
              fmt::format("it takes one of {}", joined(texts_of<table>())));
}

std::vector<std::string> patterns() {
  std::vector<std::string> texts{"none"};
  for (const auto& pattern : numerics::sparsity_patterns())
    texts.push_back(fmt::format("{}:{}", pattern.kept, pattern.group));
  return texts;
}

void choose_sparsity(Options& options, std::string_view name, const std::string& value) {
  options.weight_sparsity = numerics::sparsity_pattern_from_name(value);
  if (value == "none" || options.weight_sparsity) return;
  const std::vector<std::string> known = patterns();
  throw Fault(FaultKind::kInput, "compiler.option", fmt::format("{} is '{}'", name, value),
              fmt::format("it takes none or one of {}", joined({known.begin() + 1, known.end()})));
}

struct Choice {
  std::string_view name, standard;
  std::vector<std::string> (*values)();
  void (*choose)(Options&, std::string_view name, const std::string& value);
  std::string_view help;
  OptionType type = OptionType::kWord;
  std::string_view letter = {}, pattern = {};
  bool of_program = true;
};
using O = Options;
constexpr Choice kChoices[] = {
    {"optlevel", "2", texts_of<kLevels>, choose<&O::level, kLevels>,
     "1: no simplification; 2 (default): simplify, fold and fuse; 3: also choose the fastest of a dozen "
     "lowerings",
     OptionType::kNumber, "-O"},
    {"auto-cast", "none", texts_of<kAutoCasts>, choose<&O::auto_cast, kAutoCasts>,
     "fp32 operations to compute in --auto-cast-type (default none)"},
    {"auto-cast-type", "bf16", texts_of<kAutoCastTypes>, choose<&O::auto_cast_type, kAutoCastTypes>,
     "type of --auto-cast (default bf16)"},
    {"weight-dtype", "none", texts_of<kWeightTypes>, choose<&O::weight_type, kWeightTypes>,
     "narrower type for constant operands of matrix products (default none)"},
    {"weight-sparsity", "none", patterns, choose_sparsity,
     "use sparse products where at most M of N weights are not zero: 4:16 ... 1:2", OptionType::kWord, "",
     "M:N"},
    {"prune-weights", "false", texts_of<kSwitch>, choose<&O::prune_weights, kSwitch>,
     "set the smallest weights to zero so that --weight-sparsity holds", OptionType::kSwitch},
    {"enable-stochastic-rounding", "false", texts_of<kSwitch>, choose<&O::stochastic_rounding, kSwitch>,
     "engines round to narrower floats stochastically", OptionType::kSwitch, "", "", false},
};

void set(Options& options, const std::string& name, const std::string& value) {
  if (name == "strict") return choose<&O::strict, kSwitch>(options, name, value);
  const auto* found = std::ranges::find(kChoices, name, &Choice::name);
  if (found == std::end(kChoices))
    throw Fault(FaultKind::kInput, "compiler.option",
                fmt::format("'{}' is not an option of the compiler", name));
  found->choose(options, name, value);
}

void check_casts(const Options& options) {
  if (options.auto_cast == AutoCastMode::kNone && options.auto_cast_type != Options{}.auto_cast_type)
    throw Fault(FaultKind::kInput, "compiler.option", "auto-cast-type without auto-cast",
                "say what is cast: auto-cast matmult, or all");
}

void check_sparsity(const Options& options) {
  if (options.prune_weights && !options.weight_sparsity)
    throw Fault(FaultKind::kInput, "compiler.option", "prune-weights without weight-sparsity",
                "name the pattern: weight-sparsity 2:4");
  if (!options.weight_sparsity) return;
  if (!arch::core_features(options.generation).matmul_sparse)
    throw Fault(FaultKind::kInput, "compiler.option",
                fmt::format("weight-sparsity on NeuronCore-v{}, which has no sparse product",
                            version(options.generation)),
                "compile for trn2 or trn3");
  if (options.level < Level::k2)
    throw Fault(FaultKind::kInput, "compiler.option", "weight-sparsity with optlevel 1",
                "weights are found and rewritten by the passes of optlevel 2");
  if (options.weight_type != WeightType::kAsGiven)
    throw Fault(FaultKind::kInput, "compiler.option", "weight-sparsity with weight-dtype",
                "sparse products take weights of 16 bits; choose one of the two");
}

void check(const Options& options) {
  check_casts(options);
  check_sparsity(options);
  if (options.weight_type == WeightType::kAsGiven) return;
  if (is_microscaled(options.weight_type) && !arch::core_features(options.generation).matmul_mx)
    throw Fault(
        FaultKind::kInput, "compiler.option",
        fmt::format("MX weights on NeuronCore-v{}, which has no MX product", version(options.generation)),
        "compile for trn3, or keep weights in fp8_e4m3 or int8");
  if (options.level < Level::k2)
    throw Fault(FaultKind::kInput, "compiler.option", "weight-dtype with optlevel 1",
                "weights are found and rewritten by the passes of optlevel 2");
  if (options.weight_type == WeightType::kFp8E4M3Fn &&
      !arch::core_features(options.generation).matmul_fp8_e4m3fn)
    throw Fault(FaultKind::kInput, "compiler.option",
                fmt::format("weight-dtype fp8_e4m3fn on NeuronCore-v{}, which has no such format",
                            version(options.generation)),
                "fp8_e4m3 (largest number 240) is what it has");
  if (options.auto_cast != AutoCastMode::kNone && options.auto_cast_type == graph::ElementType::kF8E4M3)
    throw Fault(FaultKind::kInput, "compiler.option",
                "weight-dtype with auto-cast-type fp8_e4m3, which would round the weights a second time",
                "choose one of the two");
}

}  // namespace

const std::vector<OptionRow>& option_rows() {
  static const auto& rows = *[] {
    auto* made = new std::vector<OptionRow>;
    for (const Choice& choice : kChoices)
      made->push_back({choice.name, choice.standard, choice.type, choice.values(), choice.help, choice.letter,
                       choice.pattern, choice.of_program});
    return made;
  }();
  return rows;
}

Options options_from(Generation generation, const std::map<std::string, std::string>& given) {
  Options options;
  options.generation = arch::stand_in(generation);
  if (options.generation != generation) options.costs_of = generation;
  for (const auto& [name, value] : given) set(options, name, value);
  check(options);
  return options;
}

}  // namespace opentrn::compiler
