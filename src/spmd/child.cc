#include "spmd/child.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/fault.h"
#include "base/interrupt.h"

extern char** environ;

namespace opentrn::spmd {

namespace {

constexpr size_t kErrorsShown = 600;  // bytes

// Sockets: a write to one whose reader is gone can be told not to raise SIGPIPE.
void make_pair(int (&ends)[2]) {
  OPENTRN_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "{}", std::strerror(errno));
}

void close_once(int& file) {
  if (file >= 0) ::close(file);
  file = -1;
}

}  // namespace

Child::Child(const std::vector<std::string>& command) {
  int in[2], out[2];
  make_pair(in);
  make_pair(out);
  errors_ = ::memfd_create("stderr", MFD_CLOEXEC);
  OPENTRN_CHECK(errors_ >= 0, "{}", std::strerror(errno));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in[1], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, errors_, STDERR_FILENO);
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  const int failed = ::posix_spawnp(&pid_, words[0], &actions, nullptr, words.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(in[1]);
  ::close(out[1]);
  to_ = in[0];
  from_ = out[0];
  if (failed != 0) {
    pid_ = -1;
    close_once(to_);
    close_once(from_);
    close_once(errors_);
    throw Fault(FaultKind::kInternal, "child",
                fmt::format("{} does not start: {}", command[0], std::strerror(failed)));
  }
}

Child::~Child() {
  if (pid_ > 0) {
    close_once(to_);
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  close_once(to_);
  close_once(from_);
  close_once(errors_);
}

bool Child::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::send(to_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  return true;
}

bool Child::wait(int seconds) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::seconds(seconds);
  for (;;) {
    interrupt::poll();
    pollfd wanted{from_, POLLIN, 0};
    const int ready = ::poll(&wanted, 1, static_cast<int>(interrupt::kPeriod.count()));
    if (ready > 0) return true;
    if ((ready < 0 && errno != EINTR) || Clock::now() >= end) return false;
  }
}

bool Child::read(void* to, size_t size, int seconds) {
  auto* at = static_cast<char*>(to);
  while (size > 0) {
    if (!wait(seconds)) {
      late_ = true;
      return false;
    }
    const ssize_t count = ::read(from_, at, size);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    at += count;
    size -= static_cast<size_t>(count);
  }
  return true;
}

std::string Child::end() {
  std::string how = "no answer in time";
  if (late_) ::kill(pid_, SIGKILL);
  int status = 0;
  ::waitpid(pid_, &status, 0);
  pid_ = -1;
  if (!late_)
    how = WIFSIGNALED(status) ? fmt::format("signal {}", WTERMSIG(status))
                              : fmt::format("exit status {}", WEXITSTATUS(status));
  const off_t size = ::lseek(errors_, 0, SEEK_END);
  const size_t shown = std::min(static_cast<size_t>(std::max<off_t>(size, 0)), kErrorsShown);
  std::string text(shown, '\0');
  const ssize_t got = ::pread(errors_, text.data(), shown, size - static_cast<off_t>(shown));
  text.resize(got > 0 ? static_cast<size_t>(got) : 0);
  return text.empty() ? how : fmt::format("{}: {}", how, text);
}

}  // namespace opentrn::spmd
