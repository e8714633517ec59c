#include "base/text_file.h"

#include <sys/stat.h>

#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "base/fault.h"
#include "base/temporary_folder_for_test.h"

namespace opentrn {
namespace {

std::string refused(const std::filesystem::path& path) {
  try {
    static_cast<void>(read_text_file(path, "test.file"));
  } catch (const Fault& fault) {
    EXPECT_EQ(fault.label(), "test.file");
    return fault.message();
  }
  return "read";
}

TEST(TextFile, WhatIsNoFileIsNeitherWaitedForNorReadWithoutEnd) {
  const TemporaryFolderForTest folder;
  const std::filesystem::path fifo = folder.path() / "fifo", file = folder.path() / "file";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  for (const std::filesystem::path& path : {fifo, folder.path(), std::filesystem::path("/dev/zero")})
    EXPECT_EQ(refused(path), "'" + path.string() + "' is not a regular file");
  EXPECT_EQ(refused(file), "there is no file '" + file.string() + "'");
  std::ofstream(file.string()) << "a\nb";
  EXPECT_EQ(read_text_file(file, "test.file"), "a\nb");
}

TEST(TextFile, SizesAreBounded) {
  const TemporaryFolderForTest folder;
  const std::filesystem::path file = folder.path() / "sparse";
  std::ofstream(file.string()) << "a";
  std::filesystem::resize_file(file, uintmax_t{1} << 40);
  EXPECT_EQ(refused(file), "'" + file.string() + "' has more than 256 MiB");
}

TEST(TextFile, LinesAreBounded) {
  std::istringstream in("one\n\ntwo");
  std::string line, all;
  while (next_line(in, line, "in", "test.line")) all += line + "|";
  EXPECT_EQ(all, "one||two|");
  std::istringstream endless(std::string(kLineBytesMax + 1, 'x'));
  EXPECT_THROW(next_line(endless, line, "in", "test.line"), Fault);
}

TEST(TextFile, AByteOrderMarkIsNotOfTheText) {
  const TemporaryFolderForTest folder;
  const std::filesystem::path file = folder.path() / "from-a-spreadsheet";
  std::ofstream(file.string()) << "\xEF\xBB\xBFtime,tokens\n1,2\n";
  EXPECT_EQ(read_text_file(file, "test.file"), "time,tokens\n1,2\n");
  std::ifstream in(file);
  std::string line;
  ASSERT_TRUE(next_line(in, line, "in", "test.line"));
  EXPECT_EQ(line, "time,tokens");
  std::istringstream alone("\xEF\xBB\xBF");
  EXPECT_FALSE(next_line(alone, line, "in", "test.line"));
}

}  // namespace
}  // namespace opentrn
