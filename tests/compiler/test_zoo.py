"""Small versions of conformance/models' JAX architectures, as the StableHLO text that JAX 0.10.2 printed of them.

The reference is the graph's evaluator in float64; `./dev conformance models` compares with XLA, ONNX Runtime and
PyTorch, at full size too.
"""

from pathlib import Path

import numpy as np
import pytest

import opentrn
from opentrn import graph

FOLDER = Path(__file__).parent / "zoo"


def arguments_of(model: opentrn.CompiledModel) -> list[np.ndarray]:
    """Weights scaled as conformance/models does it, token ids, a mask."""
    random = np.random.default_rng(5)
    arrays = []
    for port in model.inputs:
        if port.dtype.kind == "b":
            arrays.append(np.arange(port.shape[0]) < port.shape[0] * 3 // 4)
        elif port.dtype.kind == "i":
            arrays.append(random.integers(0, 400, port.shape).astype(port.dtype))
        else:
            scale = (port.shape[-2] if len(port.shape) > 1 else 100) ** -0.5
            arrays.append((random.standard_normal(port.shape) * scale).astype(port.dtype))
    return arrays


@pytest.mark.parametrize("name", ["llama", "bert-large", "resnet50"])
def test_small_architecture(name: str):
    path = FOLDER / f"{name}.mlir"
    model = opentrn.compile(path)
    arrays = arguments_of(model)
    (got,) = model(*arrays)
    (want,) = graph.parse(path.read_text()).evaluate(*arrays, float64=True)
    assert np.abs(want).max() > 0.01
    np.testing.assert_allclose(got, want, rtol=0, atol=5e-6 * np.abs(want).max())
