"""Credit scoring: which of 1,000 real borrowers of a German bank did not pay back, by a network for tables.

    python examples/credit_torch.py                  # on the simulated core, then on this CPU: the same scores
    python examples/credit_torch.py --data breast    # another table: which tumours are malignant (scikit-learn)
    opentrn profile --target trn1 -- python examples/credit_torch.py

The credits are GermanCredit of the Debian package r-cran-caret, whose file is read by the package rdata:
apt-get install r-cran-caret (or unpack it: apt-get download, dpkg-deb -x, --file), pip install rdata. Nothing of R
is run.

Every tenth row and the one before it are kept for the test. Prints accuracy and the area under the ROC curve (the
chance that of two borrowers, one of each kind, the one who did not pay has the higher score), device time and price.
The CPU runs the same program: what torch.compile makes of it, with the backend aot_eager.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from torch import nn

import opentrn
import opentrn.torch  # noqa: F401  (the backend)

LIMIT = 1e-4  # of a score, which is between -10 and 10: sums in another order, through the steps
CREDITS = Path("/usr/lib/R/site-library/caret/data/GermanCredit.RData")


def credits(file: Path) -> tuple[np.ndarray, np.ndarray]:
    """61 numbers of each of 1000 borrowers, and 1 for those who did not pay back."""
    try:
        import rdata
    except ModuleNotFoundError:
        raise SystemExit("GermanCredit is read by the package rdata: pip install rdata") from None
    if not file.exists():
        raise SystemExit(
            f"{file} is not there: apt-get install r-cran-caret, or give its GermanCredit.RData by --file"
        )
    frame = rdata.read_rda(file)["GermanCredit"]
    bad = (frame.pop("Class") == "Bad").to_numpy()
    return frame.to_numpy(np.float32), bad.astype(np.float32)


def tumours() -> tuple[np.ndarray, np.ndarray]:
    """30 numbers of each of 569 tumours, and 1 for the malignant ones."""
    from sklearn.datasets import load_breast_cancer

    x, benign = load_breast_cancer(return_X_y=True)
    return x.astype(np.float32), (1 - benign).astype(np.float32)


def split(x: np.ndarray, y: np.ndarray) -> tuple[torch.Tensor, ...]:
    """Training rows, their classes, test rows, their classes; columns scaled by what the training rows are like."""
    x = x[:, x.std(0) > 0]
    test = np.arange(len(y)) % 10 >= 8
    mean, deviation = x[~test].mean(0), x[~test].std(0)
    scaled = (x - mean) / np.where(deviation > 0, deviation, 1)
    return tuple(torch.from_numpy(part) for part in (scaled[~test], y[~test], scaled[test], y[test]))


def area(scores: torch.Tensor, y: torch.Tensor) -> float:
    """Under the ROC curve: the share of pairs in the right order, a tie counting half."""
    apart = scores[y == 1][:, None].double() - scores[y == 0][None].double()
    return ((apart > 0).double() + (apart == 0).double() / 2).mean().item()


def draw(file: Path, curves: dict[str, torch.Tensor], wanted: torch.Tensor) -> None:
    """ROC curves: of those who paid, and of those who did not, the shares above every score."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(4.4, 3), layout="constrained")
    for (name, scores), style in zip(curves.items(), ("-", "--")):
        ordered = wanted[scores.argsort(descending=True)]
        false, true = ((ordered == kind).double().cumsum(0) / (ordered == kind).sum() for kind in (0, 1))
        axes.plot(false, true, style, label=f"{name}: {area(scores, wanted):.4f}")
    axes.plot([0, 1], [0, 1], ":", color="gray")
    axes.set_xlabel("share of class 0 above a score")
    axes.set_ylabel("of class 1")
    axes.legend(title="area under the curve")
    figure.savefig(file, dpi=90)


def learn(
    backend: str, data: tuple[torch.Tensor, ...], o: argparse.Namespace
) -> tuple[torch.Tensor, list[float]]:
    """Scores of the test rows, and the loss of every step; all of the training rows are one batch."""
    x, y, test, _ = data
    torch.manual_seed(o.seed)
    model = nn.Sequential(
        nn.Linear(x.shape[1], 32), nn.SiLU(), nn.Linear(32, 16), nn.SiLU(), nn.Linear(16, 1)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=o.rate, weight_decay=o.decay)

    def loss_of(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return nn.functional.binary_cross_entropy_with_logits(model(x)[:, 0], y)

    loss, predict, step = (torch.compile(each, backend=backend) for each in (loss_of, model, optimizer.step))
    losses = []
    for _ in range(o.steps):
        value = loss(x, y)
        optimizer.zero_grad()
        value.backward()
        step()
        losses.append(value.item())
    with torch.no_grad():
        return predict(test)[:, 0], losses


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", choices=("credits", "breast"), default="credits")
    parser.add_argument(
        "--file", type=Path, default=CREDITS, help="GermanCredit.RData (default: %(default)s)"
    )
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--rate", type=float, default=5e-3)
    parser.add_argument("--decay", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", type=Path, help="draw ROC curves (needs matplotlib)")
    o = parser.parse_args()
    data = split(*(credits(o.file) if o.data == "credits" else tumours()))
    with opentrn.profile_program() as profile:
        device, device_losses = learn("neuron", data, o)
    cpu, cpu_losses = learn("aot_eager", data, o)
    wanted = data[3]
    print(profile)
    print(
        f"{len(data[0])} rows to learn from, {len(wanted)} to test, of which {wanted.mean():.1%} are of class 1"
    )
    for name, scores, losses in (("device", device, device_losses), ("CPU", cpu, cpu_losses)):
        right = ((scores > 0) == (wanted == 1)).double().mean()
        print(f"{name:>6}: accuracy {right:.1%}, area {area(scores, wanted):.4f}, last loss {losses[-1]:.6f}")
    if o.picture:
        draw(o.picture, {"device": device, "CPU": cpu}, wanted)
    apart = (device - cpu).abs().max().item()
    print(f"scores at most {apart:.1e} apart")
    if apart > LIMIT:
        raise SystemExit(f"further from the CPU than rounding explains: {apart:.1e}, limit {LIMIT:.0e}")


if __name__ == "__main__":
    main()
