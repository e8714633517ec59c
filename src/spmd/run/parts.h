// What the compiler and Shardy gave for one program, in the order in which they were asked: kept with a
// serialised executable or in a file, so that loading it asks neither again.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/module.h"
#include "runtime/model.h"
#include "spmd/shardy.h"

namespace opentrn::spmd {

class Parts {
 public:
  using SharedModel = std::shared_ptr<const runtime::Model>;

  // One of `model` and `reason`.
  struct Outcome {
    SharedModel model;
    std::string reason;       // of the fault
    std::string fingerprint;  // of the graph that was compiled (fingerprint()); "" where none is kept
  };

  Parts() = default;
  // With the fingerprints of what is compiled, for a file.
  static Parts with_fingerprints();
  // Those of a file, whose outcomes have fingerprints. `name`: what faults call the file.
  Parts(std::vector<Outcome> outcomes, std::string name);

  // The next model, of `module`: what a loaded executable has kept, else what `compile` gives. A kNotModelled
  // fault of `compile` is kept and thrown again; other faults pass. Input fault where what was kept is of
  // another graph, or where it does not take and give the entry's types.
  SharedModel model(const graph::Module& module, const std::function<runtime::Model()>& compile);
  const std::vector<Outcome>& outcomes() const { return outcomes_; }
  // Whether all that was kept has been asked for.
  bool are_used_up() const { return next_ == outcomes_.size(); }
  // The same of Shardy, which is asked once at most.
  std::optional<Partition> partition(const std::function<std::optional<Partition>()>& ask);

  std::string to_bytes() const;
  // Input fault for bytes that are none.
  static Parts of_bytes(std::string_view bytes);

 private:
  [[noreturn]] void fail(const std::string& what) const;
  void check(const Outcome& outcome, const graph::Module& module) const;

  std::vector<Outcome> outcomes_;
  size_t next_ = 0;  // of a loaded executable
  bool loaded_ = false, keeps_fingerprints_ = false;
  std::string file_;  // "" of a serialised executable
  std::optional<Partition> partition_;
};

// Of a graph but for its larger constants, which its text leaves out: the same for the same text, whatever
// the numbers of its values are.
std::string fingerprint(const graph::Module& module);

// Strings one after the other, each behind its length in eight bytes.
void append_sized(std::string& to, std::string_view part);
// Takes one off the front; input fault where there is none.
std::string take_sized(std::string_view& from);

}  // namespace opentrn::spmd
