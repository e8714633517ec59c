// How far the planner's figures are from published ones, beside those of one constant utilisation.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "planner/check/recipe.h"

namespace opentrn::planner {

struct Scored {
  Row row;
  Metric metric = Metric::kStepTime;
  bool calibration = false;  // a value of the planner was chosen by this row
  double measured = 0, predicted = 0, low = 0, high = 0;
  double utilisation = 0;           // of the peak, hardware operations included, by the measured time
  double hardware_s = 0;            // time of the step's operations at the peak
  std::string chip, group, layout;  // group: same model and cluster, for ranking
  std::vector<std::string> assumed;

  double error() const { return measured > 0 ? std::abs(predicted - measured) / measured : 0; }
};

struct Errors {
  int rows = 0;
  double mean = 0, median = 0, p90 = 0;
};
Errors errors_of(std::vector<double> errors);

struct Family {
  Errors time, constant;  // relative errors of step times, of rows that are evidence
  std::vector<double> constant_errors;
  double utilisation = 0;     // the constant: the best one for these very rows
  Errors memory, activation;  // of peak memory, of activations
  int fits_called_out = 0, out_called_fits = 0, out_rows = 0, fit_rows = 0;
  double regret = 0, worst_regret = 0;
  int regret_groups = 0;
  double covered = 0;  // share of times inside the 80 % interval
  int calibration = 0;
  Errors calibration_time;
};

struct Check {
  std::vector<Scored> scored;
  std::map<std::string, int> reasons;  // of rows without a prediction
  std::map<std::string, Family> families;
  Family all;
  int rows = 0;
};

Check check_rows(const arch::Tables& tables, const std::vector<Row>& rows);

}  // namespace opentrn::planner
