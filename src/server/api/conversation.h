// Conversations as a model's chat template takes them, tools included, and calls of tools.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "server/api/json_text.h"
#include "serving/answer_reader.h"

namespace opentrn::server::api {

// What a client is told of a request that is refused: an HTTP status, the field of the body that it is about
// and OpenAI's name of the error, both "" where there is none.
struct Refusal : std::runtime_error {
  Refusal(int status, const std::string& message, std::string param = "", std::string code = "")
      : std::runtime_error(message), status(status), param(std::move(param)), code(std::move(code)) {}
  int status;
  std::string param, code;
};

// Of a text, or of parts that are texts or refusals.
std::string joined_text(const Json& content);

// A tool that the model calls; `arguments` is the text of a JSON object.
struct Call {
  std::string name, arguments, id = new_id("call_");
};
// Of what a reader found; arguments that are not JSON stay as the model wrote them, and those that are texts
// are what the schema of their tool says they are.
Call call_of(const serving::AnswerPart& part, const std::vector<Json>& tools = {});
// The arguments as JSON, or, where they are not, as a text.
Json arguments_of(const Call& call);

// One message of a conversation.
struct Message {
  std::string role, content;
  std::vector<Call> calls{};
  std::string reasoning{};  // before what is said
  std::string call_id{};    // of the call that it is the result of
  std::string name{};       // of who speaks, or of the function
};

// Tools of a request: {"name", "description", "parameters"} each.
struct Tools {
  std::vector<Json> list{};
  std::string choice = "none";  // auto, none, required or a name

  // Whether the answer is a call whatever the model would like, and whether it may hold calls.
  bool forced() const { return choice != "auto" && choice != "none"; }
  bool open() const { return choice == "auto" && !list.empty(); }
};

// The JSON schema of an answer that is a call; nothing where it need not be one. Refused for a tool that is
// not there.
std::optional<Json> schema_of_call(const Tools& tools);

// What a chat template knows.
struct TemplateFacts {
  bool exists = false, knows_tools = false, knows_calls = false;
  bool refuses_systems = false;  // a system's message is an error of it (Gemma 2)
};

// How a conversation is written, beside its messages and tools.
struct TemplateWish {
  Json variables = Json::object();  // of the template, by their names
  bool begins_answer = true;        // the beginning of an answer is behind the last message
  bool continues_last = false;      // the answer goes on with the last message, which has no end
};

// {"messages", "tools", "variables", "begins_answer", "continues_last"} for the template; tools are null
// where there are none. A template that has no place for tools gets them, and calls, as text in the form of
// Hermes' models. Refused without a template.
Json conversation(const std::vector<Message>& messages, const Tools& tools, const TemplateFacts& facts,
                  const TemplateWish& wish = {});

// A conversation as its template wrote it, up to the last place of `last`, the text of its last message,
// whose spaces some templates take off. Refused where it is not in the text.
std::string without_end(std::string_view prompt, std::string_view last);

}  // namespace opentrn::server::api
