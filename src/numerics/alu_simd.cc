#include "numerics/simd_targets.h"

#include <algorithm>
#include <limits>

#include "numerics/alu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "numerics/alu_simd.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "numerics/alu_simd.h"
#include "numerics/fused-inl.h"

HWY_BEFORE_NAMESPACE();
namespace opentrn::numerics::simd {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using numerics::HWY_NAMESPACE::canonical;

// An operator is a body on vectors of any length and whether a NaN result is made canonical; reductions
// do that once, at the end.
#define OPENTRN_VECTOR_OP(NAME, CANONICAL, EXPRESSION)  \
  struct NAME {                                         \
    static constexpr bool kCanonical = CANONICAL;       \
    template <class D, class V = hn::Vec<D>>            \
    static HWY_ATTR HWY_INLINE V apply(D d, V a, V b) { \
      (void)d, (void)b;                                 \
      return EXPRESSION;                                \
    }                                                   \
  }

template <class D, class M>
HWY_ATTR HWY_INLINE hn::Vec<D> truth(D d, M mask) {
  return hn::IfThenElseZero(mask, hn::Set(d, 1.0f));
}
// Not by Highway's Ne, which is false for NaN on x86.
template <class V>
HWY_ATTR HWY_INLINE auto is_nan(V x) {
  return hn::Not(hn::Eq(x, x));
}
template <class D, class V>
HWY_ATTR HWY_INLINE auto is_true(D d, V x) {
  return hn::Not(hn::Eq(x, hn::Zero(d)));
}

// The remainder of another sign than the divisor, 1, goes up by it; a zero is +0.
template <class D, class V>
HWY_ATTR HWY_INLINE V floored(D d, V rest) {
  const V zero = hn::Zero(d);
  const V up = hn::IfThenElse(hn::Lt(rest, zero), hn::Add(rest, hn::Set(d, 1.0f)), rest);
  return hn::IfThenElse(hn::Eq(rest, zero), zero, up);
}

OPENTRN_VECTOR_OP(Bypass, false, a);
OPENTRN_VECTOR_OP(Add, true, hn::Add(a, b));
OPENTRN_VECTOR_OP(Subtract, true, hn::Sub(a, b));
OPENTRN_VECTOR_OP(ReverseSubtract, true, hn::Sub(b, a));
OPENTRN_VECTOR_OP(Multiply, true, hn::Mul(a, b));
OPENTRN_VECTOR_OP(Divide, true, hn::Div(a, b));
// Not the processors' own maximum: they disagree about NaN and about zeros of unlike sign.
OPENTRN_VECTOR_OP(Maximum, true, hn::IfThenElse(hn::Or(hn::Ge(a, b), is_nan(a)), a, b));
OPENTRN_VECTOR_OP(Minimum, true, hn::IfThenElse(hn::Or(hn::Le(a, b), is_nan(a)), a, b));
OPENTRN_VECTOR_OP(Equal, false, truth(d, hn::Eq(a, b)));
OPENTRN_VECTOR_OP(NotEqual, false, truth(d, hn::Not(hn::Eq(a, b))));
OPENTRN_VECTOR_OP(Greater, false, truth(d, hn::Gt(a, b)));
OPENTRN_VECTOR_OP(GreaterEqual, false, truth(d, hn::Ge(a, b)));
OPENTRN_VECTOR_OP(Less, false, truth(d, hn::Lt(a, b)));
OPENTRN_VECTOR_OP(LessEqual, false, truth(d, hn::Le(a, b)));
OPENTRN_VECTOR_OP(LogicalAnd, false, truth(d, hn::And(is_true(d, a), is_true(d, b))));
OPENTRN_VECTOR_OP(LogicalOr, false, truth(d, hn::Or(is_true(d, a), is_true(d, b))));
OPENTRN_VECTOR_OP(LogicalXor, false, truth(d, hn::Xor(is_true(d, a), is_true(d, b))));
OPENTRN_VECTOR_OP(LogicalNot, false, truth(d, hn::Eq(a, hn::Zero(d))));
OPENTRN_VECTOR_OP(AbsMax, false, hn::IfThenElse(hn::Gt(hn::Abs(a), hn::Abs(b)), a, b));
OPENTRN_VECTOR_OP(AbsMin, false, hn::IfThenElse(hn::Lt(hn::Abs(a), hn::Abs(b)), a, b));
OPENTRN_VECTOR_OP(Average, true, hn::Mul(hn::Add(a, b), hn::Set(d, 0.5f)));
OPENTRN_VECTOR_OP(Abs, true, hn::Abs(a));
OPENTRN_VECTOR_OP(Square, true, hn::Mul(a, a));
OPENTRN_VECTOR_OP(Relu, true, Maximum::apply(d, a, hn::Zero(d)));
OPENTRN_VECTOR_OP(Rsqrt, true, hn::Div(hn::Set(d, 1.0f), hn::Sqrt(a)));
OPENTRN_VECTOR_OP(Reciprocal, true, hn::Div(hn::Set(d, 1.0f), a));
OPENTRN_VECTOR_OP(Negative, true, hn::Neg(a));
OPENTRN_VECTOR_OP(Sqrt, true, hn::Sqrt(a));

// Remainders of division by 1, which b is: x - trunc(x) is exact. Rounding and the sines of large arguments
// take them.
OPENTRN_VECTOR_OP(FmodOne, true, hn::CopySign(hn::Sub(a, hn::Trunc(a)), a));
OPENTRN_VECTOR_OP(ModOne, true, floored(d, hn::Sub(a, hn::Trunc(a))));

#undef OPENTRN_VECTOR_OP

// Calls visitor.run<Op>() for an operator that has a vector form.
template <class Visitor>
HWY_ATTR bool visit(AluOp op, Visitor visitor) {
  switch (op) {
    case AluOp::kBypass: visitor.template run<Bypass>(); return true;
    case AluOp::kAdd: visitor.template run<Add>(); return true;
    case AluOp::kSubtract: visitor.template run<Subtract>(); return true;
    case AluOp::kMultiply: visitor.template run<Multiply>(); return true;
    case AluOp::kDivide: visitor.template run<Divide>(); return true;
    case AluOp::kMaximum: visitor.template run<Maximum>(); return true;
    case AluOp::kMinimum: visitor.template run<Minimum>(); return true;
    case AluOp::kEqual: visitor.template run<Equal>(); return true;
    case AluOp::kNotEqual: visitor.template run<NotEqual>(); return true;
    case AluOp::kGreater: visitor.template run<Greater>(); return true;
    case AluOp::kGreaterEqual: visitor.template run<GreaterEqual>(); return true;
    case AluOp::kLess: visitor.template run<Less>(); return true;
    case AluOp::kLessEqual: visitor.template run<LessEqual>(); return true;
    case AluOp::kLogicalAnd: visitor.template run<LogicalAnd>(); return true;
    case AluOp::kLogicalOr: visitor.template run<LogicalOr>(); return true;
    case AluOp::kLogicalXor: visitor.template run<LogicalXor>(); return true;
    case AluOp::kLogicalNot: visitor.template run<LogicalNot>(); return true;
    case AluOp::kAbsMax: visitor.template run<AbsMax>(); return true;
    case AluOp::kAbsMin: visitor.template run<AbsMin>(); return true;
    case AluOp::kAverage: visitor.template run<Average>(); return true;
    case AluOp::kAbs: visitor.template run<Abs>(); return true;
    case AluOp::kSquare: visitor.template run<Square>(); return true;
    case AluOp::kRelu: visitor.template run<Relu>(); return true;
    case AluOp::kRsqrt: visitor.template run<Rsqrt>(); return true;
    case AluOp::kReciprocal: visitor.template run<Reciprocal>(); return true;
    case AluOp::kNegative: visitor.template run<Negative>(); return true;
    case AluOp::kSqrt: visitor.template run<Sqrt>(); return true;
    default: return false;
  }
}

using DF = hn::ScalableTag<float>;
using D1 = hn::CappedTag<float, 1>;

// What a row has beyond whole vectors, from element i on: step(tag, at) for four elements, then for one. Rows
// of images are short.
template <typename Step>
HWY_ATTR HWY_INLINE void finish_row(size_t i, size_t n, Step&& step) {
  const hn::CappedTag<float, 4> four;
  for (const size_t lanes = hn::Lanes(four); i + lanes <= n; i += lanes) step(four, i);
  for (; i < n; ++i) step(D1(), i);
}

template <class Op, class D, class V>
HWY_ATTR HWY_INLINE V apply_canonical(D d, V a, V b) {
  const V r = Op::apply(d, a, b);
  if constexpr (Op::kCanonical) return canonical(d, r);
  return r;
}

struct TensorTensor {
  FloatRows a;
  FloatRows b;
  MutableFloatRows out;
  size_t rows;
  size_t n;

  template <class Op>
  HWY_ATTR void run() const {
    for (size_t r = 0; r < rows; ++r)
      run_row<Op>(a.data + r * a.pitch, b.data + r * b.pitch, out.data + r * out.pitch, n);
  }

  template <class Op>
  static HWY_ATTR HWY_INLINE void run_row(const float* a, const float* b, float* out, size_t n) {
    const DF d;
    const size_t lanes = hn::Lanes(d);
    size_t i = 0;
    for (; i + lanes <= n; i += lanes) {
      hn::StoreU(apply_canonical<Op>(d, hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d, out + i);
    }
    finish_row(i, n, [&](auto few, size_t at) HWY_ATTR {
      hn::StoreU(apply_canonical<Op>(few, hn::LoadU(few, a + at), hn::LoadU(few, b + at)), few, out + at);
    });
  }
};

template <bool kReverse>
struct TensorScalar {
  FloatRows a;
  RowScalars scalars;
  MutableFloatRows out;
  size_t rows;
  size_t n;

  template <class Op, class D>
  static HWY_ATTR HWY_INLINE hn::Vec<D> ordered(D d, hn::Vec<D> a, hn::Vec<D> s) {
    return kReverse ? apply_canonical<Op>(d, s, a) : apply_canonical<Op>(d, a, s);
  }

  template <class Op>
  HWY_ATTR void run() const {
    for (size_t r = 0; r < rows; ++r)
      run_row<Op>(a.data + r * a.pitch, scalars.data[r * scalars.step], out.data + r * out.pitch, n);
  }

  template <class Op>
  static HWY_ATTR HWY_INLINE void run_row(const float* a, float scalar, float* out, size_t n) {
    const DF d;
    const size_t lanes = hn::Lanes(d);
    const auto s = hn::Set(d, scalar);
    size_t i = 0;
    for (; i + lanes <= n; i += lanes) hn::StoreU(ordered<Op>(d, hn::LoadU(d, a + i), s), d, out + i);
    finish_row(i, n, [&](auto few, size_t at) HWY_ATTR {
      hn::StoreU(ordered<Op>(few, hn::LoadU(few, a + at), hn::Set(few, scalar)), few, out + at);
    });
  }
};

// Both operators on a vector while it is in a register. A NaN between them stays one, and which it is the
// last step forgets.
template <class Op0, class Op1, class D, class V>
HWY_ATTR HWY_INLINE V both(D d, V a, V scalar, V b) {
  return canonical(d, Op1::apply(d, Op0::apply(d, a, scalar), b));
}

template <class Op0, class Op1>
HWY_ATTR void scalar_tensor_tensor_rows(const ScalarTensorTensorRows& t) {
  const DF d;
  const size_t lanes = hn::Lanes(d);
  for (size_t r = 0; r < t.rows; ++r) {
    const float* const a = t.a.data + r * t.a.pitch;
    const float* const b = t.b.data + r * t.b.pitch;
    float* const out = t.out.data + r * t.out.pitch;
    const float scalar = t.scalars.data[r * t.scalars.step];
    const auto s = hn::Set(d, scalar);
    size_t i = 0;
    for (; i + lanes <= t.n; i += lanes)
      hn::StoreU(both<Op0, Op1>(d, hn::LoadU(d, a + i), s, hn::LoadU(d, b + i)), d, out + i);
    finish_row(i, t.n, [&](auto few, size_t at) HWY_ATTR {
      const auto made =
          both<Op0, Op1>(few, hn::LoadU(few, a + at), hn::Set(few, scalar), hn::LoadU(few, b + at));
      hn::StoreU(made, few, out + at);
    });
  }
}

// Sums and products are the same either way round.
template <class Op0>
HWY_ATTR bool scalar_tensor_tensor_rows(AluOp op1, bool reverse1, const ScalarTensorTensorRows& rows) {
  switch (op1) {
    case AluOp::kAdd: scalar_tensor_tensor_rows<Op0, Add>(rows); return true;
    case AluOp::kMultiply: scalar_tensor_tensor_rows<Op0, Multiply>(rows); return true;
    case AluOp::kSubtract:
      if (reverse1)
        scalar_tensor_tensor_rows<Op0, ReverseSubtract>(rows);
      else
        scalar_tensor_tensor_rows<Op0, Subtract>(rows);
      return true;
    default: return false;
  }
}

HWY_ATTR bool ScalarTensorTensorSimd(TwoOps ops, const ScalarTensorTensorRows& rows) {
  switch (ops.op0) {
    case AluOp::kAdd: return scalar_tensor_tensor_rows<Add>(ops.op1, ops.reverse1, rows);
    case AluOp::kMultiply: return scalar_tensor_tensor_rows<Multiply>(ops.op1, ops.reverse1, rows);
    case AluOp::kSubtract:
      return ops.reverse0 ? scalar_tensor_tensor_rows<ReverseSubtract>(ops.op1, ops.reverse1, rows)
                          : scalar_tensor_tensor_rows<Subtract>(ops.op1, ops.reverse1, rows);
    case AluOp::kMaximum:
      return !ops.reverse0 && scalar_tensor_tensor_rows<Maximum>(ops.op1, ops.reverse1, rows);
    case AluOp::kMinimum:
      return !ops.reverse0 && scalar_tensor_tensor_rows<Minimum>(ops.op1, ops.reverse1, rows);
    default: return false;
  }
}

struct Reduce {
  FloatRows rows_of;
  size_t rows;
  size_t n;
  float* out;

  template <class Op>
  static HWY_ATTR HWY_INLINE float combine(float x, float y) {
    const D1 one;
    return hn::GetLane(Op::apply(one, hn::Set(one, x), hn::Set(one, y)));
  }

  template <class Op>
  HWY_ATTR void run() const {
    for (size_t r = 0; r < rows; ++r) {
      const float* const row = rows_of.data + r * rows_of.pitch;
      out[r] = n < kReduceLanes ? short_row<Op>(row) : full_row<Op>(row);
    }
  }

  // Fewer elements than lanes: those that got none do not take part.
  template <class Op>
  HWY_ATTR HWY_INLINE float short_row(const float* a) const {
    HWY_ALIGN float p[kReduceLanes] = {};
    std::copy_n(a, n, p);
    size_t count = n;
    for (size_t w = kReduceLanes / 2; w > 0; w /= 2) {
      for (size_t j = 0; j < w && j + w < count; ++j) p[j] = combine<Op>(p[j], p[j + w]);
      count = std::min(count, w);
    }
    return p[0];
  }

  template <class Op>
  HWY_ATTR HWY_INLINE float full_row(const float* a) const {
    HWY_ALIGN float p[kReduceLanes];
    fill_lanes<Op>(a, p);
    return halve<Op, kReduceLanes / 2>(p);
  }

  // p[j] = p[j] op p[j + w] for j < w, and on with half as many: whole vectors as long as they are that wide.
  template <class Op, size_t w>
  static HWY_ATTR HWY_INLINE float halve(float* HWY_RESTRICT p) {
    const hn::CappedTag<float, w> d;
    const size_t lanes = hn::Lanes(d);
    for (size_t j = 0; j < w; j += lanes)
      hn::Store(Op::apply(d, hn::Load(d, p + j), hn::LoadU(d, p + w + j)), d, p + j);
    if constexpr (w > 1) return halve<Op, w / 2>(p);
    return p[0];
  }

  // The lanes of n >= kReduceLanes elements.
  template <class Op>
  HWY_ATTR HWY_INLINE void fill_lanes(const float* a, float* HWY_RESTRICT p) const {
    const DF d;
    constexpr size_t kMaxVectors = HWY_TARGET == HWY_SCALAR ? kReduceLanes : kReduceLanes / 4;
    const size_t lanes = hn::Lanes(d);
    const size_t vectors = kReduceLanes / lanes;
    hn::Vec<DF> sum[kMaxVectors];
    for (size_t v = 0; v < vectors; ++v) sum[v] = hn::LoadU(d, a + v * lanes);
    size_t i = kReduceLanes;
    for (; i + kReduceLanes <= n; i += kReduceLanes) {
      for (size_t v = 0; v < vectors; ++v) sum[v] = Op::apply(d, sum[v], hn::LoadU(d, a + i + v * lanes));
    }
    for (size_t v = 0; v < vectors; ++v) hn::Store(sum[v], d, p + v * lanes);
    // The lanes of the rest lie in memory: a loop over `sum` of as many steps as there are would put it
    // there.
    const size_t first = i;
    const auto step = [&](auto few, size_t at) HWY_ATTR {
      float* const lane = p + (at - first);
      hn::StoreU(Op::apply(few, hn::LoadU(few, lane), hn::LoadU(few, a + at)), few, lane);
    };
    for (; i + lanes <= n; i += lanes) step(d, i);
    finish_row(i, n, step);
  }
};

#if HWY_TARGET != HWY_SCALAR && !HWY_HAVE_SCALABLE
constexpr size_t kBlock = 4;  // floats of a 128-bit block

// Blocks of kBlock floats from rows 0, kBlock, 2 kBlock, ... as one vector.
template <class D>
HWY_ATTR HWY_INLINE hn::Vec<D> load_blocks(D d, const float* at, size_t pitch) {
  if constexpr (hn::MaxLanes(D()) == kBlock) {
    return hn::LoadU(d, at);
  } else {
    const hn::Half<D> half;
    const size_t rows = hn::Lanes(half);
    return hn::Combine(d, load_blocks(half, at + rows * pitch, pitch), load_blocks(half, at, pitch));
  }
}

template <class D>
HWY_ATTR HWY_INLINE void store_blocks(D d, hn::Vec<D> v, float* at, size_t pitch) {
  if constexpr (hn::MaxLanes(D()) == kBlock) {
    hn::StoreU(v, d, at);
  } else {
    const hn::Half<D> half;
    const size_t rows = hn::Lanes(half);
    store_blocks(half, hn::LowerHalf(half, v), at, pitch);
    store_blocks(half, hn::UpperHalf(half, v), at + rows * pitch, pitch);
  }
}

// Turns the 4 x 4 floats that four vectors hold in each of their blocks.
template <class D, class V = hn::Vec<D>>
HWY_ATTR HWY_INLINE void turn_in_blocks(D d, V (&v)[kBlock]) {
  for (int step = 0; step < 2; ++step) {
    const V a = hn::InterleaveLower(d, v[0], v[2]), b = hn::InterleaveUpper(d, v[0], v[2]);
    const V c = hn::InterleaveLower(d, v[1], v[3]), e = hn::InterleaveUpper(d, v[1], v[3]);
    v[0] = a, v[1] = b, v[2] = c, v[3] = e;
  }
}

// Lanes(DF) rows at a time, one per lane: a step waits for the one before it, so a single row leaves the
// processor idle. Four columns are loaded, turned so that a vector holds one column, and turned back.
template <class Op0, class Op1>
HWY_ATTR void scan_panel(const ScanRows& s, float* HWY_RESTRICT carried) {
  const DF d;
  hn::Vec<DF> r = hn::Load(d, carried);
  size_t i = 0;
  for (; i + kBlock <= s.n; i += kBlock) {
    hn::Vec<DF> x[kBlock], y[kBlock];
    for (size_t j = 0; j < kBlock; ++j) x[j] = load_blocks(d, s.d0 + j * s.d0_pitch + i, s.d0_pitch);
    for (size_t j = 0; j < kBlock; ++j) y[j] = load_blocks(d, s.d1 + j * s.d1_pitch + i, s.d1_pitch);
    turn_in_blocks(d, x);
    turn_in_blocks(d, y);
    for (size_t j = 0; j < kBlock; ++j) x[j] = r = Op1::apply(d, Op0::apply(d, x[j], r), y[j]);
    for (size_t j = 0; j < kBlock; ++j) x[j] = canonical(d, x[j]);
    turn_in_blocks(d, x);
    for (size_t j = 0; j < kBlock; ++j) store_blocks(d, x[j], s.out + j * s.out_pitch + i, s.out_pitch);
  }
  hn::Store(r, d, carried);
  const D1 one;
  for (size_t p = 0; p < hn::Lanes(d) && i < s.n; ++p) {
    auto v = hn::Set(one, carried[p]);
    for (size_t k = i; k < s.n; ++k) {
      const auto a = hn::LoadU(one, s.d0 + p * s.d0_pitch + k), b = hn::LoadU(one, s.d1 + p * s.d1_pitch + k);
      v = Op1::apply(one, Op0::apply(one, a, v), b);
      hn::StoreU(canonical(one, v), one, s.out + p * s.out_pitch + k);
    }
  }
}

constexpr size_t kMaxLanes = HWY_MAX_BYTES / sizeof(float);
constexpr size_t kPanelColumns = 128;
constexpr size_t kPanelPitch = kPanelColumns + 16;  // rows of a panel start in different cache sets

HWY_ATTR HWY_INLINE void copy_rows(const float* from, size_t from_pitch, size_t rows, size_t columns,
                                   float* to, size_t to_pitch) {
  for (size_t p = 0; p < rows; ++p) std::copy_n(from + p * from_pitch, columns, to + p * to_pitch);
}

// Whether the rows of a group lie in different sets of the first-level cache: 64 lines, 16 rows.
HWY_ATTR HWY_INLINE bool spreads_over_sets(size_t pitch) {
  constexpr size_t kLine = 16;  // floats
  return pitch / kLine % 8 != 0;
}

// Operands whose rows are a power of two apart go through panels: their lines would fall into one set of the
// first-level cache and leave it before all their columns are used.
template <class Op0, class Op1>
HWY_ATTR void scan_row_group(const ScanRows& s) {
  const DF d;
  const size_t lanes = hn::Lanes(d);
  HWY_ALIGN float carried[kMaxLanes];
  HWY_ALIGN float x[kMaxLanes * kPanelPitch], y[kMaxLanes * kPanelPitch];
  hn::Store(hn::LoadU(d, s.initial), d, carried);
  const bool spread0 = spreads_over_sets(s.d0_pitch), spread1 = spreads_over_sets(s.d1_pitch);
  const bool spread_out = spreads_over_sets(s.out_pitch);
  const size_t columns = spread0 && spread1 && spread_out ? s.n : kPanelColumns;
  for (size_t i = 0; i < s.n; i += columns) {
    const size_t n = std::min(columns, s.n - i);
    ScanRows part{lanes, n, s.d0 + i, s.d0_pitch, s.d1 + i, s.d1_pitch, nullptr, s.out + i, s.out_pitch};
    if (!spread0) {
      copy_rows(part.d0, part.d0_pitch, lanes, n, x, kPanelPitch);
      part.d0 = x, part.d0_pitch = kPanelPitch;
    }
    if (!spread1) {
      copy_rows(part.d1, part.d1_pitch, lanes, n, y, kPanelPitch);
      part.d1 = y, part.d1_pitch = kPanelPitch;
    }
    if (!spread_out) part.out = x, part.out_pitch = kPanelPitch;
    scan_panel<Op0, Op1>(part, carried);
    if (!spread_out) copy_rows(x, kPanelPitch, lanes, n, s.out + i, s.out_pitch);
  }
}

template <class Op0>
HWY_ATTR bool scan_row_group(AluOp op1, const ScanRows& s) {
  switch (op1) {
    case AluOp::kAdd: scan_row_group<Op0, Add>(s); return true;
    case AluOp::kSubtract: scan_row_group<Op0, Subtract>(s); return true;
    case AluOp::kMultiply: scan_row_group<Op0, Multiply>(s); return true;
    case AluOp::kMaximum: scan_row_group<Op0, Maximum>(s); return true;
    case AluOp::kMinimum: scan_row_group<Op0, Minimum>(s); return true;
    default: return false;
  }
}

HWY_ATTR size_t ScanRowsSimd(AluOp op0, AluOp op1, const ScanRows& s) {
  const size_t lanes = hn::Lanes(DF());
  if (s.rows < lanes) return 0;
  bool done = false;
  switch (op0) {
    case AluOp::kAdd: done = scan_row_group<Add>(op1, s); break;
    case AluOp::kMultiply: done = scan_row_group<Multiply>(op1, s); break;
    case AluOp::kMaximum: done = scan_row_group<Maximum>(op1, s); break;
    case AluOp::kMinimum: done = scan_row_group<Minimum>(op1, s); break;
    default: break;
  }
  return done ? lanes : 0;
}
#else
HWY_ATTR size_t ScanRowsSimd(AluOp, AluOp, const ScanRows&) { return 0; }
#endif

HWY_ATTR bool TensorTensorSimd(AluOp op, FloatRows a, FloatRows b, MutableFloatRows out, size_t rows,
                               size_t n) {
  return visit(op, TensorTensor{a, b, out, rows, n});
}
HWY_ATTR bool TensorScalarSimd(AluOp op, FloatRows a, RowScalars scalars, bool reverse, MutableFloatRows out,
                               size_t rows, size_t n) {
  if (reverse) return visit(op, TensorScalar<true>{a, scalars, out, rows, n});
  const TensorScalar<false> visitor{a, scalars, out, rows, n};
  if ((op == AluOp::kFmod || op == AluOp::kMod) && scalars.step == 0 && scalars.data[0] == 1.0f) {
    if (op == AluOp::kFmod)
      visitor.run<FmodOne>();
    else
      visitor.run<ModOne>();
    return true;
  }
  return visit(op, visitor);
}
HWY_ATTR bool ReduceRowsSimd(AluOp op, FloatRows a, size_t rows, size_t n, float* out) {
  return visit(op, Reduce{a, rows, n, out});
}

}  // namespace HWY_NAMESPACE
}  // namespace opentrn::numerics::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace opentrn::numerics::simd {

HWY_EXPORT(TensorTensorSimd);
HWY_EXPORT(TensorScalarSimd);
HWY_EXPORT(ScalarTensorTensorSimd);
HWY_EXPORT(ReduceRowsSimd);
HWY_EXPORT(ScanRowsSimd);

bool tensor_tensor(AluOp op, FloatRows a, FloatRows b, MutableFloatRows out, size_t rows, size_t n) {
  return HWY_DYNAMIC_DISPATCH(TensorTensorSimd)(op, a, b, out, rows, n);
}
bool tensor_scalar(AluOp op, FloatRows a, RowScalars scalars, bool reverse, MutableFloatRows out, size_t rows,
                   size_t n) {
  return HWY_DYNAMIC_DISPATCH(TensorScalarSimd)(op, a, scalars, reverse, out, rows, n);
}
bool scalar_tensor_tensor(TwoOps ops, const ScalarTensorTensorRows& rows) {
  return HWY_DYNAMIC_DISPATCH(ScalarTensorTensorSimd)(ops, rows);
}
bool reduce_rows(AluOp op, FloatRows a, size_t rows, size_t n, float* out) {
  return HWY_DYNAMIC_DISPATCH(ReduceRowsSimd)(op, a, rows, n, out);
}
size_t scan_rows(AluOp op0, AluOp op1, const ScanRows& rows) {
  return HWY_DYNAMIC_DISPATCH(ScanRowsSimd)(op0, op1, rows);
}

}  // namespace opentrn::numerics::simd
#endif  // HWY_ONCE
