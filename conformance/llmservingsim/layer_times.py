"""Times of a forward pass from LLMServingSim's measured layers: what each kernel took on the GPU, by its sizes.

Layers of one pass follow the project's `sequence` of the architecture. Between measured sizes values are interpolated
linearly along each axis; below the first they are its, above the last they are extrapolated.
"""

from __future__ import annotations

import csv
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

Step = Sequence[tuple[int, int]]  # tokens computed before, tokens computed now, of each request


class Axes:
    """Measured times over a grid that may have holes: a tree with one level per axis."""

    def __init__(self, rows: list[tuple[list[int], float]]) -> None:
        self.value = 0.0
        self.keys: list[int] = []
        self.children: list[Axes] = []
        if rows and not rows[0][0]:
            self.value = rows[0][1]
            return
        groups: dict[int, list[tuple[list[int], float]]] = {}
        for place, time in rows:
            groups.setdefault(place[0], []).append((place[1:], time))
        self.keys = sorted(groups)
        self.children = [Axes(groups[key]) for key in self.keys]

    def at(self, place: Sequence[float]) -> float:
        if not self.keys:
            return self.value
        query, rest = place[0], place[1:]
        if len(self.keys) == 1 or query <= self.keys[0]:
            return self.children[0].at(rest)
        high = min(bisect_right(self.keys, query), len(self.keys) - 1)
        low = high - 1
        share = (query - self.keys[low]) / (self.keys[high] - self.keys[low])
        below = self.children[low].at(rest)
        return below if share == 0 else below + share * (self.children[high].at(rest) - below)


def rows_of(path: Path, keys: Sequence[str]) -> list[tuple[list[int], float]]:
    with path.open() as lines:
        return [([int(row[key]) for key in keys], float(row["time_us"])) for row in csv.DictReader(lines)]


def by_layer(path: Path, key: str) -> dict[str, Axes]:
    with path.open() as lines:
        groups: dict[str, list[tuple[list[int], float]]] = {}
        for row in csv.DictReader(lines):
            groups.setdefault(row["layer"], []).append(([int(row[key])], float(row["time_us"])))
    return {layer: Axes(rows) for layer, rows in groups.items()}


@dataclass(frozen=True)
class Link:
    """Between the GPUs of a tensor-parallel group, as the example's config.json states it.

    The project hands `link_bw` to ASTRA-sim, whose analytical network counts a GB as 2^30 bytes (bw_GBps_to_Bpns).
    """

    gib_s: float
    latency_us: float


class LayerTimes:
    def __init__(self, profile: Path, architecture: Path, model: dict[str, Any], tp: int, link: Link) -> None:
        folder = profile / f"tp{tp}"
        self.layers = int(model["num_hidden_layers"])
        self.hidden = int(model["hidden_size"])
        self.tp, self.link = tp, link
        self.sequence = yaml.safe_load(architecture.read_text())["sequence"]
        self.dense = by_layer(folder / "dense.csv", "tokens")
        self.per_sequence = by_layer(folder / "per_sequence.csv", "sequences")
        grid = rows_of(folder / "attention.csv", ("prefill_chunk", "n_decode", "kv_prefill", "kv_decode"))
        self.attention = Axes(grid)
        self.skew = Skew(profile / "meta.yaml", folder, tp)
        self.once = cache(self._once)

    def us(self, step: Step) -> float:
        tokens = sum(now for _, now in step)
        total = self.once(tokens, len(step))
        return total + self.layers * self.attention_us(step)

    def _once(self, tokens: int, requests: int) -> float:
        """All but attention."""
        block = [*self.sequence["pre_attn"], *self.sequence["post_attn"], *self.sequence["mlp_dense"]]
        inside = sum(self.dense[name].at((tokens,)) for name in block if name != "attention")
        outside = [*self.sequence["prologue"], *self.sequence["head"]]
        total = self.layers * (inside + 2 * self.all_reduce_us(tokens))
        for name in outside:
            table, size = (self.dense, tokens) if name in self.dense else (self.per_sequence, requests)
            total += table[name].at((size,))
        return total

    def all_reduce_us(self, tokens: int) -> float:
        """A ring over the group of bf16 activations."""
        if self.tp == 1:
            return 0.0
        moved = 2 * (self.tp - 1) / self.tp * tokens * self.hidden * 2
        return moved / (self.link.gib_s * 2**30 / 1e6) + 2 * (self.tp - 1) * self.link.latency_us

    def attention_us(self, step: Step) -> float:
        chunk = sum(now for _, now in step if now > 1)
        before = sum(computed for computed, now in step if now > 1)
        contexts = [computed for computed, now in step if now == 1]
        mean = sum(contexts) / len(contexts) if contexts else 0
        even = self.attention.at((chunk, len(contexts), before, mean))
        if len(contexts) < 2 or max(contexts) == min(contexts):
            return even
        longest, spread = max(contexts), max(contexts) - min(contexts)
        alpha = self.skew.alpha(chunk, len(contexts), (mean - min(contexts)) / spread, longest, before)
        uneven = self.attention.at((chunk, len(contexts), before, longest)) if alpha else even
        return even + alpha * max(uneven - even, 0.0)


class Skew:
    """How much slower contexts of unequal length are, measured by the project in classes of batches."""

    def __init__(self, meta_file: Path, folder: Path, tp: int) -> None:
        meta = yaml.safe_load(meta_file.read_text()).get("skew_fit") or {}
        self.enabled = bool(meta.get("enabled"))
        if not self.enabled:
            return
        self.axes = meta["bucket_axes"]
        self.pooled = float(meta["per_tp"][tp]["alpha_default"])
        with (folder / "skew_fit.csv").open() as lines:
            self.table = {
                (int(row["pc"]), row["n_label"], row["skew_rate_label"], row["kv_big_label"], row["kp_label"]): float(row["alpha"])
                for row in csv.DictReader(lines)
            }  # fmt: skip

    def label(self, axis: str, value: float) -> str:
        bins, labels = self.axes[f"{axis}_bins"], self.axes[f"{axis}_labels"]
        return next((label for label, top in zip(labels, bins[1:]) if value <= top), labels[-1])

    def alpha(self, chunk: int, decodes: int, rate: float, longest: int, before: int) -> float:
        if not self.enabled:
            return 0.0
        key = (chunk, self.label("n", decodes), self.label("skew_rate", rate), self.label("kv_big", longest),
               self.label("kp", before))  # fmt: skip
        return self.table.get(key, self.pooled)
