#include "server/api/exchanges.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace opentrn::server::api {
namespace {

std::pair<std::string, std::string> letter(int32_t token) {
  const std::string text(1, static_cast<char>(token));
  return {text, text};
}

ServedModel model_of(std::string chat_template) {
  return served_model({{"name", "tiny"},
                       {"adapters", {{"other", 2}}},
                       {"context", 100},
                       {"defaults", {{"temperature", 0.5}}},
                       {"stop_tokens", Json::array({7})},
                       {"structured", true},
                       {"max_logprobs", 5},
                       {"template_variables", {{"enable_thinking", true}, {"date", "today"}}},
                       {"by_priority", false},
                       {"reasoning_parser", "auto"},
                       {"tool_call_parser", "auto"},
                       {"special_tokens", Json::array()},
                       {"version", "0"},
                       {"template", std::move(chat_template)}});
}

class Exchanges : public testing::Test {
 protected:
  std::unique_ptr<Exchange> open(const char* kind, const char* body) {
    return open_exchange(kind, served, Json::parse(body), letter, store);
  }
  // The refusal of a request: its status, field and code.
  std::string refused(const char* kind, const char* body, int64_t prompt_tokens = 3) {
    try {
      open(kind, body)->plan({prompt_tokens}, {""});
    } catch (const Refusal& refusal) {
      return std::to_string(refusal.status) + " " + refusal.param + " " + refusal.code;
    }
    return "";
  }

  ServedModel served = model_of("tools tool_calls");
  ResponseStore store{2};
};

AnswerDelta last(std::string text) {
  return {std::move(text), {{'b', -1.5}}, "stop", {}, AnswerEnd{1, 0.001, 0.0025, 0.002}};
}

TEST(SpacedJson, IsAsPythonWritesIt) {
  EXPECT_EQ(spaced_json(R"({"a":[1,2.50,{}],"b":{"c":"\u00e9\n"},"d":[[],null,true]})"),
            R"({"a": [1, 2.50, {}], "b": {"c": "\u00e9\n"}, "d": [[], null, true]})");
  EXPECT_EQ(spaced_json("123456789012345678901234567890"), "123456789012345678901234567890");
  EXPECT_EQ(spaced_json("{"), std::nullopt);
  EXPECT_EQ(spaced_member(R"({"b":{"a":1},"a":{"x":[1,2]},"c":3})", "a"), R"({"x": [1, 2]})");
  EXPECT_EQ(spaced_member(R"({"b":{"a":1}})", "a"), std::nullopt);
  EXPECT_EQ(characters("a\u00e9\u4e2d"), 3);
}

TEST_F(Exchanges, PlansSayHowTokensAreChosen) {
  const auto chat = open("chat", R"({"model": "other", "n": 2, "seed": -1, "top_k": -1, "stop": "x",
      "logit_bias": {"5": 2}, "messages": [{"role": "developer", "content": [{"type": "text", "text": "a"}]}]})");
  EXPECT_EQ(chat->inputs()[0],
            Json::parse(R"({"messages": [{"role": "system", "content": "a"}], "tools": null,
                            "variables": {"enable_thinking": true, "date": "today"},
                            "begins_answer": true, "continues_last": false})"));
  const auto plan = chat->plan({10}, {""});
  ASSERT_EQ(plan.size(), 2U);
  const Json& params = plan[0].second;
  EXPECT_EQ(params["max_tokens"], 90);
  EXPECT_EQ(params["temperature"], 0.5);
  EXPECT_EQ(params["top_k"], 0);
  EXPECT_EQ(params["adapter"], 2);
  EXPECT_EQ(params["stop"], Json::array({"x"}));
  EXPECT_EQ(params["stop_tokens"], Json::array({7}));
  EXPECT_EQ(text_of(params["bias"]), "[[5,2.0]]");
  EXPECT_EQ(params["seed"], ~uint64_t{0});
  EXPECT_EQ(plan[1].second["seed"], 0);
}

TEST_F(Exchanges, TemplatesGetVariablesOfTheRequestBeforeThoseOfTheServer) {
  const auto chat = open("chat", R"({"model": "tiny", "messages": [{"role": "assistant", "content": "a"}],
      "reasoning_effort": "low", "chat_template_kwargs": {"enable_thinking": false},
      "continue_final_message": true, "add_generation_prompt": false})");
  const Json& input = chat->inputs()[0];
  EXPECT_EQ(text_of(input["variables"]),
            R"({"enable_thinking":false,"date":"today","reasoning_effort":"low"})");
  EXPECT_EQ(input["begins_answer"], false);
  EXPECT_EQ(input["continues_last"], true);
  EXPECT_EQ(refused("chat", R"({"model": "tiny", "messages": [], "continue_final_message": true,
      "add_generation_prompt": true})"),
            "400 continue_final_message ");
  const auto response =
      open("responses", R"({"model": "tiny", "input": "a", "reasoning": {"effort": "high"}})");
  EXPECT_EQ(response->inputs()[0]["variables"]["reasoning_effort"], "high");
}

TEST(Conversation, GoesOnBehindItsLastMessage) {
  EXPECT_EQ(without_end("<u>x</u><a>one two </a>", "one two "), "<u>x</u><a>one two ");
  EXPECT_EQ(without_end("<u>x</u><a>one two</a>", " one two \n"),
            "<u>x</u><a>one two");  // a template that trims
  EXPECT_EQ(without_end("<a>y</a><a>y</a>", "y"), "<a>y</a><a>y");
  EXPECT_THROW(without_end("<a>y</a>", "z"), Refusal);
  EXPECT_THROW(without_end("<a>y</a>", " \n"), Refusal);
}

TEST_F(Exchanges, PromptsAreCutFromTheSideThatIsAskedFor) {
  using Kept = std::pair<int64_t, int64_t>;
  const auto kept = [&](const char* more, int64_t count) {
    const std::string body = fmt::format(R"({{"model": "tiny", "prompt": "a"{}}})", more);
    return open("completions", body.c_str())->kept_tokens(count);
  };
  EXPECT_EQ(kept("", 7), Kept(0, 7));
  EXPECT_EQ(kept(R"(, "truncate_prompt_tokens": 3)", 7), Kept(4, 7));
  EXPECT_EQ(kept(R"(, "truncate_prompt_tokens": 3, "truncation_side": "right")", 7), Kept(0, 3));
  EXPECT_EQ(kept(R"(, "truncate_prompt_tokens": 30)", 7), Kept(0, 7));
  EXPECT_EQ(kept(R"(, "truncate_prompt_tokens": -1)", 150), Kept(51, 150));
}

TEST_F(Exchanges, FieldsOfVllmGoWithTheRequest) {
  const auto plan = open("completions", R"({"model": "tiny", "prompt": "a", "cache_salt": "s",
      "bad_words": ["x"], "allowed_token_ids": [4, 5], "skip_special_tokens": false})")
                        ->plan({3}, {""});
  const Json& params = plan[0].second;
  EXPECT_EQ(params["cache_salt"], "s");
  EXPECT_EQ(params["bad_words"], Json::array({"x"}));
  EXPECT_EQ(params["allowed_tokens"], Json::array({4, 5}));
  EXPECT_EQ(params["markers"], true);
  EXPECT_EQ(params["priority"], 0);
  const char* urgent = R"({"model": "tiny", "prompt": "a", "priority": -3})";
  EXPECT_EQ(refused("completions", urgent), "400 priority ");
  served.by_priority = true;
  EXPECT_EQ(open("completions", urgent)->plan({3}, {""})[0].second["priority"], -3);
  EXPECT_EQ(refused("completions", R"({"model": "tiny", "prompt": "a", "allowed_token_ids": []})"),
            "400 allowed_token_ids ");
  const auto named = open("completions", R"({"model": "tiny", "prompt": "a", "request_id": "mine",
      "logprobs": 1, "return_tokens_as_token_ids": true})");
  named->plan({3}, {""});
  named->begin({});
  named->take(0, last("b"));
  const Json whole = named->whole();
  EXPECT_EQ(whole["id"], "cmpl-mine");
  EXPECT_EQ(whole["choices"][0]["logprobs"]["tokens"], Json::array({"token_id:98"}));
}

TEST_F(Exchanges, RefusalsNameTheField) {
  const char* tool = R"(, "messages": [], "tool_choice": "required"})";
  EXPECT_EQ(refused("chat", R"({"model": "no", "messages": []})"), "404 model model_not_found");
  EXPECT_EQ(refused("chat", R"({"model": "tiny", "messages": []})", 100),
            "400 messages context_length_exceeded");
  EXPECT_EQ(refused("chat", R"({"model": "tiny", "messages": [], "max_tokens": 98})"),
            "400 max_tokens context_length_exceeded");
  EXPECT_EQ(refused("chat", (std::string(R"({"model": "tiny")") + tool).c_str()), "400 tool_choice ");
  EXPECT_EQ(refused("chat", R"({"model": "tiny", "messages": [], "logprobs": true, "top_logprobs": 6})"),
            "400 logprobs ");
  EXPECT_EQ(refused("completions", R"({"model": "tiny", "prompt": [1, -1]})"), "400 prompt ");
  EXPECT_EQ(refused("completions", R"({"model": "tiny", "prompt": []})"), "400 prompt ");
  EXPECT_EQ(refused("completions", R"({"model": "tiny", "prompt": "a", "structured_outputs": {}})"),
            "400 structured_outputs ");
  EXPECT_EQ(refused("responses", R"({"model": "tiny", "input": [{"type": "x"}]})"), "400 input[0] ");
  EXPECT_EQ(refused("messages", R"({"model": "tiny", "messages": [], "max_tokens": 1,
      "tool_choice": {"type": "any"}})"),
            "400 tool_choice ");
}

TEST_F(Exchanges, AToolIsAGrammarAndItsCallIsWritten) {
  const auto chat = open("chat", R"({"model": "tiny", "messages": [{"role": "user", "content": "a"}],
      "tools": [{"type": "function", "function": {"name": "f"}}], "tool_choice": "required"})");
  ASSERT_TRUE(chat->grammar());
  EXPECT_EQ(chat->grammar()->second["properties"]["name"]["const"], "f");
  chat->plan({4}, {""});
  EXPECT_EQ(chat->take(0, last(R"({"name": "f", "arguments": {"x":1}})")), "");
  const Json whole = chat->whole();
  const Json& choice = whole["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  EXPECT_EQ(choice["message"]["content"], nullptr);
  EXPECT_EQ(choice["message"]["tool_calls"][0]["function"]["arguments"], R"({"x": 1})");
  EXPECT_EQ(text_of(whole["usage"]["predicted_device_time"]),
            R"({"first_token_ms":1.0,"total_ms":2.5,"own_steps_ms":2.0})");
}

TEST_F(Exchanges, AStreamHasTheTextOfTheWholeAnswer) {
  for (const char* kind : {"chat", "completions", "messages", "responses"}) {
    const std::string body =
        R"({"model": "tiny", "stream": true, "max_tokens": 9, "prompt": "a", "input": "a",
        "messages": [{"role": "user", "content": "a"}]})";
    const auto exchange = open(kind, body.c_str());
    exchange->plan({4}, {""});
    std::string events = exchange->begin({});
    events += exchange->take(0, {"first ", {{'a', -1}}});
    events += exchange->take(0, last("second"));
    events += exchange->close();
    EXPECT_NE(events.find("first "), std::string::npos) << kind;
    EXPECT_NE(events.find("second"), std::string::npos) << kind;
    EXPECT_NE(text_of(exchange->whole()).find("first second"), std::string::npos) << kind;
  }
}

TEST_F(Exchanges, ATemplateGetsWhatBelongsToCalls) {
  const char* body = R"({"model": "tiny", "messages": [{"role": "user", "content": "a", "name": "eve"},
      {"role": "assistant", "content": null, "reasoning": "so", "tool_calls": [{"id": "c1", "function":
      {"name": "f", "arguments": "{\"n\": 1}"}}]}, {"role": "tool", "content": "2", "tool_call_id": "c1"}],
      "tools": [{"type": "function", "function": {"name": "f"}}]})";
  const Json rows = open("chat", body)->inputs()[0]["messages"];
  EXPECT_EQ(rows[0]["name"], "eve");
  EXPECT_EQ(rows[1]["reasoning_content"], "so");
  EXPECT_EQ(rows[1]["tool_calls"][0]["id"], "c1");
  EXPECT_EQ(rows[1]["tool_calls"][0]["function"]["arguments"]["n"], 1);
  EXPECT_EQ(rows[2]["tool_call_id"], "c1");
  // What tools there are stands in a message that the template takes.
  served = model_of("System role not supported");
  const Json told = open("chat", body)->inputs()[0]["messages"];
  EXPECT_EQ(told[0]["role"], "user");
  EXPECT_TRUE(told[0]["content"].get<std::string>().ends_with("\n\na"));
  served = model_of("[TOOL_CALLS] tools tool_calls");
  const auto mistral = open("chat", body);
  mistral->plan({4}, {""});
  mistral->take(0, last(R"([TOOL_CALLS]f{"n": 1})"));
  EXPECT_EQ(mistral->whole()["choices"][0]["message"]["tool_calls"][0]["id"].get<std::string>().size(), 9U);
}

TEST(Calls, TextsAreWhatTheSchemaSaysOfThem) {
  const Json tool = Json::parse(R"({"name": "f", "parameters": {"properties": {"n": {"type": "integer"},
      "s": {"type": "string"}, "b": {"type": "boolean"}, "o": {"type": "object"}, "x": {"type": "number"}}}})");
  const serving::AnswerPart part{
      serving::AnswerPart::Kind::kCall,
      "",
      "f",
      {{"n", "3"}, {"s", "3"}, {"b", "True"}, {"o", "{\"a\": [1]}"}, {"x", "many"}, {"y", "1"}}};
  EXPECT_EQ(call_of(part, {tool}).arguments,
            R"({"n": 3, "s": "3", "b": true, "o": {"a": [1]}, "x": "many", "y": "1"})");
  EXPECT_EQ(call_of({serving::AnswerPart::Kind::kCall, "", "g"}, {tool}).arguments, "{}");
}

// What reasoning is, in a stream and as a whole, in the words of each API.
TEST_F(Exchanges, ReasoningIsToldApart) {
  served = model_of("</think> tools tool_calls");
  const auto events_of = [&](const char* kind, Json& whole) {
    const auto exchange = open(kind, R"({"model": "tiny", "stream": true, "max_tokens": 9, "input": "a",
        "thinking": {"type": "enabled"}, "messages": [{"role": "user", "content": "a"}]})");
    if (std::string_view(kind) == "messages") {
      EXPECT_EQ(exchange->inputs()[0]["variables"]["enable_thinking"], true);
    }
    exchange->plan({4}, {"a<think>"});
    std::string events = exchange->begin({});
    events += exchange->take(0, {"why ", {{'a', -1}}});
    events += exchange->take(0, {"so</thi", {{'a', -1}}});
    events += exchange->take(0, last("nk>said"));
    events += exchange->close();
    whole = exchange->whole();
    return events;
  };
  Json whole;
  std::string events = events_of("responses", whole);
  ASSERT_EQ(whole["output"].size(), 2U);
  EXPECT_EQ(whole["output"][0]["type"], "reasoning");
  EXPECT_EQ(whole["output"][0]["content"][0]["text"], "why so");
  EXPECT_EQ(whole["output"][1]["content"][0]["text"], "said");
  EXPECT_EQ(whole["usage"]["output_tokens_details"]["reasoning_tokens"], 2);
  for (const char* type : {"reasoning_text.delta", "reasoning_text.done", "output_text.delta"})
    EXPECT_NE(events.find(std::string("event: response.") + type), std::string::npos) << type;
  events = events_of("messages", whole);
  EXPECT_EQ(whole["content"], Json::parse(R"([{"type": "thinking", "thinking": "why so", "signature": ""},
                                              {"type": "text", "text": "said", "citations": null}])"));
  const size_t thought = events.find("thinking_delta"), text = events.find("text_delta");
  EXPECT_LT(thought, events.find("content_block_stop"));
  EXPECT_LT(events.find("content_block_stop"), text);
  events = events_of("chat", whole);
  EXPECT_EQ(whole["choices"][0]["message"]["reasoning"], "why so");
  EXPECT_EQ(whole["choices"][0]["message"]["content"], "said");
}

TEST_F(Exchanges, ItemsOfAnAssistantAreOneMessage) {
  const Json rows = open("responses", R"({"model": "tiny", "input": [{"role": "user", "content": "a"},
      {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "so"}]},
      {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
      {"type": "function_call", "call_id": "c2", "name": "g", "arguments": "{}"},
      {"type": "function_call_output", "call_id": "c1", "output": "1"},
      {"type": "reasoning", "summary": [{"type": "summary_text", "text": "then"}]},
      {"role": "assistant", "content": "b"}, {"role": "assistant", "content": "c"},
      {"type": "reasoning", "summary": [{"type": "summary_text", "text": "cut off"}]}]})")
                        ->inputs()[0]["messages"];
  ASSERT_EQ(rows.size(), 5U);
  EXPECT_EQ(rows[1]["reasoning_content"], "so");
  EXPECT_EQ(rows[1]["tool_calls"].size(), 2U);
  EXPECT_EQ(rows[1]["tool_calls"][1]["id"], "c2");
  EXPECT_EQ(rows[2]["tool_call_id"], "c1");
  EXPECT_EQ(rows[3]["reasoning_content"], "then");
  EXPECT_EQ(rows[3]["content"], "b");
  EXPECT_EQ(rows[4]["content"], "c");
}

TEST_F(Exchanges, ResponsesAreRemembered) {
  std::string first;
  for (int i = 0; i < 3; ++i) {
    const auto made = open("responses", R"({"model": "tiny", "input": "a"})");
    made->plan({4}, {""});
    made->take(0, last("said"));
    const std::string id = made->whole()["id"];
    if (i == 0) first = id;
    const std::string next = R"({"model": "tiny", "input": "b", "previous_response_id": ")" + id + "\"}";
    EXPECT_EQ(open("responses", next.c_str())->inputs()[0]["messages"].size(), 3U);
  }
  EXPECT_THROW(store.get(first), Refusal);  // the store keeps two
}

TEST(Conversation, ToolsAreToldAsTextWhereTheTemplateHasNone) {
  const Tools tools{{Json{{"name", "f"}, {"parameters", Json::object()}}}, "auto"};
  const std::vector<Message> messages{{"system", "s"}, {"assistant", "t", {{"f", R"({"x": 1})", "call_1"}}}};
  const Json rows = conversation(messages, tools, {.exists = true})["messages"];
  EXPECT_EQ(rows[0]["content"].get<std::string>().find("s\n\nYou can call these functions:\n<tools>\n"
                                                       R"({"type": "function", "function": {"name": "f")"),
            0U);
  EXPECT_EQ(rows[1]["content"], "t<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": 1}}\n</tool_call>");
  EXPECT_THROW(conversation(messages, tools, {}), Refusal);
}

}  // namespace
}  // namespace opentrn::server::api
