// Writing and reading the payload of the file form. The reader refuses to pass its end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/fault.h"
#include "base/utf8.h"

namespace opentrn::isa::file {

class Writer {
 public:
  void byte(uint8_t value) { bytes_.push_back(static_cast<std::byte>(value)); }
  void number(uint64_t value) {
    for (; value >= 0x80; value >>= 7) byte(static_cast<uint8_t>(value | 0x80));
    byte(static_cast<uint8_t>(value));
  }
  void signed_number(int64_t value) {
    number((static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63));
  }
  void word(uint64_t value) {
    for (int i = 0; i < 8; ++i) byte(static_cast<uint8_t>(value >> (8 * i)));
  }
  void real(double value) {
    uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    word(bits);
  }
  void text(std::string_view value) { data(std::as_bytes(std::span(value))); }
  void data(std::span<const std::byte> value) {
    number(value.size());
    bytes_.insert(bytes_.end(), value.begin(), value.end());
  }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

class Reader {
 public:
  Reader(std::span<const std::byte> bytes, std::string_view filename) : bytes_(bytes), filename_(filename) {}

  [[noreturn]] void fail(std::string message) const {
    throw Fault(FaultKind::kInput, "file.payload",
                fmt::format("{}: payload offset {}: {}", filename_, at_, message),
                "write the file again, as with opentrn run --save-program");
  }
  void require(std::string error) const {
    if (!error.empty()) fail(std::move(error));
  }
  size_t left() const { return bytes_.size() - at_; }

  uint8_t byte() {
    if (at_ >= bytes_.size()) fail("the payload ends too early");
    return static_cast<uint8_t>(bytes_[at_++]);
  }
  uint64_t number() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const uint8_t next = byte();
      if (shift == 63 && next > 1) break;
      value |= static_cast<uint64_t>(next & 0x7F) << shift;
      if (!(next & 0x80)) return value;
    }
    fail("a number of more than 64 bits");
  }
  // A number below `end`.
  uint64_t below(uint64_t end, std::string_view what) {
    const uint64_t value = number();
    if (value >= end) fail(fmt::format("{} {} of {}", what, value, end));
    return value;
  }
  // How many items follow, each at least one byte long.
  size_t count(std::string_view what) {
    const uint64_t value = number();
    if (value > left()) fail(fmt::format("{} {} in {} bytes", value, what, left()));
    return static_cast<size_t>(value);
  }
  int64_t signed_number() {
    const uint64_t value = number();
    return static_cast<int64_t>(value >> 1) ^ -static_cast<int64_t>(value & 1);
  }
  uint64_t word() {
    uint64_t value = 0;
    for (int i = 0; i < 8; ++i) value |= static_cast<uint64_t>(byte()) << (8 * i);
    return value;
  }
  double real() {
    const uint64_t bits = word();
    double value = 0;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }
  // What is not UTF-8 comes escaped: texts stand in messages.
  std::string text() {
    const auto bytes = data("characters");
    const std::string value(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return is_utf8(value) ? value : printable(value);
  }
  std::vector<std::byte> data(std::string_view what = "bytes") {
    const size_t size = count(what);
    const auto part = bytes_.subspan(at_, size);
    at_ += size;
    return {part.begin(), part.end()};
  }

 private:
  std::span<const std::byte> bytes_;
  std::string filename_;
  size_t at_ = 0;
};

}  // namespace opentrn::isa::file
