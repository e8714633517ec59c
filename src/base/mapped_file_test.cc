#include "base/mapped_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "base/fault.h"
#include "base/temporary_folder_for_test.h"

namespace opentrn {
namespace {

TEST(MappedFile, KnowsWhereItsBytesLie) {
  const TemporaryFolderForTest folder;
  const auto path = folder.path() / "a";
  std::ofstream(path) << "hello";
  const auto file = MappedFile::open(path);
  ASSERT_EQ(file->bytes().size(), 5u);
  const auto place = file_place(&file->bytes()[3]);
  ASSERT_TRUE(place);
  EXPECT_EQ(place->path, path);
  EXPECT_EQ(place->offset, 3u);
  const auto own = MappedFile::open(path, "label", "", MappedFile::Owner::kOpenTrn);
  EXPECT_FALSE(file_place(&own->bytes()[3]));
  EXPECT_EQ(mapped_file_of(&own->bytes()[3]), own.get());
  const std::byte elsewhere{};
  EXPECT_FALSE(file_place(&elsewhere));
}

TEST(MappedFile, OpensRegularFilesAlone) {
  const TemporaryFolderForTest folder;
  ASSERT_EQ(::mkfifo((folder.path() / "fifo").c_str(), 0600), 0);
  for (const std::filesystem::path& path :
       {folder.path() / "fifo", folder.path(), std::filesystem::path("/dev/zero"), folder.path() / "none"}) {
    try {
      MappedFile::open(path, "label");
      FAIL() << path;
    } catch (const Fault& fault) {
      EXPECT_EQ(fault.label(), "label");
      EXPECT_THAT(fault.message(), testing::HasSubstr(path.string()));
    }
  }
}

TEST(MappedFile, NoticesThatItWasTruncated) {
  const TemporaryFolderForTest folder;
  const auto path = folder.path() / "a";
  std::ofstream(path) << "hello";
  const auto file = MappedFile::open(path);
  EXPECT_NO_THROW(file->expect_unchanged());
  // Another file under the name is none of ours.
  std::ofstream(folder.path() / "b") << "x";
  std::filesystem::rename(path, folder.path() / "c");
  std::filesystem::rename(folder.path() / "b", path);
  EXPECT_NO_THROW(file->expect_unchanged());
  std::filesystem::resize_file(folder.path() / "c", 2);
  EXPECT_THROW(file->expect_unchanged(), Fault);
}

}  // namespace
}  // namespace opentrn
