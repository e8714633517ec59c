// What the compiler and Shardy gave for one program, in the order in which they were asked: kept with a
// serialised executable, so that loading it asks neither again.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/model.h"
#include "spmd/shardy.h"

namespace opentrn::spmd {

class Parts {
 public:
  using SharedModel = std::shared_ptr<const runtime::Model>;

  // The next model: what a loaded executable has kept, else what `compile` gives. A kNotModelled fault of
  // `compile` is kept and thrown again; other faults pass.
  SharedModel model(const std::function<runtime::Model()>& compile);
  // The same of Shardy, which is asked once at most.
  std::optional<Partition> partition(const std::function<std::optional<Partition>()>& ask);

  std::string to_bytes() const;
  // Input fault for bytes that are none.
  static Parts of_bytes(std::string_view bytes);

 private:
  // One of the two.
  struct Outcome {
    SharedModel model;
    std::string reason;  // of the fault
  };
  std::vector<Outcome> outcomes_;
  size_t next_ = 0;  // of a loaded executable
  bool loaded_ = false;
  std::optional<Partition> partition_;
};

// Strings one after the other, each behind its length in eight bytes.
void append_sized(std::string& to, std::string_view part);
// Takes one off the front; input fault where there is none.
std::string take_sized(std::string_view& from);

}  // namespace opentrn::spmd
