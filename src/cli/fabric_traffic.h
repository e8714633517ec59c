// What predicted collectives do to links over time: the page and the events of `opentrn fabric predict`.
#pragma once

#include <string>
#include <vector>

#include "collectives/predict.h"
#include "traffic/traffic.h"

namespace opentrn::cli {

// One size of a collective, of all groups at once.
struct PredictedSize {
  std::vector<collectives::Job> jobs;
  collectives::Predictions predictions;
};

// Sizes one after the other. `datatype`: as the user wrote it.
traffic::Traffic traffic_of(const arch::Tables& tables, const fabric::Platform& platform,
                            const std::vector<const PredictedSize*>& sizes, const std::string& datatype);

// Files that are complete or not there. An input fault where they cannot be written.
void write_fabric_page(const std::string& path, const std::string& title,
                       const std::vector<traffic::Traffic>& traffics);
void write_fabric_events(const std::string& path, const traffic::Traffic& traffic);

}  // namespace opentrn::cli
