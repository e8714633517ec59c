#include "model/stage.h"

#include <algorithm>
#include <cstring>
#include <ranges>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/fault.h"
#include "base/number_text.h"
#include "base/sha256.h"
#include "graph/control_arguments.h"
#include "graph/element_value.h"

namespace opentrn::model {

using graph::Literal;
using graph::Type;

// All stages that were made, by key: an answer that comes up again is not imported again. Handles of any
// stage share the chain, so that a stage can name the one before it without keeping it.
struct Stage::Chain : std::enable_shared_from_this<Stage::Chain> {
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<Stage>> stages;

  std::shared_ptr<Stage> handle(Stage* stage) { return {shared_from_this(), stage}; }
};

namespace {

std::optional<int64_t> whole_number(const Literal& answer) {
  if (!graph::is_integer(answer.type().element()) && !graph::is_bool(answer.type().element()))
    return std::nullopt;
  if (answer.type().element_count() != 1) return std::nullopt;
  return graph::load_integer(answer.type().element(), answer.element(0));
}

int64_t count_of(const Literal& answer) {
  const auto count = whole_number(answer);
  if (!count)
    throw Fault(FaultKind::kInput, "onnx.answer",
                fmt::format("{} is not a number of rows", answer.type().to_string()));
  return *count;
}

// As Python writes a list of them, which keys of files and of the cache hold.
std::string key_text(const Type& type) {
  return fmt::format("{} [{}] ", graph::name(type.element()), fmt::join(type.dims(), ", "));
}

std::string next_key(const std::string& before, const std::vector<Literal>& answers) {
  Sha256 digest;
  digest.add(before);
  for (const Literal& answer : answers) {
    const std::vector<std::byte> bytes = answer.dense();
    digest.add(key_text(answer.type()));
    digest.add({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
  return digest.hex();
}

Literal leading_rows(const Literal& value, int64_t rows) {
  std::vector<int64_t> dims = value.type().dims_vector();
  const int64_t kept = std::clamp<int64_t>(rows, 0, dims.at(0));
  dims[0] = kept;
  const Type type = Type::tensor(value.type().element(), std::move(dims));
  std::vector<std::byte> bytes = value.dense();
  bytes.resize(static_cast<size_t>(type.byte_count()));
  return {type, std::move(bytes)};
}

}  // namespace

std::shared_ptr<Stage> Stage::first(std::shared_ptr<const import::onnx::Stage> imported) {
  const auto chain = std::make_shared<Chain>();
  auto stage = std::unique_ptr<Stage>(new Stage(*chain, std::move(imported)));
  Stage* const made = stage.get();
  chain->stages.emplace("", std::move(stage));
  return chain->handle(made);
}

std::string Stage::sizes_text() const {
  return fmt::format("{}", fmt::join(sizes_ | std::views::transform([](const auto& row) {
                                       return fmt::format("{}={}", row.first, row.second);
                                     }),
                                     ", "));
}

std::shared_ptr<Stage> Stage::before() const { return before_ == nullptr ? nullptr : chain_.handle(before_); }

std::shared_ptr<Stage> Stage::next(const std::vector<Literal>& answers) {
  const std::vector<Ask>& asks = imported_->asks;
  if (answers.size() != asks.size())
    throw Fault(
        FaultKind::kInput, "onnx.answer",
        fmt::format("stage {} asks for {} values, {} were given", number_, asks.size(), answers.size()));
  const std::string key = next_key(key_, answers);
  const std::lock_guard lock(chain_.mutex);
  auto& place = chain_.stages[key];
  if (place) return chain_.handle(place.get());
  std::unique_ptr<Stage> made;
  try {
    made.reset(new Stage(chain_, imported_->next(answers)));
  } catch (...) {
    chain_.stages.erase(key);
    throw;
  }
  made->sizes_ = sizes_;
  for (size_t i = 0; i < asks.size(); ++i) {
    const auto number = whole_number(answers[i]);
    if (!number) continue;
    const auto known = std::ranges::find(made->sizes_, asks[i].name, &Answered::value_type::first);
    if (known == made->sizes_.end())
      made->sizes_.emplace_back(asks[i].name, *number);
    else
      known->second = *number;
  }
  made->key_ = key;
  made->number_ = number_ + 1;
  made->before_ = this;
  for (const import::onnx::StageOutput& output : imported_->outputs)
    if (output.ask) made->counted_[output.slot] = count_of(answers.at(*output.ask));
  place = std::move(made);
  return chain_.handle(place.get());
}

std::shared_ptr<Stage> Stage::next_of_counts(const std::vector<int64_t>& counts) {
  std::vector<Literal> answers;
  for (size_t i = 0; i < counts.size(); ++i)
    answers.push_back(count_literal(imported_->asks.at(i), counts[i]));
  return next(answers);
}

bool Stage::asks_for_counts_alone() const { return std::ranges::all_of(imported_->asks, &Ask::counts); }

std::vector<Literal> Stage::arguments(const Slots& slots) const {
  std::vector<Literal> values;
  for (const Slot slot : imported_->inputs) values.push_back(slots.at(slot));
  return values;
}

void Stage::store(const std::vector<Literal>& results, Slots& slots) const {
  const auto& outputs = imported_->outputs;
  if (results.size() != outputs.size())
    throw Fault(
        FaultKind::kInput, "model.results",
        fmt::format("stage {} has {} results, {} were given", number_, outputs.size(), results.size()));
  // The counts first: an output may stand in front of the one that counts its rows.
  for (size_t i = 0; i < outputs.size(); ++i)
    if (!outputs[i].ask) slots[outputs[i].slot] = results[i];
  for (size_t i = 0; i < outputs.size(); ++i)
    if (outputs[i].ask)
      slots[outputs[i].slot] =
          leading_rows(results[i], count_of(slots.at(imported_->asks.at(*outputs[i].ask).slot)));
}

std::vector<Literal> Stage::answers(const Slots& slots) const {
  std::vector<Literal> values;
  for (const Ask& ask : imported_->asks) values.push_back(slots.at(ask.slot));
  return values;
}

Literal count_literal(const Ask& ask, int64_t count) {
  const graph::ElementType element = ask.type.element();
  std::vector<std::byte> bytes(static_cast<size_t>(storage_bytes(element)));
  graph::store_integer(element, count, bytes.data());
  return {Type::tensor(element, {}), std::move(bytes)};
}

std::string ask_text(const Ask& ask) {
  if (ask.counts) return fmt::format("{} (up to {}), for {}", ask.name, grouped(ask.bound), ask.where);
  return fmt::format("the value of {}, for {}", ask.name, ask.where);
}

StagedResults run_stages(const std::shared_ptr<Stage>& first, const std::vector<Literal>& inputs,
                         const ExecuteStage& execute) {
  Slots slots;
  for (size_t i = 0; i < inputs.size(); ++i) slots[i] = inputs[i];
  StagedResults run{{}, {first}};
  for (;;) {
    const std::shared_ptr<Stage> stage = run.path.back();
    if (!stage->imported().outputs.empty()) stage->store(execute(stage, stage->arguments(slots)), slots);
    if (stage->imported().is_last()) break;
    run.path.push_back(stage->next(stage->answers(slots)));
  }
  for (const std::optional<Slot>& slot : run.path.back()->imported().results)
    run.results.push_back(slots.at(slot.value()));
  return run;
}

std::vector<size_t> control_inputs(const Stage& first) {
  const import::onnx::Stage& stage = first.imported();
  std::set<size_t> found;
  for (const size_t number : graph::control_arguments(stage.module.entry()))
    found.insert(stage.inputs.at(number));
  for (const Ask& ask : stage.asks)
    if (!ask.counts) found.insert(ask.behind.begin(), ask.behind.end());
  return {found.begin(), found.end()};
}

namespace {

using SizesAhead = std::map<std::string, std::vector<int64_t>>;

// Names are those of inputs' dimensions, and of numbers of rows. Behind a value that a run reads any name may
// be one.
void require_known_names(const std::shared_ptr<Stage>& first, const SizesAhead& sizes,
                         const std::vector<std::string>& open) {
  std::set<std::string> names(open.begin(), open.end());
  for (auto stage = first; !stage->imported().is_last();) {
    if (!stage->asks_for_counts_alone()) return;
    std::vector<int64_t> most;
    for (const Ask& ask : stage->imported().asks) {
      names.insert(ask.name);
      most.push_back(ask.bound);
    }
    stage = stage->next_of_counts(most);
  }
  for (const auto& [name, unused] : sizes) {
    if (names.contains(name)) continue;
    const auto quoted =
        names | std::views::transform([](const auto& each) { return fmt::format("'{}'", each); });
    throw Fault(
        FaultKind::kInput, "onnx.dimension",
        fmt::format(
            "'{}' is neither a dimension of the model's inputs nor a number of rows in it; there are {}",
            name, names.empty() ? "none" : fmt::format("{}", fmt::join(quoted, ", "))),
        "leave it out, or write one of these names");
  }
}

void follow_sizes(const std::shared_ptr<Stage>& stage, const SizesAhead& sizes,
                  std::vector<std::shared_ptr<Stage>>& found) {
  found.push_back(stage);
  const std::vector<Ask>& asks = stage->imported().asks;
  const bool are_named =
      std::ranges::all_of(asks, [&](const Ask& ask) { return ask.counts && sizes.contains(ask.name); });
  if (asks.empty() || !are_named) return;
  std::vector<std::vector<int64_t>> combinations{{}};
  for (const Ask& ask : asks) {
    std::vector<std::vector<int64_t>> longer;
    for (const auto& combination : combinations)
      for (const int64_t size : sizes.at(ask.name)) {
        longer.push_back(combination);
        longer.back().push_back(size);
      }
    combinations = std::move(longer);
  }
  for (const auto& counts : combinations) follow_sizes(stage->next_of_counts(counts), sizes, found);
}

}  // namespace

std::vector<std::shared_ptr<Stage>> stages_ahead(const std::shared_ptr<Stage>& first, const SizesAhead& sizes,
                                                 const std::vector<std::string>& open) {
  if (!sizes.empty()) require_known_names(first, sizes, open);
  std::vector<std::shared_ptr<Stage>> found;
  follow_sizes(first, sizes, found);
  return found;
}

}  // namespace opentrn::model
