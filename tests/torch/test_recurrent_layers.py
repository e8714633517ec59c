"""Exported recurrent layers are loops over time, beside eager PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the layers are torch's")

from torch import nn  # noqa: E402

import opentrn  # noqa: E402

ATOL = 2e-6  # values are at most 1, or sums of few of them


class Layers(nn.Module):
    """A recurrent module whose states are given, and are results as well."""

    def __init__(self, layers: nn.Module) -> None:
        super().__init__()
        self.layers = layers

    def forward(self, x: torch.Tensor, *states: torch.Tensor) -> tuple[torch.Tensor, ...]:
        output, last = self.layers(x, states if len(states) > 1 else states[0])
        return (output, *(last if isinstance(last, tuple) else (last,)))


LSTM, GRU, RNN = nn.LSTM, nn.GRU, nn.RNN
CASES = [
    (LSTM, {}, 5, 3),
    (LSTM, {"bidirectional": True}, 66, 2),
    (LSTM, {"num_layers": 2, "bidirectional": True, "proj_size": 3}, 4, 2),
    (LSTM, {"bias": False, "batch_first": True, "proj_size": 5}, 9, 1),
    (GRU, {}, 5, 3),
    (GRU, {"num_layers": 2, "bidirectional": True, "batch_first": True}, 7, 2),
    (GRU, {"bias": False, "bidirectional": True}, 1, 1),
    (RNN, {"num_layers": 3}, 6, 2),
    (RNN, {"nonlinearity": "relu", "bidirectional": True}, 4, 1),
    (RNN, {"nonlinearity": "relu", "bias": False, "batch_first": True}, 2, 2),
]


@pytest.mark.parametrize(("kind", "options", "steps", "batch"), CASES)
def test_values_are_those_of_torch(kind: type[nn.Module], options: dict[str, object], steps: int, batch: int) -> None:
    torch.manual_seed(0)
    layers = kind(6, 8, **options)
    count = layers.num_layers * (2 if layers.bidirectional else 1)
    states = [torch.randn(count, batch, getattr(layers, "proj_size", 0) or 8)]
    if kind is LSTM:
        states.append(torch.randn(count, batch, 8))
    x = torch.randn(batch, steps, 6) if layers.batch_first else torch.randn(steps, batch, 6)
    model = Layers(layers).eval()
    compiled = opentrn.compile(torch.export.export(model, (x, *states)))
    made = compiled(x.numpy(), *(state.numpy() for state in states))
    for got, want in zip(made, model(x, *states), strict=True):
        np.testing.assert_allclose(got, want.detach().numpy(), rtol=0, atol=ATOL)


class Tagger(nn.Module):
    """The states begin with zeros; the layers are between others."""

    def __init__(self, layers: int = 1, dropout: float = 0) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 6)
        self.layers = nn.LSTM(6, 8, layers, bidirectional=True, batch_first=True, dropout=dropout)
        self.head = nn.Linear(16, 5)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.head(self.layers(self.embedding(tokens))[0])
        return made


def test_a_longer_sequence_is_no_longer_program() -> None:
    torch.manual_seed(1)
    model, lengths = Tagger().eval(), []
    for steps in (70, 90):
        tokens = torch.randint(0, 20, (2, steps))
        compiled = opentrn.compile(torch.export.export(model, (tokens,)))
        np.testing.assert_allclose(compiled(tokens.numpy())[0], model(tokens).detach().numpy(), rtol=0, atol=ATOL)
        lengths.append(compiled.program_text().count("loop_begin"))
    assert lengths == [1, 1]  # both directions together


def test_elements_dropped_between_layers_are_torchs_form() -> None:
    model, tokens = Tagger(2, dropout=0.5).train(), torch.randint(0, 20, (2, 4))
    made = opentrn.compile(torch.export.export(model, (tokens,)))(tokens.numpy())[0]
    assert made.shape == (2, 4, 5) and np.isfinite(made).all()
