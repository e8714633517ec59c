#include <unistd.h>
#include <cstdio>
#include <fstream>

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
  for (const char* none : {"1", "0.5", "-2", "2kb", "nan", "99999999999999999999"}) {  // 2kb was 2,048
    operation.stepfactor = none;
    EXPECT_THROW(sizes_of(operation), Fault) << none;
  }
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

// What a JSON file says that cannot be: fractions of ranks were cut off, pairs of three taken for pairs,
// counts and displacements that contradict each other left unread.
TEST(NccomTest, WhatIsWrongInAFileIsSaid) {
  const std::string path = testing::TempDir() + "nccom_" + std::to_string(getpid()) + ".json";
  const auto ran = [&](const char* option, const std::string& text, const char* operation) {
    std::ofstream(path) << text;
    return run_for_test({"nccom-test", operation, "-r", "2", "--instance", "trn1n.32xlarge", "-b", "1kb",
                         "-e", "1kb", option, path.c_str()});
  };
  const auto fails = [&](const char* option, const std::string& text, const char* says,
                         const char* operation = "allr") {
    const Ran done = ran(option, text, operation);
    EXPECT_EQ(done.code, 2) << text << done.out;
    EXPECT_THAT(done.err, HasSubstr(says)) << text;
    EXPECT_THAT(done.err, HasSubstr("nccom_test.file")) << text;
  };
  const char *groups = "--custom-replica-groups", *pairs = "--custom-src-target-pairs",
             *sizes = "--variable-size-op-metadata", *streams = "--streams-json";
  fails(groups, R"({"replica_groups": [[[0.5, 1]]]})", "of the form");
  fails(groups, R"({"replica_groups": [[[4294967296, 1]]]})", "of the form");
  fails(pairs, R"({"src_target_pairs": [[[0, 1, 1]]]})", "of the form", "permute");
  fails(pairs, R"({"src_target_pairs": [[[0.25, 1]]]})", "of the form", "permute");
  fails(pairs, R"({"src_target_pairs": [[]]})", "no pairs", "permute");
  fails(sizes, R"({"metadata": [{"send_counts": [1.5, 2]}]})", "of the form", "alltoallv");
  fails(sizes, R"({"metadata": [{"send_counts": [1, 2], "recv_counts": "x"}]})", "of the form", "alltoallv");
  fails(sizes, R"({"metadata": [{"send_counts": [1, 2], "recv_count": [1, 2]}]})",
        "\"recv_count\" is nothing", "alltoallv");
  fails(sizes, R"({"metadata": [{"send_counts": [1, 2], "recv_counts": [1]}]})", "of 1 numbers for 2 ranks",
        "alltoallv");
  fails(sizes, R"({"metadata": [{"send_counts": [1], "recv_counts": [1, 3]}]})",
        "rank 0 receives 3 elements of rank 1, which sends 1", "allgv");
  fails(sizes, R"({"metadata": [{"send_counts": [2], "recv_displs": [0, 1]}]})", "lies on the part before it",
        "allgv");
  fails(sizes, R"({"metadata": [{"send_counts": [1, 1], "send_displs": [0]}]})", "beside 2 counts",
        "alltoallv");
  fails(sizes, R"({"metadata": [{"send_counts": [1, 1], "send_displs": [0, -1]}]})", "a displacement of -1",
        "alltoallv");
  fails(streams, R"({"streams": [{"data_parallel_dimension": -2}]})", "data_parallel_dimension of -2");
  fails(streams, R"({"streams": [{"ops_per_iter": 4294967297}]})", "ops_per_iter of 4294967297");
  const Ran good = ran(sizes,
                       R"({"metadata": [{"send_counts": [512], "send_displs": [0], "recv_counts": [512, 512],
                          "recv_displs": [0, 512]}]})",
                       "allgv");
  EXPECT_EQ(good.code, 0) << good.err;
  const Ran unsaid =
      ran(sizes,
          R"({"metadata": [{"send_counts": [512, 1024], "send_displs": [0, 512], "recv_counts": [],
                            "recv_displs": []}]})",
          "alltoallv");
  EXPECT_EQ(unsaid.code, 0) << unsaid.err;
  std::remove(path.c_str());
}

// Bytes times a proportion passed 64 bits, and came out at a hundredth of the time.
TEST(NccomTest, PartsOfLargeOperationsAreNotCutOff) {
  const auto us = [](const char* size, bool in_parts) {
    std::vector<const char*> words = {"nccom-test",     "allr", "-r", "8",  "--instance",
                                      "trn1n.32xlarge", "-b",   size, "-e", size};
    if (in_parts) words.insert(words.end(), {"--coalesced-cc-size-ratio", "1048576,1"});
    const Ran ran = run_for_test(words);
    EXPECT_EQ(ran.code, 0) << ran.err;
    const size_t at = ran.out.find("uint8");
    return std::stod(ran.out.substr(ran.out.find_first_not_of(' ', at + 5)));
  };
  EXPECT_NEAR(us("1000000gb", true) / us("1000000gb", false), 1, 1e-3);
}

}  // namespace
}  // namespace opentrn::cli
