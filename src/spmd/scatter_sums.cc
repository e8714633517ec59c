#include "spmd/scatter_sums.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/fault.h"
#include "compiler/analysis/values.h"
#include "graph/builder.h"
#include "graph/eval/evaluate.h"
#include "graph/eval/process_groups.h"
#include "spmd/extract.h"

namespace opentrn::spmd {

using graph::Attr;
using graph::Attribute;
using graph::BlockId;
using graph::Builder;
using graph::Function;
using graph::Literal;
using graph::Module;
using graph::Op;
using graph::OpId;
using graph::OpKind;
using graph::Type;
using graph::ValueId;

namespace {

// Below one packet of the collectives' DMA (64 KiB, documented) a step takes longer than its bytes: there one
// more step costs more than the bytes that it saves.
constexpr int64_t kWorthAStepBytes = 64 * 1024;

using Groups = std::vector<std::vector<int64_t>>;  // of devices

// What the numbers of devices are, for one device after the other.
class ByDevice {
 public:
  ByDevice(const Module& module, const Function& function, int64_t devices)
      : module_(module), function_(function), devices_(devices) {}

  // Of integer scalars; nullopt where one depends on more than constants and the device's number.
  std::optional<std::vector<std::vector<int64_t>>> of(std::span<const ValueId> scalars) const {
    std::set<OpId> ops;
    std::vector<ValueId> numbers;  // results of partition_id
    for (const ValueId value : scalars)
      if (!closure(value, ops, numbers)) return std::nullopt;
    std::vector<OpId> ordered(ops.begin(), ops.end());
    sort_by_place(ordered);
    const Function made = extract(function_, ordered, numbers, scalars);
    std::vector<std::vector<int64_t>> all(scalars.size());
    for (int64_t device = 0; device < devices_; ++device) {
      std::vector<graph::eval::RuntimeValue> arguments;
      for (const ValueId number : numbers) arguments.push_back({number_of(device, function_.type(number))});
      const auto results = graph::eval::evaluate(module_, made, arguments);
      for (size_t i = 0; i < all.size(); ++i) all[i].push_back(integer(results[i].literal()));
    }
    return all;
  }

 private:
  static constexpr size_t kOpsMax = 64;  // of an index

  bool closure(ValueId value, std::set<OpId>& ops, std::vector<ValueId>& numbers) const {
    const OpId id = function_.value(value).op;
    if (id == graph::kNoOp) return false;
    const Op& op = function_.op(id);
    if (op.kind == OpKind::constant_) return true;
    if (op.kind == OpKind::partition_id_) {
      if (std::ranges::find(numbers, value) == numbers.end()) numbers.push_back(value);
      return true;
    }
    if (!is_of_index(op)) return false;
    if (!ops.insert(id).second) return true;
    return ops.size() <= kOpsMax &&
           std::ranges::all_of(op.operands, [&](ValueId each) { return closure(each, ops, numbers); });
  }

  static bool is_of_index(const Op& op) {
    switch (op.kind) {
      case OpKind::add_:
      case OpKind::and_:
      case OpKind::broadcast_in_dim_:
      case OpKind::clamp_:
      case OpKind::compare_:
      case OpKind::convert_:
      case OpKind::divide_:
      case OpKind::dynamic_slice_:
      case OpKind::floor_:
      case OpKind::maximum_:
      case OpKind::minimum_:
      case OpKind::multiply_:
      case OpKind::negate_:
      case OpKind::not_:
      case OpKind::or_:
      case OpKind::remainder_:
      case OpKind::reshape_:
      case OpKind::select_:
      case OpKind::sign_:
      case OpKind::slice_:
      case OpKind::subtract_: return true;
      default: return false;
    }
  }

  // Ops of an index may stand in several blocks, of which each sees those around it.
  void sort_by_place(std::vector<OpId>& ops) const {
    std::map<OpId, size_t> places;
    graph::walk(function_, function_.body(), [&](OpId id) { places.emplace(id, places.size()); });
    std::ranges::sort(ops, {}, [&](OpId id) { return places.at(id); });
  }

  static Literal number_of(int64_t device, const Type& type) {
    const auto number = static_cast<uint32_t>(device);
    std::vector<std::byte> bytes(sizeof(number));
    std::memcpy(bytes.data(), &number, sizeof(number));
    return {type, std::move(bytes)};
  }

  static int64_t integer(const Literal& literal) {
    const auto size = literal.bytes().size();
    uint64_t bits = 0;
    std::memcpy(&bits, literal.bytes().data(), std::min(size, sizeof(bits)));
    const bool is_signed = graph::is_signed_integer(literal.type().element());
    const auto shift = static_cast<int>(64 - 8 * std::min(size, sizeof(bits)));
    return is_signed ? static_cast<int64_t>(bits << shift) >> shift : static_cast<int64_t>(bits);
  }

  const Module& module_;
  const Function& function_;
  int64_t devices_;
};

// One collective in place of the sum.
struct ShareStep {
  OpKind kind;  // reduce_scatter_, all_reduce_
  int64_t dim;  // that the devices of a group share out, in their order
  Groups groups;
};

// Where the parts lie in each group: by device and cut dimension, in parts.
class Shares {
 public:
  Shares(Groups groups, std::vector<int64_t> dims, std::vector<std::vector<int64_t>> places)
      : groups_(std::move(groups)), dims_(std::move(dims)), places_(std::move(places)) {}

  // How many devices of a group hold each part; nullopt where parts are missing, or held more often than
  // others.
  std::optional<size_t> copies(size_t parts) const {
    std::optional<size_t> copies;
    for (const auto& group : groups_) {
      std::map<std::vector<int64_t>, size_t> held;
      for (const int64_t device : group) ++held[place(device)];
      if (held.size() != parts) return std::nullopt;
      for (const auto& [part, count] : held)
        if (copies.value_or(count) != count)
          return std::nullopt;
        else
          copies = count;
    }
    return copies;
  }

  // Devices that differ in the dimension only: those of a group with equal other places, and of those with an
  // equal place the first ones, the second ones, ...
  Groups along(size_t dim) const {
    Groups all;
    for (const auto& group : groups_) {
      std::map<std::vector<int64_t>, int64_t> seen;
      std::map<std::vector<int64_t>, std::map<int64_t, int64_t>> found;
      for (const int64_t device : group) {
        std::vector<int64_t> others = place(device);
        const int64_t here = std::exchange(others[dim], 0);
        others.push_back(seen[place(device)]++);
        found[others][here] = device;
      }
      for (const auto& [others, by_place] : found) {
        auto& made = all.emplace_back();
        for (const auto& [here, device] : by_place) made.push_back(device);
      }
    }
    return all;
  }

  // Devices that keep the same part.
  Groups of_equal() const {
    Groups all;
    for (const auto& group : groups_) {
      std::map<std::vector<int64_t>, std::vector<int64_t>> found;
      for (const int64_t device : group) found[place(device)].push_back(device);
      for (auto& [part, devices] : found) all.push_back(std::move(devices));
    }
    return all;
  }

  std::vector<ShareStep> steps(size_t copies) const {
    std::vector<ShareStep> made;
    for (size_t i = 0; i < dims_.size(); ++i) made.push_back({OpKind::reduce_scatter_, dims_[i], along(i)});
    const auto spread = [](const ShareStep& step) {
      const auto [least, most] = std::ranges::minmax(step.groups.front());
      return most - least;
    };
    std::ranges::stable_sort(made, {}, spread);
    if (copies > 1) made.push_back({OpKind::all_reduce_, 0, of_equal()});
    return made;
  }

 private:
  std::vector<int64_t> place(int64_t device) const {
    std::vector<int64_t> all;
    for (const auto& of_dim : places_) all.push_back(of_dim[static_cast<size_t>(device)]);
    return all;
  }

  Groups groups_;
  std::vector<int64_t> dims_;
  std::vector<std::vector<int64_t>> places_;  // by cut dimension, by device
};

class SumScatterer {
 public:
  SumScatterer(Module& module, Function& function, int64_t devices)
      : module_(module), function_(function), devices_(devices), numbers_(module, function, devices) {}

  int run() {
    std::vector<OpId> sums;
    graph::walk(function_, function_.body(), [&](OpId id) {
      const Op& op = function_.op(id);
      for (const ValueId value : op.operands) readers_[value].push_back(id);
      if (const auto channel = channel_of(op)) channels_ = std::max(channels_, *channel);
      if (op.kind == OpKind::all_reduce_ && op.operands.size() == 1) sums.push_back(id);
    });
    int replaced = 0;
    for (const OpId id : sums) replaced += replace(id) ? 1 : 0;
    remove_unread_starts();
    return replaced;
  }

 private:
  static std::optional<int64_t> channel_of(const Op& op) {
    return op.has(Attr::channel_id) ? std::optional(op.integer(Attr::channel_id)) : std::nullopt;
  }

  bool replace(OpId id) {
    const auto combiner = compiler::combiner_of(function_, function_.op(id));
    const auto found = readers_.find(function_.op(id).results[0]);
    if (!combiner || found == readers_.end()) return false;
    const std::vector<OpId> cuts = found->second;
    const auto steps = steps_of(id, cuts);
    if (!steps) return false;
    const BlockId block = function_.op(id).block;
    const auto at = [&] { return std::ranges::find(function_.block(block).ops, id); };
    const size_t before = function_.block(block).ops.size();
    ValueId value = function_.op(id).operands[0];
    for (const ShareStep& step : *steps) value = append(step, value, *combiner, function_.op(id));
    auto& ops = function_.block(block).ops;
    std::rotate(at(), ops.begin() + static_cast<ptrdiff_t>(before), ops.end());
    for (const OpId cut : cuts) {
      const auto& operands = function_.op(cut).operands;
      starts_.insert(starts_.end(), operands.begin() + 1, operands.end());
      function_.replace_uses(function_.op(cut).results[0], value);
      readers_[value].insert(readers_[value].end(), readers_[function_.op(cut).results[0]].begin(),
                             readers_[function_.op(cut).results[0]].end());
    }
    std::erase_if(ops, [&](OpId each) { return each == id || std::ranges::find(cuts, each) != cuts.end(); });
    return true;
  }

  // What made the places of cuts that are no more: ops of integers, which nothing but results keeps.
  void remove_unread_starts() {
    std::map<ValueId, int64_t> uses;
    std::set<OpId> here;
    graph::walk(function_, function_.body(), [&](OpId id) {
      here.insert(id);
      for (const ValueId value : function_.op(id).operands) ++uses[value];
    });
    std::map<BlockId, std::set<OpId>> gone;
    while (!starts_.empty()) {
      const ValueId value = starts_.back();
      starts_.pop_back();
      const OpId id = function_.value(value).op;
      if (uses[value] > 0 || id == graph::kNoOp || !here.erase(id)) continue;
      gone[function_.op(id).block].insert(id);
      for (const ValueId operand : function_.op(id).operands) {
        --uses[operand];
        starts_.push_back(operand);
      }
    }
    for (const auto& [block, ops] : gone)
      std::erase_if(function_.block(block).ops, [&](OpId id) { return ops.contains(id); });
  }

  std::optional<std::vector<ShareStep>> steps_of(OpId id, const std::vector<OpId>& cuts) const {
    const Op& sum = function_.op(id);
    const Type& whole = function_.type(sum.results[0]);
    const Op& first = function_.op(cuts.front());
    if (!whole.is_static()) return std::nullopt;
    for (const OpId cut : cuts)
      if (!is_cut(function_.op(cut), sum) || !is_same(function_.op(cut), first)) return std::nullopt;
    const auto starts = starts_of(cuts, whole);
    if (!starts) return std::nullopt;
    const Type& part = function_.type(first.results[0]);
    std::vector<int64_t> dims;
    std::vector<std::vector<int64_t>> places;
    size_t parts = 1;
    for (int d = 0; d < whole.rank(); ++d) {
      const int64_t size = part.dim(d);
      if (size == whole.dim(d)) continue;
      if (size == 0 || whole.dim(d) % size != 0) return std::nullopt;
      dims.push_back(d);
      parts *= static_cast<size_t>(whole.dim(d) / size);
      auto& of_dim = places.emplace_back();
      for (const int64_t start : (*starts)[static_cast<size_t>(d)]) {
        if (start % size != 0) return std::nullopt;
        of_dim.push_back(start / size);
      }
    }
    const auto groups = groups_of(sum);
    if (dims.empty() || !groups) return std::nullopt;
    const Shares shares(*groups, std::move(dims), std::move(places));
    const auto copies = shares.copies(parts);
    if (!copies || (*copies > 1 && whole.byte_count() < kWorthAStepBytes)) return std::nullopt;
    return shares.steps(*copies);
  }

  static bool is_cut(const Op& cut, const Op& sum) {
    return cut.kind == OpKind::dynamic_slice_ && cut.block == sum.block &&
           cut.operands[0] == sum.results[0] && std::ranges::count(cut.operands, sum.results[0]) == 1;
  }

  bool is_same(const Op& a, const Op& b) const {
    return function_.type(a.results[0]) == function_.type(b.results[0]);
  }

  // Where the devices' parts begin: by dimension, by device. nullopt where the cuts do not agree.
  std::optional<std::vector<std::vector<int64_t>>> starts_of(const std::vector<OpId>& cuts,
                                                             const Type& whole) const {
    std::optional<std::vector<std::vector<int64_t>>> agreed;
    for (const OpId id : cuts) {
      const Op& cut = function_.op(id);
      auto starts = numbers_.of(std::span(cut.operands).subspan(1));
      if (!starts) return std::nullopt;
      for (size_t d = 0; d < starts->size(); ++d)
        for (int64_t& start : (*starts)[d])
          start = std::clamp<int64_t>(
              start, 0,
              whole.dim(static_cast<int>(d)) - function_.type(cut.results[0]).dim(static_cast<int>(d)));
      if (agreed && *agreed != *starts) return std::nullopt;
      agreed = std::move(starts);
    }
    return agreed;
  }

  // nullopt where some device is in none.
  std::optional<Groups> groups_of(const Op& sum) const {
    const auto found = graph::eval::process_groups(sum, 1, devices_, [](const std::string& what) {
      throw Fault(FaultKind::kInput, "graph.collective", what);
    });
    Groups groups;
    size_t devices = 0;
    for (const auto& group : found) {
      groups.emplace_back(group.begin(), group.end());
      devices += group.size();
    }
    return devices == static_cast<size_t>(devices_) ? std::optional(groups) : std::nullopt;
  }

  ValueId append(const ShareStep& step, ValueId value, OpKind combiner, const Op& sum) {
    const Type type = function_.type(value);
    graph::IntMatrix matrix{
        static_cast<int64_t>(step.groups.size()), static_cast<int64_t>(step.groups[0].size()), {}};
    for (const auto& group : step.groups)
      matrix.values.insert(matrix.values.end(), group.begin(), group.end());
    Builder::Attributes attributes{{Attr::replica_groups, Attribute(std::move(matrix))},
                                   {Attr::channel_id, Attribute(++channels_)},
                                   {Attr::use_global_device_ids, Attribute(true)}};
    std::vector<int64_t> dims = type.dims_vector();
    if (step.kind == OpKind::reduce_scatter_) {
      attributes.emplace_back(Attr::scatter_dimension, Attribute(step.dim));
      dims[static_cast<size_t>(step.dim)] /= static_cast<int64_t>(step.groups[0].size());
    }
    const Type scalar = Type::scalar(type.element());
    const graph::RegionBody body{{scalar, scalar},
                                 [combiner](Builder& made, std::span<const ValueId> arguments) {
                                   return std::vector{made.add(combiner, {arguments[0], arguments[1]})};
                                 }};
    Builder made(module_, function_, sum.block);
    made.set_location(sum.location);
    const OpId id = made.add_with_regions(step.kind, {value}, std::move(attributes),
                                          {type.with_dims(std::move(dims))}, {body});
    function_.op(id).extra = sum.extra;  // its stream, where the program names one
    return function_.op(id).results[0];
  }

  Module& module_;
  Function& function_;
  int64_t devices_;
  ByDevice numbers_;
  std::map<ValueId, std::vector<OpId>> readers_;
  std::vector<ValueId> starts_;  // of cuts that are no more
  int64_t channels_ = 0;
};

}  // namespace

int scatter_sums(Module& module, Function& function, int64_t devices) {
  return SumScatterer(module, function, devices).run();
}

}  // namespace opentrn::spmd
