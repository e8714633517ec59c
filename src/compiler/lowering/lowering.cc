#include "compiler/lowering/lowering.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "arch/tables.h"
#include "base/activity.h"
#include "base/interrupt.h"
#include "compiler/analysis/cost.h"
#include "compiler/analysis/device_type.h"
#include "compiler/analysis/graph_names.h"
#include "compiler/analysis/values.h"
#include "compiler/lowering/elementwise.h"
#include "compiler/lowering/kernel_call.h"
#include "compiler/lowering/matrix.h"
#include "compiler/lowering/rearrange.h"
#include "compiler/lowering/region.h"
#include "compiler/lowering/takes.h"
#include "cost/usual.h"

namespace opentrn::compiler {

namespace {

// fp32 elements of full values that a row-wise group may hold in a partition: half of the smallest SBUF
// partition (192 KiB), since two tiles of rows are in work at a time.
constexpr int64_t kPlannedColumnsMax = 96 * 1024 / 4;

// Bytes of a partition for values that stay in SBUF beside a kernel whose own tiles nobody has counted: a
// third of the smallest SBUF.
constexpr int64_t kUsualRoom = 64 * 1024;

// Ops that are a kernel of their own; an op goes to the first that takes it.
struct LoweringKernel {
  bool (*has)(const graph::Function& function, const Op& op);
  bool (*lower)(Lowering& lowering, const Op& op);
  bool fills_psum = false;  // with sums in every bank, while it loads and stores
};
constexpr LoweringKernel kKernels[] = {
    {has_attention, lower_attention, true},
    {has_convolution, lower_convolution, true},
    {has_scan, lower_scan},
    {has_reduce_window, lower_reduce_window},
    {has_gather, lower_gather},
    {has_gather_elements, lower_gather_elements},
    {scatters_rows, lower_scatter_rows},
    {has_scatter_sums, lower_scatter_sums, true},
    {has_scatter, lower_scatter},
    {has_reduce, lower_reduce},
    {has_control_flow, lower_control_flow},
    {has_dynamic_slices, lower_dynamic_slices},
    {has_sort, lower_sort},
    {has_top_k, lower_top_k},
    {has_small_lu, lower_small_lu},
    {has_small_factors, lower_small_factors},
    {has_small_qr, lower_small_qr},
    {has_small_rotations, lower_small_rotations},
    {has_row_rotations, lower_row_rotations},
    {has_recurrence, lower_recurrence},
    {has_data_movement, lower_data_movement},
    {has_complex, lower_complex},
    {has_kernel_call, lower_kernel_call},
    {has_custom_operator, lower_custom_operator},
    {has_host_call, lower_host_call},
};

DType dtype_of(const graph::Type& type) {
  if (type.is_tensor() && !type.quantization())
    if (const auto dtype = device_dtype(graph::real_part(type.element()))) return *dtype;
  throw Fault(FaultKind::kNotModelled, "compiler.type",
              fmt::format("{} has no form on a device", type.to_string()),
              "convert it to a type of the device in the model");
}

// Complex numbers are pairs.
std::vector<int64_t> device_dims(const graph::Type& type) {
  std::vector<int64_t> dims = type.dims_vector();
  if (graph::is_complex(type.element())) dims.push_back(2);
  return dims;
}

std::string shape_text(const graph::Function& function, const Op& op) {
  std::string text;
  for (const ValueId id : op.operands) text += (text.empty() ? "" : ", ") + function.type(id).to_string();
  text = "(" + text + ")";
  for (const ValueId id : op.results) text += " -> " + function.type(id).to_string();
  return text;
}

struct FirstActivation {
  graph::OpId op;
  ActivationFunction function;
};

// Of the ops that become one with a table. In a long program, or one of large tensors, one load of a table is
// nothing, and all that follows would be scheduled otherwise.
std::optional<FirstActivation> first_activation(const graph::Function& function, Generation generation) {
  constexpr int64_t kShortElements = int64_t{1} << 19;
  std::optional<FirstActivation> first;
  if (!is_short_program(function)) return first;
  graph::walk(function, function.body(), [&](graph::OpId id) {
    if (first) return;
    const Op& op = function.op(id);
    const auto found = has_attention(function, op) ? ActivationFunction::kExp : first_function(op);
    if (found && cost::default_costs(generation).usual.has_table(*found)) first = {id, *found};
  });
  if (first && function.type(function.op(first->op).results.front()).element_count() > kShortElements)
    first.reset();
  return first;
}

}  // namespace

Lowering::Lowering(const graph::Module& module, const graph::Function& function,
                   std::shared_ptr<isa::Program> program, Generation generation, const Choices& choices)
    : module_(module),
      function_(function),
      emitter_(std::move(program), generation, choices.costs_of.value_or(generation)),
      choices_(choices),
      residency_(emitter_, kUsualRoom),
      views_(function.value_count()),
      origin_op_(function.op_count(), isa::kNoModelOp) {
  emitter_.set_residency(&residency_);
}

void Lowering::run() {
  for (const ValueId id : function_.arguments()) {
    const graph::Type& type = function_.type(id);
    const View whole = emitter_.input(device_dims(type), dtype(id), fmt::format("input{}", inputs_.size()));
    inputs_.push_back(whole.tensor);
    views_[index_of(id)] = whole;
  }
  begin_scope(function_.body(), std::nullopt);
  // While the first operands are still on their way. Reports have ops in the order in which they are
  // numbered.
  if (const auto first = first_activation(function_, emitter_.generation())) {
    for (const int group : scopes_.back()->order)
      for (const graph::OpId id : plan().groups()[static_cast<size_t>(group)].all_ops()) origin_number(id);
    begin_op(first->op);
    emitter_.load_table(first->function);
  }
  lower_groups();
  return_values();
}

void Lowering::begin_scope(graph::BlockId block, std::optional<size_t> counter) {
  scopes_.push_back(
      std::make_unique<Scope>(Scope{Plan(function_, block, emitter_.generation(), kPlannedColumnsMax, counter,
                                         choices_.prologue_elements, choices_.donated_inputs),
                                    {},
                                    {},
                                    {},
                                    {},
                                    {},
                                    {},
                                    {}}));
  Scope& scope = *scopes_.back();
  scope.order = scope.plan.order();
  for (const Group& group : scope.plan.groups()) prologues_ += static_cast<int64_t>(group.prologues.size());
  find_readers(scope);
  if (choices_.arranged) scope.arrangements = find_arrangements(function_, scope.plan, emitter_.generation());
}

// A block may be lowered again, elsewhere: nothing of it stays.
void Lowering::end_scope() {
  for (const ValueId value : scopes_.back()->views_set) views_[index_of(value)].reset();
  for (const ValueId value : scopes_.back()->scalars_set) scalars_.erase(value);
  scopes_.pop_back();
}

void Lowering::lower_block(graph::BlockId block, std::optional<size_t> counter,
                           const std::function<void()>& begin, const std::function<void(Returned)>& then) {
  begin_scope(block, counter);
  begin();
  lower_groups();
  begin_op(function_.block(block).parent);
  then(function_.op(function_.block(block).ops.back()).operands);
  end_scope();
}

void Lowering::lower_groups() {
  const Activity activity("making kernels", static_cast<int64_t>(scopes_.back()->order.size()));
  if (scopes_.size() == 1) find_shared_weights();
  for (size_t place = 0; place < scopes_.back()->order.size(); ++place) {
    Activity::at(static_cast<int64_t>(place));
    const int group = scopes_.back()->order[place];
    residency_.begin_kernel(place, room_beside(plan().groups()[static_cast<size_t>(group)]));
    if (scopes_.size() == 1) keep_shared_weights(place);
    lower_group(group);
    drop_what_nobody_reads(place);
  }
}

// Only values that the block itself makes: its arguments and what lies around live on.
void Lowering::find_readers(Scope& scope) const {
  const Plan& plan = scope.plan;
  std::vector<int> last(function_.value_count(), -1);
  for (size_t i = 0; i < scope.order.size(); ++i)
    for (const graph::OpId id : plan.groups()[static_cast<size_t>(scope.order[i])].all_ops()) {
      interrupt::poll();
      for (const ValueId base : plan.bases_read_by(id))
        if (plan.group_of(base) >= 0) {
          last[index_of(base)] = static_cast<int>(i);
          scope.reads[base].push_back(i);
        }
    }
  for (const ValueId id : function_.op(function_.block(plan.block()).ops.back()).operands)
    last[index_of(plan.base_of(id))] = -1;
  scope.last_read.resize(scope.order.size());
  for (size_t value = 0; value < last.size(); ++value)
    if (last[value] >= 0)
      scope.last_read[static_cast<size_t>(last[value])].push_back(ValueId{static_cast<uint32_t>(value)});
}

void Lowering::drop_what_nobody_reads(size_t place) {
  for (const ValueId value : scopes_.back()->last_read[place])
    if (const auto& view = views_[index_of(value)]; view && !taken_over_.contains(value))
      residency_.drop(view->tensor);
}

std::vector<size_t> Lowering::reads_of(ValueId value) const {
  const auto found = scopes_.back()->reads.find(value);
  return found == scopes_.back()->reads.end() ? std::vector<size_t>{} : found->second;
}

int64_t Lowering::room_beside(const Group& group) const {
  const auto working = working_bytes(function_, group, choices_, emitter_.generation());
  if (!working) return static_cast<int64_t>(choices_.resident_share * kUsualRoom);
  const int64_t sbuf = arch::neuron_core(emitter_.generation()).sbuf_bytes_per_partition;
  return static_cast<int64_t>(choices_.resident_share *
                              static_cast<double>(std::max(kUsualRoom, sbuf - *working)));
}

void Lowering::set_view(ValueId value, const View& view) {
  views_[index_of(value)] = view;
  scopes_.back()->views_set.push_back(value);
}

void Lowering::set_scalar(ValueId value, Scalar scalar) {
  scalars_.insert_or_assign(value, scalar);
  scopes_.back()->scalars_set.push_back(value);
}

const Lowering::Offset& Lowering::offset_of(const std::vector<int64_t>& places,
                                            const std::function<Offset()>& find) {
  auto& offsets = scopes_.back()->offsets;
  const auto known = offsets.find(places);
  return known != offsets.end() ? known->second : offsets.emplace(places, find()).first->second;
}

// Whether the value is there to be loaded, made by a kernel.
bool Lowering::lies_in_memory(ValueId value) const {
  return views_[index_of(value)].has_value() || plan().group_of(value) >= 0;
}

View Lowering::place_of(ValueId result) {
  if (const auto by = plan().update_with(result))
    if (const auto place = place_in_update(*this, function_.op(*by), function_.type(result).dims())) {
      set_view(result, *place);
      return *place;
    }
  const auto update = plan().updated_input(result);
  if (!update) return allocate(result);
  const View place = view(update->input);
  if (residency_.holds(place.tensor) && scopes_.size() > 1) {  // a loop keeps what it carries
    if (!fits_kept_place(result, place.tensor)) return allocate(result);
    set_view(result, place);
    return place;
  }
  // A result of a group that does not read the input may be better kept in SBUF for its readers.
  if (!update->reads) return allocate(result);
  residency_.flush(place.tensor);
  residency_.drop(place.tensor);
  return take_over(update->input, result);
}

// By the same rows; not where others of fewer columns could be better than a tile less.
bool Lowering::fits_kept_place(ValueId result, isa::TensorId tensor) const {
  constexpr int64_t kColumnsMax = 512;
  const Group& group = plan().groups()[static_cast<size_t>(plan().group_of(result))];
  return group.permutation.empty() && !group.has_source && group.rows() == residency_.rows(tensor) &&
         group.columns() == residency_.columns(tensor) &&
         (group.columns() <= kColumnsMax || group.rows() >= kPartitions);
}

bool Lowering::is_in_place(ValueId result) {
  if (const auto by = plan().update_with(result); by && is_placed(function_.op(*by).results[0])) return true;
  const auto update = plan().updated_input(result);
  return update && view(update->input).tensor == view(result).tensor;
}

bool Lowering::is_in_kept_place(ValueId result) {
  return is_in_place(result) && residency_.holds(view(result).tensor);
}

View Lowering::take_over(ValueId operand, ValueId result) {
  const View place = view(operand);
  taken_over_.insert(operand);
  residency_.expect(place.tensor, reads_of(result));
  set_view(result, place);
  return place;
}

void Lowering::keep(const View& whole) {
  const int64_t count = whole.element_count();
  if (count == 0) return;
  const int64_t columns = whole.dims.empty() ? 1 : whole.dims.back().count;
  if (residency_.reserve(whole, count / columns, columns)) residency_.make_tiles(whole.tensor);
}

void Lowering::assign(const View& whole, const View& source) {
  const int64_t rows = residency_.rows(whole.tensor), columns = residency_.columns(whole.tensor);
  if (whole.element_count() == 0) return;
  if (rows == 0) return emitter_.copy(whole, source);
  const std::vector<int64_t> shape{rows, columns};
  const Matrix from(reshaped_or_copied(source, shape), 1);
  for (int64_t row = 0; row < rows; row += kPartitions) {
    const int64_t count = std::min(kPartitions, rows - row);
    const Tile place = *residency_.place(whole.tensor, row, count);
    if (const auto tile = from.kept(emitter_, row, count, 0, columns, false))
      emitter_.tensor_copy(place, *tile);
    else
      from.load(emitter_, place, row, 0);
  }
  residency_.changed(whole.tensor);
}

std::set<isa::TensorId> Lowering::captured_tensors(const Op& op) {
  std::set<isa::TensorId> tensors;
  for (const ValueId value : captured_by(function_, op))
    if (lies_in_memory(value)) tensors.insert(view(value).tensor);
  return tensors;
}

void Lowering::prepare_captured(const Op& op, bool is_loop) {
  for (const ValueId value : captured_by(function_, op)) {
    if (splat_of(function_, value) || scalars_.contains(value)) continue;
    const View seen = view(value);
    if (is_loop) residency_.flush(seen.tensor);
  }
}

void Lowering::return_values() {
  for (const ValueId id : function_.returned()) {
    const graph::OpId made = function_.value(id).op;
    if (made != graph::kNoOp) begin_op(made);
    View source = view(id);
    // A result must be a tensor of its own: not part of one, an input, a constant, or another result. Another
    // shape of all that a kernel made is one.
    const ValueId base = plan().base_of(id);
    const bool whole = made != graph::kNoOp && plan().group_of(base) >= 0 && source.contiguous() &&
                       source.offset == 0 && source.dtype == view(base).dtype &&
                       source.element_count() == view(base).element_count() &&
                       std::find(outputs_.begin(), outputs_.end(), source.tensor) == outputs_.end();
    if (!whole) {
      const View target = emitter_.hbm(device_dims(function_.type(id)), source.dtype,
                                       fmt::format("output{}", outputs_.size()));
      const Emitter::Moving moving(emitter_, isa::Purpose::kResultCopy);
      if (target.element_count() > 0) rearrange(emitter_, target, source);
      source = target;
    }
    residency_.flush(source.tensor, isa::Purpose::kCompute);
    if (whole) emitter_.reshape(source.tensor, device_dims(function_.type(id)));
    emitter_.mark_output(source, fmt::format("output{}", outputs_.size()));
    outputs_.push_back(source.tensor);
  }
}

void Lowering::lower_group(int index) {
  const Group& group = plan().groups()[static_cast<size_t>(index)];
  try {
    lower_kernel(index, group);
  } catch (Fault& fault) {
    if (failed_.empty()) failed_ = group.all_ops();  // the innermost
    const SourceLocation where = module_.source(function_.op(group.ops.front()).location);
    if (where.known()) fault.set_location(where);
    throw;
  }
}

void Lowering::lower_kernel(int index, const Group& group) {
  interrupt::poll();
  const Op& first = function_.op(group.ops.front());
  emitter_.begin_kernel();
  // A kernel of several ops is told apart only where it says so; all of them are the model's work.
  for (const graph::OpId id : group.all_ops()) origin_number(id);
  begin_op(group.ops.front());
  if (group.rowwise) return lower_rowwise(*this, index);
  for (const LoweringKernel& kernel : kKernels) {
    emitter_.set_turns(!kernel.fills_psum);
    const bool done = kernel.lower(*this, first);
    emitter_.set_turns(true);
    if (done) return;
  }
  const bool is_call = first.kind == OpKind::custom_call_;
  const std::string target =
      is_call ? fmt::format(" @{}", first.string(Attr::call_target_name)) : std::string();
  Fault fault(
      FaultKind::kNotModelled, "compiler.no_lowering",
      fmt::format("{}{} {} has no device kernel yet", graph::name(first.kind), target,
                  shape_text(function_, first)),
      is_call ? "if it is a custom operator, load its library: --custom-ops, custom_op.load_library(), or "
                "$OPENTRN_CUSTOM_OPS"
              : "without --strict or OPENTRN_STRICT=1 the host does it; `opentrn coverage` lists every op of "
                "the model that has "
                "none");
  fault.set_location(module_.source(first.location));
  throw fault;
}

// Ops are numbered as they are met.
uint32_t Lowering::origin_number(graph::OpId id) {
  uint32_t& number = origin_op_[index_of(id)];
  if (number != isa::kNoModelOp) return number;
  const Op& op = function_.op(id);
  std::string results;
  for (const ValueId value : op.results)
    results += (results.empty() ? "" : ", ") + function_.type(value).to_string();
  std::vector<isa::ModelOp>& ops = emitter_.origin().ops;
  number = static_cast<uint32_t>(ops.size());
  ops.push_back({op_title(op), std::move(results), module_.source(op.location), flops(function_, op)});
  return number;
}

void Lowering::begin_op(graph::OpId id) {
  const uint32_t number = origin_number(id);
  emitter_.set_op(number, emitter_.origin().ops[number].where);
}

// The fault of a type that no device has names the op that makes the value, or one that reads it.
DType Lowering::dtype(ValueId value) const {
  try {
    return dtype_of(function_.type(value));
  } catch (Fault& fault) {
    const graph::OpId made = function_.value(value).op;
    if (made != graph::kNoOp) fault.set_location(module_.source(function_.op(made).location));
    graph::walk(function_, function_.body(), [&](graph::OpId id) {
      const Op& op = function_.op(id);
      const SourceLocation where = module_.source(op.location);
      if (std::ranges::count(op.operands, value) > 0 && where.known()) fault.set_location(where);
    });
    throw;
  }
}

View Lowering::allocate(ValueId value) {
  const graph::Type& type = function_.type(value);
  const View whole = emitter_.hbm(device_dims(type), dtype(value), fmt::format("v{}", index_of(value)));
  residency_.expect(whole.tensor, reads_of(value));
  set_view(value, whole);
  return whole;
}

View Lowering::view(ValueId value) {
  if (const auto& known = views_[index_of(value)]) return *known;
  const graph::OpId id = function_.value(value).op;
  OPENTRN_CHECK(id != graph::kNoOp, "value {} was read before it was made", index_of(value));
  const Op& op = function_.op(id);
  OPENTRN_CHECK(op.kind == OpKind::constant_ || plan().is_read_through(id),
                "{} was read before it was lowered", graph::name(op.kind));
  // Constants are inputs of the program and the same everywhere.
  if (op.kind == OpKind::constant_) return *(views_[index_of(value)] = constant(op.literal(Attr::value)));
  const View made = view_of_op(op, function_.value(value).index);
  set_view(value, made);
  return made;
}

View Lowering::constant(const graph::Literal& literal, bool may_repeat) {
  const graph::Type& type = literal.type();
  const bool splat = may_repeat && literal.is_splat(), is_complex = graph::is_complex(type.element());
  const std::vector<int64_t> one{is_complex ? 2 : 1};
  View whole = emitter_.input(splat ? one : device_dims(type), dtype_of(type),
                              fmt::format("constant{}", constants_.size()));
  constants_.push_back({whole.tensor, literal});
  if (splat) {
    whole.dims.clear();
    for (const int64_t dim : type.dims()) whole.dims.push_back({0, dim});
    if (is_complex) whole.dims.push_back({1, 2});
  }
  return whole;
}

View Lowering::counted(int64_t count) {
  const auto found = counted_.find(count);
  if (found != counted_.end()) return found->second;
  std::vector<std::byte> bytes(static_cast<size_t>(count) * sizeof(float));
  for (int64_t i = 0; i < count; ++i) {
    const auto number = static_cast<float>(i);
    std::memcpy(bytes.data() + static_cast<size_t>(i) * sizeof(float), &number, sizeof(float));
  }
  const View whole =
      constant(graph::Literal(graph::Type::tensor(graph::ElementType::kF32, {count}), std::move(bytes)));
  return counted_.emplace(count, whole).first->second;
}

bool Lowering::is_argument_that_stays(isa::TensorId tensor) const {
  const auto input = std::ranges::find(inputs_, tensor);
  const auto number = static_cast<size_t>(input - inputs_.begin());
  return input != inputs_.end() && (number >= function_.argument_attributes.size() ||
                                    !function_.argument_attributes[number].contains("tf.aliasing_output"));
}

Tile Lowering::once(const TileKey& key, const std::function<Tile()>& make) {
  // Nobody writes a constant, or an input that is not donated; a tile made in a region is not there outside.
  const bool stays =
      is_argument_that_stays(key.first) || std::ranges::count(constants_, key.first, &Constant::tensor) > 0;
  if (!stays || scopes_.size() != 1) return make();
  const auto found = tiles_of_inputs_.find(key);
  if (found != tiles_of_inputs_.end()) return found->second;
  return tiles_of_inputs_.emplace(key, make()).first->second;
}

Tile Lowering::small_once(const TileKey& key, int64_t bytes, const std::function<Tile()>& make) {
  constexpr int64_t kTileBytes = 2 * 1024, kAllBytes = 8 * 1024;  // of a partition
  if (bytes > kTileBytes || (!tiles_of_inputs_.contains(key) && small_once_bytes_ + bytes > kAllBytes))
    return make();
  return once(key, [&] {
    small_once_bytes_ += bytes;
    return make();
  });
}

bool Lowering::products_share(ValueId value) {
  if (product_reads_.empty())
    graph::walk(function_, function_.body(), [&](graph::OpId id) {
      const Op& op = function_.op(id);
      if (op.kind != OpKind::dot_general_) return;
      for (const ValueId operand : op.operands) ++product_reads_[operand];
    });
  const auto found = product_reads_.find(value);
  return found != product_reads_.end() && found->second > 1;
}

Tile Lowering::fetch(const Matrix& matrix, int64_t row_begin, int64_t row_count, int64_t column_begin,
                     int64_t column_count) {
  const auto load = [&] {
    return matrix.fetch(emitter_, row_begin, row_count, column_begin, column_count, "load");
  };
  // Most constants have one reader, and would leave no room for what others read.
  if (matrix.rows() > kPartitions || !is_argument_that_stays(matrix.all().tensor) ||
      matrix.kept(emitter_, row_begin, row_count, column_begin, column_count, false))
    return load();
  const View all = matrix.all();
  std::vector<int64_t> key{all.offset,   static_cast<int64_t>(matrix.row_dims().size()),
                           row_begin,    row_count,
                           column_begin, column_count};
  for (const isa::Dim& dim : all.dims) key.insert(key.end(), {dim.step, dim.count});
  return small_once({all.tensor, std::move(key)}, column_count * size_bytes(matrix.dtype()), load);
}

View Lowering::view_of_op(const Op& op, uint32_t result) {
  if (op.kind == OpKind::dynamic_slice_) return slice_in_place(*this, op);
  const View source = view(op.operands[result]);
  auto made = rearranged(function_, op, result, source);
  if (!made) return reshaped_or_copied(source, function_.type(op.results[result]).dims());
  if (op.kind == OpKind::transpose_ && is_worth_a_copy(*made, op.results[result])) return copied(*made);
  return *made;
}

// Elements a few places apart, of which each reader would make a descriptor each: picked once, on the chip,
// they are neighbours to all readers.
bool Lowering::is_worth_a_copy(const View& view, ValueId value) const {
  constexpr int64_t kElementsMin = int64_t{1} << 14, kRowMin = 16, kFarthest = 16, kReadsMin = 3;
  const std::vector<isa::Dim> dims = view.merged().dims;
  if (dims.empty() || dims.back().step <= 1 || dims.back().step > kFarthest || dims.back().count < kRowMin ||
      view.element_count() < kElementsMin)
    return false;
  int64_t reads = 0;
  graph::walk(function_, function_.body(),
              [&](graph::OpId id) { reads += std::ranges::count(function_.op(id).operands, value); });
  return reads >= kReadsMin;
}

Arrangement Lowering::arrangement_of(ValueId value) const {
  const auto& known = scopes_.back()->arrangements;
  const auto found = known.find(value);
  return found == known.end() ? Arrangement{} : found->second;
}

std::optional<View> Lowering::rearranged(const graph::Function& function, const Op& op, uint32_t result,
                                         const View& source) {
  const auto dims = function.type(op.results[result]).dims();
  View made{source.tensor, source.dtype, source.offset, {}};
  switch (op.kind) {
    case OpKind::optimization_barrier_:
    case OpKind::convert_: return source;  // one that is read through (plan.h): of the narrow type
    case OpKind::real_:
    case OpKind::imag_:
      made = source;
      if (op.kind == OpKind::imag_) ++made.offset;
      made.dims.pop_back();
      return made;
    case OpKind::transpose_:
      for (const int64_t from : op.integers(Attr::permutation)) made.dims.push_back(source.dims[from]);
      return made;
    case OpKind::broadcast_in_dim_: {
      for (const int64_t dim : dims) made.dims.push_back({0, dim});
      const auto places = op.integers(Attr::broadcast_dimensions);
      for (size_t i = 0; i < places.size(); ++i)
        if (source.dims[i].count != 1) made.dims[places[i]] = source.dims[i];
      return made;
    }
    case OpKind::reverse_: {
      made = source;
      for (const int64_t d : op.integers(Attr::dimensions)) {
        isa::Dim& dim = made.dims[static_cast<size_t>(d)];
        made.offset += (dim.count - 1) * dim.step;
        dim.step = -dim.step;
      }
      return made;
    }
    case OpKind::slice_: {
      const auto starts = op.integers(Attr::start_indices), strides = op.integers(Attr::strides);
      for (size_t i = 0; i < dims.size(); ++i) {
        made.offset += starts[i] * source.dims[i].step;
        made.dims.push_back({source.dims[i].step * strides[i], dims[i]});
      }
      return made;
    }
    default: return reshaped(source, dims);
  }
}

std::optional<View> Lowering::reshaped(const View& view, std::span<const int64_t> dims) {
  return compiler::reshaped(view, dims);
}

View Lowering::reshaped_or_copied(const View& view, std::span<const int64_t> dims) {
  if (auto made = reshaped(view, dims)) return *made;
  return *reshaped(copied(view), dims);
}

View Lowering::copied(const View& view) {
  std::vector<int64_t> counts;
  for (const isa::Dim& dim : view.dims) counts.push_back(dim.count);
  const View copy = emitter_.hbm(counts, view.dtype, "reshaped");
  const Emitter::Moving moving(emitter_, isa::Purpose::kLayoutCopy);
  rearrange(emitter_, copy, view);
  return copy;
}

namespace {

// A value that no device memory holds.
bool has_no_form(const graph::Type& type) {
  return type.is_tensor() && (type.quantization() || !device_dtype(graph::real_part(type.element())));
}

}  // namespace

bool has_lowering(const graph::Function& function, const Op& op) {
  const auto formless = [&](ValueId value) { return has_no_form(function.type(value)); };
  if (std::any_of(op.operands.begin(), op.operands.end(), formless) ||
      std::any_of(op.results.begin(), op.results.end(), formless))
    return false;
  if (op.kind == OpKind::constant_ || op.kind == OpKind::return_ || is_view_op(op.kind)) return true;
  return is_reduction(function, op) || has_elementwise(function, op) || source_row_rank(function, op) ||
         std::any_of(std::begin(kKernels), std::end(kKernels),
                     [&](const LoweringKernel& kernel) { return kernel.has(function, op); });
}

}  // namespace opentrn::compiler
