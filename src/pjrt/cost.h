// What one run of a program costs on the simulated devices, by the timing model.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "pjrt/program.h"

namespace opentrn::pjrt {

// Of one device in one run.
struct Cost {
  // Instructions and DMA; nullopt, with `why`, where the timing model cannot tell.
  std::optional<double> compute_us;
  std::string why;
  // Collectives (collectives/predict.h), one after the other and nothing meanwhile; nullopt where there are
  // some of which nobody knows.
  std::optional<double> collectives_us = 0.0;
  double tensor_flops = 0;  // done by the Tensor engine
  double model_flops = 0;   // of the program's arithmetic, whoever does it; bodies of loops once
  double hbm_bytes = 0;     // read and written
  int64_t instructions = 0;
  std::string bound_by;  // of the longest part
  bool on_device = false;

  // Of both; nullopt where the compute time is. What is not known of collectives is not in it.
  std::optional<double> device_us() const;
};

Cost cost_of(const Program& program);
// Of one collective of it; nullopt where nobody knows.
std::optional<double> collective_us(const Program& program, const ParallelProgram::Collective& collective);

}  // namespace opentrn::pjrt
