#include "serving/answer_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

namespace opentrn::serving {

namespace {

constexpr std::string_view kNoCharacter = "\xEF\xBF\xBD";  // U+FFFD

// Tokens that are decoded in front of a new one, at most, where the one before it has no text by itself.
constexpr size_t kKept = 32;

// By code point, the byte that GPT-2's letter stands for; -1 for what is no letter of it. Bytes that are no
// visible characters of Latin-1 have those from 256 on, in their order.
constexpr int kLetters = 256 + 68;
std::array<int16_t, kLetters> letters_of_bytes() {
  std::array<int16_t, kLetters> bytes;
  bytes.fill(-1);
  size_t next = 256;
  for (int16_t byte = 0; byte < 256; ++byte) {
    const bool visible = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xFF && byte != 0xAD);
    bytes[visible ? static_cast<size_t>(byte) : next++] = byte;
  }
  return bytes;
}

// The code point that begins a text, of those below 0x800, and its bytes; {-1, 0} for others.
std::pair<int, size_t> first_letter(std::string_view text) {
  const auto first = static_cast<uint8_t>(text[0]);
  if (first < 0x80) return {first, 1};
  if ((first & 0xE0) != 0xC0 || text.size() < 2) return {-1, 0};
  return {(first & 0x1F) << 6 | (static_cast<uint8_t>(text[1]) & 0x3F), 2};
}

}  // namespace

TextStream::TextStream(Decode decode, std::vector<int32_t> before)
    : decode_(std::move(decode)),
      tokens_(std::move(before)),
      given_(decode_(tokens_)),
      whole_(tokens_.size()) {
  if (!given_.ends_with(kNoCharacter)) return;
  tokens_.clear();
  given_.clear();
  whole_ = 0;
}

std::string TextStream::add(int32_t token) {
  tokens_.push_back(token);
  std::string text = decode_(tokens_);
  if (text.ends_with(kNoCharacter)) return "";
  std::string fresh = text.substr(std::min(given_.size(), text.size()));
  given_ = keep_last(std::move(text));
  whole_ = tokens_.size();
  return fresh;
}

// What was given is whole, and need not be decoded again: of the tokens those are kept that have a text by
// themselves, the last one or the last character's; else the last few. Their text.
std::string TextStream::keep_last(std::string text) {
  for (const size_t first : {tokens_.size() - 1, whole_}) {
    std::vector<int32_t> last(tokens_.begin() + static_cast<std::ptrdiff_t>(first), tokens_.end());
    std::string end = decode_(last);
    if (end.empty() || end.ends_with(kNoCharacter) || !text.ends_with(end)) continue;
    tokens_ = std::move(last);
    return end;
  }
  if (tokens_.size() <= kKept) return text;
  tokens_.erase(tokens_.begin(), tokens_.end() - static_cast<std::ptrdiff_t>(kKept));
  return decode_(tokens_);
}

std::string TextStream::rest() const {
  const std::string text = decode_(tokens_);
  return text.substr(std::min(given_.size(), text.size()));
}

AnswerText::AnswerText(Decode decode, std::vector<std::string> stop, bool keeps_stop,
                       std::vector<int32_t> before)
    : stream_(std::move(decode), std::move(before)), stop_(std::move(stop)), keeps_stop_(keeps_stop) {
  std::erase(stop_, "");
}

std::string AnswerText::add(int32_t token) { return shown(stream_.add(token)); }

std::string AnswerText::rest() {
  std::string text = shown(stream_.rest());
  return stopped_ ? text : text + std::exchange(held_, "");
}

std::string AnswerText::shown(std::string text) {
  if (stop_.empty() || stopped_) return text;
  text.insert(0, std::exchange(held_, ""));
  std::pair<size_t, std::string> first{std::string::npos, ""};
  for (const std::string& word : stop_)
    if (const size_t at = text.find(word); at != std::string::npos) first = std::min(first, {at, word});
  if (const auto& [at, word] = first; at != std::string::npos) {
    stopped_ = word;
    return text.substr(0, at + (keeps_stop_ ? word.size() : 0));
  }
  size_t held = std::min(std::ranges::max(stop_, {}, &std::string::size).size() - 1, text.size());
  const auto may_begin = [&](const std::string& word) {
    return word.starts_with(text.substr(text.size() - held));
  };
  while (held > 0 && std::ranges::none_of(stop_, may_begin)) --held;
  held_ = text.substr(text.size() - held);
  text.resize(text.size() - held);
  return text;
}

std::string bytes_of_letters(std::string_view letters) {
  static const std::array<int16_t, kLetters> kBytes = letters_of_bytes();
  std::string bytes;
  for (size_t at = 0; at < letters.size();) {
    const auto [letter, size] = first_letter(letters.substr(at));
    if (letter < 0 || letter >= kLetters || kBytes[static_cast<size_t>(letter)] < 0)
      return std::string(letters);
    bytes += static_cast<char>(kBytes[static_cast<size_t>(letter)]);
    at += size;
  }
  return bytes;
}

std::string bytes_of_piece(std::string_view piece) {
  constexpr std::string_view kSpace = "\xE2\x96\x81";
  unsigned byte = 0;
  if (piece.size() == 6 && piece.starts_with("<0x") && piece.ends_with('>') &&
      std::from_chars(piece.data() + 3, piece.data() + 5, byte, 16).ptr == piece.data() + 5)
    return std::string(1, static_cast<char>(byte));
  std::string bytes;
  for (size_t at = 0; at < piece.size();) {
    const bool is_space = piece.substr(at).starts_with(kSpace);
    bytes += is_space ? ' ' : piece[at];
    at += is_space ? kSpace.size() : 1;
  }
  return bytes;
}

}  // namespace opentrn::serving
