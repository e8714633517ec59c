// A headline, recomputed: the sentence, what it claims as a quantity, the inputs, and a verdict.
//
// Every input that is not stated exactly is sampled, all of them together, and each reading of the sentence
// is computed for each sample. A reading is supported where nine samples in ten or more meet it, not
// supported where one in ten or fewer do, and else not decidable. A claim whose sentence leaves out what is
// needed is not decidable as stated, whatever its readings say; so is one whose readings differ.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "arch/tables.h"
#include "planner/between.h"
#include "planner/price.h"

namespace opentrn::planner {

enum class Verdict : uint8_t { kSupported, kNotSupported, kNotDecidable };
std::string_view to_string(Verdict verdict);  // "supported", "not supported", "not decidable"

struct ClaimInput {
  std::string name;
  Between value;
  std::string confidence, source, note;
};

struct Reading {
  std::string name;
  Between quantity;
  std::string wanted;  // "at least 1.5"; empty: the quantity is printed, and nothing follows from it
  double probability = 0;
  Verdict verdict = Verdict::kNotDecidable;
};

struct Claim {
  std::string id, sentence, quantity, missing, changes;
  std::vector<ClaimInput> inputs;
  std::vector<Reading> readings;
  Verdict verdict = Verdict::kNotDecidable;
};

struct ClaimOptions {
  PriceQuery price;  // kind, date and file of every price
  uint64_t seed = 1;
  int samples = 2000;
};

// The values of one sample, by the names of the inputs.
class Sample {
 public:
  double operator()(const std::string& name) const;

 private:
  friend class ClaimMaker;
  std::map<std::string, double> values_;
};
using Formula = std::function<double(const Sample&)>;

// Puts a claim together: inputs first, then readings of them, then finish().
class ClaimMaker {
 public:
  ClaimMaker(const arch::Tables& tables, const ClaimOptions& options, const std::string& id);

  void input(const std::string& name);  // claims.<id>.<name>: a number, or [value, low, high]
  void input_of(const std::string& claim, const std::string& name);  // of another claim
  void table(const std::string& name, const std::string& key);       // a value of any table
  void number(const std::string& name, Between value, const std::string& confidence,
              const std::string& source);
  bool price(const std::string& name, const std::string& instance);  // false where none is published
  void step_s(const std::string& name, const std::string& model, const std::string& instance, int64_t count,
              double seq, double global_batch);  // of the planner's best plan, with its interval
  void reading(const std::string& name, const std::string& wanted, Formula formula,
               std::function<bool(double)> holds);
  void at_least(const std::string& name, double limit, Formula formula);
  void at_most(const std::string& name, double limit, Formula formula);
  void between(const std::string& name, double low, double high, Formula formula);
  void shown(const std::string& name, Formula formula);  // without a verdict
  void missing(const std::string& what);                 // in the inputs: not decidable as stated
  Claim finish();

  // The values of those inputs of a claim.
  static Sample nominal_of(const arch::Tables& tables, const std::string& claim,
                           std::span<const char* const> names);

 private:
  struct Asked {
    Formula formula;
    std::function<bool(double)> holds;
  };
  const arch::Tables& tables_;
  const ClaimOptions& options_;
  Claim claim_;
  std::vector<Asked> asked_;
};

std::vector<std::string> claim_names(const arch::Tables& tables);
// Input faults: a name that there is not.
Claim claim_of(const arch::Tables& tables, const ClaimOptions& options, const std::string& name);

// Saving per token of trn1.32xlarge against another instance, one line a model, with the prices of each
// month.
struct SavingLine {
  std::string model, instance;
  std::vector<std::string> months;
  std::vector<double> saving;
};
std::vector<SavingLine> saving_over_time(const arch::Tables& tables, const ClaimOptions& options);

}  // namespace opentrn::planner
