// TCP of libnrt's host side. Every wait ends: at a time, or when the caller is told to stop.
#pragma once

#include <netdb.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <string>
#include <utility>

namespace opentrn::nrt {

using Clock = std::chrono::steady_clock;

constexpr const char* kRoot = "NEURON_RT_ROOT_COMM_ID";

class Socket {
 public:
  explicit Socket(int number = -1) : number_(number) {}
  ~Socket();
  Socket(Socket&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  int number() const { return number_; }
  bool is_open() const { return number_ >= 0; }

 private:
  int number_;
};

// How long to wait. `stopped`, where given, is looked at some times a second.
struct Limit {
  Limit(Clock::time_point time, const std::atomic<bool>* stop = nullptr)  // NOLINT: a time is a limit
      : until(time), stopped(stop) {}
  // Throws Refused: NRT_TIMEOUT `what`, or NRT_CLOSED.
  void expect_left(const char* what) const;
  std::chrono::milliseconds slice() const;  // to wait before the next look; 0 at the end

  Clock::time_point until;
  const std::atomic<bool>* stopped;
};

// Throw Refused: NRT_TIMEOUT, NRT_CLOSED, NRT_NETWORK_PROXY_FAILURE where the other side went away.
void wait_for(const Socket& socket, short what, const Limit& limit);
void send_all(const Socket& to, const void* bytes, size_t size, const Limit& limit);
void receive_all(const Socket& from, void* bytes, size_t size, const Limit& limit);
[[noreturn]] void lost(const std::string& what);

struct Addresses {
  addrinfo* first = nullptr;
  ~Addresses() {
    if (first != nullptr) freeaddrinfo(first);
  }
};

// What NEURON_RT_ROOT_COMM_ID names. Throws Refused NRT_INVALID.
void find_root(Addresses& to);

}  // namespace opentrn::nrt
