// Calls as Llama's and Mistral's models write them, and reasoning between marks.
#include <array>

#include "serving/answer_marks.h"
#include "serving/answer_reader.h"

namespace opentrn::serving {

namespace {

using Kind = AnswerPart::Kind;

constexpr std::string_view kPythonTag = "<|python_tag|>", kToolCalls = "[TOOL_CALLS]", kArguments = "[ARGS]";
constexpr std::string_view kBetweenCalls = " \t\n\r\f\v;,";

void add_text(AnswerParts& parts, std::string text) {
  if (!text.empty()) parts.push_back({Kind::kText, std::move(text), {}});
}

void add_thought(AnswerParts& parts, std::string text) {
  if (!text.empty()) parts.push_back({Kind::kThought, std::move(text), {}});
}

// Behind the first JSON object or list, which `text` begins with; npos where it is not whole.
size_t json_end(std::string_view text) {
  int64_t depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      quoted = c != '"';
    } else if (c == '"') {
      quoted = true;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if ((c == '}' || c == ']') && --depth == 0) {
      return i + 1;
    }
  }
  return std::string_view::npos;
}

// {"name": ..., "arguments" or "parameters": {...}}
bool is_call_of(std::string_view text, std::string_view arguments) {
  const auto found = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  return found.is_object() && found.contains("name") && found["name"].is_string() &&
         (found.contains("arguments") || found.contains(arguments));
}

}  // namespace

// --- Llama

AnswerParts LlamaReader::add(std::string_view text) {
  held_ += text;
  AnswerParts parts;
  if (state_ == State::kStart) read_start();
  if (state_ == State::kCalls) read_calls(parts);
  if (state_ == State::kText) add_text(parts, std::exchange(held_, {}));
  return parts;
}

AnswerParts LlamaReader::rest() {
  AnswerParts parts;
  add_text(parts, std::exchange(held_, {}));
  return parts;
}

void LlamaReader::read_start() {
  const size_t first = std::min(held_.find_first_not_of(kSpaces), held_.size());
  const std::string_view rest = std::string_view(held_).substr(first);
  if (rest.empty() || kPythonTag.starts_with(rest)) return;  // more has to come
  if (rest.starts_with(kPythonTag)) {
    held_.erase(0, first + kPythonTag.size());
    state_ = State::kCalls;
  } else {
    state_ = rest.starts_with('{') ? State::kCalls : State::kText;
  }
}

void LlamaReader::read_calls(AnswerParts& parts) {
  for (;;) {
    const size_t first = held_.find_first_not_of(calls_ > 0 ? kBetweenCalls : kSpaces);
    if (first == std::string::npos) return;
    const std::string_view rest = std::string_view(held_).substr(first);
    const size_t end = rest.starts_with('{') ? json_end(rest) : 0;
    if (end == std::string_view::npos) return;
    if (end == 0 || !is_call_of(rest.substr(0, end), "parameters")) {
      state_ = State::kText;
      return;
    }
    ++calls_;
    parts.push_back({Kind::kCall, std::string(rest.substr(0, end)), {}});
    held_.erase(0, first + end);
  }
}

// --- Mistral

AnswerParts MistralReader::add(std::string_view text) {
  held_ += text;
  AnswerParts parts;
  if (!in_calls_) {
    const size_t at = held_.find(kToolCalls);
    in_calls_ = at != std::string::npos;
    const std::string before =
        take(held_, in_calls_ ? at : held_.size() - begun_with_spaces(held_, kToolCalls));
    add_text(parts, std::string(in_calls_ ? without_spaces_behind(before) : before));
  }
  while (in_calls_ && read_call(parts)) {
  }
  return parts;
}

AnswerParts MistralReader::rest() {
  AnswerParts parts;
  std::string held = std::exchange(held_, {});
  if (!is_space(held)) add_text(parts, std::move(held));
  return parts;
}

// One mark and the calls behind it; false where they are not whole, or are none.
bool MistralReader::read_call(AnswerParts& parts) {
  const size_t first = held_.find_first_not_of(kSpaces);
  if (first == std::string::npos || !std::string_view(held_).substr(first).starts_with(kToolCalls))
    return false;
  const size_t body = held_.find_first_not_of(kSpaces, first + kToolCalls.size());
  const size_t json = held_.find_first_of("[{", body);
  if (body == std::string::npos || json == std::string::npos) return false;
  std::string_view name = stripped(std::string_view(held_).substr(body, json - body));
  std::string_view value = std::string_view(held_).substr(json);
  if (!name.empty() && value.starts_with('[')) {  // of a mark
    if (kArguments.starts_with(value)) return false;
    if (!value.starts_with(kArguments)) return false;
    value.remove_prefix(kArguments.size());
    value.remove_prefix(std::min(value.find_first_not_of(kSpaces), value.size()));
  }
  const size_t end = json_end(value);
  if (end == std::string_view::npos) return false;
  const std::string_view whole = value.substr(0, end);
  const size_t before = parts.size();
  if (!name.empty()) {
    if (nlohmann::json::parse(whole, nullptr, false).is_object())
      parts.push_back({Kind::kCall, std::string(whole), std::string(name)});
  } else {
    for (std::string_view list = whole.substr(1); !list.empty();) {
      const size_t at = list.find('{');
      if (at == std::string_view::npos) break;
      list.remove_prefix(at);
      const size_t length = std::min(json_end(list), list.size());
      if (!is_call_of(list.substr(0, length), "arguments")) break;
      parts.push_back({Kind::kCall, std::string(list.substr(0, length)), {}});
      list.remove_prefix(length);
    }
  }
  if (parts.size() == before) return false;  // shown as it is at the end
  calls_ += static_cast<int64_t>(parts.size() - before);
  held_.erase(0, static_cast<size_t>(value.data() - held_.data()) + end);
  return true;
}

std::unique_ptr<AnswerReader> reader_of_calls(CallForm form) {
  switch (form) {
    case CallForm::kHermes: return std::make_unique<MarkedCallReader>();
    case CallForm::kLlama: return std::make_unique<LlamaReader>();
    case CallForm::kMistral: return std::make_unique<MistralReader>();
    case CallForm::kGlm: return std::make_unique<MarkedCallReader>("<tool_call>", "</tool_call>", true);
    case CallForm::kMiniMax:
      return std::make_unique<MarkedCallReader>("<minimax:tool_call>", "</minimax:tool_call>");
    case CallForm::kDeepSeek:
      return std::make_unique<MarkedCallReader>("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>");
    case CallForm::kKimi:
      return std::make_unique<MarkedCallReader>("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>");
    case CallForm::kSeed: return std::make_unique<MarkedCallReader>("<seed:tool_call>", "</seed:tool_call>");
  }
  return nullptr;
}

// --- reasoning

ThoughtReader::ThoughtReader(ThoughtMarks marks, bool begins_inside, std::unique_ptr<AnswerReader> answer)
    : marks_(std::move(marks)),
      state_(begins_inside ? State::kInside : State::kStart),
      answer_(std::move(answer)) {}

AnswerParts ThoughtReader::add(std::string_view text) {
  if (state_ == State::kAnswer) return answer_->add(text);
  held_ += text;
  AnswerParts parts;
  if (state_ == State::kStart && !read_start()) return parts;
  if (state_ == State::kInside && !read_thought(parts)) return parts;
  std::ranges::move(answer_->add(std::exchange(held_, {})), std::back_inserter(parts));
  return parts;
}

AnswerParts ThoughtReader::rest() {
  AnswerParts parts;
  std::string held = std::exchange(held_, {});
  if (state_ == State::kInside)
    add_thought(parts, std::move(held));
  else if (!held.empty())
    parts = answer_->add(held);
  std::ranges::move(answer_->rest(), std::back_inserter(parts));
  return parts;
}

// Whether it is known by now if the answer begins with a thought.
bool ThoughtReader::read_start() {
  const size_t first = std::min(held_.find_first_not_of(kSpaces), held_.size());
  const std::string_view rest = std::string_view(held_).substr(first);
  if (std::string_view(marks_.open).starts_with(rest) && rest.size() < marks_.open.size()) return false;
  const bool thinks = rest.starts_with(marks_.open);
  if (thinks) held_.erase(0, first + marks_.open.size());
  state_ = thinks ? State::kInside : State::kAnswer;
  return true;
}

// Whether the thought has ended.
bool ThoughtReader::read_thought(AnswerParts& parts) {
  const size_t at = held_.find(marks_.close);
  if (at == std::string::npos) {
    add_thought(parts, take(held_, held_.size() - begun(held_, marks_.close)));
    return false;
  }
  add_thought(parts, take(held_, at));
  held_.erase(0, marks_.close.size());
  state_ = State::kAnswer;
  return true;
}

}  // namespace opentrn::serving
