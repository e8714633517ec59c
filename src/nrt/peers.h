// Point to point between logical cores: a door per core, where senders call, and a thread per communicator,
// which meets the peer and then moves one tensor after the other.
#pragma once

#include <sys/socket.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "nrt/include/nrt/nrt_async_sendrecv.h"
#include "nrt/socket.h"
#include "nrt/state.h"
#include "nrt/tensor.h"

namespace opentrn::nrt {

// Of OpenTrn: AWS publishes no figures.
constexpr int kCommunicatorsMax = 64;  // of one core
constexpr int kPendingMax = 128;       // requests of one communicator

// An IP address and a core there.
struct Peer {
  sockaddr_storage address{};  // port 0
  int lnc = 0;
  bool operator==(const Peer& other) const;
};
// Throws Refused where the text is no address of the family.
Peer peer_at(const char* ip, int lnc, int family);

// Where core 0 of a host listens; core N: N ports further. Throws Refused.
struct DoorPlace {
  int family = AF_INET;
  // The host's own address towards the one that the root's address names; without a root the loopback's, so
  // that only this host is heard.
  sockaddr_storage address{};
  int port = 0;
};
DoorPlace place_of_doors();

std::chrono::milliseconds time_limit();  // of a connection and of a request. Throws Refused.

// The listening core. Callers wait here until a communicator takes them.
class Door {
 public:
  Door(int lnc, const DoorPlace& place);
  ~Door();
  // The peer's connection that waits longest, and tells it that it was taken. Throws Refused at the limit.
  Socket take(const Peer& peer, const Limit& limit);

 private:
  struct Caller {
    Peer peer;
    Socket socket;
  };
  void listen();
  void accept_one(const Limit& limit);

  const int lnc_, family_;
  Socket socket_;
  std::mutex mutex_;
  std::condition_variable came_;
  std::list<Caller> callers_;
  std::atomic<bool> stopped_ = false;
  std::thread thread_;
};

}  // namespace opentrn::nrt

struct nrt_async_sendrecv_request {
  std::shared_ptr<opentrn::nrt::Storage> storage;  // keeps the bytes
  std::byte* data = nullptr;
  size_t length = 0;
  opentrn::nrt::Clock::time_point until;
  // Under the communicator's mutex:
  bool done = false;
  size_t moved = 0;
  opentrn::nrt::Refused error{NRT_SUCCESS, ""};
};

struct nrt_async_sendrecv_comm {
  using Request = std::shared_ptr<nrt_async_sendrecv_request>;

  // `door`: of a receiver; null for a sender. The thread starts at once.
  nrt_async_sendrecv_comm(int lnc, opentrn::nrt::Peer peer, std::shared_ptr<opentrn::nrt::Door> door,
                          const opentrn::nrt::DoorPlace& place);
  ~nrt_async_sendrecv_comm();
  bool is_receiver() const { return door_ != nullptr; }
  // Throws Refused: what became of the rendezvous.
  bool is_connected();
  // Throws Refused: not connected, broken.
  void post(const Request& request);
  // Throws Refused: the request's error.
  bool is_done(const nrt_async_sendrecv_request& request);
  bool is_idle();  // connected, or broken later, and nothing under way

 private:
  void work();
  void move(nrt_async_sendrecv_request& request);
  opentrn::nrt::Socket call();

  const int lnc_;
  const opentrn::nrt::Peer peer_;
  const std::shared_ptr<opentrn::nrt::Door> door_;
  const int port_;
  const opentrn::nrt::Clock::time_point until_;  // of the rendezvous
  opentrn::nrt::Socket socket_;                  // of the thread
  std::mutex mutex_;
  std::condition_variable posted_;
  std::deque<Request> queue_;
  bool connected_ = false;
  opentrn::nrt::Refused error_{NRT_SUCCESS, ""};  // after which nothing is moved
  std::atomic<bool> stopped_ = false;
  std::thread thread_;
};
