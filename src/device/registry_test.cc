#include "device/registry.h"

#include <cstring>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/random.h"
#include "base/temporary_folder_for_test.h"
#include "device/presence.h"

namespace opentrn::device {
namespace {

using testing::HasSubstr;

// A record as a process would write it.
std::vector<std::byte> record_of(uint32_t cores) {
  std::vector<uint64_t> words(record_bytes(cores) / 8);
  auto* record = reinterpret_cast<Record*>(words.data());
  std::memcpy(record->magic, kRecordMagic, sizeof(kRecordMagic));
  record->version = kRecordVersion;
  record->cores = cores;
  record->bytes = record_bytes(cores);
  record->pid = static_cast<uint64_t>(getpid());
  record->start_ticks = start_ticks_of(record->pid).value();
  record->physical_cores_per_core = 2;
  std::strcpy(record->command, "python train.py");
  for (uint32_t i = 0; i < cores; ++i) cores_of(record)[i].index = i;
  std::vector<std::byte> bytes(record_bytes(cores));
  std::memcpy(bytes.data(), words.data(), bytes.size());
  return bytes;
}

std::string refusal_of(const std::vector<std::byte>& bytes) {
  try {
    parse_record(bytes, "1");
  } catch (const Fault& fault) {
    EXPECT_EQ(fault.label(), "device.record");
    return fault.what();
  }
  return "";
}

// The environment of this process, for one test.
class RunFolder : public testing::Test {
 protected:
  RunFolder() {
    path_ = folder_.path() / "run";
    setenv("OPENTRN_RUN_DIR", path_.c_str(), 1);
  }
  ~RunFolder() override { unsetenv("OPENTRN_RUN_DIR"); }
  TemporaryFolderForTest folder_;
  std::filesystem::path path_;
};

TEST(Record, IsReadAsItWasWritten) {
  const Process process = parse_record(record_of(3), "1");
  EXPECT_EQ(process.command, "python train.py");
  EXPECT_EQ(process.cores.size(), 3U);
  EXPECT_TRUE(process.holds(2));
  EXPECT_FALSE(process.holds(3));
}

TEST(Record, EveryDamageIsNamed) {
  auto bytes = record_of(1);
  EXPECT_THAT(refusal_of({bytes.begin(), bytes.begin() + 100}), HasSubstr("100 bytes are not a record"));
  bytes.resize(bytes.size() - 8);
  EXPECT_THAT(refusal_of(bytes), HasSubstr("bytes for 1 cores"));
  bytes = record_of(1);
  bytes[0] = std::byte{0};
  EXPECT_THAT(refusal_of(bytes), HasSubstr("does not begin"));
  bytes = record_of(1);
  bytes[offsetof(Record, version)] = std::byte{9};
  EXPECT_THAT(refusal_of(bytes), HasSubstr("version 9"));
  bytes = record_of(1);
  bytes[offsetof(Record, cores) + 2] = std::byte{1};
  EXPECT_THAT(refusal_of(bytes), HasSubstr("at most 4096"));
  bytes = record_of(1);
  bytes[offsetof(Record, physical_cores_per_core)] = std::byte{3};
  EXPECT_THAT(refusal_of(bytes), HasSubstr("3 physical cores"));
}

TEST(Record, AnyBytesAreReadOrRefused) {
  SplitMix64 random(27);
  const auto whole = record_of(2);
  for (int round = 0; round < 2000; ++round) {
    auto bytes = whole;
    if (random.below(4) == 0) bytes.resize(random.below(bytes.size() + 1));
    for (uint64_t i = random.below(20); i > 0 && !bytes.empty(); --i)
      bytes[random.below(std::min<size_t>(bytes.size(), random.below(2) ? 64 : bytes.size()))] =
          static_cast<std::byte>(random.below(256));
    try {
      const Process process = parse_record(bytes, "x");
      EXPECT_LE(process.latencies.size(), kRecordLatencies);
      for (const char c : process.command + process.tag) EXPECT_FALSE(c < 0x20 && c >= 0);
    } catch (const Fault& fault) {
      EXPECT_EQ(fault.kind(), FaultKind::kInput);
    }
  }
}

TEST_F(RunFolder, HoldsTheProcessesThatLive) {
  // In a child, whose only presence this is.
  const pid_t child = fork();
  if (child == 0) {
    hold({"trn2.48xlarge", {4, 5}, 2, false});
    bool good = is_listed();
    int model = 0;
    load({&model, "mlp", 7, 1000, kUnknown, 24});
    const Predicted predicted{3000, 500, {3000, 0}, 99};
    executed(Outcome::kCompleted, 50'000, &predicted);
    {
      const CoreScope scope(5);
      executed(Outcome::kIncorrectInput, 1, nullptr);
    }
    const Listing listing = list_processes(std::chrono::seconds(10));
    good = good && listing.processes.size() == 1 && wants_times();
    const Process& process = listing.processes.at(0);
    good = good && process.cores[0].flops == 99 && process.cores[0].busy_ns[0] == 3000;
    good = good && process.cores[0].memory[0] == 1000 && process.models.at(0).name == "mlp";
    good = good && process.cores[1].outcomes[2] == 1 && process.latencies.at(0).device_ns == 3000;
    unload(&model);
    const Listing later = list_processes();
    good = good && later.processes.at(0).models.empty() && later.processes.at(0).cores[0].memory[0] == 0;
    good = good && later.processes.at(0).cores[0].memory_peak[0] == 1000;
    _exit(good ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  // It is gone, and left its record behind: nobody lists it, and the file is removed.
  EXPECT_FALSE(std::filesystem::is_empty(path_));
  EXPECT_TRUE(list_processes().processes.empty());
  EXPECT_TRUE(std::filesystem::is_empty(path_));
}

TEST_F(RunFolder, IsOfThisUserAlone) {
  make_run_folder(path_);
  EXPECT_EQ(std::filesystem::status(path_).permissions(), std::filesystem::perms::owner_all);
  chmod(path_.c_str(), 0770);
  EXPECT_THROW(list_processes(), Fault);
  std::filesystem::remove(path_);
  std::filesystem::create_directory_symlink(folder_.path(), path_);
  EXPECT_THROW(make_run_folder(path_), Fault);
}

TEST_F(RunFolder, NamesWhatIsDamaged) {
  make_run_folder(path_);
  std::ofstream(path_ / std::to_string(getpid())) << "no record";
  std::ofstream(path_ / "notes.txt") << "somebody else's";
  const Listing listing = list_processes();
  EXPECT_TRUE(listing.processes.empty());
  ASSERT_EQ(listing.damaged.size(), 1U);
  EXPECT_THAT(listing.damaged[0], HasSubstr("9 bytes are not a record"));
}

TEST_F(RunFolder, ForgetsWhatIsDamagedOfProcessesThatAreGone) {
  make_run_folder(path_);
  const auto left = path_ / "999999999";  // above the largest number of a process
  std::ofstream(left) << "of another release";
  EXPECT_TRUE(list_processes().damaged.empty());
  EXPECT_FALSE(std::filesystem::exists(left));
}

}  // namespace
}  // namespace opentrn::device
