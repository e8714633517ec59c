#include "nrt/marks.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "device/registry.h"
#include "nrt/driver.h"

namespace opentrn::nrt {

namespace {

// A process by its number and the time it started: the number may be another's later.
struct Owner {
  uint64_t pid = 0, start_ticks = 0;
};
constexpr size_t kMarksMax = 4096;
using Owners = std::vector<Owner>;

// The file, locked against other processes and threads while this lives.
class Marks {
 public:
  Marks() {
    const auto folder = device::run_folder();
    if (!folder)
      throw Failed{ENOENT, "there is no folder of records that processes share (OPENTRN_RUN_DIR is off)"};
    device::make_run_folder(*folder);
    const std::string path = *folder / "cores";
    file_ = open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    struct stat state {};
    if (file_ < 0 || fstat(file_, &state) != 0 || !S_ISREG(state.st_mode) || state.st_uid != geteuid() ||
        flock(file_, LOCK_EX) != 0) {
      const int error = errno;
      if (file_ >= 0) close(file_);
      throw Failed{EACCES, fmt::format("{}: {}", path, std::strerror(error))};
    }
    const ssize_t got = pread(file_, owners.data(), kMarksMax * sizeof(Owner), 0);
    static_cast<void>(got);  // what is not there is nobody's
  }
  ~Marks() { close(file_); }
  Marks(const Marks&) = delete;
  Marks& operator=(const Marks&) = delete;

  void write() const {
    const auto bytes = static_cast<ssize_t>(kMarksMax * sizeof(Owner));
    if (pwrite(file_, owners.data(), static_cast<size_t>(bytes), 0) != bytes)
      throw Failed{EIO, "the marks of cores cannot be written"};
  }

  Owners owners = Owners(kMarksMax);

 private:
  int file_ = -1;
};

bool is_alive(const Owner& owner) {
  return owner.pid != 0 && device::start_ticks_of(owner.pid) == owner.start_ticks;
}

Owner self() {
  const auto pid = static_cast<uint64_t>(getpid());
  return {pid, device::start_ticks_of(pid).value_or(0)};
}

// By physical core: held or marked.
std::vector<bool> taken_cores(const Hardware& hardware, const Owners& owners, const Owner& me) {
  std::vector<bool> taken(static_cast<size_t>(hardware.cores()));
  for (size_t i = 0; i < std::min(taken.size(), owners.size()); ++i) taken[i] = is_alive(owners[i]);
  for (const device::Process& process : device::list_processes().processes) {
    if (process.is_tool || process.pid == me.pid) continue;
    for (const device::CoreState& core : process.cores)
      for (uint64_t i = 0; i < process.physical_cores_per_core; ++i)
        if (const uint64_t at = core.index * process.physical_cores_per_core + i; at < taken.size())
          taken[at] = true;
  }
  return taken;
}

}  // namespace

uint32_t mark_cores(const Hardware& hardware, uint32_t count, uint32_t begin, uint32_t end,
                    uint32_t* longest) {
  if (end >= kMarksMax)
    throw Failed{EINVAL, fmt::format("core {}: marks are for 0 to {}", end, kMarksMax - 1)};
  Marks marks;
  const Owner me = self();
  const std::vector<bool> taken = taken_cores(hardware, marks.owners, me);
  uint32_t found = UINT32_MAX, row = 0;
  *longest = 0;
  for (uint32_t core = begin; core <= end; ++core) {
    row = taken[core] ? 0 : row + 1;
    *longest = std::max(*longest, row);
    if (row == count && found == UINT32_MAX) found = core + 1 - count;
  }
  if (found == UINT32_MAX)
    throw Failed{EBUSY,
                 fmt::format("{} cores in a row of {} to {}: {} are free", count, begin, end, *longest)};
  std::fill_n(marks.owners.begin() + found, count, me);
  marks.write();
  return found;
}

void unmark_cores(const std::vector<uint32_t>& cores) {
  Marks marks;
  const Owner me = self();
  for (const uint32_t core : cores)
    if (core >= kMarksMax || marks.owners[core].pid != me.pid ||
        marks.owners[core].start_ticks != me.start_ticks)
      throw Failed{EINVAL, fmt::format("core {} is not marked by this process", core)};
  for (const uint32_t core : cores) marks.owners[core] = {};
  marks.write();
}

}  // namespace opentrn::nrt
