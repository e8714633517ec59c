#include "base/new_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/fault.h"
#include "base/temporary_folder_for_test.h"

namespace opentrn {
namespace {

std::string content(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

size_t files_in(const std::filesystem::path& folder) {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

TEST(NewFile, TakesItsNameWhenItIsWhole) {
  const TemporaryFolderForTest folder;
  const auto path = folder.path() / "a";
  std::ofstream(path) << "old";
  {
    NewFile file(path, "label", "hint");
    file.put("new", 3);
    file.pad_to(5);
    EXPECT_EQ(content(path), "old");
    file.finish();
  }
  EXPECT_EQ(content(path), std::string("new\0\0", 5));
  EXPECT_EQ(files_in(folder.path()), 1u);
}

TEST(NewFile, LeavesNothingWhenItIsGivenUp) {
  const TemporaryFolderForTest folder;
  { NewFile(folder.path() / "a", "label", "hint").put("new", 3); }
  EXPECT_EQ(files_in(folder.path()), 0u);
}

// Two that are made one after the other in one place of memory have names that say nothing about it.
TEST(NewFile, HasARandomNameMeanwhile) {
  const TemporaryFolderForTest folder;
  std::string before;
  for (int i = 0; i < 2; ++i) {
    const NewFile file(folder.path() / "a", "label", "hint");
    const std::string name = std::filesystem::directory_iterator(folder.path())->path().filename();
    EXPECT_TRUE(name.starts_with("a.") && name.ends_with(".part")) << name;
    EXPECT_NE(name, before);
    before = name;
  }
}

TEST(NewFile, FaultsNameThePathAndTheReason) {
  try {
    NewFile("/nowhere/a", "label", "hint");
    FAIL();
  } catch (const Fault& fault) {
    EXPECT_EQ(fault.label(), "label");
    EXPECT_THAT(fault.message(), testing::HasSubstr("/nowhere/a cannot be written: No such file"));
  }
  try {
    NewFile file("/dev/full", "label", "hint");
    file.put("new", 3);
    file.finish();
    FAIL();
  } catch (const Fault& fault) {
    EXPECT_THAT(fault.message(), testing::HasSubstr("/dev/full cannot be written: No space left"));
  }
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/full"));
}

}  // namespace
}  // namespace opentrn
