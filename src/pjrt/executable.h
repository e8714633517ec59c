// Executables: a program, and where it is loaded. Execution is asynchronous: the call makes the arrays of
// the results and hands the work to the client's thread.
#pragma once

#include <atomic>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "pjrt/array.h"
#include "pjrt/client.h"
#include "pjrt/program.h"

namespace opentrn::pjrt {

// Byte strings as the ABI lists them.
struct Texts {
  std::vector<std::string> texts;
  std::vector<const char*> pointers;
  std::vector<size_t> sizes;

  explicit Texts(std::vector<std::string> from);
  Texts(const Texts&) = delete;
  Texts& operator=(const Texts&) = delete;
};

// Layouts as the ABI lists them; they belong to the list.
struct MemoryLayout {
  std::string text;
};
struct MemoryLayouts {
  std::vector<std::unique_ptr<MemoryLayout>> layouts;
  std::vector<MemoryLayout*> pointers;

  explicit MemoryLayouts(const std::vector<MinorToMajor>& orders);
};

// What PJRT asks of a program, in the ABI's form.
struct Executable {
  explicit Executable(std::shared_ptr<const Program> program);

  std::shared_ptr<const Program> program;
  std::vector<abi::ElementType> output_types;
  std::vector<int64_t> output_dims;  // of all outputs, one after the other
  std::vector<size_t> output_ranks;
  std::vector<const char*> output_memory_kinds;
  std::vector<size_t> output_memory_kind_sizes;
  // XLA's names: "flops" of the program's arithmetic, "bytes accessed" in HBM, "optimal_seconds" on the
  // device; where there is no time, why. A loop whose trips depend on values has none before it has run, so
  // they are computed whenever they are asked for until there is one. What was given stays as long as this.
  const NamedValues& costs();
  Texts parameter_shardings, output_shardings;
  MemoryLayouts parameter_layouts, output_layouts;

 private:
  std::mutex costs_mutex_;
  bool costs_known_ = false;      // the last of costs_ has a time
  std::list<NamedValues> costs_;  // without a time and with one
};

struct LoadedExecutable {
  LoadedExecutable(Client* client, std::shared_ptr<const Program> program);

  Client* client;
  Executable executable;
  std::vector<Device*> devices;  // of all processes
  // Of this one: where they are in `devices`, and their ids.
  std::vector<size_t> own;
  std::vector<Device*> own_devices;
  std::vector<abi::LogicalId> logical_ids;
  std::atomic<bool> deleted = false;

  // By device. `arguments` that the program donates, and that are not in `keep`, are deleted. `complete`,
  // where not null, is done when the results are.
  std::vector<std::vector<Buffer*>> execute(std::span<Device* const> on,
                                            std::span<const std::span<Buffer* const>> arguments,
                                            std::span<const int64_t> keep,
                                            std::shared_ptr<Completion> complete);
};

}  // namespace opentrn::pjrt
