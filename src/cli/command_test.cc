#include "cli/command.h"

#include <array>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/commands.h"

namespace opentrn::cli {
namespace {

using testing::HasSubstr;

void add_failing(CLI::App& app, std::ostream&) {
  app.add_subcommand("fail", "always faults")->callback([] {
    throw Fault(FaultKind::kNotModelled, "thing", "cannot do this yet", "something else");
  });
}

int run_words(std::vector<const char*> words, std::string* out, std::string* err) {
  words.insert(words.begin(), "opentrn");
  std::ostringstream out_stream, err_stream;
  const int code = run(std::array<AddCommand, 3>{add_ls, add_describe, add_failing},
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

TEST(Command, ABadCommandLineIsInputAndShowsTheUsage) {
  std::string out, err;
  EXPECT_EQ(run_words({}, &out, &err), 2);
  EXPECT_EQ(run_words({"ls", "--jsn"}, &out, &err), 2);
  EXPECT_THAT(err, HasSubstr("--jsn"));
}

}  // namespace
}  // namespace opentrn::cli
