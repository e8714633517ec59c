#include "base/utf8.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <fmt/format.h>

namespace opentrn {

namespace {

// Bytes of the well-formed character at the begin of `text` (Unicode, table 3-7); 0 when there is none.
size_t character(std::string_view text) {
  const auto at = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = at(0);
  if (first < 0x80) return 1;
  const size_t size = first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF5 ? 4 : 0;
  if (size == 0 || text.size() < size) return 0;
  // No overlong forms, no halves of surrogate pairs, nothing above U+10FFFF.
  const uint8_t low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const uint8_t high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  if (at(1) < low || at(1) > high) return 0;
  for (size_t i = 2; i < size; ++i)
    if (at(i) < 0x80 || at(i) > 0xBF) return 0;
  return size;
}

}  // namespace

std::string printable(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  while (!bytes.empty()) {
    const size_t size = character(bytes);
    if (size == 0) {
      text += fmt::format("\\x{:02x}", static_cast<uint8_t>(bytes[0]));
    } else {
      text += bytes.substr(0, size);
    }
    bytes.remove_prefix(size == 0 ? 1 : size);
  }
  return text;
}

bool is_utf8(std::string_view bytes) {
  while (!bytes.empty()) {
    const size_t size = character(bytes);
    if (size == 0) return false;
    bytes.remove_prefix(size);
  }
  return true;
}

size_t character_count(std::string_view bytes) {
  size_t count = 0;
  for (; !bytes.empty(); ++count) bytes.remove_prefix(std::max<size_t>(character(bytes), 1));
  return count;
}

}  // namespace opentrn
