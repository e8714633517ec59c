#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "python/server_bindings.h"
#include "python/unlocked.h"
#include "server/foreign_steps.h"
#include "server/next_token.h"

namespace opentrn::python {

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using server::ForeignSteps;
using Mask = nb::ndarray<const uint32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// What an attribute of vLLM's SamplingParams says; nothing for None.
template <typename T>
std::optional<T> stated(nb::handle from, const char* name) {
  const nb::object value = nb::getattr(from, name, nb::none());
  if (value.is_none()) return std::nullopt;
  return nb::cast<T>(value);
}

// The tokens of sets, lists and tuples.
std::vector<int32_t> tokens_of(nb::handle from, const char* name) {
  std::vector<int32_t> tokens;
  if (const auto values = stated<nb::object>(from, name))
    for (const nb::handle value : *values) tokens.push_back(nb::cast<int32_t>(value));
  return tokens;
}

decoder::SamplingParams sampling_of(nb::handle from, int64_t vocabulary) {
  decoder::SamplingParams params;
  params.temperature = stated<double>(from, "temperature").value();
  params.top_k = stated<int32_t>(from, "top_k").value();
  params.top_p = stated<double>(from, "top_p").value();
  params.min_p = stated<double>(from, "min_p").value();
  params.repetition_penalty = stated<double>(from, "repetition_penalty").value();
  params.frequency_penalty = stated<double>(from, "frequency_penalty").value();
  params.presence_penalty = stated<double>(from, "presence_penalty").value();
  if (const auto bias = stated<nb::dict>(from, "logit_bias"))
    for (const auto& [token, value] : *bias)
      params.bias.emplace_back(nb::cast<int32_t>(token), nb::cast<float>(value));
  return server::sampling_of_vllm(std::move(params), stated<int32_t>(from, "logprobs"), vocabulary);
}

void add_to_steps(ForeignSteps& self, const std::string& name, std::vector<int32_t> prompt, nb::handle from,
                  const std::optional<uint64_t>& seed, double arrival_s) {
  server::JobParams params;
  params.prompt = std::move(prompt);
  params.sampling = sampling_of(from, self.vocabulary());
  params.stop_tokens = tokens_of(from, "all_stop_token_ids");
  params.min_tokens = stated<int32_t>(from, "min_tokens").value();
  params.allowed = server::mask_of(tokens_of(from, "allowed_token_ids"), self.vocabulary());
  if (const auto wanted = stated<int32_t>(from, "prompt_logprobs"))
    params.prompt_logprobs = *wanted < 0 ? static_cast<int32_t>(self.vocabulary()) : *wanted;
  params.has_grammar = stated<nb::object>(from, "structured_outputs").has_value();
  if (const auto words = stated<nb::object>(from, "bad_words_token_ids"))
    params.bad_words = nb::cast<std::vector<std::vector<int32_t>>>(*words);
  self.add(name, std::move(params), seed, arrival_s);
}

// (prompt's tokens, output's tokens, arrival, time of the first token, predicted time of its own steps)
std::optional<std::tuple<int32_t, int32_t, double, double, double>> end(ForeignSteps& self,
                                                                        const std::string& name) {
  const auto ended = self.end(name);
  if (!ended) return std::nullopt;
  return std::tuple(ended->prompt_tokens, ended->output_tokens, ended->arrival_s, ended->first_s,
                    ended->own_s);
}

// (predicted seconds, padded tokens of prompts, padded rows of decode)
std::tuple<double, int64_t, int64_t> run_steps(ForeignSteps& self,
                                               const std::vector<std::pair<std::string, int32_t>>& entries) {
  const Unlocked unlocked;
  const ForeignSteps::Ran ran = self.run(entries);
  return {ran.predicted_s, ran.prefill_padding, ran.decode_padding};
}

using SampleTuple =
    std::tuple<std::string, int32_t, double, int32_t, std::vector<std::pair<int32_t, double>>>;

// (request, token, its log probability, its rank, the likeliest tokens)
std::vector<SampleTuple> sample(ForeignSteps& self, const std::map<std::string, Mask>& masks, double now_s) {
  std::map<std::string, std::vector<uint32_t>> words;
  for (const auto& [name, mask] : masks)
    words.emplace(name, std::vector<uint32_t>(mask.data(), mask.data() + mask.size()));
  std::vector<SampleTuple> made;
  for (auto& [name, token] : self.sample(words, now_s))
    made.emplace_back(name, token.token, token.logprob, token.rank, std::move(token.top));
  return made;
}

using ScoreTuple = std::tuple<std::vector<int32_t>, std::vector<double>, int32_t>;

std::optional<std::vector<ScoreTuple>> prompt_scores(ForeignSteps& self, const std::string& name) {
  const auto scores = self.prompt_scores(name);
  if (!scores) return std::nullopt;
  std::vector<ScoreTuple> rows;
  for (size_t i = 1; i < scores->size(); ++i) {
    const decoder::SampledToken& token = (*scores)[i];
    auto& [tokens, values, rank] =
        rows.emplace_back(std::vector{token.token}, std::vector{token.logprob}, token.rank);
    for (const auto& [number, value] : token.top) {
      tokens.push_back(number);
      values.push_back(value);
    }
  }
  return rows;
}

}  // namespace

void bind_foreign_steps(nb::module_& module) {
  nb::class_<ForeignSteps>(module, "ForeignSteps")
      .def(
          "__init__",
          [](ForeignSteps* self, decoder::Engine& engine, const std::string& most, uint64_t seed) {
            new (self) ForeignSteps(engine, decoder::choice_of_text(most), seed);
          },
          "engine"_a, "on_device_sampling"_a, "seed"_a, nb::keep_alive<1, 2>())
      .def("add", &add_to_steps, "name"_a, "prompt"_a, "params"_a, "seed"_a.none(), "arrival_s"_a)
      .def("has", &ForeignSteps::has, "name"_a)
      .def("place", &ForeignSteps::place, "name"_a, "blocks"_a, "computed"_a)
      .def(
          "grow",
          [](ForeignSteps& self, const std::string& name, const std::vector<int32_t>& blocks,
             int32_t computed) { self.grow(name, blocks, computed); },
          "name"_a, "blocks"_a, "computed"_a)
      .def("end", &end, "name"_a)
      .def("run", &run_steps, "entries"_a)
      .def("sample", &sample, "masks"_a, "now_s"_a)
      .def(
          "prepare",
          [](ForeignSteps& self, int64_t tokens) {
            const Unlocked unlocked;
            self.prepare(tokens);
          },
          "tokens"_a)
      .def("logprobs", &ForeignSteps::logprobs)
      .def("prompt_scores", &prompt_scores, "name"_a,
           "Of each token of a prompt but the first: tokens (itself, then the likeliest), log probabilities, "
           "rank. "
           "None before all of it is computed, and after it was told.")
      .def_prop_ro("programs", &ForeignSteps::programs)
      .def_prop_ro("compile_s", &ForeignSteps::compile_seconds);
}

}  // namespace opentrn::python
