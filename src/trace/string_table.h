// Strings stored once and named by a small number, so that an event stays a few words.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace opentrn::trace {

using StringId = uint32_t;
inline constexpr StringId kEmptyString = 0;

class StringTable {
 public:
  StringTable() { intern(""); }
  StringId intern(std::string_view text) {
    auto [it, inserted] = index_.try_emplace(std::string(text), static_cast<StringId>(strings_.size()));
    if (inserted) strings_.emplace_back(text);
    return it->second;
  }
  const std::string& operator[](StringId id) const { return strings_[id]; }
  size_t size() const { return strings_.size(); }

 private:
  std::vector<std::string> strings_;
  std::unordered_map<std::string, StringId> index_;
};

}  // namespace opentrn::trace
