#include "spmd/run/parts.h"

#include <gtest/gtest.h>

#include "base/fault.h"
#include "graph/text/text.h"
#include "spmd/run/device_program.h"

namespace opentrn::spmd {
namespace {

graph::Literal literal(std::vector<float> values) {
  const auto* bytes = reinterpret_cast<const std::byte*>(values.data());
  return {graph::Type::tensor(graph::ElementType::kF32, {static_cast<int64_t>(values.size())}),
          std::vector<std::byte>(bytes, bytes + values.size() * sizeof(float))};
}

runtime::Model never() {
  ADD_FAILURE() << "a loaded executable was compiled";
  return {};
}

TEST(Parts, ALoadedExecutableCompilesNothing) {
  const graph::Module module = graph::parse_module(
      "module { func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {\n"
      "  %c = stablehlo.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>\n"
      "  %0 = stablehlo.add %a, %c : tensor<4xf32>\n  return %0 : tensor<4xf32> } }",
      "sum");
  Parts made;
  DeviceOptions options;
  options.parts = &made;
  compile_for_device(module, options);
  EXPECT_THROW(
      made.model(module,
                 []() -> runtime::Model { throw Fault(FaultKind::kNotModelled, "", "no kernel of it"); }),
      Fault);
  made.partition([] { return Partition{{"a"}, {}, "local", ""}; });

  const std::string bytes = made.to_bytes();
  Parts loaded = Parts::of_bytes(bytes);
  const Parts::SharedModel model = loaded.model(module, never);
  const graph::Literal ones = literal({1, 1, 1, 1});
  EXPECT_EQ(DeviceProgram(model).run(std::span(&ones.type(), 1), std::span(&ones, 1)).front(),
            literal({2, 3, 4, 5}));
  try {
    loaded.model(module, never);
    ADD_FAILURE() << "the part that was not compiled has come back as one";
  } catch (const Fault& fault) {
    EXPECT_EQ(fault.kind(), FaultKind::kNotModelled);
    EXPECT_EQ(fault.message(), "no kernel of it");
  }
  EXPECT_THROW(loaded.model(module, never), Fault);  // no third part
  EXPECT_EQ(loaded.partition([]() -> std::optional<Partition> { return std::nullopt; })->local, "local");
  EXPECT_EQ(loaded.to_bytes(), bytes);
  for (size_t cut = 1; cut < bytes.size(); cut += 7)
    EXPECT_THROW(Parts::of_bytes(std::string_view(bytes).substr(0, bytes.size() - cut)), Fault) << cut;
}

}  // namespace
}  // namespace opentrn::spmd
