// Writes plans: an algorithm says its transfers in an order that is right one after the other, and the
// builder finds for each what it must wait for.
//
// A step waits for the last writers of what it reads, and for the last readers and writers of what it writes:
// so a staging slot that is used again waits for its former content to be read. What the order on a channel
// says already is left out. Every wait leads back in the order of calls, so waits have no circle as long as
// steps are issued in that order too, which they are.
#pragma once

#include <initializer_list>
#include <map>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "collectives/interval_map.h"
#include "collectives/plan.h"

namespace opentrn::collectives {

class Builder {
 public:
  Builder(const Request& request, std::string algorithm);

  // The same bytes at the same offset of every rank's scratch memory, nobody else's.
  int64_t scratch(int64_t bytes);

  // to = from. No step for 0 bytes, and none for a copy onto itself.
  void copy(int channel, At from, At to, int64_t bytes);
  // to = and also = from: one read, two writes.
  void copy_twice(int channel, At from, At to, At also, int64_t bytes);
  // to = sources[0] op sources[1] op ..., by the engines of the rank of sources[0]. More sources than a DMA
  // takes at once become several steps, each of which adds to `to`.
  void combine(int channel, std::span<const At> sources, At to, int64_t bytes);

  const Request& request() const { return plan_.request; }
  int element_bytes() const { return size_bytes(plan_.request.dtype); }
  Plan take() &&;

 private:
  // Who touched a range last: a writer, and those that have read what it wrote.
  struct Uses {
    StepRef writer{-1, -1};
    std::vector<StepRef> readers;
  };
  // What a later step of the same channel need not wait for again: [channel key] -> newest step waited for.
  struct Channel {
    std::unordered_map<int64_t, int32_t> waited;
  };

  IntervalMap<Uses>& uses(const At& place);
  void will_read(const At& place, int64_t bytes);
  void will_write(const At& place, int64_t bytes);
  void did_read(const At& place, int64_t bytes, StepRef step);
  void did_write(const At& place, int64_t bytes, StepRef step);
  void add(int channel, const At& from, std::span<const At> more, const At& to, const At* also, int64_t bytes,
           bool reduces);
  void put_waits(int rank, int channel);

  Plan plan_;
  std::vector<std::vector<IntervalMap<Uses>>> uses_;  // [rank][buffer]
  std::vector<std::vector<Channel>> channels_;        // [rank][channel]
  std::vector<StepRef> waits_;                        // of the step that is being written
};

}  // namespace opentrn::collectives
