"""QR, LU, eigenvalues and singular values as custom calls, on device and evaluator, against NumPy in float64.

What a decomposition leaves open (signs, phases, order among equal values) is not compared: the product of its factors
is, and that they are orthogonal or triangular. Errors are relative to the largest entry, in units of 2**-23.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import opentrn
from opentrn import graph

RNG = np.random.default_rng(41)
UNIT = 2.0**-23
ELEMENTS = {np.dtype(np.float32): "f32", np.dtype(np.complex64): "complex<f32>", np.dtype(np.int32): "i32"}


def matrices(shape: Sequence[int], is_complex: bool) -> np.ndarray:
    made = RNG.standard_normal(shape)
    if is_complex:
        made = made + 1j * RNG.standard_normal(shape)
    return made.astype(np.complex64 if is_complex else np.float32)


def kind(shape: Sequence[int], dtype: np.dtype) -> str:
    return f"tensor<{''.join(f'{size}x' for size in shape)}{ELEMENTS[np.dtype(dtype)]}>"


def text(name: str, given: Sequence[np.ndarray], results: Sequence[tuple[Sequence[int], np.dtype]], words: str) -> str:
    arguments = ", ".join(f"%a{i}: {kind(x.shape, x.dtype)}" for i, x in enumerate(given))
    types = ", ".join(kind(*each) for each in results)
    names = ", ".join(f"%a{i}" for i in range(len(given)))
    made = ", ".join(f"%r#{i}" for i in range(len(results))) if len(results) > 1 else "%r"
    count = f":{len(results)}" if len(results) > 1 else ""
    operands = ", ".join(kind(x.shape, x.dtype) for x in given)
    return (
        f"func.func @main({arguments}) -> ({types}) {{\n"
        f'  %r{count} = "stablehlo.custom_call"({names}) <{{call_target_name = "opentrn.{name}", '
        f'backend_config = "{words}"}}> : ({operands}) -> ({types})\n  return {made} : {types}\n}}\n'
    )


ROUTES = ("device", "evaluator")


def run(route: str, name: str, given: Sequence[np.ndarray], results, words: str = "") -> list[np.ndarray]:
    """Results in double."""
    program = text(name, given, results, words)
    if route == "device":
        made = opentrn.compile(program, strict=True)(*given)
    else:
        made = graph.parse(program).evaluate(*given)
    return [np.asarray(each, np.result_type(each, np.float64)) for each in made]


def adjoint(a: np.ndarray) -> np.ndarray:
    return np.conj(np.swapaxes(a, -1, -2))


def close(got: np.ndarray, want: np.ndarray, units: float) -> None:
    scale = max(1e-30, float(np.abs(want).max(initial=0)))
    assert np.abs(got - want).max(initial=0) <= units * UNIT * scale


def eye(size: int) -> np.ndarray:
    return np.eye(size)


SHAPES = [(1, 1), (2, 2), (5, 3), (3, 5), (2, 7, 7), (33, 17)]


@pytest.mark.parametrize("is_complex", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("route", ROUTES)
def test_reflections_are_lapacks(route: str, shape: tuple[int, ...], is_complex: bool):
    """Q R is the matrix, Q is orthogonal, Q^H undoes Q; R's diagonal is real."""
    a = matrices(shape, is_complex)
    rows, count = shape[-2], min(shape[-2:])
    packed, taus = run(route, "geqrf", [a], [(shape, a.dtype), ((*shape[:-2], count), a.dtype)])
    given = [packed.astype(a.dtype), taus.astype(a.dtype)]
    one = np.broadcast_to(eye(rows), (*shape[:-2], rows, rows)).astype(a.dtype)
    (q,) = run(route, "ormqr", [*given, one], [(one.shape, a.dtype)])
    (back,) = run(route, "ormqr", [*given, q.astype(a.dtype)], [(one.shape, a.dtype)], "adjoint")
    r = np.triu(packed)
    units = 8 * max(shape[-2:]) ** 0.5 + 8
    close(q @ r, a.astype(q.dtype), units)
    close(adjoint(q) @ q, one.astype(q.dtype), units)
    close(back, one.astype(q.dtype), units)
    assert np.abs(np.diagonal(r, axis1=-2, axis2=-1).imag).max() == 0


def test_reflections_have_the_values_of_numpy():
    a = matrices((6, 4), False)
    packed, taus = run("device", "geqrf", [a], [(a.shape, a.dtype), ((4,), a.dtype)])
    h, tau = np.linalg.qr(a.astype(np.float64), mode="raw")
    close(packed, h.T, 16)
    close(taus, tau, 16)


@pytest.mark.parametrize("scale", [1e-30, 1e25])
def test_lengths_neither_overflow_nor_vanish(scale: float):
    a = matrices((4, 3), False) * np.float32(scale)
    packed, _ = run("device", "geqrf", [a], [(a.shape, a.dtype), ((3,), a.dtype)])
    close(np.abs(np.triu(packed[:3])), np.abs(np.linalg.qr(a.astype(np.float64))[1]), 32)


@pytest.mark.parametrize("is_complex", [False, True])
@pytest.mark.parametrize("words", ["", "no_pivot"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("route", ROUTES)
def test_elimination_is_lapacks(route: str, shape: tuple[int, ...], words: str, is_complex: bool):
    a = matrices(shape, is_complex)
    if words:
        a = a + 4 * max(shape) * np.eye(*shape[-2:], dtype=a.dtype)
    rows, count = shape[-2], min(shape[-2:])
    batch = shape[:-2]
    results = [(shape, a.dtype), ((*batch, count), np.int32), (batch, np.int32)]
    packed, pivots, info = run(route, "getrf", [a], results, words)
    assert not info.any()
    lower = np.tril(packed[..., :count], -1) + np.eye(rows, count)
    upper = np.triu(packed[..., :count, :])
    wanted = a.astype(packed.dtype).reshape(-1, *shape[-2:]).copy()
    for matrix, exchanges in zip(wanted, pivots.reshape(-1, count).astype(int), strict=True):
        for i, other in enumerate(exchanges):
            matrix[[i, other - 1]] = matrix[[other - 1, i]]
    close(lower @ upper, wanted.reshape(shape), 16 * max(shape) ** 0.5)
    if not words:
        assert np.abs(lower).max() <= (1 + 1e-6) * (2**0.5 if is_complex else 1)


@pytest.mark.parametrize("is_complex", [False, True])
@pytest.mark.parametrize("shape", [(1, 1), (5, 3), (3, 5), (130, 4, 4), (90, 70)])
@pytest.mark.parametrize("route", ROUTES)
def test_the_permutation_says_where_rows_come_from(route: str, shape: tuple[int, ...], is_complex: bool):
    if is_complex and shape[-2] > 64:
        pytest.skip("slow, and the same loop")
    a = matrices(shape, is_complex)
    rows, count, batch = shape[-2], min(shape[-2:]), shape[:-2]
    results = [(shape, a.dtype), ((*batch, count), np.int32), (batch, np.int32), ((*batch, rows), np.int32)]
    packed, _, _, order = run(route, "getrf", [a], results, "permutation")
    assert np.array_equal(np.sort(order, axis=-1), np.broadcast_to(np.arange(rows), order.shape))
    lower = np.tril(packed[..., :count], -1) + np.eye(rows, count)
    moved = np.take_along_axis(a.astype(packed.dtype), order.astype(int)[..., None], axis=-2)
    close(lower @ np.triu(packed[..., :count, :]), moved, 16 * max(shape[-2:]) ** 0.5)


@pytest.mark.parametrize("shape", [(24, 24), (72, 71), (71, 72), (140, 9, 9)])
def test_sizes_at_the_edge_of_a_partition(shape: tuple[int, ...]):
    """Matrices that lie in one partition, and the first that do not."""
    a = matrices(shape, False)
    rows, count, batch = shape[-2], min(shape[-2:]), shape[:-2]
    results = [(shape, a.dtype), ((*batch, count), np.int32), (batch, np.int32), ((*batch, rows), np.int32)]
    packed, _, info, order = run("device", "getrf", [a], results, "permutation")
    lower = np.tril(packed[..., :count], -1) + np.eye(rows, count)
    moved = np.take_along_axis(a.astype(packed.dtype), order.astype(int)[..., None], axis=-2)
    close(lower @ np.triu(packed[..., :count, :]), moved, 16 * max(shape[-2:]) ** 0.5)
    assert not info.any()
    factors, taus = run("device", "geqrf", [a], [(shape, a.dtype), ((*batch, count), a.dtype)])
    given = [factors.astype(np.float32), taus.astype(np.float32), np.triu(factors).astype(np.float32)]
    (back,) = run("device", "ormqr", given, [(shape, a.dtype)])
    close(back, a.astype(back.dtype), 16 * max(shape[-2:]) ** 0.5)


# Several blocks of columns: kernels in a row, taller than what a kernel takes, wide, batches, and complex ones.
BLOCKS = [((130, 40), False), ((40, 130), False), ((2, 90, 90), False), ((700, 70), False), ((70, 66), True)]


@pytest.mark.parametrize(("shape", "is_complex"), BLOCKS)
def test_blocks_of_columns_are_the_whole(shape: tuple[int, ...], is_complex: bool):
    """LU and QR of what no kernel takes as a whole, on the device."""
    a = matrices(shape, is_complex)
    rows, count, batch = shape[-2], min(shape[-2:]), shape[:-2]
    results = [(shape, a.dtype), ((*batch, count), np.int32), (batch, np.int32), ((*batch, rows), np.int32)]
    packed, pivots, info, order = run("device", "getrf", [a], results, "permutation")
    exact = a.astype(packed.dtype)
    lower = np.tril(packed[..., :count], -1) + np.eye(rows, count)
    moved = np.take_along_axis(exact, order.astype(int)[..., None], axis=-2)
    close(lower @ np.triu(packed[..., :count, :]), moved, 16 * max(shape[-2:]) ** 0.5)
    assert np.abs(lower).max() <= (1 + 1e-6) * (2**0.5 if is_complex else 1) and not info.any()
    exchanged = exact.reshape(-1, *shape[-2:]).copy()
    for matrix, exchanges in zip(exchanged, pivots.reshape(-1, count).astype(int), strict=True):
        for i, other in enumerate(exchanges):
            matrix[[i, other - 1]] = matrix[[other - 1, i]]
    assert np.array_equal(exchanged.reshape(shape), moved)

    factors, taus = run("device", "geqrf", [a], [(shape, a.dtype), ((*batch, count), a.dtype)])
    given = [each.astype(a.dtype) for each in (factors, taus, np.triu(factors))]
    (back,) = run("device", "ormqr", given, [(shape, a.dtype)])
    close(back, exact, 16 * max(shape[-2:]) ** 0.5)
    (upper,) = run("device", "ormqr", [*given[:2], a], [(shape, a.dtype)], "adjoint")
    close(upper, np.triu(factors), 16 * max(shape[-2:]) ** 0.5)


def test_a_pivot_that_is_zero_in_a_later_block_is_named():
    a = np.stack([np.eye(90), np.diag([*np.ones(60), 0, *np.ones(28), 0]), np.eye(90)]).astype(np.float32)
    results = [(a.shape, a.dtype), ((3, 90), np.int32), ((3,), np.int32)]
    assert run("device", "getrf", [a], results)[2].tolist() == [0, 61, 0]


def test_infinities_of_other_rows_stay_there_in_blocks():
    a = matrices((90, 90), False)
    a[70, 85] = np.inf
    results = [(a.shape, a.dtype), ((90,), np.int32), ((), np.int32), ((90,), np.int32)]
    device, want = (run(route, "getrf", [a], results, "permutation") for route in ROUTES)
    before = int(want[3].tolist().index(70))
    assert np.array_equal(device[3], want[3])
    np.testing.assert_allclose(device[0][:before, :85], want[0][:before, :85], rtol=0, atol=1e-3)


@pytest.mark.parametrize(
    ("name", "results", "most"),
    [
        ("getrf", [((128, 128), np.float32), ((128,), np.int32), ((), np.int32)], 2000),
        ("geqrf", [((128, 128), np.float32), ((128,), np.float32)], 1800),
    ],
)
def test_blocks_are_kernels_and_products(name: str, results, most: float):
    """As loops through memory: some 40 us a column."""
    program = text(name, [matrices((128, 128), False)], results, "")
    assert opentrn.compile(program, strict=True).time().time_us < most


def test_pivots_among_numbers_that_are_none():
    """NaN comes first, then the largest; infinities of other rows do not spoil the one that is chosen."""
    infinite = np.array([[1, 2, 3], [np.inf, 1, 1], [2, np.inf, 5]], np.float32)
    broken = np.array([[1, 2, 3], [5, 1, 1], [np.nan, 7, 5]], np.float32)
    a = np.stack([infinite, broken])
    results = [(a.shape, a.dtype), ((2, 3), np.int32), ((2,), np.int32), ((2, 3), np.int32)]
    device = run("device", "getrf", [a], results, "permutation")
    want = run("evaluator", "getrf", [a], results, "permutation")
    assert device[1][:, 0].tolist() == want[1][:, 0].tolist() == [2, 3]
    assert np.array_equal(device[0][:, 0], want[0][:, 0], equal_nan=True)


@pytest.mark.parametrize(
    ("name", "results", "most"),
    [
        ("getrf", [((16, 16), np.float32), ((16,), np.int32), ((), np.int32)], 100),
        ("geqrf", [((16, 16), np.float32), ((16,), np.float32)], 150),
        ("eigh", [((16,), np.float32), ((16, 16), np.float32)], 1500),
        ("svd", [((16, 16), np.float32), ((16,), np.float32), ((16, 16), np.float32)], 2000),
    ],
)
def test_small_matrices_stay_in_sbuf(name: str, results, most: float):
    """As loops through memory: 751, 562, 4110 and 4420 us."""
    program = text(name, [matrices((16, 16), False)], results, "lower")
    assert opentrn.compile(program, strict=True).time().time_us < most


@pytest.mark.parametrize("route", ROUTES)
def test_a_pivot_that_is_zero_is_named(route: str):
    a = np.stack([np.eye(3), np.diag([1.0, 0.0, 2.0]), np.zeros((3, 3))]).astype(np.float32)
    results = [(a.shape, a.dtype), ((3, 3), np.int32), ((3,), np.int32)]
    assert run(route, "getrf", [a], results)[2].tolist() == [0, 2, 1]


@pytest.mark.parametrize("is_complex", [False, True])
@pytest.mark.parametrize("words", ["lower sorted", "upper sorted", "lower"])
@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (3, 3), (2, 5, 5), (16, 16)])
@pytest.mark.parametrize("route", ROUTES)
def test_eigenvalues_are_those_of_float64(route: str, shape: tuple[int, ...], words: str, is_complex: bool):
    a = matrices(shape, is_complex)
    a = (a + adjoint(a)) / 2
    half = np.tril(a) if "lower" in words else np.triu(a)
    values, vectors = run(route, "eigh", [half], [(shape[:-1], np.float32), (shape, a.dtype)], words)
    want = np.linalg.eigvalsh(a.astype(np.complex128))
    close(values if "sorted" in words else np.sort(values), want, 8 * shape[-1] ** 0.5 + 8)
    close((vectors * values[..., None, :]) @ adjoint(vectors), a.astype(vectors.dtype), 24 + 8 * shape[-1] ** 0.5)
    close(adjoint(vectors) @ vectors, np.broadcast_to(eye(shape[-1]), shape).astype(vectors.dtype), 24)


@pytest.mark.parametrize("is_complex", [False, True])
@pytest.mark.parametrize("full", ["", "full"])
@pytest.mark.parametrize("shape", [(1, 1), (4, 4), (6, 3), (2, 3, 5), (17, 9)])
@pytest.mark.parametrize("route", ROUTES)
def test_singular_values_are_those_of_float64(route: str, shape: tuple[int, ...], full: str, is_complex: bool):
    a = matrices(shape, is_complex)
    rows, columns = shape[-2:]
    least = min(rows, columns)
    left, right = (rows, columns) if full else (least, least)
    batch = shape[:-2]
    results = [((*batch, rows, left), a.dtype), ((*batch, least), np.float32), ((*batch, right, columns), a.dtype)]
    u, values, vh = run(route, "svd", [a], results, full)
    close(values, np.linalg.svd(a.astype(np.complex128), compute_uv=False), 8 * max(shape) ** 0.5 + 8)
    close((u[..., :least] * values[..., None, :]) @ vh[..., :least, :], a.astype(u.dtype), 32)
    close(adjoint(u) @ u, np.broadcast_to(eye(left), (*batch, left, left)).astype(u.dtype), 24)
    close(vh @ adjoint(vh), np.broadcast_to(eye(right), (*batch, right, right)).astype(u.dtype), 24)


def test_a_matrix_of_low_rank_has_all_its_singular_vectors():
    a = (RNG.standard_normal((7, 2)) @ RNG.standard_normal((2, 5))).astype(np.float32)
    results = [((7, 7), a.dtype), ((5,), a.dtype), ((5, 5), a.dtype)]
    u, values, vh = run("device", "svd", [a], results, "full")
    close(u.T @ u, eye(7), 24)
    close((u[:, :5] * values) @ vh, a.astype(np.float64), 32)
    assert values[2] < 1e-5 * values[0]


@pytest.mark.parametrize("shape", [(65, 65), (3, 40, 40), (140, 8, 8), (2, 101, 101)])
def test_eigenvalues_by_rows_and_in_a_partition(shape: tuple[int, ...]):
    """One pair of rows a partition, several matrices side by side, and whole matrices in a partition each."""
    a = matrices(shape, False)
    a = a + np.swapaxes(a, -1, -2)
    values, vectors = run("device", "eigh", [a], [(shape[:-1], a.dtype), (shape, a.dtype)], "lower sorted")
    close(values, np.linalg.eigvalsh(a.astype(np.float64)), 32)
    close(vectors * values[..., None, :] @ np.swapaxes(vectors, -1, -2), a.astype(np.float64), 64)
    close(np.swapaxes(vectors, -1, -2) @ vectors, np.broadcast_to(np.eye(shape[-1]), shape), 32)


@pytest.mark.parametrize("scale", [0.0, 1e-30, 1e25])
@pytest.mark.parametrize("size", [16, 65])
def test_rotations_neither_overflow_nor_vanish(size: int, scale: float):
    a = matrices((size, size), False) * np.float32(scale)
    a = a + a.T
    values, vectors = run("device", "eigh", [a], [((size,), a.dtype), (a.shape, a.dtype)], "lower sorted")
    close(values, np.linalg.eigvalsh(a.astype(np.float64)), 32)
    close(vectors.T @ vectors, np.eye(size), 32)
    results = [(a.shape, a.dtype), ((size,), a.dtype), (a.shape, a.dtype)]
    u, singular, v = run("device", "svd", [a], results)
    close(singular, np.linalg.svd(a.astype(np.float64), compute_uv=False), 64)
    close(u * singular @ v, a.astype(np.float64), 64)


@pytest.mark.parametrize("place", [(0, 0), (3, 1)])
def test_a_matrix_with_a_nan_has_no_eigenvalues(place: tuple[int, int]):
    a = np.eye(40, dtype=np.float32)
    a[place] = np.nan
    values, _ = run("device", "eigh", [a], [((40,), a.dtype), (a.shape, a.dtype)], "lower sorted")
    assert np.isnan(values).all()


def singular_values_alone(a: np.ndarray) -> np.ndarray:
    """Of a program that reads no vectors."""
    rows, columns = a.shape[-2:]
    least, batch = min(rows, columns), a.shape[:-2]
    shapes = {"a": a.shape, "u": (*batch, rows, least), "w": (*batch, least), "v": (*batch, least, columns)}
    kind = {name: f"tensor<{'x'.join(map(str, dims))}xf32>" for name, dims in shapes.items()}
    text = f"""func.func @main(%a: {kind["a"]}) -> {kind["w"]} {{
  %u, %w, %v = stablehlo.custom_call @opentrn.svd(%a) : ({kind["a"]}) -> ({kind["u"]}, {kind["w"]}, {kind["v"]})
  return %w : {kind["w"]}
}}"""
    (values,) = opentrn.compile(text, target="trn2")(a)
    return np.asarray(values, np.float64)


@pytest.mark.parametrize("shape", [(100, 100), (80, 33), (2, 40, 40)])
@pytest.mark.parametrize("form", ["drawn", "of low rank", "graded"])
def test_singular_values_alone_of_larger_matrices(shape: tuple[int, ...], form: str):
    a = matrices(shape, False)
    size = shape[-1]
    if form == "of low rank":
        a = a[..., :5] @ matrices((*shape[:-2], 5, size), False)
    if form == "graded":
        a = a * np.logspace(0, -6, size, dtype=np.float32)
    close(singular_values_alone(a), np.linalg.svd(a.astype(np.float64), compute_uv=False), 32)


@pytest.mark.parametrize("size", [32, 36])
def test_parallel_columns_leave_singular_vectors_at_right_angles(size: int):
    """What rounding leaves of them is of a few bits, of which reflections are made."""
    a = np.ones((size, size), np.float32)
    results = [((size, size), a.dtype), ((size,), a.dtype), ((size, size), a.dtype)]
    u, values, vh = run("device", "svd", [a], results, "")
    close(u.T @ u, eye(size), 24)
    close((u * values) @ vh, a.astype(np.float64), 32)


@pytest.mark.parametrize("shape", [(6, 6), (9, 5), (4, 7), (2, 15, 15)])
def test_singular_values_alone_take_no_reflections(shape: tuple[int, ...]):
    a = matrices(shape, False)
    values = singular_values_alone(a)
    close(values, np.linalg.svd(a.astype(np.float64), compute_uv=False), 8 * max(shape) ** 0.5 + 8)


@pytest.mark.parametrize(
    ("name", "shapes", "results"),
    [
        ("geqrf", [(3,)], [(3,), (1,)]),
        ("geqrf", [(3, 2)], [(3, 2), (3,)]),
        ("ormqr", [(3, 2), (3,), (3, 3)], [(3, 3)]),
        ("ormqr", [(3, 2), (2,), (4, 3)], [(4, 3)]),
        ("ormqr", [(2, 3, 2), (3, 2), (2, 3, 3)], [(2, 3, 3)]),
        ("eigh", [(3, 2)], [(3,), (3, 2)]),
        ("eigh", [(3, 3), (3, 3)], [(3,), (3, 3)]),
        ("svd", [(3, 2)], [(3, 3), (2,), (2, 2)]),
        ("getrf", [(3, 2)], [(3, 2)]),
    ],
)
def test_what_does_not_fit_is_refused(name: str, shapes, results):
    given = [np.zeros(shape, np.float32) for shape in shapes]
    program = text(name, given, [(shape, np.float32) for shape in results], "")
    with pytest.raises(ValueError, match="custom_call"):
        opentrn.compile(program)


@pytest.mark.parametrize("route", ROUTES)
def test_matrices_without_elements(route: str):
    none = np.zeros((2, 0, 3), np.float32)
    u, values, vh = run(route, "svd", [none], [((2, 0, 0), none.dtype), ((2, 0), none.dtype), ((2, 3, 3), none.dtype)],
                        "full")  # fmt: skip
    assert u.size == 0 and values.size == 0 and np.array_equal(vh, np.broadcast_to(eye(3), (2, 3, 3)))
    packed, taus = run(route, "geqrf", [none], [(none.shape, none.dtype), ((2, 0), none.dtype)])
    assert packed.size == 0 and taus.size == 0
