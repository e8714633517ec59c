"""opentrn.compile on formats other than text: the same program gives the same values by each route."""

from pathlib import Path

import numpy as np
import pytest
from onnx_bytes import field, integers, node, scalar, value_info
from onnx_bytes import model as model_bytes

import opentrn
from opentrn import _core


@pytest.fixture()
def onnx_model(tmp_path: Path) -> Path:
    """relu(x @ w) as ONNX, opset 17, x: [batch, 4] (field numbers of onnx.proto)."""
    weight = np.arange(12, dtype=np.float32).reshape(4, 3) - 5
    initializer = field(1, 4) + field(1, 3) + field(2, 1) + field(8, "w") + field(9, weight.tobytes())
    product = field(1, "x") + field(1, "w") + field(2, "h") + field(3, "product") + field(4, "MatMul")
    relu = field(1, "h") + field(2, "y") + field(3, "relu") + field(4, "Relu")
    graph = (
        field(1, product) + field(1, relu) + field(2, "g") + field(5, initializer)
        + field(11, value_info("x", ["batch", 4])) + field(12, value_info("y", ["batch", 3]))
    )  # fmt: skip
    path = tmp_path / "model.onnx"
    path.write_bytes(field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 17)))
    return path


def test_onnx(onnx_model: Path):
    model = opentrn.compile(onnx_model, dimensions={"batch": 2})
    assert [(port.name, port.shape) for port in (*model.inputs, *model.outputs)] == [
        ("x", (2, 4)),
        ("y", (2, 3)),
    ]
    x = np.array([[1, 2, 3, 4], [-1, 0, 2, 0.5]], np.float32)
    weight = np.arange(12, dtype=np.float32).reshape(4, 3) - 5
    np.testing.assert_allclose(model(x)[0], np.maximum(x @ weight, 0), rtol=1e-6)


@pytest.mark.parametrize(("trips", "wanted"), [(2**63 - 1, 192), (2**40, 192), (3, 24)])
def test_an_onnx_loop_that_its_condition_ends(tmp_path: Path, trips: int, wanted: float):
    """x doubles while it is below 100; exporters write INT64_MAX trips for a while loop."""
    inner = (
        field(1, node("Add", ["v", "v"], ["twice"])) + field(1, node("Less", ["twice", "limit"], ["more"]))
        + field(2, "body") + field(11, value_info("i", [], 7)) + field(11, value_info("go", [], 9))
        + field(11, value_info("v", [])) + field(12, value_info("more", [], 9)) + field(12, value_info("twice", []))
    )  # fmt: skip
    body = field(5, field(1, "body") + field(6, inner) + field(20, 5))
    graph = (
        field(1, node("Less", ["x", "limit"], ["first"]))
        + field(1, node("Loop", ["trips", "first", "x"], ["y"], body)) + field(2, "g")
        + field(5, scalar("trips", 7, trips.to_bytes(8, "little")))
        + field(5, scalar("limit", 1, np.float32(100).tobytes()))
        + field(11, value_info("x", [])) + field(12, value_info("y", []))
    )  # fmt: skip
    path = tmp_path / "loop.onnx"
    path.write_bytes(field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 17)))
    (got,) = opentrn.compile(path)(np.float32(3))
    assert got == wanted


SCOPES = "['', 'model', 'model.encoder.layer', 'model.encoder.layer.0', 'linear_3']"
STACK = (
    'File "app/net.py", line 12, in forward\n    return self.encoder(x)\n'
    '  File "app/block.py", line 7, in forward\n    return self.dense(x)\n'
    '  File "lib/torch/nn/modules/linear.py", line 134, in forward\n    return F.linear(x)'
)


@pytest.mark.parametrize(
    ("scopes", "stack", "name", "place"),
    [
        (SCOPES, STACK, "model/encoder.layer/0/linear_3", "app/block.py:7"),
        ("", "", "relu", ":0"),
        ("['", 'File "x.py", line', "relu", ":0"),  # damaged: left out, not refused
        ("", 'File "lib/torch/functional.py", line 5, in f', "relu", "lib/torch/functional.py:5"),
    ],
)
def test_torchs_metadata_of_onnx_nodes_is_the_location(onnx_model: Path, scopes, stack, name, place):
    """The keys that torch.onnx.export(dynamo=True) writes (torch/onnx/_internal/exporter)."""
    data = onnx_model.read_bytes()
    metadata = b"".join(
        field(9, field(1, f"pkg.torch.onnx.{key}") + field(2, value))
        for key, value in (("name_scopes", scopes), ("stack_trace", stack))
    )
    relu = field(1, "h") + field(2, "y") + field(3, "relu") + field(4, "Relu")
    opset = field(8, field(1, "") + field(2, 17))
    graph = data[data.index(field(1, "x") + field(1, "w")) - 2 : -len(opset)]
    changed = graph.replace(field(1, relu), field(1, relu + metadata))
    onnx_model.write_bytes(field(1, 8) + field(7, changed) + opset)
    prepared = _core.prepare(None, str(onnx_model), "trn2", {"batch": 2}, {})
    _, file, line, function, *_ = _core.observe(prepared).rows[-1]
    assert (function, f"{file}:{line}") == (name, place)


def test_an_open_dimension_is_asked_for(onnx_model: Path):
    with pytest.raises(ValueError, match="batch"):
        opentrn.compile(onnx_model)


def test_bytes_of_no_format_are_refused(tmp_path: Path):
    path = tmp_path / "noise.pb"
    path.write_bytes(bytes(range(256)))
    with pytest.raises(ValueError, match="noise.pb"):
        opentrn.compile(path)


@pytest.mark.parametrize("shape", [(1, 1), (3, 3), (2, 4, 5, 5), (12, 12)])
def test_onnx_determinants(tmp_path: Path, shape):
    path = tmp_path / "det.onnx"
    path.write_bytes(model_bytes([node("Det", ["x"], ["y"])], {"x": shape}, "y", 11))
    x = np.random.default_rng(5).standard_normal(shape).astype(np.float32)
    x[..., 0, 0] = 0  # the first pivot is another row's
    (got,) = opentrn.compile(path, strict=True)(x)
    np.testing.assert_allclose(got, np.linalg.det(x.astype(np.float64)), rtol=2e-5, atol=1e-6)


def pooled(x: np.ndarray, roi: np.ndarray, bins: tuple[int, int], scale: float) -> np.ndarray:
    """One region by ONNX Runtime's rule: edges rounded, bins from floor to ceiling, none is zero."""
    left, top, right, bottom = (int(np.floor(edge * scale + 0.5)) for edge in roi[1:])
    result = np.zeros((x.shape[1], *bins), np.float32)
    steps = max(bottom - top + 1, 1) / bins[0], max(right - left + 1, 1) / bins[1]
    for i, j in np.ndindex(*bins):
        rows = [
            r
            for r in range(x.shape[2])
            if np.floor(i * steps[0]) + top <= r < np.ceil((i + 1) * steps[0]) + top
        ]
        columns = [c for c in range(x.shape[3])
                   if np.floor(j * steps[1]) + left <= c < np.ceil((j + 1) * steps[1]) + left]  # fmt: skip
        if rows and columns:
            result[:, i, j] = x[int(roi[0])][:, rows][:, :, columns].max((1, 2))
    return result


def test_onnx_max_roi_pool(tmp_path: Path):
    rois = [
        [0, 0, 0, 7, 7],
        [1, 2, 3, 9, 8],
        [0, 5, 5, 5, 5],
        [1, 1, 0, 4, 20],
        [0, 9, 9, 2, 2],
        [1, 30, 30, 40, 40],
    ]
    attributes = integers("pooled_shape", [3, 2])
    path = tmp_path / "pool.onnx"
    path.write_bytes(
        model_bytes(
            [node("MaxRoiPool", ["x", "rois"], ["y"], attributes)],
            {"x": (2, 3, 10, 12), "rois": (6, 5)},
            "y",
            7,
        )
    )
    x, regions = np.random.default_rng(6).standard_normal((2, 3, 10, 12)).astype(np.float32), np.float32(rois)
    (got,) = opentrn.compile(path, strict=True)(x, regions)
    np.testing.assert_array_equal(got, np.stack([pooled(x, roi, (3, 2), 1.0) for roi in regions]))
