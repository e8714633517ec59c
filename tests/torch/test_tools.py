"""What stands around torch.compile(backend="neuron"): checking mode, profiled blocks, NEURON_CC_FLAGS."""

from __future__ import annotations

import functools
import inspect
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the backend is torch's")

import opentrn.model.diff  # noqa: E402
import opentrn.torch  # noqa: E402

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("OPENTRN_STRICT", "1")
    torch._dynamo.reset()
    torch.manual_seed(int(RNG.integers(2**31)))
    yield
    torch._dynamo.reset()


def layer(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    hidden = x @ w
    bent = torch.tanh(hidden)
    return bent.softmax(-1)


def trained(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """The gradient of w: both passes run."""
    w = w.detach().requires_grad_()
    torch.compile(layer, backend="neuron")(x, w).square().sum().backward()
    return w.grad


def test_checking_mode_passes_what_only_rounds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    x, w = torch.randn(8, 16), torch.randn(16, 4)
    plain = trained(x, w)
    calls = []
    checked = opentrn.model.diff.diff
    monkeypatch.setattr(opentrn.model.diff, "diff", lambda *a, **k: calls.append(1) or checked(*a, **k))
    monkeypatch.setenv("OPENTRN_CHECK", "1")
    torch._dynamo.reset()
    torch.testing.assert_close(trained(x, w), plain, rtol=0, atol=0)
    assert len(calls) == 2  # forward and backward
    assert "not checked" not in capsys.readouterr().err


def test_checking_mode_names_the_op_and_the_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A device that computes the sine for the tangent."""

    def wrong(source: Path, *arguments: np.ndarray, **options: object) -> opentrn.model.diff.Diff:
        device = tmp_path / "device.mlir"
        device.write_text(source.read_text().replace("stablehlo.tanh", "stablehlo.sine"))
        return right(source, *arguments, device_source=device, **options)

    right = opentrn.model.diff.diff
    monkeypatch.setattr(opentrn.model.diff, "diff", functools.wraps(right)(wrong))
    monkeypatch.setenv("OPENTRN_CHECK", "1")
    lines, first = inspect.getsourcelines(layer)
    line = first + next(number for number, text in enumerate(lines) if "tanh" in text)
    with pytest.raises(ValueError, match="differ from float64's by more than rounding") as error:
        trained(torch.randn(8, 16), torch.randn(16, 4))
    assert "first bug: op" in str(error.value) and "tanh" in str(error.value)
    assert f"{__file__}:{line})" in str(error.value)


def test_a_block_of_a_program_is_summed() -> None:
    x, w = torch.randn(8, 16), torch.randn(16, 4)
    device = torch.compile(layer, backend="neuron")
    device(x, w)
    with opentrn.profile_program() as profile:
        for _ in range(3):
            device(x, w)
        other = torch.compile(lambda x: (x @ x.T).sum(), backend="neuron")
        other(x)
    assert profile.data["runs"] == 4 and [row["runs"] for row in profile.data["programs"]].count(3) == 1
    assert profile.step_us > 0 and 0 < profile.mfu < 1 and profile.host_gap_s > 0
    assert profile.bytes_peak >= 4 * (x.numel() + w.numel())
    assert profile.usd["capacity_block"] > 0
    text = str(profile)
    assert "a step (layer" in text and max(map(len, text.splitlines())) <= 80
    with opentrn.profile_program() as empty:
        pass
    assert empty.data["runs"] == 0
    with opentrn.profile_program(), pytest.raises(RuntimeError, match="profiled already"):
        opentrn.profile_program().__enter__()


def test_steps_of_eager_training_are_by_the_cores_clock() -> None:
    """They were runs of the op that took most: aten::mul."""
    model = torch.nn.Linear(16, 16).to("neuron")
    optimizer, other = (torch.optim.Adam(model.parameters(), lr=0.01) for _ in range(2))

    def step(x: torch.Tensor) -> None:
        optimizer.zero_grad()
        model(x).square().sum().backward()
        optimizer.step()

    x = torch.randn(8, 16).to("neuron")
    step(x)
    before = torch.neuron.simulated_time_us()
    step(x)
    one = torch.neuron.simulated_time_us() - before
    with opentrn.profile_program() as profile:
        for _ in range(4):
            step(x)
        other.step()
        torch.mm(x, x.t())
    assert profile.data["steps"] == 3 and profile.step_us == pytest.approx(one, rel=0.01)
    (clock,) = profile.data["clocks"]
    assert clock["stream_us"] == pytest.approx(profile.beside_us + 3 * profile.step_us)
    assert profile.bytes_peak >= 3 * 4 * 16 * 17  # weights and the optimizer's states
    assert "a step (from one step() of an optimizer to the next)" in str(profile)
    assert max(map(len, str(profile).splitlines())) <= 80
    with opentrn.profile_program() as profile:
        torch.mm(x, x.t())
    assert profile.step_us is None and "a step" not in str(profile)


def test_a_profile_of_ranks_has_all_of_them(tmp_path: Path) -> None:
    """It had the rank that ended last."""
    (tmp_path / "train.py").write_text(
        "import torch, opentrn.torch, torch.distributed as dist\n"
        "dist.init_process_group('neuron')\n"
        "w = torch.nn.Parameter(torch.ones(64, 64, device='neuron'))\n"
        "optimizer = torch.optim.SGD([w], lr=0.1)\n"
        "for _ in range(5):\n"
        "    (w @ w).sum().backward()\n"
        "    dist.all_reduce(w.grad)\n"
        "    optimizer.step()\n"
        "dist.destroy_process_group()\n"
    )
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "train.py"]
    done = subprocess.run(
        [sys.executable, "-m", "opentrn", "profile", "--json", "-", "--", *command],
        cwd=tmp_path, capture_output=True, text=True, timeout=300,
        env={**os.environ, "PYTHONPATH": str(Path(opentrn.__file__).parents[1])},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert (data["cores"], data["ranks"], data["steps"]) == (2, 2, 4)
    assert {row["runs"] for row in data["programs"] if row["name"] == "aten::mm.out"} <= {10, 20}
    alone = sum(row["total_us"] for row in data["programs"]) / 2 / 5
    assert data["step_us"] > 0.8 * alone  # one rank's, with the collective


@pytest.mark.parametrize(
    ("target", "on_demand", "rented"),
    [("trn1.32xlarge", 21.5 / 32, "trn1.32xlarge"), ("inf2", 0.7582 / 2, "inf2.xlarge")],
)
def test_the_price_is_that_of_the_instance_that_is_named(
    target: str, on_demand: float, rented: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", target)
    device = torch.compile(lambda x: torch.tanh(x @ x), backend="neuron")
    with opentrn.profile_program() as profile:
        device(torch.randn(16, 16))
    assert profile.data["target"] == target and profile.data["rented"]["on_demand"] == rented
    assert profile.usd["on_demand"] == pytest.approx(profile.device_us / 3.6e9 * on_demand)
    assert rented in str(profile)


def test_compiler_flags_are_those_of_opentrn_compile(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    x = torch.randn(128, 128)
    exact = x.double() @ x.double()

    def error(flags: str, **options: str) -> float:
        monkeypatch.setenv("NEURON_CC_FLAGS", flags)
        torch._dynamo.reset()
        product = torch.compile(torch.matmul, backend="neuron", options=options)(x, x)
        return float((product.double() - exact).abs().max())

    assert error("") < 1e-4 < error("--auto-cast=matmult")
    assert error("--auto-cast=matmult", auto_cast="none") < 1e-4
    assert error("--auto-cast=all --auto-cast-type fp16 -O1") < 0.5 * error("--auto-cast=all")
    error("--model-type transformer")
    assert "the compiler option --model-type transformer has no effect here" in capsys.readouterr().err
    for flags, why in (("--auto-cats all", "not an option of neuronx-cc"), ("--target trn1", "those of trn2")):
        with pytest.raises(Exception, match=why):
            error(flags)


def test_modes_are_optimisation_levels_or_told_to_have_no_effect(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    levels = []
    right = opentrn.torch.program.Program

    def noting(emitted: object, settings: opentrn.torch.Settings, *more: object) -> object:
        levels.append(settings.optlevel)
        return right(emitted, settings, *more)

    monkeypatch.setattr(opentrn.torch.program, "Program", noting)
    x = torch.ones(4)

    def compiled(mode: str | None) -> torch.Tensor:
        torch._dynamo.reset()
        return torch.compile(lambda x: x + 1, backend="neuron", mode=mode)(x)

    for mode in (None, "default", "max-autotune", "max-autotune-no-cudagraphs"):
        assert torch.equal(compiled(mode), x + 1)
    assert levels == [2, 2, 3, 3]
    assert capsys.readouterr().err == ""
    for _ in range(2):
        assert torch.equal(compiled("reduce-overhead"), x + 1)
    assert capsys.readouterr().err.count("mode 'reduce-overhead' has no effect") == 1
    with pytest.raises(Exception, match=r"no mode 'fast'(.|\n)*try: one of default, max-autotune"):
        compiled("fast")
    with pytest.raises(Exception, match="has no option max_autotune"):
        torch.compile(lambda x: x + 2, backend="neuron", options={"max_autotune": True})(x)
