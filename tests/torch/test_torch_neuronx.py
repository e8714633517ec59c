"""Tests of the stand-in for torch_neuronx: kernels as operators, models ahead of time."""

from __future__ import annotations

import importlib
import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the device is torch's")
import opentrn  # noqa: E402
import opentrn.torch  # noqa: E402
from opentrn import nki  # noqa: E402
from opentrn.errors import InputError  # noqa: E402
from opentrn.nki import isa as nisa  # noqa: E402
from opentrn.nki import language as nl  # noqa: E402

if opentrn.activate(("torch_neuronx",))["torch_neuronx"] != "opentrn":
    pytest.skip("AWS's torch_neuronx is installed", allow_module_level=True)
neuronx: Any = importlib.import_module("torch_neuronx")


@nki.jit
def added(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    left = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    right = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=left, src=a)
    nisa.dma_copy(dst=right, src=b)
    nisa.tensor_tensor(dst=left, data1=left, data2=right, op=nl.add)
    nisa.dma_copy(dst=out, src=left)
    return out


@neuronx.nki_op("opentrn_test::added", mutates_args={})
def added_op(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return neuronx.wrap_nki(added)(a, b)


added_op.register_autograd(lambda context, gradient: (gradient, gradient))


def test_a_kernel_is_an_operator_on_the_device_in_eager_mode_and_compiled() -> None:
    x, y = torch.randn(128, 16), torch.randn(128, 16)
    a, b = x.to("neuron").requires_grad_(), y.to("neuron")
    before = torch.neuron.simulated_time_us()
    out = added_op(a, b)
    assert out.device.type == "neuron" and torch.equal(out.detach().cpu(), x + y)
    assert torch.neuron.simulated_time_us() > before
    (out * 2).sum().backward()
    assert torch.equal(a.grad.cpu(), torch.full((128, 16), 2.0))
    compiled = torch.compile(lambda a, b: added_op(a, b) * 2, backend="neuron", fullgraph=True)
    np.testing.assert_allclose(compiled(a.detach(), b).cpu(), (x + y) * 2, rtol=1e-6)
    with pytest.raises(TypeError, match="wrap_nki takes a kernel of @nki.jit, not a function"):
        neuronx.wrap_nki(lambda x: x)


def test_a_traced_model_is_saved_and_takes_what_it_was_traced_for(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    x = torch.randn(3, 8)
    traced = neuronx.trace(model, x, compiler_args="--optlevel=1")
    torch.testing.assert_close(traced(x), model(x).detach())
    with pytest.raises(InputError, match=r"input 0 is torch.float32 \[7, 8\]; the model was traced with .* \[3, 8\]"):
        traced(torch.randn(7, 8))
    neuronx.dynamic_batch(traced)
    neuronx.lazy_load(traced)
    torch.jit.save(traced, tmp_path / "model.pt2")
    loaded = neuronx.load(tmp_path / "model.pt2")
    more = torch.randn(7, 8)
    torch.testing.assert_close(loaded(more), model(more).detach())
    both = neuronx.DataParallel(loaded, device_ids=[0])
    torch.testing.assert_close(both(more), model(more).detach())
    with pytest.raises(InputError, match="there is no core"):
        neuronx.DataParallel(loaded, device_ids=[7])
    (tmp_path / "no.pt2").write_bytes(b"nothing")
    with pytest.raises(InputError, match="is not a traced model"):
        neuronx.load(tmp_path / "no.pt2")


def test_keywords_act_or_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """compiler_workdir, inline_weights_to_neff, set_dynamic_batching, enable_lazy_load, enable_async_load, dim."""
    x = torch.randn(4, 8)
    model = torch.nn.Linear(8, 8)
    with pytest.warns(UserWarning, match="compiler_workdir has no effect"):
        neuronx.trace(model, x, compiler_workdir=str(tmp_path))
    with pytest.warns(UserWarning, match="inline_weights_to_neff has no effect"):
        traced = neuronx.trace(model, x, inline_weights_to_neff=False)
    more = torch.randn(8, 8)
    wide = neuronx.DataParallel(traced, device_ids=[0])
    torch.testing.assert_close(wide(more), model(more).detach())
    with pytest.raises(InputError, match=r"input 0 is torch.float32 \[8, 8\]"):
        neuronx.DataParallel(traced, device_ids=[0], set_dynamic_batching=False)(more)
    with pytest.raises(InputError, match=r"input 0 is torch.float32 \[4, 16\]"):
        neuronx.DataParallel(traced, device_ids=[0], dim=1)(torch.randn(4, 16))

    def loads(**how: bool) -> tuple[bool, bool]:
        """(whether load() compiles, whether it does so in another thread)"""
        for name, value in how.items():
            getattr(neuronx, name)(traced, value)
        neuronx.save(traced, tmp_path / "model.pt2")
        loaded = neuronx.load(tmp_path / "model.pt2")
        beside = loaded._loading is not None
        if beside:
            loaded._loading.join()
        return bool(loaded._runs), beside

    assert loads(lazy_load=False, async_load=False) == (True, False)
    assert loads(lazy_load=True) == (False, False)
    assert loads(lazy_load=False, async_load=True) == (True, True)


def test_an_operator_says_what_it_changes() -> None:
    """mutates_args is of torch's schema."""
    for name, changed, mark in (("one", ["a"], "a!"), ("two", (), "")):
        made = neuronx.nki_op(f"opentrn_keywords::{name}", lambda_of(changed), mutates_args=changed)
        schema = str(made._opoverload._schema)
        assert ("!" in schema) == bool(mark), schema


def lambda_of(changed: Any) -> Any:
    if changed:

        def change(a: torch.Tensor, b: torch.Tensor) -> None:
            a.copy_(b)

        return change

    def keep(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return neuronx.wrap_nki(added)(a, b)

    return keep


def test_other_names_are_refused_by_name() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'xla_impl'.* trace"):
        neuronx.xla_impl  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'analyze'"):
        exec("from torch_neuronx import analyze")


def test_a_variable_makes_it_importable_in_every_process() -> None:
    program = "import torch, opentrn.autoload as a; a.torch_device(); import torch_neuronx"
    for value, code in (("1", 0), ("", 1)):
        done = subprocess.run(
            [sys.executable, "-c", program], env={**os.environ, "OPENTRN_ACTIVATE": value}, text=True,
            capture_output=True, check=False,
        )  # fmt: skip
        assert done.returncode == code, done.stderr
