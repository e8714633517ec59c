#include "nrt/hbm.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <tuple>

#include <sys/mman.h>
#include <unistd.h>

#include <fmt/format.h>

#include "nrt/state.h"

namespace opentrn::nrt {

namespace {

uint64_t up(uint64_t value, uint64_t multiple) { return (value + multiple - 1) & ~(multiple - 1); }

// Whole pages go, so that they are zero and cost nothing; the ends are cleared.
void clear(std::byte* from, uint64_t bytes) {
  static const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uint64_t>(from), end = begin + bytes;
  const uint64_t first = up(begin, page), last = end & ~(page - 1);
  if (first >= last || madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED) != 0) {
    std::memset(from, 0, bytes);
    return;
  }
  std::memset(from, 0, first - begin);
  std::memset(from + (last - begin), 0, end - last);
}

using Key = std::tuple<std::string, int, int>;
struct Hbms {
  std::mutex mutex;
  std::map<Key, std::unique_ptr<Hbm>> made;
};
Hbms& hbms() {
  static Hbms& instance = *new Hbms;  // never destroyed: tensors may be freed while the process ends
  return instance;
}

}  // namespace

Hbm::Hbm(int device, int index, uint64_t bytes) : device_(device), index_(index), bytes_(bytes) {
  void* memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    throw Refused{
        NRT_RESOURCE,
        fmt::format("this host gives no {} bytes of address room for HBM {} of device {}: {}; raise the "
                    "limit (ulimit -v, vm.overcommit_memory)",
                    bytes, index, device, std::strerror(errno))};
  data_ = static_cast<std::byte*>(memory);
  madvise(memory, bytes, MADV_DONTDUMP);
  free_[0] = bytes;
}

Hbm::~Hbm() { munmap(data_, bytes_); }

bool Hbm::contains(const void* at) const {
  const auto* byte = static_cast<const std::byte*>(at);
  return byte >= data_ && byte < data_ + bytes_;
}

std::optional<Hbm::Taken> Hbm::take(uint64_t bytes, uint64_t align, uint32_t kind, uint64_t begin,
                                    uint64_t end) {
  if (bytes == 0 || bytes > bytes_) return std::nullopt;
  const uint64_t whole = up(bytes, kGranule), step = std::max(align, kGranule);
  const std::lock_guard lock(mutex_);
  for (auto it = free_.begin(); it != free_.end() && it->first < end; ++it) {
    const uint64_t room = it->first, stop = std::min(room + it->second, end);
    const uint64_t at = up(std::max(room, begin), step);
    if (at < room || at > stop || whole > stop - at) continue;
    const uint64_t behind = room + it->second;
    free_.erase(it);
    if (at > room) free_[room] = at - room;
    if (behind > at + whole) free_[at + whole] = behind - at - whole;
    return taken_[at] = Taken{at, whole, kind};
  }
  return std::nullopt;
}

void Hbm::give(const Taken& taken) {
  clear(data_ + taken.offset, taken.bytes);
  const std::lock_guard lock(mutex_);
  taken_.erase(taken.offset);
  uint64_t begin = taken.offset, end = taken.offset + taken.bytes;
  auto next = free_.lower_bound(begin);
  if (next != free_.end() && next->first == end) {
    end += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin())
    if (const auto before = std::prev(next); before->first + before->second == begin) {
      begin = before->first;
      free_.erase(before);
    }
  free_[begin] = end - begin;
}

std::vector<Hbm::Taken> Hbm::taken() const {
  const std::lock_guard lock(mutex_);
  std::vector<Taken> all;
  for (const auto& [offset, each] : taken_) all.push_back(each);
  return all;
}

Hbm& hbm_of(const std::string& target, int device, int index, uint64_t bytes) {
  const std::lock_guard lock(hbms().mutex);
  const Key key{target, device, index};
  auto found = hbms().made.find(key);
  if (found == hbms().made.end())
    found = hbms().made.emplace(key, std::make_unique<Hbm>(device, index, bytes)).first;
  return *found->second;
}

const Hbm* hbm_at(const void* at) {
  const std::lock_guard lock(hbms().mutex);
  for (const auto& [key, each] : hbms().made)
    if (each->contains(at)) return each.get();
  return nullptr;
}

}  // namespace opentrn::nrt
