#include "server/api/answer_format.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/fault.h"

namespace opentrn::server::api {

using serving::CallForm;
using serving::ThoughtMarks;

namespace {

struct Reasoning {
  std::string_view name, open, close;
};
// vLLM's names of what reads reasoning between marks; of one pair of marks the first is the usual one.
constexpr std::array<Reasoning, 6> kReasoning = {{{"deepseek_r1", "<think>", "</think>"},
                                                  {"qwen3", "<think>", "</think>"},
                                                  {"glm45", "<think>", "</think>"},
                                                  {"minimax_m2", "<think>", "</think>"},
                                                  {"seed_oss", "<seed:think>", "</seed:think>"},
                                                  {"mistral", "[THINK]", "[/THINK]"}}};

struct Calls {
  std::string_view name, mark;  // in a chat template
  CallForm form;
};
// The first whose mark a template has.
constexpr std::array<Calls, 11> kCalls = {{{"glm45", "<arg_key>", CallForm::kGlm},
                                           {"minimax_m2", "<minimax:tool_call>", CallForm::kMiniMax},
                                           {"seed_oss", "<seed:tool_call>", CallForm::kSeed},
                                           {"deepseek_v3", "<｜tool▁calls▁begin｜>", CallForm::kDeepSeek},
                                           {"deepseek_v31", "<｜tool▁calls▁begin｜>", CallForm::kDeepSeek},
                                           {"kimi_k2", "<|tool_calls_section_begin|>", CallForm::kKimi},
                                           {"hermes", "<tool_call>", CallForm::kHermes},
                                           {"qwen3_coder", "<function=", CallForm::kHermes},
                                           {"mistral", "[TOOL_CALLS]", CallForm::kMistral},
                                           {"llama3_json", "<|python_tag|>", CallForm::kLlama},
                                           {"llama4_json", "Environment: ipython", CallForm::kLlama}}};

template <typename Rows>
auto row_of(const Rows& rows, std::string_view name, const char* option) {
  const auto row = std::ranges::find(rows, name, &Rows::value_type::name);
  if (row != rows.end()) return row;
  std::vector<std::string_view> names;
  for (const auto& each : rows) names.push_back(each.name);
  throw Fault(FaultKind::kInput, "serve.settings", fmt::format("{} is '{}'", option, name),
              fmt::format("auto, {}", fmt::join(names, ", ")));
}

}  // namespace

AnswerFormat answer_format(std::string_view chat_template, std::string_view reasoning_parser,
                           std::string_view tool_call_parser, const std::vector<std::string>& special) {
  const auto has = [&](std::string_view mark) { return chat_template.find(mark) != std::string_view::npos; };
  AnswerFormat format;
  format.channels = has("<|channel|>") && has("<|message|>");
  if (reasoning_parser == "auto") {
    const auto row = std::ranges::find_if(kReasoning, has, &Reasoning::close);
    if (row != kReasoning.end())
      format.thoughts = ThoughtMarks{std::string(row->open), std::string(row->close)};
  } else if (reasoning_parser != "none") {
    const auto row = row_of(kReasoning, reasoning_parser, "reasoning_parser");
    format.thoughts = ThoughtMarks{std::string(row->open), std::string(row->close)};
  }
  auto calls = std::ranges::find_if(kCalls, has, &Calls::mark);
  if (tool_call_parser != "auto") calls = row_of(kCalls, tool_call_parser, "tool_call_parser");
  if (calls != kCalls.end()) format.calls = calls->form;
  const auto is_special = [&](std::string_view mark) {
    return std::ranges::any_of(special, [&](const std::string& token) { return token == mark; });
  };
  format.has_markers =
      format.channels || (calls != kCalls.end() && is_special(calls->mark)) ||
      (format.thoughts && (is_special(format.thoughts->open) || is_special(format.thoughts->close)));
  return format;
}

std::string to_string(const AnswerFormat& format) {
  if (format.channels) return "reasoning and calls in Harmony's channels";
  const auto calls = std::ranges::find(kCalls, format.calls, &Calls::form);
  const std::string reasoning =
      format.thoughts ? fmt::format("reasoning in {}, ", format.thoughts->open) : "";
  return fmt::format("{}calls as {}", reasoning, calls->name);
}

bool ends_inside(std::string_view prompt, const ThoughtMarks& marks) {
  const size_t open = prompt.rfind(marks.open);
  return open != std::string_view::npos && prompt.find(marks.close, open) == std::string_view::npos;
}

std::unique_ptr<serving::AnswerReader> reader_of(const AnswerFormat& format, bool forced, bool open,
                                                 std::string_view prompt) {
  if (forced) return std::make_unique<serving::OneCallReader>();
  if (format.channels) return std::make_unique<serving::HarmonyReader>();
  std::unique_ptr<serving::AnswerReader> reader;
  if (open)
    reader = serving::reader_of_calls(format.calls);
  else
    reader = std::make_unique<serving::TextReader>();
  if (!format.thoughts) return reader;
  return std::make_unique<serving::ThoughtReader>(*format.thoughts, ends_inside(prompt, *format.thoughts),
                                                  std::move(reader));
}

}  // namespace opentrn::server::api
