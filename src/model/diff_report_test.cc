#include "model/diff_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace opentrn::model {
namespace {

using testing::HasSubstr;

DiffRow row(size_t number, std::string op, std::string_view verdict, std::optional<double> of_limit) {
  return {number,
          std::move(op),
          "",
          "models/a.mlir",
          7,
          "tensor<4xf32>",
          false,
          "rounded",
          {{1e-7, 2e-7}, 0.5, of_limit, verdict}};
}

TEST(DiffReport, WhatIsInDoubtComesFirst) {
  const DiffReport report{"trn2",
                          {row(0, "stablehlo.add", "rounding", 0.2),
                           row(1, "stablehlo.tanh", "rounding", 0.9), row(2, "stablehlo.negate", "bug", 300)},
                          {}};
  const std::string text = report.text(2);
  EXPECT_LT(text.find("negate"), text.find("tanh"));
  EXPECT_EQ(text.find("add "), std::string::npos);
  EXPECT_THAT(text, HasSubstr("... and 1 more"));
  EXPECT_THAT(
      text,
      HasSubstr("first bug: op 2, stablehlo.negate -> tensor<4xf32>\n  at a.mlir:7 (models/a.mlir:7)\n"));
  EXPECT_THAT(text, HasSubstr("own error: 0.5 units in the last place, 3e+02 of what rounding explains"));
  EXPECT_FALSE(report.is_clean());
  EXPECT_EQ(report.first_bug()->number, 2);
}

TEST(DiffReport, AFusedProgramCanBeWrongAlone) {
  DiffReport report{"trn2", {row(0, "stablehlo.add", "exact", std::nullopt)}, {}};
  EXPECT_TRUE(report.is_clean());
  EXPECT_THAT(report.text(12), HasSubstr("every judged op's error is what rounding explains"));
  report.results.push_back({{{1e-3, 1e-3}, 0, false, "bug"}, Distance{1e-2, 0.5}});
  EXPECT_FALSE(report.is_clean());
  EXPECT_THAT(
      report.text(12),
      HasSubstr("fused: other bits, bug\n  from the model without these options: relative RMS 1.0e-02"));
}

TEST(DiffReport, LongNamesKeepTheirEnd) {
  DiffRow named = row(0, "stablehlo.select_and_scatter_long", "exact", 0);
  named.name = "model/layer/with/a/long/path/dense";
  const std::string text = DiffReport{"trn2", {named}, {}}.text(1);
  EXPECT_THAT(text, HasSubstr("  ..._scatter_long ...a/long/path/dense "));
}

}  // namespace
}  // namespace opentrn::model
