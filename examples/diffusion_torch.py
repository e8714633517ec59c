"""Diffusion: a small U-Net learns to take noise out of written digits, and then writes digits out of noise alone.

    python examples/diffusion_torch.py               # on the simulated core, then on this CPU: the same digits
    python examples/diffusion_torch.py --steps 20 --samples 10    # a shorter look
    python examples/diffusion_torch.py --picture digits.png

The digits are scikit-learn's, 1,797 images of 8 x 8 pixels by 43 people; a tenth is kept for the test. Training is that
of "Denoising Diffusion Probabilistic Models" (Ho and others, 2020) with the digit as a condition and velocities in
place of noise; sampling is that of "Denoising Diffusion Implicit Models" (Song and others, 2020), which draws no noise
between its steps.

Prints the test error of the denoiser; the share of written digits that a classifier, which has learned from real ones
only, reads as the digit that was asked for; device time and price. The CPU runs the same program: what torch.compile
makes of it, with the backend aot_eager. Ends with an error where losses, or the digits that device and CPU write with
the same weights, are further apart than rounding.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import nn

import opentrn
import opentrn.torch  # noqa: F401  (the backend)

TIMES = 200  # of the noise: from none to nothing but noise
WIDTH = 64  # of what says time and digit
FIRST, LIMIT = 50, 1e-3  # steps whose losses are compared: sums in another order, which training makes grow
PIXEL_LIMIT = 1e-3  # of a pixel from -1 to 1, after all steps of sampling with the same weights


def digits() -> tuple[torch.Tensor, torch.Tensor]:
    """Images (1797, 1, 8, 8) from -1 to 1, and which digit each is."""
    from sklearn.datasets import load_digits

    images, kinds = load_digits(return_X_y=True)
    return torch.from_numpy(images.astype(np.float32) / 8 - 1).view(-1, 1, 8, 8), torch.from_numpy(kinds)


def shares(times: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """How much of the image, and of the noise, there is at these times (cosine schedule): (batch, 1, 1, 1) each."""
    angle = (times.float() + 1) / TIMES * (math.pi / 2) * 0.999
    return angle.cos()[:, None, None, None], angle.sin()[:, None, None, None]


class Block(nn.Module):
    """Two convolutions; time and digit come in between."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(before, after, 3, 1, 1), nn.Conv2d(after, after, 3, 1, 1)
        self.norms = nn.ModuleList(nn.GroupNorm(4, after) for _ in range(2))
        self.told = nn.Linear(WIDTH, after)
        self.around = nn.Conv2d(before, after, 1) if before != after else nn.Identity()

    def forward(self, x: torch.Tensor, told: torch.Tensor) -> torch.Tensor:
        inside = nn.functional.silu(self.norms[0](self.first(x)) + self.told(told)[:, :, None, None])
        return nn.functional.silu(self.norms[1](self.second(inside)) + self.around(x))


class Denoiser(nn.Module):
    """Noisy images, times and digits to velocities: what makes image and noise of their mixture."""

    def __init__(self) -> None:
        super().__init__()
        self.digit = nn.Embedding(10, WIDTH)
        self.time = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.SiLU(), nn.Linear(WIDTH, WIDTH))
        self.down, self.low, self.up = Block(1, 24), Block(24, 48), Block(72, 24)
        self.out = nn.Conv2d(24, 1, 3, 1, 1)
        rates = torch.exp(-math.log(1000) * torch.arange(WIDTH // 2) / (WIDTH // 2))
        self.register_buffer("rates", rates, persistent=False)

    def forward(self, x: torch.Tensor, times: torch.Tensor, kinds: torch.Tensor) -> torch.Tensor:
        waves = times.float()[:, None] * self.rates
        told = self.time(torch.cat([waves.sin(), waves.cos()], 1)) + self.digit(kinds)
        high = self.down(x, told)
        low = self.low(nn.functional.avg_pool2d(high, 2), told)
        back = low.repeat_interleave(2, 2).repeat_interleave(2, 3)
        return self.out(self.up(torch.cat([high, back], 1), told))


def loss_of(model: nn.Module, images: torch.Tensor, kinds: torch.Tensor, times: torch.Tensor, noise: torch.Tensor):
    image_share, noise_share = shares(times)
    found = model(image_share * images + noise_share * noise, times, kinds)
    return nn.functional.mse_loss(found, image_share * noise - noise_share * images)


def learn(backend: str, data: tuple, o: argparse.Namespace) -> tuple[Denoiser, list[float]]:
    """The trained network and the loss of every step; weights, batches and noise are the same for every backend."""
    images, kinds = data
    torch.manual_seed(o.seed)
    model = Denoiser()
    optimizer = torch.optim.AdamW(model.parameters(), lr=o.rate, weight_decay=0.01)
    loss = torch.compile(lambda *given: loss_of(model, *given), backend=backend)
    step = torch.compile(optimizer.step, backend=backend)
    losses, began = [], time.process_time()
    for _ in range(o.steps):
        part = torch.randint(len(images), (o.batch,))
        value = loss(images[part], kinds[part], torch.randint(TIMES, (o.batch,)), torch.randn(o.batch, 1, 8, 8))
        optimizer.zero_grad()
        value.backward()
        step()
        losses.append(value.item())
    print(f"  {o.steps} steps, {(time.process_time() - began) / o.steps:.3f} s of processor time each", flush=True)
    return model.eval(), losses


def write(model: Callable[..., torch.Tensor], kinds: torch.Tensor, steps: int) -> torch.Tensor:
    """One image of each of these digits, from noise that is the same every time."""
    x = torch.randn(len(kinds), 1, 8, 8, generator=torch.Generator().manual_seed(1))
    moments = torch.linspace(TIMES - 1, 0, steps + 1).round().long()
    with torch.no_grad():
        for now, then in zip(moments[:-1], moments[1:]):
            image_share, noise_share = shares(now.expand(len(kinds)))
            velocity = model(x, now.expand(len(kinds)).contiguous(), kinds)
            image = (image_share * x - noise_share * velocity).clamp(-1, 1)
            noise = (x - image_share * image) / noise_share
            image_share, noise_share = shares(then.expand(len(kinds)))
            x = image_share * image + noise_share * noise
    return image


def read_right(images: torch.Tensor, kinds: torch.Tensor, real: tuple[torch.Tensor, torch.Tensor]) -> float:
    """The share that a support vector machine which knows real digits reads as the digits that were asked for."""
    from sklearn.svm import SVC

    reader = SVC(gamma=0.02, C=10).fit(real[0].flatten(1).numpy(), real[1].numpy())
    return float((reader.predict(images.flatten(1).numpy()) == kinds.numpy()).mean())


def draw(file: Path, real: tuple[torch.Tensor, torch.Tensor], written: torch.Tensor) -> None:
    """Real digits above, written ones below."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    chosen = torch.cat([torch.nonzero(real[1] == digit)[:2, 0] for digit in range(10)])
    figure, places = pyplot.subplots(5, 20, figsize=(9, 2.7), layout="constrained")
    rows = [real[0][chosen], *written[: 20 * (len(written) // 20)].split(20)]
    for row, images, title in zip(places, rows, ("real", "written", "", "", "")):
        row[0].set_ylabel(title, fontsize=8)
        for place, image in zip(row, images):
            place.imshow(image[0], cmap="gray_r", vmin=-1, vmax=1)
    for place in places.flat:
        place.set_xticks([])
        place.set_yticks([])
    figure.savefig(file, dpi=90)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--samples", type=int, default=80, help="digits to write (default %(default)s)")
    parser.add_argument("--sampling-steps", type=int, default=25)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", type=Path, help="draw digits (needs matplotlib)")
    o = parser.parse_args()
    images, kinds = digits()
    test = torch.arange(len(kinds)) % 10 == 9
    train = images[~test], kinds[~test]
    wanted = torch.arange(10).repeat_interleave(2).repeat(-(-o.samples // 20))[: o.samples]
    print("on the device")
    with opentrn.profile_program() as training:
        model, device_losses = learn("neuron", train, o)
    with opentrn.profile_program() as sampling:
        written = write(torch.compile(model, backend="neuron"), wanted, o.sampling_steps)
    same_weights = write(model, wanted, o.sampling_steps)
    print("on this CPU")
    cpu_model, cpu_losses = learn("aot_eager", train, o)
    torch.manual_seed(o.seed)
    given = images[test], kinds[test], torch.randint(TIMES, (int(test.sum()),)), torch.randn(int(test.sum()), 1, 8, 8)
    with torch.no_grad():
        errors = [loss_of(each, *given).item() for each in (model, cpu_model)]
    print(training)
    ms = sampling.device_us / 1e3
    print(f"{o.samples} digits in {o.sampling_steps} steps: {ms:.2f} ms of device time, launches included")
    others = write(cpu_model, wanted, o.sampling_steps)
    for name, error, made in (("device", errors[0], written), ("CPU", errors[1], others)):
        share = read_right(made, wanted, train)
        print(f"{name:>6}: test error {error:.4f}; {share:.1%} of {o.samples} digits read as what was asked for")
    early = max(abs(a - b) / b for a, b in zip(device_losses[:FIRST], cpu_losses[:FIRST], strict=True))
    apart = (written - same_weights).abs().max().item()
    print(f"losses of the first {min(FIRST, o.steps)} steps {early:.1e} apart; pixels of the same weights {apart:.1e}")
    if o.picture:
        draw(o.picture, train, written)
    if early > LIMIT or apart > PIXEL_LIMIT:
        raise SystemExit(
            f"further from the CPU than rounding explains: losses {early:.1e}, limit {LIMIT:.0e}; pixels {apart:.1e},"
            f" limit {PIXEL_LIMIT:.0e}"
        )


if __name__ == "__main__":
    main()
