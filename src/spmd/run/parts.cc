#include "spmd/run/parts.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "base/fault.h"
#include "base/sha256.h"
#include "compiler/analysis/device_type.h"
#include "graph/text/text.h"
#include "runtime/model_file.h"

namespace opentrn::spmd {

namespace {

[[noreturn]] void refuse(std::string what) {
  throw Fault(FaultKind::kInput, "pjrt.serialised", std::move(what), "remove it from the compilation cache");
}

// Whether a port is of the type, with as many bytes as the device has for it.
bool holds(const runtime::Model& model, const runtime::Port& port, const graph::Type& type) {
  if (!type.is_tensor() || port.element != graph::name(type.element()) ||
      !std::ranges::equal(port.shape, type.dims()))
    return false;
  const int64_t halves = compiler::is_narrowed(type.element()) ? 2 : 1;
  return model.device_bytes(port) * halves == type.byte_count();
}

bool hold(const runtime::Model& model, const std::vector<runtime::Port>& ports,
          std::span<const graph::Type> types) {
  return std::ranges::equal(ports, types, [&](const runtime::Port& port, const graph::Type& type) {
    return holds(model, port, type);
  });
}

void append(std::string& to, const std::vector<std::string>& texts) {
  append_sized(to, std::to_string(texts.size()));
  for (const std::string& text : texts) append_sized(to, text);
}

std::vector<std::string> take_texts(std::string_view& from) {
  const std::string count = take_sized(from);
  if (count.empty() || count.size() > 9 || count.find_first_not_of("0123456789") != std::string::npos)
    refuse("the serialised executable has no count where one belongs");
  std::vector<std::string> texts;
  for (int i = std::stoi(count); i > 0; --i) texts.push_back(take_sized(from));
  return texts;
}

}  // namespace

void append_sized(std::string& to, std::string_view part) {
  const uint64_t size = part.size();
  to.append(reinterpret_cast<const char*>(&size), sizeof(size));
  to.append(part);
}

std::string take_sized(std::string_view& from) {
  uint64_t size = 0;
  if (from.size() >= sizeof(size)) {
    std::memcpy(&size, from.data(), sizeof(size));
    from.remove_prefix(sizeof(size));
    if (size <= from.size()) {
      std::string part(from.substr(0, size));
      from.remove_prefix(size);
      return part;
    }
  }
  refuse("the serialised executable ends early");
}

std::string fingerprint(const graph::Module& module) {
  constexpr int64_t kElementsShown = 16;
  return sha256_of(graph::print_module(module, {.elide_larger = kElementsShown}));
}

Parts Parts::with_fingerprints() {
  Parts parts;
  parts.keeps_fingerprints_ = true;
  return parts;
}

Parts::Parts(std::vector<Outcome> outcomes, std::string name)
    : outcomes_(std::move(outcomes)), loaded_(true), file_(std::move(name)) {}

void Parts::fail(const std::string& what) const {
  if (file_.empty()) refuse("the serialised executable " + what);
  throw Fault(FaultKind::kInput, "model_file", fmt::format("{} {}", file_, what),
              "compile the model again with this OpenTrn");
}

void Parts::check(const Outcome& outcome, const graph::Module& module) const {
  if (!outcome.fingerprint.empty() && outcome.fingerprint != fingerprint(module))
    fail("has parts that its program is not cut into: another OpenTrn wrote it, or it is damaged");
  if (!outcome.model) return;
  const graph::Function& entry = module.entry();
  if (!hold(*outcome.model, outcome.model->inputs, entry.argument_types()) ||
      !hold(*outcome.model, outcome.model->outputs, entry.result_types))
    fail("has a compiled part whose inputs or outputs are not of the types of its program");
}

Parts::SharedModel Parts::model(const graph::Module& module, const std::function<runtime::Model()>& compile) {
  if (!loaded_) {
    Outcome& outcome = outcomes_.emplace_back();
    if (keeps_fingerprints_) outcome.fingerprint = fingerprint(module);
    try {
      outcome.model = std::make_shared<const runtime::Model>(compile());
    } catch (const Fault& fault) {
      if (fault.kind() != FaultKind::kNotModelled) throw;
      outcome.reason = fault.message();
      throw;
    }
    return outcome.model;
  }
  if (next_ == outcomes_.size()) fail("has fewer parts than its program");
  const Outcome& outcome = outcomes_[next_++];
  check(outcome, module);
  if (!outcome.model) throw Fault(FaultKind::kNotModelled, "compiler.no_lowering", outcome.reason);
  return outcome.model;
}

std::optional<Partition> Parts::partition(const std::function<std::optional<Partition>()>& ask) {
  if (!loaded_) partition_ = ask();
  return partition_;
}

std::string Parts::to_bytes() const {
  std::string bytes;
  std::vector<std::string> reasons, spread;
  runtime::Artifact artifact;
  for (const Outcome& outcome : outcomes_) {
    reasons.push_back(outcome.model ? "" : outcome.reason);
    if (outcome.model) artifact.buckets.push_back({{}, *outcome.model});
  }
  append(bytes, reasons);
  if (partition_) spread = {partition_->local, partition_->problem, partition_->uneven ? "uneven" : ""};
  append(bytes, spread);
  append(bytes, partition_ ? partition_->inputs : std::vector<std::string>{});
  append(bytes, partition_ ? partition_->outputs : std::vector<std::string>{});
  append_sized(bytes, artifact.buckets.empty() ? std::string() : runtime::to_bytes(artifact));
  return bytes;
}

Parts Parts::of_bytes(std::string_view bytes) {
  Parts parts;
  parts.loaded_ = true;
  const std::vector<std::string> reasons = take_texts(bytes), spread = take_texts(bytes);
  Partition partition{take_texts(bytes), take_texts(bytes), "", "", false};
  if (spread.size() == 3) {
    partition.local = spread[0];
    partition.problem = spread[1];
    partition.uneven = !spread[2].empty();
    parts.partition_ = std::move(partition);
  }
  const std::string container = take_sized(bytes);
  runtime::Artifact artifact;
  if (!container.empty()) artifact = runtime::artifact_of(container, "the serialised executable");
  size_t at = 0;
  for (const std::string& reason : reasons) {
    Outcome& outcome = parts.outcomes_.emplace_back();
    outcome.reason = reason;
    if (!reason.empty()) continue;
    if (at == artifact.buckets.size()) refuse("the serialised executable lacks a compiled part");
    outcome.model = std::make_shared<const runtime::Model>(std::move(artifact.buckets[at++].model));
  }
  return parts;
}

}  // namespace opentrn::spmd
