#include "cli/command.h"

#include <array>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/commands.h"
#include "cli/validators.h"

namespace opentrn::cli {
namespace {

using testing::HasSubstr;

void add_failing(CLI::App& app, std::ostream&) {
  app.add_subcommand("fail", "always faults")->callback([] {
    throw Fault(FaultKind::kNotModelled, "thing", "cannot do this yet", "something else");
  });
}

void add_number(CLI::App& app, std::ostream&) {
  static double share = 0;
  static int count = 0;
  CLI::App* command = app.add_subcommand("number", "takes numbers");
  command->add_option("--share", share, "")->check(within(0, 1));
  command->add_option("--count", count, "")->check(whole_within(1, 100'000));
}

int run_words(std::vector<const char*> words, std::string* out, std::string* err) {
  words.insert(words.begin(), "opentrn");
  std::ostringstream out_stream, err_stream;
  const int code = run(std::array<AddCommand, 4>{add_ls, add_describe, add_failing, add_number},
                       static_cast<int>(words.size()), words.data(), out_stream, err_stream);
  *out = out_stream.str();
  *err = err_stream.str();
  return code;
}

TEST(Command, AFaultBecomesItsMessageAndExitCode) {
  std::string out, err;
  EXPECT_EQ(run_words({"fail"}, &out, &err), 4);
  EXPECT_THAT(err, HasSubstr("opentrn: not modelled [thing]: cannot do this yet\n    try: something else"));
}

TEST(Command, HelpGoesToOutAndSucceeds) {
  std::string out, err;
  EXPECT_EQ(run_words({"--help"}, &out, &err), 0);
  EXPECT_THAT(out, HasSubstr("describe"));
  EXPECT_EQ(err, "");
}

TEST(Command, HelpKeepsItsColumns) {
  const std::string help =
      "What a command does, in a sentence that is too long\n\n"
      "  --set KEY=VALUE             What-if: change a table value, for example\n"
      "  --short                     of few words\n";
  EXPECT_EQ(fitted_help(help, 60),
            "What a command does, in a sentence that is too long\n\n"
            "  --set KEY=VALUE             What-if: change a table value,\n"
            "                              for example\n"
            "  --short                     of few words\n");
  EXPECT_EQ(fitted_help(help, 120), help);
  EXPECT_EQ(fitted_help(help, 20), help);  // nothing fits there
}

TEST(Command, ABadCommandLineIsInputAndSaysSoInTwoLines) {
  std::string out, err;
  EXPECT_EQ(run_words({}, &out, &err), 2);
  EXPECT_EQ(err, "opentrn: A subcommand is required\n    try: opentrn --help\n");
  EXPECT_EQ(run_words({"ls", "--jsn"}, &out, &err), 2);
  EXPECT_EQ(err, "opentrn ls: --jsn: there is no such option\n    try: did you mean '--json'?\n");
  EXPECT_EQ(run_words({"number", "--counts", "4"}, &out, &err), 2);
  EXPECT_EQ(err, "opentrn number: --counts: there is no such option\n    try: did you mean '--count'?\n");
  EXPECT_EQ(run_words({"number", "--share", "0.5", "--share", "0.6"}, &out, &err), 2);
  EXPECT_EQ(err, "opentrn number: --share: 2 values, and it takes one\n    try: opentrn number --help\n");
}

TEST(Command, AValueOutsideOfItsRangeNamesTheRange) {
  std::string out, err;
  const auto said = [&](const char* option, const char* value) {
    EXPECT_EQ(run_words({"number", option, value}, &out, &err), 2) << value;
    return err.substr(0, err.find('\n'));
  };
  EXPECT_EQ(said("--share", "1.5"), "opentrn number: --share: 1.5 is not from 0 to 1");
  // Not less than 0 and not more than 1, which CLI11's Range takes.
  EXPECT_EQ(said("--share", "nan"), "opentrn number: --share: nan is not from 0 to 1");
  EXPECT_EQ(said("--share", "inf"), "opentrn number: --share: inf is not from 0 to 1");
  EXPECT_EQ(said("--share", "half"), "opentrn number: --share: 'half' is not a number");
  EXPECT_EQ(said("--count", "0"), "opentrn number: --count: 0 is not from 1 to 100000");
  EXPECT_EQ(said("--count", "1e3"), "opentrn number: --count: '1e3' is not a whole number");
  EXPECT_EQ(run_words({"number", "--share", "1", "--count", "100000"}, &out, &err), 0);
}

}  // namespace
}  // namespace opentrn::cli
