// What values of options may be, where CLI11's own words say it badly.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>

#include <fmt/format.h>

#include <CLI/CLI.hpp>

namespace opentrn::cli {

// A finite number above zero. CLI11's PositiveNumber answers 0 with "not in range 0.000000 to 1797693...".
inline CLI::Validator above_zero() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        double value = 0;
        if (!CLI::detail::lexical_cast(text, value)) return fmt::format("'{}' is not a number", text);
        return std::isfinite(value) && value > 0 ? "" : fmt::format("{} is not above 0", text);
      },
      "POSITIVE");
}

// A bound as a person writes it: 100000000, not 1e+08.
inline std::string bound_text(double bound) {
  return bound == std::floor(bound) && std::abs(bound) < 1e15 ? fmt::format("{:.0f}", bound)
                                                              : fmt::format("{:g}", bound);
}

// A finite number from `least` to `most`. CLI11's Range takes "nan", which is less than nothing and more than
// nothing, and the program behind it computes with it.
inline CLI::Validator within(double least, double most) {
  const std::string range = fmt::format("{} to {}", bound_text(least), bound_text(most));
  return CLI::Validator(
      [least, most, range](std::string& text) -> std::string {
        double value = 0;
        if (!CLI::detail::lexical_cast(text, value)) return fmt::format("'{}' is not a number", text);
        return value >= least && value <= most ? "" : fmt::format("{} is not from {}", text, range);
      },
      "from " + range);
}

// A whole number from `least` to `most`. CLI11's Range says of "1e3" that it is not in 1 to 100000.
inline CLI::Validator whole_within(int64_t least, int64_t most) {
  const std::string range = fmt::format("{} to {}", least, most);
  return CLI::Validator(
      [least, most, range](std::string& text) -> std::string {
        int64_t value = 0;
        if (!CLI::detail::lexical_cast(text, value)) return fmt::format("'{}' is not a whole number", text);
        return value >= least && value <= most ? "" : fmt::format("{} is not from {}", text, range);
      },
      "from " + range);
}

}  // namespace opentrn::cli
