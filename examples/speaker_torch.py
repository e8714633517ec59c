"""Speaker verification: do two recordings have the same voice? By Resemblyzer's encoder, an LSTM of three layers.

    python examples/speaker_torch.py                 # recordings of Debian's packages; beside PyTorch on this CPU
    python examples/speaker_torch.py a.wav b.wav     # yours: mono, 16 bit, 16 kHz or a multiple of it
    python examples/speaker_torch.py --picture voices.png

The weights lie in the package Resemblyzer (Apache licence), of which nothing else is used:
pip install --no-deps Resemblyzer==0.1.4. Recordings: apt-get install pocketsphinx-testdata alsa-utils.

A recording is cut into windows of 1.6 s, each a mel spectrogram of 160 frames; the encoder makes 256 numbers of a
window, and their mean, scaled to length 1, is the voice. Two recordings are taken to have one speaker where the
product of their voices is at least 0.75. Ends with an error where a product of the device is further from PyTorch's
on this CPU than rounding.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from application import RATE, of_package, price, priced, recorded
from torch import nn

import opentrn

HOP, WINDOW, MELS, FRAMES = 160, 400, 40, 160
STEP = 77  # frames between windows: 1.3 a second, as the package takes by default
SAME = 0.75  # of the product of two voices
LIMIT = 1e-4  # of a product: what rounding does over 160 steps of recurrence
POCKETSPHINX, ALSA = "/usr/share/pocketsphinx/test/data", "/usr/share/sounds/alsa"
# Speaker and recording. Raw files are 16 bit, mono, 16 kHz.
SPEAKERS = {
    "a reader of LibriVox": [f"librivox/sense_and_sensibility_01_austen_64kb-0{n}.wav" for n in (870, 890, 920)],
    "a player of cards": ["cards/002.wav", "cards/005.wav"],
    "the voice of ALSA": [f"{name}.wav" for name in ("Front_Center", "Rear_Left", "Side_Right")],
}


def weights() -> dict[str, torch.Tensor]:
    """Of the encoder, from the package."""
    file = of_package("resemblyzer", "pretrained.pt", pip="Resemblyzer==0.1.4")
    return torch.load(file, map_location="cpu", weights_only=True)["model_state"]


def samples(path: Path) -> np.ndarray:
    """float32 from -1 to 1 at 16 kHz; quiet recordings made louder, to -30 dBFS."""
    values = recorded(path, WINDOW)
    loudness = 20 * np.log10(max(float(np.sqrt((values**2).mean())), 1e-9))
    return values * np.float32(10 ** (max(0.0, -30 - loudness) / 20))


def filters() -> np.ndarray:
    """(40, 201): triangles between 42 frequencies, evenly spaced on Slaney's mel scale, each of area 1."""
    edges_mel = np.linspace(0, 15 + 27 * np.log(8) / np.log(6.4), MELS + 2)  # up to 8 kHz
    edges = np.where(edges_mel < 15, edges_mel * 200 / 3, 1000 * np.exp((edges_mel - 15) * np.log(6.4) / 27))
    bins = np.linspace(0, RATE / 2, WINDOW // 2 + 1)
    up = (bins - edges[:-2, None]) / np.diff(edges)[:-1, None]
    down = (edges[2:, None] - bins) / np.diff(edges)[1:, None]
    return np.maximum(0, np.minimum(up, down)) * (2 / (edges[2:] - edges[:-2]))[:, None]


def windows(audio: np.ndarray) -> torch.Tensor:
    """(windows, 160, 40): power of each mel band. The last window is filled up where 75 % of it is there."""
    frames = len(audio) // HOP + 1
    starts = [start for start in range(0, max(1, frames - FRAMES + STEP), STEP) if start < frames]
    if len(starts) > 1 and frames - starts[-1] < 0.75 * FRAMES:
        starts.pop()
    needed = (starts[-1] + FRAMES) * HOP
    padded = np.pad(audio, (WINDOW // 2, max(0, needed - len(audio)) + WINDOW // 2))
    cut = np.lib.stride_tricks.sliding_window_view(padded, WINDOW)[::HOP]
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(WINDOW) / WINDOW)
    power = np.abs(np.fft.rfft(cut * hann)) ** 2
    mels = (power @ filters().T).astype(np.float32)
    return torch.from_numpy(np.stack([mels[start : start + FRAMES] for start in starts]))


class Encoder(nn.Module):
    """As in "Generalized End-to-End Loss for Speaker Verification" (Wan and others, 2018)."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(MELS, 256, 3, batch_first=True)
        self.linear = nn.Linear(256, 256)

    def forward(self, mels: torch.Tensor) -> torch.Tensor:
        """(windows, 160, 40) to (windows, 256)."""
        hidden = self.lstm(mels)[1][0]
        raw = torch.relu(self.linear(hidden[-1]))
        return raw / raw.norm(dim=1, keepdim=True)


def voice(encode: Callable[[torch.Tensor], np.ndarray], audio: np.ndarray, batch: int) -> np.ndarray:
    """256 numbers of length 1. Windows go through the encoder `batch` at a time; those that fill up are left out."""
    given = windows(audio)
    found = []
    for part in given.split(batch):
        filled = torch.cat([part, part.new_zeros(batch - len(part), FRAMES, MELS)])
        found.append(encode(filled)[: len(part)])
    mean = np.concatenate(found).mean(0)
    return mean / np.linalg.norm(mean)


def draw(file: Path, names: list[str], products: np.ndarray) -> None:
    """The product of every pair of recordings."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6.4, 3.6), layout="constrained")
    image = axes.imshow(products, vmin=0.4, vmax=1, cmap="Blues")
    axes.set_yticks(range(len(names)), names, fontsize=7)
    axes.set_xticks([])
    for row, values in enumerate(products):
        for column, value in enumerate(values):
            axes.text(column, row, f"{value:.2f}", ha="center", va="center", fontsize=7,
                      color="white" if value >= SAME else "black")  # fmt: skip
    figure.colorbar(image, label="product of two voices")
    figure.savefig(file, dpi=100)


def recordings(o: argparse.Namespace) -> list[tuple[str, Path]]:
    """Speaker and file; those of the command line are of one speaker each."""
    if o.recordings:
        return [(str(path), path) for path in o.recordings]
    return [
        (speaker, (o.alsa if "/" not in name else o.pocketsphinx) / name)
        for speaker, names in SPEAKERS.items()
        for name in names
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("recordings", nargs="*", type=Path)
    parser.add_argument("--target", help="default: of NEURON_PLATFORM_TARGET_OVERRIDE, else trn2")
    parser.add_argument("--batch", type=int, default=8, help="windows that the program takes at a time")
    parser.add_argument("--pocketsphinx", type=Path, default=Path(POCKETSPHINX), help="default: %(default)s")
    parser.add_argument("--alsa", type=Path, default=Path(ALSA), help="default: %(default)s")
    parser.add_argument("--picture", type=Path, help="draw the products (needs matplotlib)")
    o = parser.parse_args()
    encoder = Encoder().eval()
    given = weights()
    encoder.load_state_dict({name: given[name] for name in encoder.state_dict()})
    for each in encoder.parameters():
        each.requires_grad_(False)
    chosen = recordings(o)
    audio = [samples(path) for _, path in chosen]
    model = opentrn.compile(
        torch.export.export(encoder, (torch.zeros(o.batch, FRAMES, MELS),)), target=o.target
    )

    def on_device(mels: torch.Tensor) -> np.ndarray:
        return model(mels.numpy())[0]

    def on_cpu(mels: torch.Tensor) -> np.ndarray:
        return encoder(mels).numpy()

    device, cpu = (np.stack([voice(each, part, o.batch) for part in audio]) for each in (on_device, on_cpu))
    products, theirs = device @ device.T, cpu @ cpu.T
    apart = float(np.abs(products - theirs).max())
    same = np.array([[a == b for b, _ in chosen] for a, _ in chosen])
    pairs = np.triu(np.ones_like(same), 1).astype(bool)
    wrong, cpu_wrong = (int(((each >= SAME) != same)[pairs].sum()) for each in (products, theirs))
    for (speaker, path), row in zip(chosen, products):
        print(f"{path.name:<48}{speaker:<22}" + " ".join(f"{value:.2f}" for value in row))
    timing = model.time()
    us = timing.time_us + timing.launch_ns / 1e3
    print(f"{pairs.sum()} pairs: wrong on the device {wrong}, on the CPU {cpu_wrong}; products {apart:.1e} apart")
    usd, rented = price(timing, o.target)
    hours = 1000 * 3600 / (STEP * HOP / RATE) / o.batch * usd
    print(f"{us:.0f} us for {o.batch} windows of 1.6 s on {model.target}, predicted, the launch included;"
          f" {priced(hours, '1,000 hours of sound', rented)}")  # fmt: skip
    if o.picture:
        draw(o.picture, [f"{speaker}: {path.stem[-12:]}" for speaker, path in chosen], products)
    if apart > LIMIT or wrong != cpu_wrong:
        raise SystemExit(f"further from the CPU than rounding explains: {apart:.1e}, limit {LIMIT:.0e}")


if __name__ == "__main__":
    main()
