// The steps of a micro-batch that collective_waits.cc schedules: parts, and what they wait for.
#pragma once

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "arch/dma_packets.h"
#include "arch/tables.h"
#include "arch/timing_table.h"
#include "planner/compiled/collective_waits.h"
#include "spmd/schedule.h"

namespace opentrn::planner::compiled {

using collectives::Kind;
using spmd::ValueNumber;

// Bytes of a rank's memory that a ring reads and writes: its own part it copies.
inline double moved_bytes(Kind kind, double bytes, double ranks) {
  constexpr double kPassedOn = 2, kSummed = 3;
  const double passes = kind == Kind::kAllReduce       ? kSummed + kPassedOn
                        : kind == Kind::kReduceScatter ? kSummed
                                                       : kPassedOn;
  return bytes * (passes * (ranks - 1) + 2) / ranks;
}

// Exchanges between the cores of a rank, which read the memory that what both bring lies in (decision 0171).
struct InsideRank {
  double meeting_s = 0;  // 0: a rank of one core
  double byte_s = 0;     // of a sum

  static InsideRank of(const Machine& machine) {
    if (machine.cores_per_rank <= 1) return {};
    constexpr double kHalvesReadAndWritten = 1.5;
    const arch::TimingTable& table = arch::timing(*machine.generation);
    const double share = std::min(1.0, 1 / table.constant("hbm_cores_per_stack"));
    return {table.constant("core_rendezvous_ns") * 1e-9,
            kHalvesReadAndWritten / (table.constant("hbm_sustained_gb_s") * share * 1e9)};
  }
  // Of what each then has a half, and of what both have whole.
  double scattered_s(double bytes) const { return meeting_s + byte_s * bytes; }
  double summed_s(double bytes) const { return 2 * meeting_s + byte_s * bytes; }
};

using Value = std::optional<ValueNumber>;  // none: there from the beginning

// `at`: when, as a share of the part's time.
struct Touch {
  Value value;
  double at = 0;
};
using Touches = std::vector<Touch>;

// Of a part that goes from `first` to `last` of another.
inline Touches within(Touches touches, double first, double last) {
  for (Touch& each : touches) each.at = first + each.at * (last - first);
  return touches;
}

inline Touches joined(Touches a, const Touches& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// The steps of a micro-batch, one after the other.
class Steps {
 public:
  Steps(const Machine& machine, CollectiveTimes& times) : machine_(machine), times_(times) {}

  void part(const PieceTime& time, const Touches& reads, const Touches& writes) {
    if (time.seconds <= 0 && writes.empty()) return;
    spmd::Part made;
    made.ns = time.seconds * 1e9;
    made.hbm_bytes = time.hbm_bytes;
    for (const Touch& each : reads)
      if (each.value) made.reads.push_back({*each.value, each.at * made.ns});
    for (const Touch& each : writes) made.writes.push_back({*each.value, each.at * made.ns});
    alone_ns_ += made.ns;
    steps_.emplace_back(std::move(made));
  }
  // A part whose result is there at its end.
  Value made_by(const PieceTime& time, const Touches& reads) {
    const Value value = fresh();
    part(time, reads, {{value, 1}});
    return value;
  }
  Value fresh() { return next_++; }

  // What comes of `read`. `before_s`: what the cores of a rank take to add up theirs first.
  Value collective(Kind kind, Group group, double bytes, Value read, double before_s = 0) {
    if (group.ranks <= 1 && before_s <= 0) return read;
    spmd::Collective made;
    made.ns = before_s * 1e9;
    if (group.ranks > 1) {
      made.ns += times_.seconds(machine_, kind, group, bytes) * 1e9;
      made.hbm_bytes = moved_bytes(kind, bytes, double(group.ranks)) / machine_.cores_per_rank;
    }
    if (read) made.reads.push_back(*read);
    const Value value = fresh();
    made.writes.push_back(*value);
    steps_.emplace_back(std::move(made));
    return value;
  }

  double wait_s() const {
    const arch::TimingTable& table = arch::timing(*machine_.generation);
    const double share = arch::dma_packets(arch::default_tables()).of_collectives();
    return (spmd::schedule(
                steps_, {.hbm_bytes_per_ns = table.constant("hbm_bandwidth_gb_s"), .of_collectives = share})
                .end_ns -
            alone_ns_) *
           1e-9;
  }

 private:
  const Machine& machine_;
  CollectiveTimes& times_;
  ValueNumber next_ = 0;
  double alone_ns_ = 0;
  std::vector<spmd::Step> steps_;
};

}  // namespace opentrn::planner::compiled
