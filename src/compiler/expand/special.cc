// Special functions, by polynomials on ranges and asymptotic series beyond. Coefficients are our own fits:
// Chebyshev interpolation of mpmath's values (40 digits), written in powers; each comment gives the largest
// relative error of the fit. tests/compiler/test_special_functions.py states the largest errors in fp32.
#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include "compiler/analysis/graph_names.h"
#include "compiler/expand/expand.h"

namespace opentrn::compiler {

namespace {

constexpr double kPi = std::numbers::pi;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
// From here Stirling's series has fp32's precision in three terms.
constexpr double kAsymptotic = 8.0;

// ln gamma(2 + u) / (u (u + 1)), -1 <= u <= 1; 5.5e-9
constexpr double kLogGammaNear[] = {0.422784336,    -0.100317273,   0.0329649469,   -0.0123849751,
                                    0.00499948051,  -0.00210206158, 0.000910506309, -0.00042557137,
                                    0.000195799474, -5.2419442e-05, 2.02493768e-05, -3.87342096e-05,
                                    1.93087505e-05};
// ln gamma(x) / (x - 2), x = 5.5 + 2.5 v, -1 <= v <= 1; 5.3e-9
constexpr double kLogGammaMiddle[] = {1.13080399,      0.343063676,    -0.0670614061,   0.0184301367,
                                      -0.00586545643,  0.00202838124,  -0.000749949906, 0.000286186022,
                                      -9.29180294e-05, 3.48838963e-05, -3.05562751e-05, 1.32582094e-05};
// psi(2 + u) / (2 + u - root), -1 <= u <= 1; 1.0e-8
constexpr double kDigammaNear[] = {0.785307546,    -0.260738984,    0.108999221,    -0.0495499775,
                                   0.0234581562,   -0.011349513,    0.00548954812,  -0.00268882738,
                                   0.00152776038,  -0.000792434075, 0.000109002672, -2.82649632e-05,
                                   0.000221999088, -0.000118893571};
// psi(x), x = 5.5 + 2.5 v; 1.0e-7
constexpr double kDigammaMiddle[] = {1.61109316,      0.498356705,    -0.123779085,   0.0408465196,
                                     -0.0151151637,   0.00603394045,  -0.00248806572, 0.000854231135,
                                     -0.000341388808, 0.000337099121, -0.000156536541};
// The positive root of psi: an fp32 number and the rest.
constexpr double kDigammaRoot = 1.4616321325302124, kDigammaRootRest = 1.2438149938918909e-08;
// I1(x) / x, x^2 = 8 + 8 v; 1.7e-10
constexpr double kBesselNear[] = {1.19741655,    0.92875889,     0.268657662,    0.0409286373,
                                  0.00384762606, 0.000245223921, 1.13063239e-05, 3.92892854e-07};
// sqrt(x) e^-x I1(x), 1/x = (1 + v) / 8; 1.0e-8
constexpr double kBesselFar[] = {0.379412267,     -0.0204864303,   -0.00112575723, -0.000235738476,
                                 -9.38784862e-05, -1.33632027e-05, 3.77403408e-05, 2.07870547e-05,
                                 -1.01555917e-05, -5.55848765e-06, 1.76383038e-06};
// (1 + 2 x) e^(x^2) erfc(x), (x - 4) / (x + 4) = v; 2.7e-9
constexpr double kErfc[] = {1.23299512,      -0.139621087,    0.0153797684,  0.0680961767,  -0.101040936,
                            0.0937401951,    -0.0663190707,   0.0371404819,  -0.0162303362, 0.00508224765,
                            -0.000709184346, -0.000248429258, 0.000114225614};
// M. Giles, "Approximating the erfinv function" (GPU Computing Gems, 2011), single precision: in w - 2.5 and
// sqrt(w) - 3 with w = -ln(1 - x^2).
constexpr double kErfInvNear[] = {1.50140941,     0.246640727,    -0.00417768164,
                                  -0.00125372503, 0.00021858087,  -4.39150654e-06,
                                  -3.5233877e-06, 3.43273939e-07, 2.81022636e-08};
constexpr double kErfInvFar[] = {2.83297682,     1.00167406,    0.00943887047,  -0.0076224613,  0.00573950773,
                                 -0.00367342844, 0.00134934322, 0.000100950558, -0.000200214257};

// The distance of x from the nearest whole number; exact.
Expr off_whole(const Expr& x) { return x - nearest(x); }

// Shared by ln gamma and psi: 0 < a < 1 becomes a + 1 in the middle range of [1, 3], of which only the
// distance from 2 is needed, and that is exact.
Expr from_two(const Expr& a) { return select(a < 1.0, a - 1.0, a - 2.0); }

Expr middle(const Expr& a) { return (a - 5.5) * 0.4; }

// For a > 0.
struct LogGamma {
  Expr value;
  Expr of_one_more;  // ln gamma(1 + a), where a < 1
};

LogGamma log_gamma_of_positive(const Expr& a) {
  const Expr u = from_two(a);
  const Expr near = u * select(a < 1.0, a, a - 1.0) * polynomial(u, kLogGammaNear);
  const Expr mid = (a - 2.0) * polynomial(middle(a), kLogGammaMiddle);
  const Expr r = 1.0 / a;
  const Expr square = r * r;
  const Expr series = r * ((square * (1.0 / 1260) - 1.0 / 360) * square + 1.0 / 12);
  const double half_log = 0.5 * std::log(2 * kPi) - 0.5;
  const Expr far = (a - 0.5) * (log(a) - 1.0) + (series + half_log);
  Expr value = select(a < 3.0, near, select(a < kAsymptotic, mid, far));
  value = select(a < 1.0, near - log(a), value);
  return {select(a == kInfinity, a, value), near};
}

// gamma(x) gamma(-x) = -pi / (x sin(pi x))
Expr log_gamma(const Expr& x) {
  const Expr a = abs(x);
  const LogGamma positive = log_gamma_of_positive(a);
  const Expr sine = abs(sin(off_whole(a) * kPi));
  const Expr pole = log(kPi / sine);
  const Expr negative = select(a < 1.0, pole - positive.of_one_more, pole - log(a) - positive.value);
  const Expr value = select(x > 0.0, positive.value, negative);
  // Whole numbers up to zero are poles; so are all numbers of this size.
  const Expr at_pole = (x <= 0.0) & (off_whole(a) == 0.0);
  return select(is_nan(x), x, select(at_pole | (a == kInfinity), x.number(kInfinity), value));
}

Expr digamma_of_positive(const Expr& a) {
  const Expr u = from_two(a);
  // z - root with z = 2 + u: z is a, or a + 1 rounded, which is right where it is far from the root.
  const Expr z = select(a < 1.0, a + 1.0, a);
  const Expr near = ((z - kDigammaRoot) - kDigammaRootRest) * polynomial(u, kDigammaNear);
  const Expr mid = polynomial(middle(a), kDigammaMiddle);
  const Expr r = 1.0 / a;
  const Expr square = r * r;
  const Expr series = ((square * (1.0 / 252) - 1.0 / 120) * square + 1.0 / 12) * square;
  const Expr far = log(a) - (r * 0.5 + series);
  const Expr value = select(a < 3.0, near, select(a < kAsymptotic, mid, far));
  return select(a < 1.0, near - r, value);
}

// psi(-a) = psi(a) + 1/a + pi / tan(pi a)
Expr digamma(const Expr& x) {
  const Expr a = abs(x);
  const Expr positive = digamma_of_positive(a);
  const Expr angle = off_whole(a) * kPi;
  const Expr negative = positive + 1.0 / a + cos(angle) * kPi / sin(angle);
  const Expr value = select(x > 0.0, positive, negative);
  const Expr at_pole = (x <= 0.0) & (off_whole(a) == 0.0);
  return select(at_pole | is_nan(x) | (x == -kInfinity), x.number(kNan), value);
}

Expr bessel_i1e(const Expr& x) {
  const Expr a = abs(x);
  const Expr near = polynomial(a * a * 0.125 - 1.0, kBesselNear) * a * exp(-a);
  const Expr far = polynomial(8.0 / a - 1.0, kBesselFar) / sqrt(a);
  const Expr size = select(a < 4.0, near, select(a == kInfinity, x.number(0), far));
  return select(is_negative(x), -size, size);
}

// e^(-a^2): the square in two parts, of which the first is exact (a short factor) and the second small.
Expr gaussian(const Expr& a) {
  const Expr head = (a.seen_as(ElementType::kI32) & a.seen_as(ElementType::kI32).bits(0xFFFFF000U))
                        .seen_as(ElementType::kF32);
  return exp(-(head * head)) * exp((head - a) * (head + a));
}

Expr erfc(const Expr& x) {
  const Expr a = abs(x);
  const Expr near = 1.0 - x.unary(OpKind::chlo_erf_);
  // Beyond 12 the result is no number of fp32; the bound keeps infinities out.
  const Expr b = min(a, a.number(12.0));
  const Expr tail = gaussian(b) * polynomial((b - 4.0) / (b + 4.0), kErfc) / (b * 2.0 + 1.0);
  const Expr far = select(x < 0.0, 2.0 - tail, tail);
  return select(is_nan(x), x, select(a < 0.5, near, far));
}

Expr erf_inv(const Expr& x) {
  const Expr a = abs(x);
  const Expr w = -(log1p(-a) + log1p(a));
  const Expr near = polynomial(w - 2.5, kErfInvNear);
  const Expr far = polynomial(sqrt(w) - 3.0, kErfInvFar);
  const Expr value = select(w < 5.0, near, far) * x;
  return select(a == 1.0, x * kInfinity, select(a > 1.0, x.number(kNan), value));
}

Expr power(const Expr& base, const Expr& exponent) { return base.binary(OpKind::power_, exponent); }

// Euler and Maclaurin: ten terms, the integral from there, and corrections B2k / (2k)! s (s+1) ...
// b^(-s-2k+1). Source of the form: S. L. Moshier, Cephes, zeta.c; Bernoulli numbers.
Expr zeta_of_positive(const Expr& s, const Expr& q) {
  constexpr int kTerms = 10;
  constexpr std::array kCorrections{1.0 / 12,           -1.0 / 720,     1.0 / 30240,
                                    -1.0 / 1209600,     1.0 / 47900160, -691.0 / 1307674368000.0,
                                    1.0 / 74724249600.0};
  const Expr minus_s = -s;
  Expr sum = power(q, minus_s);
  Expr at = q;
  for (int k = 1; k < kTerms; ++k) {
    at = q + k;
    sum = sum + power(at, minus_s);
  }
  at = q + kTerms;
  const Expr last = power(at, minus_s);
  // The integral by a power of its own: the last term is subnormal long before at times it is.
  Expr tail = power(at, 1.0 - s) / (s - 1.0) + last * 0.5;
  Expr factor = s * last / at;
  const Expr inverse_square = 1.0 / (at * at);
  for (size_t k = 0; k < kCorrections.size(); ++k) {
    tail = tail + factor * kCorrections[k];
    const double step = 2.0 * static_cast<double>(k);
    if (k + 1 < kCorrections.size()) factor = factor * (s + (step + 1)) * (s + (step + 2)) * inverse_square;
  }
  // A first term that is infinite, or the whole of the sum, decides.
  return sum + select(at == kInfinity, at.number(0), tail);
}

// For a negative q and a whole s, the terms on either side of zero are two sums of positive ones: with r the
// distance from zero of the last negative term, (-1)^s (zeta(s, r) - zeta(s, 1 - q)) + zeta(s, 1 - r).
Expr zeta(const Expr& s, const Expr& q) {
  const Expr minus_q = -q;
  const Expr rest = minus_q - floor(minus_q), below = q - floor(q);
  const Expr is_negative = q < 0.0;
  const Expr near = zeta_of_positive(s, select(is_negative, rest, q));
  const Expr after = zeta_of_positive(s, below), beyond = zeta_of_positive(s, 1.0 - q);
  const Expr half = s * 0.5;  // the two large sums first: they all but cancel near half a whole number
  const Expr both = select(floor(half) == half, (after + near) - beyond, (after - near) + beyond);
  const Expr value = select(is_negative, both, near);
  const Expr whole_q = floor(q) == q;
  const Expr bad = (s < 1.0) | ((q <= 0.0) & ~whole_q & (floor(s) != s)) | is_nan(s) | is_nan(q);
  const Expr infinite = (s == 1.0) | ((q <= 0.0) & whole_q);
  return select(bad, s.number(kNan), select(infinite, s.number(kInfinity), value));
}

Expr polygamma(const Expr& order, const Expr& x) {
  const Expr n = order + 1.0;
  const Expr size = exp(log_gamma(n)) * zeta(n, x);
  const Expr half = order * 0.5;
  const Expr value = select(floor(half) == half, -size, size);
  const Expr bad = (order < 0.0) | (floor(order) != order);
  return select(bad, x.number(kNan), select(order == 0.0, digamma(x), value));
}

constexpr Expansion kSpecialFunctionExpansions[] = {
    {OpKind::chlo_lgamma_, nullptr, unary_in_f32<log_gamma>},
    {OpKind::chlo_digamma_, nullptr, unary_in_f32<digamma>},
    {OpKind::chlo_bessel_i1e_, nullptr, unary_in_f32<bessel_i1e>},
    {OpKind::chlo_erfc_, nullptr, unary_in_f32<erfc>},
    {OpKind::chlo_erf_inv_, nullptr, unary_in_f32<erf_inv>},
    {OpKind::chlo_zeta_, nullptr, binary_in_f32<zeta>},
    {OpKind::chlo_polygamma_, nullptr, binary_in_f32<polygamma>},
};

}  // namespace

std::span<const Expansion> special_function_expansions() { return kSpecialFunctionExpansions; }

}  // namespace opentrn::compiler
