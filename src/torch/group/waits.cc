#include "torch/group/waits.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <deque>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <sstream>

namespace opentrn::torch_device {

namespace {

constexpr int kRows = 256;    // threads of a process that wait at once; more of them are not seen
constexpr int kMissing = 32;  // ranks of a row: those of them that fit prove a circle, too
constexpr size_t kText = 640, kVerdict = 2560;
constexpr double kNsPerS = 1e9;
constexpr int64_t kBeforeTold = 250'000'000, kBetweenLooks = 500'000'000;  // ns
// A thread that waits nowhere may still bring what is missing (a checkpoint that it writes first): the others
// are given so many times as long.
constexpr int kWithOthers = 10;
constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

struct Row {
  std::atomic<uint64_t> version;  // odd: being written, 0: free
  std::atomic<uint64_t> judged;   // the version that `verdict` is for
  std::atomic<uint64_t> judging;
  uint64_t thread;
  int64_t rank;
  int64_t since_ns;                  // nothing has changed; the steady clock is that of the machine
  std::atomic<int64_t> patience_ns;  // for so long nothing may change; not a part of the version
  uint32_t is_any, is_whole;
  uint32_t count;
  RankOfWorld missing[kMissing];
  char doing[kText];
  char verdict[kVerdict];
};

struct Board {
  Row rows[kRows];
};

std::atomic<int64_t> the_patience_ns{int64_t{60} * 1'000'000'000};
CountOthers& count_of_others() {
  static auto* held = new CountOthers;
  return *held;
}

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

template <size_t kSize>
void put(char (&to)[kSize], const std::string& text) {
  const size_t size = std::min(text.size(), kSize - 1);
  std::memcpy(to, text.data(), size);
  to[size] = '\0';
}
template <size_t kSize>
std::string get(const char (&from)[kSize]) {
  return std::string(from, ::strnlen(from, kSize - 1));
}

// Which process's memory the board is in, made with it: the offset is the same in all of them.
Board& board_in(std::byte* arena) { return *reinterpret_cast<Board*>(arena + Arena::kBoard); }
Board& own_board() { return board_in(Arena::own().base()); }

std::mutex& rows_mutex() {
  static auto* mutex = new std::mutex;
  return *mutex;
}
// Waits of this process that have ended; under the mutex.
uint64_t the_ends = 0;

// ---- the ranks of this process

struct Threads {
  std::set<uint64_t> alive;
  int64_t last_end_ns = 0;
};

// Who calls groups as which rank.
struct Callers {
  std::mutex mutex;
  std::map<int64_t, Threads> of_rank;
};
Callers& callers() {
  static auto* held = new Callers;
  return *held;
}

// Of one thread; gone with it.
struct OwnRanks {
  std::set<int64_t> ranks;
  ~OwnRanks() {
    if (ranks.empty()) return;
    const std::lock_guard lock(callers().mutex);
    for (const int64_t rank : ranks) {
      Threads& threads = callers().of_rank[rank];
      threads.alive.erase(uint64_t{::pthread_self()});
      threads.last_end_ns = now_ns();
    }
  }
};

// Whether all threads that were a rank of this process have ended, and since when.
std::optional<int64_t> ended_since(int64_t rank) {
  const std::lock_guard lock(callers().mutex);
  if (callers().of_rank.size() < 2) return std::nullopt;  // any thread of the process may call
  const auto found = callers().of_rank.find(rank);
  if (found == callers().of_rank.end() || !found->second.alive.empty()) return std::nullopt;
  return found->second.last_end_ns;
}

// Threads of the rank that wait nowhere and may still call a group.
int others_of(int64_t rank) {
  std::vector<uint64_t> waiting;
  for (const Row& row : own_board().rows)
    if (row.version != 0 && row.rank == rank) waiting.push_back(row.thread);
  {
    const std::lock_guard lock(callers().mutex);
    if (callers().of_rank.size() > 1) {  // ranks are threads: those that have called as this one
      const std::set<uint64_t>& alive = callers().of_rank[rank].alive;
      return static_cast<int>(std::ranges::count_if(
          alive, [&](uint64_t thread) { return std::ranges::find(waiting, thread) == waiting.end(); }));
    }
  }
  return count_of_others() ? count_of_others()(waiting) : 1;
}

}  // namespace

void set_deadlock_seconds(double seconds) { the_patience_ns = static_cast<int64_t>(seconds * kNsPerS); }
void set_count_of_others(CountOthers count) { count_of_others() = std::move(count); }

int64_t Arena::board_bytes() { return sizeof(Board); }

void note_rank_of_thread(int64_t rank) {
  static thread_local OwnRanks own;
  if (!own.ranks.insert(rank).second) return;
  const std::lock_guard lock(callers().mutex);
  callers().of_rank[rank].alive.insert(uint64_t{::pthread_self()});
}

// ---- a row

WaitOnBoard::WaitOnBoard(int64_t rank, std::string doing, bool is_told)
    : rank_(rank), began_ns_(now_ns()), next_look_ns_(0), doing_(std::move(doing)), is_told_(is_told) {}

WaitOnBoard::~WaitOnBoard() {
  if (row_ < 0) return;
  const std::lock_guard lock(rows_mutex());
  own_board().rows[row_].version = 0;
  // This thread goes on, and may bring what others wait for: threads of the rank that still wait look again
  // who else there is.
  ++the_ends;
  for (Row& row : own_board().rows)
    if (row.version != 0 && row.rank == rank_) row.patience_ns = kNever;
}

namespace {

// Versions are never used twice, so that what was read of a row is of one wait.
uint64_t next_version() {
  static std::atomic<uint64_t> last{0};
  return last += 2;
}

}  // namespace

void WaitOnBoard::publish(const Missing& missing, int64_t now) {
  if (row_ < 0) {
    const std::lock_guard lock(rows_mutex());
    const auto& rows = own_board().rows;
    const auto free = std::ranges::find_if(rows, [](const Row& row) { return row.version == 0; });
    if (free == std::end(rows)) return;
    row_ = static_cast<int>(free - std::begin(rows));
    own_board().rows[row_].version = next_version() + 1;
  }
  Row& row = own_board().rows[row_];
  row.version = next_version() + 1;
  row.thread = uint64_t{::pthread_self()};
  row.rank = rank_;
  row.since_ns = now;
  row.patience_ns = kNever;
  row.is_any = missing.is_any ? 1 : 0;
  row.is_whole = missing.ranks.size() <= kMissing ? 1 : 0;
  row.count = static_cast<uint32_t>(std::min<size_t>(missing.ranks.size(), kMissing));
  std::copy_n(missing.ranks.begin(), row.count, row.missing);
  put(row.doing, doing_);
  row.version = row.version + 1;
  last_ = missing;
}

// How long others may hold this wait for one that might still end.
void WaitOnBoard::refresh(int64_t now) {
  Row& row = own_board().rows[row_];
  const int64_t patience = the_patience_ns;
  if (now - row.since_ns < patience) return;
  const auto ends = [] {
    const std::lock_guard lock(rows_mutex());
    return the_ends;
  };
  const uint64_t before = ends();
  const int64_t granted = others_of(rank_) == 0 ? patience : kWithOthers * patience;
  const std::lock_guard lock(rows_mutex());
  if (the_ends == before) row.patience_ns = granted;
}

// ---- the search

namespace {

struct Seen {
  uint64_t version = 0;
  Row* at = nullptr;
  int64_t pid = 0, rank = 0;
  bool is_old = false, is_any = false, is_whole = false;
  double seconds = 0;
  std::vector<RankOfWorld> missing;
  std::string doing;
};

using Key = std::pair<int64_t, int64_t>;  // process, rank
Key key_of(const RankOfWorld& rank) { return {rank.process.pid, rank.rank}; }

// `is_settled` becomes false where it is just being written, whosever it is.
std::optional<Seen> read(Row& row, int64_t pid, int64_t rank, int64_t now, bool& is_settled) {
  const uint64_t version = row.version;
  is_settled = is_settled && version % 2 == 0;
  if (version == 0 || version % 2 == 1 || row.rank != rank) return std::nullopt;
  Seen seen{.version = version, .at = &row, .pid = pid, .rank = rank};
  const int64_t since = row.since_ns, patience = row.patience_ns;
  seen.is_old = patience != kNever && now - since >= patience;
  seen.seconds = static_cast<double>(now - since) / kNsPerS;
  seen.is_any = row.is_any != 0;
  seen.is_whole = row.is_whole != 0;
  seen.missing.assign(row.missing, row.missing + std::min<uint32_t>(row.count, kMissing));
  seen.doing = get(row.doing);
  if (row.version == version) return seen;
  is_settled = false;
  return std::nullopt;
}

struct Node {
  std::vector<Seen> rows;
  bool has_ended = false, is_stuck = false;
};

}  // namespace

struct WaitOnBoard::Search {
  std::map<Key, Node> nodes;
  int64_t now = now_ns();

  Node node_of(const RankOfWorld& rank) const {
    Node node;
    std::byte* base = nullptr;
    try {
      base = Arena::of(rank.process);
    } catch (const std::exception&) {  // it has ended, which those that wait for it see themselves
      return node;
    }
    bool is_settled = true;
    for (Row& row : board_in(base).rows)
      if (auto seen = read(row, rank.process.pid, rank.rank, now, is_settled))
        node.rows.push_back(std::move(*seen));
    if (node.rows.empty() && rank.process.pid == Arena::own().address().pid) {
      const auto since = ended_since(rank.rank);
      node.has_ended = since && now - *since >= the_patience_ns;
    }
    node.is_stuck =
        node.has_ended || (is_settled && !node.rows.empty() && std::ranges::all_of(node.rows, &Seen::is_old));
    return node;
  }

  void gather(const std::vector<RankOfWorld>& first) {
    std::deque<RankOfWorld> left(first.begin(), first.end());
    while (!left.empty()) {
      const RankOfWorld rank = left.front();
      left.pop_front();
      const auto [at, is_new] = nodes.try_emplace(key_of(rank));
      if (!is_new) continue;
      at->second = node_of(rank);
      if (!at->second.is_stuck) continue;
      for (const Seen& row : at->second.rows) left.insert(left.end(), row.missing.begin(), row.missing.end());
    }
  }

  bool is_stuck(const Seen& row) const {
    const auto stuck = [&](const RankOfWorld& rank) { return nodes.at(key_of(rank)).is_stuck; };
    if (row.missing.empty()) return false;
    if (row.is_any) return row.is_whole && std::ranges::all_of(row.missing, stuck);
    return std::ranges::any_of(row.missing, stuck);
  }

  // The largest set of ranks none of which can go on: those are taken out that can, until nothing changes.
  void settle() {
    for (bool changes = true; changes;) {
      changes = false;
      for (auto& [key, node] : nodes) {
        if (!node.is_stuck || node.has_ended) continue;
        if (std::ranges::all_of(node.rows, [&](const Seen& row) { return is_stuck(row); })) continue;
        node.is_stuck = false;
        changes = true;
      }
    }
  }

  // From this wait on, each time to a rank that cannot go on, until one comes again or has ended.
  std::vector<std::pair<Seen, RankOfWorld>> chain(const Seen& own) const {
    std::vector<std::pair<Seen, RankOfWorld>> links;
    std::set<Key> met{{own.pid, own.rank}};
    Seen at = own;
    for (;;) {
      const auto next = std::ranges::find_if(
          at.missing, [&](const RankOfWorld& rank) { return nodes.at(key_of(rank)).is_stuck; });
      links.emplace_back(at, *next);
      const Node& node = nodes.at(key_of(*next));
      if (node.has_ended || !met.insert(key_of(*next)).second) return links;
      at = *std::ranges::find_if(node.rows, [&](const Seen& row) { return is_stuck(row); });
    }
  }
};

namespace {

using Links = std::vector<std::pair<Seen, RankOfWorld>>;

std::string text_of(const Seen& row, const RankOfWorld& next) {
  std::ostringstream out;
  out << "rank " << row.rank << " (process " << row.pid << ") waits for rank " << next.rank << " in "
      << row.doing;
  return out.str();
}

std::string text_of(const Links& links, bool ends) {
  constexpr size_t kNamed = 8;
  double seconds = links[0].first.seconds;
  for (const auto& [row, next] : links) seconds = std::min(seconds, row.seconds);
  std::ostringstream out;
  out << "process group neuron: "
      << (ends ? "a rank waits for one whose thread has ended" : "ranks wait for each other")
      << ", and nothing has changed for " << static_cast<int64_t>(seconds) << " s: ";
  for (size_t i = 0; i < std::min(links.size(), kNamed); ++i)
    out << (i == 0 ? "" : "; ") << text_of(links[i].first, links[i].second);
  if (links.size() > kNamed) out << "; and " << links.size() - kNamed << " more";
  out << ". All ranks make the calls of all their groups in one order; OPENTRN_DEADLOCK_SECONDS says after "
         "how "
         "long this is an error, 0 that it is none";
  return out.str();
}

void judge(const Seen& seen, const std::string& text) {
  Row& row = *seen.at;
  uint64_t before = row.judging;
  if (before == seen.version || !row.judging.compare_exchange_strong(before, seen.version)) return;
  put(row.verdict, text);
  row.judged = seen.version;
}

}  // namespace

std::string WaitOnBoard::look(const std::function<Missing()>& missing) {
  const int64_t now = now_ns();
  if (!is_told_ || the_patience_ns == 0 || now - began_ns_ < kBeforeTold) return "";
  if (row_ >= 0) {
    const Row& row = own_board().rows[row_];
    if (row.judged == row.version) return get(row.verdict);
  }
  if (now < next_look_ns_) return "";
  next_look_ns_ = now + kBetweenLooks;
  const Missing at_present = missing();
  const bool is_same = row_ >= 0 && std::ranges::equal(at_present.ranks, last_.ranks, {}, key_of, key_of);
  if (!is_same) publish(at_present, row_ < 0 ? began_ns_ : now);
  if (row_ < 0) return "";
  refresh(now);
  bool is_settled = true;
  const auto own = read(own_board().rows[row_], Arena::own().address().pid, rank_, now, is_settled);
  if (!own || !own->is_old) return "";
  Search search;
  search.gather(own->missing);
  search.settle();
  if (!search.is_stuck(*own)) return "";
  Links links = search.chain(*own);
  const bool ends = search.nodes.at(key_of(links.back().second)).has_ended;
  const auto first = ends ? links.begin() : std::ranges::find_if(links, [&](const auto& link) {
    return Key{link.first.pid, link.first.rank} == key_of(links.back().second);
  });
  std::string lead;  // from this wait to the circle, which it may be no part of
  for (auto link = links.begin(); link != first; ++link)
    lead += (lead.empty() ? " So " : "; ") + text_of(link->first, link->second);
  links.erase(links.begin(), first);
  const std::string text = text_of(links, ends);
  for (const auto& [row, next] : links) judge(row, text);
  return text + lead;
}

}  // namespace opentrn::torch_device
