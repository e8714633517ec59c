#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <system_error>

namespace opentrn {

// A folder that only this test has, gone with it. CTest runs a program's tests side by side, and worktrees of
// one machine theirs: a fixed name would be shared.
class TemporaryFolderForTest {
 public:
  TemporaryFolderForTest() {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    path_ = std::filesystem::path(testing::TempDir()) / ("opentrn_" + std::string(test->test_suite_name()) +
                                                         "_" + test->name() + "_" + std::to_string(getpid()));
    std::filesystem::create_directories(path_);
  }
  ~TemporaryFolderForTest() {
    std::error_code ignored;  // what is left is the temporary folder's to clear
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolderForTest(const TemporaryFolderForTest&) = delete;
  TemporaryFolderForTest& operator=(const TemporaryFolderForTest&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace opentrn
