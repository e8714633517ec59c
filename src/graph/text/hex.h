// Hexadecimal text to bytes and back, fast: weights come this way, hundreds of megabytes at a time.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace opentrn::graph::text {

// digits.size() is even; writes digits.size() / 2 bytes. False when a character is no digit (the output
// is then unspecified).
bool decode_hex(std::string_view digits, std::byte* to);
// Upper case.
void append_hex(std::span<const std::byte> bytes, std::string& to);

}  // namespace opentrn::graph::text
