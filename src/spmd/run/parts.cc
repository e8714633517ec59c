#include "spmd/run/parts.h"

#include <cstring>

#include "base/fault.h"
#include "runtime/model_file.h"

namespace opentrn::spmd {

namespace {

[[noreturn]] void fail(std::string what) {
  throw Fault(FaultKind::kInput, "pjrt.serialised", std::move(what), "remove it from the compilation cache");
}

void append(std::string& to, const std::vector<std::string>& texts) {
  append_sized(to, std::to_string(texts.size()));
  for (const std::string& text : texts) append_sized(to, text);
}

std::vector<std::string> take_texts(std::string_view& from) {
  const std::string count = take_sized(from);
  if (count.empty() || count.size() > 9 || count.find_first_not_of("0123456789") != std::string::npos)
    fail("the serialised executable has no count where one belongs");
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
  fail("the serialised executable ends early");
}

Parts::SharedModel Parts::model(const std::function<runtime::Model()>& compile) {
  if (!loaded_) {
    Outcome& outcome = outcomes_.emplace_back();
    try {
      outcome.model = std::make_shared<const runtime::Model>(compile());
    } catch (const Fault& fault) {
      if (fault.kind() != FaultKind::kNotModelled) throw;
      outcome.reason = fault.message();
      throw;
    }
    return outcome.model;
  }
  if (next_ == outcomes_.size()) fail("the serialised executable has fewer parts than its program");
  const Outcome& outcome = outcomes_[next_++];
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
    if (at == artifact.buckets.size()) fail("the serialised executable lacks a compiled part");
    outcome.model = std::make_shared<const runtime::Model>(std::move(artifact.buckets[at++].model));
  }
  return parts;
}

}  // namespace opentrn::spmd
