"""Pooling with strides, padding, dilation and ceil mode, with places and gradients, beside eager PyTorch."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402

import opentrn.torch  # noqa: E402, F401

FORMS = [
    {"kernel_size": 3, "stride": 2, "padding": 1},
    {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True},
    {"kernel_size": 2, "stride": 3, "padding": 1, "ceil_mode": True},  # some elements lie in no window
    {"kernel_size": (3, 2), "stride": (2, 3), "padding": (1, 0), "ceil_mode": True},
    {"kernel_size": 5, "stride": 3, "padding": 2},
    {"kernel_size": 1, "stride": 2},
    {"kernel_size": 3, "stride": 1, "padding": 1},
]


def both(function: Any, x: torch.Tensor) -> list[tuple[torch.Tensor, ...]]:
    """(result, places or nothing, gradient) of eager PyTorch and of the device."""
    found = []
    torch._dynamo.reset()
    for call in (function, torch.compile(function, backend="neuron")):
        given = x.clone().requires_grad_()
        made = call(given)
        result, *places = made if isinstance(made, tuple) else (made,)
        weights = torch.linspace(-1, 2, result.numel()).reshape(result.shape)
        (result * weights).sum().backward()
        found.append((result.detach(), *places, given.grad))
    return found


def same(function: Any, x: torch.Tensor) -> None:
    for wanted, given in zip(*both(function, x), strict=True):
        torch.testing.assert_close(given, wanted, rtol=1e-5, atol=1e-5, equal_nan=True)


def image(*shape: int) -> torch.Tensor:
    """Few different numbers: windows have several maxima, of which the first counts."""
    return torch.randint(0, 5, shape, generator=torch.Generator().manual_seed(1)).float()


@pytest.mark.parametrize("form", [*FORMS, {"kernel_size": 3, "stride": 2, "padding": 1, "dilation": 2}])
def test_maxima_their_places_and_gradients(form: dict[str, Any]):
    same(lambda x: F.max_pool2d(x, return_indices=True, **form), image(2, 3, 17, 19))


@pytest.mark.parametrize("counts", [True, False])
@pytest.mark.parametrize("form", FORMS)
def test_means_and_their_gradients(form: dict[str, Any], counts: bool):
    same(lambda x: F.avg_pool2d(x, count_include_pad=counts, **form), image(2, 3, 17, 19))


@pytest.mark.parametrize("form", [{"kernel_size": 3, "stride": 2, "padding": 1},
                                  {"kernel_size": (3, 1, 1), "stride": (2, 1, 1), "padding": (1, 0, 0)},
                                  {"kernel_size": (1, 3, 3), "stride": (1, 2, 2), "padding": (0, 1, 1)}])  # fmt: skip
def test_three_dimensions(form: dict[str, Any]):
    same(lambda x: F.max_pool3d(x, return_indices=True, **form), image(1, 2, 7, 9, 8))
    same(lambda x: F.max_pool3d(x, **form), image(1, 2, 7, 9, 8))
    same(lambda x: F.avg_pool3d(x, **form), image(1, 2, 7, 9, 8))


def test_nan_and_the_lowest_number():
    x = image(2, 3, 17, 19)
    x[0, 0, 3, 4], x[1, 1] = float("nan"), -float("inf")
    same(lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True), x)


def test_strides_are_no_single_elements():
    """Nine strided slices, and what they send back put between zeros: 1.92 and 1.51 ms."""
    step = torch.compile(lambda x: F.max_pool2d(x, 3, 2, 1), backend="neuron")
    x = torch.randn(8, 64, 56, 56, requires_grad=True)
    step(x).sum().backward()
    with opentrn.profile_program() as profile:
        step(x).sum().backward()
    assert profile.device_us < 1200
