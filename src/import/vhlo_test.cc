// Tests that bytecode written by jaxlib gives the module that its text gives, and that broken bytes are
// refused.
#include "import/vhlo.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/own_attribute.h"
#include "graph/text/text.h"
#include "import/testdata/programs.h"

namespace opentrn::import {
namespace {

using testdata::kPrograms;
using testdata::Program;

std::string canonical_text(graph::Module module) {
  for (graph::Function& function : module.functions)
    for (size_t i = 0; i < function.op_count(); ++i) graph::drop_defaults(function.op(graph::OpId(i)));
  return graph::print_module(module);
}

TEST(Vhlo, BytecodeOfEveryVersionEqualsTheText) {
  int seen = 0;
  for (const Program& program : kPrograms) {
    if (program.version == "hlo") continue;
    ++seen;
    const graph::Module from_bytes = read_vhlo(program.bytes());
    EXPECT_EQ(canonical_text(from_bytes), canonical_text(graph::parse_module(program.text, "program.mlir")))
        << program.name << " " << program.version;
  }
  EXPECT_GE(seen, 20);
}

TEST(Vhlo, ConstantsReferToBytesThatSomebodyKeeps) {
  for (const Program& program : kPrograms) {
    if (std::string_view(program.name) != "constants" || program.version != "1.16.0") continue;
    const auto kept = std::make_shared<const std::vector<std::byte>>(program.bytes());
    const graph::Module module = read_vhlo(*kept, kept);
    EXPECT_GT(kept.use_count(), 1);
    EXPECT_EQ(canonical_text(module), canonical_text(read_vhlo(*kept)));
  }
}

TEST(Vhlo, EveryTruncationIsAFault) {
  const std::vector<std::byte> whole = kPrograms[0].bytes();
  for (size_t size = 0; size < whole.size(); ++size)
    EXPECT_THROW((void)read_vhlo(std::span(whole).first(size)), Fault) << size;
}

TEST(Vhlo, OtherFilesAreNamedAsSuch) {
  const std::string text = "module {}";
  try {
    (void)read_vhlo(std::as_bytes(std::span(text)));
    FAIL() << "no fault";
  } catch (const Fault& fault) {
    EXPECT_THAT(fault.message(), testing::HasSubstr("does not start with"));
  }
}

}  // namespace
}  // namespace opentrn::import
