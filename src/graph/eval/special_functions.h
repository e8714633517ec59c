// Real special functions in double, for CHLO's ops. Relative error of a few 1e-16 away from zeros of the
// function, so that f32 and narrower results are correctly rounded but for rare ties.
#pragma once

namespace opentrn::graph::eval {

double log_gamma(double x);                // log |gamma(x)|
double digamma(double x);                  // NaN at 0, -1, -2, ...
double hurwitz_zeta(double s, double q);   // sum over k >= 0 of (q + k)^-s; NaN for s < 1
double polygamma(double order, double x);  // NaN unless order is a non-negative integer
double bessel_i1e(double x);               // exp(-|x|) I1(x)
double inverse_erf(double y);              // +-inf at +-1, NaN outside

}  // namespace opentrn::graph::eval
