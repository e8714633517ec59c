"""Interpolation, maximum pooling, unfold and fold against eager torch: values, gradients, cost on the device."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import pytest

torch = pytest.importorskip("torch", reason="the backend is torch's")
from torch.nn import functional as F  # noqa: E402

import opentrn  # noqa: E402
import opentrn.torch  # noqa: E402


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("OPENTRN_STRICT", "1")
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


SIZES = {
    "twice": {"scale_factor": 2},
    "a factor that is not whole": {"scale_factor": 1.7},
    "a factor that is recomputed": {"scale_factor": 1.7, "recompute_scale_factor": True},
    "smaller": {"size": 4},
    "one": {"size": 1},
    "the same": {"size": 9},
}
MODES = {
    "linear": (2, 3, 9),
    "bilinear": (2, 3, 9, 9),
    "bicubic": (2, 3, 9, 9),
    "trilinear": (1, 2, 9, 9, 9),
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_interpolation(mode: str, align_corners: bool, size: str) -> None:
    compare(lambda x: F.interpolate(x, mode=mode, align_corners=align_corners, **SIZES[size]), MODES[mode])


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("size", [(4, 5), (20, 3), (9, 9)])
@pytest.mark.parametrize("align_corners", [False, True])
def test_antialiasing(mode: str, size: tuple[int, int], align_corners: bool) -> None:
    compare(
        lambda x: F.interpolate(x, mode=mode, size=size, antialias=True, align_corners=align_corners),
        (2, 3, 9, 7),
    )


def compare(function: Callable[[torch.Tensor], torch.Tensor], shape: tuple[int, ...]) -> None:
    results = []
    x = torch.randn(shape)
    compiled = torch.compile(function, backend="neuron", fullgraph=True)
    for call in (function, compiled):
        given = x.clone().requires_grad_()
        out = call(given)
        (out * torch.linspace(0.5, 1.5, out.numel()).reshape(out.shape)).sum().backward()
        results.append((out.detach(), given.grad))
    torch.testing.assert_close(results[1], results[0], rtol=1e-4, atol=1e-5)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), results[0][0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mode", ["linear", "bilinear", "bicubic", "trilinear"])
def test_interpolation_to_an_open_size(mode: str) -> None:
    shape = MODES[mode]

    def resize(x: torch.Tensor, size: list[int]) -> torch.Tensor:
        return F.interpolate(x, size=[extent + 1 for extent in size], mode=mode)

    compiled = torch.compile(resize, backend="neuron", dynamic=True)
    for extent in (6, 9):
        size = [extent] * (len(shape) - 2)
        x, y = (torch.randn(shape, generator=torch.manual_seed(3), requires_grad=True) for _ in range(2))
        given, wanted = compiled(x, size), resize(y, size)
        torch.testing.assert_close(given, wanted, rtol=1e-5, atol=1e-5)
        for each in given, wanted:
            (each * torch.linspace(-1, 1, each.numel()).reshape(each.shape)).sum().backward()
        torch.testing.assert_close(x.grad, y.grad, rtol=1e-5, atol=1e-5)



@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_interpolation_of_other_types(dtype: torch.dtype) -> None:
    x = torch.randn(2, 3, 8, 8).to(dtype)
    given = torch.compile(lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), backend="neuron")(x)
    wanted = F.interpolate(x, scale_factor=2, mode="bilinear")
    assert given.dtype == dtype
    torch.testing.assert_close(
        given.float(), wanted.float(), rtol=1e-2, atol=1e-2 if dtype.itemsize == 2 else 1e-5
    )


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_interpolation_of_bytes_is_off_by_one_at_most(mode: str) -> None:
    """Torch computes it with weights of a few bits."""
    x = torch.randint(0, 256, (2, 3, 8, 8), dtype=torch.uint8)
    given = torch.compile(lambda x: F.interpolate(x, scale_factor=2, mode=mode), backend="neuron")(x)
    apart = (given.int() - F.interpolate(x, scale_factor=2, mode=mode).int()).abs()
    assert given.dtype == torch.uint8 and int(apart.max()) <= 1


def test_interpolation_of_changing_sizes() -> None:
    compiled = torch.compile(
        lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), backend="neuron", dynamic=True
    )
    for size in (4, 5, 7):
        x = torch.randn(1, 2, size, 6)
        torch.testing.assert_close(
            compiled(x), F.interpolate(x, scale_factor=2, mode="bilinear"), rtol=1e-4, atol=1e-5
        )


def test_other_backends_keep_torchs_forms() -> None:
    op = torch.ops.aten.upsample_bilinear2d.vec
    before = dict(op.py_kernels)
    torch.compile(lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), backend="neuron")(
        torch.ones(1, 1, 4, 4)
    )
    assert before and op.py_kernels == before


WINDOWS = {  # kernel, dilation, padding, stride
    "overlapping": (3, 1, 1, 2),
    "uneven": ((2, 3), (2, 1), (1, 0), (1, 2)),
    "side by side": (4, 1, 0, 4),
    "side by side, and some left": (5, 1, 0, 5),
    "with gaps": (1, 1, 0, 3),
    "spread": (2, 3, 2, (3, 2)),
}


@pytest.mark.parametrize("windows", WINDOWS)
@pytest.mark.parametrize("lead", [(2, 3), (3,)])
def test_unfold_and_fold(windows: str, lead: tuple[int, ...]) -> None:
    """And back; the gradient of each is the other."""
    compare(lambda x: F.unfold(x, *WINDOWS[windows]), (*lead, 12, 8))
    columns = F.unfold(torch.zeros(*lead, 12, 8), *WINDOWS[windows]).shape
    compare(lambda x: F.fold(x, (12, 8), *WINDOWS[windows]), columns)


def predicted_us(function: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> float:
    compiled = torch.compile(function, backend="neuron", fullgraph=True)
    with torch.no_grad():
        compiled(x)
        with opentrn.profile_program() as profile:
            compiled(x)
    return profile.device_us


def test_times_are_those_of_products_and_reductions() -> None:
    """Gathers took 60 ms, and maxima with their places 0.9 ms; a product and a reduction take 0.17 and 0.03."""
    x = torch.randn(1, 64, 56, 56)
    assert predicted_us(lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), x) < 500
    torch._dynamo.reset()
    assert predicted_us(lambda x: F.max_pool2d(x, 3, 2, 1), x) < 100


def test_windows_take_the_time_of_copies() -> None:
    """Outlook attention of VOLO: 6.6 and 11.8 ms where each element is gathered or scattered by itself."""
    image = torch.randn(1, 192, 28, 28)
    assert predicted_us(lambda x: F.unfold(x, 3, 1, 1, 2), image) < 250
    columns = F.unfold(image, 3, 1, 1, 2)
    assert predicted_us(lambda x: F.fold(x, (28, 28), 3, 1, 1, 2), columns) < 60


def test_an_exported_model_has_the_same_times() -> None:
    class Net(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return F.max_pool2d(F.interpolate(x, scale_factor=2, mode="bilinear"), 3, 2, 1)

    x = torch.randn(1, 8, 28, 28)
    model = opentrn.compile(torch.export.export(Net(), (x,)))
    torch.testing.assert_close(torch.tensor(model(x.numpy())[0]), Net()(x), rtol=1e-4, atol=1e-5)
    assert model.time().time_us < 200


POOLS: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], tuple[int, ...]]] = {
    "plain": (lambda x: F.max_pool2d(x, 3, 2, 1), (2, 3, 12, 13)),
    "windows that leave elements out": (lambda x: F.max_pool2d(x, 2, 3), (2, 3, 12, 13)),
    "ceil mode": (lambda x: F.max_pool2d(x, 3, 2, ceil_mode=True), (2, 3, 12, 13)),
    "dilation": (lambda x: F.max_pool2d(x, 2, 3, 0, 2), (2, 3, 13, 14)),
    "without a batch": (lambda x: F.max_pool2d(x, 2), (3, 6, 6)),
    "one dimension": (lambda x: F.max_pool1d(x, 3, 2, 1), (2, 3, 11)),
    "three dimensions": (lambda x: F.max_pool3d(x, 2, 2, 1), (1, 2, 7, 6, 9)),
}


@pytest.mark.parametrize("name", POOLS)
@pytest.mark.parametrize("values", ["numbers", "with NaN and infinities", "all lowest", "whole numbers"])
def test_maxima_without_places(name: str, values: str) -> None:
    function, shape = POOLS[name]
    x = torch.randn(shape)
    if values == "with NaN and infinities":
        x = torch.where(torch.rand(shape) < 0.1, torch.nan, x)
        x = torch.where(torch.rand(shape) < 0.3, -torch.inf, x)
    elif values == "all lowest":
        x = torch.full(shape, -torch.inf)
    elif values == "whole numbers":
        x = torch.randint(-9, 9, shape, dtype=torch.int32)
        if name in ("one dimension", "three dimensions"):
            pytest.skip("torch pools no whole numbers here")
    given = torch.compile(function, backend="neuron", fullgraph=True)(x)
    torch.testing.assert_close(given, function(x), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("size", [(1, 1), (2, 1), (1, 3)])
def test_a_single_element_is_resized_on_the_device(mode: str, size: tuple[int, int]) -> None:
    x = torch.randn(1, 2, 1, 1)
    expected = torch.nn.functional.interpolate(x, size=size, mode=mode)
    found = torch.nn.functional.interpolate(x.to("neuron"), size=size, mode=mode)
    torch.testing.assert_close(found.cpu(), expected)


@pytest.mark.parametrize("sizes", [(2, 2), (1, 1), (3, 4), (5, 7), (2, 3), (6, 8), (1, 20)])
def test_adaptive_averages_of_what_is_no_number_stay_in_their_windows(sizes: tuple[int, int]) -> None:
    x = torch.arange(24.0).reshape(1, 2, 3, 4)
    x[0, 0, 0, 0], x[0, 1, 1, 1] = math.nan, math.inf

    def both(value: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        leaf = value.clone().requires_grad_()
        out = F.adaptive_avg_pool2d(leaf, sizes)
        grad = torch.arange(float(out.numel())).reshape(out.shape)
        grad[0, 0, 0, 0] = math.nan
        out.backward(grad)
        return out.detach(), leaf.grad

    wanted, found = both(x), torch.compile(both, backend="neuron")(x)
    torch.testing.assert_close(found, wanted, equal_nan=True)


@pytest.mark.parametrize("length", [0, 1, 2, 9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_kaiser_windows(length: int, dtype: torch.dtype) -> None:
    for given in ((), (True,), (False,), (False, 3.0), (True, 100.0), (True, 0.0)):
        wanted = torch.kaiser_window(length, *given, dtype=torch.float64).to(dtype)
        found = torch.kaiser_window(length, *given, dtype=dtype, device="neuron").cpu()
        torch.testing.assert_close(found, wanted, rtol=1e-3 if dtype == torch.float16 else 1e-5, atol=1e-7)
