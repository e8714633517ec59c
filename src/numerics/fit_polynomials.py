"""Derives the polynomial coefficients of activation_simd.cc; prints them as C++ tables.

    python src/numerics/fit_polynomials.py

Each is a Remez exchange in double precision for the relative error of the whole function, followed by
rounding of the coefficients to fp32. Needs numpy. activation_test.cc measures the result.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

Function = Callable[[np.ndarray], np.ndarray]


def minimax(f: Function, weight: Function, low: float, high: float, degree: int) -> tuple[np.ndarray, float]:
    """Polynomial p of the degree that nearly minimises max |(p - f) * weight|, and that maximum."""
    grid = (low + high) / 2 + (high - low) / 2 * np.cos(np.linspace(0, math.pi, 4001))
    nodes = (low + high) / 2 + (high - low) / 2 * np.cos(np.arange(degree + 2) * math.pi / (degree + 1))
    target, scale = f(grid), weight(grid)
    coefficients = np.zeros(degree + 1)
    for _ in range(30):
        alternating = (-1.0) ** np.arange(degree + 2) / weight(nodes)
        system = np.column_stack([np.vander(nodes, degree + 1, increasing=True), alternating])
        coefficients = np.linalg.solve(system, f(nodes))[:-1]
        error = (np.polyval(coefficients[::-1], grid) - target) * scale
        nodes = _extrema(grid, error, degree + 2)
    error = (np.polyval(coefficients[::-1], grid) - target) * scale
    return coefficients, float(np.abs(error).max())


def _extrema(grid: np.ndarray, error: np.ndarray, count: int) -> np.ndarray:
    """The `count` neighbouring extrema of alternating sign with the largest errors."""
    sign_changes = np.flatnonzero(np.diff(np.signbit(error))) + 1
    pieces = np.split(np.arange(grid.size), sign_changes)
    points = [piece[np.abs(error[piece]).argmax()] for piece in pieces]
    while len(points) > count:
        points.pop(0 if abs(error[points[0]]) < abs(error[points[-1]]) else -1)
    if len(points) < count:  # not yet alternating: fall back to Chebyshev nodes
        points = [round(i) for i in np.linspace(0, grid.size - 1, count)]
    return grid[points]


def upper_normal_tail(a: np.ndarray) -> np.ndarray:
    """R(a) of P(Z > a) = exp(-a^2 / 2) R(a), from the continued fraction or the series of erf."""
    result = np.empty_like(a)
    for i, x in enumerate(a):
        if x < 4:
            result[i] = 0.5 * math.erfc(x / math.sqrt(2)) * math.exp(x * x / 2)
        else:
            fraction = 0.0
            for k in range(120, 0, -1):
                fraction = k / (x + fraction)
            result[i] = 1 / math.sqrt(2 * math.pi) / (x + fraction)
    return result


def ratio(numerator: Function, denominator: Function, at_zero: float) -> Function:
    """numerator / denominator with the limit at 0 filled in where both vanish."""

    def value(x: np.ndarray) -> np.ndarray:
        small = np.abs(x) < 1e-300
        safe = np.where(small, 1.0, x)
        return np.where(small, at_zero, numerator(safe) / denominator(safe))

    return value


def series(terms: Callable[[int], float], variable: np.ndarray, count: int = 60) -> np.ndarray:
    """sum of terms(k) variable^k: exact near 0, where closed forms cancel."""
    total = np.zeros_like(variable)
    for k in range(count, -1, -1):
        total = total * variable + terms(k)
    return total


def emit(name: str, what: str, coefficients: np.ndarray, error: float) -> None:
    """Prints one table, lowest power first."""
    values = ", ".join(f"{float(np.float32(c))!r}f" for c in coefficients)
    print(f"// {what}; relative error 2^{math.log2(error):.1f} before rounding.")
    print(f"constexpr float {name}[] = {{{values}}};\n")


def tanh_quotient(y: np.ndarray) -> np.ndarray:
    """(tanh(x) / x - 1) / x^2 for y = x^2; the quotient of two series avoids cancellation."""
    cosh = series(lambda k: 1 / math.factorial(2 * k), y, 20)
    difference = series(lambda k: 1 / math.factorial(2 * k + 3) - 1 / math.factorial(2 * k + 2), y, 20)
    return difference / cosh


def erf_term(k: int) -> float:
    """Coefficient of x^(2 k + 1) in the series of erf(x) sqrt(pi) / 2."""
    return (-1) ** k / (math.factorial(k) * (2 * k + 1))


def sin_term(k: int) -> float:
    """Coefficient of x^(2 k + 3) in the series of sin(x)."""
    return (-1) ** (k + 1) / math.factorial(2 * k + 3)


def cos_term(k: int) -> float:
    """Coefficient of x^(2 k + 2) in the series of cos(x)."""
    return (-1) ** (k + 1) / math.factorial(2 * k + 2)


def ones(x: np.ndarray) -> np.ndarray:
    """The weight of an absolute error."""
    return np.ones_like(x)


def main() -> None:
    """Fits and prints every table."""
    half_log2 = math.log(2) / 2 * 1.002
    c, e = minimax(
        lambda r: series(lambda k: 1 / math.factorial(k + 2), r, 25),
        lambda r: r * r / np.exp(r),
        -half_log2,
        half_log2,
        4,
    )
    emit("kExp", "exp(r) = 1 + r + r^2 p(r), |r| <= ln(2) / 2", c, e)
    low, high = math.sqrt(0.5) - 1, math.sqrt(2) - 1
    log_quotient = ratio(lambda f: np.log1p(f) - f + f * f / 2, lambda f: f**3, 1 / 3)

    def log_p(f: np.ndarray) -> np.ndarray:
        return np.where(np.abs(f) < 0.05, series(lambda k: (-1) ** k / (k + 3), f, 60), log_quotient(f))

    c, e = minimax(log_p, lambda f: f**2, low, high, 8)
    emit("kLog", "log(1 + f) = f - f^2 / 2 + f^3 p(f), sqrt(1/2) <= 1 + f <= sqrt(2)", c, e)
    c, e = minimax(tanh_quotient, lambda y: y, 1e-5, 0.65**2, 5)
    emit("kTanh", "tanh(x) = x + x^3 p(x^2), |x| <= 0.65", c, e)
    c, e = minimax(lambda y: 2 / math.sqrt(math.pi) * series(erf_term, y, 40) - 1, ones, 0.0, 1.0, 6)
    emit("kErf", "erf(x) = x + x p(x^2), |x| <= 1", c, e)
    c, e = minimax(lambda y: series(sin_term, y, 20), lambda y: y, 1e-4, 1.001, 3)
    emit("kSin", "sin(x) = x + x^3 p(x^2), |x| <= 1", c, e)
    c, e = minimax(lambda y: series(cos_term, y, 20), lambda y: y, 1e-4, (math.pi / 2 - 1) ** 2 * 1.001, 3)
    emit("kCos", "cos(x) = 1 + x^2 p(x^2), |x| <= pi / 2 - 1", c, e)

    def atan_p(y: np.ndarray) -> np.ndarray:
        x = np.sqrt(np.maximum(y, 0.01))
        near_zero = series(lambda k: (-1) ** (k + 1) / (2 * k + 3), y, 40)
        return np.where(y < 0.01, near_zero, (np.arctan(x) / x - 1) / (x * x))

    c, e = minimax(atan_p, lambda y: y, 1e-4, 1.0, 9)
    emit("kAtan", "arctan(x) = x + x^3 p(x^2), |x| <= 1", c, e)
    density = 1 / math.sqrt(2 * math.pi)
    c, e = minimax(lambda y: density * series(erf_term, y / 2, 40), ones, 0.0, 1.0, 5)
    emit("kGeluNear", "P(Z <= x) = 1 / 2 + x p(x^2), |x| <= 1", c, e)

    def gelu_dx_p(y: np.ndarray) -> np.ndarray:
        return density * series(lambda k: (2 * k + 2) * erf_term(k), y / 2, 40)

    c, e = minimax(gelu_dx_p, ones, 0.0, 1.0, 6)
    emit("kGeluDxNear", "d/dx (x P(Z <= x)) = 1 / 2 + x p(x^2), |x| <= 1", c, e)
    scale, past, middle = 0.5, 15.0, 0.5625

    def argument(v: np.ndarray) -> np.ndarray:
        return (1 / (v + middle) - 1) / scale

    c, e = minimax(
        lambda v: upper_normal_tail(argument(v)) / (v + middle),
        lambda v: (v + middle) / upper_normal_tail(argument(v)),
        1 / (1 + scale * past) - middle,
        1.0 - middle,
        11,
    )
    what = f"P(Z > a) exp(a^2 / 2) = t p(t - {middle}), t = 1 / (1 + {scale} a), 0 <= a <= {past}"
    emit("kTail", what, c, e)


if __name__ == "__main__":
    main()
