"""torchvision's roi_align on the device, beside its definition sample by sample. torchvision itself is not needed."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
import torch

import opentrn.torch  # noqa: F401  (registers the backend and the device)

SCHEMAS = (
    "roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width,"
    " int sampling_ratio, bool aligned) -> Tensor",
    "_roi_align_backward(Tensor grad, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width,"
    " SymInt batch_size, SymInt channels, SymInt height, SymInt width, int sampling_ratio, bool aligned) -> Tensor",
)


def corners(place: float, size: int) -> list[tuple[int, float]]:
    """The two elements between which a place lies, with their weights; none outside of a map."""
    if place < -1 or place > size:
        return []
    place = max(place, 0.0)
    low = min(int(place), size - 1)
    high = min(low + 1, size - 1)
    part = place - low if low < size - 1 else 0.0
    return [(low, 1 - part), (high, part)]


def matrix(roi: list[float], scale: float, bins: tuple[int, int], size: tuple[int, int], ratio: int, aligned: bool):
    """[bins[0], bins[1], H, W], float64: each element's weight in each bin, added up sample by sample."""
    offset = 0.5 if aligned else 0.0
    x1, y1, x2, y2 = (each * scale - offset for each in roi[1:])
    height, width = (y2 - y1, x2 - x1) if aligned else (max(y2 - y1, 1.0), max(x2 - x1, 1.0))
    steps = height / bins[0], width / bins[1]
    grid = [ratio if ratio > 0 else math.ceil(step) for step in steps]
    weights = np.zeros((*bins, *size))
    for row, column in np.ndindex(bins):
        for i, j in np.ndindex(max(grid[0], 0), max(grid[1], 0)):
            y = y1 + row * steps[0] + (i + 0.5) * steps[0] / grid[0]
            x = x1 + column * steps[1] + (j + 0.5) * steps[1] / grid[1]
            for h, of_row in corners(y, size[0]):
                for w, of_column in corners(x, size[1]):
                    weights[row, column, h, w] += of_row * of_column
    return weights / max(grid[0] * grid[1], 1)


def of_rois(rois: torch.Tensor, scale: float, bins: tuple[int, int], size: tuple[int, int], ratio: int, aligned: bool):
    return np.stack([matrix(roi, scale, bins, size, ratio, aligned) for roi in rois.double().tolist()])


def roi_align(maps, rois, scale, height, width, ratio, aligned):
    weights = of_rois(rois, scale, (height, width), tuple(maps.shape[2:]), ratio, aligned)
    seen = maps.double().numpy()[rois[:, 0].long().numpy()]
    return torch.from_numpy(np.einsum("kpqhw,kchw->kcpq", weights, seen)).to(maps.dtype)


def roi_align_backward(gradient, rois, scale, height, width, batch, channels, rows, columns, ratio, aligned):
    weights = of_rois(rois, scale, (height, width), (rows, columns), ratio, aligned)
    of_region = np.einsum("kpqhw,kcpq->kchw", weights, gradient.double().numpy())
    total = np.zeros((batch, channels, rows, columns))
    np.add.at(total, rois[:, 0].long().numpy(), of_region)
    return torch.from_numpy(total).to(gradient.dtype)


@pytest.fixture(autouse=True)
def torchvision_ops(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("OPENTRN_STRICT", "1")
    library = torch.library.Library("torchvision", "FRAGMENT")
    for schema in SCHEMAS:
        library.define(schema)
    library.impl("roi_align", roi_align, "CPU")
    library.impl("_roi_align_backward", roi_align_backward, "CPU")
    library._register_fake(
        "roi_align", lambda x, r, s, height, width, *_: x.new_empty(r.shape[0], x.shape[1], height, width)
    )
    library._register_fake("_roi_align_backward", lambda g, r, s, h, w, *shape: g.new_empty(shape[:4]))
    torch._dynamo.reset()
    yield
    library._destroy()


def regions(maps: int, count: int, height: int, width: int, scale: float) -> torch.Tensor:
    """Regions that lie inside of a map, reach over its edges or miss it, and an empty one."""
    generator = torch.Generator().manual_seed(height * 100 + width)
    points = torch.rand(count, 2, 2, generator=generator) * torch.tensor([width, height]) * 2.4 - 0.7 * width
    low, high = points.amin(1), points.amax(1)
    high[0] = low[0]
    number = torch.randint(0, maps, (count, 1), generator=generator)
    return torch.cat([number.float(), torch.cat([low, high], 1) / scale], 1)


@pytest.mark.parametrize("device", ["compiled", "eager"])
@pytest.mark.parametrize(
    ("shape", "bins", "scale", "ratio", "aligned"),
    [
        ((1, 4, 16, 16), (3, 3), 1.0, -1, False),
        ((2, 8, 10, 15), (7, 5), 0.5, 2, True),
        ((2, 3, 9, 7), (1, 2), 0.25, 0, True),
        ((3, 5, 12, 12), (2, 2), 1.0, 3, False),
    ],
)
def test_roi_align_and_its_gradient(device: str, shape, bins, scale: float, ratio: int, aligned: bool) -> None:
    maps = torch.randn(shape)
    rois = regions(shape[0], 9, *shape[2:], scale)
    gradient = torch.randn(len(rois), shape[1], *bins)

    def forward(maps: torch.Tensor, rois: torch.Tensor) -> torch.Tensor:
        return torch.ops.torchvision.roi_align(maps, rois, scale, *bins, ratio, aligned)

    def backward(gradient: torch.Tensor, rois: torch.Tensor) -> torch.Tensor:
        return torch.ops.torchvision._roi_align_backward(gradient, rois, scale, *bins, *shape, ratio, aligned)

    for function, given in ((forward, maps), (backward, gradient)):
        expected = function(given, rois)
        if device == "compiled":
            found = torch.compile(function, backend="neuron")(given, rois)
        else:
            found = function(given.to("neuron"), rois.to("neuron"))
            assert found.device.type == "neuron"
        torch.testing.assert_close(found.cpu(), expected, rtol=1e-5, atol=1e-5)
