#include "server/api/json_text.h"

#include <algorithm>
#include <atomic>
#include <random>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace opentrn::server::api {

namespace {

// Writes what a parser reads, a comma or colon at a time.
class Spacer : public nlohmann::json_sax<Json> {
 public:
  explicit Spacer(std::string_view wanted = "") : wanted_(wanted) {}

  std::string text;
  std::optional<std::string> member;  // of the outermost object, the value of the wanted name

  bool null() override { return put("null"); }
  bool boolean(bool value) override { return put(value ? "true" : "false"); }
  bool number_integer(number_integer_t value) override { return put(std::to_string(value)); }
  bool number_unsigned(number_unsigned_t value) override { return put(std::to_string(value)); }
  bool number_float(number_float_t, const string_t& digits) override { return put(digits); }
  bool string(string_t& value) override { return put(quoted(value)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open('{'); }
  bool start_array(std::size_t) override { return open('['); }
  bool end_object() override { return close('}'); }
  bool end_array() override { return close(']'); }
  bool key(string_t& name) override {
    separate();
    text += quoted(name) + ": ";
    behind_key_ = true;
    if (is_first_.size() == 1 && name == wanted_) begin_ = text.size();
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }

 private:
  static std::string quoted(const std::string& value) {
    return Json(value).dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
  }
  void separate() {
    if (!behind_key_ && !is_first_.empty()) {
      if (!is_first_.back()) text += ", ";
      is_first_.back() = false;
    }
    behind_key_ = false;
  }
  bool put(std::string_view value) {
    separate();
    text += value;
    return ended();
  }
  bool open(char bracket) {
    separate();
    text += bracket;
    is_first_.push_back(true);
    return true;
  }
  bool close(char bracket) {
    text += bracket;
    is_first_.pop_back();
    return ended();
  }
  bool ended() {
    if (is_first_.size() == 1 && begin_) member = text.substr(*std::exchange(begin_, std::nullopt));
    return true;
  }

  std::string_view wanted_;
  std::optional<size_t> begin_;  // of its value in `text`
  std::vector<bool> is_first_;   // of each open bracket, whether nothing is in it yet
  bool behind_key_ = false;
};

}  // namespace

const Json& field(const Json& object, std::string_view name) {
  static const Json kNone;
  if (!object.is_object()) return kNone;
  const auto found = object.find(name);
  return found == object.end() ? kNone : *found;
}

std::string text_of(const Json& value) {
  return value.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

std::optional<std::string> spaced_json(std::string_view text) {
  Spacer spacer;
  if (!Json::sax_parse(text, &spacer)) return std::nullopt;
  return std::move(spacer.text);
}

std::optional<std::string> spaced_member(std::string_view object, std::string_view name) {
  Spacer spacer(name);
  Json::sax_parse(object, &spacer);
  return std::move(spacer.member);
}

std::string spaced(const Json& value) { return *spaced_json(text_of(value)); }

int64_t characters(std::string_view text) {
  return std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; });
}

std::string new_id(std::string_view prefix) {
  static std::atomic<uint64_t> count = 0;
  thread_local std::random_device random;
  return fmt::format("{}{:08x}{:08x}{:08x}{:x}", prefix, random(), random(), random(), count++);
}

}  // namespace opentrn::server::api
