// Who waits for whom, across all groups: ranks that wait for each other in a circle never go on.
//
// Every process has a board in its shared memory. A thread that has waited for a while writes a row there:
// which ranks must come before it goes on. From its own row a waiting thread follows the boards of those
// ranks. Where all that could bring what is missing wait themselves, and nothing has changed for as long as
// the setting says, nobody can go on: the ranks of the circle all get the same error.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "torch/group/shared_memory.h"

namespace opentrn::torch_device {

// A rank, whichever groups it is in: a process, and its number in the world. Several of a process are
// threads.
struct RankOfWorld {
  ArenaAddress process;
  int64_t rank = 0;
};

// What must come before a wait ends: all of these ranks, or (a message from anybody) any of them.
struct Missing {
  std::vector<RankOfWorld> ranks;
  bool is_any = false;
};

// Seconds without any change after which ranks that wait for each other are an error; 0: never.
void set_deadlock_seconds(double seconds);
// Of the threads of this process that are not among `waiting` (pthread_self()), how many may still call a
// group.
using CountOthers = std::function<int(const std::vector<uint64_t>& waiting)>;
void set_count_of_others(CountOthers count);

// This thread calls groups as this rank of the world.
void note_rank_of_thread(int64_t rank);

// A wait of this thread, from the first look() on that comes a quarter of a second after it began.
class WaitOnBoard {
 public:
  // `doing`: "all_reduce (...), call 3 of group dp, at train.py:12". `is_told`: whether others learn of it; a
  // wait whose own limit the caller stated is not: he may go on after it.
  WaitOnBoard(int64_t rank, std::string doing, bool is_told);
  ~WaitOnBoard();
  WaitOnBoard(const WaitOnBoard&) = delete;
  WaitOnBoard& operator=(const WaitOnBoard&) = delete;

  // The text of the error where this thread can never go on, else "". Called every 50 ms or so.
  std::string look(const std::function<Missing()>& missing);

 private:
  struct Search;
  void publish(const Missing& missing, int64_t now_ns);
  void refresh(int64_t now_ns);

  int64_t rank_, began_ns_, next_look_ns_;
  std::string doing_;
  bool is_told_;
  int row_ = -1;  // of this process's board
  Missing last_;
};

}  // namespace opentrn::torch_device
