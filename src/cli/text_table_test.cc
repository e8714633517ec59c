#include "cli/text_table.h"

#include <gtest/gtest.h>

namespace opentrn::cli {
namespace {

TEST(TextTable, NumbersGoRightNamesLeft) {
  TextTable table({"name", "n", "of"});
  table.add_row({"a", "1", "x"});
  table.add_row({"bcd", "1,000", "?"});
  EXPECT_EQ(table.str(),
            "  name      n  of\n"
            "  a         1  x\n"
            "  bcd   1,000  ?\n");
}

TEST(TextTable, CellsGroupThousands) {
  EXPECT_EQ(cell(0.96), "0.96");
  EXPECT_EQ(cell(128), "128");
  EXPECT_EQ(cell(362448), "362,448");
  EXPECT_EQ(cell(1234567.25), "1,234,567.3");
  EXPECT_EQ(cell(arch::Spec<double>()), "-");
}

TEST(TextTable, WhatDoesNotFitStandsBelowItsRow) {
  TextTable table({"plan", "step", "interval", "hours"});
  table.add_row({"TP8 PP4", "3.90 s", "2.2 s .. 7.6 s", "12"});
  table.add_row({"TP4", "13.90 s", "2.3 s .. 9.6 s", ""});
  EXPECT_EQ(table.str(30),
            " plan    step\n"
            " TP8 PP4 3.90 s\n"
            "    interval: 2.2 s .. 7.6 s;\n"
            "    hours: 12\n"
            " TP4     13.90 s\n"
            "    interval: 2.3 s .. 9.6 s\n");
  EXPECT_EQ(table.str(5), table.str(38));  // no two columns fit
  EXPECT_EQ(table.str(38),
            " plan    step    interval       hours\n"
            " TP8 PP4 3.90 s  2.2 s .. 7.6 s    12\n"
            " TP4     13.90 s 2.3 s .. 9.6 s\n");
}

TEST(TextTable, LongLinesOfATextAreBroken) {
  EXPECT_EQ(wrapped_lines("short\n  links: one two three four\n\nend\n", 20),
            "short\n  links: one two\n    three four\n\nend\n");
}

TEST(TextTable, WrapsAtTheLineWidth) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "word ";
  std::string out = wrapped(text, 6, kLineWidth);
  size_t longest = 0;
  for (size_t at = 0; at < out.size(); at = out.find('\n', at) + 1)
    longest = std::max(longest, out.find('\n', at) - at);
  EXPECT_LE(longest, kLineWidth);
  EXPECT_GT(longest, kLineWidth - 6);
  EXPECT_EQ(out.substr(0, 11), "      word ");
}

}  // namespace
}  // namespace opentrn::cli
