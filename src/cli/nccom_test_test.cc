#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/fault.h"
#include "cli/nccom_options.h"
#include "cli/nccom_report.h"
#include "cli/run_for_test.h"

namespace opentrn::cli {
namespace {

using nccom::bytes_of;
using nccom::sizes_of;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(NccomSizes, UnitsArePowersOf1024) {
  EXPECT_EQ(bytes_of("1024", "-b"), 1024);
  EXPECT_EQ(bytes_of("1kb", "-b"), 1024);
  EXPECT_EQ(bytes_of("1MB", "-b"), 1 << 20);
  EXPECT_EQ(bytes_of("32M", "-b"), 32 << 20);
  EXPECT_EQ(bytes_of("2Gb", "-b"), int64_t{2} << 30);
  for (const char* text : {"", "x", "-1", "0", "1tb", "1 kb", "9223372036854775807", "9000000000gb"})
    EXPECT_THROW(bytes_of(text, "-b"), Fault) << text;
}

TEST(NccomSizes, StepsAndFactors) {
  nccom::Operation operation;
  operation.minbytes = "8";
  operation.maxbytes = "16";
  operation.stepbytes = "4";
  EXPECT_THAT(sizes_of(operation), ElementsAre(8, 12, 16));
  operation.stepbytes.clear();
  operation.stepfactor = "2";
  operation.maxbytes = "32";
  EXPECT_THAT(sizes_of(operation), ElementsAre(8, 16, 32));
  operation.stepbytes = "4";
  EXPECT_THROW(sizes_of(operation), Fault);
  operation.stepbytes.clear();
  operation.stepfactor = "1";
  EXPECT_THROW(sizes_of(operation), Fault);
  EXPECT_THAT(sizes_of(nccom::Operation{}), ElementsAre(32 << 20));
}

TEST(NccomTable, ColumnsAreSetToTheRight) {
  const nccom::Columns columns{"all_reduce", 4, {"avg", "p50"}, true, false};
  const std::vector<nccom::Row> rows = {
      {1024, 256, "fp32", {10.0, 10.0}, 10.0, "mesh", {}, {}},
      {1 << 24, 1 << 22, "fp32", {260.604, 260.604}, 260.604, "ring", {}, {}}};
  EXPECT_EQ(table_of(columns, rows),
            "size(B)    count(elems)    type    time:avg(us)    time:p50(us)    algbw(GB/s)    busbw(GB/s)   "
            " algorithm\n"
            "    1024             256    fp32            10.0              10           0.10           0.15  "
            "       mesh\n"
            "16777216         4194304    fp32           260.6             261          64.38          96.57  "
            "       ring\n"
            "Avg bus bandwidth:\t48.3604GB/s\n");
}

TEST(NccomTest, TimesAndChecks) {
  const Ran ran = run_for_test({"nccom-test", "allr", "-r", "8", "--instance", "trn1n.32xlarge", "-b", "1kb",
                                "-e", "1MB", "-f", "32", "-d", "fp32", "--check", "--show-algorithm"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("mesh"));
  EXPECT_THAT(ran.out, HasSubstr("Avg bus bandwidth:\t"));
}

TEST(NccomTest, WhatIsWrongIsSaid) {
  const auto fails = [](std::vector<const char*> words, const char* text) {
    words.insert(words.begin(), "nccom-test");
    const Ran ran = run_for_test(words);
    EXPECT_EQ(ran.code, 2) << ran.out;
    EXPECT_THAT(ran.err, HasSubstr(text));
  };
  fails({"allx", "-r", "2"}, "'allx' is not an operation");
  fails({"allr", "-r", "3", "-N", "2"}, "not the same number on each");
  fails({"allr", "-r", "4096"}, "has room for");
  fails({"allr", "-r", "2", "-d", "fp64"}, "no such type");
  fails({"allr", "-r", "2", "-t", "median"}, "no such statistic");
  fails({"allr", "-r", "2", "--streams-json", "/nowhere.json"}, "there is no file");
}

}  // namespace
}  // namespace opentrn::cli
