"""NEURON_PLATFORM_TARGET_OVERRIDE means the same on every way to a device; a target that is given wins and says so."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import warnings

import numpy as np
import pytest

import opentrn
from opentrn import nki, nki_legacy
from opentrn.errors import TargetWarning
from opentrn.kernel import trace as kernel_call
from opentrn.nki import isa as nisa
from opentrn.nki import language as nl
from opentrn.nki_legacy import language as legacy_nl
from opentrn.settings import environment
from tests.package import PYTHON

X = np.ones((128, 8), np.float32)
MODEL = """
func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = stablehlo.add %x, %x : tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
"""
seen: list[int] = []


@nki.jit
def kernel(x):
    seen.append(nisa.get_nc_version().value)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=x)
    return out


@nki_legacy.jit
def legacy(x):
    seen.append(nki_legacy.isa.get_nc_version().value)
    out = legacy_nl.ndarray(x.shape, dtype=x.dtype, buffer=legacy_nl.shared_hbm)
    legacy_nl.store(out, legacy_nl.load(x))
    return out


WAYS = {
    "call": lambda: kernel(X),
    "simulate": lambda: nki.simulate(kernel)(X),
    "run": lambda: opentrn.run(kernel, X),
    "run without values": lambda: opentrn.run(kernel, X, execute=False),
    "legacy call": lambda: legacy(X),
    "legacy run": lambda: opentrn.run(legacy, X),
    "kernel in a model": lambda: kernel_call.trace(kernel, X),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("target", "version"), [("trn3", 4), ("trn1", 2), ("trn2.48xlarge", 3)])
def test_every_way_takes_the_environments_target(way, target, version, monkeypatch):
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", target)
    seen.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error", TargetWarning)
        WAYS[way]()
    assert seen == [version]


def test_models_take_it_too(monkeypatch):
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn3")
    assert opentrn.compile(MODEL).target == "trn3"
    with pytest.warns(TargetWarning, match="NEURON_PLATFORM_TARGET_OVERRIDE is trn3, the target is trn1"):
        assert opentrn.compile(MODEL, target="trn1").target == "trn1"
    monkeypatch.delenv("NEURON_PLATFORM_TARGET_OVERRIDE")
    assert opentrn.compile(MODEL).target == "trn2"


def test_a_given_target_wins_and_says_so(monkeypatch):
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn3")
    seen.clear()
    with pytest.warns(TargetWarning, match="is trn3, the target is trn2: a target that is given wins"):
        assert opentrn.run(kernel, X, target="trn2").target == "trn2"
    with warnings.catch_warnings():
        warnings.simplefilter("error", TargetWarning)
        opentrn.run(kernel, X, target="gen4")  # the same generation by another name
    assert seen == [3, 4]


def test_the_decorators_target_is_taken_where_none_is_given(monkeypatch):
    monkeypatch.delenv("NEURON_PLATFORM_TARGET_OVERRIDE", raising=False)
    seen.clear()
    of_trn1 = nki_legacy.jit(legacy.func, platform_target="trn1")
    opentrn.run(of_trn1, X)
    opentrn.run(of_trn1, X, target="trn2")
    opentrn.run(legacy, X)
    assert seen == [2, 3, 3]
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn2")
    with pytest.warns(TargetWarning, match="the target is trn1: the target of the kernel's decorator wins"):
        opentrn.run(of_trn1, X)


def test_a_name_that_is_no_target_is_refused_with_the_variable(monkeypatch):
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn22")
    with pytest.raises(ValueError, match="NEURON_PLATFORM_TARGET_OVERRIDE='trn22'"):
        opentrn.run(kernel, X)
    with pytest.raises(ValueError, match="NEURON_PLATFORM_TARGET_OVERRIDE='trn22'"):
        environment.target("trn2")


def command(*words: str, **variables: str) -> subprocess.CompletedProcess:
    environ = dict(os.environ, PYTHONPATH=str(PYTHON), **variables)
    return subprocess.run([sys.executable, "-m", "opentrn", *words], env=environ, capture_output=True, text=True)


def test_the_command_line_does_the_same(tmp_path):
    (tmp_path / "k.py").write_text(
        textwrap.dedent("""
        import nki, nki.isa as nisa, nki.language as nl

        @nki.jit
        def kernel(x):
            print(nisa.get_nc_version())
            out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
            nisa.dma_copy(dst=out, src=x)
            return out
        """)
    )
    (tmp_path / "m.mlir").write_text(MODEL)
    path, model = f"{tmp_path}/k.py:kernel", str(tmp_path / "m.mlir")
    override = {"NEURON_PLATFORM_TARGET_OVERRIDE": "trn3"}
    inputs = ("-i", "x=128x8:float32")
    done = command("run", path, *inputs, **override)
    assert done.returncode == 0 and "gen4" in done.stdout and "on trn3" in done.stdout, done.stderr
    done = command("run", path, *inputs, "--target", "trn2", **override)
    assert "gen3" in done.stdout and "on trn2" in done.stdout
    assert "opentrn: warning: NEURON_PLATFORM_TARGET_OVERRIDE is trn3, the target is trn2" in done.stderr
    done = command("compile", model, "--json", "-o", str(tmp_path / "m.neuron"), **override)
    assert json.loads(done.stdout)["target"] == "trn3", done.stderr
