// Tests that HLO made by jax computes what its StableHLO text computes, bit for bit in the reference
// evaluator, and that broken protocol buffers are refused.
#include "import/hlo.h"

#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/element_value.h"
#include "graph/eval/evaluate.h"
#include "graph/text/text.h"
#include "graph/verify.h"
#include "import/testdata/programs.h"

namespace opentrn::import {
namespace {

using testdata::kPrograms;
using testdata::Program;

graph::Literal argument(const graph::Type& type, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(static_cast<size_t>(type.byte_count()));
  const auto size = static_cast<size_t>(graph::storage_bytes(type.element()));
  for (size_t at = 0; at < bytes.size(); at += size) {
    if (graph::is_float(type.element())) {
      graph::store_real(type.element(), static_cast<double>(random() % 1000) / 500.0 - 1.0, &bytes[at]);
    } else {
      graph::store_integer(type.element(), random() % 2, &bytes[at]);
    }
  }
  return {type, std::move(bytes)};
}

TEST(Hlo, ComputesWhatTheTextComputes) {
  int seen = 0;
  for (const Program& program : kPrograms) {
    if (program.version != "hlo") continue;
    ++seen;
    const graph::Module text = graph::parse_module(program.text, "program.mlir");
    const graph::Module hlo = read_hlo(program.bytes());
    graph::verify(hlo);
    ASSERT_EQ(hlo.entry().argument_types(), text.entry().argument_types()) << program.name;
    std::vector<graph::eval::RuntimeValue> arguments;
    for (const graph::Type& type : text.entry().argument_types())
      arguments.push_back({argument(type, static_cast<uint32_t>(arguments.size()))});
    const auto wanted = graph::eval::evaluate(text, text.entry(), arguments);
    const auto found = graph::eval::evaluate(hlo, hlo.entry(), arguments);
    ASSERT_EQ(found.size(), wanted.size()) << program.name;
    for (size_t i = 0; i < found.size(); ++i)
      EXPECT_EQ(found[i].literal(), wanted[i].literal()) << program.name << " result " << i;
  }
  EXPECT_GE(seen, 8);
}

// A module around one instruction, hand-encoded: {name "m", computations {instructions {opcode}, id 1}, entry
// 1}.
std::string fault_of(std::string_view opcode) {
  std::string instruction = std::string("\x12") + static_cast<char>(opcode.size()) + std::string(opcode);
  instruction += std::string("\x1a\x02\x10\x0b", 4);  // shape: f32[]
  std::string computation =
      std::string("\x12") + static_cast<char>(instruction.size()) + instruction + "\x28\x01";
  const std::string module =
      "\x0a\x01m" + (std::string("\x1a") + static_cast<char>(computation.size())) + computation + "\x30\x01";
  try {
    graph::verify(read_hlo(std::as_bytes(std::span(module))));
  } catch (const Fault& fault) {
    return fault.what();
  }
  return "no fault";
}

// input_output_alias of HloModuleProto, one entry: result `output` of a tuple takes the place of argument 0.
std::vector<std::byte> with_alias(const Program& program, char output) {
  const std::string alias = std::string("\x42\x07\x0a\x05\x0a\x01", 6) + output + std::string("\x10\x00", 2);
  std::vector<std::byte> bytes = program.bytes();
  for (const char c : alias) bytes.push_back(static_cast<std::byte>(c));
  return bytes;
}

TEST(Hlo, AliasesBecomeAttributesOfArguments) {
  for (const Program& program : kPrograms) {
    if (program.version != "hlo") continue;
    const graph::Module module = read_hlo(with_alias(program, 0));
    EXPECT_EQ(module.entry().argument_attributes[0].at("tf.aliasing_output"), graph::Attribute(int64_t{0}))
        << program.name;
    EXPECT_THROW((void)read_hlo(with_alias(program, 9)), Fault) << program.name;
  }
}

TEST(Hlo, FaultsNameTheOpcodeAndTheComputation) {
  EXPECT_THAT(fault_of("frobnicate"),
              testing::HasSubstr("not modelled [hlo.proto]: HLO opcode frobnicate is not taken"));
  EXPECT_THAT(fault_of("add"), testing::HasSubstr("add.operands"));
  EXPECT_THAT(fault_of("broadcast"), testing::HasSubstr("broadcast_in_dim.operands"));
}

TEST(Hlo, TruncationsAreFaultsOrSmallerPrograms) {
  for (const Program& program : kPrograms) {
    if (program.version != "hlo") continue;
    const std::vector<std::byte> whole = program.bytes();
    for (size_t size = 0; size < whole.size(); size += 7) {
      try {
        (void)read_hlo(std::span(whole).first(size));
      } catch (const Fault& fault) {
        EXPECT_NE(fault.kind(), FaultKind::kInternal) << fault.what();
      }
    }
  }
}

}  // namespace
}  // namespace opentrn::import
