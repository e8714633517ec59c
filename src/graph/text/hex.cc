#include "graph/text/hex.h"

#include <array>
#include <cstdint>
#include <cstring>

namespace opentrn::graph::text {

namespace {

// Eight digits at a time in one 64-bit word: each byte's low nibble plus 9 for letters, and a check that
// every byte is a digit or a letter a..f of either case.
constexpr uint64_t repeat(uint8_t byte) { return 0x0101010101010101u * byte; }

// 0x80 in each byte of `word` (all below 0x80) that is at least `low`.
constexpr uint64_t at_least(uint64_t word, uint8_t low) { return (word + repeat(0x80 - low)) & repeat(0x80); }

struct Decoded {
  uint32_t bytes;
  bool valid;
};

inline Decoded decode_word(const char* digits) {
  uint64_t word;
  std::memcpy(&word, digits, sizeof(word));
  const uint64_t ascii = word & repeat(0x7F);
  const uint64_t lower = ascii | repeat(0x20);
  const uint64_t digit = at_least(ascii, '0') & ~at_least(ascii, '9' + 1);
  const uint64_t letter = at_least(ascii, 'A') & at_least(lower, 'a') & ~at_least(lower, 'f' + 1);
  const bool valid = ((digit | letter) & ~(word & repeat(0x80))) == repeat(0x80);
  uint64_t nibbles = (ascii & repeat(0x0F)) + (letter >> 7) * 9;
  // Pairs of nibbles, the first one high, to bytes; then the four bytes together.
  nibbles = (nibbles << 4 | nibbles >> 8) & 0x00FF00FF00FF00FFu;
  nibbles = (nibbles | nibbles >> 8) & 0x0000FFFF0000FFFFu;
  return {static_cast<uint32_t>(nibbles | nibbles >> 16), valid};
}

}  // namespace

bool decode_hex(std::string_view digits, std::byte* to) {
  bool valid = true;
  size_t at = 0;
  for (; at + 8 <= digits.size(); at += 8) {
    const Decoded four = decode_word(digits.data() + at);
    valid &= four.valid;
    std::memcpy(to + at / 2, &four.bytes, 4);
  }
  if (at < digits.size()) {
    std::array<char, 8> rest;
    rest.fill('0');
    std::memcpy(rest.data(), digits.data() + at, digits.size() - at);
    const Decoded four = decode_word(rest.data());
    valid &= four.valid;
    std::memcpy(to + at / 2, &four.bytes, (digits.size() - at) / 2);
  }
  return valid;
}

void append_hex(std::span<const std::byte> bytes, std::string& to) {
  static constexpr auto kPairs = [] {
    constexpr char kDigits[] = "0123456789ABCDEF";
    std::array<std::array<char, 2>, 256> pairs{};
    for (size_t i = 0; i < 256; ++i) pairs[i] = {kDigits[i >> 4], kDigits[i & 15]};
    return pairs;
  }();
  const size_t start = to.size();
  to.resize(start + 2 * bytes.size());
  for (size_t i = 0; i < bytes.size(); ++i)
    std::memcpy(&to[start + 2 * i], kPairs[static_cast<uint8_t>(bytes[i])].data(), 2);
}

}  // namespace opentrn::graph::text
