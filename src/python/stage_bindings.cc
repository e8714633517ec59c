// opentrn._core: models whose shapes depend on data (model/stage.h). opentrn/model/stages.py holds the
// programs and NumPy's arrays; values cross as (element type name, dimensions, bytes).
#include <nanobind/nanobind.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "arch/arch.h"
#include "compiler/compile.h"
#include "compiler/options.h"
#include "model/stage.h"
#include "model/stage_coverage.h"
#include "model/stage_room.h"
#include "python/graph_bindings.h"
#include "python/model_bindings.h"
#include "python/unlocked.h"
#include "sim/functional/custom_op.h"

namespace opentrn::python {

namespace nb = nanobind;
using namespace nb::literals;
using model::Stage;
using model::StageRooms;

namespace {

using graph::Literal;
using StagePtr = std::shared_ptr<Stage>;
using SizesAhead = std::map<std::string, std::vector<int64_t>>;

StagePtr first_stage(const std::shared_ptr<import::onnx::Stage>& imported) { return Stage::first(imported); }

nb::dict sizes_of(const Stage& stage) {
  nb::dict sizes;
  for (const auto& [name, size] : stage.sizes()) sizes[name.c_str()] = size;
  return sizes;
}

nb::dict fields_of(const model::Ask& ask) {
  nb::dict row;
  row["name"] = ask.name;
  row["counts"] = ask.counts;
  row["bound"] = ask.bound;
  row["slot"] = ask.slot;
  row["node"] = ask.where;
  row["element"] = std::string(graph::name(ask.type.element()));
  row["behind"] = ask.behind;
  return row;
}

nb::object raw_of(const Literal& literal) {
  const std::vector<std::byte> bytes = literal.dense();
  const auto dims = literal.type().dims();
  return nb::make_tuple(std::string(graph::name(literal.type().element())),
                        std::vector<int64_t>(dims.begin(), dims.end()),
                        nb::bytes(bytes.data(), bytes.size()));
}

nb::list raws_of(const std::vector<Literal>& literals) {
  nb::list list;
  for (const Literal& literal : literals) list.append(raw_of(literal));
  return list;
}

std::vector<Literal> stage_values(const nb::handle& values) {
  std::vector<Literal> literals;
  for (const nb::handle value : nb::cast<nb::list>(values)) literals.push_back(literal_of(value));
  return literals;
}

// ([value], [stage], {key: the larger stage that ran in the place of one})
nb::tuple run_stages(const StagePtr& first, const nb::list& inputs, const nb::callable& execute,
                     StageRooms* rooms, const nb::object& is_compiled) {
  std::map<std::string, StagePtr> larger;
  model::ExecuteStage executed = [&](const StagePtr& stage, const std::vector<Literal>& arguments) {
    const nb::gil_scoped_acquire locked;
    return stage_values(execute(stage, raws_of(arguments)));
  };
  if (rooms != nullptr)
    executed = rooms->executing(
        std::move(executed),
        [&](const StagePtr& stage) {
          const nb::gil_scoped_acquire locked;
          return nb::cast<bool>(is_compiled(stage));
        },
        larger);
  const std::vector<Literal> arguments = stage_values(inputs);
  model::StagedResults run;
  {
    const Unlocked unlocked;  // stages are imported meanwhile
    run = model::run_stages(first, arguments, executed);
  }
  return nb::make_tuple(raws_of(run.results), run.path, larger);
}

std::vector<StagePtr> stages_ahead(const StagePtr& first, const SizesAhead& sizes,
                                   const std::vector<std::string>& open) {
  const Unlocked unlocked;
  return model::stages_ahead(first, sizes, open);
}

nb::tuple coverage(const StagePtr& first, const std::map<std::string, int64_t>& dimensions,
                   const nb::dict& inputs) {
  sim::load_custom_ops_of_environment();
  std::map<size_t, Literal> known;
  for (const auto& [number, value] : inputs) known.emplace(nb::cast<size_t>(number), literal_of(value));
  model::StagedCoverage found;
  {
    const Unlocked unlocked;
    found = model::coverage_of_stages(first, dimensions, known);
  }
  return nb::make_tuple(coverage_rows(found.rows), found.notes);
}

}  // namespace

void bind_stages(nb::module_& module) {
  nb::class_<model::Ask>(
      module, "Ask",
      "What the shapes behind a stage depend on: a value that the stage makes and the host reads.")
      .def_ro("name", &model::Ask::name, "Of the dimension where it counts rows, else of the value.")
      .def_ro("counts", &model::Ask::counts, "Whether it is a number of rows, at most `bound`.")
      .def_ro("bound", &model::Ask::bound)
      .def("fields", &fields_of, "Plain data of all that is known of it.")
      .def(
          "text", [](const model::Ask& ask) { return model::ask_text(ask); },
          "`boxes (up to 100), for NonMaxSuppression node 'nms'`.");
  nb::class_<Stage>(
      module, "ModelStage",
      "One program's worth of a model whose shapes depend on data. Values between stages are numbered, "
      "the model's inputs first (slots).")
      .def_prop_ro("raw",
                   // nanobind's holders are of types without const; nothing changes a stage.
                   [](const Stage& self) {
                     return std::const_pointer_cast<import::onnx::Stage>(self.shared_import());
                   })
      .def_prop_ro("number", &Stage::number, "From 1 on.")
      .def_prop_ro("sizes", &sizes_of, "Answers so far that are one number, by name.")
      .def("sizes_text", &Stage::sizes_text, "`boxes=5, keep=3`.")
      .def_prop_ro("key", &Stage::key,
                   "\"\" of the first stage, else what tells it from those of other answers.")
      .def_prop_ro(
          "asks", [](const Stage& self) { return self.imported().asks; }, "None in the last stage.")
      .def_prop_ro(
          "control_inputs", [](const Stage& self) { return model::control_inputs(self); },
          "Of the first stage: numbers of the inputs that decide what is computed.");
  nb::class_<StageRooms>(module, "StageRooms",
                         "Which stage that was compiled ahead may run in the place of a smaller one.")
      .def(
          "__init__",
          [](StageRooms* self, const std::string& target, const std::map<std::string, std::string>& options) {
            const compiler::Options chosen = compiler::options_from(arch::resolve_target(target), options);
            new (self)
                StageRooms([chosen](const graph::Module& of) { return compiler::prepare(of, chosen); });
          },
          "target"_a, "options"_a)
      .def("set_sizes", &StageRooms::set_sizes, "sizes"_a,
           "Numbers of rows that are compiled ahead, by name.");
  module.def("first_stage", &first_stage, "imported"_a,
             "The first stage of a chain, as the importer made it.");
  module.def(
      "stages_ahead", &stages_ahead, "first"_a, "sizes"_a, "open"_a,
      "The stages of these numbers of rows; `open`: names of the dimensions of inputs. Raises InputError "
      "`onnx.dimension`.");
  module.def("run_stages", &run_stages, "first"_a, "inputs"_a, "execute"_a, "rooms"_a.none() = nb::none(),
             "is_compiled"_a = nb::none(),
             "([result], [stage], {key: the larger stage that ran}) of one inference. execute: a stage's "
             "results from "
             "its arguments; is_compiled: whether a stage has a program of its own, so that no larger one is "
             "taken.");
  module.def("coverage_of_stages", &coverage, "first"_a, "dimensions"_a, "inputs"_a,
             "(rows of coverage, notes) of all stages, for the values of inputs by their number.");
}

}  // namespace opentrn::python
