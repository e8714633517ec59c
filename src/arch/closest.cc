#include "arch/closest.h"

#include <algorithm>
#include <cctype>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace opentrn::arch {
namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return std::tolower(c); });
  return out;
}

// Levenshtein distance, one row at a time.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row.back();
}

}  // namespace

std::vector<std::string> closest(std::string_view name, const std::vector<std::string>& candidates,
                                 size_t count) {
  const std::string wanted = lower(name);
  std::vector<std::pair<size_t, std::string>> ranked;
  for (const std::string& candidate : candidates) {
    const size_t distance = edit_distance(wanted, lower(candidate));
    if (2 * distance <= std::max(candidate.size(), wanted.size())) ranked.emplace_back(distance, candidate);
  }
  std::sort(ranked.begin(), ranked.end());
  std::vector<std::string> out;
  for (auto& [distance, candidate] : ranked) {
    if (out.size() == count) break;
    out.push_back(std::move(candidate));
  }
  return out;
}

std::string did_you_mean(std::string_view name, const std::vector<std::string>& candidates,
                         std::string_view otherwise) {
  const std::vector<std::string> near = closest(name, candidates);
  if (near.empty()) return std::string(otherwise);
  return fmt::format("did you mean '{}'?", fmt::join(near, "' or '"));
}

}  // namespace opentrn::arch
