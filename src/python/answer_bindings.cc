#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>
#include <nlohmann/json.hpp>

#include "python/server_bindings.h"
#include "server/generation_report.h"
#include "server/program_sizes.h"
#include "server/settings.h"
#include "serving/answer_text.h"

namespace opentrn::python {

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using serving::AnswerText;
using serving::TextStream;

// decode(tokens) of a tokenizer, in Python.
serving::Decode decode_by(const nb::callable& decode) {
  return [decode](const std::vector<int32_t>& tokens) { return nb::cast<std::string>(decode(tokens)); };
}

using SizesTuple = std::tuple<std::vector<int32_t>, std::vector<int32_t>, std::vector<int32_t>>;
SizesTuple to_tuple(server::ProgramSizes sizes) {
  return {std::move(sizes.sequences), std::move(sizes.tokens), std::move(sizes.contexts)};
}

nlohmann::ordered_json parsed(const std::string& json) { return nlohmann::ordered_json::parse(json); }

nb::bytes as_bytes(const std::string& data) { return nb::bytes(data.data(), data.size()); }

}  // namespace

void bind_answers(nb::module_& module) {
  nb::class_<TextStream>(
      module, "TextStream",
      "Text of tokens that come one after the other: a character whose bytes are in several "
      "comes with the last. decode(tokens): of the tokenizer.")
      .def(
          "__init__",
          [](TextStream* self, const nb::callable& decode) { new (self) TextStream(decode_by(decode)); },
          "decode"_a)
      .def("add", &TextStream::add, "token"_a, "The text that one more token adds.")
      .def("rest", &TextStream::rest, "What was held back, as it is.");
  nb::class_<AnswerText>(
      module, "AnswerText",
      "What may be shown of an answer so far. Text that may become a stop string is held back.")
      .def(
          "__init__",
          [](AnswerText* self, const nb::callable& decode, std::vector<std::string> stop, bool keeps_stop,
             std::vector<int32_t> before) {
            new (self) AnswerText(decode_by(decode), std::move(stop), keeps_stop, std::move(before));
          },
          "decode"_a, "stop"_a, "keeps_stop"_a, "before"_a = std::vector<int32_t>())
      .def("add", &AnswerText::add, "token"_a, "The text to show after one more token.")
      .def("rest", &AnswerText::rest, "What is still held back, at the end.")
      .def_prop_ro("stopped", &AnswerText::stopped);
  module.def(
      "bytes_of_letters",
      [](std::string_view letters) { return as_bytes(serving::bytes_of_letters(letters)); }, "letters"_a);
  module.def(
      "bytes_of_piece", [](std::string_view piece) { return as_bytes(serving::bytes_of_piece(piece)); },
      "piece"_a);
  module.attr("BLOCK_TOKENS") = server::kBlockTokens;
  module.def(
      "program_sizes",
      [](int32_t context, int32_t sequences, int32_t guesses) {
        return to_tuple(server::program_sizes(context, sequences, guesses));
      },
      "context"_a, "sequences"_a, "guesses"_a = 0);
  module.def(
      "chosen_sizes",
      [](std::vector<int32_t> sequences, std::vector<int32_t> tokens, std::vector<int32_t> contexts,
         int32_t context, int32_t max_num_seqs) {
        return to_tuple(server::chosen_sizes({std::move(sequences), std::move(tokens), std::move(contexts)},
                                             context, max_num_seqs));
      },
      "sequences"_a, "tokens"_a, "contexts"_a, "context"_a, "max_num_seqs"_a);
  module.def(
      "check_server_settings",
      [](std::string policy, bool values, bool has_step_times, std::string quantization,
         std::string kv_cache_dtype, bool has_adapters, int64_t ranks, int64_t guesses) {
        server::check(server::Settings{std::move(policy), values, has_step_times, std::move(quantization),
                                       std::move(kv_cache_dtype), has_adapters, ranks, guesses});
      },
      nb::kw_only(), "policy"_a, "values"_a, "has_step_times"_a, "quantization"_a, "kv_cache_dtype"_a,
      "has_adapters"_a, "ranks"_a, "guesses"_a);
  module.def("whole_context", &server::whole_context, "asked"_a, "trained"_a);
  module.def(
      "generation_facts", [](const std::string& run) { return server::generation_facts(parsed(run)).dump(); },
      "run"_a);
  module.def(
      "generation_text", [](const std::string& run) { return server::generation_text(parsed(run)); },
      "run"_a);
}

}  // namespace opentrn::python
