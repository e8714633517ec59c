#include "mpi/world.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <thread>

#include <fmt/format.h>

#include "base/fault.h"
#include "base/interrupt.h"
#include "mpi/last_words.h"

namespace opentrn::mpi {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kTimeoutDefault{120}, kTimeoutMax{86'400};
constexpr size_t kPartBytesMax = size_t{1} << 30;      // a count is an int
constexpr size_t kUnsentBytesMax = size_t{256} << 20;  // copies of messages that receivers have not taken
constexpr int kTag = 0x4F54;
// Where others want the processor, each look takes as long as their turn.
constexpr int kLooksBeforeSleep = 200;
constexpr std::chrono::milliseconds kBeforeSleep{1};
constexpr std::chrono::microseconds kSleep{50};
constexpr std::chrono::milliseconds kSoon{100};  // from here on a wait is worth a word

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// Calls look() until it is true; false when the deadline has passed before.
template <typename Look>
bool wait_until(Deadline deadline, const Doing& doing, Look look) {
  std::optional<LastWords> words;
  const Clock::time_point began = Clock::now();
  for (int looks = 0; !look(); ++looks) {
    interrupt::poll();
    const Clock::time_point now = Clock::now();
    if (looks < kLooksBeforeSleep && now < began + kBeforeSleep) {
      std::this_thread::yield();  // the other one may need this processor
      continue;
    }
    if (now > deadline) return false;
    if (!words && now > began + kSoon) words.emplace(doing());
    std::this_thread::sleep_for(kSleep);
  }
  return true;
}

}  // namespace

bool is_one_of_several() {
  const std::string_view size = environment("OMPI_COMM_WORLD_SIZE");
  return !size.empty() && size != "1";
}

int processes_of_host() {
  const std::string_view text = environment("OMPI_COMM_WORLD_LOCAL_SIZE");
  int count = 1;
  std::from_chars(text.data(), text.data() + text.size(), count);
  return std::max(count, 1);
}

std::chrono::milliseconds timeout_of_environment() {
  const std::string text(environment("OPENTRN_MPI_TIMEOUT_S"));
  if (text.empty()) return kTimeoutDefault;
  char* end = nullptr;
  const double seconds = std::strtod(text.c_str(), &end);
  if (*end != '\0' || !(seconds >= 0.1) || seconds > static_cast<double>(kTimeoutMax.count()))
    throw Fault(FaultKind::kInput, "mpi.timeout",
                fmt::format("OPENTRN_MPI_TIMEOUT_S={} is not a time to wait", text),
                fmt::format("seconds from 0.1 to {}", kTimeoutMax.count()));
  return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1e3));
}

World::World() : mpi_(library()), timeout_(timeout_of_environment()) {
  const Watch watch(timeout_, fmt::format("mpi.absent: MPI has not started after {:g} s: of the {} processes "
                                          "of mpirun some have not called it. See what they do; "
                                          "OPENTRN_MPI_TIMEOUT_S=300 waits longer",
                                          std::chrono::duration<double>(timeout_).count(),
                                          environment("OMPI_COMM_WORLD_SIZE")));
  int running = 0, provided = 0;
  check(mpi_.Initialized(&running), "MPI_Initialized");
  if (!running) {
    check(mpi_.Init_thread(nullptr, nullptr, kThreadSerialized, &provided), "MPI_Init_thread");
    started_ = true;
  }
  check(mpi_.Comm_dup(mpi_.comm_world, &comm_), "MPI_Comm_dup");
  check(mpi_.Comm_set_errhandler(comm_, mpi_.errors_return), "MPI_Comm_set_errhandler");
  check(mpi_.Comm_rank(comm_, &process_), "MPI_Comm_rank");
  check(mpi_.Comm_size(comm_, &processes_), "MPI_Comm_size");
}

World::~World() = default;

std::string World::version() const { return mpi_.version.substr(0, mpi_.version.find(',')); }

void World::check(int error, const char* call) const {
  if (error == kSuccess) return;
  char text[1024] = {};
  int size = 0;
  mpi_.Error_string(error, text, &size);
  throw Fault(FaultKind::kInput, "mpi.failed",
              fmt::format("{} of {} failed in process {}: {}", call, mpi_.version, process_, text),
              "see what mpirun says of the other processes");
}

void World::reap() {
  for (auto sent = sent_.begin(); sent != sent_.end();) {
    int done = 0;
    check(mpi_.Test(&sent->request, &done, nullptr), "MPI_Test");
    if (!done) return;  // those behind it seldom have left before
    sent_bytes_ -= sent->message.size();
    sent = sent_.erase(sent);
  }
}

void World::send(int to, std::vector<std::byte> message) {
  for (size_t begin = 0; message.size() - begin > kPartBytesMax; begin += kPartBytesMax)
    send_part(to, {message.begin() + static_cast<std::ptrdiff_t>(begin),
                   message.begin() + static_cast<std::ptrdiff_t>(begin + kPartBytesMax)});
  if (message.size() > kPartBytesMax)
    message.erase(message.begin(),
                  message.end() - static_cast<std::ptrdiff_t>((message.size() - 1) % kPartBytesMax + 1));
  send_part(to, std::move(message));
}

void World::send_part(int to, std::vector<std::byte> message) {
  if (sent_bytes_ + message.size() > kUnsentBytesMax)
    flush([&] { return fmt::format("process {} sends to process {}", process_, to); });
  sent_bytes_ += message.size();
  Sent& sent = sent_.emplace_back(nullptr, std::move(message));
  check(mpi_.Isend(sent.message.data(), static_cast<int>(sent.message.size()), mpi_.byte, to, kTag, comm_,
                   &sent.request),
        "MPI_Isend");
}

bool World::has_come(int from) {
  int there = 0;
  Status status;
  check(mpi_.Iprobe(from, kTag, comm_, &there, &status), "MPI_Iprobe");
  return there != 0;
}

size_t World::unsent() {
  reap();
  return sent_bytes_;
}

void World::flush(const Doing& doing) {
  const auto none_left = [&] {
    reap();
    return sent_.empty();
  };
  if (wait_until(Clock::now() + timeout_, doing, none_left)) return;
  throw Fault(FaultKind::kInput, "mpi.absent",
              fmt::format("{:g} s without an end: {}; messages are not taken",
                          std::chrono::duration<double>(timeout_).count(), doing()),
              "see what the other processes do; OPENTRN_MPI_TIMEOUT_S=300 waits longer");
}

bool World::receive(int from, std::span<std::byte> message, Deadline deadline, const Doing& doing) {
  do {
    const size_t part = std::min(message.size(), kPartBytesMax);
    if (!receive_part(from, message.first(part), deadline, doing)) return false;
    message = message.subspan(part);
  } while (!message.empty());
  return true;
}

bool World::receive_part(int from, std::span<std::byte> message, Deadline deadline, const Doing& doing) {
  Handle request = nullptr;
  check(mpi_.Irecv(message.data(), static_cast<int>(message.size()), mpi_.byte, from, kTag, comm_, &request),
        "MPI_Irecv");
  Status status;
  int done = 0;
  const auto has_come = [&] {
    check(mpi_.Test(&request, &done, &status), "MPI_Test");
    return done != 0;
  };
  try {
    if (!wait_until(deadline, doing, has_come)) {
      give_up(request, doing);
      return false;
    }
  } catch (...) {
    if (!done) give_up(request, doing);
    throw;
  }
  int bytes = 0;
  check(mpi_.Get_count(&status, mpi_.byte, &bytes), "MPI_Get_count");
  OPENTRN_CHECK(static_cast<size_t>(bytes) == message.size(),
                "{} bytes came from process {} where {} were due", bytes, from, message.size());
  reap();
  return true;
}

// A message that is half there cannot be left: its memory is the caller's. That ends all processes.
void World::give_up(Handle request, const Doing& doing) {
  Status status;
  int done = 0;
  mpi_.Cancel(&request);
  for (int looks = 0; looks < kLooksBeforeSleep && !done; ++looks) {
    if (mpi_.Test(&request, &done, &status) != kSuccess) break;
    std::this_thread::sleep_for(kSleep);
  }
  if (done) return;
  fmt::print(stderr, "opentrn: mpi.failed: a message stopped half way: {}\n", doing());
  mpi_.Abort(comm_, 2);
}

void World::finish() {
  const Doing doing = [&] { return fmt::format("process {} of {} ends", process_, processes_); };
  flush(doing);
  int ended = 0;
  check(mpi_.Finalized(&ended), "MPI_Finalized");
  if (!started_ || ended) return;
  const Watch watch(timeout_, fmt::format("mpi.absent: MPI has not ended after {:g} s in process {}: others "
                                          "have not come to their end",
                                          std::chrono::duration<double>(timeout_).count(), process_));
  check(mpi_.Finalize(), "MPI_Finalize");
}

}  // namespace opentrn::mpi
