#include "python/api_bindings.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "server/api/exchanges.h"

namespace opentrn::python {

namespace nb = nanobind;
using namespace nb::literals;
using namespace server::api;

namespace {

// (token, log probability, rank, [(token, log probability)])
using TokenTuple = std::tuple<int32_t, double, int32_t, std::vector<std::pair<int32_t, double>>>;

nb::bytes bytes_of(const std::string& text) { return nb::bytes(text.data(), text.size()); }

Shown shown_by(nb::object function) {
  return [function = std::move(function)](int32_t token) {
    const nb::tuple row = nb::cast<nb::tuple>(function(token));
    const nb::bytes bytes = nb::cast<nb::bytes>(row[1]);
    return std::pair(nb::cast<std::string>(row[0]), std::string(bytes.c_str(), bytes.size()));
  };
}

std::optional<AnswerEnd> end_of(const nb::handle& row) {
  if (row.is_none()) return std::nullopt;
  return AnswerEnd{nb::cast<int32_t>(row["cached_tokens"]), nb::cast<double>(row["predicted_first_token_s"]),
                   nb::cast<double>(row["predicted_end_s"]), nb::cast<double>(row["predicted_own_s"])};
}

std::vector<ScoredToken> tokens_of(const std::vector<TokenTuple>& rows) {
  std::vector<ScoredToken> tokens;
  for (const auto& [number, logprob, rank, top] : rows) tokens.push_back({number, logprob, top, rank});
  return tokens;
}

nb::bytes take(Exchange& self, size_t answer, std::string text, const std::vector<TokenTuple>& tokens,
               std::string finish, const nb::object& stop_reason, const nb::object& end,
               const std::vector<TokenTuple>& prompt) {
  AnswerDelta delta{std::move(text), tokens_of(tokens), std::move(finish), {},
                    end_of(end),     tokens_of(prompt)};
  if (nb::isinstance<nb::str>(stop_reason))
    delta.stop_reason = nb::cast<std::string>(stop_reason);
  else if (!stop_reason.is_none())
    delta.stop_reason = nb::cast<int64_t>(stop_reason);
  return bytes_of(self.take(answer, std::move(delta)));
}

nb::list texts_of(const std::vector<Json>& rows) {
  nb::list texts;
  for (const Json& row : rows) texts.append(text_of(row));
  return texts;
}

nb::dict predicted_of(const Exchange& self) {
  nb::dict row;
  const Json times = self.predicted();
  for (const auto& [name, value] : times.items()) row[name.c_str()] = value.get<double>();
  return row;
}

void bind_exchange(nb::module_& module) {
  nb::class_<Exchange>(module, "ApiExchange")
      .def_prop_ro(
          "inputs", [](const Exchange& self) { return texts_of(self.inputs()); },
          "Each prompt as JSON: what the template takes, a text, or tokens.")
      .def_prop_ro("grammar",
                   [](const Exchange& self) -> std::optional<std::pair<std::string, std::string>> {
                     if (!self.grammar()) return std::nullopt;
                     return std::pair(self.grammar()->first, text_of(self.grammar()->second));
                   })
      .def_prop_ro("streams", &Exchange::streams)
      .def("kept_tokens", &Exchange::kept_tokens, "count"_a,
           "The first of so many tokens of a prompt that is kept, and the first behind them that is not")
      .def_prop_ro("echoes", &Exchange::echoes)
      .def(
          "plan",
          [](Exchange& self, const std::vector<int64_t>& prompt_tokens,
             const std::vector<std::string>& texts) {
            std::vector<std::pair<size_t, std::string>> rows;
            for (const auto& [prompt, params] : self.plan(prompt_tokens, texts))
              rows.emplace_back(prompt, text_of(params));
            return rows;
          },
          "prompt_tokens"_a, "texts"_a,
          "For each answer the place of its prompt, and its parameters as JSON. texts: of prompts that a "
          "template wrote, else \"\".")
      .def(
          "begin",
          [](Exchange& self, const std::vector<std::string>& echoed) { return bytes_of(self.begin(echoed)); },
          "echoed"_a)
      .def("take", &take, "answer"_a, "text"_a, "tokens"_a, "finish"_a, "stop_reason"_a.none(),
           "end"_a.none(), "prompt"_a = nb::list(), "What a step gave to an answer; events of the stream.")
      .def("close", [](Exchange& self) { return bytes_of(self.close()); })
      .def(
          "failed",
          [](Exchange& self, const std::string& error) { return bytes_of(self.failed(Json::parse(error))); },
          "error"_a, "Of OpenAI's error object, as JSON.")
      .def("whole", [](Exchange& self) { return bytes_of(text_of(self.whole())); })
      .def_prop_ro("predicted", &predicted_of, "Milliseconds of device time by what they are of.");
}

}  // namespace

void bind_api(nb::module_& module) {
  nb::object refusal = nb::steal(PyErr_NewException("opentrn._core.ApiRefusal", PyExc_Exception, nullptr));
  module.attr("ApiRefusal") = refusal;
  nb::register_exception_translator(
      [](const std::exception_ptr& thrown, void* type) {
        try {
          std::rethrow_exception(thrown);
        } catch (const Refusal& refused) {
          const auto or_none = [](const std::string& text) {
            return text.empty() ? nb::object(nb::none()) : nb::cast(text);
          };
          const nb::tuple fields =
              nb::make_tuple(refused.status, refused.what(), or_none(refused.param), or_none(refused.code));
          PyErr_SetObject(static_cast<PyObject*>(type), fields.ptr());
        }
      },
      refusal.ptr());
  nb::class_<ServedModel>(module, "ServedModel")
      .def(
          "__init__",
          [](ServedModel* self, const std::string& facts) {
            new (self) ServedModel(served_model(Json::parse(facts)));
          },
          "facts"_a)
      .def_prop_ro("answer_format", [](const ServedModel& self) { return to_string(self.answers); })
      .def(
          "expect", [](const ServedModel& self, const std::string& name) { expect_model(self, name); },
          "name"_a, "Raises ApiRefusal for another model than this one, and none of its adapters.");
  nb::class_<ResponseStore>(module, "ResponseStore")
      .def(nb::init<size_t>(), "most"_a)
      .def(
          "get",
          [](const ResponseStore& self, const std::string& id) {
            return bytes_of(text_of(self.get(id).response));
          },
          "id"_a)
      .def("remove", &ResponseStore::remove, "id"_a);
  bind_exchange(module);
  module.def(
      "open_exchange",
      [](const std::string& kind, const ServedModel& served, const std::string& body, nb::object shown,
         ResponseStore& store) {
        return open_exchange(kind, served, Json::parse(body), shown_by(std::move(shown)), store);
      },
      "kind"_a, "served"_a, "body"_a, "shown"_a, "store"_a, nb::keep_alive<0, 2>(), nb::keep_alive<0, 5>(),
      "A request of chat, completions, messages or responses, as JSON. shown: the text and the bytes of a "
      "token.");
  module.def("without_end", &without_end, "prompt"_a, "last"_a,
             "A conversation as its template wrote it, up to the end of the text of its last message.");
  module.def(
      "prompts_of",
      [](const std::string& prompt, const std::string& param) {
        return texts_of(prompts_of(Json::parse(prompt), param));
      },
      "prompt"_a, "param"_a, "Texts and lists of tokens of OpenAI's `prompt` or `input`, as JSON.");
}

}  // namespace opentrn::python
