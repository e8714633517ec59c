#include "monitor/installation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <sstream>

#include "base/fault.h"
#include "base/temporary_folder_for_test.h"

namespace opentrn::monitor {
namespace installation_test {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

const std::vector<InstalledFile> kFiles{
    {"bin/tool", "#!/bin/sh\n"}, {"lib/libx.so.1", "bytes"}, {"lib/libx.so", "libx.so.1", true}};

std::string text_of(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

void put(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

template <typename Act>
std::string refusal(Act&& act) {
  try {
    act();
  } catch (const Fault& fault) {
    EXPECT_EQ(fault.label(), "tools.install");
    return fault.message();
  }
  return "was not refused";
}

TEST(Installation, WritesAndTakesAway) {
  const TemporaryFolderForTest folder;
  const fs::path prefix = folder.path();
  EXPECT_EQ(install(prefix, kFiles).size(), 3u);
  (void)install(prefix, kFiles);  // over its own
  EXPECT_EQ(text_of(prefix / "lib/libx.so"), "bytes");
  struct stat status {};
  ASSERT_EQ(stat((prefix / "bin/tool").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0100, 0100u);
  EXPECT_EQ(uninstall(prefix).removed.size(), 3u);
  EXPECT_TRUE(fs::is_empty(prefix));
  EXPECT_THAT(refusal([&] { (void)uninstall(prefix); }), HasSubstr("has no tools"));
}

TEST(Installation, WhatIsSomebodyElsesStays) {
  const TemporaryFolderForTest folder;
  const fs::path prefix = folder.path();
  put(prefix / "bin/tool", "mine");
  EXPECT_THAT(refusal([&] { (void)install(prefix, kFiles); }), HasSubstr("is not of"));
  EXPECT_EQ(text_of(prefix / "bin/tool"), "mine");
  EXPECT_FALSE(fs::exists(prefix / "lib"));
  fs::remove(prefix / "bin/tool");
  fs::create_symlink("nowhere", prefix / "bin/tool");
  EXPECT_THAT(refusal([&] { (void)install(prefix, kFiles); }), HasSubstr("is not of"));
  EXPECT_TRUE(fs::is_symlink(prefix / "bin/tool"));
}

TEST(Installation, WhatIsChangedIsLeft) {
  const TemporaryFolderForTest folder;
  const fs::path prefix = folder.path();
  (void)install(prefix, kFiles);
  put(prefix / "bin/tool", "mine now");
  put(prefix / "lib/other", "mine");
  const Removed made = uninstall(prefix);
  EXPECT_THAT(made.left, testing::ElementsAre(prefix / "bin/tool"));
  EXPECT_EQ(made.removed.size(), 2u);
  EXPECT_TRUE(fs::exists(prefix / "lib/other"));
  EXPECT_FALSE(fs::exists(prefix / "share"));
}

TEST(Installation, ADamagedManifestRemovesNothing) {
  const TemporaryFolderForTest folder;
  for (const char* text :
       {"", "[]", "{}", R"({"files": []})", R"({"files": {"../x": "1"}})", R"({"files": {"x": "1"}})",
        R"({"files": {"bin/..": "1"}})", R"({"files": {"/bin/x": "1"}})", R"({"files": {"bin/x": 1}})"}) {
    put(folder.path() / "share/opentrn/neuron-tools.json", text);
    EXPECT_THAT(refusal([&] { (void)uninstall(folder.path()); }), HasSubstr("damaged")) << text;
  }
}

}  // namespace installation_test
}  // namespace opentrn::monitor
