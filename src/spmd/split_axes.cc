#include "spmd/split_axes.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace opentrn::spmd {

namespace {

std::string piece_name(const std::string& axis, int64_t start) { return fmt::format("{}.{}", axis, start); }

// Digits from `at` on, which moves behind them; empty where there are none.
std::string_view digits(std::string_view text, size_t& at) {
  const size_t begin = at;
  while (at < text.size() && text[at] >= '0' && text[at] <= '9') ++at;
  return text.substr(begin, at - begin);
}

int64_t number(std::string_view text) {
  int64_t value = 0;
  for (const char digit : text) value = value * 10 + (digit - '0');
  return value;
}

// What `rewrite` makes of the quoted names of a text; it is given a name and where it ends, which it may
// move.
template <class Rewrite>
std::string with_names(std::string_view text, Rewrite&& rewrite) {
  std::string made;
  size_t at = 0;
  while (at < text.size()) {
    const size_t begin = text.find('"', at);
    const size_t end = begin == std::string_view::npos ? begin : text.find('"', begin + 1);
    if (end == std::string_view::npos) break;
    made += text.substr(at, begin - at);
    size_t behind = end + 1;
    const std::string written = rewrite(std::string(text.substr(begin + 1, end - begin - 1)), behind);
    made += written.empty() ? text.substr(begin, behind - begin) : std::string_view(written);
    at = behind;
  }
  return made += text.substr(at);
}

}  // namespace

SplitAxes::SplitAxes(std::map<std::string, int64_t> sizes) : sizes_(std::move(sizes)) {
  for (const auto& [axis, size] : sizes_) starts_[axis] = {1};
}

bool SplitAxes::cut(std::span<const SplitPart> parts) {
  std::map<std::string, std::set<int64_t>> starts;
  for (const auto& [axis, known] : starts_) starts[axis] = {known.begin(), known.end()};
  for (const SplitPart& part : parts) {
    const auto piece = pieces_.find(part.axis);
    const std::string& axis = piece == pieces_.end() ? part.axis : piece->second.axis;
    const int64_t front = piece == pieces_.end() ? 1 : piece->second.start;
    const auto found = starts.find(axis);
    if (found == starts.end()) return false;
    for (const int64_t start : {front * part.before, front * part.before * part.size})
      if (start != sizes_.at(axis)) found->second.insert(start);
  }
  std::map<std::string, std::vector<int64_t>> ordered;
  for (const auto& [axis, known] : starts) {
    std::vector<int64_t>& row = ordered[axis];
    row.assign(known.begin(), known.end());
    for (size_t i = 0; i < row.size(); ++i) {
      const int64_t next = i + 1 < row.size() ? row[i + 1] : sizes_.at(axis);
      if (row[i] == 0 || next % row[i] != 0) return false;
    }
  }
  const bool changed = ordered != starts_;
  starts_ = std::move(ordered);
  pieces_.clear();
  for (const auto& [axis, known] : starts_)
    for (const int64_t start : known)
      if (known.size() > 1) pieces_[piece_name(axis, start)] = {axis, start};
  return changed;
}

bool SplitAxes::are_whole(std::span<const std::string> names) const {
  for (size_t at = 0; at < names.size();) {
    const auto piece = pieces_.find(names[at]);
    if (piece == pieces_.end()) {
      ++at;
      continue;
    }
    for (const int64_t start : starts_.at(piece->second.axis)) {
      if (at == names.size() || names[at] != piece_name(piece->second.axis, start)) return false;
      ++at;
    }
  }
  return true;
}

// In a mesh: an axis and its size.
std::string SplitAxes::mesh(std::string_view text) const {
  return with_names(text, [&](const std::string& axis, size_t& behind) -> std::string {
    const auto found = starts_.find(axis);
    if (found == starts_.end() || found->second.size() == 1 || text.substr(behind, 1) != "=") return {};
    ++behind;
    (void)digits(text, behind);
    std::vector<std::string> pieces;
    for (size_t i = 0; i < found->second.size(); ++i) {
      const int64_t start = found->second[i];
      const int64_t end = i + 1 < found->second.size() ? found->second[i + 1] : sizes_.at(axis);
      pieces.push_back(fmt::format("\"{}\"={}", piece_name(axis, start), end / start));
    }
    return fmt::format("{}", fmt::join(pieces, ", "));
  });
}

// In a sharding: an axis, or a part of one, as "x":(2)4.
std::string SplitAxes::sharding(std::string_view text) const {
  return with_names(text, [&](const std::string& axis, size_t& behind) -> std::string {
    const auto found = starts_.find(axis);
    if (found == starts_.end() || found->second.size() == 1) return {};
    int64_t before = 1, size = sizes_.at(axis);
    if (text.substr(behind, 2) == ":(") {
      size_t at = behind + 2;
      const std::string_view front = digits(text, at);
      if (!front.empty() && text.substr(at, 1) == ")") {
        const std::string_view count = digits(text, ++at);
        if (!count.empty()) {
          before = number(front);
          size = number(count);
          behind = at;
        }
      }
    }
    std::vector<std::string> pieces;
    for (const int64_t start : found->second)
      if (before <= start && start < before * size)
        pieces.push_back(fmt::format("\"{}\"", piece_name(axis, start)));
    return fmt::format("{}", fmt::join(pieces, ", "));
  });
}

std::string SplitAxes::applied(std::string_view text) const {
  struct Place {
    std::string_view head;  // where axes stand
    char end;
    std::string (SplitAxes::*rewrite)(std::string_view) const;
  };
  static constexpr Place kPlaces[] = {{"#sdy.mesh<[", ']', &SplitAxes::mesh},
                                      {"<@", '>', &SplitAxes::sharding},
                                      {"#sdy<manual_axes{", '>', &SplitAxes::sharding}};
  std::string made;
  made.reserve(text.size());
  size_t at = 0;
  while (true) {
    const Place* next = nullptr;
    size_t begin = std::string_view::npos;
    for (const Place& place : kPlaces)
      if (const size_t found = text.find(place.head, at); found < begin) {
        begin = found;
        next = &place;
      }
    const size_t end = next ? text.find(next->end, begin + next->head.size()) : std::string_view::npos;
    if (end == std::string_view::npos) return made += text.substr(at);
    made += text.substr(at, begin - at);
    made += (this->*next->rewrite)(text.substr(begin, end - begin));
    at = end;
  }
}

std::string solver_rule(std::span<const std::vector<int64_t>> operands,
                        std::span<const std::vector<int64_t>> results) {
  const size_t batch = operands[0].size() - 2;
  std::vector<int64_t> sizes(operands[0].begin(), operands[0].begin() + static_cast<std::ptrdiff_t>(batch));
  // Shardy's names of factors: i to z, then z_1, z_2, ...
  const auto name = [](size_t factor) {
    return factor < 18 ? std::string(1, static_cast<char>('i' + factor)) : fmt::format("z_{}", factor - 17);
  };
  const auto side = [&](std::span<const std::vector<int64_t>> shapes) {
    std::vector<std::string> values;
    for (const std::vector<int64_t>& shape : shapes) {
      std::vector<std::string> factors;
      for (size_t d = 0; d < shape.size(); ++d) {
        factors.push_back(name(d < batch ? d : sizes.size()));
        if (d >= batch) sizes.push_back(shape[d]);
      }
      values.push_back(fmt::format("[{}]", fmt::join(factors, ", ")));
    }
    return fmt::format("({})", fmt::join(values, ", "));
  };
  const std::string read = side(operands), made = side(results);
  std::vector<std::string> factors, whole;
  for (size_t factor = 0; factor < sizes.size(); ++factor) {
    factors.push_back(fmt::format("{}={}", name(factor), sizes[factor]));
    if (factor >= batch) whole.push_back(name(factor));
  }
  return fmt::format("#sdy.op_sharding_rule<{}->{} {{{}}} need_replication={{{}}}, custom>", read, made,
                     fmt::join(factors, ", "), fmt::join(whole, ", "));
}

}  // namespace opentrn::spmd
