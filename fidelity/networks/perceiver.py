"""Perceiver for image classification, as transformers has `deepmind/vision-perceiver-*`."""

from __future__ import annotations

from contextlib import nullcontext

from networks.stablehlo import Graph, Network, Value
from networks.transformer import Transformer

LATENTS, HIDDEN = 512, 1024
BLOCKS, LAYERS, HEADS = 8, 6, 8  # the layers of a block are shared by all blocks
CLASSES = 1000
SINES = 258  # 64 bands of two dimensions, sine and cosine, and the position itself


class PerceiverLayers(Transformer):
    """Writes layers whose queries are few and whose keys may be many."""

    def layer(self, x: Value, queries: Value, to: Value, heads: int, width: int) -> Value:
        """x plus what `queries`, x after its norm, see in `to`, `width` columns in all heads together; then a
        feed-forward layer."""
        g = self.graph
        x = g.binary("add", self.linear(self.seen(queries, to, heads, width), HIDDEN), x)
        return g.binary("add", self.linear(self.gelu(self.linear(self.norm(x), HIDDEN)), HIDDEN), x)

    def self_layer(self, x: Value) -> Value:
        normed = self.norm(x)
        return self.layer(x, normed, normed, HEADS, HIDDEN)


def _positions(g: Graph, net: PerceiverLayers, kind: str, side: int) -> Value:
    """What the latents look at: [1, positions, columns]. kind: "learned", "fourier" or "conv"."""
    pixels = g.input(1, 3, side, side)
    if kind == "conv":
        x = g.convolution(g.transpose(pixels, 1, 0, 2, 3), 64, 7, 2, 3)
        x = g.binary("maximum", g.binary("add", x, g.argument(64), [0]), 0.0)
        x = g.max_pool(x, 3, 2, 1)
        rows = g.reshape(g.transpose(x, 1, 2, 3, 0), 1, (side // 4) ** 2, 64)
    else:
        rows = g.reshape(g.transpose(pixels, 0, 2, 3, 1), 1, side * side, 3)
    if kind == "learned":
        rows = net.linear(rows, 256)
    places = g.argument(1, rows.shape[1], 256 if kind == "learned" else SINES)
    if kind == "learned":
        places = net.linear(places, 256)
    return g.concatenate([rows, places], 2)


def perceiver(kind: str, side: int, product_type: str = "bf16") -> Network:
    """Images [1, 3, side, side] to class scores."""
    g = Graph("perceiver", product_type)
    net = PerceiverLayers(g)
    seen = _positions(g, net, kind, side)
    x = g.argument(1, LATENTS, HIDDEN)
    x = net.layer(x, net.norm(x), net.norm(seen), 1, seen.shape[2])
    first_of_block = g.argument_count
    for block in range(BLOCKS):
        with g.sharing(first_of_block) if block else nullcontext():
            for _ in range(LAYERS):
                x = net.self_layer(x)
    query = g.argument(1, 1, HIDDEN)
    x = net.layer(query, net.norm(query), net.norm(x), 1, HIDDEN)
    return g.network(net.linear(g.reshape(x, 1, HIDDEN), CLASSES))
