// Where the ranks of a group meet: a table in memory that all of them see.
//
// A call is posted, never blocking: the rank writes what it brings into its shared memory and a row of the
// table. Whoever posts last computes the call for all of them, so no thread and no message is needed. A rank
// that waits sees when the call is done, which ranks have not come, and what those wait for instead.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/collective_call.h"
#include "torch/group/shared_memory.h"
#include "torch/group/waits.h"

namespace opentrn::torch_device {

struct Deadline {
  std::chrono::steady_clock::time_point at;
  bool is_of_group = true;  // or the caller stated it for this wait
};

// One collective as one rank sees it. `what` is the same for all ranks, or it is a mismatch.
struct Post {
  std::string what;  // "all_reduce (SUM of float32, 16 elements)"
  std::string kind;  // CollectiveCall::kind; "": nothing to compute
  std::string dtype, reduction;
  int root = 0;
  int64_t bytes = 0;  // CollectiveCall::bytes
  // Of this rank, in its arena.
  uint64_t input = Arena::kNothing, output = Arena::kNothing;
  // all_to_all_v, all_gather_v: bytes to each rank (to all: one number) and from each.
  std::vector<int64_t> sends, receives;
  double arrival_ns = 0;  // simulated
  double stretch = 1;     // how much longer it takes than alone: of that of all ranks the largest
  std::string line;       // " at train.py:12", or nothing
};

// A message from one rank to another.
struct Message {
  uint64_t offset = Arena::kNothing;  // in the sender's arena
  int64_t bytes = 0;
  int source = 0;
  double arrival_ns = 0;
  std::string dtype, line;  // " at train.py:12"
};

// What a group is made of; `ranks` are those of the world, for messages.
struct Members {
  std::string name;
  int rank = 0, size = 1;
  std::vector<int64_t> ranks;
};

class Rendezvous {
 public:
  // What a rank tells the others when the group is made.
  struct Introduction {
    ArenaAddress address;
    std::string machine;
    int core = 0;
    int device = 0;
    uint64_t table = Arena::kNothing;  // of rank 0
    std::string text() const;
    static Introduction read(const std::string& text);
  };

  // `exchange` gives this rank's introduction to all and gives theirs back, in the order of ranks.
  using Exchange = std::function<std::vector<Introduction>(const Introduction&)>;
  Rendezvous(Members members, int core, int device, runtime::CollectiveFunction compute,
             const Exchange& exchange);
  ~Rendezvous();
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  // Calls that were posted and not yet seen to be done by wait() or poll() are at most so many.
  static constexpr uint64_t kOutstanding = 64;

  // The number of the call. The caller serialises its posts.
  uint64_t post(const Post& post);
  bool is_done(uint64_t call) const;
  // Simulated time at which a call that is done ended; throws the error that all its ranks get.
  double end_ns(uint64_t call);
  // Throws where a rank has not come by the deadline, or cannot come any more. `idle` is called every 50 ms.
  void wait(uint64_t call, const std::string& what, Deadline deadline, const std::function<void()>& idle);

  // Waits only where the receiver has left too many messages lying.
  void send(int to, int tag, const Message& message, Deadline deadline, const std::function<void()>& idle);
  // The next message with the tag; `from` -1: of any rank. Its memory is the sender's until taken() is
  // called.
  struct Received {
    Message message;
    const std::byte* data = nullptr;
    void* cell = nullptr;
  };
  std::optional<Received> find(int from, int tag);
  Received receive(int from, int tag, const std::string& what, Deadline deadline,
                   const std::function<void()>& idle);
  void taken(const Received& received);
  // The rank that this process knows as this one of the world, by a group that both are in; nothing before.
  static std::optional<RankOfWorld> known(int64_t own, int64_t other);
  // Predicted nanoseconds of a message.
  double message_ns(int from, int to, int64_t bytes) const;

  const Members& members() const { return members_; }
  // The first byte of a rank's arena, as this process sees it.
  std::byte* base(int rank) const { return bases_[static_cast<size_t>(rank)]; }
  uint64_t posted() const;
  // As the boards of all processes name it.
  RankOfWorld of_world(int rank) const;
  // "rank 3", with the number in the world where that is another.
  std::string name_of(int rank) const;
  // Whether ranks named the same core: they are placed by their numbers then.
  bool shares_cores() const { return shares_cores_; }
  // Of each rank.
  const std::vector<int>& cores() const { return cores_; }

 private:
  struct Table;
  struct Seat;
  struct Entry;
  struct Result;
  struct Cell;

  Seat& seat(int rank) const;
  Entry& entry(int rank, uint64_t call) const;
  Result& result(uint64_t call) const;
  Cell& cell(int from, int to, int index) const;
  // Each gives the text of an error, "" without one.
  std::string compute_values(uint64_t call, const Post& post, double& end_ns);
  std::string mismatch(uint64_t call) const;
  std::string read_counts(uint64_t call, const Post& post, std::vector<int64_t>& counts) const;
  bool is_gone(int rank) const;
  std::string whereabouts(int rank, uint64_t call) const;
  // Who waits for whom; `seconds`: 0 where it is not for its length that the wait is told.
  std::string told(uint64_t call, const std::string& what, double seconds) const;
  std::string told_of_message(int from, const std::string& what, double seconds) const;
  struct Wait;
  template <typename Ready>
  bool wait_until(const Ready& ready, const Wait& wait);
  void notify() const;

  Members members_;
  runtime::CollectiveFunction compute_;
  std::vector<Introduction> introductions_;
  std::vector<std::byte*> bases_;
  std::vector<int> cores_;
  bool shares_cores_ = false;
  uint64_t table_offset_ = Arena::kNothing;
  Table* table_ = nullptr;
  std::vector<std::vector<uint64_t>> sent_;  // offsets in the cells of each receiver, to be released
  std::vector<uint64_t> splits_ = std::vector<uint64_t>(kOutstanding, Arena::kNothing);
  uint64_t next_message_ = 1;
};

}  // namespace opentrn::torch_device
