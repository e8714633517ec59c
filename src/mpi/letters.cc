#include "mpi/letters.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <span>
#include <thread>

#include <fmt/format.h>

#include "base/interrupt.h"
#include "mpi/last_words.h"

namespace opentrn::mpi {

namespace {

struct LetterHead {
  uint64_t about = 0, bytes = 0;  // sizes of what follows
  uint64_t is_last = 0;
};

constexpr size_t kUnsentLettersMax = size_t{128} << 20;  // before others' letters are taken first
constexpr int kLetterLooks = 200;
constexpr std::chrono::milliseconds kLetterBeforeSleep{1};
constexpr std::chrono::microseconds kLetterSleep{50};
constexpr std::chrono::milliseconds kLetterSoon{100};

// One thread of several says what it waits for.
class WordsOfOne {
 public:
  explicit WordsOfOne(std::atomic<bool>& taken) : taken_(taken) {}
  ~WordsOfOne() {
    const bool had = words_.has_value();
    words_.reset();
    if (had) taken_.store(false);
  }
  void say(const Doing& doing) {
    if (!words_ && !taken_.exchange(true)) words_.emplace(doing());
  }

 private:
  std::atomic<bool>& taken_;
  std::optional<LastWords> words_;
};

}  // namespace

Letters::Letters(Transport& transport)
    : transport_(transport), over_(static_cast<size_t>(transport.processes())) {}

void Letters::send(int to, const std::string& about, const std::vector<std::byte>& bytes, bool is_last) {
  const std::lock_guard lock(mutex_);
  const auto deadline = std::chrono::steady_clock::now() + transport_.timeout();
  // Two processes that only sent would wait for each other.
  while (transport_.unsent() > 0 && transport_.unsent() + bytes.size() > kUnsentLettersMax) {
    interrupt::poll();
    collect();
    if (std::chrono::steady_clock::now() > deadline)
      throw Fault(FaultKind::kInput, "mpi.absent",
                  fmt::format("process {} sends to process {}, and its messages are not taken",
                              transport_.process(), to),
                  "see what the other processes do; OPENTRN_MPI_TIMEOUT_S=300 waits longer");
  }
  const LetterHead head{about.size(), bytes.size(), is_last ? uint64_t{1} : uint64_t{0}};
  const auto* begin = reinterpret_cast<const std::byte*>(&head);
  transport_.send(to, {begin, begin + sizeof head});
  begin = reinterpret_cast<const std::byte*>(about.data());
  transport_.send(to, {begin, begin + about.size()});
  if (!bytes.empty()) transport_.send(to, bytes);
}

void Letters::read_part(int from, std::span<std::byte> bytes) {
  const Doing doing = [&] {
    return fmt::format("process {} reads a letter of process {}", transport_.process(), from);
  };
  if (!transport_.receive(from, bytes, std::chrono::steady_clock::now() + transport_.timeout(), doing))
    throw Fault(FaultKind::kInput, "mpi.absent",
                fmt::format("process {} has sent the beginning of a letter to process {}, and not the rest",
                            from, transport_.process()),
                "see what that process does; OPENTRN_MPI_TIMEOUT_S=300 waits longer");
}

void Letters::read(int from) {
  LetterHead head;
  read_part(from, std::as_writable_bytes(std::span(&head, 1)));
  std::string about(head.about, 0);
  read_part(from, std::as_writable_bytes(std::span(about)));
  std::vector<std::byte> bytes(head.bytes);
  if (!bytes.empty()) read_part(from, bytes);
  letters_[{from, about}].push_back(std::move(bytes));
  over_[static_cast<size_t>(from)] = head.is_last != 0;
}

void Letters::collect() {
  for (int from = 0; from < transport_.processes(); ++from)
    while (from != transport_.process() && !over_[static_cast<size_t>(from)] && transport_.has_come(from))
      read(from);
}

std::optional<std::vector<std::byte>> Letters::take(int from, const std::string& about) {
  const std::lock_guard lock(mutex_);
  collect();
  const auto found = letters_.find({from, about});
  if (found == letters_.end()) return std::nullopt;
  std::vector<std::byte> bytes = std::move(found->second.front());
  found->second.pop_front();
  if (found->second.empty()) letters_.erase(found);
  return bytes;
}

std::vector<std::byte> Letters::receive(int from, const std::string& about, const Doing& doing,
                                        const std::function<std::optional<Fault>()>& look) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point began = Clock::now(), deadline = began + transport_.timeout();
  WordsOfOne words(has_words_);
  for (int looks = 0;; ++looks) {
    interrupt::poll();
    if (auto letter = take(from, about)) return std::move(*letter);
    if (const std::optional<Fault> ended = look()) {
      // It may have come after this thread looked for it, before what ends the wait.
      if (auto letter = take(from, about)) return std::move(*letter);
      throw *ended;
    }
    const Clock::time_point now = Clock::now();
    if (looks < kLetterLooks && now < began + kLetterBeforeSleep) {
      std::this_thread::yield();
      continue;
    }
    if (now > deadline)
      throw Fault(FaultKind::kInput, "mpi.absent",
                  fmt::format("{:g} s without a message: {}",
                              std::chrono::duration<double>(transport_.timeout()).count(), doing()),
                  "see what that process does; OPENTRN_MPI_TIMEOUT_S=300 waits longer");
    if (now > began + kLetterSoon) words.say(doing);
    std::this_thread::sleep_for(kLetterSleep);
  }
}

}  // namespace opentrn::mpi
