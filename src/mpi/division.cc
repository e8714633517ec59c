#include "mpi/division.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/fault.h"

namespace opentrn::mpi {

namespace {

constexpr uint64_t kTextBytesMax = 1 << 16;

std::vector<std::byte> bytes_of(const void* from, size_t bytes) {
  const auto* begin = static_cast<const std::byte*>(from);
  return {begin, begin + bytes};
}

void say(Transport& transport, const std::string& what) {
  const uint64_t size = what.size();
  for (int other = 0; other < transport.processes(); ++other) {
    if (other == transport.process()) continue;
    transport.send(other, bytes_of(&size, sizeof size));
    transport.send(other, bytes_of(what.data(), what.size()));
  }
}

// What that process says; false when it says nothing in time.
bool hear(Transport& transport, int from, Deadline deadline, const Doing& doing, std::string& text) {
  uint64_t size = 0;
  if (!transport.receive(from, std::as_writable_bytes(std::span(&size, 1)), deadline, doing)) return false;
  OPENTRN_CHECK(size <= kTextBytesMax, "process {} announces {} bytes of text", from, size);
  text.resize(size);
  return transport.receive(from, std::as_writable_bytes(std::span(text)), deadline, doing);
}

}  // namespace

Division::Division(int ranks, int processes) : processes_(processes) {
  if (processes > ranks)
    throw Fault(FaultKind::kInput, "mpi.processes",
                fmt::format("{} processes for {} rank{}", processes, ranks, ranks == 1 ? "" : "s"),
                fmt::format("mpirun -np {}, or more ranks", ranks));
  for (int process = 0; process < processes; ++process)
    owners_.insert(owners_.end(), static_cast<size_t>(ranks / processes + (process < ranks % processes)),
                   process);
  numbers_.resize(owners_.size());
  std::iota(numbers_.begin(), numbers_.end(), 0);
}

Division Division::of_group(std::span<const int> ranks) const {
  Division group;
  group.processes_ = processes_;
  for (const int rank : ranks) {
    group.owners_.push_back(owner(rank));
    group.numbers_.push_back(numbers_[static_cast<size_t>(rank)]);
  }
  return group;
}

std::vector<int> Division::ranks_of(int process) const {
  std::vector<int> ranks;
  for (int rank = 0; rank < this->ranks(); ++rank)
    if (owner(rank) == process) ranks.push_back(rank);
  return ranks;
}

std::string Division::describe(int process) const {
  std::vector<int> numbers;
  for (const int rank : ranks_of(process)) numbers.push_back(numbers_[static_cast<size_t>(rank)]);
  if (numbers.empty()) return fmt::format("process {} (no ranks)", process);
  if (numbers.size() == 1) return fmt::format("process {} (rank {})", process, numbers[0]);
  const bool is_run = std::ranges::is_sorted(numbers) &&
                      numbers.back() - numbers.front() == static_cast<int>(numbers.size()) - 1;
  return is_run ? fmt::format("process {} (ranks {} to {})", process, numbers.front(), numbers.back())
                : fmt::format("process {} (ranks {})", process, fmt::join(numbers, ", "));
}

void agree(Transport& transport, const Division& division, const std::string& what) {
  OPENTRN_CHECK(what.size() <= kTextBytesMax, "a text of {} bytes", what.size());
  say(transport, what);
  const Deadline deadline = std::chrono::steady_clock::now() + transport.timeout();
  std::vector<std::string> absent, other;
  for (int process = 0; process < transport.processes(); ++process) {
    if (process == transport.process()) continue;
    const Doing doing = [&] {
      return fmt::format("{} waits for {} at {}", division.describe(transport.process()),
                         division.describe(process), what);
    };
    std::string said;
    if (!hear(transport, process, deadline, doing, said))
      absent.push_back(division.describe(process));
    else if (said != what)
      other.push_back(fmt::format("{}: {}", division.describe(process), said));
  }
  const std::string own = division.describe(transport.process());
  if (!other.empty())
    throw Fault(FaultKind::kInput, "mpi.mismatch",
                fmt::format("processes do not do the same. {}: {}; {}", own, what, fmt::join(other, "; ")),
                "give all processes the same command, environment and files");
  if (!absent.empty())
    throw Fault(FaultKind::kInput, "mpi.absent",
                fmt::format("{} has waited {:g} s at {}; not there: {}", own,
                            std::chrono::duration<double>(transport.timeout()).count(), what,
                            fmt::join(absent, ", ")),
                "see what these processes do; OPENTRN_MPI_TIMEOUT_S=300 waits longer");
}

}  // namespace opentrn::mpi
