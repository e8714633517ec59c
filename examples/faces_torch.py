"""Detection: MTCNN finds the faces in a photograph, by three networks of which each looks closer than the one before.

    python examples/faces_torch.py                   # photographs of scikit-image; beside PyTorch on this CPU
    python examples/faces_torch.py people.jpg --target trn1
    python examples/faces_torch.py --picture faces.png

The weights lie in the package facenet-pytorch (MIT licence) and the photographs in scikit-image, of which nothing else
is used: pip install --no-deps facenet-pytorch==2.6.0 scikit-image==0.26.0. Beside them: pip install pillow.

The method is that of "Joint Face Detection and Alignment using Multi-task Cascaded Convolutional Networks" (Zhang and
others, 2016). The first network runs over the photograph in several sizes, a program for each; of the others, which
look at as many boxes as the one before left, there are programs for 1, 4, 16, 64 and 256 boxes: the smallest that takes
the boxes runs, filled up with zeros (dynamic shapes). Ends with an error where a box of the device is further from
PyTorch's on this CPU than rounding.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from application import of_package, price, priced
from torch import nn

import opentrn

SMALLEST = 40  # pixels of a face
LEAST = (0.6, 0.7, 0.7)  # probability that each network asks for
BUCKETS = (1, 4, 16, 64, 256)
LIMIT_PIXELS, LIMIT = 0.05, 1e-4  # of an edge; of a probability: sums in another order, through three networks

Network = Callable[[torch.Tensor], tuple[torch.Tensor, ...]]


class Look(nn.Module):
    """One of the three: convolutions, then, but in the first network, a dense layer; and heads: face or not, box.

    kernels: (name, channels before, channels after, kernel, pooling after it), in order.
    """

    def __init__(self, kernels: list[tuple[int, int, int, int]], dense: tuple[int, int] | None, last: int) -> None:
        super().__init__()
        self.kernels, self.dense, self.last = kernels, dense, last
        for number, (before, after, kernel, _) in enumerate(kernels, 1):
            self.add_module(f"conv{number}", nn.Conv2d(before, after, kernel))
            self.add_module(f"prelu{number}", nn.PReLU(after))
        width = kernels[-1][1]
        if dense:
            number, width = last - 1, dense[1]
            self.add_module(f"dense{number}", nn.Linear(*dense))
            self.add_module(f"prelu{number}", nn.PReLU(width))
        for head, wide in ((1, 2), (2, 4)):
            made = nn.Linear(width, wide) if dense else nn.Conv2d(width, wide, 1)
            self.add_module(f"{'dense' if dense else 'conv'}{last}_{head}", made)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Pictures (batch, 3, height, width) from -1 to 1 to probabilities of a face and to the four corrections."""
        layers = dict(self.named_children())
        for number, (*_, pooled) in enumerate(self.kernels, 1):
            x = layers[f"prelu{number}"](layers[f"conv{number}"](x))
            if pooled:
                x = nn.functional.max_pool2d(x, pooled, 2, ceil_mode=True)
        kind = "conv"
        if self.dense:
            kind, number = "dense", self.last - 1
            x = x.permute(0, 3, 2, 1).flatten(1)  # as in the framework that trained it
            x = layers[f"prelu{number}"](layers[f"dense{number}"](x))
        face, box = (layers[f"{kind}{self.last}_{head}"](x) for head in (1, 2))
        return face.softmax(1)[:, 1], box


def networks() -> list[Look]:
    made = [
        Look([(3, 10, 3, 2), (10, 16, 3, 0), (16, 32, 3, 0)], None, 4),
        Look([(3, 28, 3, 3), (28, 48, 3, 3), (48, 64, 2, 0)], (576, 128), 5),
        Look([(3, 32, 3, 3), (32, 64, 3, 3), (64, 64, 3, 2), (64, 128, 2, 0)], (1152, 256), 6),
    ]
    for name, each in zip(("pnet", "rnet", "onet"), made):
        file = of_package("facenet_pytorch", "data", f"{name}.pt", pip="facenet-pytorch==2.6.0")
        given = torch.load(file, map_location="cpu", weights_only=True)
        each.load_state_dict({key: given[key] for key in each.state_dict()})
        each.eval().requires_grad_(False)
    return made


def apart_from(boxes: np.ndarray, overlap: float, smaller: bool = False) -> np.ndarray:
    """Numbers of the boxes, best first, of which none overlaps a better one by more than a share of both together,
    or of the smaller."""
    area = (boxes[:, 2] - boxes[:, 0] + 1) * (boxes[:, 3] - boxes[:, 1] + 1)
    left, kept = np.argsort(-boxes[:, 4], kind="stable"), []
    while len(left):
        best, rest = left[0], left[1:]
        kept.append(best)
        low, high = np.maximum(boxes[best, :2], boxes[rest, :2]), np.minimum(boxes[best, 2:4], boxes[rest, 2:4])
        both = np.maximum(0, high - low + 1).prod(1)
        whole = np.minimum(area[best], area[rest]) if smaller else area[best] + area[rest] - both
        left = rest[both / whole <= overlap]
    return np.array(kept, int)


def moved(boxes: np.ndarray, corrections: np.ndarray) -> np.ndarray:
    sizes = np.tile(boxes[:, 2:4] - boxes[:, :2] + 1, 2)
    return np.concatenate([boxes[:, :4] + corrections * sizes, boxes[:, 4:]], 1)


def square(boxes: np.ndarray) -> np.ndarray:
    sizes = boxes[:, 2:4] - boxes[:, :2]
    longest = sizes.max(1, keepdims=True)
    low = boxes[:, :2] + sizes / 2 - longest / 2
    return np.concatenate([low, low + longest, boxes[:, 4:]], 1)


def resized(picture: torch.Tensor, height: int, width: int) -> torch.Tensor:
    """(1, 3, height, width) from -1 to 1: means of areas."""
    return (nn.functional.interpolate(picture, (height, width), mode="area") - 127.5) / 128


def everywhere(picture: torch.Tensor, look: Network) -> np.ndarray:
    """Boxes that the first network takes for faces, in all sizes: (boxes, 5), with the probability."""
    height, width = picture.shape[2:]
    found = []
    for step in range(99):
        scale = 12 / SMALLEST * 0.709**step
        if min(height, width) * scale < 12:
            break
        faces, corrections = look(resized(picture, math.floor(height * scale + 1), math.floor(width * scale + 1)))
        rows, columns = np.nonzero(faces[0].numpy() >= LEAST[0])
        corner = np.stack([columns, rows], 1)
        places = np.concatenate([np.floor((2 * corner + 1) / scale), np.floor((2 * corner + 12) / scale)], 1)
        scores = faces[0].numpy()[rows, columns, None]
        some = np.concatenate([places, scores, corrections[0].numpy()[:, rows, columns].T], 1)
        found.append(some[apart_from(some, 0.5)])
    boxes = np.concatenate(found)
    boxes = boxes[apart_from(boxes, 0.7)]
    sizes = np.tile(boxes[:, 2:4] - boxes[:, :2], 2)
    return square(np.concatenate([boxes[:, :4] + boxes[:, 5:] * sizes, boxes[:, 4:5]], 1))


def closer(picture: torch.Tensor, boxes: np.ndarray, size: int, look: Network, least: float) -> tuple[np.ndarray, ...]:
    """Of these boxes those that are faces to a network which sees `size` pixels of each, and their corrections."""
    height, width = picture.shape[2:]
    parts, inside = [], []
    for number, (left, top, right, bottom) in enumerate(np.trunc(boxes[:, :4]).astype(int)):
        part = picture[:, :, max(top - 1, 0) : min(bottom, height), max(left - 1, 0) : min(right, width)]
        if part.numel():
            parts.append(resized(part, size, size))
            inside.append(number)
    if not parts:
        return boxes[:0], np.zeros((0, 4))
    given = torch.cat(parts)
    results = [look(part) for part in given.split(BUCKETS[-1])]
    faces, corrections = (torch.cat(each).numpy() for each in zip(*results))
    good = faces > least
    kept = boxes[inside][good]
    return np.concatenate([kept[:, :4], faces[good, None]], 1), corrections[good]


def faces_of(picture: torch.Tensor, looks: list[Network]) -> np.ndarray:
    """(faces, 5): left, top, right, bottom, probability; best first. `picture`: (1, 3, height, width), 0 to 255."""
    boxes = everywhere(picture, looks[0])
    boxes, corrections = closer(picture, boxes, 24, looks[1], LEAST[1])
    kept = apart_from(boxes, 0.7)
    boxes = square(moved(boxes[kept], corrections[kept]))
    boxes, corrections = closer(picture, boxes, 48, looks[2], LEAST[2])
    boxes = moved(boxes, corrections)
    return boxes[apart_from(boxes, 0.7, smaller=True)]


class Compiled:
    """A network, compiled for each size that it is given; `time_us` and `usd`: predicted, of all that it ran."""

    def __init__(self, network: Look, target: str | None, fills: bool) -> None:
        self.network, self.target, self.fills = network, target, fills
        self.programs: dict[tuple[int, ...], opentrn.CompiledModel] = {}
        self.time_us, self.usd, self.rented = 0.0, 0.0, ""

    def __call__(self, given: torch.Tensor) -> tuple[torch.Tensor, ...]:
        count = len(given)
        if self.fills:
            bucket = next(each for each in BUCKETS if each >= count)
            given = torch.cat([given, given.new_zeros(bucket - count, *given.shape[1:])])
        shape = tuple(given.shape)
        if shape not in self.programs:
            exported = torch.export.export(self.network, (given,))
            self.programs[shape] = opentrn.compile(exported, target=self.target)
        model = self.programs[shape]
        timing = model.time()
        self.time_us += timing.time_us + timing.launch_ns / 1e3
        usd, self.rented = price(timing, self.target)
        self.usd += usd
        return tuple(torch.from_numpy(np.array(each))[:count] for each in model(given.numpy()))


def photograph(path: Path) -> torch.Tensor:
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path) as image:
            return torch.from_numpy(np.array(image.convert("RGB"), np.float32)).permute(2, 0, 1)[None]
    except FileNotFoundError:
        raise SystemExit(f"{path} is not there") from None
    except UnidentifiedImageError:
        raise SystemExit(f"{path} is not a picture that Pillow reads") from None


def draw(file: Path, pictures: list[torch.Tensor], found: list[np.ndarray]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import patches, pyplot

    figure = pyplot.figure(figsize=(3 * len(pictures), 3), layout="constrained")
    for place, picture, boxes in zip(figure.subplots(1, len(pictures), squeeze=False)[0], pictures, found):
        place.imshow(picture[0].permute(1, 2, 0).byte().numpy())
        for left, top, right, bottom, score in boxes:
            place.add_patch(patches.Rectangle((left, top), right - left, bottom - top, fill=False, color="lime"))
            place.text(left, top - 6, f"{score:.4f}", color="lime", fontsize=8)
        place.axis("off")
    figure.savefig(file, dpi=80)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("photographs", nargs="*", type=Path, help="default: two of scikit-image")
    parser.add_argument("--target", help="default: of NEURON_PLATFORM_TARGET_OVERRIDE, else trn2")
    parser.add_argument("--picture", type=Path, help="draw the boxes (needs matplotlib)")
    o = parser.parse_args()
    files = o.photographs or [
        of_package("skimage", "data", f"{name}.png", pip="scikit-image==0.26.0") for name in ("astronaut", "coffee")
    ]
    cpu = networks()
    device = [Compiled(network, o.target, fills=number > 0) for number, network in enumerate(cpu)]
    pictures, results, worst = [photograph(file) for file in files], [], (0.0, 0.0)
    for file, picture in zip(files, pictures):
        for each in device:
            each.time_us = each.usd = 0.0
        found, wanted = faces_of(picture, device), faces_of(picture, cpu)
        results.append(found)
        times, usd = [each.time_us / 1e3 for each in device], sum(each.usd for each in device)
        print(f"{file.name}: {len(found)} faces, {len(wanted)} on the CPU")
        each = ", ".join(f"{time:.2f}" for time in times)
        print(f"    {sum(times):.2f} ms predicted, launches included ({each} in each network);"
              f" {priced(usd * 1e6, 'a million', device[0].rented)}")  # fmt: skip
        for left, top, right, bottom, score in found:
            print(f"    {left:.1f},{top:.1f} to {right:.1f},{bottom:.1f}  {score:.5f}")
        if len(found) != len(wanted):
            raise SystemExit("further from the CPU than rounding explains: not the same number of faces")
        if len(found):
            apart = np.abs(found - wanted).max(0)
            worst = max(worst[0], apart[:4].max()), max(worst[1], apart[4])
    print(f"edges at most {worst[0]:.1e} pixels apart, probabilities {worst[1]:.1e}")
    if o.picture:
        draw(o.picture, pictures, results)
    if worst[0] > LIMIT_PIXELS or worst[1] > LIMIT:
        raise SystemExit(f"further from the CPU than rounding explains: limits {LIMIT_PIXELS} pixels, {LIMIT:.0e}")


if __name__ == "__main__":
    main()
