#include "server/settings.h"

#include <functional>

#include <gtest/gtest.h>

#include "base/fault.h"

namespace opentrn::server {
namespace {

std::string refusal(const std::function<void(Settings&)>& change) {
  Settings settings;
  change(settings);
  try {
    check(settings);
  } catch (const Fault& fault) {
    EXPECT_EQ(fault.label(), "serve.settings");
    return fault.message();
  }
  return "";
}

std::string refused_sizes(const ProgramSizes& stated) {
  try {
    chosen_sizes(stated, 256, 4);
  } catch (const Fault& fault) {
    return fault.message();
  }
  return "";
}

TEST(Settings, WhatNeedsValuesIsRefusedWithoutThem) {
  EXPECT_EQ(refusal([](Settings&) {}), "");
  EXPECT_EQ(refusal([](Settings& s) { s.values = false; }), "");
  const std::function<void(Settings&)> changes[] = {
      [](Settings& s) { s.quantization = "int8"; }, [](Settings& s) { s.kv_cache_dtype = "fp8_e4m3"; },
      [](Settings& s) { s.has_adapters = true; },   [](Settings& s) { s.ranks = 2; },
      [](Settings& s) { s.guesses = 3; },
  };
  for (const auto& change : changes) {
    EXPECT_EQ(refusal(change), "");
    EXPECT_NE(refusal([&](Settings& s) { change(s), s.values = false; }), "");
  }
}

TEST(Settings, WhatContradictsItself) {
  EXPECT_NE(refusal([](Settings& s) { s.policy = "neuron-nxdi"; }), "");
  EXPECT_EQ(refusal([](Settings& s) { s.policy = "neuron-nxdi", s.values = false; }), "");
  EXPECT_NE(refusal([](Settings& s) { s.guesses = 3, s.has_step_times = true; }), "");
}

TEST(Settings, SizesThatAreStatedReplaceTheirKind) {
  using Sizes = std::vector<int32_t>;
  const ProgramSizes sizes = chosen_sizes({{1, 4}, {}, {64}}, 256, 4);
  EXPECT_EQ(sizes.sequences, (Sizes{1, 4}));
  EXPECT_EQ(sizes.tokens, (Sizes{16, 64, 128, 256}));
  EXPECT_EQ(sizes.contexts, (Sizes{64, 256}));
  EXPECT_EQ(refused_sizes({{2}, {}, {}}), "the last of the num_seqs buckets is 2, and 4 are the most");
  EXPECT_EQ(refused_sizes({{}, {}, {512}}), "the last of the context buckets is 512, and 256 are the most");
  EXPECT_EQ(refused_sizes({{}, {512}, {}}), "programs of [512] tokens and [128, 256] positions");
  EXPECT_EQ(refused_sizes({{}, {16}, {100}}), "programs of [16] tokens and [100, 256] positions");
}

}  // namespace
}  // namespace opentrn::server
