// OpenAI's responses, as the Open Responses specification has them.
#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "server/api/exchanges.h"

namespace opentrn::server::api {

namespace {

using Kind = serving::AnswerPart::Kind;

// As Python writes what a client gave in place of a word.
std::string shown_value(const Json& value) {
  if (value.is_null()) return "None";
  return value.is_string() ? fmt::format("'{}'", value.get<std::string>()) : text_of(value);
}

bool is_word(const Json& value, std::initializer_list<const char*> words) {
  return value.is_string() && std::ranges::any_of(words, [&](const char* word) { return value == word; });
}

[[noreturn]] void refuse(const std::string& message, const std::string& param) {
  throw Refusal(400, message, param);
}

std::string content_of(const Json& value, const std::string& where) {
  if (value.is_null()) return "";
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) refuse(where + " is neither text nor a list of parts", where);
  std::string text;
  for (const Json& part : value) {
    const Json& kind = field(part, "type");
    const Json& own = field(part, kind == "refusal" ? "refusal" : "text");
    if (!is_word(kind, {"input_text", "output_text", "text", "summary_text", "reasoning_text", "refusal"}) ||
        !own.is_string())
      refuse(fmt::format("{} has a part of type {}; the model reads text", where, shown_value(kind)), where);
    text += own.get<std::string>();
  }
  return text;
}

Message message_of(const Json& item, const std::string& where) {
  const Json& stated = field(item, "type");
  const Json kind = stated.is_null() && !item.contains("type") ? Json("message") : stated;
  if (kind == "message") {
    const Json& role = field(item, "role");
    if (!is_word(role, {"user", "assistant", "system", "developer"}))
      refuse(fmt::format("{}.role is {}", where, shown_value(role)), where + ".role");
    return Message{role.get<std::string>(), content_of(field(item, "content"), where + ".content")};
  }
  if (kind == "function_call") {
    const Json &name = field(item, "name"), &arguments = field(item, "arguments");
    if (!name.is_string() || !arguments.is_string()) refuse(where + " has no name and arguments", where);
    Call call{name.get<std::string>(), arguments.get<std::string>()};
    if (const Json& id = field(item, "call_id"); id.is_string()) call.id = id;
    return Message{"assistant", "", {std::move(call)}};
  }
  if (kind == "function_call_output") {
    const Json& id = field(item, "call_id");
    return Message{.role = "tool",
                   .content = content_of(field(item, "output"), where + ".output"),
                   .call_id = id.is_string() ? id.get<std::string>() : ""};
  }
  if (kind == "reasoning") {
    const Json& content = field(item, "content");
    return Message{.role = "assistant",
                   .reasoning = content.is_null() ? content_of(field(item, "summary"), where + ".summary")
                                                  : content_of(content, where + ".content")};
  }
  refuse(fmt::format("{}.type is {}; there are message, reasoning, function_call, function_call_output",
                     where, shown_value(kind)),
         where);
}

// What an assistant thought, said and called stands in items of its own, and is one message of a template.
void add_item(std::vector<Message>& messages, Message next) {
  const bool goes_on = next.role == "assistant" && !messages.empty() && messages.back().role == "assistant" &&
                       messages.back().content.empty() &&
                       (messages.back().calls.empty() || next.content.empty());
  if (!goes_on) {
    messages.push_back(std::move(next));
    return;
  }
  Message& last = messages.back();
  last.content += next.content;
  last.reasoning += next.reasoning;
  std::ranges::move(next.calls, std::back_inserter(last.calls));
}

Json text_part(const std::string& text) {
  return Json{
      {"type", "output_text"}, {"text", text}, {"annotations", Json::array()}, {"logprobs", Json::array()}};
}

Json thought_part(const std::string& text) { return Json{{"type", "reasoning_text"}, {"text", text}}; }

Json message_item(const std::string& id, Json content, const char* status) {
  return Json{{"id", id},
              {"type", "message"},
              {"status", status},
              {"role", "assistant"},
              {"content", std::move(content)}};
}

Json reasoning_item(const std::string& id, Json content, const char* status) {
  return Json{{"id", id},
              {"type", "reasoning"},
              {"summary", Json::array()},
              {"content", std::move(content)},
              {"encrypted_content", nullptr},
              {"status", status}};
}

class Response : public Exchange {
 public:
  Response(const ServedModel& served, Json body, Shown shown, ResponseStore& store)
      : Exchange(served, std::move(body), std::move(shown)), store_(store), id_(new_id("resp_")) {
    expect_supported();
    if (const Json& before = field(body_, "previous_response_id"); before.is_string())
      said_ = store.get(before.get<std::string>()).messages;
    const Json& input = body_["input"];
    if (input.is_string()) said_.push_back({"user", input.get<std::string>()});
    for (size_t i = 0; input.is_array() && i < input.size(); ++i)
      add_item(said_, message_of(input[i], fmt::format("input[{}]", i)));
    // A thought behind which nothing was said or called.
    std::erase_if(said_, [](const Message& message) {
      return !message.reasoning.empty() && message.content.empty() && message.calls.empty();
    });
    if (said_.empty()) refuse("input is empty", "input");
    read_tools();
    read_format();
    if (const auto schema = schema_of_call(tools_)) grammar_ = Grammar("json", *schema);
    std::vector<Message> messages = said_;
    if (const Json& system = field(body_, "instructions"); system.is_string() && system != "")
      messages.insert(messages.begin(), {"system", system.get<std::string>()});
    TemplateWish wish{.variables = served_.template_variables};
    if (const Json& effort = field(field(body_, "reasoning"), "effort"); effort.is_string())
      wish.variables["reasoning_effort"] = effort;
    inputs_ = {conversation(messages, tools_, served.chat_template, wish)};
  }

  std::string begin(const std::vector<std::string>&) override {
    return in_order({numbered({{"type", "response.created"}, {"response", base()}}),
                     numbered({{"type", "response.in_progress"}, {"response", base()}})});
  }

  std::string close() override {
    std::string events = ended_items();
    const Json response = whole();
    events += numbered({{"type", fmt::format("response.{}", response["status"].get<std::string>())},
                        {"response", response}});
    return events + "data: [DONE]\n\n";
  }

  std::string failed(const Json& error) override {
    Json response = base();
    response.update(Json{{"status", "failed"},
                         {"output", items_},
                         {"error", {{"code", "server_error"}, {"message", error["message"]}}}});
    return numbered({{"type", "response.failed"}, {"response", response}}) + "data: [DONE]\n\n";
  }

  Json whole() override {
    ended_items();
    const bool is_cut = answers_[0].finish == "length";
    Json response = base();
    response.update(Json{{"status", is_cut ? "incomplete" : "completed"},
                         {"output", items_},
                         {"usage", usage()},
                         {"completed_at", is_cut ? Json() : Json(now_s())},
                         {"incomplete_details", is_cut ? Json{{"reason", "max_output_tokens"}} : Json()}});
    if (field(body_, "store") != false) {
      std::vector<Message> messages = said_;
      messages.push_back({"assistant", answers_[0].text, answers_[0].calls, answers_[0].reasoning});
      store_.put({id_, response, std::move(messages)});
    }
    return response;
  }

 protected:
  std::optional<int64_t> most_tokens(int64_t) const override {
    const Json& most = field(body_, "max_output_tokens");
    return most.is_null() ? std::nullopt : std::optional(most.get<int64_t>());
  }

  std::string told(size_t, const Part& part) override {
    if (!part.call) {
      const std::string begun = is_open(part.kind) ? "" : in_order({closed(), opened(part.kind)});
      text_ += part.text;
      Json row =
          placed(kind_ == Kind::kThought ? "response.reasoning_text.delta" : "response.output_text.delta");
      row["delta"] = part.text;
      if (kind_ != Kind::kThought) row["logprobs"] = Json::array();
      return begun + numbered(std::move(row));
    }
    std::string events = closed();
    const size_t at = items_.size();
    const Call& call = *part.call;
    Json item{{"type", "function_call"}, {"id", new_id("fc_")},         {"call_id", call.id},
              {"name", call.name},       {"arguments", call.arguments}, {"status", "completed"}};
    items_.push_back(item);
    Json begun = item;
    begun["arguments"] = "";
    begun["status"] = "in_progress";
    const auto of_item = [&](const char* type) {
      return Json{{"type", type}, {"item_id", item["id"]}, {"output_index", at}};
    };
    Json delta = of_item("response.function_call_arguments.delta"),
         done = of_item("response.function_call_arguments.done");
    delta["delta"] = call.arguments;
    done["arguments"] = call.arguments;
    done["name"] = call.name;
    return in_order(
        {std::move(events),
         numbered({{"type", "response.output_item.added"}, {"output_index", at}, {"item", begun}}),
         numbered(std::move(delta)), numbered(std::move(done)),
         numbered({{"type", "response.output_item.done"}, {"output_index", at}, {"item", item}})});
  }

 private:
  void expect_supported() const {
    if (flag("background")) refuse("background is not supported", "background");
    if (const Json& truncation = field(body_, "truncation");
        !truncation.is_null() && truncation != "disabled")
      refuse("truncation other than 'disabled' is not supported", "truncation");
    if (count_field("top_logprobs", 0) > 0)
      refuse("top_logprobs is not supported here; /v1/chat/completions has it", "top_logprobs");
    if (const Json& include = field(body_, "include"); !include.empty())
      refuse(fmt::format("include of {} is not supported",
                         fmt::join(include.get<std::vector<std::string>>(), ", ")),
             "include");
  }

  // Tools for the prompt, and as the response repeats them.
  void read_tools() {
    const Json& given = field(body_, "tools");
    for (size_t i = 0; i < given.size(); ++i) {
      const Json &name = field(given[i], "name"), &parameters = field(given[i], "parameters"),
                 &described = field(given[i], "description"), &strict = field(given[i], "strict");
      const std::string where = fmt::format("tools[{}]", i);
      if (field(given[i], "type") != "function" || !name.is_string() || name == "")
        refuse(fmt::format("{} is of type {}; there are functions with a name", where,
                           shown_value(field(given[i], "type"))),
               where);
      if (!parameters.is_object() && !parameters.is_null())
        refuse(where + ".parameters is not an object", where + ".parameters");
      tools_.list.push_back({{"name", name},
                             {"description", described.empty() ? Json("") : described},
                             {"parameters", parameters.empty() ? Json{{"type", "object"}} : parameters}});
      shown_tools_.push_back(Json{{"type", "function"},
                                  {"name", name},
                                  {"description", described},
                                  {"parameters", parameters},
                                  {"strict", !given[i].contains("strict") || strict == true}});
    }
    const Json& stated = field(body_, "tool_choice");
    if (stated.is_object()) {
      if (field(stated, "type") != "function" || !field(stated, "name").is_string())
        refuse("tool_choice names no function", "tool_choice");
      tools_.choice = stated["name"].get<std::string>();
      return;
    }
    const std::string choice = stated.is_null() ? "auto" : stated.get<std::string>();
    if (choice != "auto" && choice != "none" && choice != "required")
      refuse(fmt::format("tool_choice is '{}': auto, none, required or a function", choice), "tool_choice");
    if (choice == "required" && tools_.list.empty())
      refuse("tool_choice is 'required', and there are no tools", "tool_choice");
    tools_.choice = tools_.list.empty() ? "none" : choice;
  }

  // text.format as the response repeats it, and its grammar.
  void read_format() {
    const Json& given = field(field(body_, "text"), "format");
    const Json format = given.empty() ? Json{{"type", "text"}} : given;
    const Json &kind = field(format, "type"), &schema = field(format, "schema");
    if (kind == "text") {
      format_ = Json{{"type", "text"}};
    } else if (kind == "json_object") {
      format_ = Json{{"type", "json_object"}};
      grammar_ = Grammar("json", Json{{"type", "object"}});
    } else if (kind == "json_schema" && schema.is_object()) {
      const Json& name = field(format, "name");
      format_ = Json{{"type", "json_schema"},
                     {"name", name.is_string() ? name : Json("schema")},
                     {"schema", schema},
                     {"description", field(format, "description")},
                     {"strict", field(format, "strict") == true}};
      grammar_ = Grammar("json", schema);
    } else {
      refuse("text.format is text, json_object, or json_schema with a schema", "text.format");
    }
  }

  // Before it is complete.
  Json base() const {
    const auto given = [&](const char* name) { return field(body_, name); };
    const Json& choice = field(body_, "tool_choice");
    const Json& metadata = field(body_, "metadata");
    return Json{{"id", id_},
                {"object", "response"},
                {"created_at", created_},
                {"completed_at", nullptr},
                {"status", "in_progress"},
                {"incomplete_details", nullptr},
                {"model", given("model")},
                {"previous_response_id", given("previous_response_id")},
                {"instructions", given("instructions")},
                {"output", Json::array()},
                {"error", nullptr},
                {"tools", shown_tools_},
                {"tool_choice", choice.is_null() ? Json("auto") : choice},
                {"truncation", "disabled"},
                {"parallel_tool_calls", given("parallel_tool_calls") != false},
                {"text", {{"format", format_}}},
                {"top_p", params_["top_p"]},
                {"presence_penalty", params_["presence_penalty"]},
                {"frequency_penalty", params_["frequency_penalty"]},
                {"top_logprobs", 0},
                {"temperature", params_["temperature"]},
                {"reasoning", {{"effort", field(given("reasoning"), "effort")}, {"summary", nullptr}}},
                {"usage", nullptr},
                {"max_output_tokens", given("max_output_tokens")},
                {"max_tool_calls", given("max_tool_calls")},
                {"store", given("store") != false},
                {"background", false},
                {"service_tier", "default"},
                {"metadata", metadata.is_null() ? Json::object() : metadata},
                {"safety_identifier", given("safety_identifier")},
                {"prompt_cache_key", given("prompt_cache_key")}};
  }

  Json usage() const {
    return Json{{"input_tokens", prompt_tokens()},
                {"output_tokens", given_tokens()},
                {"total_tokens", prompt_tokens() + given_tokens()},
                {"input_tokens_details", {{"cached_tokens", cached_tokens()}}},
                {"output_tokens_details", {{"reasoning_tokens", reasoning_tokens()}}},
                {"predicted_device_time", predicted()}};
  }

  std::string numbered(Json row) {
    row["sequence_number"] = number_++;
    return named_event(row);
  }
  bool is_open(Kind kind) const { return !item_id_.empty() && kind_ == kind; }
  // Of the item that is open, which is the next one.
  Json placed(const char* type) const {
    return Json{{"type", type}, {"item_id", item_id_}, {"output_index", items_.size()}, {"content_index", 0}};
  }
  Json item_of(Json content, const char* status) const {
    return kind_ == Kind::kThought ? reasoning_item(item_id_, std::move(content), status)
                                   : message_item(item_id_, std::move(content), status);
  }
  Json part_of(const std::string& text) const {
    return kind_ == Kind::kThought ? thought_part(text) : text_part(text);
  }

  // A message, or reasoning.
  std::string opened(Kind kind) {
    kind_ = kind;
    item_id_ = new_id(kind == Kind::kThought ? "rs_" : "msg_");
    Json part = placed("response.content_part.added");
    part["part"] = part_of("");
    return in_order({numbered({{"type", "response.output_item.added"},
                               {"output_index", items_.size()},
                               {"item", item_of(Json::array(), "in_progress")}}),
                     numbered(std::move(part))});
  }

  std::string closed() {
    if (item_id_.empty()) return "";
    const char* status = answers_[0].finish == "length" ? "incomplete" : "completed";
    const Json item = item_of(Json::array({part_of(text_)}), status);
    Json text =
             placed(kind_ == Kind::kThought ? "response.reasoning_text.done" : "response.output_text.done"),
         part = placed("response.content_part.done");
    text["text"] = text_;
    if (kind_ != Kind::kThought) text["logprobs"] = Json::array();
    part["part"] = part_of(text_);
    std::string events = in_order(
        {numbered(std::move(text)), numbered(std::move(part)),
         numbered({{"type", "response.output_item.done"}, {"output_index", items_.size()}, {"item", item}})});
    items_.push_back(item);
    item_id_.clear();
    text_.clear();
    return events;
  }

  // An answer without text is one, too.
  std::string ended_items() {
    std::string events;
    if (item_id_.empty() && items_.empty()) events = opened(Kind::kText);
    return events + closed();
  }

  ResponseStore& store_;
  const std::string id_;
  std::vector<Message> said_;
  Json shown_tools_ = Json::array(), format_, items_ = Json::array();
  int64_t number_ = 0;  // of the next event
  // Of the item that is open, a message or reasoning.
  std::string item_id_, text_;
  Kind kind_ = Kind::kText;
};

}  // namespace

void ResponseStore::put(Row row) {
  rows_.push_back(std::move(row));
  by_id_[rows_.back().id] = std::prev(rows_.end());
  while (rows_.size() > most_) {
    by_id_.erase(rows_.front().id);
    rows_.pop_front();
  }
}

const ResponseStore::Row& ResponseStore::get(const std::string& id) const {
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) throw Refusal(404, fmt::format("Response with id '{}' not found.", id), "id");
  return *found->second;
}

void ResponseStore::remove(const std::string& id) {
  get(id);
  rows_.erase(by_id_.at(id));
  by_id_.erase(id);
}

std::unique_ptr<Exchange> open_responses(const ServedModel& served, Json body, Shown shown,
                                         ResponseStore& store) {
  return std::make_unique<Response>(served, std::move(body), std::move(shown), store);
}

}  // namespace opentrn::server::api
