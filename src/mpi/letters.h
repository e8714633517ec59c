// Letters between processes, some of whose threads wait for different ones at once.
//
// A letter is about something, and those of one sender about one thing are taken in the order in which they
// were sent. Whichever thread looks takes what has come for all, so that no thread stands before another
// one's letter. After its last letter nothing more is taken from a process: what it sends then is for who
// comes next on the transport.
#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/fault.h"
#include "mpi/transport.h"

namespace opentrn::mpi {

class Letters {
 public:
  // What has come from all processes before it is used up, and nobody else receives while this lives.
  explicit Letters(Transport& transport);
  Letters(const Letters&) = delete;
  Letters& operator=(const Letters&) = delete;

  // To a process that has not sent its last one, or has: those are never read. `is_last`: of this process to
  // that.
  void send(int to, const std::string& about, const std::vector<std::byte>& bytes, bool is_last = false);
  // A letter that has come, without waiting.
  std::optional<std::vector<std::byte>> take(int from, const std::string& about);
  // Waits for one. Whenever there is none, `look` says what else ends the wait. Fault "mpi.absent" after the
  // time of one wait.
  std::vector<std::byte> receive(int from, const std::string& about, const Doing& doing,
                                 const std::function<std::optional<Fault>()>& look);

 private:
  void collect();  // with the lock
  void read(int from);
  void read_part(int from, std::span<std::byte> bytes);

  Transport& transport_;
  std::mutex mutex_;
  std::map<std::pair<int, std::string>, std::deque<std::vector<std::byte>>> letters_;
  std::vector<bool> over_;  // [process]: its last one has come
  std::atomic<bool> has_words_{false};
};

}  // namespace opentrn::mpi
