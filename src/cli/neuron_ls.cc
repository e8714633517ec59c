// opentrn neuron-ls: AWS's list of devices and of the processes on them, for the simulated machine.
#include <memory>

#include <unistd.h>

#include <fmt/format.h>

#include "base/fault.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/machine_options.h"
#include "device/presence.h"
#include "device/registry.h"
#include "monitor/neuron_ls.h"

namespace opentrn::cli {

namespace {

struct NeuronLsOptions {
  MachineOptions machine;
  TableOptions tables;
  monitor::LsOptions ls;
  bool json = false;
};

}  // namespace

void add_neuron_ls(CLI::App& app, std::ostream& out) {
  auto options = std::make_shared<NeuronLsOptions>();
  CLI::App* command = app.add_subcommand(
      "neuron-ls", "List simulated devices and the processes on them, as AWS's neuron-ls does");
  command->add_flag("-w,--wide", options->ls.wide, "Show 80 characters of commands instead of 40");
  command->add_flag("-a,--show-all-procs", options->ls.all,
                    "Show tools too, such as neuron-monitor and this one");
  command->add_flag("-t,--topology", options->ls.topology, "Show the links between the devices");
  command->add_flag("-j,--json-output", options->json, "Print JSON");
  options->machine.add_to(*command);
  options->tables.add_to(*command);
  command->callback([options, command, &out] {
    refuse_given(*command, {"--nnodes"}, "only for several machines, and this lists the devices of one");
    const auto tables = options->tables.load();
    const fabric::Platform platform = options->machine.platform(*tables);
    const monitor::Machine machine =
        monitor::machine_of(*tables, platform, options->machine.cores_per_rank(*tables, platform));
    if (options->ls.all) device::hold({machine.instance_type, {}, 1, true});
    const device::Listing listing = device::list_processes();
    for (const std::string& damaged : listing.damaged) fmt::print(stderr, "opentrn: {}\n", damaged);
    out << (options->json ? monitor::ls_json(machine, listing.processes, options->ls)
                          : monitor::ls_text(machine, listing.processes, options->ls));
  });
}

}  // namespace opentrn::cli
