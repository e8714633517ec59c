#include "backend/synchronise.h"
#include "base/interrupt.h"
#include "base/large_pages.h"

#include <algorithm>
#include <array>
#include <bit>
#include <span>

namespace opentrn::backend {

namespace {

// By compute engine: how many of its instructions, in stream order, are known to be complete. A clock is read
// and written as a whole: a read of what was just written in part would wait for it.
struct alignas(32) Clock {
  static constexpr size_t kLanes = 8;
  std::array<int32_t, kLanes> complete;
};
static_assert(isa::kEngineCount <= Clock::kLanes);

Clock latest(const Clock& a, const Clock& b) {
  Clock result;
  for (size_t e = 0; e < Clock::kLanes; ++e)
    result.complete[e] = a.complete[e] > b.complete[e] ? a.complete[e] : b.complete[e];
  return result;
}
Clock with(const Clock& clock, size_t engine, int32_t complete) {
  Clock result;
  for (size_t e = 0; e < Clock::kLanes; ++e) result.complete[e] = e == engine ? complete : clock.complete[e];
  return result;
}

class Synchroniser {
 public:
  Synchroniser(const std::vector<EngineChoice>& choices, const Dependencies& dependencies,
               const std::vector<isa::InstructionIndex>& order,
               std::span<const isa::CollectiveCopies> collectives, isa::Executable& executable)
      : choices_(choices),
        dependencies_(dependencies),
        order_(order),
        collectives_(collectives),
        out_(executable),
        position_(order.size()),
        end_(order.size()),
        dma_known_by_(order.size(), 0) {
    stream_ids_.fill(-1);
  }

  void run() {
    out_.schedule.reserve(order_.size());
    for (uint32_t at = 0; at < order_.size(); ++at) {
      interrupt::poll();
      emit(order_[at], at);
    }
    for (const uint32_t to : semaphores_) out_.semaphore_count += static_cast<uint32_t>(std::popcount(to));
  }

 private:
  void emit(isa::InstructionIndex i, uint32_t at) {
    const EngineChoice& choice = choices_[i];
    const uint8_t stream = stream_of(choice);
    position_[i] = at;
    const auto waits = static_cast<uint32_t>(out_.waits.size());
    add_waits(i, stream);
    isa::ScheduledInstruction& entry = out_.schedule.emplace_back();
    entry.instruction = i;
    entry.stream = stream_id(stream, choice);
    entry.engine = choice.engine;
    entry.trigger = choice.trigger;
    entry.dge = choice.dge;
    entry.waits = waits;
    entry.wait_count = static_cast<uint32_t>(out_.waits.size()) - waits;
    end_[i] = is_dma_stream(stream) ? known_[stream] : with(known_[stream], stream, ++issued_[stream]);
  }

  // Latest producers first: what they waited for often covers the others.
  void add_waits(isa::InstructionIndex i, uint8_t stream) {
    std::span<const Dependency> producers = dependencies_.of(i);
    if (producers.size() > 1) producers = latest_first(producers);
    for (const Dependency& dependency : producers) {
      const uint32_t producer = dependency.producer;
      const uint8_t from = stream_of(choices_[producer]);
      if (!needed(dependency, from, stream)) continue;
      out_.waits.push_back(position_[producer]);
      if (from != stream) semaphores_[from] |= 1u << stream;
      known_[stream] = latest(known_[stream], end_[producer]);
      if (is_dma_stream(from)) {
        // Copies of one collective are one trigger: one that has started says nothing of the other's end.
        if (const int32_t own = collective_of(i); own >= 0 && own == collective_of(producer)) continue;
        dma_known_by_[producer] |= 1u << stream;
      }
    }
  }

  std::span<const Dependency> latest_first(std::span<const Dependency> producers) {
    producers_.assign(producers.begin(), producers.end());
    const auto position = [&](const Dependency& d) { return position_[d.producer]; };
    if (producers.size() > 2)
      std::ranges::sort(producers_, std::greater{}, position);
    else if (position(producers_[0]) < position(producers_[1]))
      std::swap(producers_[0], producers_[1]);
    return producers_;
  }

  bool needed(const Dependency& dependency, uint8_t from, uint8_t to) const {
    if (is_dma_stream(from)) return (dma_known_by_[dependency.producer] >> to & 1) == 0;
    if (from == to && !dependency.reads_result) return false;  // issued in this order
    return known_[to].complete[from] < end_[dependency.producer].complete[from];
  }

  int32_t collective_of(isa::InstructionIndex i) const {
    return collectives_.of(*out_.program, out_.program->instruction(i),
                           choices_[i].engine == isa::Engine::kDma);
  }

  uint16_t stream_id(uint8_t stream, const EngineChoice& choice) {
    int& id = stream_ids_[stream];
    if (id < 0) {
      id = static_cast<int>(out_.streams.size());
      out_.streams.push_back(
          {choice.engine, static_cast<uint16_t>(is_dma_stream(stream) ? choice.queue : 0)});
    }
    return static_cast<uint16_t>(id);
  }

  const std::vector<EngineChoice>& choices_;
  const Dependencies& dependencies_;
  const std::vector<isa::InstructionIndex>& order_;
  const isa::CollectiveFinder collectives_;
  isa::Executable& out_;
  LargeVector<uint32_t> position_;  // by instruction: index in the schedule
  LargeVector<Clock> end_;          // by instruction: what is complete when it is
  LargeVector<uint32_t> dma_known_by_;
  std::array<Clock, kStreamsMax> known_{};
  std::array<int32_t, kStreamsMax> issued_{};
  std::array<int, kStreamsMax> stream_ids_{};
  std::vector<Dependency> producers_;
  static_assert(kStreamsMax <= 32);
  std::array<uint32_t, kStreamsMax> semaphores_{};  // by stream: those that wait for it
};

}  // namespace

void synchronise(const std::vector<EngineChoice>& choices, const Dependencies& dependencies,
                 const std::vector<isa::InstructionIndex>& order,
                 std::span<const isa::CollectiveCopies> collectives, isa::Executable& executable) {
  Synchroniser(choices, dependencies, order, collectives, executable).run();
}

}  // namespace opentrn::backend
