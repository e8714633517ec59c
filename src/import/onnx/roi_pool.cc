// MaxRoiPool: the largest element of each bin of regions whose edges are whole places.
#include "import/onnx/ops.h"

namespace opentrn::import::onnx {

namespace {

using Direction = graph::ComparisonDirection;

// [regions, bins, size]: which places along one axis a bin has. `low`, `high`: [regions], the region's edges.
ValueId places_of_bins(const Emit& e, ValueId low, ValueId high, int64_t bins, int64_t size) {
  const ElementType element = e.element(low);
  const ValueId length = e.max(e.add(e.sub(high, low), 1), 1);
  const ValueId bin = e.unsqueeze(e.div(length, static_cast<double>(bins)), 1);
  const ValueId number = e.iota(element, {1, bins}, 1);
  const ValueId start = e.add(e.unary(OpKind::floor_, e.mul(number, bin)), e.unsqueeze(low, 1));
  const ValueId end = e.add(e.unary(OpKind::ceil_, e.mul(e.add(number, 1), bin)), e.unsqueeze(low, 1));
  const ValueId place = e.iota(element, {1, 1, size}, 2);
  return e.binary(OpKind::and_, e.compare(Direction::kGe, place, e.unsqueeze(start, 2)),
                  e.compare(Direction::kLt, place, e.unsqueeze(end, 2)));
}

}  // namespace

void import_max_roi_pool(Node& n) {
  const Emit& e = n.emit;
  const Dims x = n.dims(0), rois = n.dims(1);
  n.check(x.size() == 4 && rois.size() == 2 && rois[1] == 5, "input of rank {}, rois of rank {}", x.size(),
          rois.size());
  const Dims pooled = n.integers("pooled_shape", {});
  n.check(pooled.size() == 2 && pooled[0] > 0 && pooled[1] > 0, "pooled_shape has {} entries, or one below 1",
          pooled.size());
  const double scale = n.real("spatial_scale", 1);
  const auto edge = [&](int64_t column) {
    return e.unary(OpKind::round_nearest_afz_, e.mul(e.take(n.in(1), 1, column), scale));
  };
  const ValueId rows = places_of_bins(e, edge(2), edge(4), pooled[0], x[2]),
                columns = places_of_bins(e, edge(1), edge(3), pooled[1], x[3]);
  const ValueId batch = e.cast(e.take(n.in(1), 1, 0), ElementType::kI64);
  const ValueId images = e.take_along(n.in(0), batch, 0);  // [regions, channels, height, width]
  const ValueId lowest = e.constant(graph::neutral_element(OpKind::maximum_, n.element(0)));
  // A bin's rows first: [regions, channels, bin, height, width], then its columns.
  const ValueId in_rows = e.select(e.unsqueeze(e.unsqueeze(rows, 1), 4), e.unsqueeze(images, 2), lowest);
  const ValueId by_row = e.reduce(OpKind::maximum_, in_rows, {3}, false);
  const ValueId in_both = e.select(e.unsqueeze(e.unsqueeze(columns, 1), 1), e.unsqueeze(by_row, 3), lowest);
  const ValueId largest = e.reduce(OpKind::maximum_, in_both, {4}, false);
  const auto some = [&](ValueId places) {  // [regions, bins]: one of them is in the image
    return e.reduce(OpKind::or_, places, {2}, false);
  };
  const ValueId any = e.binary(OpKind::and_, e.unsqueeze(e.unsqueeze(some(rows), 1), 3),
                               e.unsqueeze(e.unsqueeze(some(columns), 1), 1));
  n.set(0, e.select(any, largest, e.like(largest, 0)));
}

}  // namespace opentrn::import::onnx
