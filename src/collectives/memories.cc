#include "collectives/memories.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "collectives/structure.h"

namespace opentrn::collectives {

namespace {

bool overlap(std::span<const std::byte> a, std::span<const std::byte> b) {
  const std::less<const std::byte*> before;
  return !a.empty() && !b.empty() && before(a.data(), b.data() + b.size()) &&
         before(b.data(), a.data() + a.size());
}

}  // namespace

Memories::Memories(const Plan& plan, std::span<const RankBuffers> buffers, std::span<const int> ranks)
    : plan_(plan), buffers_(buffers), ranks_(ranks.begin(), ranks.end()), bases_(plan.steps.size()) {
  for (const int rank : ranks_) prepare(rank);
}

void Memories::prepare(int rank) {
  auto& bases = bases_[static_cast<size_t>(rank)];
  bases[static_cast<size_t>(Buffer::kScratch)] = own(static_cast<size_t>(plan_.scratch_bytes));
  const RankBuffers& buffers = buffers_[static_cast<size_t>(rank)];
  const auto input = buffers.input.first(static_cast<size_t>(input_bytes(plan_.request, rank)));
  const auto output = buffers.output.first(static_cast<size_t>(output_bytes(plan_.request, rank)));
  if (plan_.in_place) return prepare_in_place(rank, input, output);
  // Steps of a plan that is not in place only read inputs.
  std::byte* from = const_cast<std::byte*>(input.data());
  if (is_in_an_output(input)) {
    from = own(input.size());
    std::ranges::copy(input, from);
  }
  bases[static_cast<size_t>(Buffer::kInput)] = from;
  bases[static_cast<size_t>(Buffer::kOutput)] = output.data();
}

void Memories::prepare_in_place(int rank, std::span<const std::byte> input,
                                std::span<const std::byte> output) {
  std::byte* both = own(std::max(input.size(), output.size()));
  const Memory place = memory_of(plan_, rank, {Buffer::kInput, 0});
  bases_[static_cast<size_t>(rank)][static_cast<size_t>(place.buffer)] = both;
  std::ranges::copy(input, both + place.offset);
}

bool Memories::is_in_an_output(std::span<const std::byte> input) const {
  return std::ranges::any_of(
      ranks_, [&](int rank) { return overlap(input, buffers_[static_cast<size_t>(rank)].output); });
}

std::byte* Memories::at(int rank, const Slice& slice) const {
  const Memory memory = memory_of(plan_, rank, slice);
  return bases_[static_cast<size_t>(rank)][static_cast<size_t>(memory.buffer)] + memory.offset;
}

void Memories::finish() const {
  if (!plan_.in_place) return;
  for (const int rank : ranks_)
    for (const Contribution& part : expected_output(plan_.request, rank))
      std::memcpy(buffers_[static_cast<size_t>(rank)].output.data() + part.offset,
                  at(rank, {Buffer::kOutput, part.offset}), static_cast<size_t>(part.bytes));
}

std::byte* Memories::own(size_t bytes) {
  owned_.push_back(std::make_unique<std::byte[]>(std::max<size_t>(bytes, 1)));
  return owned_.back().get();
}

}  // namespace opentrn::collectives
