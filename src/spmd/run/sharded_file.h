// A model on a mesh as a .neuron container (runtime/model_file.h), and back.
//
//   fact "mesh"        "dp=2,tp=4"
//   fact "devices"     JSON: the target and its logical cores; ports with their types and shardings; which
//                      attached file each constant of the program is; which program each compiled part is
//   attached "program" what every device runs between its parts' arguments and results: StableHLO with
//                      collectives; larger constants are zeros in it
//   attached "constant" such constants, and weights that the devices hold parts of: whole, once
//   programs           the parts that lie between two collectives, in the order of the program
//
// Loading it plans the program anew, without compiling: a part whose graph is another than the one that was
// compiled is refused.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "runtime/model_file.h"
#include "spmd/run/sharded_model.h"

namespace opentrn::spmd {

// `facts`: of the artifact besides its own. NotModelled fault "spmd.no_part" for a model of which no device
// computes anything. The artifact refers to the model's constants, which it does not outlive.
runtime::Artifact artifact_of(const ShardedModel& model, std::map<std::string, std::string> facts);

// Whether an artifact is of several devices.
bool is_of_devices(const runtime::Artifact& artifact);

// Input faults "model_file" for an artifact that holds no such model, and those of StableHLO text. `name`:
// what they call the file.
std::shared_ptr<ShardedModel> sharded_model_of(const runtime::Artifact& artifact, const std::string& name);

}  // namespace opentrn::spmd
