#include "collectives/testing/exhaustive_check.h"

#include <array>
#include <cstring>
#include <map>
#include <vector>

#include <fmt/format.h>

#include "collectives/arithmetic.h"
#include "collectives/testing/samples.h"

namespace opentrn::collectives {

namespace {

struct Access {
  int node;
  bool writes;
};

// Bytes of one (rank, buffer), with who touches each.
using Bytes = std::vector<std::vector<Access>>;

class Exhaustive {
 public:
  explicit Exhaustive(const Plan& plan) : plan_(plan) {
    for (size_t rank = 0; rank < plan.steps.size(); ++rank)
      for (size_t i = 0; i < plan.steps[rank].size(); ++i)
        nodes_.push_back({static_cast<int>(rank), static_cast<int>(i)});
  }

  std::string references() {
    const auto ranks = static_cast<size_t>(plan_.request.ranks);
    if (plan_.steps.size() != ranks) return "ranks";
    for (const auto& [rank, i] : nodes_) {
      const Step& step = at(rank, i);
      if (step.channel < 0 || step.channel >= plan_.channels || step.bytes < 0) return "channel or bytes";
      for (const StepRef& wait : plan_.waits(rank, step))
        if (wait.rank < 0 || static_cast<size_t>(wait.rank) >= ranks || wait.step < 0 ||
            static_cast<size_t>(wait.step) >= plan_.steps[static_cast<size_t>(wait.rank)].size())
          return "wait";
      const bool sums = step.reduces || !plan_.more_sources(rank, step).empty();
      const int element = size_bytes(plan_.request.dtype);
      if (sums && !opentrn::collectives::reduces(plan_.request.kind)) return "reduces";
      for (const auto& [place, writes] : places(rank, step)) {
        if (place.rank < 0 || static_cast<size_t>(place.rank) >= ranks) return "rank";
        if (place.slice.offset < 0 || place.slice.offset + step.bytes > size_of(place)) return "range";
        if (writes && place.slice.buffer == Buffer::kInput && step.bytes > 0) return "writes input";
        if (sums && (place.slice.offset % element != 0 || step.bytes % element != 0)) return "elements";
      }
    }
    return "";
  }

  // Closure of "ends before", or that there is a circle.
  std::string order() {
    const size_t count = nodes_.size();
    std::vector<std::vector<int>> before(count);
    std::map<std::pair<int, int>, int> last;  // (rank, channel)
    for (size_t node = 0; node < count; ++node) {
      const auto [rank, i] = nodes_[node];
      for (const StepRef& wait : plan_.waits(rank, at(rank, i)))
        before[node].push_back(number(wait.rank, wait.step));
      const auto key = std::pair(rank, at(rank, i).channel);
      if (const auto found = last.find(key); found != last.end()) before[node].push_back(found->second);
      last[key] = static_cast<int>(node);
    }
    reach_.assign(count, std::vector<bool>(count, false));
    // A node is placed once all before it are.
    std::vector<bool> placed(count, false);
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t node = 0; node < count; ++node) {
        if (placed[node]) continue;
        bool ready = true;
        for (const int other : before[node]) ready = ready && placed[static_cast<size_t>(other)];
        if (!ready) continue;
        for (const int other : before[node]) {
          const auto o = static_cast<size_t>(other);
          reach_[node][o] = true;
          for (size_t i = 0; i < count; ++i) reach_[node][i] = reach_[node][i] || reach_[o][i];
        }
        placed[node] = moved = true;
        order_.push_back(static_cast<int>(node));
      }
    }
    before_ = std::move(before);
    return order_.size() == count ? "" : "circle";
  }

  std::string races() {
    std::map<std::pair<int, Buffer>, Bytes> memory;
    for (size_t node = 0; node < nodes_.size(); ++node) {
      const auto [rank, i] = nodes_[node];
      const Step& step = at(rank, i);
      const auto all = places(rank, step);
      for (size_t place = 0; place < all.size(); ++place)
        for (size_t other = 0; other < place; ++other)
          if (overlaps_badly(all[other], all[place], step.bytes)) return "overlaps itself";
      for (const auto& [place, writes] : all) {
        Bytes& bytes = memory[{place.rank, place.slice.buffer}];
        bytes.resize(static_cast<size_t>(size_of(place)));
        for (int64_t byte = 0; byte < step.bytes; ++byte)
          bytes[static_cast<size_t>(place.slice.offset + byte)].push_back({static_cast<int>(node), writes});
      }
    }
    for (const auto& [key, bytes] : memory)
      for (const auto& touched : bytes)
        for (const Access& a : touched)
          for (const Access& b : touched)
            if (a.node < b.node && (a.writes || b.writes) &&
                !reach_[static_cast<size_t>(a.node)][static_cast<size_t>(b.node)] &&
                !reach_[static_cast<size_t>(b.node)][static_cast<size_t>(a.node)])
              return "race";
    return "";
  }

  // Runs once; "" when every output is as it should be for the inputs that `seed` draws.
  std::string values(uint64_t seed) {
    Buffers wanted = random_buffers(plan_.request, seed);
    reference(plan_.request, wanted.spans);
    std::string flaw;
    const auto found = run(wanted.inputs, order_, &flaw);
    if (!flaw.empty()) return flaw;
    return found == wanted.outputs ? "" : "result";
  }

  std::vector<int> random_order(SplitMix64& random) const {
    std::vector<int> waiting(nodes_.size()), ready, result;
    for (size_t node = 0; node < nodes_.size(); ++node) {
      waiting[node] = static_cast<int>(before_[node].size());
      if (waiting[node] == 0) ready.push_back(static_cast<int>(node));
    }
    while (!ready.empty()) {
      const size_t pick = random.below(static_cast<uint32_t>(ready.size()));
      const int node = ready[pick];
      ready.erase(ready.begin() + static_cast<std::ptrdiff_t>(pick));
      result.push_back(node);
      for (size_t later = 0; later < nodes_.size(); ++later)
        for (const int other : before_[later])
          if (other == node && --waiting[later] == 0) ready.push_back(static_cast<int>(later));
    }
    return result;
  }

  std::vector<std::vector<std::byte>> run(const std::vector<std::vector<std::byte>>& inputs,
                                          const std::vector<int>& order, std::string* flaw) const {
    // Buffers as 0xee where nothing has been written, and whether it has.
    std::vector<std::array<std::vector<std::byte>, 3>> memory;
    std::vector<std::array<std::vector<bool>, 3>> written;
    for (int rank = 0; rank < plan_.request.ranks; ++rank) {
      const auto output = static_cast<size_t>(output_bytes(plan_.request, rank));
      const auto scratch = static_cast<size_t>(plan_.scratch_bytes);
      const auto& input = inputs[static_cast<size_t>(rank)];
      memory.push_back({input, std::vector(output, std::byte{0xee}), std::vector(scratch, std::byte{0})});
      written.push_back(
          {std::vector(input.size(), true), std::vector(output, false), std::vector(scratch, false)});
    }
    for (const int node : order) {
      const auto [rank, i] = nodes_[static_cast<size_t>(node)];
      const Step& step = at(rank, i);
      if (step.bytes == 0) continue;
      std::vector<const std::byte*> sources;
      for (const auto& [place, writes] : places(rank, step)) {
        if (writes) continue;
        const auto buffer = static_cast<size_t>(place.slice.buffer);
        for (int64_t byte = 0; byte < step.bytes; ++byte)
          if (!written[static_cast<size_t>(place.rank)][buffer]
                      [static_cast<size_t>(place.slice.offset + byte)] &&
              flaw)
            *flaw = "unwritten";
        sources.push_back(memory[static_cast<size_t>(place.rank)][buffer].data() + place.slice.offset);
      }
      std::vector<std::byte> result(static_cast<size_t>(step.bytes));
      if (sources.size() == 1)
        std::memcpy(result.data(), sources[0], result.size());
      else
        reduce_elements(plan_.request.reduction, plan_.request.dtype, sources, result.data(), result.size());
      for (const auto& [place, writes] : places(rank, step)) {
        if (!writes) continue;
        const auto buffer = static_cast<size_t>(place.slice.buffer);
        std::memcpy(memory[static_cast<size_t>(place.rank)][buffer].data() + place.slice.offset,
                    result.data(), result.size());
        for (size_t byte = 0; byte < result.size(); ++byte)
          written[static_cast<size_t>(place.rank)][buffer][static_cast<size_t>(place.slice.offset) + byte] =
              true;
      }
    }
    std::vector<std::vector<std::byte>> outputs;
    for (auto& buffers : memory) outputs.push_back(std::move(buffers[1]));
    return outputs;
  }

 private:
  const Step& at(int rank, int i) const {
    return plan_.steps[static_cast<size_t>(rank)][static_cast<size_t>(i)];
  }
  int number(int rank, int step) const {
    int number = step;
    for (int before = 0; before < rank; ++before)
      number += static_cast<int>(plan_.steps[static_cast<size_t>(before)].size());
    return number;
  }
  int64_t size_of(const At& place) const {
    if (place.slice.buffer == Buffer::kInput) return input_bytes(plan_.request, place.rank);
    return place.slice.buffer == Buffer::kOutput ? output_bytes(plan_.request, place.rank)
                                                 : plan_.scratch_bytes;
  }
  struct Place {
    At at;
    bool writes;
  };
  // In the order in which sources are summed; targets last.
  std::vector<Place> places(int rank, const Step& step) const {
    std::vector<Place> all;
    if (step.reduces) all.push_back({{step.peer, step.to}, false});
    all.push_back({{rank, step.from}, false});
    for (const At& source : plan_.more_sources(rank, step)) all.push_back({source, false});
    all.push_back({{step.peer, step.to}, true});
    if (const At* second = plan_.second_target(rank, step)) all.push_back({*second, true});
    return all;
  }
  static bool overlaps_badly(const Place& a, const Place& b, int64_t bytes) {
    if (!a.writes && !b.writes) return false;
    if (a.at.rank != b.at.rank || a.at.slice.buffer != b.at.slice.buffer) return false;
    const int64_t distance = a.at.slice.offset - b.at.slice.offset;
    if (distance == 0 && !(a.writes && b.writes)) return false;
    return distance < bytes && -distance < bytes;
  }

  const Plan& plan_;
  std::vector<std::pair<int, int>> nodes_;
  std::vector<std::vector<int>> before_;
  std::vector<std::vector<bool>> reach_;  // [node][earlier]
  std::vector<int> order_;
};

}  // namespace

std::string exhaustive_check(const Plan& plan, uint64_t seed) {
  Exhaustive check(plan);
  if (std::string flaw = check.references(); !flaw.empty()) return flaw;
  if (std::string flaw = check.order(); !flaw.empty()) return flaw;
  if (std::string flaw = check.races(); !flaw.empty()) return flaw;
  // One byte that is wrong is right by chance once in 256 inputs.
  constexpr uint64_t kInputs = 8;
  for (uint64_t i = 0; i < kInputs; ++i)
    if (std::string flaw = check.values(seed + i); !flaw.empty()) return flaw;
  return "";
}

std::vector<std::vector<std::byte>> run_in_some_order(const Plan& plan,
                                                      const std::vector<std::vector<std::byte>>& inputs,
                                                      SplitMix64& random) {
  Exhaustive check(plan);
  check.order();
  return check.run(inputs, check.random_order(random), nullptr);
}

}  // namespace opentrn::collectives
