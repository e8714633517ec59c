"""Compiled callables that torch does not hand to the backend: recurrent layers reach it, the others are told."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the backend is torch's")
from torch import nn  # noqa: E402

import opentrn  # noqa: E402
import opentrn.torch  # noqa: E402
from opentrn.torch import NoDeviceForm, skipped  # noqa: E402


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("OPENTRN_STRICT", "1")
    skipped.forget()
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()
    skipped.forget()


class Tagger(nn.Module):
    """A recurrent layer in a module of the user's, and a linear one."""

    def __init__(self, layer: nn.Module, width: int) -> None:
        super().__init__()
        self.layer, self.head = layer, nn.Linear(width, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.layer(x)[0])


def runs(profile: Any) -> int:
    return int(sum(row["runs"] for row in profile.data["programs"]))


LAYERS = {
    "lstm": lambda: nn.LSTM(6, 8, batch_first=True),
    "lstm of two layers, both ways": lambda: nn.LSTM(
        6, 8, num_layers=2, bidirectional=True, batch_first=True
    ),
    "lstm with a projection": lambda: nn.LSTM(6, 8, proj_size=4, batch_first=True),
    "gru": lambda: nn.GRU(6, 8, batch_first=True),
    "gru without bias": lambda: nn.GRU(6, 8, bias=False, batch_first=True),
    "rnn": lambda: nn.RNN(6, 8, batch_first=True),
    "rnn with relu": lambda: nn.RNN(6, 8, nonlinearity="relu", batch_first=True),
}


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("is_alone", [True, False])
def test_recurrent_layers_run_on_the_device(name: str, is_alone: bool) -> None:
    layer = LAYERS[name]()
    x = torch.randn(2, 5, 6)
    width = layer(x)[0].shape[-1]
    model = layer if is_alone else Tagger(layer, width)
    other = copy.deepcopy(model)
    forward = torch.compile(other, backend="neuron")
    results = []
    with opentrn.profile_program() as profile:
        for each, call in ((model, model), (other, forward)):
            given = x.clone().requires_grad_()
            out = call(given)
            out = out[0] if is_alone else out
            out.square().sum().backward()
            results.append([out.detach(), given.grad, *(p.grad for p in each.parameters())])
    torch.testing.assert_close(results[1], results[0], rtol=1e-4, atol=1e-5)
    assert runs(profile) == 2  # forward and backward
    with torch.no_grad():
        torch.testing.assert_close(forward(x), model(x), rtol=1e-4, atol=1e-5)


def test_initial_states_and_autocast() -> None:
    layer = nn.LSTM(6, 8, batch_first=True)
    x, state = torch.randn(2, 5, 6), (torch.randn(1, 2, 8), torch.randn(1, 2, 8))
    compiled = torch.compile(layer, backend="neuron")
    torch.testing.assert_close(compiled(x, state), layer(x, state), rtol=1e-4, atol=1e-5)
    with torch.no_grad():
        wanted = layer(x)[0]  # in float32: oneDNN has no LSTM in bf16 for every processor
        with torch.autocast("cpu", dtype=torch.bfloat16):
            given = compiled(x)[0]
    torch.testing.assert_close(given.float(), wanted, rtol=3e-2, atol=3e-2)


def test_dynamo_settings_are_those_of_before() -> None:
    torch.compile(nn.LSTM(2, 2), backend="neuron")(torch.ones(3, 1, 2))
    assert not torch._dynamo.config.allow_rnn
    assert torch.backends.mkldnn.enabled


def in_a_context(x: torch.Tensor) -> torch.Tensor:
    """Dynamo resumes nowhere in a context of a kind that it does not know."""
    with open(os.devnull) as file:
        y = x + 1
        file.readable()
    return y


def test_a_function_that_dynamo_skips_is_told_once(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENTRN_STRICT", "0")
    compiled = torch.compile(in_a_context, backend="neuron")
    for _ in range(3):
        torch.testing.assert_close(compiled(torch.ones(2)), torch.full((2,), 2.0))
    told = capfd.readouterr().err
    assert told.count("in_a_context runs on the host, all of it") == 1
    assert f"at {__file__}:" in told and "dynamo skipped" in told and "try:" in told


def test_a_function_that_dynamo_skips_is_an_error_when_strict() -> None:
    compiled = torch.compile(in_a_context, backend="neuron")
    for _ in range(2):  # dynamo says why only once
        with pytest.raises(NoDeviceForm, match=r"\[torch.skipped\].*in_a_context"):
            compiled(torch.ones(2))


def test_strict_as_an_option(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENTRN_STRICT")
    with pytest.raises(NoDeviceForm, match="in_a_context"):
        torch.compile(in_a_context, backend="neuron", options={"strict": True})(torch.ones(2))


@pytest.fixture
def _process_group() -> Iterator[None]:
    distributed = torch.distributed
    if not distributed.is_available() or not distributed.is_gloo_available():
        pytest.skip("this torch has no gloo")
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


@pytest.mark.usefixtures("_process_group")
def test_layers_of_torch_in_data_parallel_are_told() -> None:
    model, x = nn.Sequential(nn.Linear(4, 4), nn.ReLU()), torch.randn(2, 4)
    parallel = nn.parallel.DistributedDataParallel
    with pytest.raises(NoDeviceForm, match=r"DistributedDataParallel runs on the host(.|\n)*compile before"):
        torch.compile(parallel(model), backend="neuron")(x)
    with opentrn.profile_program() as profile:  # what the message advises
        out = parallel(torch.compile(model, backend="neuron"))(x)
    torch.testing.assert_close(out, model(x))
    assert runs(profile) == 1


def nothing_to_do(x: Any) -> Any:
    return x


@pytest.mark.parametrize(
    "call",
    [
        lambda: torch.compile(nothing_to_do, backend="neuron")(torch.ones(2)),
        lambda: torch.compile(lambda x: x.shape[0], backend="neuron")(torch.ones(2)),
        lambda: torch.compile(lambda text: text.upper(), backend="neuron")("x"),
        lambda: torch.compile(nn.Identity(), backend="neuron")(torch.ones(2)),
        lambda: torch.compile(torch.optim.SGD([nn.Parameter(torch.ones(2))]).step, backend="neuron")(),
    ],
)
def test_nothing_is_told_where_there_is_nothing_to_compile(
    call: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    call()
    call()
    assert "opentrn:" not in capfd.readouterr().err


def test_a_user_who_asks_for_eager_gets_it() -> None:
    compiled = torch.compile(in_a_context, backend="neuron")
    with torch.compiler.set_stance("force_eager"):
        torch.testing.assert_close(compiled(torch.ones(2)), torch.full((2,), 2.0))


def test_an_error_of_the_users_stays_that() -> None:
    def failing(x: torch.Tensor) -> torch.Tensor:
        with open(os.devnull):
            raise RuntimeError("of the user's")

    with pytest.raises(RuntimeError, match="of the user's"):
        torch.compile(failing, backend="neuron")(torch.ones(2))


def much_on_a_line(x: torch.Tensor) -> torch.Tensor:
    return x[x > 0] * 2 + 0 * (x.sum() + x.mean() + x.abs().sum() + x.exp().sum() + x.tanh().sum() + x.cos().sum())


def test_a_long_line_is_told_by_its_beginning(capfd: pytest.CaptureFixture[str]) -> None:
    torch.compile(much_on_a_line, backend="neuron")(torch.randn(8, 8))
    said = capfd.readouterr().err
    assert ": return x[x > 0] * 2 + 0 * (x.sum() + x.mean()" in said and "x.cos()" not in said and "...\n" in said


def positive(x: torch.Tensor) -> torch.Tensor:
    chosen = x[x > 0]  # the graph ends here
    return chosen * 2


def test_what_a_line_between_two_graphs_computes_is_told_once(capfd: pytest.CaptureFixture[str]) -> None:
    x = torch.randn(8, 8)
    compiled = torch.compile(positive, backend="neuron")
    for _ in range(2):
        torch.testing.assert_close(compiled(x), positive(x))
    said = capfd.readouterr().err
    assert said.count("opentrn: a graph ends at ") == 1
    assert f"{__file__}:" in said and "x[x > 0]  # the graph ends here" in said
    assert "it computes on the host (Dynamic shape operator)" in said


def test_a_line_between_two_graphs_of_device_tensors_says_nothing_of_the_kind(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They stay on the device; an op without a program there tells itself."""
    monkeypatch.delenv("OPENTRN_STRICT")
    x = torch.randn(8, 8).to("neuron")
    torch.compile(lambda x: x[x > 0] * 2, backend="neuron")(x)
    assert "a graph ends at" not in capfd.readouterr().err


@pytest.mark.usefixtures("_process_group")
def test_a_sharded_module_that_dynamo_skips_stays_on_the_device(capfd: pytest.CaptureFixture[str]) -> None:
    """fully_shard moves a model to the device: nothing runs on the host, which OPENTRN_STRICT=1 would refuse."""
    from torch.distributed.fsdp import fully_shard

    model = nn.Sequential(nn.Linear(4, 3), nn.GELU())
    fully_shard(model[0])
    fully_shard(model)
    with opentrn.profile_program() as profile:
        result = torch.compile(model, backend="neuron")(torch.randn(2, 4))
    assert result.device.type == "neuron" and " 0 program runs" not in str(profile)
    said = capfd.readouterr().err
    assert "is not compiled, its ops are programs of the core one by one" in said and "on the host" not in said
