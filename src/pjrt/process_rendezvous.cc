#include "pjrt/process_rendezvous.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "base/fault.h"

namespace opentrn::pjrt {

namespace {

// Of the values of a device, one after the other.
void append(std::string& to, const std::vector<graph::Literal>& values) {
  for (const graph::Literal& value : values) {
    const std::vector<std::byte> bytes = value.dense();
    to.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
}

std::vector<graph::Literal> taken(const std::string& from, size_t& at,
                                  const std::vector<graph::Literal>& like) {
  std::vector<graph::Literal> values;
  for (const graph::Literal& one : like) {
    const auto bytes = static_cast<size_t>(one.type().byte_count());
    if (from.size() - at < bytes)
      throw Fault(FaultKind::kInput, "pjrt.mismatch", "another process has arrays of other sizes",
                  "the same program and shapes in all processes");
    std::vector<std::byte> data(bytes);
    if (bytes > 0) std::memcpy(data.data(), from.data() + at, bytes);
    at += bytes;
    values.emplace_back(one.type(), std::move(data));
  }
  return values;
}

}  // namespace

ProcessRendezvous::ProcessRendezvous(Processes& processes, std::vector<int> process_of, std::string call)
    : processes_(processes), process_of_(std::move(process_of)), with_(process_of_), call_(std::move(call)) {
  std::ranges::sort(with_);
  with_.erase(std::unique(with_.begin(), with_.end()), with_.end());
  const auto own = std::ranges::find(process_of_, processes.own());
  OPENTRN_CHECK(own != process_of_.end(), "{} has no device of process {}", call_, processes.own());
  first_own_ = static_cast<size_t>(own - process_of_.begin());
}

void ProcessRendezvous::complete(std::vector<std::vector<graph::Literal>>& values) {
  const std::vector<graph::Literal> like = values[first_own_];
  if (like.empty()) return;
  std::string mine;
  for (size_t device = 0; device < values.size(); ++device)
    if (is_own(device)) append(mine, values[device]);
  const auto all =
      processes_.exchange(with_, fmt::format("{}, exchange {}", call_, ++exchanges_), std::move(mine));
  for (size_t i = 0; i < with_.size(); ++i) {
    if (with_[i] == processes_.own()) continue;
    size_t at = 0;
    for (size_t device = 0; device < values.size(); ++device)
      if (process_of_[device] == with_[i]) values[device] = taken(all[i], at, like);
    if (at != all[i].size())
      throw Fault(FaultKind::kInput, "pjrt.mismatch",
                  fmt::format("process {} has arrays of other sizes at {}", with_[i], call_),
                  "the same program and shapes in all processes");
  }
}

void ProcessRendezvous::complete(std::vector<std::vector<graph::eval::RuntimeValue>>& values) {
  std::vector<std::vector<graph::Literal>> literals(values.size());
  for (size_t device = 0; device < values.size(); ++device)
    if (is_own(device))
      for (const graph::eval::RuntimeValue& value : values[device])
        literals[device].push_back(value.literal());
  complete(literals);
  for (size_t device = 0; device < values.size(); ++device) {
    if (is_own(device)) continue;
    values[device].clear();
    for (graph::Literal& literal : literals[device]) values[device].push_back({std::move(literal)});
  }
}

}  // namespace opentrn::pjrt
