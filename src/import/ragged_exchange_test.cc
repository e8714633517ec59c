// The values of the call on several devices are tests/jax/test_ragged_exchange.py's.
#include "import/ragged_exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/fault.h"
#include "import/load.h"

namespace opentrn::import {
namespace {

using testing::HasSubstr;

std::string program(const std::string& runs, const std::string& config) {
  return "func.func @main(%x: tensor<4x2xf32>, %o: tensor<6x2xf32>, %a: tensor<" + runs + ">, %b: tensor<" +
         runs +
         ">) -> tensor<6x2xf32> {\n  %y = stablehlo.custom_call @ragged_all_to_all(%x, %o, %a, %b, %a, %b) "
         "{api_version = 4 : i32, backend_config = {" +
         config + "}} : (tensor<4x2xf32>, tensor<6x2xf32>, tensor<" + runs + ">, tensor<" + runs +
         ">, tensor<" + runs + ">, tensor<" + runs +
         ">) -> tensor<6x2xf32>\n  return %y : tensor<6x2xf32>\n}";
}

constexpr auto kTwo = "channel_id = 1 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>";

TEST(RaggedExchange, IsGatheredExchangedAndLookedUp) {
  const graph::Module module = load_text(program("2xi32", kTwo), "test");
  int gathers = 0, exchanges = 0, calls = 0;
  graph::walk(module.entry(), module.entry().body(), [&](graph::OpId id) {
    const graph::OpKind kind = module.entry().op(id).kind;
    gathers += kind == graph::OpKind::all_gather_;
    exchanges += kind == graph::OpKind::all_to_all_;
    calls += kind == graph::OpKind::custom_call_;
  });
  EXPECT_EQ(gathers, 1);
  EXPECT_EQ(exchanges, 3);
  EXPECT_EQ(calls, 0);
}

TEST(RaggedExchange, RefusesWhatItIsNot) {
  const auto expect_refused = [](const std::string& runs, const std::string& config, const char* why) {
    try {
      (void)load_text(program(runs, config), "test");
      ADD_FAILURE() << why;
    } catch (const Fault& fault) {
      EXPECT_EQ(fault.label(), "import.ragged_exchange");
      EXPECT_THAT(fault.message(), HasSubstr(why));
    }
  };
  expect_refused("3xi32", kTwo, "3 runs for 2 devices");
  expect_refused("2xf32", kTwo, "whole numbers");
  expect_refused("2x1xi32", kTwo, "whole numbers");
  expect_refused("2xi32", "channel_id = 1 : i64", "no replica_groups");
  expect_refused("2xi32", "replica_groups = 3 : i64", "no replica_groups");
  std::string text = program("2xi32", kTwo);
  for (size_t at; (at = text.find("4x2xf32")) != std::string::npos;) text.replace(at, 7, "1500000000x2xf32");
  EXPECT_THROW((void)load_text(text, "test"), Fault);  // rows of two devices are beyond 32 bits
}

}  // namespace
}  // namespace opentrn::import
