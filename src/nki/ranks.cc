#include "nki/ranks.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "base/interrupt.h"

namespace opentrn::nki {

namespace {

constexpr const char* kSameSequence =
    "every rank of a group must call the same collectives in the same order";

std::string place_text(const SourceLocation& where) {
  return where.known() ? fmt::format(" ({}:{})", where.file, where.line) : "";
}

// "0-3, 5": ascending numbers.
std::string ranges(const std::vector<int>& numbers) {
  std::string text;
  for (size_t i = 0; i < numbers.size();) {
    size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", numbers[i]);
    if (end - i > 1) text += fmt::format("-{}", numbers[end - 1]);
    i = end;
  }
  return text;
}

}  // namespace

Ranks::Ranks(int ranks, int cores, RankLayout layout, std::shared_ptr<OtherRanks> others)
    : count_(ranks), cores_(cores), layout_(std::move(layout)), others_(std::move(others)) {
  if (ranks < 1) throw Fault(FaultKind::kInput, "launch.ranks", fmt::format("a launch of {} ranks", ranks));
  OPENTRN_CHECK(cores >= 1, "{} cores of a rank", cores);
  cores_of_all_.resize(static_cast<size_t>(ranks) * static_cast<size_t>(cores));
}

std::string Ranks::name_of(Place place) const {
  return cores_ == 1 ? fmt::format("rank {}", place.rank)
                     : fmt::format("rank {} core {}", place.rank, place.core);
}

std::string Ranks::describe(Place place) {
  const Core& core = at(place);
  switch (core.state) {
    case State::kRuns: return "running";
    case State::kWaits: return fmt::format("in {}{}", core.visit->what, place_text(core.visit->where));
    case State::kWaitsForCore: return core.text;
    case State::kReturned: return "returned";
    case State::kFailed: return "failed";
  }
  return "";
}

// Cores that say the same are one line: "ranks 0-62: in all_reduce ...".
std::string Ranks::describe_all() {
  std::map<std::string, std::vector<int>> ranks;
  std::vector<std::string> order;
  for (size_t i = 0; i < cores_of_all_.size(); ++i) {
    const Place place = place_of(i);
    if (!is_here(place.rank)) continue;
    const std::string text = describe(place) + (cores_ == 1 ? "" : fmt::format(" (core {})", place.core));
    if (!ranks.contains(text)) order.push_back(text);
    ranks[text].push_back(place.rank);
  }
  std::string all;
  for (const std::string& text : order)
    all += fmt::format("{}rank{} {}: {}", all.empty() ? "" : "; ", ranks[text].size() == 1 ? "" : "s",
                       ranges(ranks[text]), text);
  return all;
}

bool Ranks::is_here(int rank) const { return !others_ || others_->is_here(rank); }

bool Ranks::all_here(const Visit& visit) {
  return std::ranges::all_of(visit.members, [&](Place member) {
    if (!is_here(member.rank)) return true;
    const Core& core = at(member);
    return core.state == State::kWaits && core.visit->what == visit.what &&
           core.visit->members == visit.members;
  });
}

void Ranks::fail(std::string label, std::string message, std::string hint, bool told) {
  if (failure_) return;
  failure_.emplace(FaultKind::kProgram, std::move(label), std::move(message), std::move(hint));
  told_ = told;
  failed_.store(true, std::memory_order_release);
  changed_.notify_all();
}

void Ranks::throw_failure(const SourceLocation& where) {
  std::lock_guard lock(mutex_);
  OPENTRN_CHECK(failure_.has_value(), "no failure of the ranks");
  Fault fault = std::exchange(told_, true)
                    ? Fault(FaultKind::kProgram, "collectives.peer", "another rank ended the launch")
                    : *failure_;
  fault.set_location(where);
  throw fault;
}

void Ranks::check_member(Place place, const Visit& visit, Place member) {
  if (!is_here(member.rank)) return;
  const Core& other = at(member);
  if (other.state == State::kReturned || other.state == State::kFailed)
    return fail("collectives.absent",
                fmt::format("{} is {}, and {} {} without coming to it", name_of(place), describe(place),
                            name_of(member), describe(member)),
                kSameSequence, other.state == State::kFailed);
  if (other.state != State::kWaits || other.computing) return;
  const bool waits_for_us = std::ranges::find(other.visit->members, place) != other.visit->members.end();
  if (waits_for_us && (other.visit->what != visit.what || other.visit->members != visit.members))
    fail("collectives.mismatch",
         fmt::format("{} and {} wait for each other at different collectives: {} is {}; {} is {}",
                     name_of(place), name_of(member), name_of(place), describe(place), name_of(member),
                     describe(member)),
         kSameSequence, false);
}

void Ranks::check() {
  if (failure_) return;
  bool goes_on = false, waits = false;
  for (size_t i = 0; i < cores_of_all_.size() && !failure_; ++i) {
    if (!is_here(place_of(i).rank)) continue;
    const Core& core = cores_of_all_[i];
    goes_on = goes_on || core.state == State::kRuns || core.computing;
    waits = waits || core.state == State::kWaits || core.state == State::kWaitsForCore;
    if (core.state != State::kWaits || core.computing) continue;
    for (const Place member : core.visit->members) check_member(place_of(i), *core.visit, member);
  }
  if (!goes_on && waits && !failure_)
    fail("collectives.deadlock", fmt::format("no rank can go on: {}", describe_all()), kSameSequence, false);
}

// What this core brings lies on its stack: it may not leave while another one reads it.
void Ranks::wait_until_met(std::unique_lock<std::mutex>& lock, Core& self) {
  const auto over = [&] { return self.state == State::kRuns || (failure_ && !self.computing); };
  try {
    interrupt::wait(changed_, lock, over);
  } catch (const Interrupted&) {
    interrupt::wait_for_end(changed_, lock, [&] { return !self.computing; });
    self.state = State::kRuns;
    self.visit = nullptr;
    throw;
  }
}

void Ranks::meet(Place place, Visit visit,
                 const std::function<void(std::span<Contribution* const>)>& complete) {
  std::unique_lock lock(mutex_);
  Core& self = at(place);
  self.state = State::kWaits;
  self.visit = &visit;
  if (!failure_ && !all_here(visit)) {
    check();
    if (!failure_ || told_) wait_until_met(lock, self);
  } else if (!failure_) {
    std::vector<Contribution*> contributions;
    std::vector<Place> here;
    for (const Place member : visit.members) {
      contributions.push_back(is_here(member.rank) ? at(member).visit->contribution : nullptr);
      if (is_here(member.rank)) here.push_back(member);
    }
    for (const Place member : here) at(member).computing = true;
    lock.unlock();
    std::exception_ptr error;
    std::shared_ptr<void> arrived;
    try {
      if (others_) arrived = others_->exchange(visit, contributions);
      complete(contributions);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    for (const Place member : here) {
      at(member).computing = false;
      if (!error) at(member).state = State::kRuns;
    }
    if (error) fail("collectives.peer", "a collective could not be computed", "", true);
    changed_.notify_all();
    if (error) {
      self.state = State::kRuns;
      self.visit = nullptr;
      std::rethrow_exception(error);
    }
  }
  const bool met = self.state == State::kRuns;
  self.state = State::kRuns;
  self.visit = nullptr;
  lock.unlock();
  if (!met) throw_failure(visit.where);
}

void Ranks::waits_for_core(Place place, std::string text) {
  std::lock_guard lock(mutex_);
  at(place).state = State::kWaitsForCore;
  at(place).text = std::move(text);
  check();
}

void Ranks::goes_on(Place place) {
  std::lock_guard lock(mutex_);
  if (at(place).state == State::kWaitsForCore) at(place).state = State::kRuns;
}

void Ranks::core_ended(Place place, bool failed) {
  {
    std::lock_guard lock(mutex_);
    at(place).state = failed ? State::kFailed : State::kReturned;
    check();
  }
  if (others_) others_->core_ended(place, failed);
}

size_t Ranks::add_record(std::shared_ptr<const CollectiveRecord> record) {
  std::lock_guard lock(mutex_);
  records_.push_back(std::move(record));
  return records_.size() - 1;
}

std::vector<std::shared_ptr<const CollectiveRecord>> Ranks::records() const {
  std::lock_guard lock(mutex_);
  return records_;
}

}  // namespace opentrn::nki
