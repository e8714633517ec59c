#include <algorithm>

#include <fmt/format.h>

#include "server/api/exchanges.h"

namespace opentrn::server::api {

OpenAi::OpenAi(const ServedModel& served, Json body, Shown shown, const Form& form)
    : Exchange(served, std::move(body), std::move(shown)),
      form_(form),
      id_(field(body_, "request_id").is_string() ? form.id + text_field("request_id") : new_id(form.id)) {}

std::string OpenAi::begin(const std::vector<std::string>& echoed) {
  echoed_ = echoed;
  std::string events;
  for (size_t i = 0; i < answers_.size(); ++i)
    if (Json choice = first_choice(i); !choice.is_null()) events += chunk(std::move(choice));
  return events;
}

Json OpenAi::whole() {
  Json row = head(form_.whole, false), choices = Json::array();
  for (size_t i = 0; i < answers_.size(); ++i) choices.push_back(whole_choice(i));
  row["choices"] = std::move(choices);
  row["usage"] = usage();
  if (form_.has_service_tier) row["service_tier"] = "default";
  row["system_fingerprint"] = fingerprint();
  return row;
}

std::optional<int64_t> OpenAi::most_tokens(int64_t) const {
  for (const char* name : {"max_completion_tokens", "max_tokens"})
    if (const Json& stated = field(body_, name); !stated.is_null()) return stated.get<int64_t>();
  return std::nullopt;
}

Json OpenAi::usage() const {
  Json row{{"prompt_tokens", prompt_tokens()},
           {"completion_tokens", given_tokens()},
           {"total_tokens", prompt_tokens() + given_tokens()},
           {"prompt_tokens_details", {{"cached_tokens", cached_tokens()}, {"audio_tokens", 0}}},
           {"completion_tokens_details",
            {{"reasoning_tokens", reasoning_tokens()},
             {"audio_tokens", 0},
             {"accepted_prediction_tokens", 0},
             {"rejected_prediction_tokens", 0}}}};
  if (Json times = predicted(); !times.empty()) row["predicted_device_time"] = std::move(times);
  return row;
}

Json OpenAi::head(const char* object, bool fingerprinted) const {
  Json row{{"id", id_}, {"object", object}, {"created", created_}, {"model", field(body_, "model")}};
  if (fingerprinted) row["system_fingerprint"] = fingerprint();
  return row;
}

std::string OpenAi::chunk(Json choice) const {
  Json row = head(form_.chunk, form_.chunks_have_fingerprint);
  row["choices"] = Json::array({std::move(choice)});
  if (tells_usage()) row["usage"] = tells_usage_always() ? usage() : Json();
  return event(row);
}

std::string OpenAi::close() {
  std::string events;
  if (tells_usage()) {
    Json row = head(form_.chunk, form_.chunks_have_fingerprint);
    row["choices"] = Json::array();
    row["usage"] = usage();
    events = event(row);
  }
  return events + "data: [DONE]\n\n";
}

void OpenAi::expect_stream() const {
  if (streams() && prompt_logprobs() >= 0)
    throw Refusal(400, "log probabilities of the prompt are not streamed", "prompt_logprobs");
  if (!field(body_, "stream_options").is_null() && !streams())
    throw Refusal(400, "stream_options needs stream", "stream_options");
}

std::optional<Grammar> OpenAi::structured_outputs() const {
  const Json& outputs = field(body_, "structured_outputs");
  if (outputs.is_null()) return std::nullopt;
  std::vector<std::string> given;
  for (const char* kind : {"json", "regex", "choice", "grammar", "json_object"})
    if (const Json& value = field(outputs, kind); !value.is_null() && value != false)
      given.emplace_back(kind);
  if (given.size() != 1)
    throw Refusal(400, fmt::format("structured_outputs has {} kinds; give one", given.size()),
                  "structured_outputs");
  const std::string& kind = given[0];
  const Json& value = field(outputs, kind);
  if (kind == "json_object") return Grammar("json", Json{{"type", "object"}});
  if (kind != "json" || !value.is_string()) return Grammar(kind == "grammar" ? "lark" : kind, value);
  try {
    return Grammar("json", Json::parse(value.get<std::string>()));
  } catch (const Json::parse_error& error) {
    throw Refusal(400, fmt::format("structured_outputs.json is not JSON: {}", error.what()),
                  "structured_outputs");
  }
}

std::optional<Grammar> OpenAi::grammar_of_format() const {
  const Json& format = field(body_, "response_format");
  const Json object{{"type", "object"}};
  if (field(format, "type") == "json_object") return Grammar("json", object);
  if (field(format, "type") == "json_schema") {
    const Json& schema = field(format["json_schema"], "schema");
    return Grammar("json", schema.empty() ? object : schema);
  }
  return structured_outputs();
}

std::string OpenAi::shown_text(int32_t token) const {
  return flag("return_tokens_as_token_ids") ? fmt::format("token_id:{}", token) : shown_(token).first;
}

void OpenAi::add_prompt_logprobs(Json& choice, const Answer& answer) const {
  if (field(body_, "prompt_logprobs").is_null()) return;
  Json rows = Json::array();
  for (const ScoredToken& token : answer.prompt_scores) {
    Json row;  // null for the first token
    const auto add = [&](int32_t number, double logprob, int64_t rank) {
      row[std::to_string(number)] = {{"logprob", std::max(logprob, kLeastLogprob)},
                                     {"rank", rank},
                                     {"decoded_token", shown_(number).first}};
    };
    if (token.rank > 0) add(token.number, token.logprob, token.rank);
    for (size_t i = 0; i < token.top.size(); ++i)
      add(token.top[i].first, token.top[i].second, static_cast<int64_t>(i) + 1);
    rows.push_back(std::move(row));
  }
  choice["prompt_logprobs"] = std::move(rows);
}

void OpenAi::add_token_ids(Json& choice, const std::vector<ScoredToken>& tokens) const {
  if (!flag("return_token_ids")) return;
  Json ids = Json::array();
  for (const ScoredToken& token : tokens) ids.push_back(token.number);
  choice["token_ids"] = std::move(ids);
}

}  // namespace opentrn::server::api
