#include "sim/functional/shared_history.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace opentrn::sim {

namespace {

// What a core wrote to a unit in this epoch.
enum Wrote : uint8_t {
  kNothing,
  kOldValue,  // only what was there when the epoch began
  kOneValue,  // one other value
  kSeveral,
};

// The state of one unit, packed into a byte.
struct State {
  std::array<uint8_t, 2> wrote{};
  std::array<bool, 2> read{};
  // One core wrote: it had read the unit before and changed it, so the other may not write it.
  // Both wrote: their last values differ, and the one in memory is that of core `last`.
  bool special = false;
  uint8_t last = 0;

  static State unpack(uint8_t bits) {
    State state;
    state.wrote = {static_cast<uint8_t>(bits & 3), static_cast<uint8_t>(bits >> 2 & 3)};
    state.read = {(bits & 16) != 0, (bits & 32) != 0};
    state.special = bits & 64;
    state.last = bits >> 7;
    return state;
  }
  uint8_t pack() const {
    return static_cast<uint8_t>(wrote[0] | wrote[1] << 2 | read[0] << 4 | read[1] << 5 | special << 6 |
                                last << 7);
  }
  bool both_wrote() const { return wrote[0] != kNothing && wrote[1] != kNothing; }
  bool parted() const { return special && both_wrote(); }
};

// `special` of a unit that nobody wrote.
constexpr uint8_t kRace = 64;

uint8_t after_read(State state, int core) {
  const uint8_t theirs = state.wrote[1 - core];
  if (state.parted()) return kRace;
  if (state.wrote[core] == kNothing ? theirs >= kOneValue : theirs == kSeveral) return kRace;
  state.read[core] = true;
  return state.pack();
}

// Of a unit that is not parted; `same`: what is written was there.
uint8_t after_write(State state, int core, bool same) {
  const int other = 1 - core;
  const uint8_t theirs = state.wrote[other];
  uint8_t& own = state.wrote[core];
  if (state.special && own == kNothing) return kRace;
  if (!same && (state.read[other] || (state.read[core] && theirs != kNothing))) return kRace;
  if (own == kNothing)
    own = same && theirs < kOneValue ? kOldValue : kOneValue;
  else if (!same)
    own = kSeveral;
  if (!same && state.read[core]) state.special = true;
  if (!same && theirs != kNothing) {
    state.special = true;
    state.last = static_cast<uint8_t>(core);
  }
  return state.pack();
}

struct Tables {
  using Table = std::array<uint8_t, 256>;
  std::array<Table, 2> read;                  // [core]
  std::array<std::array<Table, 2>, 2> write;  // [core][same]
  std::array<bool, 256> parted;

  Tables() {
    for (int bits = 0; bits < 256; ++bits) {
      const State state = State::unpack(static_cast<uint8_t>(bits));
      parted[static_cast<size_t>(bits)] = state.parted();
      for (int core = 0; core < 2; ++core) {
        read[core][bits] = after_read(state, core);
        for (const bool same : {false, true}) write[core][same][bits] = after_write(state, core, same);
      }
    }
  }
};

const Tables kTables;

// Of a step that knows no values: it parts nothing, as what both wrote is no unwritten memory.
bool races(uint8_t next) { return next == kRace || kTables.parted[next]; }

template <typename Unit>
Unit load(const std::byte* at) {
  Unit value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

}  // namespace

SharedHistory::SharedHistory(int64_t bytes, int unit_bytes, std::shared_ptr<Epoch> epoch)
    : bytes_(bytes), epoch_(std::move(epoch)) {
  const bool whole =
      (unit_bytes == 1 || unit_bytes == 2 || unit_bytes == 4 || unit_bytes == 8) && bytes % unit_bytes == 0;
  unit_bytes_ = whole ? unit_bytes : 1;
}

// -- pages

SharedHistory::Page& SharedHistory::page(int64_t index) {
  if (pages_.empty())
    pages_.resize(static_cast<size_t>((bytes_ / unit_bytes_ + kPageUnits - 1) / kPageUnits));
  Page& page = pages_[static_cast<size_t>(index)];
  if (page.epoch != epoch_->number) {
    page = {};
    page.epoch = epoch_->number;
  }
  return page;
}

uint8_t SharedHistory::state_at(int64_t unit) const {
  if (pages_.empty()) return 0;
  const Page& page = pages_[static_cast<size_t>(unit / kPageUnits)];
  if (page.epoch != epoch_->number) return 0;
  return page.states ? page.states[static_cast<size_t>(unit % kPageUnits)] : page.state;
}

void SharedHistory::make_dense(Page& page) const {
  if (page.states) return;
  page.states = std::make_unique_for_overwrite<uint8_t[]>(kPageUnits);
  std::fill_n(page.states.get(), kPageUnits, page.state);
}

void SharedHistory::collapse(Page& page) const {
  const uint8_t* states = page.states.get();
  if (states == nullptr || page.parted > 0 || states[0] != states[kPageUnits - 1] ||
      std::memcmp(states, states + 1, kPageUnits - 1) != 0)
    return;
  page.state = states[0];
  page.states.reset();
  page.saved.reset();
}

// each(piece): the first racing unit of the page's piece, or -1.
template <typename Each>
int64_t SharedHistory::for_pieces(int64_t begin, int64_t bytes, Each&& each) {
  if ((begin | bytes) % unit_bytes_ != 0) split_units();
  const int64_t end = (begin + bytes) / unit_bytes_;
  for (int64_t unit = begin / unit_bytes_; unit < end;) {
    const int64_t index = unit / kPageUnits, first = unit % kPageUnits;
    const Piece piece{index, first, std::min(kPageUnits, first + end - unit)};
    const int64_t bad = each(piece);
    if (bad >= 0) return byte_of(index, bad);
    unit += piece.end - piece.begin;
  }
  return kNoRace;
}

// An access that moves a part of an element: from now on a unit is a byte.
void SharedHistory::split_units() {
  const int old_bytes = unit_bytes_;
  std::vector<Page> old = std::exchange(pages_, {});
  unit_bytes_ = 1;
  for (size_t p = 0; p < old.size(); ++p) {
    Page& from = old[p];
    if (from.epoch != epoch_->number) continue;
    make_dense(from);
    for (int64_t i = 0; i < kPageUnits * old_bytes; ++i) {
      const int64_t byte = static_cast<int64_t>(p) * kPageUnits * old_bytes + i;
      if (byte >= bytes_) break;
      Page& to = page(byte / kPageUnits);
      make_dense(to);
      const uint8_t state = from.states[static_cast<size_t>(i / old_bytes)];
      to.states[static_cast<size_t>(byte % kPageUnits)] = state;
      if (!kTables.parted[state]) continue;
      if (!to.saved) to.saved = std::make_unique_for_overwrite<std::byte[]>(kPageUnits);
      to.saved[static_cast<size_t>(byte % kPageUnits)] = from.saved[static_cast<size_t>(i)];
      ++to.parted;
    }
    epoch_->parted -= from.parted;
  }
  for (Page& each : pages_) {
    if (each.epoch == epoch_->number) epoch_->parted += each.parted;
    collapse(each);
  }
}

// -- accesses

int64_t SharedHistory::apply(const Piece& piece, const Table& next) {
  Page& at = page(piece.page);
  if (!at.states) {
    const uint8_t state = next[at.state];
    if (races(state)) return piece.begin;
    if (state == at.state) return kNoRace;
    if (piece.end - piece.begin == kPageUnits) {
      at.state = state;
      return kNoRace;
    }
    make_dense(at);
  }
  uint8_t* states = at.states.get();
  // Neighbours are mostly alike.
  const auto rest = static_cast<size_t>(piece.end - piece.begin - 1);
  if (std::memcmp(states + piece.begin, states + piece.begin + 1, rest) == 0) {
    const uint8_t state = next[states[piece.begin]];
    if (races(state)) return piece.begin;
    std::memset(states + piece.begin, state, rest + 1);
  } else {
    for (int64_t i = piece.begin; i < piece.end; ++i) {
      const uint8_t state = next[states[i]];
      if (races(state)) return i;
      states[i] = state;
    }
  }
  collapse(at);
  return kNoRace;
}

int64_t SharedHistory::read(int core, int64_t begin, int64_t bytes) {
  return for_pieces(begin, bytes, [&](const Piece& piece) {
    return apply(piece, kTables.read[static_cast<size_t>(core)]);
  });
}

int64_t SharedHistory::write(int core, int64_t begin, int64_t bytes, const std::byte* now,
                             const std::byte* before) {
  return for_pieces(begin, bytes, [&](const Piece& piece) {
    if (before == nullptr) return apply(piece, kTables.write[static_cast<size_t>(core)][false]);
    const int64_t skip = byte_of(piece.page, piece.begin) - begin;
    return apply_values(core, piece, now + skip, before + skip);
  });
}

int64_t SharedHistory::apply_values(int core, const Piece& piece, const std::byte* now,
                                    const std::byte* before) {
  const auto bytes = static_cast<size_t>((piece.end - piece.begin) * unit_bytes_);
  if (page(piece.page).parted == 0 && std::memcmp(now, before, bytes) == 0)
    return apply(piece, kTables.write[static_cast<size_t>(core)][true]);
  switch (unit_bytes_) {
    case 8: return apply_units<uint64_t>(core, piece, now, before);
    case 4: return apply_units<uint32_t>(core, piece, now, before);
    case 2: return apply_units<uint16_t>(core, piece, now, before);
    default: return apply_units<uint8_t>(core, piece, now, before);
  }
}

template <typename Unit>
int64_t SharedHistory::apply_units(int core, const Piece& piece, const std::byte* now,
                                   const std::byte* before) {
  Page& at = page(piece.page);
  make_dense(at);
  const auto& tables = kTables.write[static_cast<size_t>(core)];
  uint8_t* states = at.states.get();
  for (int64_t i = piece.begin; i < piece.end; ++i, now += sizeof(Unit), before += sizeof(Unit)) {
    const Unit is = load<Unit>(now), was = load<Unit>(before);
    if (kTables.parted[states[i]]) [[unlikely]] {
      write_parted(core, at, i, is, was);
      continue;
    }
    const uint8_t state = tables[is == was][states[i]];
    if (state == kRace) return i;
    states[i] = state;
    if (!kTables.parted[state]) continue;
    if (!at.saved)
      at.saved = std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(kPageUnits * unit_bytes_));
    std::memcpy(at.saved.get() + i * unit_bytes_, &was, sizeof was);
    ++at.parted;
    ++epoch_->parted;
  }
  collapse(at);
  return kNoRace;
}

// No core has read a parted unit.
template <typename Unit>
void SharedHistory::write_parted(int core, Page& page, int64_t unit, Unit now, Unit before) {
  State state = State::unpack(page.states[static_cast<size_t>(unit)]);
  std::byte* const saved = page.saved.get() + unit * unit_bytes_;
  const bool was_last = state.last == core;
  const Unit own = was_last ? before : load<Unit>(saved);
  const Unit theirs = was_last ? load<Unit>(saved) : before;
  if (now != own) state.wrote[static_cast<size_t>(core)] = kSeveral;
  state.last = static_cast<uint8_t>(core);
  std::memcpy(saved, &theirs, sizeof theirs);
  if (now == theirs) {
    state.special = false;
    state.last = 0;
    --page.parted;
    --epoch_->parted;
  }
  page.states[static_cast<size_t>(unit)] = state.pack();
}

// -- questions

bool SharedHistory::needs_values(int core, int64_t begin, int64_t bytes) const {
  const auto& tables = kTables.write[static_cast<size_t>(core)];
  const int64_t end = (begin + bytes - 1) / unit_bytes_ + 1;
  for (int64_t unit = begin / unit_bytes_; unit < end; ++unit) {
    const uint8_t state = state_at(unit);
    if (kTables.parted[state] || tables[false][state] != tables[true][state]) return true;
    if (pages_.empty()) return false;
    const Page& page = pages_[static_cast<size_t>(unit / kPageUnits)];
    if (page.epoch != epoch_->number || !page.states) unit |= kPageUnits - 1;  // the rest is alike
  }
  return false;
}

bool SharedHistory::has_read(int core, int64_t byte) const {
  return State::unpack(state_at(byte / unit_bytes_)).read[static_cast<size_t>(core)];
}

int64_t SharedHistory::parted() const {
  for (size_t p = 0; p < pages_.size(); ++p) {
    const Page& page = pages_[p];
    if (page.epoch != epoch_->number || page.parted == 0) continue;
    for (int64_t i = 0; i < kPageUnits; ++i)
      if (kTables.parted[page.states[static_cast<size_t>(i)]]) return byte_of(static_cast<int64_t>(p), i);
  }
  return kNoRace;
}

int64_t SharedHistory::memory_bytes() const {
  int64_t bytes = static_cast<int64_t>(pages_.size() * sizeof(Page));
  for (const Page& page : pages_)
    bytes += (page.states ? kPageUnits : 0) + (page.saved ? kPageUnits * unit_bytes_ : 0);
  return bytes;
}

}  // namespace opentrn::sim
