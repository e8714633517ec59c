// The check.* and interpreter.* calls by which StableHLO's test files say what they expect
// (stablehlo/tests/CheckOps.td, stablehlo/reference/InterpreterOps.td), as custom calls of the evaluator.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/eval/evaluate.h"

namespace opentrn::graph::eval {

// What differs first, as a sentence; nullopt when nothing does. Both must have one type.
// Equal values (NaN equals NaN, -0 equals +0).
std::optional<std::string> find_unequal(const Literal& actual, const Literal& expected);
// Float or complex parts at most `tolerance` apart; infinities must match, NaN matches NaN.
std::optional<std::string> find_farther(const Literal& actual, const Literal& expected, double tolerance);
// Float or complex parts between the given numbers of representable values apart.
std::optional<std::string> find_ulps_apart(const Literal& actual, const Literal& expected, uint64_t ulps_min,
                                           uint64_t ulps_max);

// As find_farther, the tolerance in units of the largest finite magnitude expected: for results of
// algorithms whose errors do not scale with each element, such as an FFT.
std::optional<std::string> find_far_in_norm(const Literal& actual, const Literal& expected, double tolerance);

// Handles the calls of one run. A check that does not hold throws Fault{kInput} whose label is the
// check's name. interpreter.run_parallel runs its programs with the same checks; interpreter.probe keeps
// values for check.expect_serialized_eq; interpreter.print has nothing to check.
class Checker {
 public:
  // norm_tolerance > 0 replaces the tolerances of inexact checks (find_far_in_norm).
  explicit Checker(double norm_tolerance = 0) : norm_tolerance_(norm_tolerance) {}
  Options options();
  // How many checks ran: a file that checks nothing has shown nothing.
  int64_t checks() const { return checks_; }

 private:
  std::optional<std::vector<RuntimeValue>> call(const Op& op, const Module& module,
                                                std::span<const RuntimeValue> operands);
  std::vector<RuntimeValue> run_parallel(const Op& op, const Module& module,
                                         std::span<const RuntimeValue> operands);
  void check(const Op& op, std::string_view target, std::span<const RuntimeValue> operands);

  const double norm_tolerance_;
  std::mutex mutex_;
  int64_t checks_ = 0;
  std::map<std::string, std::vector<Literal>> probes_;
};

// One part of a file, between `// -----` lines.
struct CheckedPart {
  std::string name;                    // of the module or its first entry
  int64_t checks = 0;                  // that ran; a part without any has shown nothing
  bool takes_arguments = false;        // its entry needs arguments, which the file does not have: not run
  std::optional<std::string> problem;  // what a Fault said
  std::string label;                   // and its label
};
// Parses and verifies every part, runs its entry without arguments and reports. Faults go into the report.
std::vector<CheckedPart> run_checked_file(std::string_view text, std::string_view filename,
                                          double norm_tolerance = 0);

}  // namespace opentrn::graph::eval
