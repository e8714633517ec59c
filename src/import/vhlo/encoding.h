// Numbers of MLIR bytecode, read from a span with a check at every step.
// Source: mlir/docs/BytecodeFormat.md (the "Fixed-Width" and "Variable-Width Integers" sections).
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/fault.h"

namespace opentrn::import::vhlo {

[[noreturn]] inline void fail(std::string message, std::string hint = {}) {
  throw Fault(FaultKind::kInput, "vhlo.bytecode", std::move(message), std::move(hint));
}

class Reader {
 public:
  // `offset`: where the span lies in the file, for messages.
  Reader(std::span<const std::byte> bytes, size_t offset) : bytes_(bytes), offset_(offset) {}

  bool empty() const { return at_ == bytes_.size(); }
  size_t left() const { return bytes_.size() - at_; }
  size_t offset() const { return offset_ + at_; }

  std::span<const std::byte> take(uint64_t count) {
    if (count > left())
      fail(fmt::format("{} bytes wanted at offset {}, {} are left", count, offset(), left()));
    const auto taken = bytes_.subspan(at_, static_cast<size_t>(count));
    at_ += static_cast<size_t>(count);
    return taken;
  }
  uint8_t byte() { return static_cast<uint8_t>(take(1)[0]); }

  // The trailing zeros of the first byte count the bytes that follow.
  uint64_t varint() {
    const uint8_t first = byte();
    if (first & 1) return first >> 1;
    const int more = first == 0 ? 8 : std::countr_zero(first);
    const auto rest = take(static_cast<uint64_t>(more));
    uint64_t value = 0;
    for (size_t i = rest.size(); i-- > 0;) value = value << 8 | static_cast<uint8_t>(rest[i]);
    if (first == 0) return value;
    return (value << 8 | first) >> (more + 1);
  }
  int64_t signed_varint() {
    const uint64_t value = varint();
    return static_cast<int64_t>(value >> 1 ^ (~(value & 1) + 1));
  }
  // The lowest bit is a flag.
  std::pair<uint64_t, bool> varint_with_flag() {
    const uint64_t value = varint();
    return {value >> 1, (value & 1) != 0};
  }
  // A count of things that take at least `bytes_each` each: no input can ask for more than it could fill.
  size_t count(size_t bytes_each = 1) {
    const uint64_t value = varint();
    if (value > left() / bytes_each)
      fail(
          fmt::format("{} entries announced at offset {}, where {} bytes are left", value, offset(), left()));
    return static_cast<size_t>(value);
  }
  std::string_view c_string() {
    size_t end = at_;
    while (end < bytes_.size() && bytes_[end] != std::byte{0}) ++end;
    if (end == bytes_.size()) fail(fmt::format("the string at offset {} has no end", offset()));
    const std::string_view text(reinterpret_cast<const char*>(bytes_.data()) + at_, end - at_);
    at_ = end + 1;
    return text;
  }
  void align(uint64_t alignment) {
    if (alignment == 0 || (alignment & (alignment - 1)) != 0 || alignment > 1 << 20)
      fail(fmt::format("an alignment of {} at offset {}", alignment, offset()));
    while (offset() % alignment != 0)
      if (byte() != 0xCB) fail(fmt::format("padding expected at offset {}", offset() - 1));
  }

 private:
  std::span<const std::byte> bytes_;
  size_t offset_;
  size_t at_ = 0;
};

}  // namespace opentrn::import::vhlo
