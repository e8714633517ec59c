// opentrn._core: words and reports of neuronx-cc and neuron_parallel_compile (cli/aws_words.h); opentrn/tools
// does what they ask.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "cli/aws_words.h"
#include "python/cli_bindings.h"

namespace opentrn::python {

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using Words = std::vector<std::string>;

// Words of a command line are bytes, which Python's text stands for.
Words system_words(const nb::list& given) {
  Words words;
  for (const nb::handle word : given) {
    const auto bytes = nb::steal<nb::bytes>(PyUnicode_EncodeFSDefault(word.ptr()));
    if (!bytes.is_valid()) throw nb::python_error();
    words.emplace_back(bytes.c_str(), bytes.size());
  }
  return words;
}

nb::object system_text(const std::string& word) {
  return nb::steal(PyUnicode_DecodeFSDefaultAndSize(word.data(), static_cast<Py_ssize_t>(word.size())));
}

template <class T, std::string T::*kField>
nb::object text_field(const T& self) {
  return system_text(self.*kField);
}

template <class T, Words T::*kField>
nb::list list_field(const T& self) {
  nb::list texts;
  for (const std::string& word : self.*kField) texts.append(system_text(word));
  return texts;
}

// (JSON, sentences, failures)
std::tuple<std::string, Words, Words> summary(
    const std::vector<std::tuple<std::string, std::string, int>>& rows) {
  std::vector<cli::CompiledGraph> graphs;
  for (const auto& [path, why, retries] : rows) graphs.push_back({path, why, retries});
  const cli::ParallelSummary made = cli::parallel_summary(graphs);
  return {made.json, made.totals, made.failures};
}

// (JSON, unsupported ops, whether all is supported)
std::tuple<std::string, Words, bool> analysis(
    const std::vector<std::tuple<std::string, std::string, std::string>>& rows, int verbosity) {
  std::vector<cli::AnalysedGraph> graphs;
  for (const auto& [path, ops, error] : rows) graphs.push_back({path, ops, error});
  const cli::ParallelAnalysis made = cli::parallel_analysis(graphs, verbosity);
  return {made.json, made.unsupported, made.complete};
}

}  // namespace

void bind_aws_words(nb::module_& module) {
  using cli::NeuronxCc;
  using cli::ParallelCompile;
  nb::class_<NeuronxCc>(module, "NeuronxCc", "A command line of neuronx-cc.")
      .def_ro("command", &NeuronxCc::command)
      .def_prop_ro("model", &text_field<NeuronxCc, &NeuronxCc::model>, nb::sig("def model(self, /) -> str"))
      .def_prop_ro("target", &text_field<NeuronxCc, &NeuronxCc::target>,
                   nb::sig("def target(self, /) -> str"))
      .def_prop_ro("output", &text_field<NeuronxCc, &NeuronxCc::output>,
                   nb::sig("def output(self, /) -> str"))
      .def_prop_ro("logfile", &text_field<NeuronxCc, &NeuronxCc::logfile>,
                   nb::sig("def logfile(self, /) -> str"))
      .def_ro("level", &NeuronxCc::level, "Of Python's logging.")
      .def_prop_ro("flags", &list_field<NeuronxCc, &NeuronxCc::flags>,
                   nb::sig("def flags(self, /) -> list[str]"), "For the compiler.");
  module.def(
      "neuronx_cc", [](const nb::list& words) { return cli::neuronx_cc(system_words(words)); }, "words"_a,
      nb::sig("def neuronx_cc(words: list[str]) -> NeuronxCc"),
      "Raises InputError and NotModelled `tools.neuronx_cc` for what is no command line of it.");
  nb::class_<ParallelCompile>(module, "ParallelCompile", "A command line of neuron_parallel_compile.")
      .def_ro("command", &ParallelCompile::command)
      .def_prop_ro("output", &text_field<ParallelCompile, &ParallelCompile::output>,
                   nb::sig("def output(self, /) -> str"))
      .def_ro("verbosity", &ParallelCompile::verbosity)
      .def_prop_ro("program", &list_field<ParallelCompile, &ParallelCompile::program>,
                   nb::sig("def program(self, /) -> list[str]"));
  module.def(
      "parallel_compile", [](const nb::list& words) { return cli::parallel_compile(system_words(words)); },
      "words"_a, nb::sig("def parallel_compile(words: list[str]) -> ParallelCompile"),
      "Raises InputError `tools.parallel_compile` for what is no command line of it.");
  module.def("parallel_compile_retries", &cli::parallel_compile_retries, "text"_a,
             "Of NEURON_PARALLEL_COMPILE_MAX_RETRIES.");
  module.def("parallel_compile_summary", &summary, "graphs"_a,
             "(JSON, sentences, failures) of (path, why it failed or \"\", retries) of each graph.");
  module.def(
      "parallel_compile_analysis", &analysis, "graphs"_a, "verbosity"_a,
      "(JSON, ops without a kernel, whether there are none) of (path, its coverage as JSON, why that is not "
      "known) of each graph.");
}

}  // namespace opentrn::python
