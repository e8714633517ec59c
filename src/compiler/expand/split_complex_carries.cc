// Complex values that loops carry, branches give, and regions of sorts and reductions combine, as their two
// parts: no register or tensor of a device loop is complex. Inside and after the op they are put together
// again, which expand/complex.cc looks through.
#include <algorithm>

#include "compiler/analysis/graph_names.h"
#include "compiler/expand/expand.h"

namespace opentrn::compiler {

namespace {

bool is_complex(const Type& type) { return type.is_tensor() && graph::is_complex(type.element()); }

class Splitter {
 public:
  explicit Splitter(Function& function) : function_(function) {}

  void run() {
    for (size_t index = 0; index < function_.block_count(); ++index) {
      block_ = BlockId{static_cast<uint32_t>(index)};
      for (at_ = 0; at_ < function_.block(block_).ops.size(); ++at_) {
        const OpId id = function_.block(block_).ops[at_];
        if (is_split(function_.op(id))) split(id);
      }
    }
  }

 private:
  bool is_split(const Op& op) const {
    const auto complex = [&](ValueId value) { return is_complex(function_.type(value)); };
    const bool flows = op.kind == OpKind::while_ || op.kind == OpKind::if_ || op.kind == OpKind::case_;
    return (flows || combines(op)) && std::any_of(op.results.begin(), op.results.end(), complex);
  }

  // With a region that is no sum: sums are done part by part (expand/complex.cc).
  bool combines(const Op& op) const {
    if (op.kind != OpKind::sort_ && op.kind != OpKind::reduce_ && op.kind != OpKind::reduce_window_)
      return false;
    const auto& ops = function_.block(op.regions[0]).ops;
    return ops.size() != 2 || op.results.size() > 1 || function_.op(ops[0]).kind != OpKind::add_;
  }

  static Type part_type(const Type& type) { return type.with_element(graph::real_part(type.element())); }

  // Parts of what is complex, made in front of the op at `at` of the block.
  std::vector<ValueId> parts(BlockId block, size_t& at, const std::vector<ValueId>& values,
                             graph::LocationId location) {
    std::vector<ValueId> result;
    for (const ValueId value : values) {
      const Type type = function_.type(value);
      if (!is_complex(type)) {
        result.push_back(value);
        continue;
      }
      for (const OpKind kind : {OpKind::real_, OpKind::imag_}) {
        const OpId made = function_.insert(block, at++, kind, {value}, {part_type(type)}, location);
        result.push_back(function_.op(made).results[0]);
      }
    }
    return result;
  }

  ValueId joined(BlockId block, size_t at, ValueId re, ValueId im, const Type& type,
                 graph::LocationId location) {
    const OpId made = function_.insert(block, at, OpKind::complex_, {re, im}, {type}, location);
    return function_.op(made).results[0];
  }

  // `by_pairs`: the arguments are two elements of each operand in turn, as a sort's.
  void split_arguments(BlockId block, bool by_pairs) {
    const std::vector<ValueId> before = function_.block(block).arguments;
    function_.block(block).arguments.clear();
    size_t at = 0;
    for (size_t i = 0; i < before.size(); ++i) {
      const ValueId argument = before[i];
      if (by_pairs && is_complex(function_.type(argument))) {
        split_pair(block, at, argument, before[i + 1]);
        ++i;
        continue;
      }
      const Type type = function_.type(argument);
      if (!is_complex(type)) {
        auto& arguments = function_.block(block).arguments;
        function_.value(argument).index = static_cast<uint32_t>(arguments.size());
        arguments.push_back(argument);
        continue;
      }
      const ValueId re = function_.add_argument(block, part_type(type)),
                    im = function_.add_argument(block, part_type(type));
      function_.replace_uses(argument, joined(block, at++, re, im, type, graph::kNoLocation));
    }
  }

  void split_pair(BlockId block, size_t& at, ValueId left, ValueId right) {
    const Type type = function_.type(left);
    std::vector<ValueId> made;  // left.re, right.re, left.im, right.im
    for (int i = 0; i < 4; ++i) made.push_back(function_.add_argument(block, part_type(type)));
    function_.replace_uses(left, joined(block, at++, made[0], made[2], type, graph::kNoLocation));
    function_.replace_uses(right, joined(block, at++, made[1], made[3], type, graph::kNoLocation));
  }

  void split_return(BlockId block) {
    size_t at = function_.block(block).ops.size() - 1;
    const OpId last = function_.block(block).ops[at];
    const std::vector<ValueId> returned = function_.op(last).operands;
    auto parted = parts(block, at, returned, function_.op(last).location);
    function_.op(last).operands = std::move(parted);
  }

  void split(OpId id) {
    const Op old = function_.op(id);
    const bool carries = old.kind != OpKind::if_ && old.kind != OpKind::case_;
    std::vector<Type> types;
    for (const ValueId result : old.results) {
      const Type type = function_.type(result);
      types.insert(types.end(), is_complex(type) ? 2 : 1, is_complex(type) ? part_type(type) : type);
    }
    auto operands = carries ? parts(block_, at_, old.operands, old.location) : old.operands;
    const OpId made =
        function_.insert(block_, at_, old.kind, std::move(operands), std::move(types), old.location);
    function_.op(made).attributes = old.attributes;
    function_.op(made).extra = old.extra;
    function_.op(made).regions = old.regions;
    function_.op(id).regions.clear();
    function_.op(id).operands.clear();
    auto& ops = function_.block(block_).ops;
    ops.erase(std::find(ops.begin(), ops.end(), id));
    for (const BlockId region : old.regions) {
      function_.block(region).parent = made;
      if (carries) split_arguments(region, old.kind == OpKind::sort_);
      split_return(region);  // a sort's is no number
    }
    size_t part = 0;
    for (const ValueId result : old.results) {
      const std::vector<ValueId> results = function_.op(made).results;
      const Type type = function_.type(result);
      if (is_complex(type)) {
        function_.replace_uses(result,
                               joined(block_, ++at_, results[part], results[part + 1], type, old.location));
        part += 2;
      } else {
        function_.replace_uses(result, results[part++]);
      }
    }
  }

  Function& function_;
  BlockId block_{0};
  size_t at_ = 0;
};

}  // namespace

void split_complex_carries(Function& function) { Splitter(function).run(); }

}  // namespace opentrn::compiler
