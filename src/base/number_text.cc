#include "base/number_text.h"

#include <fmt/format.h>

namespace opentrn {

std::string grouped(int64_t number) {
  std::string text = fmt::format("{}", number);
  const size_t sign = number < 0 ? 1 : 0;
  for (size_t at = text.size(); at > sign + 3;) text.insert(at -= 3, 1, ',');
  return text;
}

std::string size_text(double bytes) {
  for (const char* unit : {"B", "KiB", "MiB"}) {
    if (bytes < 1024) return fmt::format("{:.4g} {}", bytes, unit);
    bytes /= 1024;
  }
  return fmt::format("{:.4g} GiB", bytes);
}

std::string time_text(double us) {
  if (us < 1e3) return fmt::format("{:.2f} us", us);
  if (us < 1e6) return fmt::format("{:.2f} ms", us / 1e3);
  return fmt::format("{:.2f} s", us / 1e6);
}

}  // namespace opentrn
