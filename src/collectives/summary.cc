#include "collectives/summary.h"

#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/fault.h"
#include "base/units.h"
#include "numerics/dtype.h"

namespace opentrn::collectives {

namespace {

std::string_view name_of(fabric::LinkClass kind) {
  switch (kind) {
    case fabric::LinkClass::kOnChip: return "on chip";
    case fabric::LinkClass::kNeuronLink: return "NeuronLink";
    case fabric::LinkClass::kUltraServer: return "UltraServer";
    case fabric::LinkClass::kPcie: return "PCIe";
    case fabric::LinkClass::kSwitch: return "NeuronSwitch";
    case fabric::LinkClass::kEfa: return "EFA";
    case fabric::LinkClass::kSpine: return "spine";
    case fabric::LinkClass::kCore: return "core";
    case fabric::LinkClass::kDmaRings: return "DMA rings";
    case fabric::LinkClass::kHbm: return "HBM";
  }
  return "?";
}

}  // namespace

void find_busiest(const fabric::Platform& platform, std::span<const int64_t> carried, int64_t end_ps,
                  Summary& summary) {
  const auto& links = platform.network().links;
  for (size_t i = 0; i < links.size(); ++i) {
    if (links[i].bytes_per_s == 0 || end_ps == 0) continue;
    const double share = static_cast<double>(carried[i]) / static_cast<double>(links[i].bytes_per_s) *
                         kPsPerS / static_cast<double>(end_ps);
    if (share <= summary.busiest_share) continue;
    summary.busiest_share = share;
    summary.busiest = name_of(links[i].kind);
  }
}

namespace {

// Scattered and gathered arrays divide by the ranks.
Request request_of(const SizedJob& job, int ranks) {
  if (!is_sized(job.kind))
    throw Fault(
        FaultKind::kInput, "collectives.kind", fmt::format("{} has no size by itself", name_of(job.kind)),
        "all_reduce, all_gather, reduce_scatter, all_to_all, broadcast or reduce; nccom-test has the others");
  const bool divides =
      job.kind == Kind::kAllGather || job.kind == Kind::kReduceScatter || job.kind == Kind::kAllToAll;
  const int64_t unit = int64_t{size_bytes(job.dtype)} * (divides ? ranks : 1);
  const int64_t bytes = (job.bytes + unit - 1) / unit * unit;
  return {.kind = job.kind,
          .ranks = ranks,
          .bytes = job.kind == Kind::kAllGather ? bytes / ranks : bytes,
          .dtype = job.dtype};
}

}  // namespace

double bus_factor(Kind kind, int ranks) {
  const double r = ranks;
  if (kind == Kind::kAllReduce) return 2 * (r - 1) / r;
  const bool is_whole = kind == Kind::kPermute || kind == Kind::kBroadcast || kind == Kind::kReduce;
  return is_whole ? 1.0 : (r - 1) / r;
}

std::vector<Job> jobs_of(const RankCores& ranks, const SizedJob& job) {
  const int all = static_cast<int>(ranks.size());
  const int group = job.group ? job.group : all;
  if (group < 1 || all % group != 0)
    throw Fault(FaultKind::kInput, "collectives.ranks",
                fmt::format("groups of {}: {} ranks do not divide by it", group, all),
                "a divisor of the number of ranks");
  std::vector<Job> jobs;
  for (int first = 0; first < all; first += group)
    jobs.push_back({request_of(job, group), RankCores(ranks.begin() + first, ranks.begin() + first + group),
                    job.algorithm, 0, 1});
  return jobs;
}

Summary summary_of(const fabric::Platform& platform, std::span<const Job> jobs,
                   const Predictions& predicted) {
  const Request& request = jobs[0].request;
  Summary summary;
  summary.bytes = request.bytes * (request.kind == Kind::kAllGather ? request.ranks : 1);
  summary.us = static_cast<double>(predicted.end_ps) / kPsPerUs;
  if (summary.us > 0)
    summary.algorithm_gb_s = static_cast<double>(summary.bytes) / (summary.us * kBytesPerUsOfGb);
  summary.bus_gb_s = summary.algorithm_gb_s * bus_factor(request.kind, request.ranks);
  summary.algorithm = predicted.jobs[0].algorithm;
  summary.why = predicted.jobs[0].why;
  find_busiest(platform, predicted.carried, predicted.end_ps, summary);
  return summary;
}

Summary summary_of(const arch::Tables& tables, const fabric::Platform& platform, const RankCores& ranks,
                   const SizedJob& job) {
  const std::vector<Job> jobs = jobs_of(ranks, job);
  return summary_of(platform, jobs, predict(tables, platform, jobs));
}

}  // namespace opentrn::collectives
