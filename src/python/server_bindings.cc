#include "python/server_bindings.h"

#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "base/fault.h"
#include "base/random.h"
#include "base/text_file.h"
#include "python/unlocked.h"
#include "server/next_token.h"
#include "server/server.h"
#include "serving/buckets.h"
#include "serving/config.h"
#include "serving/step_times.h"

namespace opentrn::python {

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using decoder::SamplingParams;
using server::ModelWorker;
using server::Server;

constexpr const char* kFinishNames[] = {"", "stop", "length", "abort", "refused"};

std::shared_ptr<const serving::StepTimes> times_of(const std::string& linear, const std::string& table) {
  if (!linear.empty()) return serving::LinearTimes::parse(linear);
  if (table.empty()) return nullptr;
  expect_text_file(table, "serving.times", "a CSV of opentrn step-times");
  std::ifstream file(table);
  return serving::TableTimes::read(file, table);
}

template <typename T>
T taken(const nb::dict& from, const char* key) {
  return nb::cast<T>(from[key]);
}

serving::SchedulerConfig scheduler_of(const nb::dict& from) {
  serving::SchedulerConfig config;
  config.policy = serving::policy_of(taken<std::string>(from, "policy"));
  config.max_num_seqs = taken<int32_t>(from, "max_num_seqs");
  config.max_num_batched_tokens = taken<int32_t>(from, "max_num_batched_tokens");
  config.max_model_len = taken<int32_t>(from, "max_model_len");
  config.block_size = taken<int32_t>(from, "block_size");
  config.num_blocks = taken<int32_t>(from, "num_blocks");
  config.prefix_caching = taken<bool>(from, "prefix_caching");
  config.order = serving::order_of(taken<std::string>(from, "scheduling_policy"));
  config.max_loras = taken<int32_t>(from, "max_loras");
  config.long_prefill_token_threshold = taken<int32_t>(from, "long_prefill_token_threshold");
  config.num_batched_tokens_buckets = taken<std::vector<int32_t>>(from, "num_batched_tokens_buckets");
  config.num_seqs_buckets = taken<std::vector<int32_t>>(from, "num_seqs_buckets");
  config.decode_context_length_buckets = taken<std::vector<int32_t>>(from, "decode_context_length_buckets");
  return serving::completed(config);
}

server::ServerOptions options_of(const nb::dict& from) {
  server::ServerOptions options;
  options.scheduler = scheduler_of(from);
  options.clock = server::clock_of(taken<std::string>(from, "clock"));
  options.waiting_max = taken<int32_t>(from, "waiting_max");
  options.audit = taken<bool>(from, "audit");
  options.speculation = {taken<int64_t>(from, "guesses"), taken<int64_t>(from, "lookup_max"),
                         taken<int64_t>(from, "lookup_min")};
  return options;
}

serving::HostTimes host_of(const nb::dict& from) {
  return {serving::ps_of_us(taken<double>(from, "host_us")),
          serving::ps_of_us(taken<double>(from, "host_request_us"))};
}

std::unique_ptr<Server> model_server(decoder::Engine& engine, const nb::dict& from, const std::string& linear,
                                     const std::string& table, decoder::Engine* draft) {
  auto worker = std::make_unique<ModelWorker>(
      engine, times_of(linear, table), host_of(from),
      server::ModelOptions{taken<int64_t>(from, "guesses"),
                           decoder::choice_of_text(taken<std::string>(from, "on_device_sampling")), draft,
                           taken<bool>(from, "prefix_caching")});
  return std::make_unique<Server>(options_of(from), std::move(worker));
}

std::unique_ptr<Server> drawing_server(int32_t vocabulary, std::vector<int32_t> choices, const nb::dict& from,
                                       const std::string& linear, const std::string& table) {
  auto times = times_of(linear, table);
  if (!times)
    throw Fault(FaultKind::kInput, "serving.times", "a server without values has no times of steps",
                "--linear or --step-times");
  auto worker = std::make_unique<server::DrawingWorker>(vocabulary, std::move(choices), std::move(times),
                                                        host_of(from));
  return std::make_unique<Server>(options_of(from), std::move(worker));
}

using Mask = nb::ndarray<const uint32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
std::vector<uint32_t> words(const std::optional<Mask>& mask) {
  if (!mask) return {};
  return {mask->data(), mask->data() + mask->size()};
}

SamplingParams sampling_of(const nb::dict& from) {
  SamplingParams params;
  params.temperature = taken<double>(from, "temperature");
  params.top_k = taken<int32_t>(from, "top_k");
  params.top_p = taken<double>(from, "top_p");
  params.min_p = taken<double>(from, "min_p");
  params.repetition_penalty = taken<double>(from, "repetition_penalty");
  params.frequency_penalty = taken<double>(from, "frequency_penalty");
  params.presence_penalty = taken<double>(from, "presence_penalty");
  params.logprobs = taken<int32_t>(from, "logprobs");
  params.bias = taken<std::vector<std::pair<int32_t, float>>>(from, "bias");
  return params;
}

// New tokens of a sequence, how many came before them, and its blocks.
using SequenceTuple = std::tuple<std::vector<int32_t>, int32_t, std::vector<int32_t>>;

using Row = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
// (token, log probability, rank, [(token, log probability)]), by a scheduler of somebody else's.
nb::tuple choose_token(const Row& logits, const nb::dict& params, const std::vector<int32_t>& prompt,
                       const std::vector<int32_t>& output, const std::optional<Mask>& mask,
                       SplitMix64& draws) {
  const decoder::SampledToken made = decoder::sample(sampling_of(params), {logits.data(), logits.size()},
                                                     prompt, output, words(mask), draws);
  return nb::make_tuple(made.token, made.logprob, made.rank, made.top);
}

// On the device, with numbers of `draws`, one a sequence: (tokens, the largest logits), a row for each
// sequence or, with every_token, each new token. Of a choice that draws nothing, params and draws may be
// empty.
std::pair<std::vector<int32_t>, std::vector<float>> choose_tokens(
    decoder::Engine& engine, const std::vector<SequenceTuple>& sequences, const std::vector<nb::dict>& params,
    const std::vector<SplitMix64*>& draws, const std::string& choice, bool every_token) {
  const decoder::StepWish wish{.every_token = every_token, .choice = decoder::choice_of_text(choice)};
  const bool draws_some = wish.choice >= decoder::Choice::kDrawn;
  if (wish.choice == decoder::Choice::kHost ||
      (draws_some && (params.size() != sequences.size() || draws.size() != sequences.size())))
    throw Fault(FaultKind::kInput, "decoder.choice",
                fmt::format("tokens of {} sequences, chosen on the {}, by parameters of {} and draws of {}",
                            sequences.size(), choice, params.size(), draws.size()));
  std::vector<std::vector<decoder::SamplingRow>> rows(sequences.size());
  std::vector<decoder::SequenceStep> steps;
  for (size_t i = 0; i < sequences.size(); ++i) {
    const auto& [tokens, position, blocks] = sequences[i];
    for (size_t row = 0; draws_some && row < (every_token ? tokens.size() : 1); ++row)
      rows[i].push_back(
          decoder::sampling_row(sampling_of(params[i]), draws[i]->uniform(), engine.config().vocabulary));
    steps.push_back({tokens, position, blocks, {}, rows[i]});
  }
  const Unlocked unlocked;
  const decoder::StepResult result = engine.step(steps, wish);
  const size_t made = sequences.size() * (every_token ? 0 : 1);
  for (size_t i = 0; i < made; ++i)
    decoder::expect_token(result.tokens[i], result.largest_logits[i], engine.config().vocabulary);
  return {{result.tokens.begin(), result.tokens.end()},
          {result.largest_logits.begin(), result.largest_logits.end()}};
}

int64_t add(Server& self, std::vector<int32_t> prompt, const nb::dict& from,
            const std::optional<Mask>& mask) {
  server::JobParams params;
  params.prompt = std::move(prompt);
  params.max_tokens = taken<int32_t>(from, "max_tokens");
  params.min_tokens = taken<int32_t>(from, "min_tokens");
  params.stop_tokens = taken<std::vector<int32_t>>(from, "stop_tokens");
  params.seed = taken<uint64_t>(from, "seed");
  params.adapter = taken<int32_t>(from, "adapter");
  params.priority = taken<int64_t>(from, "priority");
  params.cache_salt = taken<std::string>(from, "cache_salt");
  params.allowed =
      server::mask_of(taken<std::vector<int32_t>>(from, "allowed_tokens"), self.worker().vocabulary());
  params.prompt_logprobs = taken<int32_t>(from, "prompt_logprobs");
  params.bad_words = taken<std::vector<std::vector<int32_t>>>(from, "bad_words");
  params.sampling = sampling_of(from);
  params.mask = words(mask);
  return self.add(std::move(params));
}

nb::dict to_python(const server::Ended& end) {
  nb::dict row;
  row["finish"] = kFinishNames[static_cast<size_t>(end.finish)];
  row["failure"] = end.failure;
  row["prompt_tokens"] = end.prompt_tokens;
  row["output_tokens"] = end.output_tokens;
  row["cached_tokens"] = end.cached_tokens;
  row["preemptions"] = end.preemptions;
  row["queue_s"] = end.queue_s;
  row["first_token_s"] = end.first_token_s;
  row["end_s"] = end.end_s;
  row["predicted_first_token_s"] = end.predicted_first_token_s;
  row["predicted_end_s"] = end.predicted_end_s;
  row["predicted_own_s"] = end.predicted_own_s;
  return row;
}

// (token, log probability, rank, [(token, log probability)])
nb::tuple to_python(const decoder::SampledToken& token) {
  return nb::make_tuple(token.token, token.logprob, token.rank, token.top);
}

// (request, token as above, those of the prompt, what became of it or None)
nb::tuple to_python(const server::TokenEvent& event) {
  nb::object end = nb::none();
  if (event.ended) end = to_python(event.end);
  nb::list prompt;
  for (const decoder::SampledToken& token : event.prompt) prompt.append(to_python(token));
  return nb::make_tuple(event.id, to_python(event.token), prompt, end);
}

// A step, or None where none could be taken.
nb::object step(Server& self, double patience_s, bool prepares) {
  server::StepReport report;
  bool taken_one = false;
  {
    const Unlocked unlocked;
    taken_one =
        self.step(std::chrono::milliseconds(static_cast<int64_t>(patience_s * 1e3)), prepares, report);
  }
  if (!taken_one) return nb::none();
  nb::list events;
  for (const server::TokenEvent& event : report.events) events.append(to_python(event));
  const serving::StepRecord& record = report.record;
  nb::dict row;
  row["events"] = events;
  row["program"] = report.program;
  row["phase"] = serving::to_string(record.phase);
  row["start_s"] = serving::seconds(record.start);
  row["end_s"] = serving::seconds(record.end);
  row["tokens"] = record.tokens;
  row["padded_tokens"] = record.padded_tokens;
  row["running"] = record.running;
  row["waiting"] = record.waiting;
  row["used_blocks"] = record.used_blocks;
  row["predicted_s"] = report.predicted_s;
  row["requests"] = report.requests;
  row["preempted"] = report.preempted;
  return row;
}

nb::dict stats_of(const Server& self) {
  const server::Stats stats = self.stats();
  nb::dict row;
  row["running"] = stats.running;
  row["waiting"] = stats.waiting;
  row["blocks"] = stats.blocks;
  row["used_blocks"] = stats.used_blocks;
  row["prefix_queries"] = stats.prefix_queries;
  row["prefix_hits"] = stats.prefix_hits;
  row["preemptions"] = stats.preemptions;
  row["programs"] = stats.programs;
  row["compile_s"] = stats.compile_s;
  row["predicted_s"] = stats.predicted_s;
  row["now_s"] = stats.now_s;
  row["steps"] = stats.totals.steps;
  row["prefill_padding"] = stats.totals.prefill_padded_tokens - stats.totals.prefill_tokens;
  row["drafts"] = stats.guesses.drafts;
  row["draft_tokens"] = stats.guesses.guessed;
  row["accepted_tokens"] = stats.guesses.right;
  row["accepted_by_place"] = stats.guesses.right_at;
  row["decode_padding"] = stats.totals.decode_padded_rows - stats.totals.decode_rows;
  return row;
}

}  // namespace

void bind_server(nb::module_& module) {
  module.def("power_of_two_sizes", &serving::power_of_two_buckets, "first"_a, "last"_a,
             "first, twice that, ... up to `last`, which is the last one.");
  // Random numbers of one request.
  nb::class_<SplitMix64>(module, "TokenDraws").def(nb::init<uint64_t>(), "seed"_a);
  module.def("choose_token", &choose_token, "logits"_a, "params"_a, "prompt"_a, "output"_a, "mask"_a.none(),
             "draws"_a);
  nb::class_<Server>(module, "Server")
      .def("add", &add, "prompt"_a, "params"_a, "mask"_a = nb::none())
      .def("abort", &Server::abort, "id"_a)
      .def("stats", &stats_of)
      .def("step", &step, "patience_s"_a, "prepares"_a)
      .def(
          "finish", [](Server& self, int64_t id) { return to_python(self.finish(id)); }, "id"_a)
      .def(
          "set_mask", [](Server& self, int64_t id, const Mask& mask) { self.set_mask(id, words(mask)); },
          "id"_a, "mask"_a)
      .def("prepare_one",
           [](Server& self) {
             const Unlocked unlocked;
             return self.prepare_one();
           })
      .def("audit", &Server::audit);
  module.def("model_server", &model_server, "engine"_a, "options"_a, "linear"_a, "table"_a,
             "draft"_a = nb::none(), nb::keep_alive<0, 1>(), nb::keep_alive<0, 5>());
  module.def("choose_tokens", &choose_tokens, "engine"_a, "sequences"_a, "params"_a, "draws"_a,
             "choice"_a = "likeliest", "every_token"_a = false);
  module.def("drawing_server", &drawing_server, "vocabulary"_a, "choices"_a, "options"_a, "linear"_a,
             "table"_a);
}

}  // namespace opentrn::python
