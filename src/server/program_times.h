// Predicted times of an engine's programs, compiled and timed when they are first asked for.
#pragma once

#include <map>

#include "decoder/engine.h"
#include "serving/time.h"

namespace opentrn::server {

class ProgramTimes {
 public:
  // `engine` outlives it.
  explicit ProgramTimes(decoder::Engine& engine) : engine_(engine) {}

  // Of the device, with what ranks exchange and the results' way to the host.
  serving::Ps of(const decoder::Bucket& bucket);
  // What has been compiled so far: programs, and the host's seconds for them.
  int64_t programs() const { return static_cast<int64_t>(times_.size()); }
  double compile_seconds() const { return compile_seconds_; }

 private:
  decoder::Engine& engine_;
  std::map<decoder::Bucket, serving::Ps> times_;
  double compile_seconds_ = 0;
};

}  // namespace opentrn::server
