#include "torch/group/rendezvous.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <numeric>
#include <set>
#include <sstream>
#include <thread>

#include <c10/util/Exception.h>

namespace opentrn::torch_device {

namespace {

constexpr size_t kText = 512;
constexpr int kCells = 128;  // messages from one rank to another that lie unread
constexpr auto kTick = std::chrono::milliseconds(50);
// Calls of small programs follow each other closely: a look now and then is cheaper than a wait in the
// kernel.
constexpr int kLooks = 50;

void put(char (&to)[kText], const std::string& text) {
  const size_t size = std::min(text.size(), kText - 1);
  std::memcpy(to, text.data(), size);
  to[size] = '\0';
}
// The other side may be writing: the last byte is always 0.
std::string get(const char (&from)[kText]) { return std::string(from, ::strnlen(from, kText - 1)); }

}  // namespace

// ---- the table
// -----------------------------------------------------------------------------------------------

struct Rendezvous::Seat {
  std::atomic<uint64_t> posted;
  std::atomic<uint32_t> has_left;
  std::atomic<uint32_t> is_waiting;
  char doing[kText];  // what it waits for, in this group
};

struct Rendezvous::Entry {
  uint64_t input, output, splits;  // offsets in the rank's arena
  double arrival_ns, stretch;
  char what[kText], line[kText];
};

struct Rendezvous::Result {
  std::atomic<uint64_t> done;  // number of the call + 1
  std::atomic<uint32_t> arrived;
  std::atomic<uint32_t> computes;  // the rank that came last + 1, while it computes
  uint32_t has_failed;
  double end_ns;
  char error[4 * kText];
};

struct Rendezvous::Cell {
  enum State : uint32_t { kFree, kReady, kTaken };
  std::atomic<uint32_t> state;
  int32_t tag;
  uint64_t number;
  uint64_t offset;
  int64_t bytes;
  double arrival_ns;
  char dtype[16];
};

struct Rendezvous::Table {
  std::atomic<uint32_t> events;  // changes whenever somebody may go on: a futex
  double last_end_ns;            // calls of a group follow each other on the device
  Result results[kOutstanding];
  // Seats, entries and cells of all ranks follow.
};

namespace {

template <typename T>
T* array_at(void* base, size_t bytes) {
  return reinterpret_cast<T*>(static_cast<std::byte*>(base) + bytes);
}

}  // namespace

Rendezvous::Seat& Rendezvous::seat(int rank) const { return array_at<Seat>(table_, sizeof(Table))[rank]; }
Rendezvous::Entry& Rendezvous::entry(int rank, uint64_t call) const {
  const size_t before = sizeof(Table) + sizeof(Seat) * static_cast<size_t>(members_.size);
  return array_at<Entry>(table_, before)[static_cast<size_t>(rank) * kOutstanding + call % kOutstanding];
}
Rendezvous::Result& Rendezvous::result(uint64_t call) const { return table_->results[call % kOutstanding]; }
Rendezvous::Cell& Rendezvous::cell(int from, int to, int index) const {
  const auto size = static_cast<size_t>(members_.size);
  const size_t before = sizeof(Table) + (sizeof(Seat) + sizeof(Entry) * kOutstanding) * size;
  return array_at<Cell>(table_,
                        before)[(static_cast<size_t>(from) * size + static_cast<size_t>(to)) * kCells +
                                static_cast<size_t>(index)];
}

// ---- making and leaving
// ----------------------------------------------------------------------------------------

std::string Rendezvous::Introduction::text() const {
  std::ostringstream out;
  out << address.pid << ' ' << address.descriptor << ' ' << address.bytes << ' ' << core << ' ' << device
      << ' ' << table << ' ' << machine;
  return out.str();
}

Rendezvous::Introduction Rendezvous::Introduction::read(const std::string& text) {
  Introduction made;
  std::istringstream in(text);
  in >> made.address.pid >> made.address.descriptor >> made.address.bytes >> made.core >> made.device >>
      made.table >> made.machine;
  return made;
}

namespace {

std::string this_machine() {
  char host[256] = {};
  ::gethostname(host, sizeof host - 1);
  std::string boot(36, '\0');
  if (std::FILE* file = std::fopen("/proc/sys/kernel/random/boot_id", "r"); file != nullptr) {
    boot.resize(std::fread(boot.data(), 1, boot.size(), file));
    std::fclose(file);
  }
  return std::string(host) + "/" + boot;
}

// The groups of this process.
struct Living {
  std::mutex mutex;
  std::set<const Rendezvous*> groups;
};
Living& living() {
  static auto* held = new Living;
  return *held;
}

}  // namespace

Rendezvous::Rendezvous(Members members, int core, int device, runtime::CollectiveFunction compute,
                       const Exchange& exchange)
    : members_(std::move(members)), compute_(compute) {
  const auto size = static_cast<size_t>(members_.size);
  Arena& own = Arena::own();
  Introduction mine{own.address(), this_machine(), core, device, Arena::kNothing};
  if (members_.rank == 0) {
    const size_t bytes =
        sizeof(Table) + (sizeof(Seat) + sizeof(Entry) * kOutstanding + sizeof(Cell) * kCells * size) * size;
    table_offset_ = mine.table = own.allocate(static_cast<int64_t>(bytes));
    std::memset(own.base() + mine.table, 0, bytes);
  }
  introductions_ = exchange(mine);
  std::set<int> cores;
  for (int rank = 0; rank < members_.size; ++rank) {
    const Introduction& each = introductions_[static_cast<size_t>(rank)];
    TORCH_CHECK(
        each.machine == mine.machine, "process group neuron: ", name_of(rank), " is on ", each.machine,
        " and ", name_of(members_.rank), " on ", mine.machine,
        "; all ranks of a group run on one machine, which simulates the cores of several instances too");
    bases_.push_back(Arena::of(each.address));
    cores_.push_back(each.core);
    cores.insert(each.core);
  }
  shares_cores_ = cores.size() != size;
  if (shares_cores_) std::iota(cores_.begin(), cores_.end(), 0);
  table_ = reinterpret_cast<Table*>(bases_[0] + introductions_[0].table);
  sent_.assign(size, std::vector<uint64_t>(kCells, Arena::kNothing));
  const std::lock_guard lock(living().mutex);
  living().groups.insert(this);
}

Rendezvous::~Rendezvous() {
  {
    const std::lock_guard lock(living().mutex);
    living().groups.erase(this);
  }
  seat(members_.rank).has_left = 1;
  notify();
  // The table of rank 0 stays: another rank may still look at it.
}

std::string Rendezvous::name_of(int rank) const {
  const std::string own = "rank " + std::to_string(rank);
  const auto i = static_cast<size_t>(rank);
  if (i >= members_.ranks.size() || members_.ranks[i] == rank) return own;
  return own + " of the group (" + std::to_string(members_.ranks[i]) + " of all)";
}

RankOfWorld Rendezvous::of_world(int rank) const {
  const auto i = static_cast<size_t>(rank);
  return {introductions_[i].address, i < members_.ranks.size() ? members_.ranks[i] : rank};
}

std::optional<RankOfWorld> Rendezvous::known(int64_t own, int64_t other) {
  const std::lock_guard lock(living().mutex);
  for (const Rendezvous* group : living().groups) {
    if (group->of_world(group->members_.rank).rank != own) continue;
    for (int rank = 0; rank < group->members_.size; ++rank)
      if (const RankOfWorld found = group->of_world(rank); found.rank == other) return found;
  }
  return std::nullopt;
}

uint64_t Rendezvous::posted() const { return seat(members_.rank).posted; }

// ---- waiting
// ---------------------------------------------------------------------------------------------------

void Rendezvous::notify() const {
  table_->events.fetch_add(1);
  ::syscall(SYS_futex, &table_->events, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

bool Rendezvous::is_gone(int rank) const {
  if (seat(rank).has_left != 0) return true;
  return introductions_[static_cast<size_t>(rank)].address.has_ended();
}

struct Rendezvous::Wait {
  const std::string& doing;
  Deadline deadline;
  const std::function<void()>& idle;
  std::function<bool()> hopeless;
  std::function<Missing()> missing;
};

// Whether it is ready; not where the deadline has passed or there is no hope. Throws where no rank can go on.
template <typename Ready>
bool Rendezvous::wait_until(const Ready& ready, const Wait& wait) {
  for (int i = 0; i < kLooks; ++i) {
    if (ready()) return true;
    std::this_thread::yield();
  }
  Seat& own = seat(members_.rank);
  put(own.doing, wait.doing);
  own.is_waiting = 1;
  struct Done {
    Seat& seat;
    ~Done() { seat.is_waiting = 0; }
  } const done{own};
  WaitOnBoard on_board(of_world(members_.rank).rank, wait.doing, wait.deadline.is_of_group);
  for (;;) {
    const uint32_t seen = table_->events;
    if (ready()) return true;
    if (wait.hopeless()) return ready();
    if (std::chrono::steady_clock::now() >= wait.deadline.at) return false;
    const timespec tick{0, std::chrono::nanoseconds(kTick).count()};
    ::syscall(SYS_futex, &table_->events, FUTEX_WAIT, seen, &tick, nullptr, 0);
    wait.idle();
    if (const std::string error = on_board.look(wait.missing); !error.empty()) {
      if (ready()) return true;
      C10_THROW_ERROR(DistBackendError, error);
    }
  }
}

std::string Rendezvous::whereabouts(int rank, uint64_t call) const {
  const Seat& other = seat(rank);
  std::ostringstream out;
  out << name_of(rank) << " (process " << introductions_[static_cast<size_t>(rank)].address.pid
      << ", neuron:" << introductions_[static_cast<size_t>(rank)].device << ") ";
  const uint64_t calls = other.posted;
  if (other.has_left != 0) {
    out << "has left the group after call " << calls;
  } else if (is_gone(rank)) {
    out << "has ended after call " << calls;
  } else if (other.is_waiting != 0) {
    out << "waits in " << get(other.doing);
  } else {
    out << "is elsewhere, after call " << calls << " of this group";
    if (calls > 0 && calls + kOutstanding > call)
      out << ", " << get(entry(rank, calls - 1).what) << get(entry(rank, calls - 1).line);
  }
  return out.str();
}

std::string Rendezvous::told(uint64_t call, const std::string& what, double seconds) const {
  std::ostringstream out;
  out << "process group neuron " << members_.name << ": ";
  out << name_of(members_.rank) << " waits in " << what << ", call " << call + 1
      << get(entry(members_.rank, call).line);
  if (seconds > 0) out << ", for " << seconds << " s";
  bool is_first = true;
  for (int rank = 0; rank < members_.size; ++rank) {
    if (seat(rank).posted > call) continue;
    out << (is_first ? "; these have not come: " : "; ") << whereabouts(rank, call);
    is_first = false;
  }
  if (const uint32_t computes = result(call).computes; is_first && computes > 0)
    out << "; all have come, and the last of them computes it: "
        << whereabouts(static_cast<int>(computes) - 1, call);
  out << ". All ranks of a group make the same calls in the same order; the timeout is that of "
         "init_process_group or new_group";
  return out.str();
}

std::string Rendezvous::told_of_message(int from, const std::string& what, double seconds) const {
  std::ostringstream out;
  out << "process group neuron " << members_.name << ": " << name_of(members_.rank) << " waits in " << what
      << " for " << seconds << " s";
  for (int rank = 0; rank < members_.size; ++rank)
    if (from < 0 ? rank != members_.rank : rank == from) out << "; " << whereabouts(rank, 0);
  return out.str();
}

namespace {

double seconds_since(std::chrono::steady_clock::time_point began) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

// Says once, on stderr, that a wait is a long one, and for whom: torch's own limit is half an hour.
class LongWait {
 public:
  explicit LongWait(Deadline deadline) {
    constexpr auto kLong = std::chrono::seconds(60);
    constexpr int kPart = 10;  // of what the wait may take at most
    const auto now = std::chrono::steady_clock::now();
    at_ = now + std::min<std::chrono::steady_clock::duration>(kLong, (deadline.at - now) / kPart);
  }
  void look(const std::function<std::string()>& told) {
    if (is_said_ || std::chrono::steady_clock::now() < at_) return;
    is_said_ = true;
    std::fprintf(stderr, "opentrn: %s\n", told().c_str());
  }

 private:
  std::chrono::steady_clock::time_point at_;
  bool is_said_ = false;
};

}  // namespace

// ---- collectives
// -----------------------------------------------------------------------------------------------

uint64_t Rendezvous::post(const Post& post) {
  Seat& own = seat(members_.rank);
  const uint64_t call = own.posted;
  Entry& mine = entry(members_.rank, call);
  Arena& arena = Arena::own();
  mine.input = post.input;
  mine.output = post.output;
  mine.arrival_ns = post.arrival_ns;
  mine.stretch = post.stretch;
  put(mine.what, post.what);
  put(mine.line, post.line);
  mine.splits = Arena::kNothing;
  if (!post.sends.empty()) {
    const size_t count = post.sends.size() + post.receives.size();
    mine.splits = arena.allocate(static_cast<int64_t>(count * sizeof(int64_t)));
    auto* at = reinterpret_cast<int64_t*>(arena.base() + mine.splits);
    std::copy(post.receives.begin(), post.receives.end(),
              std::copy(post.sends.begin(), post.sends.end(), at));
  }
  const uint64_t splits = mine.splits;
  own.posted = call + 1;
  Result& row = result(call);
  if (row.arrived.fetch_add(1) + 1 == static_cast<uint32_t>(members_.size)) {
    row.computes = static_cast<uint32_t>(members_.rank) + 1;
    double end_ns = 0;
    std::string error;
    try {
      error = mismatch(call);
      if (error.empty()) error = compute_values(call, post, end_ns);
    } catch (const std::exception& fault) {  // the others wait for this one
      error = "process group neuron " + members_.name + ": " + post.what + ": " + fault.what();
    }
    row.has_failed = error.empty() ? 0 : 1;
    const size_t size = std::min(error.size(), sizeof row.error - 1);
    std::memcpy(row.error, error.data(), size);
    row.error[size] = '\0';
    row.end_ns = end_ns;
    row.arrived = 0;
    row.computes = 0;
    row.done = call + 1;
    notify();
  }
  splits_[call % kOutstanding] = splits;
  return call;
}

bool Rendezvous::is_done(uint64_t call) const { return result(call).done == call + 1; }

double Rendezvous::end_ns(uint64_t call) {
  Arena::own().release(std::exchange(splits_[call % kOutstanding], Arena::kNothing));
  const Result& row = result(call);
  if (row.has_failed != 0) C10_THROW_ERROR(DistBackendError, std::string(row.error));
  return row.end_ns;
}

void Rendezvous::wait(uint64_t call, const std::string& what, Deadline deadline,
                      const std::function<void()>& idle) {
  const auto began = std::chrono::steady_clock::now();
  const auto cannot_come = [&] {
    if (const uint32_t computes = result(call).computes; computes > 0)
      return !is_done(call) && is_gone(static_cast<int>(computes) - 1);
    if (result(call).arrived == static_cast<uint32_t>(members_.size)) return false;
    for (int rank = 0; rank < members_.size; ++rank)
      if (seat(rank).posted <= call && is_gone(rank)) return true;
    return false;
  };
  const auto missing = [&] {
    Missing found;
    for (int rank = 0; rank < members_.size; ++rank)
      if (seat(rank).posted <= call) found.ranks.push_back(of_world(rank));
    return found;
  };
  const std::string doing = what + ", call " + std::to_string(call + 1) + " of group " + members_.name +
                            get(entry(members_.rank, call).line);
  LongWait note(deadline);
  const auto idle_and_note = [&] {
    note.look([&] { return told(call, what, seconds_since(began)); });
    idle();
  };
  if (wait_until([&] { return is_done(call); }, {doing, deadline, idle_and_note, cannot_come, missing}))
    return;
  const bool timed_out = std::chrono::steady_clock::now() >= deadline.at;
  C10_THROW_ERROR(DistBackendError, told(call, what, timed_out ? seconds_since(began) : 0));
}

std::string Rendezvous::mismatch(uint64_t call) const {
  std::map<std::string, std::vector<int>> by_what;
  for (int rank = 0; rank < members_.size; ++rank) by_what[get(entry(rank, call).what)].push_back(rank);
  if (by_what.size() == 1) return "";
  std::ostringstream out;
  out << "process group neuron " << members_.name << ": ranks call different things as call " << call + 1
      << ":";
  for (const auto& [what, ranks] : by_what) {
    out << (what == by_what.begin()->first ? " " : "; ") << (ranks.size() == 1 ? "rank" : "ranks");
    for (const int rank : ranks) out << ' ' << rank;
    out << ": " << what;
    std::set<std::string> lines;
    for (const int rank : ranks) lines.insert(get(entry(rank, call).line));
    for (const std::string& line : lines) out << line;
  }
  out << ". All ranks of a group make the same calls in the same order";
  return out.str();
}

// Of the request; an error where a rank sends what the other does not expect.
std::string Rendezvous::read_counts(uint64_t call, const Post& post, std::vector<int64_t>& counts) const {
  const auto size = static_cast<size_t>(members_.size);
  const auto row = [&](size_t rank) {
    return reinterpret_cast<const int64_t*>(bases_[rank] + entry(static_cast<int>(rank), call).splits);
  };
  const size_t sends = post.sends.size();  // 1, or one for each rank: the same in all ranks
  for (size_t from = 0; from < size; ++from) counts.insert(counts.end(), row(from), row(from) + sends);
  for (size_t to = 0; to < size; ++to)
    for (size_t from = 0; from < size; ++from) {
      const int64_t sent = sends == 1 ? row(from)[0] : row(from)[to], expected = row(to)[sends + from];
      if (sent == expected || expected < 0) continue;
      std::ostringstream out;
      out << "process group neuron " << members_.name << ": in " << post.what << ", call " << call + 1 << ", "
          << name_of(static_cast<int>(from)) << " has " << sent << " bytes for "
          << name_of(static_cast<int>(to)) << ", which expects " << expected;
      return out.str();
    }
  return "";
}

std::string Rendezvous::compute_values(uint64_t call, const Post& post, double& end_ns) {
  const auto size = static_cast<size_t>(members_.size);
  double start_ns = table_->last_end_ns, stretch = 1;
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  for (int rank = 0; rank < members_.size; ++rank) {
    const Entry& each = entry(rank, call);
    start_ns = std::max(start_ns, each.arrival_ns);
    stretch = std::max(stretch, each.stretch);
    inputs.push_back(each.input == Arena::kNothing ? nullptr : base(rank) + each.input);
    outputs.push_back(each.output == Arena::kNothing ? nullptr : base(rank) + each.output);
  }
  table_->last_end_ns = end_ns = start_ns;
  std::vector<int64_t> counts;
  if (!post.sends.empty())
    if (std::string error = read_counts(call, post, counts); !error.empty()) return error;
  int64_t moved = post.bytes;
  for (const int64_t each : counts) moved += each;
  if (post.kind.empty() || moved == 0) return "";
  if (size == 1) {  // no plan has one rank
    std::memcpy(outputs[0], inputs[0], static_cast<size_t>(moved));
    return "";
  }
  runtime::CollectiveCall request{.kind = post.kind.c_str(),
                                  .dtype = post.dtype.c_str(),
                                  .reduction = post.reduction.c_str(),
                                  .ranks = members_.size,
                                  .root = post.root,
                                  .bytes = post.bytes,
                                  .counts = counts.data(),
                                  .count_of_counts = counts.size(),
                                  .cores = cores_.data()};
  double time_ns = 0;
  char error[2 * kText] = {};
  if (compute_(request, inputs.data(), outputs.data(), &time_ns, error, sizeof error) != 0)
    return "process group neuron " + members_.name + ": " + post.what + ": " + error;
  table_->last_end_ns = end_ns = start_ns + time_ns * stretch;
  return "";
}

// ---- messages
// --------------------------------------------------------------------------------------------------

void Rendezvous::send(int to, int tag, const Message& message, Deadline deadline,
                      const std::function<void()>& idle) {
  const int from = members_.rank;
  std::vector<uint64_t>& offsets = sent_[static_cast<size_t>(to)];
  int free_cell = -1;
  const auto look = [&] {
    for (int i = 0; i < kCells; ++i) {
      Cell& one = cell(from, to, i);
      if (one.state == Cell::kTaken) {
        Arena::own().release(std::exchange(offsets[static_cast<size_t>(i)], Arena::kNothing));
        one.state = Cell::kFree;
      }
      if (one.state == Cell::kFree) free_cell = i;
    }
    return free_cell >= 0;
  };
  const std::string doing = "send to " + name_of(to) + " in group " + members_.name + message.line;
  const auto is_missing = [&] { return Missing{{of_world(to)}, false}; };
  if (!wait_until(look, {doing, deadline, idle, [&] { return is_gone(to); }, is_missing}))
    C10_THROW_ERROR(DistBackendError, "process group neuron " + members_.name + ": " + name_of(from) +
                                          " has " + std::to_string(kCells) + " messages to " + name_of(to) +
                                          " that it has not received; " + whereabouts(to, 0));
  Cell& one = cell(from, to, free_cell);
  one.tag = tag;
  one.number = next_message_++;
  one.offset = message.offset;
  one.bytes = message.bytes;
  one.arrival_ns = message.arrival_ns;
  std::snprintf(one.dtype, sizeof one.dtype, "%s", message.dtype.c_str());
  offsets[static_cast<size_t>(free_cell)] = message.offset;
  one.state = Cell::kReady;
  notify();
}

std::optional<Rendezvous::Received> Rendezvous::find(int from, int tag) {
  for (int source = 0; source < members_.size; ++source) {
    if (from >= 0 && source != from) continue;
    Cell* first = nullptr;
    for (int i = 0; i < kCells; ++i) {
      Cell& one = cell(source, members_.rank, i);
      if (one.state == Cell::kReady && one.tag == tag && (first == nullptr || one.number < first->number))
        first = &one;
    }
    if (first == nullptr) continue;
    Received found;
    found.message = {first->offset, first->bytes, source, first->arrival_ns, first->dtype, {}};
    found.data = first->offset == Arena::kNothing ? nullptr : base(source) + first->offset;
    found.cell = first;
    return found;
  }
  return std::nullopt;
}

Rendezvous::Received Rendezvous::receive(int from, int tag, const std::string& what, Deadline deadline,
                                         const std::function<void()>& idle) {
  std::optional<Received> found;
  const auto began = std::chrono::steady_clock::now();
  const auto nobody_is_left = [&] {
    for (int rank = 0; rank < members_.size; ++rank)
      if ((from < 0 ? rank != members_.rank : rank == from) && !is_gone(rank)) return false;
    return true;
  };
  const std::string doing = what + " of group " + members_.name;
  LongWait note(deadline);
  const auto idle_and_note = [&] {
    note.look([&] { return told_of_message(from, what, seconds_since(began)); });
    idle();
  };
  const auto missing = [&] {
    Missing senders{{}, from < 0};
    for (int rank = 0; rank < members_.size; ++rank)
      if (from < 0 ? rank != members_.rank : rank == from) senders.ranks.push_back(of_world(rank));
    return senders;
  };
  if (wait_until([&] { return (found = find(from, tag)).has_value(); },
                 {doing, deadline, idle_and_note, nobody_is_left, missing}))
    return *found;
  C10_THROW_ERROR(DistBackendError, told_of_message(from, what, seconds_since(began)));
}

void Rendezvous::taken(const Received& received) {
  static_cast<Cell*>(received.cell)->state = Cell::kTaken;
  notify();
}

double Rendezvous::message_ns(int from, int to, int64_t bytes) const {
  if (bytes == 0 || from == to) return 0;
  const int pair[2] = {from, to};
  runtime::CollectiveCall request{.kind = "permute",
                                  .dtype = "uint8",
                                  .ranks = members_.size,
                                  .bytes = bytes,
                                  .pairs = pair,
                                  .count_of_pairs = 1,
                                  .cores = cores_.data()};
  double time_ns = 0;
  char error[2 * kText] = {};
  TORCH_CHECK(compute_(request, nullptr, nullptr, &time_ns, error, sizeof error) == 0, error);
  return time_ns;
}

}  // namespace opentrn::torch_device
