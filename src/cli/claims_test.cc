#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/temporary_folder_for_test.h"
#include "cli/run_for_test.h"
#include "cli/text_table.h"

namespace opentrn::cli {
namespace {

using testing::HasSubstr;

TEST(Claims, PrintsVerdictsAndOneInFull) {
  const Ran all = run_for_test({"claims"});
  ASSERT_EQ(all.code, 0) << all.err;
  EXPECT_THAT(all.out, HasSubstr("bloom-85"));
  EXPECT_LE(longest_line(all.out), kLineWidth);
  const Ran one = run_for_test({"claims", "--only", "trn1-50-percent", "--as-of", "2024-12"});
  ASSERT_EQ(one.code, 0) << one.err;
  for (const char* word : {"Verdict: ", "against p4de", "40.96575", "What would change it", "measured"})
    EXPECT_THAT(one.out, HasSubstr(word));
}

TEST(Claims, JsonAndPageHoldTheSame) {
  const TemporaryFolderForTest folder;
  const std::string path = folder.path() / "claims.html";
  const Ran ran = run_for_test({"claims", "--json", "--html", path.c_str()});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const auto json = nlohmann::json::parse(ran.out);
  EXPECT_GE(json["claims"].size(), 14u);
  std::ifstream file(path);
  std::stringstream page;
  page << file.rdbuf();
  const std::string text = page.str(), open = "id=\"data\">";
  const size_t start = text.find(open) + open.size();
  EXPECT_EQ(nlohmann::json::parse(text.substr(start, text.find("</script>", start) - start)), json);
}

TEST(Claims, SaysWhatIsPossible) {
  EXPECT_THAT(run_for_test({"claims", "--only", "bloom"}).err, HasSubstr("bloom-85"));
  EXPECT_THAT(run_for_test({"claims", "--price", "free"}).err, HasSubstr("[plan.price]"));
  EXPECT_THAT(run_for_test({"claims", "--html", "/nowhere/claims.html"}).err, HasSubstr("[cli.output]"));
}

}  // namespace
}  // namespace opentrn::cli
