// Casting fp32 to a narrower format, as neuronx-cc's --auto-cast names it.
//
// kMatmult: products and convolutions of fp32 operands take operands of the named type; sums and results stay
// fp32. kAll: every fp32 value has the named type. What accumulates over many elements (reductions, windows,
// scatters, norms) still does so in fp32 and rounds once, which is neuronx-cc's
// --enable-mixed-precision-accumulation, on by default; so do ops whose meaning is bound to fp32 (bitcasts,
// FFT, random numbers, custom calls). Inputs and results of the model keep their types.
// [doc: neuronx-cc CLI reference, --auto-cast; application note on mixed precision]
#include <map>
#include <utility>
#include <vector>

#include "compiler/analysis/graph_names.h"
#include "compiler/canonicalise/passes.h"
#include "graph/element_value.h"
#include "graph/op_definitions.h"

namespace opentrn::compiler {

namespace {

bool is_product(OpKind kind) { return kind == OpKind::dot_general_ || kind == OpKind::convolution_; }

bool has_element(const graph::Type& type, ElementType element) {
  return type.is_tensor() && !type.quantization() && type.element() == element;
}

Literal converted(const Literal& literal, ElementType to) {
  const graph::Type type = literal.type().with_element(to);
  const auto from = literal.type().element();
  const auto size = static_cast<size_t>(graph::storage_bytes(to)),
             from_size = static_cast<size_t>(graph::storage_bytes(from));
  const size_t count = literal.bytes().size() / from_size;
  std::vector<std::byte> bytes(count * size);
  for (size_t i = 0; i < count; ++i)
    graph::store_real(to, graph::load_real(from, literal.bytes().data() + i * from_size),
                      bytes.data() + i * size);
  return {type, std::move(bytes)};
}

// Ops that compute, or move, elements of any float type one by one.
bool takes_any_float(OpKind kind) {
  switch (kind) {
    case OpKind::broadcast_:
    case OpKind::broadcast_in_dim_:
    case OpKind::clamp_:
    case OpKind::compare_:
    case OpKind::concatenate_:
    case OpKind::constant_:
    case OpKind::convert_:
    case OpKind::convolution_:
    case OpKind::dot_general_:
    case OpKind::dynamic_slice_:
    case OpKind::dynamic_update_slice_:
    case OpKind::gather_:
    case OpKind::iota_:
    case OpKind::is_finite_:
    case OpKind::optimization_barrier_:
    case OpKind::pad_:
    case OpKind::reshape_:
    case OpKind::reverse_:
    case OpKind::select_:
    case OpKind::slice_:
    case OpKind::transpose_:
    case OpKind::case_:
    case OpKind::if_:
    case OpKind::while_: return true;
    case OpKind::bitcast_convert_:
    case OpKind::complex_:
    case OpKind::imag_:
    case OpKind::real_:
    case OpKind::reduce_precision_: return false;
    default: {
      const OpClass op_class = graph::definition(kind).op_class;
      return op_class == OpClass::kUnaryElementwise || op_class == OpClass::kBinaryElementwise;
    }
  }
}

class AutoCast {
 public:
  AutoCast(Function& function, AutoCastMode mode, ElementType type)
      : function_(function), mode_(mode), type_(type) {}

  int64_t run() {
    if (mode_ == AutoCastMode::kMatmult)
      products(function_.body());
    else if (mode_ == AutoCastMode::kAll)
      all(function_.body());
    return casts_;
  }

 private:
  ValueId cast(BlockId block, ValueId value, ElementType to, graph::LocationId location) {
    ++casts_;
    return function_
        .op(function_.append(block, OpKind::convert_, {value}, {function_.type(value).with_element(to)},
                             location))
        .results[0];
  }

  // fp32 operands of products, each cast once per block.
  void products(BlockId block) {
    const std::vector<OpId> before = std::exchange(function_.block(block).ops, {});
    std::map<ValueId, ValueId> narrow;
    for (const OpId id : before) {
      for (const BlockId region : std::vector(function_.op(id).regions)) products(region);
      if (is_product(function_.op(id).kind)) {
        const std::vector<ValueId> operands = function_.op(id).operands;
        for (size_t i = 0; i < operands.size(); ++i) {
          if (!has_element(function_.type(operands[i]), ElementType::kF32)) continue;
          auto found = narrow.find(operands[i]);
          if (found == narrow.end())
            found =
                narrow.emplace(operands[i], cast(block, operands[i], type_, function_.op(id).location)).first;
          function_.op(id).operands[i] = found->second;
        }
        forget_precision(id);
      }
      function_.block(block).ops.push_back(id);
    }
  }

  // It names the types that the operands had.
  void forget_precision(OpId id) {
    for (const Attr attr : {Attr::lhs_precision_type, Attr::rhs_precision_type, Attr::accumulation_type,
                            Attr::lhs_component_count, Attr::rhs_component_count,
                            Attr::num_primitive_operations, Attr::allow_imprecise_accumulation})
      function_.op(id).remove(attr);
  }

  void retype(ValueId value) {
    if (has_element(function_.type(value), ElementType::kF32)) {
      function_.value(value).type = function_.type(value).with_element(type_);
      is_cast_.resize(function_.value_count());
      is_cast_[index_of(value)] = true;
    }
  }

  bool is_cast(ValueId value) const { return index_of(value) < is_cast_.size() && is_cast_[index_of(value)]; }

  // The body's arguments keep their types and are cast first; block arguments of loops and branches follow
  // their operands.
  void all(BlockId block) {
    const std::vector<OpId> before = std::exchange(function_.block(block).ops, {});
    if (block == function_.body()) {
      for (const ValueId argument : std::vector(function_.block(block).arguments))
        if (has_element(function_.type(argument), ElementType::kF32)) {
          const ValueId narrow = cast(block, argument, type_, graph::kNoLocation);
          narrow_of_[argument] = narrow;
          is_cast_.resize(function_.value_count());
          is_cast_[index_of(narrow)] = true;
        }
    } else {
      for (const ValueId argument : std::vector(function_.block(block).arguments)) retype(argument);
    }
    for (const OpId id : before) all(block, id);
  }

  void all(BlockId block, OpId id) {
    for (ValueId& operand : function_.op(id).operands)
      if (const auto found = narrow_of_.find(operand); found != narrow_of_.end()) operand = found->second;
    const OpKind kind = function_.op(id).kind;
    if (kind == OpKind::return_) {
      if (block == function_.body()) in_fp32(block, id);
      function_.block(block).ops.push_back(id);
      return;
    }
    if (!takes_any_float(kind)) return keep_in_fp32(block, id);
    for (const BlockId region : std::vector(function_.op(id).regions)) all(region);
    Op& op = function_.op(id);
    if (kind == OpKind::constant_ && has_element(function_.type(op.results[0]), ElementType::kF32))
      op.set(Attr::value, converted(op.literal(Attr::value), type_));
    if (is_product(kind)) forget_precision(id);
    for (const ValueId result : std::vector(op.results)) retype(result);
    function_.block(block).ops.push_back(id);
  }

  // Operands that were narrowed, widened again in front of the op, and those that its regions read.
  void in_fp32(BlockId block, OpId id) {
    std::vector<std::pair<OpId, size_t>> uses;
    const auto find = [&](OpId user) {
      for (size_t i = 0; i < function_.op(user).operands.size(); ++i)
        if (is_cast(function_.op(user).operands[i])) uses.emplace_back(user, i);
    };
    find(id);
    for (const BlockId region : function_.op(id).regions) graph::walk(function_, region, find);
    for (const auto& [user, i] : uses) {
      const ValueId wide =
          cast(block, function_.op(user).operands[i], ElementType::kF32, function_.op(id).location);
      function_.op(user).operands[i] = wide;
    }
  }

  void keep_in_fp32(BlockId block, OpId id) {
    in_fp32(block, id);
    function_.block(block).ops.push_back(id);
    for (const ValueId result : std::vector(function_.op(id).results)) {
      if (!has_element(function_.type(result), ElementType::kF32)) continue;
      const ValueId narrow = cast(block, result, type_, function_.op(id).location);
      is_cast_.resize(function_.value_count());
      is_cast_[index_of(narrow)] = true;
      narrow_of_[result] = narrow;
    }
  }

  Function& function_;
  AutoCastMode mode_;
  ElementType type_;
  std::vector<bool> is_cast_;             // by value: it was fp32 and is not any more
  std::map<ValueId, ValueId> narrow_of_;  // values that stay fp32, and what readers take instead
  int64_t casts_ = 0;
};

}  // namespace

int64_t auto_cast(Function& function, AutoCastMode mode, ElementType type) {
  return AutoCast(function, mode, type).run();
}

}  // namespace opentrn::compiler
