// OpenAI's chat completions, with vLLM's additions.
#include <algorithm>

#include <fmt/format.h>

#include "server/api/exchanges.h"

namespace opentrn::server::api {

namespace {

using Kind = serving::AnswerPart::Kind;

Message message_of(const Json& row) {
  const auto text = [&](const char* name) {
    const Json& stated = field(row, name);
    return stated.is_string() ? stated.get<std::string>() : std::string();
  };
  Message message{.role = row["role"],
                  .content = joined_text(field(row, "content")),
                  .reasoning = text("reasoning"),
                  .call_id = text("tool_call_id"),
                  .name = text("name")};
  if (message.reasoning.empty()) message.reasoning = text("reasoning_content");
  for (const Json& call : field(row, "tool_calls"))
    message.calls.push_back({call["function"]["name"], call["function"]["arguments"], call["id"]});
  return message;
}

Json row_of(const Call& call) {
  return Json{{"id", call.id},
              {"type", "function"},
              {"function", {{"name", call.name}, {"arguments", call.arguments}}}};
}

class Chat : public OpenAi {
 public:
  Chat(const ServedModel& served, Json body, Shown shown)
      : OpenAi(served, std::move(body), std::move(shown), kForm) {
    if (!field(body_, "top_logprobs").is_null() && !flag("logprobs"))
      throw Refusal(400, "top_logprobs needs logprobs", "top_logprobs");
    expect_stream();
    tools_ = tools_of_body();
    grammar_ = grammar_of_body();
    std::vector<Message> messages;
    for (const Json& row : body_["messages"]) messages.push_back(message_of(row));
    inputs_ = {conversation(messages, tools_, served.chat_template, wish_of_body())};
  }

 protected:
  Json first_choice(size_t answer) override {
    return choice_of(answer, {{"role", "assistant"}, {"content", ""}, {"refusal", nullptr}}, nullptr, {});
  }
  int64_t logprobs() const override { return flag("logprobs") ? count_field("top_logprobs", 0) : -1; }

  std::string told(size_t answer, const Part& part) override {
    Json delta;
    if (part.call) {
      Json row{{"index", answers_[answer].calls.size() - 1}};
      row.update(row_of(*part.call));
      delta = Json{{"tool_calls", Json::array({row})}};
    } else {
      delta = Json{{part.kind == Kind::kThought ? "reasoning" : "content", part.text}};
    }
    return chunk(choice_of(answer, std::move(delta), nullptr, part.tokens));
  }
  std::string told_end(size_t answer) override {
    return chunk(choice_of(answer, Json::object(), answers_[answer].finish, {}));
  }

 private:
  static constexpr Form kForm{.id = "chatcmpl-",
                              .whole = "chat.completion",
                              .chunk = "chat.completion.chunk",
                              .chunks_have_fingerprint = true,
                              .has_service_tier = true};

  TemplateWish wish_of_body() const {
    TemplateWish wish{.variables = served_.template_variables};
    if (const Json& own = field(body_, "chat_template_kwargs"); own.is_object()) wish.variables.update(own);
    for (const char* name : {"reasoning_effort", "documents"})
      if (const Json& stated = field(body_, name); !stated.is_null()) wish.variables[name] = stated;
    wish.continues_last = flag("continue_final_message");
    const Json& begins = field(body_, "add_generation_prompt");
    wish.begins_answer = begins.is_null() ? !wish.continues_last : begins == true;
    if (wish.continues_last && wish.begins_answer)
      throw Refusal(400, "continue_final_message and add_generation_prompt are both true",
                    "continue_final_message");
    return wish;
  }

  Tools tools_of_body() const {
    Tools tools;
    for (const Json& tool : field(body_, "tools")) {
      const Json& function = tool["function"];
      const Json &described = field(function, "description"), &parameters = field(function, "parameters");
      tools.list.push_back(
          {{"name", function["name"]},
           {"description", described.is_null() ? Json("") : described},
           {"parameters",
            parameters.empty() ? Json{{"type", "object"}, {"properties", Json::object()}} : parameters}});
    }
    const Json& choice = field(body_, "tool_choice");
    tools.choice = choice.is_object()   ? choice["function"]["name"].get<std::string>()
                   : choice.is_string() ? choice.get<std::string>()
                   : tools.list.empty() ? "none"
                                        : "auto";
    if (choice.is_object()) return tools;
    if (tools.choice != "auto" && tools.choice != "none" && tools.choice != "required")
      throw Refusal(400, fmt::format("tool_choice is '{}': auto, none, required or a function", tools.choice),
                    "tool_choice");
    if (tools.list.empty() && tools.choice == "required")
      throw Refusal(400, "tool_choice is 'required', and there are no tools", "tool_choice");
    return tools;
  }

  std::optional<Grammar> grammar_of_body() const {
    if (const auto schema = schema_of_call(tools_)) return Grammar("json", *schema);
    return grammar_of_format();
  }

  Json scored(int32_t number, double logprob) const {
    Json values = Json::array();
    for (const char byte : shown_(number).second) values.push_back(static_cast<uint8_t>(byte));
    return Json{
        {"token", shown_text(number)}, {"logprob", std::max(logprob, kLeastLogprob)}, {"bytes", values}};
  }

  Json logprobs_of(const std::vector<ScoredToken>& tokens) const {
    if (!flag("logprobs")) return nullptr;
    Json rows = Json::array();
    for (const ScoredToken& token : tokens) {
      if (std::ranges::find(served_.stop_tokens, token.number) != served_.stop_tokens.end()) continue;
      Json row = scored(token.number, token.logprob), top = Json::array();
      for (const auto& [number, logprob] : token.top) top.push_back(scored(number, logprob));
      row["top_logprobs"] = std::move(top);
      rows.push_back(std::move(row));
    }
    return Json{{"content", rows}, {"refusal", nullptr}};
  }

  Json choice_of(size_t answer, Json delta, const Json& finish,
                 const std::vector<ScoredToken>& tokens) const {
    Json choice{{"index", answer},
                {"delta", std::move(delta)},
                {"finish_reason", finish},
                {"logprobs", tokens.empty() ? Json() : logprobs_of(tokens)}};
    add_token_ids(choice, tokens);
    return choice;
  }

  Json whole_choice(size_t index) override {
    const Answer& answer = answers_[index];
    Json message{{"role", "assistant"},
                 {"content", answer.text},
                 {"refusal", nullptr},
                 {"annotations", Json::array()}};
    if (!answer.reasoning.empty()) message["reasoning"] = answer.reasoning;
    if (!answer.calls.empty()) {
      if (answer.text.empty()) message["content"] = nullptr;
      Json calls = Json::array();
      for (const Call& call : answer.calls) calls.push_back(row_of(call));
      message["tool_calls"] = std::move(calls);
    }
    Json row{{"index", index},
             {"message", message},
             {"logprobs", logprobs_of(answer.tokens)},
             {"finish_reason", answer.finish}};
    if (!answer.stop_reason.is_null()) row["stop_reason"] = answer.stop_reason;
    add_token_ids(row, answer.tokens);
    add_prompt_logprobs(row, answer);
    return row;
  }
};

}  // namespace

std::unique_ptr<Exchange> open_chat(const ServedModel& served, Json body, Shown shown) {
  return std::make_unique<Chat>(served, std::move(body), std::move(shown));
}

}  // namespace opentrn::server::api
