// Anthropic's messages.
#include <algorithm>

#include <fmt/format.h>

#include "server/api/exchanges.h"

namespace opentrn::server::api {

namespace {

using Kind = serving::AnswerPart::Kind;

constexpr std::string_view kShownCall = "toolu_";

// Of a call, as call_block() shows it.
std::string call_id_of(const Json& shown) {
  const std::string id = shown;
  return id.starts_with(kShownCall) ? id.substr(kShownCall.size()) : id;
}

// A user's results of tools are messages of their own.
void add_messages(const Json& message, std::vector<Message>& rows) {
  const std::string role = message["role"];
  const Json& content = field(message, "content");
  if (content.is_string()) {
    rows.push_back({role, content.get<std::string>()});
    return;
  }
  Message own{role, ""};
  bool has_results = false;
  for (const Json& block : content) {
    const std::string type = block["type"];
    if (type == "text") own.content += block["text"].get<std::string>();
    if (type == "tool_use")
      own.calls.push_back({block["name"], spaced(block["input"]), call_id_of(block["id"])});
    if (type == "thinking") own.reasoning += block["thinking"].get<std::string>();
    if (type == "tool_result") {
      rows.push_back({.role = "tool",
                      .content = joined_text(field(block, "content")),
                      .call_id = call_id_of(block["tool_use_id"])});
      has_results = true;
    }
  }
  if (!own.content.empty() || !own.calls.empty() || !has_results) rows.push_back(std::move(own));
}

Json stop_reason_of(const std::string& finish) {
  if (finish == "stop") return "end_turn";
  if (finish == "length") return "max_tokens";
  if (finish == "tool_calls") return "tool_use";
  return nullptr;
}

Json text_block(const std::string& text) {
  return Json{{"type", "text"}, {"text", text}, {"citations", nullptr}};
}

// Nobody signs a thought here.
Json thinking_block(const std::string& text) {
  return Json{{"type", "thinking"}, {"thinking", text}, {"signature", ""}};
}

Json object_of(const Call& call) {
  Json found = arguments_of(call);
  return found.is_object() ? found : Json{{"value", std::move(found)}};
}

Json call_block(const Call& call, Json input) {
  const std::string_view id = call.id;
  return Json{{"type", "tool_use"},
              {"id", fmt::format("{}{}", kShownCall, id.starts_with("call_") ? id.substr(5) : id)},
              {"name", call.name},
              {"input", std::move(input)},
              {"caller", {{"type", "direct"}}}};
}

class Messages : public Exchange {
 public:
  Messages(const ServedModel& served, Json body, Shown shown)
      : Exchange(served, std::move(body), std::move(shown)), id_(new_id("msg_")) {
    tools_ = tools_of_body();
    if (const auto schema = schema_of_call(tools_)) grammar_ = Grammar("json", *schema);
    std::vector<Message> rows;
    if (const Json& system = field(body_, "system"); !system.empty() && system != "")
      rows.push_back({"system", joined_text(system)});
    for (const Json& message : body_["messages"]) add_messages(message, rows);
    TemplateWish wish{.variables = served.template_variables};
    // Templates whose models may answer with or without a thought have this variable (Qwen3, SmolLM3,
    // GLM-4.5).
    if (const Json& thinking = field(field(body_, "thinking"), "type"); thinking.is_string())
      wish.variables["enable_thinking"] = thinking != "disabled";
    inputs_ = {conversation(rows, tools_, served.chat_template, wish)};
  }

  std::string begin(const std::vector<std::string>&) override {
    Json message = whole();
    message["content"] = Json::array();
    message["stop_reason"] = nullptr;
    return named_event({{"type", "message_start"}, {"message", message}}) + named_event({{"type", "ping"}});
  }

  std::string close() override {
    const Json end = whole();
    const Json ended{{"stop_reason", end["stop_reason"]},
                     {"stop_sequence", end["stop_sequence"]},
                     {"container", nullptr},
                     {"stop_details", nullptr}};
    return in_order({closed(),
                     named_event({{"type", "message_delta"}, {"usage", end["usage"]}, {"delta", ended}}),
                     named_event({{"type", "message_stop"}})});
  }

  std::string failed(const Json& error) override {
    return named_event(
        {{"type", "error"}, {"error", {{"type", error["type"]}, {"message", error["message"]}}}});
  }

  Json whole() override {
    const Answer& answer = answers_[0];
    Json content = Json::array();
    if (!answer.reasoning.empty()) content.push_back(thinking_block(answer.reasoning));
    if (!answer.text.empty() || (answer.calls.empty() && content.empty()))
      content.push_back(text_block(answer.text));
    for (const Call& call : answer.calls) content.push_back(call_block(call, object_of(call)));
    const bool by_string = answer.stop_reason.is_string();
    return Json{{"id", id_},
                {"type", "message"},
                {"role", "assistant"},
                {"model", field(body_, "model")},
                {"content", content},
                {"stop_reason", by_string ? Json("stop_sequence") : stop_reason_of(answer.finish)},
                {"stop_sequence", by_string ? answer.stop_reason : Json()},
                {"usage", usage()},
                {"container", nullptr},
                {"stop_details", nullptr}};
  }

 protected:
  std::optional<int64_t> most_tokens(int64_t prompt_tokens) const override {
    return std::min(count_field("max_tokens", 1), std::max<int64_t>(1, served_.context - prompt_tokens));
  }
  Json stop_strings() const override {
    const Json& stop = field(body_, "stop_sequences");
    return stop.is_null() ? Json::array() : stop;
  }

  std::string told(size_t, const Part& part) override {
    if (part.call) {
      const Json found = arguments_of(*part.call);
      const std::string json = found.is_object() ? part.call->arguments : spaced(object_of(*part.call));
      return in_order({closed(), opened(call_block(*part.call, Json::object())),
                       delta({{"type", "input_json_delta"}, {"partial_json", json}}), closed()});
    }
    const bool thinks = part.kind == Kind::kThought;
    const std::string begun =
        open_ == part.kind ? "" : in_order({closed(), opened(thinks ? thinking_block("") : text_block(""))});
    open_ = part.kind;
    return in_order({begun, delta(thinks ? Json{{"type", "thinking_delta"}, {"thinking", part.text}}
                                         : Json{{"type", "text_delta"}, {"text", part.text}})});
  }

 private:
  Tools tools_of_body() const {
    Tools tools;
    for (const Json& tool : field(body_, "tools")) {
      const Json& described = field(tool, "description");
      tools.list.push_back({{"name", tool["name"]},
                            {"description", described.is_null() ? Json("") : described},
                            {"parameters", tool["input_schema"]}});
    }
    const Json& choice = field(body_, "tool_choice");
    if (choice.is_null()) {
      tools.choice = tools.list.empty() ? "none" : "auto";
      return tools;
    }
    const std::string type = choice["type"];
    if (type != "auto" && type != "any" && type != "tool" && type != "none")
      throw Refusal(400, fmt::format("tool_choice.type is '{}': auto, any, tool or none", type),
                    "tool_choice");
    if ((type == "any" || type == "tool") && tools.list.empty())
      throw Refusal(400, "tool_choice asks for a tool, and there are none", "tool_choice");
    const Json& name = field(choice, "name");
    tools.choice = type == "any"    ? "required"
                   : type != "tool" ? type
                   : name.is_null() ? std::string()
                                    : name.get<std::string>();
    return tools;
  }

  Json usage() const {
    Json row{{"input_tokens", prompt_tokens() - cached_tokens()},
             {"output_tokens", given_tokens()},
             {"cache_creation_input_tokens", 0},
             {"cache_read_input_tokens", cached_tokens()},
             {"cache_creation", nullptr},
             {"output_tokens_details", {{"thinking_tokens", reasoning_tokens()}}},
             {"server_tool_use", nullptr},
             {"service_tier", "standard"},
             {"inference_geo", nullptr}};
    if (Json times = predicted(); !times.empty()) row["predicted_device_time"] = std::move(times);
    return row;
  }

  std::string opened(const Json& block) {
    ++at_;
    open_ = Kind::kCall;
    return named_event({{"type", "content_block_start"}, {"index", at_}, {"content_block", block}});
  }
  std::string delta(const Json& delta) const {
    return named_event({{"type", "content_block_delta"}, {"index", at_}, {"delta", delta}});
  }
  std::string closed() {
    if (!std::exchange(open_, std::nullopt)) return "";
    return named_event({{"type", "content_block_stop"}, {"index", at_}});
  }

  const std::string id_;
  int64_t at_ = -1;             // the last block
  std::optional<Kind> open_{};  // what the block that has not ended is
};

}  // namespace

std::unique_ptr<Exchange> open_messages(const ServedModel& served, Json body, Shown shown) {
  return std::make_unique<Messages>(served, std::move(body), std::move(shown));
}

}  // namespace opentrn::server::api
