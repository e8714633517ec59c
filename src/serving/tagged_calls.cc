#include "serving/tagged_calls.h"

#include <cctype>
#include <optional>
#include <string>

#include "serving/answer_marks.h"

namespace opentrn::serving {

namespace {

using Kind = AnswerPart::Kind;

// What stands from the end of `open` to `close`, which are taken off the text with what is before; nothing
// where one of them is missing.
std::optional<std::string_view> between(std::string_view& text, std::string_view open,
                                        std::string_view close) {
  const size_t first = text.find(open);
  if (first == std::string_view::npos) return std::nullopt;
  const size_t begin = first + open.size(), end = text.find(close, begin);
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view inside = text.substr(begin, end - begin);
  text.remove_prefix(end + close.size());
  return inside;
}

// Values stand on lines of their own, or right behind their tags.
std::string value_of(std::string_view text) {
  if (text.starts_with('\n')) text.remove_prefix(1);
  if (text.ends_with('\n')) text.remove_suffix(1);
  return std::string(text);
}

bool is_name(std::string_view text) {
  const auto is_letter = [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '-' || c == '.'; };
  return !text.empty() && std::ranges::all_of(text, is_letter);
}

struct Tags {
  std::string_view call, call_end, call_close, parameter, parameter_end;
};
constexpr Tags kFunction = {"<function=", ">", "</function>", "<parameter=", ">"};
constexpr Tags kInvoke = {"<invoke name=\"", "\">", "</invoke>", "<parameter name=\"", "\">"};

AnswerParts calls_between(std::string_view text, const Tags& tags) {
  AnswerParts calls;
  while (const auto name = between(text, tags.call, tags.call_end)) {
    if (!is_name(*name)) return {};
    // A call whose end is missing has what is left.
    const size_t end = std::min(text.find(tags.call_close), text.size());
    std::string_view body = text.substr(0, end);
    text.remove_prefix(std::min(end + tags.call_close.size(), text.size()));
    AnswerPart call{Kind::kCall, {}, std::string(*name), {}};
    while (const auto key = between(body, tags.parameter, tags.parameter_end)) {
      const auto value = between(body, "", "</parameter>");
      if (!value) break;
      call.values.emplace_back(*key, value_of(*value));
    }
    calls.push_back(std::move(call));
  }
  return calls;
}

struct Tokens {
  std::string_view call, call_end, separator;
};
constexpr Tokens kDeepSeek = {"<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", "<｜tool▁sep｜>"};
constexpr Tokens kKimi = {"<|tool_call_begin|>", "<|tool_call_end|>", "<|tool_call_argument_begin|>"};

// A name with its arguments; of DeepSeek V3 and R1 `function`, and then the name on a line and JSON as
// Markdown has code; of Kimi `functions.NAME:NUMBER`. Nothing for another text.
std::optional<AnswerPart> token_call(std::string_view name, std::string_view arguments) {
  if (name == "function") {
    const size_t line = std::min(arguments.find('\n'), arguments.size());
    name = stripped(arguments.substr(0, line));
    arguments = stripped(arguments.substr(line));
    constexpr std::string_view kFence = "```";
    if (arguments.starts_with("```json")) arguments.remove_prefix(7);
    if (arguments.ends_with(kFence)) arguments.remove_suffix(kFence.size());
  }
  if (name.starts_with("functions.")) name = name.substr(10, name.rfind(':') - 10);
  arguments = stripped(arguments);
  const auto found = nlohmann::json::parse(arguments, nullptr, /*allow_exceptions=*/false);
  if (!is_name(name) || !found.is_object()) return std::nullopt;
  return AnswerPart{Kind::kCall, std::string(arguments), std::string(name)};
}

AnswerParts calls_between(std::string_view text, const Tokens& tokens) {
  AnswerParts calls;
  for (size_t at; (at = text.find(tokens.call)) != std::string_view::npos;) {
    text.remove_prefix(at + tokens.call.size());
    const size_t end = std::min(text.find(tokens.call_end), text.size());
    const std::string_view body = text.substr(0, end);
    text.remove_prefix(end);
    const size_t separator = body.find(tokens.separator);
    if (separator == std::string_view::npos) return {};
    auto call = token_call(stripped(body.substr(0, separator)),
                           stripped(body.substr(separator + tokens.separator.size())));
    if (!call) return {};
    calls.push_back(std::move(*call));
  }
  return calls;
}

AnswerParts named_call(std::string_view text) {
  const size_t first = std::min(text.find("<arg_key>"), text.size());
  const std::string_view name = stripped(text.substr(0, first));
  if (!is_name(name)) return {};
  AnswerPart call{Kind::kCall, {}, std::string(name), {}};
  std::string_view rest = text.substr(first);
  while (const auto key = between(rest, "<arg_key>", "</arg_key>")) {
    const auto value = between(rest, "<arg_value>", "</arg_value>");
    if (!value) break;
    call.values.emplace_back(stripped(*key), value_of(*value));
  }
  return {std::move(call)};
}

}  // namespace

AnswerParts tagged_calls(std::string_view text, bool has_bare_names) {
  for (const Tags& tags : {kFunction, kInvoke})
    if (text.find(tags.call) != std::string_view::npos) return calls_between(text, tags);
  for (const Tokens& tokens : {kDeepSeek, kKimi})
    if (text.find(tokens.call) != std::string_view::npos) return calls_between(text, tokens);
  return has_bare_names ? named_call(text) : AnswerParts{};
}

}  // namespace opentrn::serving
