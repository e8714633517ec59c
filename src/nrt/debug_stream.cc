#include "nrt/debug_stream.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <new>

#include <sys/eventfd.h>
#include <unistd.h>

#include <fmt/format.h>

#include "nrt/include/nrt/ndebug_stream.h"
#include "nrt/state.h"

namespace opentrn::nrt {

namespace {

constexpr const char* kRoom = "NEURON_RT_DEBUG_STREAM_BUFFER_SIZE";

using Payload = ndebug_stream_payload_debug_tensor_read_t;
struct Event {
  std::unique_ptr<void, decltype(&std::free)> payload{nullptr, &std::free};
  uint64_t bytes = 0;
};

struct Stream {
  int file = -1;  // an eventfd that counts the events
  size_t room = 0;
  std::deque<Event> events;
  ~Stream() { close(file); }
};

struct Streams {
  std::mutex mutex;
  std::map<size_t, std::unique_ptr<Stream>> of_core;
};
Streams& streams() {
  static Streams& instance = *new Streams;  // never destroyed: threads may execute while the process ends
  return instance;
}

size_t room_of_environment() {
  const char* text = std::getenv(kRoom);
  if (text == nullptr || *text == 0) return 65'536;
  size_t room = 0;
  const char* end = text + std::strlen(text);
  const auto read = std::from_chars(text, end, room);
  if (read.ec != std::errc() || read.ptr != end || room == 0)
    throw Refused{NRT_INVALID,
                  fmt::format("{} has '{}'; a number of events above 0 was expected", kRoom, text)};
  return room;
}

template <size_t Size>
void put_cut(char (&to)[Size], std::string_view text) {
  std::memcpy(to, text.data(), std::min(text.size(), Size - 1));
}

Event event_of(size_t core, const sim::PrintEvent& print) {
  Event event;
  event.bytes = sizeof(Payload) + print.values.size();
  event.payload.reset(std::calloc(1, event.bytes));
  if (event.payload == nullptr) throw std::bad_alloc();
  Payload& payload = *static_cast<Payload*>(event.payload.get());
  put_cut(payload.prefix, print.text);
  payload.logical_nc_id = static_cast<uint32_t>(core);
  put_cut(payload.tensor_dtype, name(print.dtype));
  if (print.shape.size() <= std::size(payload.tensor_shape))
    std::copy(print.shape.begin(), print.shape.end(), payload.tensor_shape);
  else
    payload.tensor_shape[0] = print.values.size() / static_cast<size_t>(size_bytes(print.dtype));
  payload.tensor_data_size = print.values.size();
  if (!print.values.empty()) std::memcpy(payload.tensor_data, print.values.data(), print.values.size());
  return event;
}

void push(size_t core, const sim::PrintEvent& print) {
  const std::lock_guard lock(streams().mutex);
  const auto found = streams().of_core.find(core);
  if (found == streams().of_core.end() || found->second->events.size() >= found->second->room) return;
  found->second->events.push_back(event_of(core, print));
  const uint64_t one = 1;
  static_cast<void>(!write(found->second->file, &one, sizeof one));
}

auto stream_at(int file) {
  auto& all = streams().of_core;
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const auto& each) { return each.second->file == file; });
  if (found == all.end()) throw Refused{NRT_INVALID_HANDLE, fmt::format("{} is not an open stream", file)};
  return found;
}

void connect(int core, int* file) {
  expect_given(file, "the place of the descriptor");
  State& state = State::instance();
  const std::lock_guard state_lock(state.mutex);
  state.expect_open();
  const size_t index = state.core_at(core);
  const std::lock_guard lock(streams().mutex);
  if (streams().of_core.contains(index))
    throw Refused{NRT_INVALID, fmt::format("the stream of core {} has a client", core)};
  auto made = std::make_unique<Stream>();
  made->room = room_of_environment();
  made->file = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC | EFD_NONBLOCK);
  if (made->file < 0) throw Refused{NRT_RESOURCE, "the system gives no descriptor"};
  *file = made->file;
  streams().of_core[index] = std::move(made);
}

}  // namespace

sim::PrintCallback prints_of(size_t core) {
  const std::lock_guard lock(streams().mutex);
  if (!streams().of_core.contains(core)) return {};
  return [core](const sim::PrintEvent& print) { push(core, print); };
}

void leave_streams() {
  const std::lock_guard lock(streams().mutex);
  streams().of_core.clear();
}

}  // namespace opentrn::nrt

using opentrn::nrt::answer;
using opentrn::nrt::expect_given;
using opentrn::nrt::Refused;
using opentrn::nrt::streams;

extern "C" {

NRT_STATUS nrt_debug_client_connect(int logical_nc_idx, int* stream_fd) {
  return answer("nrt_debug_client_connect", [&] { opentrn::nrt::connect(logical_nc_idx, stream_fd); });
}

void nrt_debug_client_connect_close(int stream_fd) {
  static_cast<void>(answer("nrt_debug_client_connect_close", [&] {
    const std::lock_guard lock(streams().mutex);
    streams().of_core.erase(opentrn::nrt::stream_at(stream_fd));
  }));
}

NRT_STATUS nrt_debug_client_read_one_event(int stream_fd, ndebug_stream_event_header_t* header,
                                           void** payload) {
  return answer("nrt_debug_client_read_one_event", [&] {
    expect_given(header, "the place of the header");
    expect_given(payload, "the place of the payload");
    const std::lock_guard lock(streams().mutex);
    auto& stream = *opentrn::nrt::stream_at(stream_fd)->second;
    if (stream.events.empty()) throw Refused{NRT_QUEUE_EMPTY, "there is no event"};
    uint64_t one = 0;
    static_cast<void>(!read(stream_fd, &one, sizeof one));
    *header = {};
    header->data_size = stream.events.front().bytes;
    header->type = NDEBUG_STREAM_EVENT_TYPE_DEBUG_TENSOR_READ;
    *payload = stream.events.front().payload.release();
    stream.events.pop_front();
  });
}

}  // extern "C"
