#include "compiler/options.h"

#include <initializer_list>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "arch/stated.h"
#include "base/fault.h"

namespace opentrn::compiler {

namespace {

template <typename Value>
using Named = std::initializer_list<std::pair<std::string_view, Value>>;

template <typename Value>
Value chosen(const std::string& name, const std::string& value, Named<Value> table) {
  std::string names;
  for (const auto& [text, meaning] : table) {
    if (text == value) return meaning;
    names += (names.empty() ? "" : ", ") + std::string(text);
  }
  throw Fault(FaultKind::kInput, "compiler.option", fmt::format("{} is '{}'", name, value),
              fmt::format("it takes one of {}", names));
}

std::optional<numerics::SparsityPattern> pattern_of(const std::string& value) {
  if (value == "none") return std::nullopt;
  if (const auto pattern = numerics::sparsity_pattern_from_name(value)) return pattern;
  std::string names;
  for (const auto& pattern : numerics::sparsity_patterns())
    names += fmt::format("{}{}:{}", names.empty() ? "" : ", ", pattern.kept, pattern.group);
  throw Fault(FaultKind::kInput, "compiler.option", fmt::format("weight-sparsity is '{}'", value),
              fmt::format("it takes none or one of {}", names));
}

void set(Options& options, const std::string& name, const std::string& value) {
  using graph::ElementType;
  if (name == "optlevel") {
    options.level = chosen<Level>(name, value, {{"1", Level::k1}, {"2", Level::k2}, {"3", Level::k3}});
  } else if (name == "auto-cast") {
    options.auto_cast = chosen<AutoCastMode>(
        name, value,
        {{"none", AutoCastMode::kNone}, {"matmult", AutoCastMode::kMatmult}, {"all", AutoCastMode::kAll}});
  } else if (name == "auto-cast-type") {
    options.auto_cast_type = chosen<ElementType>(name, value,
                                                 {{"bf16", ElementType::kBF16},
                                                  {"fp16", ElementType::kF16},
                                                  {"tf32", ElementType::kTF32},
                                                  {"fp8_e4m3", ElementType::kF8E4M3}});
  } else if (name == "weight-dtype") {
    options.weight_type = chosen<WeightType>(name, value,
                                             {{"none", WeightType::kAsGiven},
                                              {"int8", WeightType::kInt8},
                                              {"fp8_e4m3", WeightType::kFp8E4M3},
                                              {"fp8_e4m3fn", WeightType::kFp8E4M3Fn},
                                              {"fp8_e5m2", WeightType::kFp8E5M2},
                                              {"mxfp8", WeightType::kMxFp8},
                                              {"mxfp4", WeightType::kMxFp4}});
  } else if (name == "weight-sparsity") {
    options.weight_sparsity = pattern_of(value);
  } else if (name == "prune-weights") {
    options.prune_weights = chosen<bool>(name, value, {{"true", true}, {"false", false}});
  } else if (name == "strict") {
    options.strict = chosen<bool>(name, value, {{"true", true}, {"false", false}});
  } else if (name == "enable-stochastic-rounding") {
    options.stochastic_rounding = chosen<bool>(name, value, {{"true", true}, {"false", false}});
  } else {
    throw Fault(FaultKind::kInput, "compiler.option", fmt::format("'{}' is no option of the compiler", name));
  }
}

void check_sparsity(const Options& options) {
  if (options.prune_weights && !options.weight_sparsity)
    throw Fault(FaultKind::kInput, "compiler.option", "prune-weights without weight-sparsity",
                "name the pattern: weight-sparsity 2:4");
  if (!options.weight_sparsity) return;
  if (options.generation < arch::Generation::kV3)
    throw Fault(FaultKind::kInput, "compiler.option",
                fmt::format("weight-sparsity on NeuronCore-v{}, which has no sparse product",
                            static_cast<int>(options.generation)),
                "compile for trn2 or trn3");
  if (options.level < Level::k2)
    throw Fault(FaultKind::kInput, "compiler.option", "weight-sparsity with optlevel 1",
                "weights are found and rewritten by the passes of optlevel 2");
  if (options.weight_type != WeightType::kAsGiven)
    throw Fault(FaultKind::kInput, "compiler.option", "weight-sparsity with weight-dtype",
                "sparse products take weights of 16 bits; choose one of the two");
}

void check(const Options& options) {
  check_sparsity(options);
  if (options.weight_type == WeightType::kAsGiven) return;
  const bool mx = options.weight_type == WeightType::kMxFp8 || options.weight_type == WeightType::kMxFp4;
  if (mx && options.generation < arch::Generation::kV4)
    throw Fault(FaultKind::kInput, "compiler.option",
                fmt::format("MX weights on NeuronCore-v{}, which has no MX product",
                            static_cast<int>(options.generation)),
                "compile for trn3, or keep weights in fp8_e4m3 or int8");
  if (options.level < Level::k2)
    throw Fault(FaultKind::kInput, "compiler.option", "weight-dtype with optlevel 1",
                "weights are found and rewritten by the passes of optlevel 2");
  if (options.weight_type == WeightType::kFp8E4M3Fn && options.generation < arch::Generation::kV4)
    throw Fault(FaultKind::kInput, "compiler.option",
                fmt::format("weight-dtype fp8_e4m3fn on NeuronCore-v{}, which has no such format",
                            static_cast<int>(options.generation)),
                "fp8_e4m3 (largest number 240) is what it has");
  if (options.auto_cast != AutoCastMode::kNone && options.auto_cast_type == graph::ElementType::kF8E4M3)
    throw Fault(FaultKind::kInput, "compiler.option",
                "weight-dtype with auto-cast-type fp8_e4m3, which would round the weights a second time",
                "choose one of the two");
}

}  // namespace

Options options_from(arch::Generation generation, const std::map<std::string, std::string>& given) {
  Options options;
  options.generation = arch::stand_in(generation);
  for (const auto& [name, value] : given) set(options, name, value);
  check(options);
  return options;
}

}  // namespace opentrn::compiler
