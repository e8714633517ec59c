#include "collectives/contents.h"

#include <fmt/format.h>

namespace opentrn::collectives {

namespace {

constexpr int kWordBits = 64;

std::vector<int> members(const std::vector<uint64_t>& bits) {
  std::vector<int> ranks;
  for (size_t i = 0; i < bits.size() * kWordBits; ++i)
    if (bits[i / kWordBits] >> (i % kWordBits) & 1) ranks.push_back(static_cast<int>(i));
  return ranks;
}

}  // namespace

ContentSets::ContentSets(const std::vector<int>& ranks_of_plans) : ranks_of_plans_(ranks_of_plans) {
  for (size_t plan = 0; plan < ranks_of_plans.size(); ++plan) {
    first_.push_back(static_cast<int32_t>(sets_.size()));
    const auto ranks = static_cast<size_t>(ranks_of_plans[plan]);
    for (size_t rank = 0; rank < ranks; ++rank) {
      Set set{static_cast<int32_t>(plan), std::vector<uint64_t>((ranks + kWordBits - 1) / kWordBits), {}};
      set.ranks[rank / kWordBits] = uint64_t{1} << (rank % kWordBits);
      keep(std::move(set));
    }
  }
}

int32_t ContentSets::keep(Set set) {
  const auto [entry, is_new] =
      by_ranks_.try_emplace({set.plan, set.ranks}, static_cast<int32_t>(sets_.size()));
  if (is_new) sets_.push_back(std::move(set));
  return entry->second;
}

Content ContentSets::flawed(std::string why, int plan, int64_t shift) {
  sets_.push_back({plan, {}, std::move(why)});
  return {static_cast<int32_t>(sets_.size()) - 1, shift};
}

int32_t ContentSets::all_of(int plan) {
  const auto ranks = static_cast<size_t>(ranks_of_plans_[static_cast<size_t>(plan)]);
  Set set{plan, std::vector<uint64_t>((ranks + kWordBits - 1) / kWordBits), {}};
  for (size_t rank = 0; rank < ranks; ++rank)
    set.ranks[rank / kWordBits] |= uint64_t{1} << (rank % kWordBits);
  return keep(std::move(set));
}

Content ContentSets::join(const Content& a, const Content& b, int plan, StepRef step) {
  if (a.set < 0) return b;
  if (b.set < 0) return a;
  const Set &left = sets_[static_cast<size_t>(a.set)], &right = sets_[static_cast<size_t>(b.set)];
  if (!left.flaw.empty()) return a;
  if (!right.flaw.empty()) return {b.set, a.shift};
  const auto where = [&] { return fmt::format("at rank {} step {}", step.rank, step.step); };
  if (left.plan != right.plan)
    return flawed(fmt::format("data of two plans, reduced {}", where()), plan, a.shift);
  if (a.shift != b.shift)
    return flawed(fmt::format("bytes of inputs that lie {} apart, reduced {}", b.shift - a.shift, where()),
                  plan, a.shift);
  const uint64_t key = uint64_t{static_cast<uint32_t>(a.set)} << 32 | static_cast<uint32_t>(b.set);
  if (const auto known = joined_.find(key); known != joined_.end()) return {known->second, a.shift};
  Set both = left;
  for (size_t i = 0; i < both.ranks.size(); ++i) {
    if (const uint64_t twice = both.ranks[i] & right.ranks[i]; twice != 0) {
      const int rank = members({twice})[0] + static_cast<int>(i) * kWordBits;
      return flawed(fmt::format("rank {}'s input twice, the second time {}", rank, where()), plan, a.shift);
    }
    both.ranks[i] |= right.ranks[i];
  }
  const int32_t set = keep(std::move(both));
  joined_.emplace(key, set);
  return {set, a.shift};
}

std::string ContentSets::describe(const Content& content, int64_t position) const {
  if (content.set < 0) return "nothing";
  const Set& set = sets_[static_cast<size_t>(content.set)];
  if (!set.flaw.empty()) return set.flaw;
  const std::vector<int> ranks = members(set.ranks);
  constexpr size_t kNamed = 8;
  std::string text = ranks.size() == 1 ? "rank" : "the reduction of ranks";
  for (size_t i = 0; i < std::min(ranks.size(), kNamed); ++i)
    text += fmt::format("{} {}", i ? "," : "", ranks[i]);
  if (ranks.size() > kNamed) text += fmt::format(", ... ({} ranks)", ranks.size());
  return text + fmt::format(" from byte {} of the input", position + content.shift);
}

}  // namespace opentrn::collectives
