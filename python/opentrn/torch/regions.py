"""torchvision's roi_align and its gradient, where a program has loaded torchvision.

A sample's weights over the rows and over the columns of a map are factors of one another, and so are their means over
a bin: a region is a product with one matrix over the rows of all maps and one over the columns of a map. No element is
gathered, so a NaN or an infinity in a map reaches every region.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def _means(start: Tensor, extent: Tensor, bins: int, size: int, sampling_ratio: int) -> Tensor:
    """[K, bins, size], of the type of start: the weight of each row (or column) of a map in the mean of each bin.

    start, extent: [K], in elements of the map. sampling_ratio: samples a bin, or <= 0 for as many as a bin has
    elements, rounded up.
    """
    whole = torch.arange(max(bins, size), device=start.device, dtype=start.dtype)
    step = extent / bins
    first = start[:, None] + whole[:bins] * step[:, None]  # where a bin begins, [K, bins]
    if sampling_ratio > 0:
        count, most = torch.full_like(start, sampling_ratio), sampling_ratio
        index = first.new_zeros(first.shape)
    else:
        count = step.ceil()  # 0 for an empty region, whose means are 0
        # Two samples or more lie further apart than half an element, so no more of them see elements -1 to size.
        most = 2 * (size + 1) + 1
        distance = (step / count.clamp(min=1)).clamp(min=torch.finfo(start.dtype).tiny)
        index = ((-1 - first) / distance[:, None] - 0.5).ceil().clamp(min=0)  # the first that can see an element
    sample = index[..., None] + torch.arange(most, device=start.device, dtype=start.dtype)
    share = 1 / count.clamp(min=1)[:, None, None]
    place = first[..., None] + (sample + 0.5) * step[:, None, None] * share  # [K, bins, most]
    counts = (sample < count[:, None, None]) & (place >= -1) & (place <= size)
    place = place.clamp(0, size - 1)
    weights = (1 - (place[..., None] - whole[:size]).abs()).clamp(min=0) * counts[..., None]
    return weights.sum(2) * share


def _weights(
    rois: Tensor, scale: float, bins: tuple[int, int], shape: tuple[int, ...], sampling_ratio: int, aligned: bool
) -> tuple[Tensor, Tensor]:
    """Over the rows of all maps, [K, bins[0], N, H], and over the columns of one, [K, bins[1], W]; fp32.

    rois: [K, 5], a map's number and x1, y1, x2, y2. shape: of the maps, [N, C, H, W].
    """
    rois = rois.float()
    corners = rois[:, 1:] * scale - (0.5 if aligned else 0.0)
    extents = corners[:, 2:] - corners[:, :2]
    if not aligned:
        extents = extents.clamp(min=1)
    rows = _means(corners[:, 1], extents[:, 1], bins[0], shape[2], sampling_ratio)
    columns = _means(corners[:, 0], extents[:, 0], bins[1], shape[3], sampling_ratio)
    is_map = rois[:, 0].int()[:, None] == torch.arange(shape[0], device=rois.device, dtype=torch.int32)
    return rows[:, :, None, :] * is_map[:, None, :, None], columns


def roi_align(
    maps: Tensor, rois: Tensor, scale: float, height: int, width: int, sampling_ratio: int, aligned: bool
) -> Tensor:
    """[K, C, height, width], of maps' type. maps: [N, C, H, W]; rois: [K, 5]. The arguments are torchvision's."""
    rows, columns = _weights(rois, scale, (height, width), tuple(maps.shape), sampling_ratio, aligned)
    seen = torch.einsum("kpnh,nchw->kpcw", rows, maps.float())
    return torch.einsum("kpcw,kqw->kcpq", seen, columns).to(maps.dtype)


def roi_align_backward(
    gradient: Tensor,
    rois: Tensor,
    scale: float,
    height: int,
    width: int,
    batch: int,
    channels: int,
    map_height: int,
    map_width: int,
    sampling_ratio: int,
    aligned: bool,
) -> Tensor:
    """Of roi_align with respect to its maps, [batch, channels, map_height, map_width], of gradient's type."""
    shape = (batch, channels, map_height, map_width)
    rows, columns = _weights(rois, scale, (height, width), shape, sampling_ratio, aligned)
    seen = torch.einsum("kcpq,kqw->kpcw", gradient.float(), columns)
    return torch.einsum("kpnh,kpcw->nchw", rows, seen).to(gradient.dtype)


def decompositions() -> dict[Any, Callable[..., Any]]:
    """By op; none where nothing has defined torchvision's ops."""
    forms: dict[str, Callable[..., Any]] = {"roi_align": roi_align, "_roi_align_backward": roi_align_backward}
    ops = torch.ops.torchvision
    return {getattr(ops, name).default: form for name, form in forms.items() if hasattr(ops, name)}
