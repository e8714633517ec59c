"""Image classification: a residual network learns from photographs of clothes which of ten kinds they show.

    python examples/vision_torch.py                  # on the simulated core, then on this CPU: the same answers
    python examples/vision_torch.py --images 640     # a shorter look
    python examples/vision_torch.py --picture clothes.png

The photographs are Fashion-MNIST (Zalando, MIT licence) of the Debian package dataset-fashion-mnist:
apt-get install dataset-fashion-mnist (or unpack it: apt-get download, dpkg-deb -x, --folder).

The first 12,800 of its 60,000 training images are learned from once, in batches of 64; the first 2,048 test images are
for the test. Prints accuracy, predicted device time of a step with its launches, and price. The CPU runs the same
program: what torch.compile makes of it, with the backend aot_eager. Ends with an error where the losses of the first
steps, or the logits that device and CPU compute from the same trained weights, are further apart than rounding.
"""

from __future__ import annotations

import argparse
import gzip
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn

import opentrn
import opentrn.torch  # noqa: F401  (the backend)

FOLDER = Path("/usr/share/datasets/fashion-mnist")
KINDS = ("t-shirt", "trousers", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot")
STEPS, LIMIT = 20, 1e-3  # that are compared, and of their losses. Training makes every difference grow: one weight
# changed by its last bit, on the CPU alone, is 1e-7 after 10 steps, 4e-5 after 20, and 3e-3 after 100.
LOGITS_LIMIT = 1e-3  # of trained weights: sums in another order
ACCURACY_LIMIT = 0.03  # of the network that the CPU trained: what 200 steps make of rounding


def array(folder: Path, name: str) -> np.ndarray:
    """A file in the format of MNIST: two zero bytes, the type (8: bytes), the number of sizes, sizes, values."""
    file = folder / f"{name}.gz"
    if not file.exists():
        raise SystemExit(
            f"{file} is not there: apt-get install dataset-fashion-mnist, or give its folder by --folder"
        )
    try:
        data = gzip.decompress(file.read_bytes())
    except (OSError, EOFError) as error:
        raise SystemExit(f"{file} is not a gzip file: {error}") from None
    rank = data[3] if data[:3] == b"\0\0\x08" else 0
    sizes = np.frombuffer(data[4 : 4 + 4 * rank], ">i4")
    if not rank or len(data) != 4 + 4 * rank + sizes.prod():
        raise SystemExit(f"{file} is not an array of bytes in the format of MNIST")
    return np.frombuffer(data[4 + 4 * rank :], np.uint8).reshape(sizes)


def photographs(folder: Path, part: str, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The first images (count, 1, 28, 28), scaled to a mean of about 0 and a deviation of about 1, and their kinds."""
    images, kinds = array(folder, f"{part}-images-idx3-ubyte"), array(folder, f"{part}-labels-idx1-ubyte")
    if count > len(images):
        raise SystemExit(f"there are {len(images)} images of {part}, and {count} are asked for")
    scaled = (images[:count, None].astype(np.float32) / 255 - 0.286) / 0.353
    return torch.from_numpy(scaled), torch.from_numpy(kinds[:count].astype(np.int64))


class Block(nn.Module):
    """Two convolutions and what goes around them, at half the size where `stride` is 2."""

    def __init__(self, channels: int, wider: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, wider, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(wider, wider, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(wider) for _ in range(2))
        self.around = nn.Conv2d(channels, wider, 1, stride, bias=False) if stride > 1 else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inside = nn.functional.relu(self.norms[0](self.first(x)))
        return nn.functional.relu(self.norms[1](self.second(inside)) + self.around(x))


def network(width: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, width, 3, 2, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
        Block(width, width, 1), Block(width, 2 * width, 2), Block(2 * width, 4 * width, 2),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4 * width, len(KINDS)),
    )  # fmt: skip


def learn(backend: str, data: tuple, o: argparse.Namespace) -> tuple[nn.Module, list[float]]:
    """The trained network and the loss of every step; weights and batches are the same for every backend."""
    images, kinds = data[:2]
    torch.manual_seed(o.seed)
    model = network(o.width)
    optimizer = torch.optim.SGD(model.parameters(), lr=o.rate, momentum=0.9, weight_decay=5e-4)

    def loss_of(images: torch.Tensor, kinds: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(model(images), kinds)

    loss, step = (torch.compile(each, backend=backend) for each in (loss_of, optimizer.step))
    losses = []
    began = time.process_time()
    for part in torch.randperm(len(images)).split(o.batch)[: len(images) // o.batch]:
        value = loss(images[part], kinds[part])
        optimizer.zero_grad()
        value.backward()
        step()
        losses.append(value.item())
    print(f"  {len(losses)} steps, {(time.process_time() - began) / len(losses):.3f} s of processor time each")
    return model.eval(), losses


def logits_of(backend: str, model: nn.Module, test: torch.Tensor, batch: int) -> torch.Tensor:
    predict = torch.compile(model, backend=backend)
    with torch.no_grad():
        return torch.cat([predict(part) for part in test.split(batch)])


def draw(file: Path, data: tuple, logits: torch.Tensor, losses: dict[str, list[float]]) -> None:
    """Test images with what the device took them for, and the losses of both."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure = pyplot.figure(figsize=(9, 3.4), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=(1.25, 1))
    for place, number in zip(left.subplots(3, 6).flat, range(18)):
        place.imshow(data[2][number, 0], cmap="gray_r")
        found, wanted = int(logits[number].argmax()), int(data[3][number])
        place.set_title(KINDS[found], fontsize=7, color="black" if found == wanted else "red")
        place.axis("off")
    axes = right.subplots()
    for (name, values), style in zip(losses.items(), ("-", "--")):
        axes.plot(values, style, label=name, linewidth=1)
    axes.set_xlabel("step")
    axes.set_ylabel("loss")
    axes.legend()
    figure.savefig(file, dpi=90)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, default=FOLDER, help="default: %(default)s")
    parser.add_argument("--images", type=int, default=12_800, help="to learn from (default %(default)s)")
    parser.add_argument("--test", type=int, default=2_048, help="to test (default %(default)s)")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--width", type=int, default=16, help="channels of the first layer")
    parser.add_argument("--rate", type=float, default=0.005)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", type=Path, help="draw images and losses (needs matplotlib)")
    o = parser.parse_args()
    data = (*photographs(o.folder, "train", o.images), *photographs(o.folder, "t10k", o.test))
    print("on the device")
    with opentrn.profile_program() as profile:
        model, device_losses = learn("neuron", data, o)
    device, same_weights = (logits_of(each, model, data[2], o.batch) for each in ("neuron", "aot_eager"))
    print("on this CPU")
    cpu_model, cpu_losses = learn("aot_eager", data, o)
    cpu = logits_of("aot_eager", cpu_model, data[2], o.batch)
    print(profile)
    right = [(logits.argmax(1) == data[3]).double().mean().item() for logits in (device, cpu)]
    for name, share, losses in (("device", right[0], device_losses), ("CPU", right[1], cpu_losses)):
        print(f"{name:>6}: accuracy {share:.1%} of {len(device)}, last loss {losses[-1]:.5f}")
    alike = (device.argmax(1) == same_weights.argmax(1)).sum().item()
    print(f"the device's weights on the CPU: the same kind for {alike} of {len(device)}")
    early = max(abs(a - b) / b for a, b in zip(device_losses[:STEPS], cpu_losses[:STEPS], strict=True))
    apart = (device - same_weights).abs().max().item()
    print(f"losses of the first {STEPS} steps {early:.1e} apart; logits of the same weights {apart:.1e}")
    if o.picture:
        draw(o.picture, data, device, {"device": device_losses, "CPU": cpu_losses})
    if early > LIMIT or apart > LOGITS_LIMIT or abs(right[0] - right[1]) > ACCURACY_LIMIT:
        raise SystemExit(
            f"further from the CPU than rounding explains: losses {early:.1e}, limit {LIMIT:.0e}; logits {apart:.1e},"
            f" limit {LOGITS_LIMIT:.0e}; accuracy {abs(right[0] - right[1]):.3f}, limit {ACCURACY_LIMIT}"
        )


if __name__ == "__main__":
    main()
