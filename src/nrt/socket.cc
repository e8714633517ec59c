#include "nrt/socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>

#include "nrt/include/nrt/nrt.h"
#include "nrt/state.h"

namespace opentrn::nrt {

Socket::~Socket() {
  if (number_ >= 0) ::close(number_);
}

void Limit::expect_left(const char* what) const {
  if (stopped != nullptr && *stopped) throw Refused{NRT_CLOSED, "closed while it waited"};
  if (Clock::now() >= until) throw Refused{NRT_TIMEOUT, what};
}

std::chrono::milliseconds Limit::slice() const {
  auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
  if (stopped != nullptr) left = std::min(left, std::chrono::milliseconds(20));
  return std::max(left, std::chrono::milliseconds(0));
}

void lost(const std::string& what) { throw Refused{NRT_NETWORK_PROXY_FAILURE, what}; }

void wait_for(const Socket& socket, short what, const Limit& limit) {
  pollfd one{socket.number(), what, 0};
  while (true) {
    limit.expect_left("the other devices did not come in time");
    const int ready = ::poll(&one, 1, static_cast<int>(limit.slice().count()));
    if (ready > 0) return;
    if (ready < 0 && errno != EINTR) lost(fmt::format("poll: {}", std::strerror(errno)));
  }
}

void send_all(const Socket& to, const void* bytes, size_t size, const Limit& limit) {
  const auto* at = static_cast<const char*>(bytes);
  while (size > 0) {
    wait_for(to, POLLOUT, limit);
    // Not waiting in send(): it would take all bytes before it came back, however long nobody reads them.
    const ssize_t sent = ::send(to.number(), at, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno != EINTR && errno != EAGAIN)
      lost(fmt::format("the other device went away: {}", std::strerror(errno)));
    if (sent > 0) at += sent, size -= static_cast<size_t>(sent);
  }
}

void receive_all(const Socket& from, void* bytes, size_t size, const Limit& limit) {
  auto* at = static_cast<char*>(bytes);
  while (size > 0) {
    wait_for(from, POLLIN, limit);
    const ssize_t got = ::recv(from.number(), at, size, MSG_DONTWAIT);
    if (got == 0) lost("the other device went away");
    if (got < 0 && errno != EINTR && errno != EAGAIN)
      lost(fmt::format("the other device went away: {}", std::strerror(errno)));
    if (got > 0) at += got, size -= static_cast<size_t>(got);
  }
}

void find_root(Addresses& to) {
  const char* text = std::getenv(kRoot);
  if (text == nullptr || *text == 0)
    throw Refused{NRT_INVALID, fmt::format("{} is not set: several devices meet at its HOST:PORT", kRoot)};
  const std::string place(text);
  const size_t colon = place.rfind(':');
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  std::string host = place.substr(0, colon);
  if (host.size() > 1 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  if (colon == std::string::npos || host.empty() ||
      getaddrinfo(host.c_str(), place.c_str() + colon + 1, &hints, &to.first) != 0)
    throw Refused{NRT_INVALID, fmt::format("{} has '{}'; HOST:PORT was expected", kRoot, place)};
}

}  // namespace opentrn::nrt
