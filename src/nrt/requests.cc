// nrta_*: requests that are done when they are made (nrt_async.h).
#include <array>
#include <vector>

#include <sys/eventfd.h>

#include <fmt/format.h>

#include "nrt/include/nrt/nrt_async.h"
#include "nrt/model.h"
#include "nrt/state.h"

struct nrta_error_tracker {
  std::vector<nrta_error_t> errors;
};

namespace opentrn::nrt {

namespace {

// Guarded by the state's mutex. Numbers of each unit of each core.
std::array<uint64_t, NRTA_XU_TYPE_NUM>& numbers() {
  static std::array<uint64_t, NRTA_XU_TYPE_NUM> instance{};
  return instance;
}

nrta_seq_t sequence(nrta_xu_t unit, uint64_t number) {
  return (static_cast<nrta_seq_t>(unit) << 48) | number;
}

// `done` is the answer of the request itself.
NRT_STATUS requested(const char* function, nrta_xu_t unit, int queue, nrta_error_tracker_t* tracker,
                     nrta_seq_t* place, NRT_STATUS (*call)(const void*), const void* what) noexcept {
  if (queue != 0) return refused(function, NRT_INVALID, fmt::format("queue {}: there is queue 0", queue));
  const NRT_STATUS done = call(what);
  if (done == NRT_UNINITIALIZED || done == NRT_CLOSED) return done;  // nothing was asked of a device
  return answer(function, [&] {
    State& state = State::instance();
    const std::lock_guard lock(state.mutex);
    const nrta_seq_t given = sequence(unit, ++numbers()[unit]);
    if (place != nullptr) *place = given;
    if (done == NRT_SUCCESS) return;
    if (tracker == nullptr) throw Refused{done, last_message()};
    tracker->errors.push_back({given, static_cast<uint64_t>(done)});
  });
}

template <typename Call>
NRT_STATUS request(const char* function, nrta_xu_t unit, int queue, nrta_error_tracker_t* tracker,
                   nrta_seq_t* place, const Call& call) noexcept {
  return requested(
      function, unit, queue, tracker, place,
      [](const void* what) { return (*static_cast<const Call*>(what))(); }, &call);
}

bool is_given(nrta_seq_t seq) {
  const uint64_t unit = NRTA_SEQ_GET_XU_ID(seq), number = NRTA_SEQ_GET_SEQ_NUM(seq);
  return unit < NRTA_XU_TYPE_NUM && number > 0 && number <= numbers()[unit];
}

template <typename Body>
NRT_STATUS with_state(const char* function, Body&& body) noexcept {
  return answer(function, [&] {
    State& state = State::instance();
    const std::lock_guard lock(state.mutex);
    state.expect_open();
    body();
  });
}

}  // namespace

}  // namespace opentrn::nrt

using opentrn::nrt::expect_given;
using opentrn::nrt::Refused;
using opentrn::nrt::request;
using opentrn::nrt::run_and_answer;
using opentrn::nrt::with_state;

extern "C" {

NRT_STATUS nrta_tensor_write(nrt_tensor_t* tensor, const void* buf, uint64_t offset, uint64_t size, int queue,
                             nrta_error_tracker_t* err, nrta_seq_t* seq) {
  return request("nrta_tensor_write", NRTA_XU_TENSOR_WRITE, queue, err, seq,
                 [&] { return nrt_tensor_write(tensor, buf, offset, size); });
}

NRT_STATUS nrta_tensor_read(void* buf, nrt_tensor_t* tensor, uint64_t offset, uint64_t size, int queue,
                            nrta_error_tracker_t* err, nrta_seq_t* seq) {
  return request("nrta_tensor_read", NRTA_XU_TENSOR_READ, queue, err, seq,
                 [&] { return nrt_tensor_read(tensor, buf, offset, size); });
}

NRT_STATUS nrta_tensor_copy(nrt_tensor_t* src, uint64_t src_offset, nrt_tensor_t* dst, uint64_t dst_offset,
                            uint64_t size, int queue, nrta_error_tracker_t* err, nrta_seq_t* seq) {
  return request("nrta_tensor_copy", NRTA_XU_TENSOR_OP, queue, err, seq,
                 [&] { return nrt_tensor_copy(src, src_offset, dst, dst_offset, size); });
}

NRT_STATUS nrta_execute_schedule(nrt_model_t* model, const nrt_tensor_set_t* input, nrt_tensor_set_t* output,
                                 int queue, nrta_error_tracker_t* err, nrta_seq_t* seq) {
  return request("nrta_execute_schedule", NRTA_XU_COMPUTE, queue, err, seq,
                 [&] { return run_and_answer("nrta_execute_schedule", model, input, output, 1, true); });
}

NRT_STATUS nrta_is_completed(nrta_seq_t seq, bool* is_completed) {
  return with_state("nrta_is_completed", [&] {
    expect_given(is_completed, "the place of the answer");
    if (!opentrn::nrt::is_given(seq))
      throw Refused{NRT_INVALID, fmt::format("no request has the number {}", seq)};
    *is_completed = true;
  });
}

NRT_STATUS nrta_get_sequence(uint32_t /*lnc*/, nrta_xu_t xu, int queue, nrta_seq_t* seq) {
  return with_state("nrta_get_sequence", [&] {
    expect_given(seq, "the place of the number");
    if (xu < 0 || xu >= NRTA_XU_TYPE_NUM || queue != 0 || opentrn::nrt::numbers()[xu] == 0)
      throw Refused{NRT_INVALID, "the unit and queue have had no request"};
    *seq = opentrn::nrt::sequence(xu, opentrn::nrt::numbers()[xu]);
  });
}

NRT_STATUS nrta_get_completion_handle(nrta_seq_t seq, int* fd) {
  return with_state("nrta_get_completion_handle", [&] {
    expect_given(fd, "the place of the descriptor");
    if (!opentrn::nrt::is_given(seq))
      throw Refused{NRT_INVALID, fmt::format("no request has the number {}", seq)};
    const int made = eventfd(1, EFD_CLOEXEC);
    if (made < 0) throw Refused{NRT_RESOURCE, "the system gives no descriptor"};
    *fd = made;
  });
}

NRT_STATUS nrta_error_tracker_create(uint32_t /*lnc_idx*/, nrta_error_tracker_t** error_tracker) {
  return opentrn::nrt::answer("nrta_error_tracker_create", [&] {
    expect_given(error_tracker, "the place of the tracker");
    *error_tracker = new nrta_error_tracker;
  });
}

void nrta_error_tracker_destroy(nrta_error_tracker_t* error_tracker) { delete error_tracker; }

NRT_STATUS nrta_error_tracker_get_list(nrta_error_tracker_t* error_tracker, const nrta_error_t** list,
                                       size_t* error_count) {
  return opentrn::nrt::answer("nrta_error_tracker_get_list", [&] {
    expect_given(error_tracker, "the tracker");
    expect_given(list, "the place of the list");
    expect_given(error_count, "the place of the count");
    *list = error_tracker->errors.data();
    *error_count = error_tracker->errors.size();
  });
}

}  // extern "C"
