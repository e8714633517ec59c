#include "nki/ranks/processes.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "isa/file_bytes.h"
#include "mpi/world.h"

namespace opentrn::nki {

namespace {

constexpr const char* kNotes = "ended";
constexpr const char* kResults = "results";
constexpr const char* kLetter = "a letter of another process";

// How the launch ended in a process: the first byte of its results.
enum class Outcome : uint8_t { kDone, kFailed, kFailedByOthers };

std::vector<std::byte> letter_of(Outcome outcome, std::span<const std::byte> content) {
  std::vector<std::byte> letter(1 + content.size(), static_cast<std::byte>(outcome));
  std::ranges::copy(content, letter.begin() + 1);
  return letter;
}

using isa::file::Reader;
using isa::file::Writer;

template <typename List>
void write_lists(Writer& writer, const List& lists) {
  writer.number(lists.size());
  for (const auto& list : lists) writer.data(list);
}

void write_contribution(Writer& writer, const Contribution& mine) {
  write_lists(writer, mine.in);
  write_lists(writer, mine.in1);
  writer.number(mine.out.size());
  for (const auto& out : mine.out) writer.number(out.size());
  writer.data(std::as_bytes(std::span(mine.metadata)));
  write_lists(writer, mine.unwritten_in);
}

std::vector<std::vector<std::byte>> read_lists(Reader& reader) {
  std::vector<std::vector<std::byte>> lists(reader.count("tensors"));
  for (auto& list : lists) list = reader.data();
  return lists;
}

void read_contribution(Reader& reader, const Contribution& like, Arrived& arrived) {
  arrived.in = read_lists(reader);
  arrived.in1 = read_lists(reader);
  arrived.out.resize(reader.count("tensors"));
  for (auto& out : arrived.out) out.resize(reader.number());
  const std::vector<std::byte> metadata = reader.data();
  Contribution& made = arrived.contribution;
  made.metadata.resize(metadata.size() / sizeof(uint32_t));
  if (!metadata.empty()) std::memcpy(made.metadata.data(), metadata.data(), metadata.size());
  made.unwritten_in = read_lists(reader);
  made.call = like.call;
  made.receives.assign(like.receives.size(), false);
  made.in.assign(arrived.in.begin(), arrived.in.end());
  made.in1.assign(arrived.in1.begin(), arrived.in1.end());
  made.out.assign(arrived.out.begin(), arrived.out.end());
}

std::string place_text_of(const SourceLocation& where) {
  return where.known() ? fmt::format(" ({}:{})", where.file, where.line) : "";
}

}  // namespace

Processes::Processes(std::shared_ptr<mpi::Transport> transport, int ranks, const std::string& what)
    : transport_(std::move(transport)), division_(ranks, transport_->processes()) {
  mpi::agree(*transport_, division_, what);
  letters_.emplace(*transport_);
}

// The members, and how many collectives of these members there were before.
std::string Processes::key_of(const Ranks::Visit& visit) {
  std::vector<std::pair<int, int>> members;
  for (const Ranks::Place member : visit.members) members.emplace_back(member.rank, member.core);
  const std::lock_guard lock(mutex_);
  const int64_t before = met_[members]++;
  return fmt::format("collective {} of {}", before, members);
}

std::shared_ptr<void> Processes::exchange(const Ranks::Visit& visit,
                                          std::vector<Contribution*>& contributions) {
  auto arrived = std::make_shared<std::list<Arrived>>();
  std::set<int> others;
  Writer letter;
  letter.text(visit.what);
  letter.text(place_text_of(visit.where));
  for (size_t i = 0; i < visit.members.size(); ++i) {
    const int rank = visit.members[i].rank;
    if (is_here(rank))
      write_contribution(letter, *contributions[i]);
    else
      others.insert(division_.owner(rank));
  }
  if (others.empty()) return arrived;
  const std::string key = key_of(visit);
  const std::vector<std::byte> bytes = letter.take();
  for (const int other : others) letters_->send(other, key, bytes);
  for (const int other : others) {
    const mpi::Doing doing = [&] {
      return fmt::format("{} waits for {} in {}{}", division_.describe(transport_->process()),
                         division_.describe(other), visit.what, place_text_of(visit.where));
    };
    read_letter(other, letters_->receive(other, key, doing, [&] { return who_ended(visit, other); }), visit,
                contributions, *arrived);
  }
  return arrived;
}

void Processes::read_letter(int process, const std::vector<std::byte>& letter, const Ranks::Visit& visit,
                            std::vector<Contribution*>& contributions, std::list<Arrived>& arrived) {
  Reader reader(letter, kLetter);
  const std::string what = reader.text(), where = reader.text();
  if (what != visit.what)
    throw Fault(
        FaultKind::kProgram, "collectives.mismatch",
        fmt::format("{} and {} wait for each other at different collectives: {} is in {}{}; {} is in {}{}",
                    division_.describe(transport_->process()), division_.describe(process),
                    division_.describe(transport_->process()), visit.what, place_text_of(visit.where),
                    division_.describe(process), what, where),
        "every rank of a group must call the same collectives in the same order");
  const auto mine =
      std::ranges::find_if(contributions, [](const Contribution* one) { return one != nullptr; });
  OPENTRN_CHECK(mine != contributions.end(), "a collective without a rank of this process");
  for (size_t i = 0; i < visit.members.size(); ++i) {
    if (division_.owner(visit.members[i].rank) != process) continue;
    Arrived& one = arrived.emplace_back();
    read_contribution(reader, **mine, one);
    contributions[i] = &one.contribution;
  }
}

void Processes::read_notes() {
  for (int process = 0; process < count(); ++process) {
    if (process == transport_->process()) continue;
    while (const auto note = letters_->take(process, kNotes)) {
      Reader reader(*note, kLetter);
      const auto rank = static_cast<int>(reader.number()), core = static_cast<int>(reader.number());
      const std::lock_guard lock(mutex_);
      ended_[{rank, core}] = {reader.byte() != 0};
    }
  }
}

std::optional<Fault> Processes::who_ended(const Ranks::Visit& visit, int process) {
  read_notes();
  const std::lock_guard lock(mutex_);
  for (const Ranks::Place member : visit.members) {
    const auto found = ended_.find({member.rank, member.core});
    if (found == ended_.end() || division_.owner(member.rank) != process) continue;
    const std::string text =
        fmt::format("{} is in {}{}, and rank {} of {} {} without coming to it",
                    division_.describe(transport_->process()), visit.what, place_text_of(visit.where),
                    member.rank, division_.describe(process), found->second.failed ? "failed" : "returned");
    return Fault(FaultKind::kProgram, found->second.failed ? "collectives.peer" : "collectives.absent", text,
                 "every rank of a group must call the same collectives in the same order");
  }
  return std::nullopt;
}

void Processes::core_ended(Ranks::Place place, bool failed) {
  Writer note;
  note.number(static_cast<uint64_t>(place.rank));
  note.number(static_cast<uint64_t>(place.core));
  note.byte(failed);
  const std::vector<std::byte> bytes = note.take();
  for (int process = 0; process < count(); ++process)
    if (process != transport_->process()) letters_->send(process, kNotes, bytes);
}

std::vector<std::vector<std::byte>> Processes::hear_all() {
  std::vector<std::vector<std::byte>> all(static_cast<size_t>(count()));
  std::optional<std::string> failed;
  for (int process = 0; process < count(); ++process) {
    if (process == transport_->process()) continue;
    const mpi::Doing doing = [&] {
      return fmt::format("{} has ended its part of the launch and waits for {}",
                         division_.describe(transport_->process()), division_.describe(process));
    };
    std::vector<std::byte>& heard = all[static_cast<size_t>(process)];
    heard = letters_->receive(process, kResults, doing, [] { return std::optional<Fault>(); });
    OPENTRN_CHECK(!heard.empty(), "results without an outcome");
    const auto outcome = static_cast<Outcome>(heard.front());
    heard.erase(heard.begin());
    if (outcome == Outcome::kFailed && !failed)
      failed = fmt::format("{}: {}", division_.describe(process),
                           std::string_view(reinterpret_cast<const char*>(heard.data()), heard.size()));
  }
  if (failed)
    throw Fault(FaultKind::kProgram, "mpi.peer", fmt::format("the launch failed in {}", *failed),
                "see what that process says");
  return all;
}

std::vector<std::vector<std::byte>> Processes::finish(const std::vector<std::byte>& results) {
  const std::vector<std::byte> letter = letter_of(Outcome::kDone, results);
  is_over_ = true;
  for (int process = 0; process < count(); ++process)
    if (process != transport_->process()) letters_->send(process, kResults, letter, true);
  return hear_all();
}

void Processes::fail(const std::string& text, bool because_of_others) {
  if (is_over_) return;
  is_over_ = true;
  const std::vector<std::byte> letter = letter_of(
      because_of_others ? Outcome::kFailedByOthers : Outcome::kFailed, std::as_bytes(std::span(text)));
  for (int process = 0; process < count(); ++process)
    if (process != transport_->process()) letters_->send(process, kResults, letter, true);
  if (because_of_others) return static_cast<void>(hear_all());
  try {
    hear_all();  // so that nothing of this launch is left for the next one
  } catch (const Fault&) {
    // The own failure says more.
  }
}

namespace {

// MPI may be started once in a process, and its world lives until the process ends.
std::shared_ptr<mpi::World>& world_of_mpirun() {
  static std::shared_ptr<mpi::World> world;
  return world;
}

}  // namespace

bool is_one_of_several() { return mpi::is_one_of_several(); }

std::shared_ptr<Processes> processes_of_mpirun(int ranks, const std::string& what) {
  if (!mpi::is_one_of_several()) return nullptr;
  std::shared_ptr<mpi::World>& world = world_of_mpirun();
  if (!world) world = std::make_shared<mpi::World>();
  return std::make_shared<Processes>(world, ranks, what);
}

void end_processes_of_mpirun() {
  if (const auto world = std::move(world_of_mpirun())) world->finish();
}

}  // namespace opentrn::nki
