// Fused multiply-add that is one rounding on every target, and NaN made canonical. Included once per
// Highway target.
#if defined(OPENTRN_NUMERICS_FUSED_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef OPENTRN_NUMERICS_FUSED_INL_H_
#undef OPENTRN_NUMERICS_FUSED_INL_H_
#else
#define OPENTRN_NUMERICS_FUSED_INL_H_
#endif

#include <cmath>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace opentrn::numerics {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// a * b + c with one rounding. Highway's MulAdd rounds twice where the processor has no such
// instruction, so those targets call std::fma, which is slow and exact.
template <class D, class V = hn::Vec<D>>
HWY_ATTR HWY_INLINE V fused(D d, V a, V b, V c) {
#if HWY_NATIVE_FMA
  (void)d;
  return hn::MulAdd(a, b, c);
#else
  using T = hn::TFromD<D>;
  HWY_ALIGN T x[HWY_MAX_BYTES / sizeof(T)], y[HWY_MAX_BYTES / sizeof(T)], z[HWY_MAX_BYTES / sizeof(T)];
  hn::Store(a, d, x);
  hn::Store(b, d, y);
  hn::Store(c, d, z);
  for (size_t i = 0; i < hn::Lanes(d); ++i) x[i] = std::fma(x[i], y[i], z[i]);
  return hn::Load(d, x);
#endif
}

// c - a * b with one rounding.
template <class D, class V = hn::Vec<D>>
HWY_ATTR HWY_INLINE V fused_negative(D d, V a, V b, V c) {
#if HWY_NATIVE_FMA
  (void)d;
  return hn::NegMulAdd(a, b, c);
#else
  return fused(d, hn::Neg(a), b, c);
#endif
}

template <class D, class V = hn::Vec<D>>
HWY_ATTR HWY_INLINE V canonical_nan(D d) {
  return hn::BitCast(d, hn::Set(hn::RebindToUnsigned<D>(), 0x7fc00000u));
}

// Any NaN to the one of arithmetic results.
template <class D, class V = hn::Vec<D>>
HWY_ATTR HWY_INLINE V canonical(D d, V x) {
  return hn::IfThenElse(hn::Eq(x, x), x, canonical_nan(d));
}

}  // namespace HWY_NAMESPACE
}  // namespace opentrn::numerics
HWY_AFTER_NAMESPACE();

#endif  // include guard
