// What values of options may be, where CLI11's own words say it badly.
#pragma once

#include <cmath>
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

}  // namespace opentrn::cli
