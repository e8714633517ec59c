#include "server/api/conversation.h"

#include <algorithm>

#include <fmt/format.h>

namespace opentrn::server::api {

namespace {

constexpr std::string_view kOpen = "<tool_call>", kClose = "</tool_call>";

// As templates have them: OpenAI's form.
Json function_of(const Json& tool) { return Json{{"type", "function"}, {"function", tool}}; }

Json row_of(const Message& message, const TemplateFacts& facts) {
  std::string content = message.content;
  Json calls = Json::array();
  for (const Call& call : message.calls) {
    const Json named{{"name", call.name}, {"arguments", arguments_of(call)}};
    if (facts.knows_calls)
      calls.push_back(Json{{"type", "function"}, {"id", call.id}, {"function", named}});
    else
      content += fmt::format("{}\n{}\n{}", kOpen, spaced(named), kClose);
  }
  Json row{{"role", message.role == "developer" ? "system" : message.role}, {"content", content}};
  if (!calls.empty()) row["tool_calls"] = std::move(calls);
  if (!message.call_id.empty()) row["tool_call_id"] = message.call_id;
  if (!message.name.empty()) row["name"] = message.name;
  // Qwen's, GLM's and most others' templates have the first name, gpt-oss's the second.
  if (!message.reasoning.empty()) row["reasoning_content"] = row["thinking"] = message.reasoning;
  return row;
}

// A text as what the schema of a parameter says that it is; a text where it says nothing, or something else.
Json typed(const std::string& text, const Json& schema) {
  const Json& type = field(schema, "type");
  if (type.is_null() || type == "string") return text;
  if (text == "True" || text == "False") return text == "True";
  if (text == "None") return nullptr;
  Json value = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  return value.is_discarded() ? Json(text) : value;
}

Json arguments_of(const serving::AnswerPart& part, const std::vector<Json>& tools) {
  const auto tool = std::ranges::find_if(tools, [&](const Json& each) { return each["name"] == part.name; });
  const Json schema = tool == tools.end() ? Json() : field(field(*tool, "parameters"), "properties");
  Json arguments = Json::object();
  for (const auto& [name, text] : part.values) arguments[name] = typed(text, field(schema, name));
  return arguments;
}

void tell_of_tools(Json& rows, const std::vector<Json>& tools, bool refuses_systems) {
  std::vector<std::string> lines;
  for (const Json& tool : tools) lines.push_back(spaced(function_of(tool)));
  const std::string text = fmt::format(
      "You can call these functions:\n<tools>\n{}\n</tools>\nTo call one, answer\n"
      "{}\n{{\"name\": <name>, \"arguments\": <object of arguments>}}\n{}",
      fmt::join(lines, "\n"), kOpen, kClose);
  const char* first = refuses_systems ? "user" : "system";
  if (!rows.empty() && rows[0]["role"] == first) {
    const std::string said = rows[0]["content"];
    rows[0]["content"] =
        refuses_systems ? fmt::format("{}\n\n{}", text, said) : fmt::format("{}\n\n{}", said, text);
  } else {
    rows.insert(rows.begin(), Json{{"role", first}, {"content", text}});
  }
}

}  // namespace

std::string joined_text(const Json& content) {
  if (content.is_string()) return content.get<std::string>();
  std::string text;
  for (const Json& part : content)
    for (const char* name : {"text", "refusal"})
      if (const Json& own = field(part, name); own.is_string()) text += own.get<std::string>();
  return text;
}

Call call_of(const serving::AnswerPart& part, const std::vector<Json>& tools) {
  if (!part.name.empty() && part.text.empty()) return {part.name, spaced(arguments_of(part, tools))};
  if (!part.name.empty()) return {part.name, spaced_json(part.text).value_or(part.text)};
  const Json found = Json::parse(part.text);                                         // the reader has read it
  const char* arguments = found.contains("arguments") ? "arguments" : "parameters";  // as Llama's models say
  return {found["name"].get<std::string>(), spaced_member(part.text, arguments).value_or("{}")};
}

Json arguments_of(const Call& call) {
  Json found = Json::parse(call.arguments, nullptr, /*allow_exceptions=*/false);
  return found.is_discarded() ? Json(call.arguments) : found;
}

std::optional<Json> schema_of_call(const Tools& tools) {
  if (!tools.forced()) return std::nullopt;
  Json calls = Json::array();
  for (const Json& tool : tools.list) {
    if (tools.choice != "required" && tools.choice != tool["name"]) continue;
    const Json& parameters = field(tool, "parameters");
    Json properties{{"name", {{"const", tool["name"]}}}};
    properties["arguments"] = parameters.empty() ? Json{{"type", "object"}} : parameters;
    calls.push_back(Json{{"type", "object"},
                         {"properties", properties},
                         {"required", Json::array({"name", "arguments"})},
                         {"additionalProperties", false}});
  }
  if (calls.empty())
    throw Refusal(400, fmt::format("tool_choice names no tool: '{}'", tools.choice), "tool_choice");
  return calls.size() == 1 ? calls[0] : Json{{"anyOf", calls}};
}

Json conversation(const std::vector<Message>& messages, const Tools& tools, const TemplateFacts& facts,
                  const TemplateWish& wish) {
  if (!facts.exists) throw Refusal(400, "the model has no chat template; use /v1/completions", "messages");
  Json rows = Json::array(), functions;
  for (const Message& message : messages) rows.push_back(row_of(message, facts));
  const bool shows = tools.choice != "none" && !tools.list.empty();
  if (shows && facts.knows_tools)
    for (const Json& tool : tools.list) functions.push_back(function_of(tool));
  else if (shows)
    tell_of_tools(rows, tools.list, facts.refuses_systems);
  return Json{{"messages", rows},
              {"tools", functions},
              {"variables", wish.variables},
              {"begins_answer", wish.begins_answer},
              {"continues_last", wish.continues_last}};
}

std::string without_end(std::string_view prompt, std::string_view last) {
  constexpr std::string_view kSpaces = " \t\r\n\f\v";
  const size_t first = last.find_first_not_of(kSpaces);
  if (first == std::string_view::npos)
    throw Refusal(400, "continue_final_message: the last message has no text to go on with", "messages");
  const std::string_view begun = last.substr(first);
  const std::string_view bare = begun.substr(0, begun.find_last_not_of(kSpaces) + 1);
  const size_t at = prompt.rfind(bare);
  if (at == std::string_view::npos)
    throw Refusal(400, "continue_final_message: the chat template does not write the last message as it is",
                  "messages");
  const bool keeps_spaces = prompt.substr(at, begun.size()) == begun;
  return std::string(prompt.substr(0, at + (keeps_spaces ? begun : bare).size()));
}

}  // namespace opentrn::server::api
