// nrt_async_sendrecv_*: tensors from a logical core to another, of this process, this host or another host.
#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "nrt/include/nrt/nrt_async_sendrecv.h"
#include "nrt/peers.h"
#include "nrt/state.h"
#include "nrt/tensor.h"

namespace opentrn::nrt {

namespace {

using Comm = nrt_async_sendrecv_comm;
using Request = nrt_async_sendrecv_request;

struct OpenComm {
  std::shared_ptr<Comm> comm;
  std::map<const Request*, std::shared_ptr<Request>> pending;  // until they are tested to be done
};

struct OpenCore {
  DoorPlace place;
  std::shared_ptr<Door> door;
  std::map<const Comm*, OpenComm> comms;
};

struct Peers {
  std::mutex mutex;
  std::map<int, OpenCore> cores;
  std::set<int> failed;  // whose close failed
};
Peers& peers() {
  static auto& all = *new Peers;  // never destroyed: threads may call while the process ends
  return all;
}

// The header names four statuses; what else went wrong is NRT_FAILURE, and the message tells.
template <typename Body>
NRT_STATUS answer_peers(const char* function, Body&& body) noexcept {
  const NRT_STATUS status = answer(function, std::forward<Body>(body));
  switch (status) {
    case NRT_SUCCESS:
    case NRT_INVALID_HANDLE:
    case NRT_RESOURCE:
    case NRT_TIMEOUT: return status;
    default: return NRT_FAILURE;
  }
}

// A core of this process, by its number on the host.
void expect_own(int lnc) {
  State& state = State::instance();
  const std::lock_guard lock(state.mutex);
  state.expect_open();
  const std::vector<int>& own = state.machine().settings.cores;
  if (std::find(own.begin(), own.end(), lnc) == own.end())
    throw Refused{NRT_FAILURE, fmt::format("core {} of the host is none of this process, which has {} to {}",
                                           lnc, own.front(), own.back())};
}

OpenCore& open_core(int lnc) {
  const auto found = peers().cores.find(lnc);
  if (found == peers().cores.end())
    throw Refused{NRT_FAILURE, fmt::format("core {}: nrt_async_sendrecv_init() comes first", lnc)};
  return found->second;
}

OpenComm& open_comm(const Comm* handle) {
  for (auto& [lnc, core] : peers().cores) {
    const auto found = core.comms.find(handle);
    if (found != core.comms.end()) return found->second;
  }
  throw Refused{NRT_INVALID_HANDLE, "it is not an open communicator"};
}

void expect_place(const void* place, const char* name) {
  if (place == nullptr) throw Refused{NRT_FAILURE, fmt::format("{} is null", name)};
}

NRT_STATUS make_comm(const char* function, const char* ip, int peer_lnc, int lnc, bool receives, Comm** to) {
  return answer_peers(function, [&] {
    expect_place(to, "the place of the communicator");
    const std::lock_guard lock(peers().mutex);
    OpenCore& core = open_core(lnc);
    const Peer peer = peer_at(ip, peer_lnc, core.place.family);
    if (core.comms.size() >= kCommunicatorsMax)
      throw Refused{NRT_RESOURCE,
                    fmt::format("core {} has {} communicators, which is the limit", lnc, core.comms.size())};
    auto made = std::make_shared<Comm>(lnc, peer, receives ? core.door : nullptr, core.place);
    *to = made.get();
    core.comms[made.get()].comm = std::move(made);
  });
}

std::shared_ptr<Request> request_of(nrt_tensor_t* tensor, size_t offset, size_t length) {
  State& state = State::instance();
  const std::lock_guard lock(state.mutex);
  state.expect_open();
  const nrt_tensor& found = tensor_at(tensor);
  auto made = std::make_shared<Request>();
  made->data = range_of(found, offset, length);
  made->storage = found.storage;
  made->length = length;
  made->until = Clock::now() + time_limit();
  return made;
}

NRT_STATUS post(const char* function, nrt_tensor_t* tensor, size_t offset, size_t length, Comm* handle,
                bool receives, Request** to) {
  return answer_peers(function, [&] {
    expect_place(to, "the place of the request");
    const std::lock_guard lock(peers().mutex);
    OpenComm& open = open_comm(handle);
    if (open.comm->is_receiver() != receives)
      throw Refused{NRT_INVALID_HANDLE, receives ? "the communicator is one that sends"
                                                 : "the communicator is one that receives"};
    if (open.pending.size() >= kPendingMax)
      throw Refused{NRT_RESOURCE, fmt::format("{} requests are pending, which is the limit", kPendingMax)};
    std::shared_ptr<Request> made = request_of(tensor, offset, length);
    open.comm->post(made);
    *to = made.get();
    open.pending[made.get()] = std::move(made);
  });
}

}  // namespace

void leave_peers() {
  std::map<int, OpenCore> dying;  // ends outside of the lock: threads are waited for
  Peers& all = peers();
  const std::lock_guard lock(all.mutex);
  dying.swap(all.cores);
  all.failed.clear();
}

}  // namespace opentrn::nrt

using opentrn::nrt::answer_peers;
using opentrn::nrt::expect_place;
using opentrn::nrt::peers;
using opentrn::nrt::Refused;

extern "C" {

NRT_STATUS nrt_async_sendrecv_get_max_num_communicators_per_lnc(int* num) {
  return answer_peers("nrt_async_sendrecv_get_max_num_communicators_per_lnc", [&] {
    expect_place(num, "the place of the number");
    *num = opentrn::nrt::kCommunicatorsMax;
  });
}
NRT_STATUS nrt_async_sendrecv_get_max_num_pending_request(int* num) {
  return answer_peers("nrt_async_sendrecv_get_max_num_pending_request", [&] {
    expect_place(num, "the place of the number");
    *num = opentrn::nrt::kPendingMax;
  });
}

NRT_STATUS nrt_async_sendrecv_init(int lnc) {
  return answer_peers("nrt_async_sendrecv_init", [&] {
    opentrn::nrt::expect_own(lnc);
    const std::lock_guard lock(peers().mutex);
    if (peers().failed.contains(lnc))
      throw Refused{NRT_FAILURE, fmt::format("core {}: its last nrt_async_sendrecv_close() failed", lnc)};
    if (peers().cores.contains(lnc))
      throw Refused{NRT_FAILURE, fmt::format("core {}: nrt_async_sendrecv_close() comes first", lnc)};
    const auto place = opentrn::nrt::place_of_doors();
    opentrn::nrt::time_limit();  // refused here rather than by the first communicator
    peers().cores[lnc] = {place, std::make_shared<opentrn::nrt::Door>(lnc, place), {}};
  });
}

NRT_STATUS nrt_async_sendrecv_close(int lnc) {
  return answer_peers("nrt_async_sendrecv_close", [&] {
    opentrn::nrt::OpenCore dying;  // ends outside of the lock: threads are waited for
    bool idle = true;
    {
      const std::lock_guard lock(peers().mutex);
      dying = std::move(opentrn::nrt::open_core(lnc));
      peers().cores.erase(lnc);
      for (const auto& [handle, open] : dying.comms) idle = open.comm->is_idle() && idle;
      if (!idle) peers().failed.insert(lnc);
    }
    if (!idle)
      throw Refused{NRT_FAILURE, fmt::format("core {} had a communicator without connection, or a request "
                                             "under way; all are closed now",
                                             lnc)};
  });
}

NRT_STATUS nrt_async_sendrecv_connect(const char* peer_ip, int peer_lnc, int lnc,
                                      nrt_async_sendrecv_comm_t** send_comm) {
  return opentrn::nrt::make_comm("nrt_async_sendrecv_connect", peer_ip, peer_lnc, lnc, false, send_comm);
}
NRT_STATUS nrt_async_sendrecv_accept(const char* peer_ip, int peer_lnc, int lnc,
                                     nrt_async_sendrecv_comm_t** recv_comm) {
  return opentrn::nrt::make_comm("nrt_async_sendrecv_accept", peer_ip, peer_lnc, lnc, true, recv_comm);
}

NRT_STATUS nrt_async_sendrecv_test_comm(nrt_async_sendrecv_comm_t* comm, bool* done) {
  return answer_peers("nrt_async_sendrecv_test_comm", [&] {
    expect_place(done, "the place of the answer");
    const std::lock_guard lock(peers().mutex);
    *done = false;
    *done = opentrn::nrt::open_comm(comm).comm->is_connected();
  });
}

NRT_STATUS nrt_async_sendrecv_send_tensor(nrt_tensor_t* tensor, size_t offset, size_t length,
                                          nrt_async_sendrecv_comm_t* send_comm,
                                          nrt_async_sendrecv_request_t** request) {
  return opentrn::nrt::post("nrt_async_sendrecv_send_tensor", tensor, offset, length, send_comm, false,
                            request);
}
NRT_STATUS nrt_async_sendrecv_recv_tensor(nrt_tensor_t* tensor, size_t offset, size_t length,
                                          nrt_async_sendrecv_comm_t* recv_comm,
                                          nrt_async_sendrecv_request_t** request) {
  return opentrn::nrt::post("nrt_async_sendrecv_recv_tensor", tensor, offset, length, recv_comm, true,
                            request);
}

NRT_STATUS nrt_async_sendrecv_test_request(nrt_async_sendrecv_request_t* request, bool* done, size_t* size) {
  return answer_peers("nrt_async_sendrecv_test_request", [&] {
    expect_place(done, "the place of the answer");
    const std::lock_guard lock(peers().mutex);
    *done = false;
    for (auto& [lnc, core] : peers().cores)
      for (auto& [handle, open] : core.comms) {
        const auto found = open.pending.find(request);
        if (found == open.pending.end()) continue;
        const auto kept = found->second;
        try {
          *done = open.comm->is_done(*kept);
        } catch (const Refused&) {
          open.pending.erase(found);
          throw;
        }
        if (!*done) return;
        if (size != nullptr) *size = kept->moved;
        open.pending.erase(found);
        return;
      }
    throw Refused{NRT_INVALID_HANDLE, "it is not an open request"};
  });
}

NRT_STATUS nrt_async_sendrecv_flush(int lnc) {
  return answer_peers("nrt_async_sendrecv_flush", [&] {
    // A request is done when its bytes are in memory, so that nothing is under way here.
    const std::lock_guard lock(peers().mutex);
    opentrn::nrt::open_core(lnc);
  });
}

}  // extern "C"
