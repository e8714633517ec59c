// When the parts of a program and its collectives run, where every device runs the same program (SPMD).
//
// A program of many devices is cut where they meet. What lies between is compiled for one core: a part. A
// collective runs on the CC-cores beside it, from the moment its operands are written until a part needs
// what it gives; meanwhile the core goes on with what does not need it. All devices have the same parts and
// take the same time for them, so the schedule of one is that of all.
//
// Assumed, as no public source says it:
//  - A part that reaches the first read of a value that is not there stops as a whole. On hardware only the
//    queues behind that read stop, so a part may end earlier than this.
//  - Collectives of a stream start in the order in which their operands are ready; of several that are ready,
//    the one that is needed first.
//  - Where part and collectives together ask for more than the memory of the core gives, collectives may have
//    a share of it and the part what they leave: rings are served packet by packet, and those of collectives
//    have larger packets (arch/dma_packets.h). So collectives that need more than that are slowed by the
//    part, and the part by them.
//  - Collectives of several streams share links and memory so too, each stream with its packets: what a
//    stream gets of a link that is full is in proportion to them, and no more than it can use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <variant>
#include <vector>

namespace opentrn::spmd {

// A value by the number that the caller gave it. One that no step writes is there from the beginning.
using ValueNumber = uint32_t;

// The first read or the last write of a value (or its last read), in a run of the part that waits for
// nothing.
struct Touch {
  ValueNumber value = 0;
  double at_ns = 0;  // from the start of the part
};

// What a core runs as one program.
struct Part {
  double ns = 0;
  double hbm_bytes = 0;  // read and written in all
  std::vector<Touch> reads, writes;
  std::vector<Touch> last_reads;  // until when it keeps what it reads; of others, to its end
};

// A moment of a part's own time: when it has come so far.
struct Moment {
  size_t step = 0;
  double at_ns = 0;
  friend auto operator<=>(const Moment&, const Moment&) = default;
};

struct Collective {
  double ns = 0;
  double hbm_bytes = 0;  // of this device's memory
  int stream = 0;        // those of one stream run one after the other
  std::vector<ValueNumber> reads, writes;
  // It is triggered then or later, if somebody needs it later still: a compiler puts triggers where it wants
  // them.
  std::optional<Moment> not_before = std::nullopt;
  // How busy it keeps each link of the machine, from 0 to 1, when it is alone; null: not known. One object
  // for all collectives that are alike.
  std::shared_ptr<const std::vector<float>> links = nullptr;
};

using Step = std::variant<Part, Collective>;

// Where a part stood when: its own time, which stops where it waits.
struct Knot {
  double part_ns = 0;
  double ns = 0;
};

struct StepTime {
  double start_ns = 0, end_ns = 0;
  std::vector<Knot> knots;  // of a part: straight between them
};

struct Schedule {
  std::vector<StepTime> steps;  // in the order given
  double end_ns = 0;
  double parts_ns = 0;        // of all parts, had they waited for nothing
  double collectives_ns = 0;  // at least one collective was under way
  double exposed_ns = 0;      // ... and no part went on
  double slowed_ns = 0;       // parts took longer for collectives beside them
  double held_up_ns = 0;      // collectives took longer for parts beside them
};

struct ScheduleOptions {
  double hbm_bytes_per_ns = 0;  // that the core has; 0: memory is not shared
  double of_collectives = 1;    // share of memory that a part and a collective both want: arch/dma_packets.h
  std::vector<double> of_stream = {};  // the same of streams that have another share, from stream 0 on
};

// Parts run in the order given; a step reads what steps before it write. The end is that of the last step.
Schedule schedule(std::span<const Step> steps, const ScheduleOptions& options = {});

// The first moment at which a part needs what a step writes, or what collectives make of it, by step; the
// number of steps where none does.
std::vector<Moment> first_needs(std::span<const Step> steps);

// The time at which a part has come to `part_ns` of its own time.
double time_of(const StepTime& part, double part_ns);

}  // namespace opentrn::spmd
