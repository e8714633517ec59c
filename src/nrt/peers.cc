#include "nrt/peers.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <fmt/format.h>

namespace opentrn::nrt {

namespace {

constexpr const char* kDoors = "NEURON_RT_ASYNC_SENDRECV_BOOTSTRAP_PORT";
constexpr const char* kLimit = "OPENTRN_PEER_TIMEOUT_S";
constexpr uint64_t kCall = 0x4f7054726e53656eULL, kTaken = 0x4f7054726e546b6eULL;
constexpr uint64_t kGo = 0x4f7054726e476f21ULL, kTooLong = 0x4f7054726e4c6f6eULL;
constexpr std::chrono::seconds kWordLimit{2};  // for a caller to say who it is

// The first word of a sender, by which it is known from strangers.
struct CallWord {
  uint64_t magic = kCall;
  int32_t from = 0, to = 0;  // cores
};

template <typename Number>
bool read_number(const char* text, Number& to) {
  const char* end = text + std::strlen(text);
  const auto read = std::from_chars(text, end, to);
  return read.ec == std::errc() && read.ptr == end;
}

int port_of(const sockaddr* address) {
  return ntohs(address->sa_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6*>(address)->sin6_port
                                              : reinterpret_cast<const sockaddr_in*>(address)->sin_port);
}

void set_port(sockaddr_storage& address, int port) {
  if (address.ss_family == AF_INET6)
    reinterpret_cast<sockaddr_in6&>(address).sin6_port = htons(static_cast<uint16_t>(port));
  else
    reinterpret_cast<sockaddr_in&>(address).sin_port = htons(static_cast<uint16_t>(port));
}

socklen_t size_of(int family) { return family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in); }

int port_of_core(const DoorPlace& place, int lnc) {
  if (place.port + lnc > 65535)
    throw Refused{NRT_FAILURE, fmt::format("core {} would listen at port {}: {} or {} names a lower port",
                                           lnc, place.port + lnc, kDoors, kRoot)};
  return place.port + lnc;
}

sockaddr_storage address_to_listen_at(const DoorPlace& place, int lnc) {
  sockaddr_storage address = place.address;
  set_port(address, port_of_core(place, lnc));
  return address;
}

sockaddr_storage loopback() {
  sockaddr_storage address{};
  address.ss_family = AF_INET;
  reinterpret_cast<sockaddr_in&>(address).sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

// This host's address on the way to another one. Connecting a datagram socket sends nothing.
sockaddr_storage own_address_towards(const addrinfo& other) {
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  const Socket socket(::socket(other.ai_family, SOCK_DGRAM, 0));
  if (!socket.is_open() || ::connect(socket.number(), other.ai_addr, other.ai_addrlen) != 0 ||
      ::getsockname(socket.number(), reinterpret_cast<sockaddr*>(&own), &size) != 0)
    throw Refused{NRT_FAILURE, fmt::format("no way to the host of {}: {}", kRoot, std::strerror(errno))};
  return own;
}

bool has_hung_up(const Socket& socket) {
  char byte = 0;
  const ssize_t got = ::recv(socket.number(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
}

void connect_to(const Socket& socket, const sockaddr_storage& address, const Limit& limit) {
  const auto* to = reinterpret_cast<const sockaddr*>(&address);
  if (!socket.is_open()) lost(fmt::format("socket: {}", std::strerror(errno)));
  if (::connect(socket.number(), to, size_of(address.ss_family)) == 0) return;
  if (errno != EINPROGRESS) lost(std::strerror(errno));
  wait_for(socket, POLLOUT, limit);
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(socket.number(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) lost(std::strerror(error));
}

}  // namespace

bool Peer::operator==(const Peer& other) const {
  if (lnc != other.lnc || address.ss_family != other.address.ss_family) return false;
  if (address.ss_family == AF_INET6)
    return std::memcmp(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr,
                       &reinterpret_cast<const sockaddr_in6&>(other.address).sin6_addr,
                       sizeof(in6_addr)) == 0;
  return reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr ==
         reinterpret_cast<const sockaddr_in&>(other.address).sin_addr.s_addr;
}

Peer peer_at(const char* ip, int lnc, int family) {
  Addresses found;
  addrinfo hints{};
  hints.ai_family = family;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST;
  if (ip == nullptr || getaddrinfo(ip, nullptr, &hints, &found.first) != 0)
    throw Refused{NRT_FAILURE, fmt::format("peer '{}' is no {} address", ip == nullptr ? "(null)" : ip,
                                           family == AF_INET6 ? "IPv6" : "IPv4")};
  if (lnc < 0) throw Refused{NRT_FAILURE, fmt::format("core {} of the peer; cores count from 0", lnc)};
  Peer peer;
  std::memcpy(&peer.address, found.first->ai_addr, found.first->ai_addrlen);
  peer.lnc = lnc;
  return peer;
}

DoorPlace place_of_doors() {
  DoorPlace place;
  place.address = loopback();
  const char* root = std::getenv(kRoot);
  if (root != nullptr && *root != 0) {
    Addresses found;
    find_root(found);
    place.family = found.first->ai_family;
    place.address = own_address_towards(*found.first);
    place.port = port_of(found.first->ai_addr) + 1;
  }
  const char* text = std::getenv(kDoors);
  if (text != nullptr && *text != 0) {
    if (!read_number(text, place.port) || place.port < 1 || place.port > 65535)
      throw Refused{NRT_FAILURE, fmt::format("{} has '{}'; a port, 1 to 65535, was expected", kDoors, text)};
  } else if (place.port == 0) {
    throw Refused{NRT_FAILURE, fmt::format("neither {} nor {} is set: cores listen there", kDoors, kRoot)};
  }
  return place;
}

std::chrono::milliseconds time_limit() {
  double seconds = 30;
  const char* text = std::getenv(kLimit);
  if (text != nullptr && *text != 0)
    if (!read_number(text, seconds) || !(seconds >= 0.1) || seconds > 86'400)
      throw Refused{NRT_FAILURE,
                    fmt::format("{} has '{}'; seconds, 0.1 to 86400, were expected", kLimit, text)};
  return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1e3));
}

Door::Door(int lnc, const DoorPlace& place) : lnc_(lnc), family_(place.family) {
  const sockaddr_storage address = address_to_listen_at(place, lnc);
  socket_ = Socket(::socket(family_, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1;
  ::setsockopt(socket_.number(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (!socket_.is_open() ||
      ::bind(socket_.number(), reinterpret_cast<const sockaddr*>(&address), size_of(family_)) != 0 ||
      ::listen(socket_.number(), 128) != 0)
    throw Refused{NRT_FAILURE, fmt::format("core {} cannot listen at port {}: {}; {} names another", lnc,
                                           place.port + lnc, std::strerror(errno), kDoors)};
  thread_ = std::thread([this] { listen(); });
}

Door::~Door() {
  stopped_ = true;
  thread_.join();
}

void Door::listen() {
  while (!stopped_) {
    try {
      const Limit limit(Clock::now() + std::chrono::hours(1), &stopped_);
      wait_for(socket_, POLLIN, limit);
      accept_one(Limit(Clock::now() + kWordLimit, &stopped_));
    } catch (const Refused&) {  // a stranger, or the end
    }
  }
}

void Door::accept_one(const Limit& limit) {
  Caller caller;
  socklen_t size = sizeof caller.peer.address;
  caller.socket = Socket(
      ::accept4(socket_.number(), reinterpret_cast<sockaddr*>(&caller.peer.address), &size, SOCK_CLOEXEC));
  if (!caller.socket.is_open()) return;
  CallWord word;
  receive_all(caller.socket, &word, sizeof word, limit);
  if (word.magic != kCall || word.to != lnc_) return;
  caller.peer.lnc = word.from;
  const std::lock_guard lock(mutex_);
  callers_.remove_if([](const Caller& each) { return has_hung_up(each.socket); });
  callers_.push_back(std::move(caller));
  came_.notify_all();
}

Socket Door::take(const Peer& peer, const Limit& limit) {
  std::unique_lock lock(mutex_);
  while (true) {
    limit.expect_left("the peer did not connect in time");
    const auto found =
        std::find_if(callers_.begin(), callers_.end(), [&](const Caller& each) { return each.peer == peer; });
    if (found == callers_.end()) {
      came_.wait_for(lock, limit.slice());
      continue;
    }
    Socket taken = std::move(found->socket);
    callers_.erase(found);
    if (has_hung_up(taken)) continue;
    send_all(taken, &kTaken, sizeof kTaken, limit);
    return taken;
  }
}

}  // namespace opentrn::nrt

using opentrn::nrt::Clock;
using opentrn::nrt::Limit;
using opentrn::nrt::lost;
using opentrn::nrt::Refused;
using opentrn::nrt::Socket;

nrt_async_sendrecv_comm::nrt_async_sendrecv_comm(int lnc, opentrn::nrt::Peer peer,
                                                 std::shared_ptr<opentrn::nrt::Door> door,
                                                 const opentrn::nrt::DoorPlace& place)
    : lnc_(lnc),
      peer_(peer),
      door_(std::move(door)),
      port_(opentrn::nrt::port_of_core(place, peer.lnc)),
      until_(Clock::now() + opentrn::nrt::time_limit()) {
  thread_ = std::thread([this] { work(); });
}

nrt_async_sendrecv_comm::~nrt_async_sendrecv_comm() {
  stopped_ = true;
  {
    const std::lock_guard lock(mutex_);
    posted_.notify_all();
  }
  thread_.join();
}

bool nrt_async_sendrecv_comm::is_connected() {
  const std::lock_guard lock(mutex_);
  if (!connected_ && error_.status != NRT_SUCCESS) throw error_;
  return connected_;
}

void nrt_async_sendrecv_comm::post(const Request& request) {
  const std::lock_guard lock(mutex_);
  if (!connected_)
    throw Refused{NRT_FAILURE,
                  "the communicator is not connected: nrt_async_sendrecv_test_comm() tells when"};
  if (error_.status != NRT_SUCCESS)
    throw Refused{NRT_FAILURE, "the communicator failed before: " + error_.message};
  queue_.push_back(request);
  posted_.notify_all();
}

bool nrt_async_sendrecv_comm::is_done(const nrt_async_sendrecv_request& request) {
  const std::lock_guard lock(mutex_);
  if (request.error.status != NRT_SUCCESS) throw request.error;
  return request.done;
}

bool nrt_async_sendrecv_comm::is_idle() {
  const std::lock_guard lock(mutex_);
  return connected_ && queue_.empty();
}

// A peer that has no door yet, or whose door closed before it took this caller, is called again.
Socket nrt_async_sendrecv_comm::call() {
  const Limit limit(until_, &stopped_);
  sockaddr_storage address = peer_.address;
  opentrn::nrt::set_port(address, port_);
  while (true) {
    try {
      Socket socket(::socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      opentrn::nrt::connect_to(socket, address, limit);
      const opentrn::nrt::CallWord word{opentrn::nrt::kCall, lnc_, peer_.lnc};
      send_all(socket, &word, sizeof word, limit);
      uint64_t answer = 0;
      receive_all(socket, &answer, sizeof answer, limit);
      if (answer == opentrn::nrt::kTaken) return socket;
    } catch (const Refused& error) {
      if (error.status != NRT_NETWORK_PROXY_FAILURE) throw;
    }
    limit.expect_left("nobody took the connection in time");
    std::this_thread::sleep_for(std::min(limit.slice(), std::chrono::milliseconds(20)));
  }
}

void nrt_async_sendrecv_comm::work() {
  std::unique_lock lock(mutex_);
  try {
    lock.unlock();
    socket_ = door_ ? door_->take(peer_, Limit(until_, &stopped_)) : call();
    const int on = 1;
    ::setsockopt(socket_.number(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    lock.lock();
    connected_ = true;
    while (true) {
      posted_.wait(lock, [this] { return stopped_ || !queue_.empty(); });
      if (stopped_) return;
      const Request request = queue_.front();
      lock.unlock();
      Refused error{NRT_SUCCESS, ""};
      bool usable = true;  // the two sides still agree on where a message begins
      try {
        move(*request);
      } catch (const Refused& refused) {
        error = refused;
        usable = refused.status == NRT_FAILURE;
      }
      lock.lock();
      if (!usable) throw error;
      request->error = error;
      request->done = true;
      queue_.pop_front();
    }
  } catch (const Refused& error) {
    if (!lock.owns_lock()) lock.lock();
    error_ = error;
    for (const Request& each : queue_) each->error = error, each->done = true;
    queue_.clear();
    socket_ = Socket();
  }
}

// The sender says how much comes, the receiver whether it has room, and the bytes follow. NRT_FAILURE where
// it has not: the next message goes on.
void nrt_async_sendrecv_comm::move(nrt_async_sendrecv_request& request) {
  const Limit limit(request.until, &stopped_);
  uint64_t length = request.length, word = opentrn::nrt::kGo;
  if (is_receiver()) {
    receive_all(socket_, &length, sizeof length, limit);
    if (length > request.length) word = opentrn::nrt::kTooLong;
    send_all(socket_, &word, sizeof word, limit);
  } else {
    send_all(socket_, &length, sizeof length, limit);
    receive_all(socket_, &word, sizeof word, limit);
  }
  if (word == opentrn::nrt::kTooLong)
    throw Refused{NRT_FAILURE, fmt::format("{} bytes are sent and fewer received", length)};
  if (word != opentrn::nrt::kGo) lost("the other device does not speak as this one does");
  if (is_receiver())
    receive_all(socket_, request.data, length, limit);
  else
    send_all(socket_, request.data, length, limit);
  request.moved = length;
}
