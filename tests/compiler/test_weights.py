"""Weights kept in int8 and fp8: the scheme against NumPy, the device against the evaluator, sizes and time."""

import json
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import opentrn
from opentrn.cli import commands as cli
from opentrn.model.diff import diff

RNG = np.random.default_rng(31)

# Type, its largest finite number, bytes of an element.
FORMATS = {
    "int8": (np.int8, 127.0),
    "fp8_e4m3": (ml_dtypes.float8_e4m3, 240.0),
    "fp8_e4m3fn": (ml_dtypes.float8_e4m3fn, 448.0),
    "fp8_e5m2": (ml_dtypes.float8_e5m2, 57344.0),
}


def dense(array: np.ndarray) -> str:
    return f'dense<"0x{np.ascontiguousarray(array).tobytes().hex().upper()}">'


def shape(array: np.ndarray, element: str) -> str:
    return f"tensor<{'x'.join(map(str, array.shape))}x{element}>"


def product(x: np.ndarray, w: np.ndarray, *, order: str = "xw", dims: str, element: str = "f32") -> str:
    """One dot_general of the argument %x and the constant %w, in this order; `dims` is its attributes' text."""
    operands = {"x": shape(x, element), "w": shape(w, element)}
    batch = "batching" in dims
    out = _result_shape(x, w, order, batch, dims)
    result = f"tensor<{'x'.join(map(str, out))}x{element}>"
    return f"""func.func @main(%x: {operands["x"]}) -> {result} {{
  %w = stablehlo.constant {dense(w)} : {operands["w"]}
  %y = stablehlo.dot_general %{order[0]}, %{order[1]}, {dims}
    : ({operands[order[0]]}, {operands[order[1]]}) -> {result}
  return %y : {result}
}}
"""


def _result_shape(x: np.ndarray, w: np.ndarray, order: str, batch: bool, dims: str) -> tuple[int, ...]:
    left, right = (x, w) if order == "xw" else (w, x)
    contracting = dims.split("contracting_dims = ")[1]
    take = [int(text.strip("[] ")) for text in contracting.split(" x ")]
    free = [
        [size for d, size in enumerate(side.shape) if d != k and not (batch and d == 0)]
        for side, k in zip((left, right), take)
    ]
    return (*((x.shape[0],) if batch else ()), *free[0], *free[1])


def quantised(w: np.ndarray, dtype: str, axis: int) -> np.ndarray:
    """What the weights stand for: q * s, by the scheme's definition."""
    kind, largest = FORMATS[dtype]
    scale = np.abs(w).max(axis=axis, keepdims=True).astype(np.float32) / np.float32(largest)
    scale[scale == 0] = 1
    ratio = w / scale
    q = np.rint(ratio) if dtype == "int8" else ratio.astype(kind)
    return q.astype(np.float64) * scale


def weight(*dims: int) -> np.ndarray:
    """Channels of different sizes, one of them zero."""
    w = RNG.standard_normal(dims) * np.exp2(RNG.integers(-6, 3, dims[-1]))
    w[..., 3] = 0
    return w.astype(np.float32)


PRODUCTS = {
    "right": ((5, 256), (256, 130), "xw", "contracting_dims = [1] x [0]", 0, "mk,kn->mn"),
    "right, transposed": ((5, 256), (130, 256), "xw", "contracting_dims = [1] x [1]", 1, "mk,nk->mn"),
    "left": ((200, 7), (130, 200), "wx", "contracting_dims = [1] x [0]", 1, "km,nk->nm"),
    "batches": ((3, 4, 64), (3, 64, 100), "xw", "batching_dims = [0] x [0], contracting_dims = [2] x [1]", 1,
                "bmk,bkn->bmn"),
    "deep": ((140, 700), (700, 33), "xw", "contracting_dims = [1] x [0]", 0, "mk,kn->mn"),
}  # fmt: skip


@pytest.mark.parametrize("case", PRODUCTS)
@pytest.mark.parametrize("dtype", FORMATS)
def test_products_are_those_of_the_quantised_weights(case: str, dtype: str):
    x_dims, w_dims, order, dims, axis, spec = PRODUCTS[case]
    target = "trn3" if dtype == "fp8_e4m3fn" else "trn2"
    x, w = RNG.standard_normal(x_dims).astype(np.float32), weight(*w_dims)
    text = product(x, w, order=order, dims=dims)
    w_held = quantised(w, dtype, axis)
    want = np.einsum(spec, x.astype(np.float64), w_held)
    terms = np.einsum(spec, np.abs(x).astype(np.float64), np.abs(w_held))
    model = opentrn.compile(text, target=target, weight_dtype=dtype)
    (have,) = model(x)
    assert np.all(np.abs(have - want) <= 1e-6 * np.sqrt(w.shape[axis]) * terms)
    # Exactly this graph is what the evaluator has.
    (evaluated,) = opentrn.model.prepare(text, target=target, weight_dtype=dtype).evaluate(x)
    assert np.all(np.abs(have - evaluated) <= 1e-6 * np.sqrt(w.shape[axis]) * terms)
    passes = model.passes
    assert passes["weights_quantised"] == 1 and passes["weights_bytes_before"] == w.nbytes
    assert model.constant_bytes == passes["weights_bytes_after"] == w.size + 4 * w.size // w.shape[axis]


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
@pytest.mark.parametrize("dtype", ["int8", "fp8_e4m3", "fp8_e5m2"])
@pytest.mark.parametrize("auto_cast_type", ["bf16", "fp16", "tf32"])
def test_weights_stay_exact_under_auto_cast(target: str, dtype: str, auto_cast_type: str):
    """The cast rounds the activations only: int8 and fp8 are exact in the wider type."""
    x, w = RNG.standard_normal((9, 256)).astype(np.float32), weight(256, 128)
    text = product(x, w, dims="contracting_dims = [1] x [0]")
    (have,) = opentrn.compile(
        text, target=target, weight_dtype=dtype, auto_cast="matmult", auto_cast_type=auto_cast_type
    )(x)
    bits = {"bf16": 8, "fp16": 11, "tf32": 11}[auto_cast_type]
    mantissa, exponent = np.frexp(x)
    cast = np.ldexp(np.rint(np.ldexp(mantissa, bits)), exponent - bits)
    w_held = quantised(w, dtype, 0)
    want = cast @ w_held
    assert np.all(np.abs(have - want) <= 1.6e-5 * (np.abs(cast) @ np.abs(w_held)))


def test_a_model_in_bf16_keeps_its_types():
    x = RNG.standard_normal((9, 256)).astype(ml_dtypes.bfloat16)
    w = weight(256, 128).astype(ml_dtypes.bfloat16)
    text = product(x, w, dims="contracting_dims = [1] x [0]", element="bf16")
    model = opentrn.compile(text, weight_dtype="int8")
    (have,) = model(x)
    assert have.dtype == ml_dtypes.bfloat16
    w_held = quantised(w.astype(np.float32), "int8", 0)
    want = x.astype(np.float64) @ w_held
    terms = np.abs(x).astype(np.float64) @ np.abs(w_held)
    assert np.all(np.abs(have.astype(np.float64) - want) <= 2.0**-8 * np.abs(want) + 1.6e-5 * terms)


# A step of a decoder: few rows, large weights. Weights are what is read.
def step(tmp_path: Path) -> tuple[Path, np.ndarray]:
    x, w = RNG.standard_normal((4, 1024)).astype(np.float32), weight(1024, 2048)
    path = tmp_path / "step.mlir"
    path.write_text(product(x, w, dims="contracting_dims = [1] x [0]"))
    return path, x


def test_file_memory_traffic_and_time_shrink(tmp_path: Path):
    path, _ = step(tmp_path)
    held = {}
    for dtype in ("none", "fp8_e4m3"):
        model = opentrn.compile(path, weight_dtype=dtype, auto_cast="matmult")
        saved = model.save(tmp_path / f"{dtype}.neuron")
        profile = model.time().profile()
        held[dtype] = {
            "constants": model.constant_bytes,
            "file": saved.stat().st_size,
            "hbm": profile["memory"]["hbm_bytes_used"],
            "read": profile["summary"]["hbm_read_bytes"],
            "time": model.time().time_us,
        }
    for key, most in {"constants": 0.51, "file": 0.55, "hbm": 0.55, "read": 0.55, "time": 0.85}.items():
        assert held["fp8_e4m3"][key] <= most * held["none"][key], (key, held)


def test_what_is_left_is_counted():
    """A small weight, one that something else reads, one with a NaN."""
    w, odd = weight(128, 128), weight(128, 128)
    odd[7, 9] = np.nan
    small = weight(128, 4)
    text = f"""func.func @main(%x: tensor<4x128xf32>)
    -> (tensor<4x128xf32>, tensor<128x128xf32>, tensor<4x128xf32>, tensor<4x4xf32>) {{
  %w = stablehlo.constant {dense(w)} : tensor<128x128xf32>
  %odd = stablehlo.constant {dense(odd)} : tensor<128x128xf32>
  %small = stablehlo.constant {dense(small)} : tensor<128x4xf32>
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<4x128xf32>, tensor<128x128xf32>) -> tensor<4x128xf32>
  %e = stablehlo.exponential %w : tensor<128x128xf32>
  %a = stablehlo.dot_general %x, %odd, contracting_dims = [1] x [0]
    : (tensor<4x128xf32>, tensor<128x128xf32>) -> tensor<4x128xf32>
  %s = stablehlo.dot_general %x, %small, contracting_dims = [1] x [0]
    : (tensor<4x128xf32>, tensor<128x4xf32>) -> tensor<4x4xf32>
  return %y, %e, %a, %s : tensor<4x128xf32>, tensor<128x128xf32>, tensor<4x128xf32>, tensor<4x4xf32>
}}
"""
    passes = opentrn.compile(text, weight_dtype="int8").passes
    counts = {key: passes[f"weights_{key}"] for key in ("quantised", "left_small", "left_not_finite")}
    # %e is folded, so only the product reads %w.
    assert counts == {"quantised": 1, "left_small": 1, "left_not_finite": 1}
    gathered = text.replace("stablehlo.exponential %w", "stablehlo.add %w, %r").replace(
        "%y = ", "%r = stablehlo.broadcast_in_dim %x0, dims = [1] : (tensor<128xf32>) -> tensor<128x128xf32>\n  %y = "
    ).replace("%x: tensor<4x128xf32>)", "%x: tensor<4x128xf32>, %x0: tensor<128xf32>)")  # fmt: skip
    passes = opentrn.compile(gathered, weight_dtype="int8").passes
    assert (passes["weights_quantised"], passes["weights_left_shared"]) == (0, 1)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"weight_dtype": "fp8_e4m3fn"}, "NeuronCore-v3, which has no such format"),
        ({"weight_dtype": "int8", "optlevel": 1}, "weight-dtype with optlevel 1"),
        ({"weight_dtype": "int4"}, "weight-dtype is 'int4'"),
        ({"weight_dtype": "int8", "auto_cast": "all", "auto_cast_type": "fp8_e4m3"}, "a second time"),
    ],
)
def test_what_cannot_be_is_refused(options: dict, words: str):
    with pytest.raises(ValueError, match=words):
        opentrn.compile(
            product(np.zeros((4, 128)), weight(128, 128), dims="contracting_dims = [1] x [0]"), **options
        )


def test_diff_judges_the_quantised_graph_and_says_what_it_costs(tmp_path: Path):
    x, w = RNG.standard_normal((4, 256)).astype(np.float32), weight(256, 64)
    path = tmp_path / "model.mlir"
    path.write_text(product(x, w, dims="contracting_dims = [1] x [0]"))
    report = diff(path, x, weight_dtype="int8")
    assert report.is_clean, report.text()
    cost = report.results[0]["from_model"]
    want = np.linalg.norm(x @ quantised(w, "int8", 0) - x.astype(np.float64) @ w) / np.linalg.norm(x @ w)
    assert cost["relative_rms"] == pytest.approx(want, rel=1e-3) and cost["cosine"] > 0.9999
    assert "relative RMS" in report.text()


def test_command_line(tmp_path: Path, capsys):
    path, _ = step(tmp_path)
    arguments = ["compile", str(path), "--weight-dtype", "int8", "-o", str(tmp_path / "step.neuron")]
    assert cli.main([*arguments, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["weight_dtype"] == "int8" and facts["passes"]["weights_quantised"] == 1
    assert cli.main(arguments) == 0
    assert "weights in int8: 1 constants of products, 8 MiB -> 2.008 MiB" in capsys.readouterr().out
