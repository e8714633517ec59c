// How long the time of a collective over 100,352 chips takes to predict, and how much memory. Each case is a
// process of its own. `--all-units`: the first case with all units written out, which takes 2.3 GB.
// `--all-steps N`: then also the two hierarchies on N times 128 chips, step by step. Status 1 where what is
// the same job by another method has another time.
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "collectives/cluster.h"

namespace {

using namespace opentrn;
using namespace opentrn::collectives;

// Picoseconds; -1 where the case failed.
int64_t run(const char* what, const ClusterJob& job, Extent extent) {
  void* const memory =
      mmap(nullptr, sizeof(int64_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return -1;
  auto* const end_ps = static_cast<int64_t*>(memory);
  *end_ps = -1;
  std::fflush(stdout);
  const auto begin = std::chrono::steady_clock::now();
  const pid_t child = fork();
  if (child == 0) {
    const ClusterSummary out = cluster_summary(arch::default_tables(), job, extent);
    std::printf("%-44s %8d ranks %12lld steps %9lld simulated %16lld ps", what, out.ranks,
                static_cast<long long>(out.steps), static_cast<long long>(out.classes),
                static_cast<long long>(out.end_ps));
    std::fflush(stdout);
    *end_ps = out.end_ps;
    _exit(0);
  }
  int status = 0;
  rusage used{};
  wait4(child, &status, 0, &used);
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin;
  std::printf("  %7.2f s, %7.2f s CPU, %6ld MiB%s\n", wall.count(),
              static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                  static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6,
              used.ru_maxrss / 1024, status == 0 ? "" : "  FAILED");
  const int64_t found = *end_ps;
  munmap(memory, sizeof(int64_t));
  return found;
}

bool are_the_same(int64_t a, int64_t b) {
  const bool same = a >= 0 && a == b;
  std::printf("%s\n", same ? "  the same picoseconds" : "  NOT the same picoseconds");
  return same;
}

ClusterJob job_of(const char* machine, int units, int pod, int cores_per_rank) {
  ClusterJob job;
  job.machine = machine;
  job.units = units;
  job.cores_per_rank = cores_per_rank;
  job.cluster.pod_units = pod;
  job.cluster.rails = 16;
  job.cluster.oversubscription = 2;
  job.cluster.taken = {{fabric::LinkClass::kCore, 0.3, -1}};
  job.bytes = int64_t{1} << 30;
  return job;
}

}  // namespace

int main(int argc, char** argv) {
  ClusterJob light = job_of("trn2.48xlarge", 6272, 128, 8);
  light.within = "mesh";
  light.pipeline = 1;
  light.levels = "rdh:128,mesh:7,mesh:7";
  const int64_t one_unit = run("6272 instances, 1 rank a chip, meshes", light, Extent::kOneUnit);
  bool same = true;
  run("6272 instances, LNC 2, as AWS chooses", job_of("trn2.48xlarge", 6272, 128, 2), Extent::kOneUnit);
  run("6272 instances, LNC 1, as AWS chooses", job_of("trn2.48xlarge", 6272, 128, 1), Extent::kOneUnit);
  ClusterJob meshes = job_of("trn2.48xlarge", 6272, 128, 1);
  meshes.within = "mesh";
  run("6272 instances, LNC 1, meshes within", meshes, Extent::kOneUnit);
  meshes = job_of("Trn2 UltraServer", 1568, 32, 8);
  meshes.within = "mesh";
  meshes.levels = "rdh:32,mesh:7,mesh:7";
  run("1568 UltraServers, 1 rank a chip, meshes", meshes, Extent::kOneUnit);
  run("1568 UltraServers, 1 rank a chip", job_of("Trn2 UltraServer", 1568, 32, 8), Extent::kOneUnit);
  run("1568 UltraServers, LNC 2", job_of("Trn2 UltraServer", 1568, 32, 2), Extent::kOneUnit);
  run("1568 UltraServers, LNC 1", job_of("Trn2 UltraServer", 1568, 32, 1), Extent::kOneUnit);
  if (argc == 2 && std::strcmp(argv[1], "--all-units") == 0)
    same = are_the_same(one_unit, run("the first one, all units written out", light, Extent::kAllUnits));
  if (argc == 3 && std::strcmp(argv[1], "--all-steps") == 0) {
    const int pod = std::atoi(argv[2]);
    light.units = pod * 8;
    light.cluster.pod_units = pod;
    light.levels = "mesh:" + std::to_string(pod) + ",rdh:8";
    const int64_t one = run("one unit for all", light, Extent::kOneUnit),
                  folded = run("all units, folded", light, Extent::kAllUnits),
                  all = run("all steps", light, Extent::kAllSteps);
    same = are_the_same(one, folded) && are_the_same(one, all);
  }
  return same ? 0 : 1;
}
