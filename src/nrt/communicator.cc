// Collectives of the host's side: device 0 of a group listens at NEURON_RT_ROOT_COMM_ID, the others call, and
// what each hands in is collected there and given back to all. Devices may be of several processes or of
// several threads of one.
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "nrt/include/nrt/nrt.h"
#include "nrt/include/nrt/nrt_experimental.h"
#include "nrt/socket.h"
#include "nrt/state.h"

namespace opentrn::nrt {

namespace {

constexpr uint32_t kDevicesMax = 4096;
constexpr uint32_t kBytesMax = 1U << 30;  // of one device in one call
constexpr std::chrono::seconds kTimeout{30};
constexpr uint64_t kMagic = 0x4f70656e54726e31;  // "OpenTrn1"

// Before each contribution.
struct Hello {
  uint64_t magic = kMagic;
  uint32_t device = 0, count = 0, call = 0,
           bytes = 0;  // call: how many there were before; bytes: that follow
};

Socket listen_at_root() {
  Addresses found;
  find_root(found);
  Socket socket(::socket(found.first->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  ::setsockopt(socket.number(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (!socket.is_open() || ::bind(socket.number(), found.first->ai_addr, found.first->ai_addrlen) != 0 ||
      ::listen(socket.number(), 128) != 0)
    lost(fmt::format("{}={}: {}", kRoot, std::getenv(kRoot), std::strerror(errno)));
  return socket;
}

Socket call_root(Clock::time_point until) {
  Addresses found;
  find_root(found);
  while (true) {
    Socket socket(::socket(found.first->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (socket.is_open() && ::connect(socket.number(), found.first->ai_addr, found.first->ai_addrlen) == 0)
      return socket;
    if (Clock::now() > until)
      throw Refused{NRT_TIMEOUT, fmt::format("nobody listens at {}", std::getenv(kRoot))};
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // device 0 comes later
  }
}

// One device of a group of several.
class Communicator {
 public:
  Communicator(uint32_t device, uint32_t count) : device_(device), count_(count) {
    const auto until = Clock::now() + kTimeout;
    if (device_ != 0) {
      root_ = call_root(until);
      const Hello hello{kMagic, device_, count_, 0, 0};
      send_all(root_, &hello, sizeof hello, until);
      return;
    }
    const Socket door = listen_at_root();
    peers_.resize(count_ - 1);
    for (uint32_t there = 0; there + 1 < count_;) there += accept_one(door, until) ? 1 : 0;
  }

  uint32_t count() const { return count_; }

  // `bytes` of every device, by device. Every device calls with the same size.
  std::vector<char> gather(const void* input, uint32_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto until = Clock::now() + kTimeout;
    std::vector<char> all(static_cast<size_t>(bytes) * count_);
    const Hello own{kMagic, device_, count_, calls_++, bytes};
    if (device_ != 0) {
      send_all(root_, &own, sizeof own, until);
      send_all(root_, input, bytes, until);
      Hello answer;
      receive_all(root_, &answer, sizeof answer, until);
      expect_same(own, answer);
      receive_all(root_, all.data(), all.size(), until);
      return all;
    }
    if (bytes > 0) std::memcpy(all.data(), input, bytes);
    for (uint32_t i = 1; i < count_; ++i) {
      Hello theirs;
      receive_all(peers_[i - 1], &theirs, sizeof theirs, until);
      expect_same(own, theirs);
      receive_all(peers_[i - 1], all.data() + static_cast<size_t>(i) * bytes, bytes, until);
    }
    for (const Socket& peer : peers_) {
      send_all(peer, &own, sizeof own, until);
      send_all(peer, all.data(), all.size(), until);
    }
    return all;
  }

 private:
  // Whoever is no device of this group is hung up on.
  bool accept_one(const Socket& door, Clock::time_point until) {
    wait_for(door, POLLIN, until);
    Socket peer(::accept4(door.number(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!peer.is_open()) return false;
    try {
      Hello hello;
      receive_all(peer, &hello, sizeof hello, std::min(until, Clock::now() + std::chrono::seconds(2)));
      if (hello.magic != kMagic || hello.count != count_ || hello.device == 0 || hello.device >= count_ ||
          hello.bytes != 0 || peers_[hello.device - 1].is_open())
        return false;
      peers_[hello.device - 1] = std::move(peer);
      return true;
    } catch (const Refused&) {
      return false;
    }
  }

  static void expect_same(const Hello& own, const Hello& theirs) {
    if (theirs.magic == kMagic && theirs.count == own.count && theirs.call == own.call &&
        theirs.bytes == own.bytes)
      return;
    throw Refused{NRT_INVALID,
                  fmt::format("the devices of the group do not call the same: {} bytes in call {} "
                              "here, {} in call {} of another",
                              own.bytes, own.call, theirs.bytes, theirs.call)};
  }

  const uint32_t device_, count_;
  std::mutex mutex_;
  Socket root_;                // of a device that is not 0
  std::vector<Socket> peers_;  // of device 0
  uint32_t calls_ = 0;
};

struct Groups {
  std::mutex mutex;
  std::map<uint32_t, std::shared_ptr<Communicator>> by_device;  // of this process
};
Groups& groups() {
  static auto& all = *new Groups;
  return all;
}

void expect_group(uint32_t device, uint32_t count) {
  if (count == 0 || count > kDevicesMax || device >= count)
    throw Refused{NRT_INVALID, fmt::format("device {} of {}; up to {} devices", device, count, kDevicesMax)};
}

// Null for a device alone.
std::shared_ptr<Communicator> meet(uint32_t device, uint32_t count, bool anew) {
  expect_group(device, count);
  if (count == 1) return nullptr;
  Groups& all = groups();
  if (!anew) {
    const std::lock_guard lock(all.mutex);
    const auto found = all.by_device.find(device);
    if (found != all.by_device.end() && found->second->count() == count) return found->second;
  }
  auto made = std::make_shared<Communicator>(device, count);
  const std::lock_guard lock(all.mutex);
  return all.by_device[device] = made;
}

void expect_core(int64_t vnc) {
  State& state = State::instance();
  const std::lock_guard lock(state.mutex);
  state.expect_open();
  state.core_at(vnc);
}

NRT_STATUS build(const char* function, int64_t vnc, uint32_t device, uint32_t count) {
  return answer(function, [&] {
    expect_core(vnc);
    meet(device, count, true);
  });
}

}  // namespace

void leave_groups() {
  Groups& all = groups();
  const std::lock_guard lock(all.mutex);
  all.by_device.clear();
}

}  // namespace opentrn::nrt

using opentrn::nrt::answer;
using opentrn::nrt::Refused;

extern "C" {

NRT_STATUS nrt_build_global_comm(int32_t vnc, uint32_t g_device_id, uint32_t g_device_count) {
  return opentrn::nrt::build("nrt_build_global_comm", vnc, g_device_id, g_device_count);
}
NRT_STATUS nrt_cc_global_comm_init(uint32_t vnc, uint32_t g_device_id, uint32_t g_device_count) {
  return opentrn::nrt::build("nrt_cc_global_comm_init", vnc, g_device_id, g_device_count);
}
NRT_STATUS nrt_barrier(int32_t vnc, uint32_t g_device_id, uint32_t g_device_count) {
  return answer("nrt_barrier", [&] {
    opentrn::nrt::expect_core(vnc);
    const auto group = opentrn::nrt::meet(g_device_id, g_device_count, false);
    if (group) group->gather(nullptr, 0);
  });
}
NRT_STATUS nrt_all_gather(int32_t vnc, uint32_t g_device_id, uint32_t g_device_count,
                          uint32_t rank_input_size, void* input, void* output) {
  return answer("nrt_all_gather", [&] {
    opentrn::nrt::expect_core(vnc);
    if (rank_input_size > opentrn::nrt::kBytesMax)
      throw Refused{NRT_INVALID,
                    fmt::format("{} bytes; at most {}", rank_input_size, opentrn::nrt::kBytesMax)};
    if (rank_input_size > 0 && (input == nullptr || output == nullptr))
      throw Refused{NRT_INVALID, "a buffer is null"};
    const auto group = opentrn::nrt::meet(g_device_id, g_device_count, false);
    if (!group) {
      if (rank_input_size > 0) std::memmove(output, input, rank_input_size);
      return;
    }
    const std::vector<char> all = group->gather(input, rank_input_size);
    if (!all.empty()) std::memcpy(output, all.data(), all.size());
  });
}

}  // extern "C"
