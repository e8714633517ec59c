#include "model/stage_room.h"

#include <algorithm>
#include <cstring>

#include "compiler/analysis/padding.h"

namespace opentrn::model {

using graph::Literal;
using graph::Type;

namespace {

// Rows of zeros at the end, up to `rows`.
Literal with_rows(const Literal& value, int64_t rows) {
  std::vector<int64_t> dims = value.type().dims_vector();
  dims.at(0) = rows;
  const Type type = Type::tensor(value.type().element(), std::move(dims));
  std::vector<std::byte> bytes = value.dense();
  bytes.resize(static_cast<size_t>(type.byte_count()));
  return {type, std::move(bytes)};
}

// The first `size` elements of an axis.
Literal leading_elements(const Literal& value, int64_t axis, int64_t size) {
  std::vector<int64_t> dims = value.type().dims_vector();
  const auto number = static_cast<size_t>(axis);
  int64_t inner = storage_bytes(value.type().element());
  for (size_t i = number + 1; i < dims.size(); ++i) inner *= dims[i];
  const int64_t from_stride = inner * dims.at(number), to_stride = inner * std::min(size, dims[number]);
  dims[number] = std::min(size, dims[number]);
  const Type type = Type::tensor(value.type().element(), std::move(dims));
  const std::vector<std::byte> from = value.dense();
  std::vector<std::byte> bytes(static_cast<size_t>(type.byte_count()));
  for (int64_t at = 0, to = 0; to < type.byte_count(); at += from_stride, to += to_stride)
    std::memcpy(bytes.data() + to, from.data() + at, static_cast<size_t>(to_stride));
  return {type, std::move(bytes)};
}

// The number of rows that the stage was made for, by the name of who counts them.
int64_t rows_of(const Stage& stage, const std::string& name) {
  return std::ranges::find(stage.sizes(), name, &Answered::value_type::first)->second;
}

}  // namespace

std::vector<Literal> StageRoom::padded(const Stage& smaller, std::vector<Literal> arguments) const {
  const auto& slots = larger->imported().inputs;
  for (size_t i = 0; i < arguments.size(); ++i)
    if (smaller.counted().contains(slots.at(i)))
      arguments[i] = with_rows(arguments[i], larger->counted().at(slots[i]));
  return arguments;
}

std::vector<Literal> StageRoom::cut(const Stage& smaller, std::vector<Literal> values) const {
  for (const CountedAxis& at : results)
    values.at(at.result) = leading_elements(values.at(at.result), at.axis, smaller.counted().at(at.slot));
  return values;
}

void StageRooms::set_sizes(std::map<std::string, std::vector<int64_t>> sizes) {
  for (auto& [name, given] : sizes) std::ranges::sort(given);
  const std::lock_guard lock(mutex_);
  sizes_ = std::move(sizes);
}

std::optional<StageRoom> StageRooms::room_for(const Stage& stage) {
  const std::shared_ptr<Stage> before = stage.before();
  if (!before || !stage.imported().is_last() || !before->asks_for_counts_alone()) return std::nullopt;
  const std::lock_guard lock(mutex_);
  std::vector<int64_t> larger_sizes;
  for (const Ask& ask : before->imported().asks) {
    const auto given = sizes_.find(ask.name);
    if (given == sizes_.end()) return std::nullopt;
    const auto size = std::ranges::lower_bound(given->second, rows_of(stage, ask.name));
    if (size == given->second.end()) return std::nullopt;
    larger_sizes.push_back(*size);
  }
  const std::shared_ptr<Stage> larger = before->next_of_counts(larger_sizes);
  if (larger->imported().inputs != stage.imported().inputs) return std::nullopt;
  auto proof = proofs_.find(larger->key());
  if (proof == proofs_.end())
    proof = proofs_.emplace(larger->key(), prove(*before, *larger, larger_sizes)).first;
  if (!proof->second) return std::nullopt;
  return StageRoom{larger, *proof->second};
}

ExecuteStage StageRooms::executing(ExecuteStage execute,
                                   std::function<bool(const std::shared_ptr<Stage>&)> is_compiled,
                                   std::map<std::string, std::shared_ptr<Stage>>& larger) {
  return [this, &larger, execute = std::move(execute), is_compiled = std::move(is_compiled)](
             const std::shared_ptr<Stage>& stage, std::vector<Literal> arguments) {
    if (is_compiled(stage)) return execute(stage, std::move(arguments));
    const std::optional<StageRoom> room = room_for(*stage);
    if (!room) return execute(stage, std::move(arguments));
    larger[stage->key()] = room->larger;
    return room->cut(*stage, execute(room->larger, room->padded(*stage, std::move(arguments))));
  };
}

// The axes of results that each count's rows reach; nothing where padding may reach more.
std::optional<std::vector<CountedAxis>> StageRooms::prove(Stage& before, const Stage& larger,
                                                          const std::vector<int64_t>& sizes) const {
  const import::onnx::Stage& asking = before.imported();
  const auto& inputs = larger.imported().inputs;
  const graph::Module whole = prepared_(larger.imported().module);
  std::vector<CountedAxis> found;
  for (size_t number = 0; number < asking.asks.size(); ++number) {
    // A graph for one row, or for all there can be, has simplifications of its own.
    if (sizes[number] < 2 || sizes[number] + 1 > asking.asks[number].bound) return std::nullopt;
    std::set<Slot> slots;
    for (const import::onnx::StageOutput& output : asking.outputs)
      if (output.ask == number) slots.insert(output.slot);
    std::vector<compiler::PortAxis> axes;
    for (size_t port = 0; port < inputs.size(); ++port)
      if (slots.contains(inputs[port])) axes.push_back({port, 0});
    if (axes.empty()) return std::nullopt;
    const compiler::PaddingProof proof = compiler::prove_padding(whole, axes);
    std::vector<int64_t> more = sizes;
    ++more[number];
    const std::shared_ptr<Stage> next_size = before.next_of_counts(more);
    if (!proof.holds() ||
        !compiler::difference_but_for_size(whole, prepared_(next_size->imported().module)).empty())
      return std::nullopt;
    for (const compiler::PortAxis& at : proof.results) found.push_back({at.port, at.axis, *slots.begin()});
  }
  return found;
}

}  // namespace opentrn::model
