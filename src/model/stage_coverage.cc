#include "model/stage_coverage.h"

#include <algorithm>
#include <ranges>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/eval/evaluate.h"
#include "runtime/device_call.h"

namespace opentrn::model {

using compiler::OpCoverage;
using graph::Literal;

namespace {

std::vector<std::string> argument_names(const graph::Module& module) {
  std::vector<std::string> names;
  for (const graph::Dictionary& attributes : module.entry().argument_attributes) {
    const auto found = attributes.find("onnx.name");
    const std::string* name = found == attributes.end() ? nullptr : found->second.get<std::string>();
    names.push_back(name ? *name : "");
  }
  return names;
}

// What is known of values between stages when some of the inputs are: slots in which no other input has a
// part.
class KnownValues {
 public:
  KnownValues(const Stage& first, const std::map<size_t, Literal>& inputs)
      : names_(argument_names(first.imported().module)), slots_(inputs.begin(), inputs.end()) {}

  bool knows(const Ask& ask) const {
    return std::ranges::all_of(ask.behind, [&](Slot slot) { return slots_.contains(slot); });
  }
  // Names of inputs on which the value depends and that are not given.
  std::vector<std::string> missing(const Ask& ask) const {
    std::vector<std::string> names;
    for (const Slot slot : ask.behind)
      if (slot < names_.size() && !slots_.contains(slot)) names.push_back(names_[slot]);
    return names;
  }
  // To each of the stage's questions, nothing where it is not known.
  std::vector<std::optional<Literal>> answers(const Stage& stage) {
    const std::vector<Ask>& asks = stage.imported().asks;
    std::vector<std::optional<Literal>> found(asks.size());
    if (std::ranges::none_of(asks, [&](const Ask& ask) { return knows(ask); })) return found;
    Slots results;
    if (!stage.imported().outputs.empty()) stage.store(evaluated(stage), results);
    for (size_t i = 0; i < asks.size(); ++i) {
      if (!knows(asks[i])) continue;
      const auto made = results.find(asks[i].slot);  // or it is an input as it was given
      found[i] = made != results.end() ? made->second : slots_.at(asks[i].slot);
    }
    if (std::ranges::all_of(stage.imported().inputs, [&](Slot slot) { return slots_.contains(slot); }))
      for (auto& [slot, value] : results) slots_.insert_or_assign(slot, std::move(value));
    return found;
  }

 private:
  // With zeros for what is not known, on which no known answer depends.
  std::vector<Literal> evaluated(const Stage& stage) const {
    const graph::Module& module = stage.imported().module;
    const graph::Function& entry = module.entry();
    std::vector<graph::eval::RuntimeValue> arguments;
    for (size_t i = 0; i < stage.imported().inputs.size(); ++i) {
      const auto known = slots_.find(stage.imported().inputs[i]);
      const graph::Type& type = entry.type(entry.arguments()[i]);
      arguments.push_back(
          {known != slots_.end()
               ? known->second
               : Literal(type, std::vector<std::byte>(static_cast<size_t>(type.byte_count())))});
    }
    std::vector<Literal> results;
    for (const auto& value :
         graph::eval::evaluate(module, entry, arguments, {.device_call = runtime::evaluate_device_call}))
      results.push_back(value.literal());
    return results;
  }

  std::vector<std::string> names_;
  Slots slots_;
};

// Of two rows of one op, with the example of whichever no kernel takes.
void add_row(OpCoverage& row, const OpCoverage& other) {
  const bool is_worse =
      (other.unsupported > 0 || other.emulated > 0) && row.unsupported == 0 && row.emulated == 0;
  if (is_worse) {
    row.example = other.example;
    row.where = other.where;
  }
  row.count += other.count;
  row.unsupported += other.unsupported;
  row.emulated += other.emulated;
  row.flops += other.flops;
}

void add_rows(const Stage& stage, std::vector<OpCoverage>& rows) {
  for (const OpCoverage& row : compiler::coverage(stage.imported().module)) {
    const auto known = std::ranges::find(rows, row.op, &OpCoverage::op);
    if (known == rows.end())
      rows.push_back(row);
    else
      add_row(*known, row);
  }
}

void tell_unknown(const Stage& stage, const std::vector<const Ask*>& unknown, const KnownValues& values,
                  std::vector<std::string>& notes) {
  std::vector<std::string> texts;
  std::set<std::string> names;
  for (const Ask* ask : unknown) {
    texts.push_back(ask_text(*ask));
    for (std::string& name : values.missing(*ask)) names.insert(std::move(name));
  }
  notes.push_back(fmt::format("{} nodes are not looked at: their shapes or branches depend on {}",
                              stage.imported().nodes_left, fmt::join(texts, "; ")));
  if (names.empty()) return;
  const auto flags =
      names | std::views::transform([](const auto& name) { return fmt::format("-i {}=VALUE", name); });
  notes.push_back(fmt::format("    try: {}, to look at them for it", fmt::join(flags, " ")));
}

}  // namespace

StagedCoverage coverage_of_stages(const std::shared_ptr<Stage>& first,
                                  const std::map<std::string, int64_t>& dimensions,
                                  const std::map<size_t, Literal>& inputs) {
  StagedCoverage found;
  KnownValues values(*first, inputs);
  for (auto stage = first;;) {
    add_rows(*stage, found.rows);
    const std::vector<Ask>& asks = stage->imported().asks;
    if (asks.empty()) return found;
    const std::vector<std::optional<Literal>> known = values.answers(*stage);
    std::vector<const Ask*> unknown;
    for (size_t i = 0; i < asks.size(); ++i)
      if (!known[i] && !asks[i].counts) unknown.push_back(&asks[i]);
    if (!unknown.empty()) {
      tell_unknown(*stage, unknown, values, found.notes);
      return found;
    }
    std::vector<Literal> answers;
    for (size_t i = 0; i < asks.size(); ++i) {
      if (known[i]) {
        answers.push_back(*known[i]);
        continue;
      }
      const auto stated = dimensions.find(asks[i].name);
      const int64_t count = stated == dimensions.end() ? asks[i].bound : stated->second;
      answers.push_back(count_literal(asks[i], count));
      found.notes.push_back(fmt::format("stage {} is looked at for {}={}, which data decide ({})",
                                        stage->number() + 1, asks[i].name, count, asks[i].where));
    }
    stage = stage->next(answers);
  }
}

}  // namespace opentrn::model
