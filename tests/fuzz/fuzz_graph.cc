// Models of every format, whole and damaged: a module or a fault that is the file's, never a crash, a hang
// or memory without end; and what text is accepted prints as text that reads back the same.
#include <optional>

#include "graph/text/text.h"
#include "import/load.h"
#include "import/testdata/programs.h"
#include "tests/fuzz/bodies.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/mutate.h"

namespace opentrn::fuzz {

namespace {

using import::testdata::kPrograms;

constexpr std::string_view kWords[] = {"%0",
                                       "%arg0",
                                       "%0#1",
                                       ":2",
                                       "(",
                                       ")",
                                       "{",
                                       "}",
                                       "<",
                                       ">",
                                       "[[1, 2], [3, 4]]",
                                       "tensor<",
                                       "tensor<9223372036854775807x2xf32>",
                                       "tensor<?x4xf32, #stablehlo.bounds<8, ?>>",
                                       "!quant.uniform<i8:f32, 0.5:3>",
                                       "dense<",
                                       "dense<\"0x00FF\"> : tensor<2xi8>",
                                       "0x7FC0",
                                       "-1.0e99999",
                                       "\"",
                                       "\\",
                                       "loc(\"f\":1:2)",
                                       "loc(callsite(#loc at #loc))",
                                       "#loc",
                                       "#a = #a\n",
                                       "stablehlo.",
                                       "\"stablehlo.while\"",
                                       "func.func @f() {\n",
                                       "({",
                                       "})",
                                       "^bb0(%x: tensor<f32>):",
                                       "attributes {",
                                       "array<i64: 1>",
                                       "\n",
                                       "//",
                                       "{-#"};

// The module, or nothing when the file is refused as it should be.
template <typename Read>
std::optional<graph::Module> accepted(Read&& read) {
  try {
    return read();
  } catch (const Fault& fault) {
    if (fault.kind() != FaultKind::kInput && fault.kind() != FaultKind::kNotModelled &&
        fault.kind() != FaultKind::kCapacity)
      broken("a bad model is not an input error: {}", fault.what());
    return std::nullopt;
  }
}

void prints_and_reads(const graph::Module& module) {
  for (const bool generic : {false, true}) {
    graph::PrintOptions options;
    options.generic = generic;
    const std::string printed = graph::print_module(module, options);
    if (graph::print_module(graph::parse_module(printed, "printed.mlir"), options) != printed)
      broken("printing what was read gives another text:\n{}", printed);
  }
}

}  // namespace

void import_bytes(Bytes file) {
  const auto module = accepted([&] { return import::load(file, "fuzz.model"); });
  if (module && import::sniff(file, "fuzz.model") == import::Format::kStablehloText)
    prints_and_reads(*module);
}

std::vector<std::byte> import_seed(SplitMix64& random) {
  const auto& program = kPrograms[random.below(static_cast<uint32_t>(std::size(kPrograms)))];
  if (random.below(2) == 0) return program.bytes();
  const auto text = std::as_bytes(std::span(std::string_view(program.text)));
  return {text.begin(), text.end()};
}

void graph_case(uint64_t seed) {
  SplitMix64 random(seed);
  const auto& program = kPrograms[random.below(static_cast<uint32_t>(std::size(kPrograms)))];
  if (random.below(2) == 0) {
    std::string text = program.text;
    if (random.below(2) == 0) {  // the generic form, half the time
      graph::PrintOptions options;
      options.generic = true;
      text = graph::print_module(graph::parse_module(text, "program.mlir"), options);
    }
    mutate(random, text, kWords);
    if (const auto module = accepted([&] { return graph::parse_module(text, "fuzz.mlir"); }))
      prints_and_reads(*module);
    return;
  }
  std::vector<std::byte> bytes = program.bytes();
  mutate(random, bytes, {});
  (void)accepted([&] { return import::load(bytes, "fuzz.model"); });
}

}  // namespace opentrn::fuzz
