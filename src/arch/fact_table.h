// All facts of all tables, in file order, by dotted key; reads TOML and applies what-if overrides.
//
// The TOML format, in one place:
//  * `prefix = "timing.v3"` at the top of a file is put before every key of that file.
//  * A fact is either `name = {value = 2.8, confidence = "documented", source = "v2-guide"}` or a plain
//    `name = 2.8` in a table that states `confidence` and `source` for all the values in it and below it.
//  * `source` is an id of the `[source]` table (sources.toml), which holds owner/repo@commit:path.
//  * `alternatives = [{value = .., source = ".."}]` with `reason` where public sources disagree.
//  * `value = "unknown"` with `confidence = "unknown"`: no public source gives it; `source` is the page
//    that is silent.
//  * `calibrated_on = ["row-id", ..]`: the published rows that a value was read off; a `fitted` value names
//  them.
//  * `information = true`, also for a whole table: a fact that nothing computes with. Overriding it is
//  refused.
//  * `inherits = "timing.v2"`, of a file or a table: a key not given here is taken from there, as
//    `assumed`; `drop = ["instruction.iota"]` leaves out what does not exist here.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "arch/fact.h"

namespace opentrn::arch {

// What-if changes. Files are applied first, then the single settings, each in order.
struct Overrides {
  std::vector<std::string> files;     // paths of TOML files in the format above, with full keys
  std::vector<std::string> settings;  // "neuron_core.v3.hbm_bandwidth_gb_s=500"
};

class FactTable {
 public:
  // The text of one TOML file; `origin` names it in errors. kInput on any malformed row.
  void read(std::string_view text, std::string_view origin);
  // Copies inherited facts; call once, after the last read() and before apply().
  void resolve_inheritance();
  // kInput for a key that does not exist (with the nearest ones) or a value of another type.
  void apply(const Overrides& overrides);

  const Fact& at(std::string_view key) const;    // kInput, with the nearest keys, when missing
  const Fact* find(std::string_view key) const;  // nullptr when missing
  const std::deque<Fact>& all() const { return facts_; }
  // Facts whose key starts with `prefix` + ".", in file order.
  std::vector<const Fact*> under(std::string_view prefix) const;
  // The distinct next key parts below `prefix`, in file order; an instance name keeps its inner dot.
  std::vector<std::string> items(std::string_view prefix) const;
  std::vector<std::string> keys() const;

  template <typename T>
  Spec<T> spec(std::string_view key) const {
    return Spec<T>(&at(key));
  }
  template <typename T>
  Spec<T> optional_spec(std::string_view key) const {
    return Spec<T>(find(key));
  }

 private:
  friend class TableReader;
  void add(Fact fact);
  void apply_file(const std::string& path);
  void apply_setting(const std::string& setting);
  // The sustained HBM rate follows an overridden HBM bandwidth, unless it is overridden itself.
  std::map<std::string, FactValue> rates_that_others_follow() const;
  void follow(const std::map<std::string, FactValue>& before);
  Fact& override_target(const std::string& key);

  std::deque<Fact> facts_;                             // a deque: Spec keeps pointers
  std::map<std::string, size_t, std::less<>> by_key_;  // in facts_
  std::map<std::string, std::vector<std::string>> items_by_prefix_;
  std::map<std::string, std::string> sources_;  // id -> full reference
  struct Inheritance {
    std::string child, parent;
    std::vector<std::string> drop;
  };
  std::vector<Inheritance> inheritance_;
};

}  // namespace opentrn::arch
