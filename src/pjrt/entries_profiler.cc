// The profiler extension: a C interface of its own (xla/backends/profiler/plugin/profiler_c_api.h), whose
// records begin with their size and one word that is not used.
#include <algorithm>
#include <cstring>
#include <string>

#include "pjrt/client.h"
#include "pjrt/entries.h"
#include "pjrt/timeline.h"

namespace opentrn::pjrt {

namespace {

// What was collected, for as long as the caller may read it.
struct Session {
  std::string data;
  bool collected = false;
};

Session* session_of(void* profiler) { return static_cast<Session*>(profiler); }

// What still runs belongs to the profile.
void drain() {
  if (Client* client = Client::current()) client->drain();
}

}  // namespace

void profiler_create(abi::ProfilerCreate& args) { args.profiler = new Session; }
void profiler_destroy(abi::ProfilerArgs& args) { delete session_of(args.profiler); }

void profiler_start(abi::ProfilerArgs&) {
  drain();
  Timeline::instance().begin();
}

void profiler_stop(abi::ProfilerArgs&) {
  drain();
  Timeline::instance().end();
}

void profiler_collect(abi::ProfilerCollect& args) {
  Session& session = *session_of(args.profiler);
  if (!session.collected) session.data = Timeline::instance().xspace();
  session.collected = true;
  // jaxlib asks once and reads what it is given; the interface lets callers also bring a buffer of that size.
  if (args.buffer)
    std::memcpy(args.buffer, session.data.data(), std::min(args.size, session.data.size()));
  else
    args.buffer = reinterpret_cast<uint8_t*>(session.data.data());
  args.size = session.data.size();
}

}  // namespace opentrn::pjrt
