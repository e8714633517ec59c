#include "base/guarded_files.h"

#include <csignal>
#include <fstream>

#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/fault.h"
#include "base/temporary_folder_for_test.h"

namespace opentrn {
namespace {

class GuardedFilesTest : public ::testing::Test {
 protected:
  // Of three pages and a byte, all of them 7.
  std::shared_ptr<const MappedFile> make(const std::string& name) {
    std::ofstream(folder_.path() / name) << std::string(static_cast<size_t>(page()) * 3 + 1, '\7');
    return MappedFile::open(folder_.path() / name);
  }
  static int64_t page() { return ::sysconf(_SC_PAGESIZE); }
  void truncate(const std::string& name, int64_t bytes) {
    std::filesystem::resize_file(folder_.path() / name, static_cast<uintmax_t>(bytes));
  }
  // A read that the compiler does not leave out.
  static int at(const MappedFile& file, int64_t place) {
    return static_cast<int>(
        *static_cast<const volatile std::byte*>(&file.bytes()[static_cast<size_t>(place)]));
  }

  // By the signal, or by what a sanitizer's handler makes of it.
  static bool ended_by_it(int status) { return status != 0; }

  const TemporaryFolderForTest folder_;
};

TEST_F(GuardedFilesTest, AFileThatStaysIsRead) {
  const auto file = make("a");
  const GuardedFiles guard({file.get()});
  EXPECT_EQ(at(*file, 3 * page()), 7);
  EXPECT_NO_THROW(guard.expect_unchanged());
}

TEST_F(GuardedFilesTest, WhatIsGoneReadsAsZeroAndIsAnErrorBehindTheRun) {
  const auto file = make("a"), other = make("b");
  const GuardedFiles guard({file.get(), other.get()});
  truncate("a", page());
  EXPECT_EQ(at(*file, 2 * page() + 5), 0);
  EXPECT_EQ(at(*file, 5), 7);
  EXPECT_EQ(at(*other, 2 * page() + 5), 7);
  try {
    guard.expect_unchanged();
    FAIL();
  } catch (const Fault& fault) {
    EXPECT_EQ(fault.label(), "file.changed");
    EXPECT_THAT(fault.message(), testing::HasSubstr("was truncated while it was read"));
  }
}

TEST_F(GuardedFilesTest, AFileThatLostPagesIsNotReadAgain) {
  const auto file = make("a");
  {
    const GuardedFiles guard({file.get()});
    truncate("a", 0);
    EXPECT_EQ(at(*file, page()), 0);
  }
  truncate("a", 3 * page() + 1);  // as long as before
  EXPECT_THROW(GuardedFiles({file.get()}), Fault);
}

using GuardedFilesDeathTest = GuardedFilesTest;

TEST_F(GuardedFilesDeathTest, NobodyElsesSignalIsTaken) {
  const auto file = make("a"), other = make("b");
  const auto read_other = [&] {
    const GuardedFiles guard({file.get()});
    truncate("b", 0);
    at(*other, 0);
  };
  EXPECT_EXIT(read_other(), ended_by_it, "");
  const auto send = [&] {
    const GuardedFiles guard({file.get()});
    ::raise(SIGBUS);
  };
  EXPECT_EXIT(send(), ended_by_it, "");
}

TEST_F(GuardedFilesDeathTest, AnEarlierHandlerIsCalled) {
  const auto file = make("a");
  const auto run = [&] {
    ::signal(SIGBUS, [](int) { ::_exit(42); });
    const GuardedFiles guard({file.get()});
    ::raise(SIGBUS);
  };
  testing::FLAGS_gtest_death_test_style =
      "threadsafe";  // a process of its own, where nothing was guarded before
  EXPECT_EXIT(run(), testing::ExitedWithCode(42), "");
}

}  // namespace
}  // namespace opentrn
