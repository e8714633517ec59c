// What ran where, when, and why it did not run earlier: the timing model writes a Trace, the profile
// layer reads it.
//
// A track is one row of a timeline: an engine's instruction stream, one DMA queue of the core, or one
// DMA engine. Events of an engine track do not overlap; transfers do, because DMA engines share their time
// between queues. Times are nanoseconds from the start of the
// kernel on the device; the launch overhead is not in them (Summary::launch_ns).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/generation.h"
#include "isa/memory.h"
#include "isa/opcode.h"
#include "trace/string_table.h"
#include "trace/summary.h"

namespace opentrn::trace {

enum class TrackKind : uint8_t {
  kEngine,     // tensor, vector, scalar, gpsimd, sync: instructions in issue order
  kDmaQueue,   // a DMA ring as the program sees it: one event per DMA instruction
  kDmaEngine,  // one of the 16 hardware engines: one event per transfer (only with detail asked for)
  kCcCores,    // the CC-cores beside a core: one event per collective, from its trigger to its end
};

struct Track {
  TrackKind kind = TrackKind::kEngine;
  isa::Engine engine = isa::Engine::kUnknown;  // kDmaQueue: the engine that triggers it
  uint16_t core = 0;                           // core of a logical core (LNC2): 0 or 1
  uint16_t number = 0;                         // DMA queue or DMA engine number
  StringId name = kEmptyString;                // "vector", "qSync0", "dma3"
};

// Why an event did not start when its track became free, or what lengthened it.
enum class Stall : uint8_t {
  kNone,         // started as soon as its engine was free
  kEngine,       // waited for an instruction of another engine (semaphore)
  kDma,          // waited for a DMA to complete (semaphore)
  kOwnResult,    // waited for the result of an earlier instruction of the same engine
  kPort,         // waited for a shared SBUF or PSUM port
  kDmaQueue,     // DMA: waited for its queue or DMA engines
  kHbm,          // DMA: HBM bandwidth was shared
  kPeer,         // waited for the other core (sendrecv, core_barrier)
  kDescriptors,  // DMA: descriptors were being generated
  kCollective,   // waited for a collective
};
inline constexpr int kStallCount = static_cast<int>(Stall::kCollective) + 1;
std::string_view name(Stall stall);  // "waiting for DMA"

inline constexpr uint32_t kNoIndex = 0xFFFFFFFFu;

struct Event {
  double start_ns = 0;
  double end_ns = 0;    // results visible to others; the engine may be free before
  double busy_ns = 0;   // how long the track was occupied
  double stall_ns = 0;  // how long the track had been idle before start_ns because of `stall`
  int64_t bytes = 0;    // DMA: bytes written
  double flops = 0;     // useful operations; a Tensor engine transpose has none
  uint32_t track = 0;
  uint32_t instruction = kNoIndex;  // isa::InstructionIndex in the core's program
  uint32_t waited_for = kNoIndex;   // instruction that ended the stall
  uint32_t iteration = 0;           // of the innermost loop, from 0
  StringId name = kEmptyString;     // name given by the user; else empty
  StringId file = kEmptyString;     // the user's code; empty when unknown
  StringId function = kEmptyString;
  int32_t line = 0;
  isa::Opcode opcode = isa::Opcode::kDmaCopy;
  Stall stall = Stall::kNone;
  int64_t times = 1;  // how often it happened: more than once where iterations of a loop were not stepped
};

// A block of the critical path, latest first: who was on it and on what grounds.
struct CriticalSegment {
  double start_ns = 0;
  double end_ns = 0;
  Resource resource = Resource::kTensor;
  uint32_t instruction = kNoIndex;
  uint16_t core = 0;
  int64_t times = 1;  // as Event::times
};

// One iteration of a loop that was stepped, and how many like it followed that were not: they took the time
// from end_ns on, without events. Nothing of an iteration reaches into the next.
struct Iteration {
  double start_ns = 0;
  double end_ns = 0;
  int64_t skipped = 0;
  uint32_t loop = kNoIndex;  // instruction that begins the loop
  uint16_t core = 0;
  std::string skipped_text() const;  // "508 iterations like the one before, not drawn"
  double skipped_end_ns() const { return end_ns + static_cast<double>(skipped) * (end_ns - start_ns); }
};

struct Trace {
  std::string program;
  Generation generation = Generation::kV3;
  int cores = 1;
  StringTable strings;
  std::vector<Track> tracks;
  std::vector<Event> events;  // by track in start order, tracks interleaved in schedule order
  std::vector<CriticalSegment> critical_path;
  std::vector<Iteration> iterations;  // in the order of their ends, inner loops first
  Summary summary;
};

// Where the timing model puts events while it runs. Implement it to stream a trace to disk; use
// Recorder to keep it in memory.
class TraceSink {
 public:
  virtual ~TraceSink() = default;
  // Strings of events are interned here.
  virtual StringTable& strings() = 0;
  virtual uint32_t add_track(const Track& track) = 0;  // its number, which events name
  virtual void add_event(const Event& event) = 0;
  // Events of it were added before. Where iterations were skipped, each happened that many times more.
  virtual void add_iteration(const Iteration& iteration) = 0;
  // Called once, at the end.
  virtual void finish(const Summary& summary, std::vector<CriticalSegment> critical_path) = 0;
};

class Recorder final : public TraceSink {
 public:
  StringTable& strings() override { return trace_.strings; }
  uint32_t add_track(const Track& track) override {
    trace_.tracks.push_back(track);
    return static_cast<uint32_t>(trace_.tracks.size() - 1);
  }
  void add_event(const Event& event) override { trace_.events.push_back(event); }
  void add_iteration(const Iteration& iteration) override;
  void finish(const Summary& summary, std::vector<CriticalSegment> critical_path) override;

  const Trace& trace() const { return trace_; }
  Trace take() { return std::move(trace_); }

 private:
  Trace trace_;
};

}  // namespace opentrn::trace
