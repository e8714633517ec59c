#include "arch/packed_facts.h"

#include <cstring>
#include <utility>

namespace opentrn::arch {
namespace {

// Texts are packed once each, before everything else, and named by number: sources and what is inherited
// repeat.
class Packer {
 public:
  void number(uint32_t value) { raw(&value, sizeof value); }
  void text(std::string_view text) {
    const auto [at, added] = number_of_text_.try_emplace(std::string(text), number_of_text_.size());
    if (added) texts_.push_back(at->first);
    number(static_cast<uint32_t>(at->second));
  }
  void texts(const std::vector<std::string>& list) {
    number(static_cast<uint32_t>(list.size()));
    for (const std::string& one : list) text(one);
  }
  void value(const FactValue& value) {
    number(static_cast<uint32_t>(value.index()));
    std::visit([&](const auto& held) { put(held); }, value);
  }
  void fact(const Fact& fact) {
    text(fact.key);
    value(fact.value);
    number(static_cast<uint32_t>(fact.confidence));
    for (const std::string* part : {&fact.source, &fact.date, &fact.when, &fact.note, &fact.reason})
      text(*part);
    number(static_cast<uint32_t>(fact.alternatives.size()));
    for (const Alternative& alternative : fact.alternatives) {
      value(alternative.value);
      text(alternative.source);
      text(alternative.note);
    }
    texts(fact.calibrated_on);
    number(fact.information ? 1 : 0);
  }
  std::string take() {
    const std::string facts = std::exchange(bytes_, {});
    number(static_cast<uint32_t>(texts_.size()));
    for (const std::string& text : texts_) {
      number(static_cast<uint32_t>(text.size()));
      raw(text.data(), text.size());
    }
    return bytes_ + facts;
  }

 private:
  void put(std::monostate) {}
  void put(bool held) { number(held ? 1 : 0); }
  void put(double held) { raw(&held, sizeof held); }
  void put(const std::string& held) { text(held); }
  void put(const std::vector<double>& held) {
    number(static_cast<uint32_t>(held.size()));
    for (const double one : held) put(one);
  }
  void put(const std::vector<std::string>& held) { texts(held); }
  void raw(const void* from, size_t size) { bytes_.append(static_cast<const char*>(from), size); }

  std::string bytes_;
  std::map<std::string, size_t> number_of_text_;
  std::vector<std::string> texts_;
};

class Unpacker {
 public:
  explicit Unpacker(std::string_view bytes) : rest_(bytes) {
    texts_.resize(number());
    for (std::string_view& text : texts_) {
      const uint32_t size = number();
      OPENTRN_CHECK(size <= rest_.size(), "the packed tables end early");
      text = rest_.substr(0, size);
      rest_.remove_prefix(size);
    }
  }

  uint32_t number() { return raw<uint32_t>(); }
  std::string text() {
    const uint32_t at = number();
    OPENTRN_CHECK(at < texts_.size(), "the packed tables name a text that they have not");
    return std::string(texts_[at]);
  }
  std::vector<std::string> texts() {
    std::vector<std::string> out(number());
    for (std::string& one : out) one = text();
    return out;
  }
  FactValue value() {
    switch (number()) {
      case 0: return {};
      case 1: return number() != 0;
      case 2: return raw<double>();
      case 3: return text();
      case 4: {
        std::vector<double> out(number());
        for (double& one : out) one = raw<double>();
        return out;
      }
      case 5: return texts();
      default: OPENTRN_CHECK(false, "the packed tables hold a value of no kind");
    }
  }
  Fact fact() {
    Fact fact;
    fact.key = text();
    fact.value = value();
    fact.confidence = static_cast<Confidence>(number());
    for (std::string* part : {&fact.source, &fact.date, &fact.when, &fact.note, &fact.reason}) *part = text();
    fact.alternatives.resize(number());
    for (Alternative& alternative : fact.alternatives) {
      alternative.value = value();
      alternative.source = text();
      alternative.note = text();
    }
    fact.calibrated_on = texts();
    fact.information = number() != 0;
    return fact;
  }
  bool ended() const { return rest_.empty(); }

 private:
  template <typename T>
  T raw() {
    T out;
    OPENTRN_CHECK(sizeof out <= rest_.size(), "the packed tables end early");
    std::memcpy(&out, rest_.data(), sizeof out);
    rest_.remove_prefix(sizeof out);
    return out;
  }

  std::string_view rest_;
  std::vector<std::string_view> texts_;
};

}  // namespace

std::string pack_facts(const FactTable& table) {
  std::map<std::string, std::vector<std::string>> items_by_prefix;
  Packer out;
  out.number(static_cast<uint32_t>(table.all().size()));
  for (const Fact& fact : table.all()) {
    out.fact(fact);
    // Every prefix of a key up to a dot, the empty one included.
    for (size_t end = 0; end != std::string::npos; end = fact.key.find('.', end + 1)) {
      const std::string prefix = fact.key.substr(0, end);
      if (std::vector<std::string> items = table.items(prefix); !items.empty())
        items_by_prefix.emplace(prefix, std::move(items));
    }
  }
  out.number(static_cast<uint32_t>(items_by_prefix.size()));
  for (const auto& [prefix, items] : items_by_prefix) {
    out.text(prefix);
    out.texts(items);
  }
  return out.take();
}

FactTable unpack_facts(std::string_view bytes) {
  Unpacker in(bytes);
  std::deque<Fact> facts(in.number());
  for (Fact& fact : facts) fact = in.fact();
  std::map<std::string, std::vector<std::string>> items_by_prefix;
  for (uint32_t left = in.number(); left > 0; --left) {
    std::string prefix = in.text();
    items_by_prefix.emplace_hint(items_by_prefix.end(), std::move(prefix), in.texts());
  }
  OPENTRN_CHECK(in.ended(), "the packed tables have more than their facts");
  return fact_table_of(std::move(facts), std::move(items_by_prefix));
}

}  // namespace opentrn::arch
