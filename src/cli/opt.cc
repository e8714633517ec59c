// opentrn opt: a model through the compiler's passes, written as StableHLO.
#include <algorithm>
#include <charconv>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "arch/tables.h"
#include "base/new_file.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/text_table.h"
#include "cli/validators.h"
#include "compiler/pipeline/phases.h"
#include "graph/text/text.h"
#include "import/load.h"

namespace opentrn::cli {
namespace {

using compiler::Pass;
using compiler::PassCounts;
using compiler::PassInput;
using compiler::PhaseRow;

struct OptOptions {
  std::string model, stop_after, output, target = "trn2";
  std::vector<std::string> passes, dump_after, settings, dimensions;
  int64_t elide = 64;
  bool list = false, evaluator_ops = false, locations = false, counts = false, check = false;
};

// --dim NAME=SIZE.
std::map<std::string, int64_t> dimensions_of(const OptOptions& options) {
  std::map<std::string, int64_t> dimensions;
  for (const std::string& words : options.dimensions) {
    const size_t equals = words.rfind('=');
    const std::string_view size =
        equals == std::string::npos ? "" : std::string_view(words).substr(equals + 1);
    int64_t number = 0;
    const auto [end, error] = std::from_chars(size.data(), size.data() + size.size(), number);
    if (equals == 0 || error != std::errc() || end != size.data() + size.size() || number < 0)
      throw Fault(FaultKind::kInput, "onnx.dimension",
                  fmt::format("--dim {}: it takes the name of a dimension and its size", words),
                  "write --dim batch=1");
    if (!dimensions.emplace(words.substr(0, equals), number).second)
      throw Fault(FaultKind::kInput, "onnx.dimension",
                  fmt::format("--dim {}: '{}' has a size already", words, words.substr(0, equals)),
                  "state one size: this command makes one program");
  }
  return dimensions;
}

// Sizes that are missing or too many are told in the words of this command.
graph::Module loaded(const OptOptions& options) {
  const std::map<std::string, int64_t> dimensions = dimensions_of(options);
  try {
    return import::load_file(options.model, dimensions);
  } catch (const Fault& fault) {
    if (fault.label() != "onnx.dimension" || !dimensions.empty()) throw;
    throw Fault(fault.kind(), fault.label(), fault.message(),
                "--dim NAME=SIZE for each, for example --dim batch=1");
  }
}

compiler::Options compiler_options(const OptOptions& options) {
  std::map<std::string, std::string> given;
  for (const std::string& setting : options.settings) {
    const size_t equals = setting.find('=');
    if (equals == std::string::npos)
      throw Fault(FaultKind::kInput, "compiler.option",
                  fmt::format("--option {}: there is no '=' between name and value", setting),
                  "write --option optlevel=1");
    given[setting.substr(0, equals)] = setting.substr(equals + 1);
  }
  return compiler::options_from(arch::resolve_target(options.target), given);
}

std::string list_of_passes() {
  TextTable passes({"pass", "what it does"}), phases({"phase", "what holds when it has ended"});
  for (const Pass& pass : compiler::passes())
    passes.add_row({std::string(pass.name), std::string(pass.summary)});
  for (const PhaseRow& row : compiler::phases())
    phases.add_row({std::string(row.name), std::string(row.invariant)});
  return passes.str() + "\n" + phases.str();
}

// A name of --dump-after must be a pass or a phase; "all" is every pass.
void check_dump_names(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    bool known = name == "all";
    for (const Pass& pass : compiler::passes()) known |= pass.name == name;
    for (const PhaseRow& row : compiler::phases()) known |= row.name == name;
    if (!known)
      throw Fault(FaultKind::kInput, "compiler.pass",
                  fmt::format("--dump-after {}: there is no such pass or phase", name),
                  "opentrn opt --list names them");
  }
}

class Run {
 public:
  Run(const OptOptions& options, std::ostream& out)
      : options_(options), out_(out), module_(loaded(options)) {}

  void run() {
    check_dump_names(options_.dump_after);
    const compiler::Options chosen = compiler_options(options_);
    const PassInput input{module_, chosen, !options_.evaluator_ops};
    PassCounts counts;
    const compiler::Observer observer{
        .after = [&](const Pass& pass, const graph::Function& function,
                     int64_t changes) { after(pass, function, changes); },
        .reached = [&](const PhaseRow& row,
                       const graph::Function& function) { reached(row, function, input); }};
    const compiler::Phase last =
        options_.stop_after.empty() ? compiler::Phase::kReady : compiler::phase_named(options_.stop_after);
    const graph::Function made = options_.passes.empty()
                                     ? compiler::run_until(last, input, counts, observer)
                                     : compiler::run_passes(options_.passes, input, counts, observer);
    if (options_.counts) out_ << table_.str();
    if (!options_.output.empty()) return write(text_of(made));
    if (!options_.counts) out_ << text_of(made);
  }

 private:
  void after(const Pass& pass, const graph::Function& function, int64_t changes) {
    ++runs_;
    table_.add_row({fmt::format("{}", runs_), std::string(pass.name),
                    changes ? fmt::format("{}", changes) : "-",
                    fmt::format("{}", function.block(function.body()).ops.size())});
    if (is_dumped(pass.name) || is_dumped("all")) dump(pass.name, function);
  }

  void reached(const PhaseRow& row, const graph::Function& function, const PassInput& input) {
    if (is_dumped(row.name)) dump(row.name, function);
    if (!options_.check) return;
    if (const std::string broken = row.broken(function, input); !broken.empty())
      throw Fault(FaultKind::kInternal, "compiler.phase",
                  fmt::format("after the phase '{}' its invariant does not hold: {}", row.name, broken),
                  fmt::format("it says: {}", row.invariant));
  }

  bool is_dumped(std::string_view name) const {
    return std::ranges::find(options_.dump_after, name) != options_.dump_after.end();
  }

  void dump(std::string_view name, const graph::Function& function) {
    out_ << fmt::format("// ----- after {} ({})\n{}\n", name, runs_, text_of(function));
  }

  std::string text_of(const graph::Function& function) const {
    graph::Module module = module_;
    module.functions = {function};
    return graph::print_module(module, {.locations = options_.locations, .elide_larger = options_.elide});
  }

  void write(const std::string& text) const {
    NewFile file(options_.output, "cli.output",
                 "--output takes a file in a folder that exists and may be written");
    file.put(text.data(), text.size());
    file.finish();
  }

  const OptOptions& options_;
  std::ostream& out_;
  const graph::Module module_;
  TextTable table_{{"", "pass", "changes", "ops"}};
  int runs_ = 0;
};

}  // namespace

void add_opt(CLI::App& app, std::ostream& out) {
  auto options = std::make_shared<OptOptions>();
  CLI::App& command =
      *app.add_subcommand("opt", "Run the compiler's passes on a model and print StableHLO text");
  command.add_option("model", options->model, "StableHLO, HLO or ONNX")->type_name("FILE");
  command.add_option("--dim", options->dimensions, "Size of a symbolic dimension of an ONNX model")
      ->type_name("NAME=SIZE")
      ->allow_extra_args(false);
  auto* passes =
      command.add_option("--pass", options->passes, "Run this pass only; several run in the given order")
          ->type_name("NAME")
          ->allow_extra_args(false);
  command.add_option("--stop-after", options->stop_after, "Stop after this phase and print the model")
      ->type_name("PHASE")
      ->excludes(passes);
  command
      .add_option("--dump-after", options->dump_after,
                  "Print the model after this pass or phase, or after all")
      ->type_name("NAME")
      ->allow_extra_args(false);
  command.add_flag("--counts", options->counts, "Print how much each pass changed, instead of the model");
  command.add_flag("--check", options->check, "Check the invariant of each phase")->excludes(passes);
  command.add_flag("--list", options->list, "List passes and phases");
  command
      .add_option("--option", options->settings, "An option of the compiler: optlevel=1, weight-dtype=int8")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
  command.add_option("--target", options->target, "Chip or instance")->capture_default_str();
  command.add_flag("--evaluator-ops", options->evaluator_ops,
                   "Keep only ops that the reference evaluator knows: make no composite ops for kernels");
  command.add_option("--elide", options->elide, "Shorten constants with more elements than this; -1: none")
      ->check(whole_within(int64_t{-1}, int64_t{1} << 40))
      ->capture_default_str();
  command.add_flag("--locations", options->locations, "Print the location of each op in the model");
  command.add_option("-o,--output", options->output, "Write the model to a file")->type_name("FILE");
  command.callback([options, &out] {
    if (options->list) {
      out << list_of_passes();
      return;
    }
    if (options->model.empty())
      throw Fault(FaultKind::kInput, "cli.argument", "no model is given",
                  "opentrn opt model.mlir; opentrn opt --list");
    Run(*options, out).run();
  });
}

}  // namespace opentrn::cli
