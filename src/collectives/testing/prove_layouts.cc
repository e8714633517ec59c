// opentrn_collectives_prove_layouts [SECONDS [MOST [LEAST [SEED [folded]]]]]: random layouts of LEAST (16) to
// MOST (4096) ranks, for SECONDS (60): the step of each folded, and every step of it written out and
// simulated. With `folded`, the first only: whether each can be said, and how long that takes. Status 1 when
// one differs or is refused.
//
// opentrn_collectives_prove_layouts all [MOST]: every layout of tensor, pipeline and data parallelism on 1,
// 2, 3, 4, 6, 8, 12 ... instances of up to MOST ranks.
#include <chrono>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>

#include "base/fault.h"
#include "collectives/testing/jobs.h"

namespace {

using namespace opentrn;
using namespace opentrn::collectives;

double processor_s() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

struct Counts {
  int tried = 0, same = 0, differ = 0, refused = 0, uneven = 0;
  double longest_s = 0;
  std::string longest;
};

void try_layout(const TrainingJob& job, bool folded_only, Counts& counts) {
  ++counts.tried;
  const std::string text = text_of(job);
  try {
    const double before = processor_s();
    const TrainingTime folded = training_time(arch::default_tables(), job, Extent::kOneUnit);
    const double took = processor_s() - before;
    counts.uneven += folded.units_written > 1;
    if (took > counts.longest_s) {
      counts.longest_s = took;
      counts.longest = fmt::format("{}: {} transfers of {} units, {} classes", text, folded.written,
                                   folded.units_written, folded.classes);
    }
    if (folded_only) return;
    const std::string what =
        difference(folded, training_time(arch::default_tables(), job, Extent::kAllSteps));
    ++(what.empty() ? counts.same : counts.differ);
    if (!what.empty()) fmt::print("DIFFERS {}: {}\n", text, what);
  } catch (const Fault& fault) {
    ++counts.refused;
    fmt::print("REFUSED {}: {}\n", text, fault.what());
  }
  std::fflush(stdout);
}

void print(const Counts& counts, int least, int most) {
  fmt::print("{} layouts of {} to {} ranks: {} same, {} differ, {} refused; {} lie unevenly\n", counts.tried,
             least, most, counts.same, counts.differ, counts.refused, counts.uneven);
  fmt::print("longest folded: {:.1f} s of processor time: {}\n", counts.longest_s, counts.longest);
}

int every_layout(int most) {
  Counts counts;
  for (const TrainingJob& job : every_job(most)) try_layout(job, false, counts);
  print(counts, 1, most);
  return counts.differ + counts.refused == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "all") == 0) return every_layout(argc > 2 ? std::atoi(argv[2]) : 4096);
  const auto number = [&](int at, int by_default) { return argc > at ? std::atoi(argv[at]) : by_default; };
  const int seconds = number(1, 60), most = number(2, 4096), least = number(3, 16);
  const bool folded_only = argc > 5 && std::strcmp(argv[5], "folded") == 0;
  SplitMix64 random(static_cast<uint64_t>(number(4, 1)));
  Counts counts;
  const auto begin = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - begin < std::chrono::seconds(seconds))
    try_layout(random_job(random, least, most), folded_only, counts);
  print(counts, least, most);
  return counts.differ + counts.refused == 0 ? 0 : 1;
}
