// A program of logical cores of two physical ones, cut so that both compute (spmd/core_pairs.h).
//
// Of the ways of cut_ways.h the one is taken for which a sum over its ops is least: products at the Tensor
// engine's rate or that of memory, other ops at the Vector engine's, exchanges between the two cores by the
// model of collectives. This sum only chooses. The time of what was chosen is that of its compiled parts. A
// program for which no way promises a tenth and some microseconds stays on one core. The sum may be wrong:
// what comes within that of its choice is given to who can compile several.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/literal.h"
#include "graph/module.h"
#include "runtime/settings.h"
#include "spmd/partition.h"

namespace opentrn::spmd {

// What the physical cores of `settings`' logical ones are: devices of their own.
runtime::Settings settings_of_cores(const runtime::Settings& settings);

struct MayBeFaster;

class BothCores {
 public:
  // `function` of `module` has no calls and is one device's of `devices`. `settings`: of the physical cores.
  // nullopt where it stays on one core; `why` then says so. `others`: for who can compile several, what may
  // be faster than what was chosen (decision 0312).
  static std::optional<BothCores> of(const graph::Module& module, graph::Function function, int64_t devices,
                                     const runtime::Settings& settings, std::string& why,
                                     MayBeFaster* others = nullptr);

  const std::string& way() const { return way_; }
  // What each physical core runs; core c of device d is its device 2d + c.
  const graph::Module& module() const { return local_.module; }
  // The same with how its arguments and results are cut, over core_grid().
  const SpmdModule& local() const { return local_; }
  // Arguments by device as those of the cores, and results of cores as those of their devices.
  std::vector<std::vector<graph::Literal>> split(
      const std::vector<std::vector<graph::Literal>>& of_devices) const;
  std::vector<std::vector<graph::Literal>> joined(
      const std::vector<std::vector<graph::Literal>>& of_cores) const;

 private:
  struct Promise;
  struct Promises;
  BothCores(SpmdModule local, std::string way, std::vector<graph::Type> results)
      : local_(std::move(local)), way_(std::move(way)), results_(std::move(results)) {}

  SpmdModule local_;
  std::string way_;
  std::vector<graph::Type> results_;  // of a device
};

struct MayBeFaster {
  std::vector<BothCores> cuts;
  bool one_core = false;
};

}  // namespace opentrn::spmd
