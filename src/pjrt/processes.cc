#include "pjrt/processes.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/fault.h"
#include "base/interrupt.h"

namespace opentrn::pjrt {

namespace {

using Clock = std::chrono::steady_clock;

constexpr double kTimeoutDefault = 300, kTimeoutMax = 86'400;
constexpr size_t kSecretBytes = 32;
constexpr uint64_t kMessageMax = uint64_t{1} << 40;
constexpr uint64_t kWhatMax = 4096;
constexpr int kPollMs = 100;  // between looks for an interrupt
constexpr const char* kHint = "see what that process does; OPENTRN_PEER_TIMEOUT_S=600 waits longer";

std::chrono::milliseconds timeout_of_environment() {
  const char* text = std::getenv("OPENTRN_PEER_TIMEOUT_S");
  if (text == nullptr || *text == '\0')
    return std::chrono::milliseconds(static_cast<int64_t>(kTimeoutDefault * 1e3));
  double value = 0;
  const char* end = text + std::strlen(text);
  const auto read = std::from_chars(text, end, value);
  if (read.ec != std::errc() || read.ptr != end || !(value >= 0.1) || value > kTimeoutMax)
    throw Fault(FaultKind::kInput, "pjrt.timeout",
                fmt::format("OPENTRN_PEER_TIMEOUT_S={} is not a time to wait", text),
                "seconds, 0.1 to 86400");
  return std::chrono::milliseconds(static_cast<int64_t>(value * 1e3));
}

[[noreturn]] void refuse_socket(const char* what) {
  throw Fault(FaultKind::kInput, "pjrt.socket", fmt::format("{}: {}", what, std::strerror(errno)),
              "allow TCP connections between the processes of the program");
}

std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) refuse_socket("the name of this host");
  return name.data();
}

std::string secret() {
  std::array<unsigned char, kSecretBytes / 2> bytes{};
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    refuse_socket("random numbers of the system");
  std::string text;
  for (const unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

std::string key_of(int process) { return fmt::format("opentrn/pjrt/{}", process); }

// What a process tells the others: host, port, secret, cores, and what it is about, line by line.
struct Card {
  std::string host, port, secret, cores, about;
};
Card card_of(const std::string& text, int process) {
  Card card;
  std::string* const fields[] = {&card.host, &card.port, &card.secret, &card.cores};
  size_t at = 0;
  for (std::string* field : fields) {
    const size_t end = text.find('\n', at);
    if (end == std::string::npos)
      throw Fault(FaultKind::kInput, "pjrt.mismatch",
                  fmt::format("process {} is not an OpenTrn of this build", process),
                  "the same OpenTrn in all processes");
    *field = text.substr(at, end - at);
    at = end + 1;
  }
  card.about = text.substr(at);
  return card;
}

std::vector<int> numbers_of(const std::string& text) {
  std::vector<int> numbers;
  for (const char *at = text.data(), *end = at + text.size(); at < end; ++at) {
    int value = 0;
    at = std::from_chars(at, end, value).ptr;
    numbers.push_back(value);
  }
  return numbers;
}

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

void make_non_blocking(int fd) {
  if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) != 0) refuse_socket("a connection");
  const int yes = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

// Whether the socket can be read, or written, before the deadline.
bool wait_for(int fd, short events, Clock::time_point deadline) {
  while (true) {
    interrupt::poll();
    pollfd one{fd, events, 0};
    const int ready = poll(&one, 1, kPollMs);
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) refuse_socket("a wait for a connection");
    if (Clock::now() >= deadline) return false;
  }
}

// Of a socket that does not block; false at its end, after an error, or at the deadline.
bool read_all(int fd, char* data, size_t bytes, Clock::time_point deadline) {
  while (bytes > 0) {
    const ssize_t got = recv(fd, data, bytes, 0);
    if (got > 0) {
      data += got;
      bytes -= static_cast<size_t>(got);
    } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
      return false;
    } else if (!wait_for(fd, POLLIN, deadline)) {
      return false;
    }
  }
  return true;
}
bool write_all(int fd, const char* data, size_t bytes, Clock::time_point deadline) {
  while (bytes > 0) {
    const ssize_t put = send(fd, data, bytes, MSG_NOSIGNAL);
    if (put > 0) {
      data += put;
      bytes -= static_cast<size_t>(put);
    } else if (errno != EAGAIN && errno != EINTR) {
      return false;
    } else if (!wait_for(fd, POLLOUT, deadline)) {
      return false;
    }
  }
  return true;
}

int connect_to(const Card& card, Clock::time_point deadline) {
  addrinfo hints{};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(card.host.c_str(), card.port.c_str(), &hints, &found) != 0 || found == nullptr) return -1;
  Socket made(socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (made.get() >= 0) make_non_blocking(made.get());
  int error = made.get() < 0 ? errno : 0;
  if (error == 0 && connect(made.get(), found->ai_addr, found->ai_addrlen) != 0) error = errno;
  freeaddrinfo(found);
  if (error == EINPROGRESS && wait_for(made.get(), POLLOUT, deadline)) {
    socklen_t size = sizeof error;
    getsockopt(made.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  }
  return error == 0 ? made.release() : -1;
}

void append(std::string& to, uint64_t number) {
  to.append(reinterpret_cast<const char*>(&number), sizeof number);
}

}  // namespace

// One direction each of an exchange with another process.
struct Processes::Peer {
  int process = 0, fd = -1;
  size_t sent = 0;
  std::string received = {};
  uint64_t wanted = 2 * sizeof(uint64_t);
  uint64_t what_bytes = 0;
  bool has_header = false;

  bool done(size_t bytes) const { return sent == bytes && has_header && received.size() == wanted; }
};

Processes::Processes(int own, int count, const Store& store, const std::string& about,
                     const std::vector<int>& cores)
    : own_(own),
      timeout_(timeout_of_environment()),
      cores_(static_cast<size_t>(count)),
      sockets_(static_cast<size_t>(count), -1) {
  try {
    listen_and_publish(store, about, cores);
    connect_all(store, about);
  } catch (...) {
    for (const int fd : sockets_)
      if (fd >= 0) close(fd);
    if (listener_ >= 0) close(listener_);
    throw;
  }
}

Processes::~Processes() {
  for (const int fd : sockets_)
    if (fd >= 0) close(fd);
  if (listener_ >= 0) close(listener_);
}

void Processes::listen_and_publish(const Store& store, const std::string& about,
                                   const std::vector<int>& cores) {
  // Where all are on one host, nobody else need reach them.
  store.put(fmt::format("opentrn/pjrt/host/{}", own_), host_name());
  bool one_host = true;
  for (int process = 0; process < count(); ++process)
    one_host &= store.get(fmt::format("opentrn/pjrt/host/{}", process), timeout_) == host_name();
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(one_host ? INADDR_LOOPBACK : INADDR_ANY);
  socklen_t size = sizeof address;
  if (listener_ < 0 || bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      listen(listener_, count()) != 0 ||
      getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0)
    refuse_socket("a port for the other processes");
  make_non_blocking(listener_);
  secret_ = secret();
  store.put(key_of(own_), fmt::format("{}\n{}\n{}\n{}\n{}", one_host ? "127.0.0.1" : host_name(),
                                      ntohs(address.sin_port), secret_, fmt::join(cores, ","), about));
}

void Processes::connect_all(const Store& store, const std::string& about) {
  std::vector<Card> cards;
  for (int process = 0; process < count(); ++process) {
    cards.push_back(card_of(store.get(key_of(process), timeout_), process));
    if (cards.back().about != about)
      throw Fault(FaultKind::kInput, "pjrt.mismatch",
                  fmt::format("process {} is {}, process {} is {}", process, cards.back().about, own_, about),
                  "the same target, logical cores and OpenTrn in all processes");
    cores_[static_cast<size_t>(process)] = numbers_of(cards.back().cores);
  }
  const auto deadline = Clock::now() + timeout_;
  const auto absent = [&](const std::string& who) {
    throw Fault(FaultKind::kInput, "pjrt.absent", fmt::format("process {}: {} did not connect", own_, who),
                kHint);
  };
  for (int process = 0; process < own_; ++process) {
    const Card& card = cards[static_cast<size_t>(process)];
    Socket made(connect_to(card, deadline));
    const std::string hello = card.secret + fmt::format("{:08}", own_);
    if (made.get() < 0 || !write_all(made.get(), hello.data(), hello.size(), deadline))
      absent(fmt::format("process {} at {}:{}", process, card.host, card.port));
    sockets_[static_cast<size_t>(process)] = made.release();
  }
  for (int left = count() - own_ - 1; left > 0;) {
    if (!wait_for(listener_, POLLIN, deadline)) absent(fmt::format("{} of the others", left));
    Socket made(accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC));
    if (made.get() < 0) continue;
    make_non_blocking(made.get());
    std::string hello(kSecretBytes + 8, '\0');
    const auto soon = std::min(deadline, Clock::now() + std::chrono::seconds(5));
    if (!read_all(made.get(), hello.data(), hello.size(), soon)) continue;
    int process = -1;
    std::from_chars(hello.data() + kSecretBytes, hello.data() + hello.size(), process);
    // A stranger, who knows no secret.
    if (hello.compare(0, kSecretBytes, secret_) != 0 || process <= own_ || process >= count()) continue;
    if (sockets_[static_cast<size_t>(process)] >= 0) continue;
    sockets_[static_cast<size_t>(process)] = made.release();
    --left;
  }
}

void Processes::fail(const char* label, const std::string& what, const std::string& hint) {
  broken_ = what;
  throw Fault(FaultKind::kInput, label, what, hint);
}

std::vector<std::string> Processes::exchange(const std::vector<int>& with, const std::string& what,
                                             std::string mine) {
  if (!broken_.empty())
    throw Fault(FaultKind::kInput, "pjrt.absent",
                fmt::format("{}: the processes lost each other before: {}", what, broken_),
                "start all of them again");
  std::string message;
  append(message, what.size());
  append(message, mine.size());
  message += what;
  message += mine;
  std::vector<Peer> peers;
  for (const int process : with)
    if (process != own_) peers.push_back({process, sockets_[static_cast<size_t>(process)]});
  auto heard = Clock::now();
  while (true) {
    std::vector<pollfd> polled;
    for (const Peer& peer : peers)
      if (!peer.done(message.size()))
        polled.push_back(
            {peer.fd, static_cast<short>(POLLIN | (peer.sent < message.size() ? POLLOUT : 0)), 0});
    if (polled.empty()) break;
    interrupt::poll();
    if (poll(polled.data(), polled.size(), kPollMs) < 0 && errno != EINTR)
      refuse_socket("a wait for other processes");
    bool moved = false;
    for (Peer& peer : peers) {
      if (peer.done(message.size())) continue;
      const auto gone = [&] {
        fail("pjrt.absent",
             fmt::format("process {} has ended; process {} waits for it at {}", peer.process, own_, what),
             "see why that process ended");
      };
      while (peer.sent < message.size()) {
        const ssize_t put =
            send(peer.fd, message.data() + peer.sent, message.size() - peer.sent, MSG_NOSIGNAL);
        if (put < 0 && errno != EAGAIN && errno != EINTR) gone();
        if (put <= 0) break;
        peer.sent += static_cast<size_t>(put);
        moved = true;
      }
      while (peer.received.size() < peer.wanted) {
        std::array<char, 1 << 16> part;
        const size_t room = std::min<uint64_t>(part.size(), peer.wanted - peer.received.size());
        const ssize_t got = recv(peer.fd, part.data(), room, 0);
        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) gone();
        if (got < 0) break;
        peer.received.append(part.data(), static_cast<size_t>(got));
        moved = true;
        if (!peer.has_header && peer.received.size() == peer.wanted) {
          uint64_t sizes[2];
          std::memcpy(sizes, peer.received.data(), sizeof sizes);
          if (sizes[0] > kWhatMax || sizes[1] > kMessageMax)
            fail("pjrt.mismatch",
                 fmt::format("process {} sends what is not a message of this build", peer.process),
                 "the same OpenTrn in all processes");
          peer.what_bytes = sizes[0];
          peer.wanted = sizes[0] + sizes[1];
          peer.received.clear();
          peer.has_header = true;
        }
      }
      if (peer.has_header && peer.received.size() >= peer.what_bytes &&
          peer.received.compare(0, peer.what_bytes, what) != 0)
        fail("pjrt.mismatch",
             fmt::format("process {} is at {}, process {} at {}", peer.process,
                         peer.received.substr(0, peer.what_bytes), own_, what),
             "the same programs in the same order in all processes");
    }
    if (moved) heard = Clock::now();
    if (Clock::now() - heard > timeout_) {
      std::vector<int> silent;
      for (const Peer& peer : peers)
        if (!peer.done(message.size())) silent.push_back(peer.process);
      fail("pjrt.absent",
           fmt::format("process {} waited {:g} s at {} for process {}", own_,
                       std::chrono::duration<double>(timeout_).count(), what, fmt::join(silent, ", ")),
           kHint);
    }
  }
  std::vector<std::string> all;
  size_t next = 0;
  for (const int process : with)
    all.push_back(process == own_ ? std::move(mine) : peers[next++].received.substr(what.size()));
  return all;
}

}  // namespace opentrn::pjrt
