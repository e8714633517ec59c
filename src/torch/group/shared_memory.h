// Memory of this process that the other ranks of a machine see: what they bring to collectives and get from
// them.
//
// One sparse file without a name per process, as large as the machine's memory, of which pages exist once
// they are written. Another process opens it through /proc/PID/fd, so that nothing is left behind however a
// process ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace opentrn::torch_device {

// Where another process finds the memory of one.
struct ArenaAddress {
  int64_t pid = 0, descriptor = 0, bytes = 0;
  bool has_ended() const;  // the process
};

class Arena {
 public:
  static constexpr uint64_t kNothing = ~uint64_t{0};
  // Where every arena has the board of its process, which says who waits for whom (waits.h).
  static constexpr uint64_t kBoard = 0;
  // This process's; made at the first call, and again in a process that was forked.
  static Arena& own();
  // Memory of the process at `address`, mapped once; an error says what keeps it from being opened. It stays
  // valid after that process has ended.
  static std::byte* of(const ArenaAddress& address);

  std::byte* base() const { return base_; }
  const ArenaAddress& address() const { return address_; }
  // An offset, of zeros where the memory was never used before; kNothing for 0 bytes. An error where the
  // machine has no memory left.
  uint64_t allocate(int64_t bytes);
  void release(uint64_t offset);

 private:
  Arena();
  static int64_t board_bytes();
  void commit(uint64_t end);

  std::byte* base_ = nullptr;
  ArenaAddress address_;
  std::mutex mutex_;
  std::map<uint64_t, uint64_t> free_;  // offset, bytes; neighbours are joined
  std::map<uint64_t, uint64_t> used_;
  uint64_t committed_ = 0;
};

}  // namespace opentrn::torch_device
