// neuron-top: a report of neuron-monitor as lines for a terminal, section by section as AWS's program shows
// them, and what its keys do.
//
// Utilisation is of simulated time, as in the reports. What a report leaves out stands as "-".
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "monitor/machine.h"

namespace opentrn::monitor {

// What neuron-top has the monitor collect, every second.
std::string top_config();

enum class TopStyle : uint8_t { kPlain, kTitle, kBar, kSelected, kDim };

// A piece of a line; characters that a terminal would take for something else are "?".
struct TopPiece {
  std::string text;
  TopStyle style = TopStyle::kPlain;
};
using TopLine = std::vector<TopPiece>;

// What keys change.
class TopView {
 public:
  // Takes a key: a character, "up", "down", "left" or "right", or "" for another one. False to end.
  bool press(std::string_view key, const nlohmann::ordered_json& report, const Machine& machine);
  // `height` lines of at most `width` characters. `title`: the program's name and version.
  std::vector<TopLine> screen(const nlohmann::ordered_json& report, const Machine& machine,
                              const std::string& title, size_t width, size_t height);

  size_t tab() const { return tab_; }  // 0: all processes
  size_t row() const { return row_; }  // of the tree of memory

 private:
  size_t tab_ = 0, row_ = 0;
  bool shows_flops_ = false;
  std::set<std::string> folded_;
};

// "-" where unknown, else bytes in the largest unit below 1024 of it: 1023B, 1.0MB, 3072.0GB.
std::string top_size_text(std::optional<double> bytes);

}  // namespace opentrn::monitor
