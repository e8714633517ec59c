// Programs as jaxlib encodes them, and the same as text (programs.inc, made by make_programs.py).
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace opentrn::import::testdata {

struct Program {
  const char* name;
  std::string_view version;  // of StableHLO, or "hlo"
  const char* text;
  std::string_view hex;

  std::vector<std::byte> bytes() const {
    const auto nibble = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
    std::vector<std::byte> out;
    int high = -1;
    for (const char c : hex) {
      if (c == '\n') continue;
      if (high < 0) {
        high = nibble(c);
      } else {
        out.push_back(static_cast<std::byte>(high * 16 + nibble(c)));
        high = -1;
      }
    }
    return out;
  }
};

inline constexpr Program kPrograms[] = {
#include "import/testdata/programs.inc"
};

}  // namespace opentrn::import::testdata
