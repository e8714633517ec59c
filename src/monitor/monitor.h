// neuron-monitor: reports of what the processes of this user do on the simulated machine, in AWS's schema.
//
// Utilisation and flops are of simulated time: of a period, the seconds that this host spent simulating timed
// executions are replaced by the time that the device is predicted to take. What nobody knows is left out, or
// is null where AWS's schema says so, and `error` tells why. vCPUs and host memory are this host's.
#pragma once

#include <memory>
#include <string>

#include "monitor/machine.h"
#include "monitor/monitor_config.h"

namespace opentrn::monitor {

class Monitor {
 public:
  Monitor(Machine machine, MonitorConfig config);
  ~Monitor();
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;

  // Seconds until a metric group is due.
  double wait_s() const;
  // Collects the groups that are due and gives the whole report, one line of JSON without its end. Faults of
  // device::list_processes.
  std::string report();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace opentrn::monitor
