// What a run did on its devices: every program, how often it ran, and the time that a device would take for
// it.
//
// Kept when OPENTRN_USAGE names a file, which is written when the client ends: `opentrn profile -- COMMAND`
// reads it; and between begin() and end(), for opentrn.profile_program(). Predicted times are computed at the
// end, once per program.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "pjrt/program.h"

namespace opentrn::pjrt {

class Usage {
 public:
  explicit Usage(std::string file) : file_(std::move(file)), wanted_(!file_.empty()) {}
  bool wanted() const { return wanted_; }

  // One execution on `devices` devices, which took this host so long.
  void add(const std::shared_ptr<const Program>& program, size_t devices, double host_seconds);
  // What runs from here to end() is also kept apart. Input fault when it is under way already.
  void begin();
  // JSON: {"target", "cores", "bytes_peak", "usd_h" and "rented" (by kind of rate: of a core, and the
  // instance whose rate it is), "programs": [{"name", "types", "fingerprint", "runs", "devices", "host_s",
  // "device_us" (without the launch), "launch_us", "tensor_flops", "hbm_bytes", "bound_by", "instructions",
  // "collectives_us", "exposed_us", "traffic" (of several devices: src/traffic), and of logical cores
  // of two physical ones "physical_cores_used" with "both_cores_by", or "one_core_because" and
  // "both_cores_us_min"}]}; device_us is null, with "why", where
  // the timing model cannot tell, and "on_host" says why no device ran it. collectives_us (some collective is
  // under way) and exposed_us (and nothing else goes on) are estimates; the first is null where nobody knows
  // what the program's collectives take.
  std::string end(const Settings& settings, int64_t bytes_peak);
  // The same of the whole run, into the file.
  void write(const Settings& settings, int64_t bytes_peak) const;

 private:
  struct Row {
    std::shared_ptr<const Program> program;
    int64_t runs = 0;
    size_t devices = 1;
    double host_seconds = 0.0;
  };

  using Rows = std::map<std::string, Row>;  // by fingerprint
  static std::string text(const Rows& rows, const Settings& settings, int64_t bytes_peak);

  std::string file_;
  std::atomic<bool> wanted_;
  mutable std::mutex mutex_;
  Rows rows_;
  std::optional<Rows> block_;
};

}  // namespace opentrn::pjrt
