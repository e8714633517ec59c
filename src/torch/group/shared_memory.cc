#include "torch/group/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>
#include <utility>

#include <c10/util/Exception.h>

namespace opentrn::torch_device {

namespace {

constexpr uint64_t kAlignment = 64;
constexpr uint64_t kCommitted = uint64_t{1} << 20;  // pages are asked for so many bytes at a time

std::byte* mapped(int descriptor, int64_t bytes) {
  void* at = ::mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
                    descriptor, 0);
  TORCH_CHECK(at != MAP_FAILED, "process group neuron: ", bytes,
              " bytes of addresses for shared memory are not to be had (", std::strerror(errno),
              "); a limit of this process (ulimit -v) may be lower");
  return static_cast<std::byte*>(at);
}

uint64_t rounded(uint64_t bytes, uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

bool ArenaAddress::has_ended() const {
  if (pid == ::getpid()) return false;
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  if (!std::getline(file, text)) return true;
  const size_t after_name = text.rfind(") ");
  return after_name != std::string::npos && (text[after_name + 2] == 'Z' || text[after_name + 2] == 'X');
}

Arena& Arena::own() {
  static auto* mutex = new std::mutex;
  static Arena* arena = nullptr;
  const std::lock_guard lock(*mutex);
  if (arena == nullptr || arena->address_.pid != ::getpid()) arena = new Arena;  // the parent's is left alone
  return *arena;
}

Arena::Arena() {
  const int64_t memory = int64_t{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGE_SIZE);
  const int descriptor = ::memfd_create("opentrn", MFD_CLOEXEC);
  TORCH_CHECK(descriptor >= 0 && ::ftruncate(descriptor, memory) == 0,
              "process group neuron: no shared memory (memfd_create): ", std::strerror(errno));
  address_ = {::getpid(), descriptor, memory};
  base_ = mapped(descriptor, memory);
  free_[0] = static_cast<uint64_t>(memory);
  TORCH_INTERNAL_ASSERT(allocate(board_bytes()) == kBoard);  // the first of all
}

std::byte* Arena::of(const ArenaAddress& address) {
  if (address.pid == ::getpid()) return own().base();
  static auto* mutex = new std::mutex;
  static auto* known = new std::map<std::pair<int64_t, ino_t>, std::byte*>;
  const std::string path =
      "/proc/" + std::to_string(address.pid) + "/fd/" + std::to_string(address.descriptor);
  const std::lock_guard lock(*mutex);
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  TORCH_CHECK(descriptor >= 0, "process group neuron: the memory of process ", address.pid,
              " cannot be opened (", path, ": ", std::strerror(errno),
              "): all ranks run on one machine, as one user, and see each other's processes");
  struct stat file {};
  const bool is_known_file = ::fstat(descriptor, &file) == 0 && file.st_size == address.bytes;
  // A number of a process may be given again: the file tells which it is.
  std::byte*& at = (*known)[{address.pid, file.st_ino}];
  if (is_known_file && at == nullptr) at = mapped(descriptor, address.bytes);
  ::close(descriptor);
  TORCH_CHECK(is_known_file, "process group neuron: process ", address.pid, " is another one now");
  return at;
}

void Arena::commit(uint64_t end) {
  if (end <= committed_) return;
  const uint64_t upto = std::min(rounded(end, kCommitted), static_cast<uint64_t>(address_.bytes));
  const int failed = ::posix_fallocate(static_cast<int>(address_.descriptor), static_cast<off_t>(committed_),
                                       static_cast<off_t>(upto - committed_));
  TORCH_CHECK(failed == 0, "process group neuron: ", upto - committed_,
              " bytes of shared memory are not to be had: ", std::strerror(failed));
  committed_ = upto;
}

uint64_t Arena::allocate(int64_t bytes) {
  if (bytes == 0) return kNothing;
  const uint64_t size = rounded(static_cast<uint64_t>(bytes), kAlignment);
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(free_, [&](const auto& row) { return row.second >= size; });
  TORCH_CHECK(found != free_.end(), "process group neuron: ", bytes,
              " bytes of shared memory are more than what this machine has");
  const auto [offset, room] = *found;
  commit(offset + size);
  free_.erase(found);
  if (room > size) free_[offset + size] = room - size;
  used_[offset] = size;
  return offset;
}

void Arena::release(uint64_t offset) {
  if (offset == kNothing) return;
  const std::lock_guard lock(mutex_);
  const auto taken = used_.find(offset);
  TORCH_INTERNAL_ASSERT(taken != used_.end());
  auto [begin, size] = *taken;
  used_.erase(taken);
  const auto after = free_.lower_bound(begin);
  if (after != free_.end() && after->first == begin + size) {
    size += after->second;
    free_.erase(after);
  }
  if (const auto next = free_.lower_bound(begin); next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == begin) {
      before->second += size;
      return;
    }
  }
  free_[begin] = size;
}

}  // namespace opentrn::torch_device
