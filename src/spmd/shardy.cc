#include "spmd/shardy.h"

#include <cstring>

#include <fmt/format.h>

#include "base/fault.h"
#include "base/interrupt.h"

namespace opentrn::spmd {

namespace {

constexpr int kSecondsMax = 120;  // for an answer: a large program takes seconds

Partition& add_shardings(std::string_view lines, Partition& to) {
  while (!lines.empty()) {
    const size_t end = std::min(lines.find('\n'), lines.size());
    const std::string_view line = lines.substr(0, end);
    lines.remove_prefix(std::min(end + 1, lines.size()));
    if (line.starts_with("in "))
      to.inputs.emplace_back(line.substr(3));
    else if (line.starts_with("out "))
      to.outputs.emplace_back(line.substr(4));
  }
  return to;
}

}  // namespace

Shardy& Shardy::of_process() {
  static Shardy& shardy = *new Shardy;  // its child ends with the process, whose end of the pipe closes
  return shardy;
}

void Shardy::set_command(std::vector<std::string> command) {
  const std::lock_guard lock(mutex_);
  if (command == command_) return;
  command_ = std::move(command);
  child_.reset();
}

std::optional<Partition> Shardy::partition(std::string_view code) {
  std::lock_guard lock(mutex_);
  std::string problem;
  try {
    if (!child_) {
      if (command_.empty())
        throw Fault(FaultKind::kInput, "shardy", "whoever loaded the plugin did not say where jaxlib is");
      child_ = std::make_unique<Child>(command_);
    }
    if (auto made = ask(code)) return made;
    problem = child_->end();
    child_.reset();
  } catch (const Fault& fault) {
    problem = fault.message();
  } catch (const Interrupted&) {
    child_.reset();  // its answer would be taken for that of the next question
    throw;
  }
  if (problem != said_)
    fmt::print(stderr, "opentrn: OpenTrn's own propagation spreads programs over devices; no Shardy: {}\n",
               problem);
  said_ = std::move(problem);
  return std::nullopt;
}

std::optional<Partition> Shardy::ask(std::string_view code) {
  const uint64_t size = code.size();
  const std::string_view header(reinterpret_cast<const char*>(&size), sizeof(size));
  if (!child_->write(header) || !child_->write(code)) return std::nullopt;
  Partition partition;
  bool spread = false;
  for (;;) {
    char kind = 0;
    uint64_t count = 0;
    std::string content;
    bool whole = child_->read(&kind, 1, kSecondsMax) && child_->read(&count, sizeof(count), kSecondsMax);
    if (whole) {
      content.resize(count);
      whole = child_->read(content.data(), count, kSecondsMax);
    }
    if (!whole) {
      if (!spread) return std::nullopt;
      partition.problem = child_->end();
      child_.reset();
      return partition;
    }
    switch (kind) {
      case 's':
        partition.inputs.clear();
        partition.outputs.clear();
        add_shardings(content, partition);
        spread = true;
        break;
      case 'u': partition.uneven = true; break;
      case 'l': partition.local = std::move(content); break;
      case 'e': partition.problem = std::move(content); break;
      default:
        if (!spread) throw Fault(FaultKind::kInput, "shardy", partition.problem);
        return partition;
    }
  }
}

}  // namespace opentrn::spmd
