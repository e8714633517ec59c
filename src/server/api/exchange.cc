#include "server/api/exchange.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>
#include <numeric>
#include <random>

#include <fmt/format.h>

#include "base/fault.h"
#include "server/api/exchanges.h"

namespace opentrn::server::api {

namespace {

using Kind = serving::AnswerPart::Kind;

constexpr double kTemperature = 1.0;  // where neither a request nor the server says one: vLLM's
constexpr size_t kPromptsMax = 128;

uint64_t seed_of(const Json& stated) {
  if (stated.is_number_integer()) return static_cast<uint64_t>(stated.get<int64_t>());
  thread_local std::random_device random;
  return uint64_t{random()} << 32 | random();
}

// Of a token number that fits JobParams.
bool is_token(const Json& item) {
  return item.is_number_integer() && item.get<int64_t>() >= 0 && item.get<int64_t>() < int64_t{1} << 31;
}

double milliseconds(double seconds) { return std::round(seconds * 1e9) / 1e6; }

}  // namespace

int64_t now_s() {
  using namespace std::chrono;
  return duration_cast<seconds>(system_clock::now().time_since_epoch()).count();
}

ServedModel served_model(const Json& facts) {
  ServedModel served;
  served.name = facts["name"];
  for (const auto& [name, number] : facts["adapters"].items()) served.adapters[name] = number;
  served.context = facts["context"];
  served.defaults = facts["defaults"];
  served.stop_tokens = facts["stop_tokens"].get<std::vector<int32_t>>();
  served.structured = facts["structured"];
  served.max_logprobs = facts["max_logprobs"];
  served.template_variables = facts["template_variables"];
  served.by_priority = facts["by_priority"];
  served.version = facts["version"];
  const std::string text = facts["template"];
  const auto has = [&](std::string_view word) { return text.find(word) != std::string::npos; };
  served.answers = answer_format(text, facts["reasoning_parser"].get<std::string>(),
                                 facts["tool_call_parser"].get<std::string>(),
                                 facts["special_tokens"].get<std::vector<std::string>>());
  served.chat_template = {!text.empty(), has("tools"), has("tool_calls"), has("System role not supported")};
  return served;
}

void expect_model(const ServedModel& served, std::string_view name) {
  if (name != served.name && !served.adapters.contains(std::string(name)))
    throw Refusal(404, fmt::format("The model `{}` does not exist.", name), "model", "model_not_found");
}

Exchange::Exchange(const ServedModel& served, Json body, Shown shown)
    : served_(served), body_(std::move(body)), shown_(std::move(shown)), created_(now_s()) {
  expect_model(served_, text_field("model"));
}

int64_t Exchange::count_field(std::string_view name, int64_t usual) const {
  const Json& stated = field(body_, name);
  return stated.is_null() ? usual : stated.get<int64_t>();
}

Json Exchange::stop_strings() const {
  const Json& stop = field(body_, "stop");
  if (stop.is_string()) return Json::array({stop});
  return stop.is_null() ? Json::array() : stop;
}

Json Exchange::params_of(int64_t prompt_tokens) const {
  const int64_t left = served_.context - prompt_tokens;
  if (left < 1)
    throw Refusal(400,
                  fmt::format("This model's maximum context length is {} tokens, and the prompt has {}.",
                              served_.context, prompt_tokens),
                  "messages", "context_length_exceeded");
  const std::optional<int64_t> stated = most_tokens(prompt_tokens);
  if (stated && *stated > left)
    throw Refusal(
        400,
        fmt::format("max_tokens is {}; the model has {} positions, and the prompt takes {} of them.", *stated,
                    served_.context, prompt_tokens),
        "max_tokens", "context_length_exceeded");
  const auto value = [&](std::string_view name, double usual) {
    const Json& given = field(body_, name);
    const Json& chosen = given.is_null() ? field(served_.defaults, name) : given;
    return chosen.is_null() ? usual : chosen.get<double>();
  };
  const auto penalty = [&](std::string_view name) {
    const Json& given = field(body_, name);
    return given.is_null() ? 0.0 : given.get<double>();
  };
  const Json& usual = field(served_.defaults, "max_tokens");
  const int64_t asked = stated ? *stated : usual.is_null() ? left : usual.get<int64_t>();
  Json stop_tokens = Json::array();
  if (const Json& own = field(body_, "stop_token_ids"); own.is_array()) stop_tokens = own;
  if (!flag("ignore_eos"))
    for (const int32_t token : served_.stop_tokens) stop_tokens.push_back(token);
  Json bias = Json::array();
  if (const Json& given = field(body_, "logit_bias"); given.is_object())
    for (const auto& [token, amount] : given.items())
      bias.push_back(Json::array({std::stoll(token), amount.get<double>()}));
  const auto adapter = served_.adapters.find(text_field("model"));
  const int64_t priority = count_field("priority", 0);
  if (priority != 0 && !served_.by_priority)
    throw Refusal(400,
                  "this server takes requests as they come; --scheduling-policy priority goes by priorities",
                  "priority");
  const Json &salt = field(body_, "cache_salt"), &bad_words = field(body_, "bad_words"),
             &allowed = field(body_, "allowed_token_ids");
  if (allowed.is_array() && allowed.empty())
    throw Refusal(400, "allowed_token_ids is empty", "allowed_token_ids");
  return Json{{"max_tokens", std::min(left, asked)},
              {"min_tokens", count_field("min_tokens", 0)},
              {"stop", stop_strings()},
              {"stop_tokens", stop_tokens},
              {"include_stop", flag("include_stop_str_in_output")},
              {"seed", seed_of(field(body_, "seed"))},
              {"temperature", value("temperature", kTemperature)},
              {"top_k", std::max<int64_t>(0, static_cast<int64_t>(value("top_k", 0)))},
              {"top_p", value("top_p", 1)},
              {"min_p", value("min_p", 0)},
              {"repetition_penalty", value("repetition_penalty", 1)},
              {"frequency_penalty", penalty("frequency_penalty")},
              {"presence_penalty", penalty("presence_penalty")},
              {"logprobs", logprobs()},
              {"prompt_logprobs", prompt_logprobs()},
              {"bias", bias},
              {"adapter", adapter == served_.adapters.end() ? 0 : adapter->second},
              {"priority", priority},
              {"cache_salt", salt.is_string() ? salt : Json("")},
              {"bad_words", bad_words.is_array() ? bad_words : Json::array()},
              {"allowed_tokens", allowed.is_array() ? allowed : Json::array()},
              {"markers", (reads_marks() && served_.answers.has_markers) ||
                              field(body_, "skip_special_tokens") == false}};
}

std::pair<int64_t, int64_t> Exchange::kept_tokens(int64_t count) const {
  const Json& stated = field(body_, "truncate_prompt_tokens");
  if (stated.is_null()) return {0, count};
  const int64_t kept = std::min(count, stated == -1 ? served_.context - 1 : stated.get<int64_t>());
  return field(body_, "truncation_side") == "right" ? std::pair{int64_t{0}, kept}
                                                    : std::pair{count - kept, count};
}

std::vector<std::pair<size_t, Json>> Exchange::plan(const std::vector<int64_t>& prompt_tokens,
                                                    const std::vector<std::string>& texts) {
  prompt_tokens_ = prompt_tokens;
  std::vector<std::pair<size_t, Json>> rows;
  for (size_t prompt = 0; prompt < prompt_tokens.size(); ++prompt) {
    if (prompt_tokens[prompt] == 0 && !converses()) throw Refusal(400, "a prompt has no tokens", "prompt");
    const Json params = params_of(prompt_tokens[prompt]);
    if (prompt == 0) params_ = params;
    for (int64_t i = 0; i < count_field("n", 1); ++i) {
      rows.emplace_back(prompt, params);
      rows.back().second["seed"] = params["seed"].get<uint64_t>() + static_cast<uint64_t>(i);
      answers_.push_back({prompt, reader_of(reads_marks() ? served_.answers : AnswerFormat(), tools_.forced(),
                                            tools_.open(), texts.at(prompt))});
    }
  }
  if (grammar_ && !served_.structured)
    throw Refusal(400, "this server takes no structured output (enable_structured_outputs is false)");
  if (const int64_t most = std::max(logprobs(), prompt_logprobs()); most > served_.max_logprobs)
    throw Refusal(400, fmt::format("{} logprobs; {} are the most", most, served_.max_logprobs), "logprobs");
  return rows;
}

std::string Exchange::take(size_t index, AnswerDelta delta) {
  Answer& answer = answers_.at(index);
  std::ranges::copy(delta.tokens, std::back_inserter(answer.tokens));
  if (!delta.prompt.empty()) answer.prompt_scores = std::move(delta.prompt);
  serving::AnswerParts parts = answer.reader->add(delta.text);
  if (answer.reader->thinks()) answer.reasoning_tokens += std::ssize(delta.tokens);
  if (delta.end) {
    std::ranges::move(answer.reader->rest(), std::back_inserter(parts));
    answer.finish = answer.reader->calls() > 0 && delta.finish == "stop" ? "tool_calls" : delta.finish;
    answer.end = delta.end;
    answer.stop_reason = std::move(delta.stop_reason);
  }
  std::ranges::move(delta.tokens, std::back_inserter(answer.waiting));
  std::string events;
  for (serving::AnswerPart& part : parts) {
    Part row{part.kind, std::move(part.text), std::nullopt, std::exchange(answer.waiting, {})};
    if (part.kind == Kind::kCall) {
      row.call =
          call_of({part.kind, std::exchange(row.text, {}), std::move(part.name), std::move(part.values)},
                  tools_.list);
      // Mistral's templates refuse ids that are not nine letters and digits.
      if (served_.answers.calls == serving::CallForm::kMistral) row.call->id = new_id("").substr(0, 9);
      answer.calls.push_back(*row.call);
    } else {
      (part.kind == Kind::kThought ? answer.reasoning : answer.text) += row.text;
    }
    events += told(index, row);
  }
  if (answer.end) events += told_end(index);
  return events;
}

std::string Exchange::failed(const Json& error) { return event(Json{{"error", error}}); }

Json Exchange::predicted() const {
  Json row = Json::object();
  for (const Answer& answer : answers_) {
    if (!answer.end) continue;
    const bool is_first = row.empty();
    const auto note = [&](const char* name, double seconds, bool least) {
      const double own = milliseconds(seconds), known = is_first ? own : row[name].get<double>();
      row[name] = least ? std::min(known, own) : std::max(known, own);
    };
    note("first_token_ms", answer.end->first_token_s, true);
    note("total_ms", answer.end->end_s, false);
    note("own_steps_ms", answer.end->own_s, false);
  }
  return row;
}

int64_t Exchange::prompt_tokens() const {
  return std::accumulate(prompt_tokens_.begin(), prompt_tokens_.end(), int64_t{0});
}

int64_t Exchange::cached_tokens() const {
  int32_t most = 0;
  for (const Answer& answer : answers_)
    if (answer.end) most = std::max(most, answer.end->cached_tokens);
  return most;
}

int64_t Exchange::given_tokens() const {
  int64_t given = 0;
  for (const Answer& answer : answers_) given += std::ssize(answer.tokens);
  return given;
}

int64_t Exchange::reasoning_tokens() const {
  int64_t given = 0;
  for (const Answer& answer : answers_) given += answer.reasoning_tokens;
  return given;
}

std::string Exchange::event(const Json& row) const {
  return streams() ? fmt::format("data: {}\n\n", text_of(row)) : "";
}

std::string Exchange::named_event(const Json& row) const {
  const Json& type = field(row, "type");
  return streams()
             ? fmt::format("event: {}\n{}", type.is_string() ? type.get<std::string>() : "error", event(row))
             : "";
}

std::string Exchange::in_order(std::initializer_list<std::string> events) {
  return fmt::format("{}", fmt::join(events, ""));
}

std::unique_ptr<Exchange> open_exchange(std::string_view kind, const ServedModel& served, Json body,
                                        Shown shown, ResponseStore& store) {
  if (kind == "chat") return open_chat(served, std::move(body), std::move(shown));
  if (kind == "completions") return open_completion(served, std::move(body), std::move(shown));
  if (kind == "messages") return open_messages(served, std::move(body), std::move(shown));
  OPENTRN_CHECK(kind == "responses", "no API is called {}", kind);
  return open_responses(served, std::move(body), std::move(shown), store);
}

std::vector<Json> prompts_of(const Json& prompt, const std::string& param) {
  const bool is_list = prompt.is_array();
  const bool is_one = !is_list || (!prompt.empty() && std::ranges::all_of(prompt, &Json::is_number_integer));
  const std::vector<Json> listed = is_one ? std::vector{prompt} : prompt.get<std::vector<Json>>();
  if (listed.empty() || listed.size() > kPromptsMax)
    throw Refusal(400, fmt::format("{} prompts; 1 to {} are taken at once", listed.size(), kPromptsMax),
                  param);
  for (const Json& item : listed)
    if (!item.is_string() && !(item.is_array() && std::ranges::all_of(item, is_token)))
      throw Refusal(400, "a prompt is a text or a list of tokens", param);
  return listed;
}

}  // namespace opentrn::server::api
