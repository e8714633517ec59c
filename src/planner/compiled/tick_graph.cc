// What a loop of ticks does beside its blocks: values of one tick are read from where those of all ticks lie,
// and written there, in place.
#include <vector>

#include "base/fault.h"
#include "planner/compiled/piece_words.h"

namespace opentrn::planner::compiled {
namespace {

class TickSheet : PieceWords {
 public:
  explicit TickSheet(const Piece& piece) : PieceWords(piece) {}

  graph::Module run() {
    for (int i = 0; i < (piece_.paired ? 2 : 1); ++i) make();
    return finished();
  }

 private:
  void make() {
    switch (piece_.part) {
      case Part::kFetch: fetch(); break;
      case Part::kKeep: keep(); break;
      case Part::kLoopTest: loop_test(); break;
      default: OPENTRN_CHECK(false, "not a part of ticks");
    }
  }

  static constexpr int64_t kTicks = 4;  // no time depends on how many there are

  void fetch() {
    const ValueId tick = argument({}, kIndex);
    for (int64_t i = 0; i < piece_.heads; ++i) {
      const ValueId all = argument({kTicks, piece_.rows, piece_.hidden});
      const ValueId one = builder_.add(OpKind::dynamic_slice_, {all, tick, none(), none()},
                                       {{Attr::slice_sizes, Attribute(Dims{1, piece_.rows, piece_.hidden})}});
      give(selected(builder_.reshape(one, {piece_.rows, piece_.hidden})));
    }
  }

  void keep() {
    const ValueId tick = argument({}, kIndex);
    for (int64_t i = 0; i < piece_.heads; ++i) {
      const bool is_sum = piece_.adds && i + 1 == piece_.heads;
      const ValueId all = argument({kTicks, piece_.rows, piece_.hidden});
      function_.argument_attributes.resize(function_.arguments().size());
      function_.argument_attributes.back()["tf.aliasing_output"] =
          Attribute(static_cast<int64_t>(results_.size()));
      ValueId value = argument({piece_.rows, piece_.hidden});
      if (is_sum) value = plus(value, argument({piece_.rows, piece_.hidden}));
      const ValueId row = builder_.reshape(selected(value), {1, piece_.rows, piece_.hidden});
      give(builder_.add(OpKind::dynamic_update_slice_, {all, row, tick, none(), none()}));
      if (is_sum) give(value);
    }
  }

  void loop_test() {
    const ValueId tick = argument({}, kIndex);
    give(builder_.compare(graph::ComparisonDirection::kLt, tick, splat(tick, kTicks)));
  }

  // On one stage this, on all others what they have instead.
  ValueId selected(ValueId value) {
    if (!piece_.selects) return value;
    const ValueId is_stage = builder_.compare(graph::ComparisonDirection::kEq, argument({}, kIndex), none());
    const ValueId where = builder_.broadcast_in_dim(is_stage, {piece_.rows, piece_.hidden}, {});
    return builder_.add(OpKind::select_, {where, value, splat(value, 0)});
  }
};

}  // namespace

graph::Module graph_of_ticks(const Piece& piece) { return TickSheet(piece).run(); }

}  // namespace opentrn::planner::compiled
