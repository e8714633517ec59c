// What the programs of a run cost on the device, added up: `opentrn profile -- COMMAND` and
// opentrn.profile_program().
//
// A run of a program is its launch and then the time of its instructions. Launches count in every total: how
// much of one the program before could hide is not public, and none is assumed to be hidden.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace opentrn::profile {

// One program of a run.
struct ProgramRuns {
  std::string name;
  bool is_op = false;  // an op of an eager program: no function of the user's
  std::string
      function;  // what it was compiled from; programs of one function for several shapes count together
  int64_t runs = 0;
  int64_t devices = 1;
  std::optional<double> device_us;  // of one run, without its launch; nullopt: the timing model cannot tell
  double launch_us = 0;             // before it
  double tensor_flops = 0;          // of one run
  double host_s = 0;                // of all runs, on this host
  // Of one run that used one of a logical core's two physical ones: if both shared it.
  std::optional<double> both_cores_us_min;

  double run_us() const { return device_us.value_or(0) + launch_us; }
  double total_us() const { return device_us ? run_us() * static_cast<double>(runs) : 0; }
};

struct ProgramTotals {
  int64_t runs = 0;
  double device_us = 0;           // of all runs that have a time, launches included
  double launch_us = 0;           // part of it
  std::optional<size_t> longest;  // index of the program that takes most
  // A step is a run of the function that takes most, with what runs at least as often: in a training loop the
  // forward and backward passes and the optimizer. What runs less often (an evaluation, an optimizer that
  // waits for several backward passes) is beside the steps, and device_us is steps * step_us + beside_us.
  // Where programs are ops, none is a step: the clocks of the cores say what one takes, or nothing does.
  std::string step;  // what one is
  int64_t steps = 0;
  std::optional<double> step_us;
  double beside_us = 0;
  std::optional<double> mfu;  // flops over the time of the cores' clocks, or over device_us, at the peak
  double host_gap_s = 0;      // of `host_s` seconds, without a program to run
  // Paid for: for as long as the clocks say; without clocks every device of the longest program, for as long
  // as all programs take.
  double core_hours = 0;
  // Launches included, of all programs, those that use both cores already with their time; 0 where all do.
  double both_cores_us_min = 0;
};

// A core's stream, where programs run on one: with what it waited for (collectives, other streams).
struct CoreClock {
  double stream_us = 0;
  int64_t steps = 0;    // between calls of an optimizer's step()
  double steps_us = 0;  // of all of them
};

// clocks: of the cores that have one, of all ranks. A step is then that of the slowest.
ProgramTotals add_up(const std::vector<ProgramRuns>& programs, double tensor_peak_tflops, double host_s,
                     const std::vector<CoreClock>& clocks = {});

// What several frameworks, or several ranks (each with "rank"), tell of one run. Rows of one program of
// several ranks become one; memory is that of the rank that has most, and "cores" all of theirs. usages: at
// least one.
nlohmann::ordered_json join_usages(std::vector<nlohmann::ordered_json> usages);

// `usage`: what the frameworks tell (src/pjrt/usage.h, python/opentrn/torch/usage.py), with "usd_h" by kind
// of rate. Gives it with the totals, each program with "run_us", "total_us" and "share", longest first, and
// "usd" by kind: the rate times the core hours, null where no rate is published.
nlohmann::ordered_json summarise_programs(nlohmann::ordered_json usage, double host_s);

}  // namespace opentrn::profile
