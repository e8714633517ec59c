// Run by tests/mpi under mpirun: every algorithm and operation on 8 ranks, divided over the processes,
// against the same plans in one process, bit for bit.
//
//   opentrn_mpi_values [RANKS]           prints "N plans on R ranks of P processes: same bits"; 1 otherwise
//   opentrn_mpi_values [RANKS] PROCESS   that process dies (SIGKILL) before the second plan
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include <fmt/format.h>

#include "base/fault.h"
#include "collectives/testing/cases.h"
#include "collectives/testing/samples.h"
#include "mpi/execute.h"
#include "mpi/world.h"

namespace opentrn::mpi {
namespace {

using collectives::Buffers;
using collectives::Case;
using collectives::Request;

int compare(World& world, int ranks, int dies) {
  const Division division(ranks, world.processes());
  int plans = 0, different = 0;
  collectives::for_each_case(ranks, false, [&](const Case& one) {
    Request request = sample_request(one.request.kind, ranks, DType::kBFloat16, 33);
    request.root = one.request.root;
    const collectives::Plan plan = one.algorithm.plan(request, one.layout);
    Buffers wanted = random_buffers(request, 11), found = random_buffers(request, 11);
    for (int rank = 0; rank < ranks; ++rank)
      if (division.owner(rank) != world.process()) found.spans[static_cast<size_t>(rank)] = {};
    if (plans == 1 && world.process() == dies) {
      std::this_thread::sleep_for(
          std::chrono::seconds(3));  // until the others wait for it, on a busy machine too
      std::raise(SIGKILL);
    }
    execute(plan, wanted.spans);
    execute(plan, found.spans, division, world);
    for (const int rank : division.ranks_of(world.process()))
      if (found.outputs[static_cast<size_t>(rank)] != wanted.outputs[static_cast<size_t>(rank)]) {
        ++different;
        fmt::print(stderr, "process {}, rank {}: other bits by {}\n", world.process(), rank, one.name);
      }
    ++plans;
  });
  if (world.process() == 0 && different == 0)
    fmt::print("{} plans on {} ranks of {} processes: same bits\n", plans, ranks, world.processes());
  return different == 0 ? 0 : 1;
}

int main_of(int argc, char** argv) {
  try {
    World world;
    const int code = compare(world, argc > 1 ? std::atoi(argv[1]) : 8, argc > 2 ? std::atoi(argv[2]) : -1);
    world.finish();
    return code;
  } catch (const Fault& fault) {
    fmt::print(stderr, "{}\n", fault.what());
    return 2;
  }
}

}  // namespace
}  // namespace opentrn::mpi

int main(int argc, char** argv) { return opentrn::mpi::main_of(argc, argv); }
