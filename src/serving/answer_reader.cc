#include "serving/answer_reader.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "serving/answer_marks.h"
#include "serving/tagged_calls.h"

namespace opentrn::serving {

namespace {

using Kind = AnswerPart::Kind;

constexpr std::string_view kMessage = "<|message|>", kChannel = "<|channel|>", kFunction = "to=functions.";
constexpr std::array<std::string_view, 4> kEnds = {"<|end|>", "<|call|>", "<|return|>", "<|start|>"};
// That an assistant's message can begin with.
constexpr std::array<std::string_view, 5> kHeads = {kChannel, "<|constrain|>", " to=", "<|start|>",
                                                    "assistant"};
// Whether text can be the beginning of a message's header, or of `<|start|>assistant` before it.
bool begins_header(std::string_view text) {
  return std::ranges::any_of(
      kHeads, [&](std::string_view head) { return text.starts_with(head) || head.starts_with(text); });
}

// The letters, digits and underscores, or all but spaces and `<`, behind the first `mark`; nothing where it
// is absent.
std::optional<std::string> word_behind(std::string_view text, std::string_view mark, bool is_name) {
  const size_t at = text.find(mark);
  if (at == std::string_view::npos) return std::nullopt;
  std::string_view rest = text.substr(at + mark.size());
  if (is_name) rest.remove_prefix(std::min(rest.size(), rest.find_first_not_of(kSpaces)));
  const auto ends = [&](char c) {
    const bool is_word = std::isalnum(static_cast<unsigned char>(c)) || c == '_';
    return is_name ? !is_word : c == '<' || kSpaces.find(c) != std::string_view::npos;
  };
  const auto end = std::ranges::find_if(rest, ends);
  return end == rest.begin() ? std::nullopt : std::optional(std::string(rest.begin(), end));
}

}  // namespace

void MarkedCallReader::add_text(AnswerParts& parts, std::string_view text) const {
  if (!text.empty() && !(calls_ > 0 && is_space(text))) parts.push_back({Kind::kText, std::string(text), {}});
}

bool MarkedCallReader::add_call(AnswerParts& parts, std::string_view body) {
  AnswerParts calls = tagged_calls(body, has_bare_names_);
  if (is_call(stripped(body))) calls = {{Kind::kCall, std::string(stripped(body)), {}}};
  calls_ += std::ssize(calls);
  std::ranges::move(calls, std::back_inserter(parts));
  return !calls.empty();
}

AnswerParts TextReader::add(std::string_view text) {
  return text.empty() ? AnswerParts{} : AnswerParts{{Kind::kText, std::string(text), {}}};
}

AnswerParts OneCallReader::add(std::string_view text) {
  held_ += text;
  return {};
}

AnswerParts OneCallReader::rest() {
  const std::string held = std::exchange(held_, {});
  if (!is_call(held)) return {};
  ++calls_;
  return {{Kind::kCall, held, {}}};
}

AnswerParts MarkedCallReader::add(std::string_view text) {
  held_ += text;
  AnswerParts parts;
  for (;;) {
    const size_t begin = held_.find(open_);
    if (begin == std::string::npos) {
      add_text(parts, take(held_, held_.size() - begun_with_spaces(held_, open_)));
      return parts;
    }
    add_text(parts, without_spaces_behind(take(held_, begin)));
    const size_t end = held_.find(close_);
    if (end == std::string::npos) return parts;
    const std::string whole = take(held_, end + close_.size());
    if (!add_call(parts, std::string_view(whole).substr(open_.size(), end - open_.size())))
      parts.push_back({Kind::kText, whole, {}});
  }
}

AnswerParts MarkedCallReader::rest() {
  const std::string held = std::exchange(held_, {});
  AnswerParts parts;
  // One that has begun and has no end may be whole but for it.
  if (!held.starts_with(open_) || !add_call(parts, std::string_view(held).substr(open_.size())))
    add_text(parts, held);
  return parts;
}

AnswerParts HarmonyReader::add(std::string_view text) {
  held_ += text;
  AnswerParts parts;
  while (!held_.empty()) {
    const size_t before = held_.size();
    const bool was_header = header_.has_value();
    if (was_header)
      read_header(*header_);
    else
      read_message(parts);
    if (held_.size() == before && header_.has_value() == was_header) break;
  }
  return parts;
}

AnswerParts HarmonyReader::rest() {
  const std::string held = std::exchange(held_, {});
  AnswerParts parts;
  if (!header_)
    add_part(parts, held);
  else if (!held.empty() && !begins_header(*header_ + held))
    parts.push_back({Kind::kText, held, {}});
  close(parts);
  return parts;
}

void HarmonyReader::read_header(std::string& header) {
  const size_t at = held_.find(kMessage);
  if (at == std::string::npos) {
    if (header.empty() && !begins_header(held_))
      open("final");  // an answer in no channel, as a grammar makes it
    return;
  }
  const std::string whole = header + take(held_, at);
  held_.erase(0, kMessage.size());
  open(whole);
}

void HarmonyReader::open(std::string_view header) {
  channel_ = word_behind(header, kChannel, true).value_or("final");
  call_ = word_behind(header, kFunction, false).value_or("");
  arguments_.clear();
  header_.reset();
}

void HarmonyReader::read_message(AnswerParts& parts) {
  size_t at = std::string::npos, mark = 0, keep = 0;
  for (const std::string_view end : kEnds) {
    if (const size_t found = held_.find(end); found < at) {
      at = found;
      mark = end.size();
    }
    keep = std::max(keep, begun(held_, end));
  }
  if (at == std::string::npos) {
    add_part(parts, take(held_, held_.size() - keep));
    return;
  }
  add_part(parts, take(held_, at));
  held_.erase(0, mark);
  close(parts);
  header_ = "";
}

void HarmonyReader::add_part(AnswerParts& parts, std::string_view text) {
  if (!call_.empty())
    arguments_ += text;
  else if (!text.empty())
    parts.push_back({channel_ == "analysis" ? Kind::kThought : Kind::kText, std::string(text), {}});
}

void HarmonyReader::close(AnswerParts& parts) {
  const std::string name = std::exchange(call_, {});
  if (name.empty()) return;
  ++calls_;
  parts.push_back({Kind::kCall, arguments_, name});
}

}  // namespace opentrn::serving
