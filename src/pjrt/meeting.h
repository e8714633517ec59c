// Where the devices of a program that several processes run get the values of each other.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/eval/evaluate.h"
#include "graph/literal.h"
#include "pjrt/processes.h"

namespace opentrn::pjrt {

// Of one call of a program.
class Meeting {
 public:
  // `process_of`: of each device of the program. `call`: the same text in all processes.
  Meeting(Processes& processes, std::vector<int> process_of, std::string call);

  bool is_own(size_t device) const { return process_of_[device] == processes_.own(); }
  size_t first_own() const { return first_own_; }
  // By device: those of other processes become what these have, of the types of the first own ones. All
  // processes call this in the same order.
  void complete(std::vector<std::vector<graph::Literal>>& values);
  void complete(std::vector<std::vector<graph::eval::RuntimeValue>>& values);

 private:
  Processes& processes_;
  std::vector<int> process_of_, with_;
  size_t first_own_ = 0;
  std::string call_;
  int64_t exchanges_ = 0;
};

}  // namespace opentrn::pjrt
