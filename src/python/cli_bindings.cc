// The commands of C++ for Python. opentrn._cli is a module of the same library with them alone: registering
// the types of opentrn._core takes as long as many a command (python/opentrn/cli/core.py chooses).
#include "python/cli_bindings.h"

#include <filesystem>
#include <sstream>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "arch/tables.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/program_file.h"
#include "python/convert.h"
#include "python/device_call.h"
#include "python/unlocked.h"

namespace opentrn::python {

namespace nb = nanobind;
using namespace nb::literals;

namespace {

// Exported programs of PyTorch and JAX, which their own Python reads; a command runs without the
// interpreter's lock.
std::string exported_program(const std::string& path) {
  const nb::gil_scoped_acquire locked;
  try {
    const nb::object made = nb::module_::import_("opentrn.model.exported").attr("stablehlo_of")(path);
    const nb::bytes bytes = nb::cast<nb::bytes>(made);
    return {bytes.c_str(), bytes.size()};
  } catch (nb::python_error& error) {
    // A refusal of ours is one for the command as well, which knows the job file's line.
    const nb::object refused = nb::borrow<nb::object>(error.value());
    if (!nb::isinstance(refused, nb::module_::import_("opentrn.errors").attr("Refusal"))) throw;
    const auto text = [&](const char* field) {
      const nb::object value = refused.attr(field);
      return value.is_none() ? std::string() : nb::cast<std::string>(value);
    };
    const std::string label = text("label");
    throw Fault(FaultKind::kInput, label.empty() ? "plan.program" : label, text("message"), text("hint"));
  }
}

int run_cli(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err) {
  std::vector<const char*> words{"opentrn"};
  for (const std::string& argument : arguments) words.push_back(argument.c_str());
  return cli::run(cli::kCommands, static_cast<int>(words.size()), words.data(), out, err);
}

// Every machine of the tables, as JSON.
std::string machines() {
  std::ostringstream out, err;
  const int code = run_cli({"ls", "--json"}, out, err);
  OPENTRN_CHECK(code == 0, "ls --json: {}", err.str());
  return out.str();
}

std::string ask_cli(const std::vector<std::string>& arguments) {
  const Unlocked unlocked;
  return cli::ask(cli::kCommands, arguments);
}

// Of the commands that this core parses: (command, names, is a flag, help) of each option and argument.
nb::list cli_options() {
  nb::list rows;
  for (const cli::DeclaredOption& option : cli::declared_options(cli::kCommands))
    rows.append(nb::make_tuple(option.command, option.names, option.flag, option.help));
  return rows;
}

std::vector<std::tuple<std::string_view, std::string_view, std::string_view, bool>> cli_commands() {
  std::vector<std::tuple<std::string_view, std::string_view, std::string_view, bool>> rows;
  for (const cli::Command& row : cli::kProgram)
    rows.emplace_back(row.name, row.entry, row.line, row.passed_on);
  return rows;
}

int print_cli(const std::vector<std::string>& arguments) {
  std::ostringstream out, err;
  int code = 0;
  {
    const Unlocked unlocked;
    code = run_cli(arguments, out, err);
  }
  nb::module_ sys = nb::module_::import_("sys");
  sys.attr("stdout").attr("write")(out.str());
  sys.attr("stderr").attr("write")(err.str());
  return code;
}

// Families of machines that a document names; not "gen3" and "v3", which stand for a NeuronCore.
std::vector<std::string> families() {
  const arch::FactTable& facts = arch::default_tables().facts();
  std::vector<std::string> names;
  for (const std::string& name : facts.items("target")) {
    const bool is_core = name.starts_with("gen") || name.starts_with("v");
    if (!is_core && facts.at("target." + name).confidence != arch::Confidence::kAssumed)
      names.push_back(name);
  }
  return names;
}

}  // namespace

void bind_cli(nb::module_& module) {
  cli::set_python_reader(exported_program);
  module.def("run_cli", &print_cli, "arguments"_a);
  module.def("cli_options", &cli_options);
  module.def("cli_commands", &cli_commands,
             "The rows (name, entry, line, passed_on) of the program's commands, in the order of its help "
             "(src/cli/commands.def). `entry` is module:function of Python, and empty for a command of C++.");
  module.def("ask_cli", &ask_cli, "arguments"_a);
  module.def("machines", &machines);
  module.def("families", &families);
}

}  // namespace opentrn::python

NB_MODULE(_cli, module) {
  opentrn::python::bind_errors();
  opentrn::python::bind_interrupt(module);
  opentrn::python::bind_process(module);
  opentrn::python::bind_cli(module);
}
