// Layer times of Neuron machines by OpenTrn's own compiler and timing model: not AWS's compiler, whose rates
// the curves with a fitted efficiency stand for.
//
// Long sequences are not compiled whole: what grows by the row, or by the head, is compiled for two smaller
// numbers of them, and the line through both gives the rest.
//
// Heads and widths that the cores of a server's copy do not divide are filled up; a training layout must
// divide them. Assumed: the two cores of a logical core (LNC2) cut a rank's work as two ranks of tensor
// parallelism would, and what they exchange takes no time. With context parallelism a rank's queries meet all
// keys, as in the exported step (decision 0231).
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "planner/compiled/collective_waits.h"
#include "planner/compiled/piece_times.h"
#include "planner/layer_times.h"

namespace opentrn::planner::compiled {

class CompiledLayers final : public LayerSource {
 public:
  explicit CompiledLayers(std::optional<std::filesystem::path> folder = cache_folder());

  std::string_view name() const override { return "compiled"; }
  void prepare(const Job& job, const Machine& machine, const std::vector<Layout>& layouts) override;
  std::optional<LayerTimes> layers(const Job& job, const Machine& machine, const Layout& layout,
                                   std::string& why) override;
  std::optional<ServeTimes> serve(const Model& model, Precision precision, const Machine& machine, int tp,
                                  const ServeStep& step, std::string& why) override;

  int64_t compiled() const;  // programs, since this object was made

 private:
  // `paired`: of two runs that a device has side by side.
  PieceTimes& times_of(const Machine& machine, bool paired);
  // How the two cores of a rank share its work out: heads and columns, and the rows of norms; or both have
  // all rows of norms; or each has sequences of its own.
  enum class Cores : uint8_t { kRowsOfNorms, kWholeNorms, kOwnSequences };
  std::optional<LayerTimes> layers_of(const Job& job, const Machine& machine, const Layout& layout,
                                      Cores cores, std::string& why);

  std::optional<std::filesystem::path> folder_;
  std::map<std::pair<Generation, bool>, std::unique_ptr<PieceTimes>> times_;
  CollectiveTimes collectives_;
};

// Why this source has no times for a model on a machine; empty where it has.
std::string not_compiled_because(const Model& model, Precision precision, const Machine& machine);

}  // namespace opentrn::planner::compiled
