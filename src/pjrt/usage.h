// What a run did on its devices: every program, how often it ran, and the time that a device would take for
// it.
//
// Kept when OPENTRN_USAGE names a file, which is written when the client ends; `opentrn profile -- COMMAND`
// reads it. Predicted times are computed then, once per program.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "pjrt/program.h"

namespace opentrn::pjrt {

class Usage {
 public:
  // Nothing is kept where `file` is empty.
  explicit Usage(std::string file) : file_(std::move(file)) {}
  bool wanted() const { return !file_.empty(); }

  // One execution on `devices` devices, which took this host so long.
  void add(const std::shared_ptr<const Program>& program, size_t devices, double host_seconds);
  // JSON: {"target", "cores", "bytes_peak", "programs": [{"name", "fingerprint", "runs", "devices", "host_s",
  // "device_us", "tensor_flops", "bound_by", "instructions"}]}; device_us is null, with "why", where the
  // timing model cannot tell, and "on_host" says why no device ran it.
  void write(const Settings& settings, int64_t bytes_peak) const;

 private:
  struct Row {
    std::shared_ptr<const Program> program;
    int64_t runs = 0;
    size_t devices = 1;
    double host_seconds = 0.0;
  };

  std::string file_;
  mutable std::mutex mutex_;
  std::map<std::string, Row> rows_;  // by fingerprint
};

}  // namespace opentrn::pjrt
