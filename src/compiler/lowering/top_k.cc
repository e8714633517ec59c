// chlo.top_k of floats: rounds of max8, nc_find_index8 and nc_match_replace8, eight elements of each of 128
// rows a round.
//
// The order is the total one: NaN, inf, ..., +0, -0, ..., -inf, -NaN, and of equal elements the first comes
// first. The instructions compare fp32 numbers, which have no room for all of these: both zeros are equal,
// and nothing is told from NaN. So a row is searched twice, each time with the other part replaced by what
// lies below everything:
//
//   others     every number but +0 and -inf; below them -inf
//   specials   NaN 4, +0 3, -inf 2, -NaN 1; below them 0
//
// Both lists are in order, the first positions of equal ones first. The place of an entry in the result is
// its place in its list and how many of the other list lie above it. NaNs come out as the quiet ones of their
// sign.
#include <algorithm>
#include <limits>

#include "compiler/analysis/device_type.h"
#include "compiler/analysis/graph_names.h"
#include "compiler/lowering/lowering.h"
#include "compiler/lowering/matrix.h"
#include "compiler/lowering/takes.h"

namespace opentrn::compiler {

namespace {

constexpr int64_t kRound = 8;
constexpr double kNan = 4, kPlusZero = 3, kMinusInfinity = 2, kMinusNan = 1;
// Beyond every place that is wanted.
constexpr double kNowhere = 4096;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

class TopK {
 public:
  TopK(Lowering& lowering, const Op& op)
      : lowering_(lowering),
        emitter_(lowering.emitter()),
        wanted_(op.integer(Attr::k)),
        entries_((wanted_ + kRound - 1) / kRound * kRound) {
    const View view = lowering.view(op.operands[0]);
    const int rows = static_cast<int>(view.dims.size()) - 1;
    data_ = Matrix(view, rows);
    values_ = Matrix(lowering.allocate(op.results[0]), rows);
    places_ = Matrix(lowering.allocate(op.results[1]), rows);
  }

  void run() {
    for (int64_t row = 0; row < data_.rows(); row += kPartitions) {
      rows_ = std::min(kPartitions, data_.rows() - row);
      const Tile x = in_fp32(data_.fetch(emitter_, row, rows_, 0, data_.columns(), "top_k"));
      search(x);
      rank();
      const Tile mask = choose();
      const Tile value = picked(mask, bits_).as(DType::kFloat32);
      places_.store(emitter_, picked(mask, index_.as(DType::kInt32)), row, 0);
      if (values_.dtype() == DType::kFloat32) {
        values_.store(emitter_, value, row, 0);
        continue;
      }
      const Tile narrow = emitter_.sbuf(rows_, wanted_, values_.dtype(), "top_k");
      emitter_.tensor_copy(narrow, value);
      values_.store(emitter_, narrow, row, 0);
    }
  }

 private:
  Tile fresh(int64_t columns, DType dtype = DType::kFloat32) {
    return emitter_.sbuf(rows_, columns, dtype, "top_k");
  }
  Tile in_fp32(const Tile& tile) {
    if (tile.dtype == DType::kFloat32) return tile;
    const Tile wide = fresh(tile.columns);
    emitter_.tensor_copy(wide, tile);
    return wide;
  }
  // (data op0 a) op1 b
  Tile scalar(const Tile& data, AluOp op0, const Scalar& a, AluOp op1, const Scalar& b) {
    const Tile dst = fresh(data.columns);
    emitter_.tensor_scalar(op0, a, op1, b, dst, data);
    return dst;
  }
  Tile scalar(const Tile& data, AluOp op, double number, DType dtype = DType::kFloat32) {
    const Tile dst = fresh(data.columns, dtype);
    emitter_.tensor_scalar(op, dst, data, number);
    return dst;
  }
  Tile added(const Tile& a, const Tile& b) {
    const Tile dst = fresh(a.columns);
    emitter_.tensor_tensor(AluOp::kAdd, dst, a, b);
    return dst;
  }
  // data * factor + other
  Tile scaled_and_added(const Tile& data, const Tile& factor, const Tile& other) {
    const Tile dst = fresh(data.columns);
    emitter_.scalar_tensor_tensor(AluOp::kMultiply, factor, AluOp::kAdd, dst, data, other);
    return dst;
  }
  Tile count(const Tile& truth) {
    const Tile dst = fresh(1);
    emitter_.reduce(AluOp::kAdd, dst, truth);
    return dst;
  }
  // 0, 1, 2, ... in every row.
  Tile counted(int64_t columns) {
    const Tile tile = fresh(columns);
    Matrix(lowering_.counted(columns), {{0, rows_}}, {{1, columns}}).load(emitter_, tile, 0, 0);
    return tile;
  }
  Tile same_bits(int64_t columns, uint32_t bits) {
    const Tile one = fresh(1, DType::kUint32);
    emitter_.memset(one, static_cast<double>(bits));
    return columns > 1 ? one.repeated(columns) : one;
  }

  // The class of each element, 0 for what is not special.
  Tile classes_of(const Tile& x) {
    const Tile bits = x.as(DType::kInt32);
    const Tile zero = scalar(bits, AluOp::kEqual, 0.0, AluOp::kMultiply, kPlusZero);
    const Tile infinity = scalar(x, AluOp::kEqual, -kInfinity, AluOp::kMultiply, kMinusInfinity);
    const Tile is_nan = fresh(x.columns), nan = fresh(x.columns);
    emitter_.tensor_tensor(AluOp::kNotEqual, is_nan, x, x);
    const Tile sign = scalar(bits, AluOp::kGreaterEqual, 0.0, AluOp::kMultiply, kNan - kMinusNan);
    emitter_.scalar_tensor_tensor(AluOp::kAdd, kMinusNan, AluOp::kMultiply, nan, sign, is_nan);
    return added(added(zero, infinity), nan);
  }

  // Both lists: bits_ and index_ hold the others first.
  void search(const Tile& x) {
    const Tile classes = classes_of(x);
    const Tile is_special = scalar(classes, AluOp::kGreater, 0.0, DType::kUint8);
    const Tile others = fresh(x.columns), below = fresh(1);
    emitter_.memset(below, -kInfinity);
    emitter_.tensor_copy(others, x);
    emitter_.copy_where(others, below.repeated(x.columns), is_special);
    bits_ = fresh(2 * entries_, DType::kInt32);
    index_ = fresh(2 * entries_, DType::kUint32);
    others_ = bits_.as(DType::kFloat32).column_range(0, entries_);
    class_ = fresh(entries_);
    take(others, -kInfinity, others_, index_.column_range(0, entries_));
    take(classes, 0.0, class_, index_.column_range(entries_, entries_));
    const Tile values = bits_.as(DType::kUint32).column_range(entries_, entries_);
    emitter_.memset(values, 0.0);
    for (const auto& [number, bits] : {std::pair(kNan, 0x7FC00000u), std::pair(kMinusInfinity, 0xFF800000u),
                                       std::pair(kMinusNan, 0xFFC00000u)})
      emitter_.copy_where(values, same_bits(entries_, bits),
                          scalar(class_, AluOp::kEqual, number, DType::kUint8));
  }

  void take(Tile row, double below, const Tile& values, const Tile& index) {
    for (int64_t at = 0; at < entries_; at += kRound) {
      const Tile best = values.column_range(at, kRound);
      emitter_.max8(best, row);
      emitter_.find_index8(index.column_range(at, kRound), row, best);
      if (at + kRound == entries_) break;
      const Tile rest = fresh(row.columns);
      emitter_.match_replace8(rest, row, best, below);
      row = rest;
    }
  }

  // The place in the result of every entry of both lists.
  void rank() {
    const Tile place = counted(entries_);
    const Tile nans = count(scalar(class_, AluOp::kEqual, kNan)),
               zero = scalar(class_, AluOp::kEqual, kPlusZero), zeros = count(zero);
    const Tile positive = scalar(others_, AluOp::kGreater, 0.0),
               valid = scalar(others_, AluOp::kGreater, -kInfinity);
    const Tile positives = count(positive), valids = count(valid);
    rank_ = fresh(2 * entries_);
    // Zeros lie above the negative ones of the others.
    const Tile negative = scalar(positive, AluOp::kMultiply, -1.0, AluOp::kAdd, 1.0);
    const Tile away = scalar(valid, AluOp::kMultiply, -kNowhere, AluOp::kAdd, kNowhere);
    emitter_.scalar_tensor_tensor(AluOp::kAdd, nans, AluOp::kAdd, rank_.column_range(0, entries_),
                                  scaled_and_added(negative, zeros, place), away);
    const Tile low = scalar(class_, AluOp::kLess, kPlusZero);
    const Tile none = scalar(class_, AluOp::kEqual, 0.0, AluOp::kMultiply, kNowhere);
    const Tile above = scaled_and_added(low, valids, scaled_and_added(zero, positives, place));
    emitter_.tensor_tensor(AluOp::kAdd, rank_.column_range(entries_, entries_), above, none);
  }

  // All ones where entry e of both lists is the r-th of the result: [r, e].
  Tile choose() {
    const int64_t all = 2 * entries_;
    const Tile is_it = fresh(wanted_ * all, DType::kInt32), mask = fresh(wanted_ * all, DType::kInt32);
    emitter_.tensor_tensor(AluOp::kEqual, is_it.patch(0, wanted_, all, all, 1),
                           rank_.patch(0, wanted_, 0, all, 1), counted(wanted_).patch(0, wanted_, 1, all, 0));
    emitter_.tensor_scalar(AluOp::kLeftShift, 31.0, AluOp::kArithmeticRightShift, 31.0, mask, is_it);
    return mask;
  }

  Tile picked(const Tile& mask, const Tile& entries) {
    const int64_t all = 2 * entries_;
    const Tile chosen = fresh(wanted_ * all, DType::kInt32), dst = fresh(wanted_, DType::kInt32);
    emitter_.tensor_tensor(AluOp::kBitwiseAnd, chosen.patch(0, wanted_, all, all, 1),
                           mask.patch(0, wanted_, all, all, 1), entries.patch(0, wanted_, 0, all, 1));
    emitter_.reduce(AluOp::kBitwiseOr, dst, chosen.patch(0, wanted_, all, all, 1));
    return dst;
  }

  Lowering& lowering_;
  Emitter& emitter_;
  int64_t wanted_, entries_;  // of the result, and of each list
  Matrix data_, values_, places_;
  int64_t rows_ = 0;
  Tile others_, class_, bits_, index_, rank_;  // of a tile of rows
};

}  // namespace

bool has_top_k(const Function& function, const Op& op) {
  if (op.kind != OpKind::chlo_top_k_) return false;
  const graph::Type& type = function.type(op.operands[0]);
  if (!type.is_tensor() || !type.is_static() || type.quantization() || type.rank() == 0 ||
      type.element_count() == 0 || !graph::is_float(type.element()) ||
      graph::bit_width(type.element()) > 32 || !device_dtype(type.element()))
    return false;
  const int64_t length = type.dim(type.rank() - 1), k = op.integer(Attr::k);
  return length >= kRound && length <= kTopKColumns && k >= 1 && k <= kTopKMost;
}

bool lower_top_k(Lowering& lowering, const Op& op) {
  if (!has_top_k(lowering.function(), op)) return false;
  TopK(lowering, op).run();
  return true;
}

}  // namespace opentrn::compiler
