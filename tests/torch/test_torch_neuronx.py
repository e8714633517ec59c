"""Tests of the stand-in for torch_neuronx: kernels as operators, models ahead of time."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import re
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
    # As programs for AWS's packages have it, by any name of the file.
    torch.jit.save(traced, tmp_path / "model.pt", _extra_files={"note": "of the model"})
    found = {"note": ""}
    torch.testing.assert_close(torch.jit.load(tmp_path / "model.pt", _extra_files=found)(x), model(x).detach())
    assert found == {"note": "of the model"}
    torch.jit.save(torch.jit.trace(model, x), tmp_path / "script.pt")
    torch.testing.assert_close(torch.jit.load(tmp_path / "script.pt")(x), model(x))
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


def profiled(folder: Path, **stated: Any) -> list[Path]:
    """The files of a profile of an op and of a compiled graph, and trace.json first."""
    from torch.profiler import ProfilerActivity, profile

    profiling = importlib.import_module("torch_neuronx.profiling")
    config = profiling.NeuronConfig(profile_output_dir=folder, **stated)
    x = torch.randn(16, 16, device="neuron")
    torch._dynamo.reset()
    compiled = torch.compile(profiled_sine, backend="neuron")
    for _ in range(2):
        compiled(x), torch.mm(x, x)
    torch.mv(x, x[0])  # before the profile
    with profile(
        activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1],
        experimental_config=config,
        on_trace_ready=profiling.NeuronProfiler(config).export_trace,
    ):
        compiled(x), torch.mm(x, x)
        torch.neuron.synchronize()
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return sorted(files, key=lambda path: path.name != "trace.json")


def profiled_sine(x: torch.Tensor) -> torch.Tensor:
    return x.sin() + 1


def test_a_profile_has_torchs_trace_and_timelines_of_the_programs_in_it(tmp_path: Path) -> None:
    trace, *timelines = profiled(tmp_path / "a")
    names = " ".join(each.name for each in timelines)
    assert re.fullmatch(r"nc_0_aten_mm_out\.json nc_0_profiled_sine_\d+_inference\.json", names)
    events = json.loads(trace.read_text())["traceEvents"]
    programs = {each["name"]: each["dur"] for each in events if each.get("cat") == "kernel"}
    assert re.fullmatch(r"aten::mm.out profiled_sine_\d+_inference", " ".join(sorted(programs)))
    for path, name in zip(timelines, sorted(programs)):
        steps = [each for each in json.loads(path.read_text())["traceEvents"] if each["ph"] == "X"]
        ends = max(each["ts"] + each["dur"] for each in steps)
        assert 0 < ends <= programs[name]  # which has the launch too
    few = profiled(tmp_path / "b", max_events_per_nc=2, capture_enabled_for_nc="0,4-5")
    assert len(few) == 3
    for path in few[1:]:
        assert sum(each["ph"] == "X" for each in json.loads(path.read_text())["traceEvents"]) in (2, 3)
    assert [path.name for path in profiled(tmp_path / "c", capture_enabled_for_nc="1-3")] == ["trace.json"]


def test_profile_modes_act_or_are_told(tmp_path: Path) -> None:
    """modes, capture_enabled_for_nc, max_events_per_nc, neff_cache_dir, precache_node_info."""
    profiling = importlib.import_module("torch_neuronx.profiling")
    modes = profiling.ProfileMode
    only = profiled(tmp_path / "device", modes=[modes.DEVICE])
    assert len(only) == 3
    assert not any(each.get("cat") == "kernel" for each in json.loads(only[0].read_text())["traceEvents"])
    assert len(profiled(tmp_path / "runtime", modes=[modes.RUNTIME])) == 1
    with pytest.warns(UserWarning, match="nothing is written for CPU_UTIL and HOST_MEMORY"):
        profiling.NeuronConfig(modes=list(modes))
    with pytest.warns(UserWarning, match="no effect"):
        profiling.NeuronConfig(neff_cache_dir="x")
    with pytest.warns(UserWarning, match="no effect"):
        profiling.NeuronConfig(precache_node_info=False)
    for wrong, says in (
        ({"modes": ["DEVICE"]}, "'DEVICE' is no ProfileMode"),
        ({"capture_enabled_for_nc": "0-"}, "no core and no range"),
        ({"capture_enabled_for_nc": "3-1"}, "no core and no range"),
        ({"max_events_per_nc": 0}, "is a number of events"),
    ):
        with pytest.raises(InputError, match=says):
            profiling.NeuronConfig(**wrong)
    with pytest.raises(InputError, match="takes a NeuronConfig, not a dict"):
        profiling.NeuronProfiler({})


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
