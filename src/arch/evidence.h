// How far a predicted time can be trusted: how wrong predictions of published times were that the model had
// not been calibrated on, and how many of the timing table's values are assumed.
//
// The bands are those of tables/evidence.toml, which `./dev fidelity --write-bands` writes;
// fidelity/README.md says how.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "arch/tables.h"

namespace opentrn::arch {

// What was timed: predictions of one kind are about as wrong as each other.
struct TimedKind {
  Generation generation = Generation::kV3;
  bool model = false;       // a compiled model; else a kernel
  bool neuronx_cc = false;  // a kernel as neuronx-cc treats it (NKI 0.1)
  bool collective = false;  // a collective among chips
  bool language = false;    // with `model`: a step of a language model, on one rank or on several

  // "kernel.v2.neuronx_cc", "kernel.v3.nki", "model.v2", "llm.model.v2", "collective.v2": a table of
  // evidence.toml
  std::string key() const;
  std::string text() const;  // "NKI 0.1 kernels on Trainium"
};

// Where the measured time is expected: between `low` and `high` times the predicted one, in `share` of all
// cases.
struct Band {
  double share = 0, low = 0, high = 0;
  int runs = 0;         // whose errors it is made of
  std::string kind;     // TimedKind::text()
  std::string unknown;  // why there is none; then the rest is empty
  bool known() const { return unknown.empty(); }
};
Band band(const Tables& tables, const TimedKind& kind);

// The timing table's constants that the model computes with, and the cost rules of the instructions named.
struct Basis {
  Generation generation = Generation::kV3;
  int constants = 0, rules = 0;
  std::vector<std::string> assumed_constants, assumed_rules, fitted;  // keys
  int runs = 0;                                                       // of the kind's band
  std::string checked;  // "34 runs of kernels ...", or that there are none
};
Basis basis(const Tables& tables, const TimedKind& kind, const std::set<std::string>& instructions);

// Published rows that a value of the tables was read off or chosen by: (key, row ids with * for any text).
std::vector<std::pair<std::string, std::vector<std::string>>> calibrations(const Tables& tables);

// "80 % band 10.1-15.2 us by 34 evidence runs of NKI kernels on Trainium2", or why there
// is none.
std::string to_text(const Band& band, double predicted_ns);
// The same without a predicted time: "80 % band 0.58-3.04 times the predicted time by 10 evidence runs of
// ..."
std::string to_text(const Band& band);
// "12 of 52 timing constants, 3 of 8 cost rules assumed for NeuronCore-v4; none was checked ..."
std::string to_text(const Basis& basis);

}  // namespace opentrn::arch
