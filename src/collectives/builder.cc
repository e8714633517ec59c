#include "collectives/builder.h"

#include <algorithm>
#include <limits>

#include "base/fault.h"
#include "base/interrupt.h"

namespace opentrn::collectives {

namespace {

// Sources of one DMA that sums [doc: nki.isa.dma_compute takes at most 16].
constexpr size_t kSourcesMax = 16;
// Scratch grows while the plan is written; offsets in its interval map may be anywhere below this.
constexpr int64_t kScratchMax = int64_t{1} << 60;

// Channels of a rank are below 2^20, as ranks and units are.
int64_t key_of(int rank, int channel, int32_t unit) {
  return (((int64_t{unit} << 20) | rank) << 20) | channel;
}

}  // namespace

Builder::Builder(const Request& request, std::string algorithm) {
  plan_.request = request;
  plan_.algorithm = std::move(algorithm);
  const auto ranks = static_cast<size_t>(request.ranks);
  plan_.steps.resize(ranks);
  plan_.wait_pool.resize(ranks);
  plan_.place_pool.resize(ranks);
  channels_.resize(ranks);
  uses_.resize(ranks);
  wholes_.resize(ranks);
  step_toward_.resize(ranks);
  wait_toward_.resize(ranks);
  for (int rank = 0; rank < request.ranks; ++rank) {
    auto& buffers = uses_[static_cast<size_t>(rank)];
    buffers.emplace_back(input_bytes(request, rank));
    buffers.emplace_back(output_bytes(request, rank));
    buffers.emplace_back(kScratchMax);
  }
}

int64_t Builder::scratch(int64_t bytes) {
  const int64_t offset = plan_.scratch_bytes;
  plan_.scratch_bytes += bytes;
  return offset;
}

IntervalMap<Builder::Uses>& Builder::uses(const At& place) {
  return uses_[static_cast<size_t>(place.rank)][static_cast<size_t>(place.slice.buffer)];
}

void Builder::will_read(const At& place, int64_t bytes) {
  if (place.slice.buffer == Buffer::kInput) return;  // nothing writes it
  const int64_t begin = place.slice.offset, end = begin + bytes;
  const auto& wholes = wholes_[static_cast<size_t>(place.rank)];
  const auto newest = std::find_if(wholes.rbegin(), wholes.rend(), [&](const Whole& whole) {
    return whole.buffer == place.slice.buffer && whole.begin <= begin && end <= whole.end;
  });
  if (newest != wholes.rend())
    for (const User& writer : newest->writers) wait_for(writer, 0);
  else
    uses(place).look(begin, end, [&](int64_t, int64_t, const Uses& use) { wait_for(use.writer, 0); });
}

void Builder::will_write(const At& place, int64_t bytes, int32_t unit) {
  const int64_t begin = place.slice.offset;
  uses(place).look(begin, begin + bytes, [&](int64_t, int64_t, const Uses& use) {
    // Readers have waited for the writer themselves.
    if (use.readers.empty()) wait_for(use.writer, unit);
    use.readers.for_each([&](const User& reader) { wait_for(reader, unit); });
  });
}

void Builder::as_one(const At& place, int64_t bytes) {
  Whole whole{place.slice.buffer, place.slice.offset, place.slice.offset + bytes, {}};
  std::map<int64_t, User> newest;
  uses(place).look(whole.begin, whole.end, [&](int64_t, int64_t, const Uses& use) {
    const User& writer = use.writer;
    if (writer.step.rank < 0) return;
    User& kept = newest.try_emplace(key_of(writer.step.rank, channel_of(writer.step), writer.unit), writer)
                     .first->second;
    if (kept.step < writer.step) kept = writer;
  });
  for (const auto& [key, writer] : newest) whole.writers.push_back(writer);
  wholes_[static_cast<size_t>(place.rank)].push_back(std::move(whole));
}

void Builder::did_read(const At& place, int64_t bytes, StepRef step) {
  if (place.slice.buffer == Buffer::kInput) return;
  const int64_t begin = place.slice.offset;
  uses(place).visit(begin, begin + bytes, [&](int64_t, int64_t, Uses& use) { use.readers.add({step, 0}); });
}

void Builder::did_write(const At& place, int64_t bytes, StepRef step, int32_t unit) {
  const int64_t begin = place.slice.offset;
  uses(place).assign(begin, begin + bytes, {{step, group_ ? group_->negated(unit) : 0}, {}});
}

// Of what the step found: without repetitions, without what its own channel did before, without what an
// earlier step of its channel has waited for, and of each other channel the newest step only.
void Builder::put_waits(int rank, int channel) {
  interrupt::poll();
  auto& own = channels_[static_cast<size_t>(rank)];
  if (own.size() <= static_cast<size_t>(channel)) own.resize(static_cast<size_t>(channel) + 1);
  auto& waited = own[static_cast<size_t>(channel)].waited;
  auto& pool = plan_.wait_pool[static_cast<size_t>(rank)];
  std::ranges::sort(waits_, std::greater<>());
  User last;
  for (const User& user : waits_) {
    if (user == last) continue;
    last = user;
    const StepRef& wait = user.step;
    const int other = channel_of(wait);
    if (wait.rank == rank && other == channel && user.unit == 0) continue;
    const auto [entry, is_new] = waited.try_emplace(key_of(wait.rank, other, user.unit), wait.step);
    if (!is_new && entry->second >= wait.step) continue;
    entry->second = wait.step;
    pool.push_back(wait);
    if (group_) wait_toward_[static_cast<size_t>(rank)].push_back(user.unit);
  }
  waits_.clear();
}

void Builder::add(int channel, const At& from, std::span<const At> more, const At& to, const At* also,
                  int64_t bytes, bool reduces) {
  const auto rank = static_cast<size_t>(from.rank);
  OPENTRN_CHECK(plan_.steps[rank].size() < std::numeric_limits<int32_t>::max(), "too many steps");
  will_read(from, bytes);
  for (const At& source : more) will_read(source, bytes);
  will_write(to, bytes, toward_);
  if (also) will_write(*also, bytes, toward_);

  Step step;
  step.reduces = reduces;
  step.has_second_target = also != nullptr;
  step.peer = to.rank;
  step.from = from.slice;
  step.to = to.slice;
  step.bytes = bytes;
  step.channel = channel;
  auto& waits = plan_.wait_pool[rank];
  auto& places = plan_.place_pool[rank];
  step.waits.begin = static_cast<uint32_t>(waits.size());
  put_waits(from.rank, channel);
  step.waits.count = static_cast<uint32_t>(waits.size()) - step.waits.begin;
  step.places.begin = static_cast<uint32_t>(places.size());
  places.insert(places.end(), more.begin(), more.end());
  if (also) places.push_back(*also);
  step.places.count = static_cast<uint32_t>(places.size()) - step.places.begin;
  const StepRef self{from.rank, static_cast<int32_t>(plan_.steps[rank].size())};
  plan_.steps[rank].push_back(step);
  plan_.channels = std::max(plan_.channels, channel + 1);
  if (group_) step_toward_[rank].push_back(toward_);

  did_read(from, bytes, self);
  for (const At& source : more) did_read(source, bytes, self);
  did_write(to, bytes, self, toward_);
  if (also) did_write(*also, bytes, self, toward_);
}

void Builder::copy(int channel, At from, At to, int64_t bytes) {
  if (bytes == 0 || (from == to && toward_ == 0)) return;
  add(channel, from, {}, to, nullptr, bytes, false);
}

void Builder::copy_twice(int channel, At from, At to, At also, int64_t bytes) {
  if (bytes == 0) return;
  add(channel, from, {}, to, &also, bytes, false);
}

void Builder::combine(int channel, std::span<const At> sources, At to, int64_t bytes) {
  if (bytes == 0) return;
  const size_t first = std::min(sources.size(), kSourcesMax);
  add(channel, sources[0], sources.subspan(1, first - 1), to, nullptr, bytes, false);
  // What `to` holds is a source of its own from here on.
  for (size_t i = first; i < sources.size();) {
    const size_t count = std::min(sources.size() - i, kSourcesMax - 1);
    OPENTRN_CHECK(sources[i].rank == sources[0].rank, "a sum goes on with a source of another rank");
    for (const At& source : sources.subspan(i, count))
      OPENTRN_CHECK(!(source == to), "a long sum overwrites one of its later sources");
    add(channel, sources[i], sources.subspan(i + 1, count - 1), to, nullptr, bytes, true);
    i += count;
  }
}

Plan Builder::take() && { return std::move(plan_); }

}  // namespace opentrn::collectives
