#include "cli/nccom_check.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <random>
#include <vector>

#include <unistd.h>

#include <fmt/format.h>

#include "base/fault.h"
#include "collectives/values.h"
#include "mpi/execute.h"
#include "mpi/world.h"
#include "numerics/convert.h"
#include "numerics/dtype.h"

namespace opentrn::cli::nccom {

namespace {

using collectives::RankBuffers;
using collectives::Request;

struct Memory {
  std::vector<std::byte> input, output, golden;
};

// `own`: the ranks whose outputs this process makes.
void refuse_more_than_memory(const collectives::Plan& plan, const std::vector<int>& own,
                             int processes_of_host) {
  const Request& request = plan.request;
  int64_t bytes = 0;
  for (int rank = 0; rank < request.ranks; ++rank) bytes += input_bytes(request, rank);
  for (const int rank : own) bytes += 2 * output_bytes(request, rank) + plan.scratch_bytes;
  bytes *= processes_of_host;
  const int64_t room = int64_t{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGE_SIZE) / 2;
  if (bytes > room)
    throw Fault(
        FaultKind::kCapacity, "nccom_test.memory",
        fmt::format(
            "--check of {} ranks needs {:.1f} GiB for their buffers; half of this machine's memory is "
            "{:.1f} GiB",
            request.ranks, std::ldexp(static_cast<double>(bytes), -30),
            std::ldexp(static_cast<double>(room), -30)),
        "a smaller --maxbytes, or no --check: time needs no buffers");
}

// Small whole numbers: their sums over all ranks are exact in most formats, so that a wrong rank shows.
void fill(std::vector<std::byte>& bytes, DType dtype, Fill how, std::mt19937_64& random) {
  const size_t count = bytes.size() / static_cast<size_t>(size_bytes(dtype));
  std::vector<float> values(count, 1.0F);
  constexpr int kLargest = 3;
  if (how == Fill::kRandom)
    for (float& value : values) value = static_cast<float>(random() % (kLargest + 1));
  numerics::store_f32(dtype, values.data(), bytes.data(), count);
}

// Of the types of nccom-test: a sum of `ranks` numbers to 3, rounded at each step.
double tolerance_of(DType dtype, int ranks) {
  switch (dtype) {
    case DType::kFloat32: return std::ldexp(ranks, -23);
    case DType::kFloat16: return std::ldexp(ranks, -10);
    case DType::kBFloat16: return std::ldexp(ranks, -7);
    case DType::kFloat8E4M3: return std::ldexp(ranks, -3);
    default: return 0;
  }
}

std::string difference(const Request& request, int rank, const Memory& memory) {
  const size_t count = memory.output.size() / static_cast<size_t>(size_bytes(request.dtype));
  std::vector<float> found(count), expected(count);
  numerics::load_f32(request.dtype, memory.output.data(), found.data(), count);
  numerics::load_f32(request.dtype, memory.golden.data(), expected.data(), count);
  const double tolerance =
      collectives::reduces(request.kind) ? tolerance_of(request.dtype, request.ranks) : 0.0;
  for (size_t i = 0; i < count; ++i) {
    const double off = std::abs(double{found[i]} - double{expected[i]});
    if (!(off <= tolerance * std::max(1.0, std::abs(double{expected[i]}))))
      return fmt::format("rank {} element {}: {} where {} is right", rank, i, found[i], expected[i]);
  }
  return "";
}

}  // namespace

std::string check_values(const collectives::Plan& plan, Fill how, uint64_t seed, const Processes* processes) {
  const Request& request = plan.request;
  std::vector<int> own(static_cast<size_t>(request.ranks));
  std::iota(own.begin(), own.end(), 0);
  if (processes) own = processes->division.ranks_of(processes->transport.process());
  refuse_more_than_memory(plan, own, processes ? mpi::processes_of_host() : 1);
  std::mt19937_64 random(seed);
  std::vector<Memory> ranks(static_cast<size_t>(request.ranks));
  std::vector<RankBuffers> computed, golden;
  for (int rank = 0; rank < request.ranks; ++rank) {
    Memory& memory = ranks[static_cast<size_t>(rank)];
    memory.input.resize(static_cast<size_t>(input_bytes(request, rank)));
    fill(memory.input, request.dtype, how, random);
    if (std::ranges::binary_search(own, rank)) {
      memory.output.resize(static_cast<size_t>(output_bytes(request, rank)));
      memory.golden = memory.output;
    }
    computed.push_back({memory.input, memory.output});
    golden.push_back({memory.input, memory.golden});
  }
  if (processes)
    mpi::execute(plan, computed, processes->division, processes->transport);
  else
    execute(plan, computed);
  reference(request, golden, own);
  for (const int rank : own)
    if (std::string text = difference(request, rank, ranks[static_cast<size_t>(rank)]); !text.empty())
      return text;
  return "";
}

}  // namespace opentrn::cli::nccom
