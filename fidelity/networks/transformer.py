"""Transformers: BERT and its kin, GPT-2, ViT, CLIP, by their papers and the configurations of Hugging Face."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np

from networks.stablehlo import Graph, Network, Value

EPSILON = 1e-12
MASKED = float(np.finfo(np.float32).min)


@dataclass(frozen=True)
class Encoder:
    """Sizes of a transformer and what BERT's kin do differently.

    gelu: "erf", "tanh" (GELU's approximation) or "quick" (x sigmoid(1.702 x), CLIP). classes: of the classification
    head of a sequence; 0 returns the hidden states.
    """

    layers: int
    hidden: int
    heads: int
    inner: int
    vocabulary: int = 30522
    positions: int = 512
    embedding: int = 0  # width of the word table where it is not `hidden`
    token_types: int = 2
    pooled: bool = True
    gelu: str = "erf"
    classes: int = 0


NO_SIZES = Encoder(0, 0, 0, 0)


class Transformer:
    """Writes the parts that all of them share. config: NO_SIZES where the caller says each size."""

    def __init__(self, graph: Graph, config: Encoder = NO_SIZES) -> None:
        self.graph, self.config = graph, config

    def linear(self, x: Value, outputs: int, bias: bool = True) -> Value:
        g = self.graph
        inputs = x.shape[-1]
        y = g.product(x, g.parameter(inputs, outputs), (len(x.shape) - 1, 0))
        return g.binary("add", y, g.argument(outputs)) if bias else y

    def norm(self, x: Value, affine: bool = True) -> Value:
        """Over the last dimension, in fp32 whatever the graph's type is."""
        g = self.graph
        x = g.converted(x, "f32")
        rows = list(range(len(x.shape) - 1))

        def mean(value: Value) -> Value:
            return g.binary("divide", g.reduce("add", value, [len(rows)]), x.shape[-1])

        centred = g.binary("subtract", x, mean(x), rows)
        variance = mean(g.binary("multiply", centred, centred))
        scale = g.unary("rsqrt", g.binary("add", variance, EPSILON))
        scaled = g.binary("multiply", centred, scale, rows)
        if affine:
            scaled = g.binary("multiply", scaled, g.converted(g.argument(x.shape[-1]), "f32"))
            scaled = g.binary("add", scaled, g.converted(g.argument(x.shape[-1]), "f32"))
        return g.converted(scaled, g.element)

    def softmax(self, x: Value) -> Value:
        """Over the last dimension, in fp32 whatever the graph's type is."""
        g = self.graph
        x = g.converted(x, "f32")
        rows, last = list(range(len(x.shape) - 1)), len(x.shape) - 1
        powers = g.unary("exponential", g.binary("subtract", x, g.reduce("maximum", x, [last]), rows))
        return g.converted(g.binary("divide", powers, g.reduce("add", powers, [last]), rows), g.element)

    def gelu(self, x: Value) -> Value:
        g = self.graph
        if self.config.gelu == "quick":
            return g.binary("multiply", x, g.unary("logistic", g.binary("multiply", x, 1.702)))
        if self.config.gelu == "tanh":
            cube = g.binary("multiply", g.binary("multiply", x, x), x)
            inside = g.binary("add", x, g.binary("multiply", cube, 0.044715))
            inside = g.unary("tanh", g.binary("multiply", inside, (2 / np.pi) ** 0.5))
            return g.binary("multiply", g.binary("multiply", x, 0.5), g.binary("add", inside, 1.0))
        erf = g.unary("erf", g.binary("multiply", x, 2**-0.5))
        return g.binary("multiply", g.binary("multiply", x, 0.5), g.binary("add", erf, 1.0))

    def seen(
        self, x: Value, to: Value, heads: int, columns: int, *, bias: bool = True, scaled: bool = True,
        added: Value | None = None, dims: Sequence[int] = (),
    ) -> Value:  # fmt: skip
        """What queries of x [batch, rows, width] see in keys and values of `to`: [batch, rows, columns].

        columns: of all heads together. added: to the scores [batch, heads, rows, rows of `to`], along `dims` of them.
        """
        g = self.graph
        width = columns // heads

        def split(of: Value) -> Value:
            rows = self.linear(of, columns, bias)
            return g.transpose(g.reshape(rows, of.shape[0], of.shape[1], heads, width), 0, 2, 1, 3)

        query, key, value = split(x), split(to), split(to)
        scores = g.product(query, key, (3, 3), 2)
        if scaled:
            scores = g.binary("multiply", scores, width**-0.5)
        if added is not None:
            scores = g.binary("add", scores, added, dims)
        mixed = g.product(self.softmax(scores), value, (3, 2), 2)
        return g.reshape(g.transpose(mixed, 0, 2, 1, 3), x.shape[0], x.shape[1], columns)

    def attention(self, x: Value, mask: Value | None) -> Value:
        """mask: [batch, tokens] or [tokens, tokens], added to the scores; None: everything is seen."""
        _, tokens, hidden = x.shape
        dims = [2, 3] if mask is not None and mask.shape == (tokens, tokens) else [0, 3]
        seen = self.seen(x, x, self.config.heads, hidden, added=mask, dims=dims)
        return self.linear(seen, hidden)

    def cross(self, x: Value, to: Value, heads: int, bias: bool = False) -> Value:
        """Queries of x [batch, rows, width], keys and values of `to` [batch, tokens, any width]."""
        return self.linear(self.seen(x, to, heads, x.shape[2], bias=bias), x.shape[2])

    def mlp(self, x: Value) -> Value:
        return self.linear(self.gelu(self.linear(x, self.config.inner)), x.shape[-1])

    def layer_post_norm(self, x: Value, mask: Value | None) -> Value:
        g = self.graph
        x = self.norm(g.binary("add", self.attention(x, mask), x))
        return self.norm(g.binary("add", self.mlp(x), x))

    def layer_pre_norm(self, x: Value, mask: Value | None) -> Value:
        g = self.graph
        x = g.binary("add", self.attention(self.norm(x), mask), x)
        return g.binary("add", self.mlp(self.norm(x)), x)

    def positioned(self, x: Value) -> Value:
        """x [batch, tokens, width] plus the first rows of a position table."""
        g = self.graph
        _, tokens, width = x.shape
        table = g.argument(max(self.config.positions, tokens), width)
        first = g.slice(table, (0, tokens), (0, width))
        return g.binary("add", x, first, [1, 2])


def _additive(g: Graph, keep: Value) -> Value:
    """0 where a token counts, the smallest number where not."""
    ones = g.spread(g.number(1.0), keep.shape, [])
    return g.binary("multiply", g.binary("subtract", ones, g.converted(keep, "f32")), MASKED)


def encoder(
    config: Encoder,
    batch: int,
    tokens: int,
    product_type: str = "bf16",
    shared: bool = False,
    element: str = "f32",
    words_by_host: bool = False,
) -> Network:
    """BERT, RoBERTa, DistilBERT, ELECTRA, and with `shared` layers ALBERT: ids and mask to hidden states.

    element: of what lies between products. words_by_host: it brings rows of the table of words, in fp32, not ids.
    """
    g = Graph("encoder", product_type, element)
    net = Transformer(g, config)
    width = config.embedding or config.hidden
    given = g.input(*(batch, tokens, width)[: 3 if words_by_host else 2], element="f32" if words_by_host else "i32")
    keep = g.input(batch, tokens, element="i32")
    words = (
        g.converted(given, element) if words_by_host else g.rows_of(g.argument(config.vocabulary, width), given)
    )
    x = net.positioned(words)
    if config.token_types:
        first = g.slice(g.argument(config.token_types, width), (0, 1), (0, width))
        x = g.binary("add", x, g.reshape(first, width))
    x = net.norm(x)
    if width != config.hidden:
        x = net.linear(x, config.hidden)
    mask = g.converted(_additive(g, keep), element)
    first_of_layer = g.argument_count
    for layer in range(config.layers):
        with g.sharing(first_of_layer) if shared and layer else nullcontext():
            x = net.layer_post_norm(x, mask)
    if not config.pooled:
        return g.network(x)
    first = g.reshape(g.slice(x, (0, batch), (0, 1), (0, config.hidden)), batch, config.hidden)
    pooled = g.unary("tanh", net.linear(first, config.hidden))
    return g.network(net.linear(pooled, config.classes)) if config.classes else g.network(x, pooled)


def decoder(config: Encoder, batch: int, tokens: int, product_type: str = "bf16") -> Network:
    """GPT-2 over a whole sequence: ids and mask to hidden states; no cache."""
    g = Graph("decoder", product_type)
    net = Transformer(g, config)
    ids = g.input(batch, tokens, element="i32")
    x = net.positioned(g.rows_of(g.argument(config.vocabulary, config.hidden), ids))
    causal = g.argument(tokens, tokens)  # a constant of the model
    for _ in range(config.layers):
        x = net.layer_pre_norm(x, causal)
    return g.network(net.norm(x))


def _patches(g: Graph, net: Transformer, batch: int, image: int, patch: int, bias: bool) -> Value:
    """Images [batch, 3, image, image] to tokens [batch, 1 + patches, hidden]: cut, project, prepend a class token."""
    hidden, side = net.config.hidden, image // patch
    pixels = g.converted(g.input(batch, 3, image, image), g.product_type)
    cut = g.transpose(g.reshape(pixels, batch, 3, side, patch, side, patch), 0, 2, 4, 1, 3, 5)
    cut = g.reshape(cut, batch, side * side, 3 * patch * patch)
    if bias:
        x = net.linear(cut, hidden)
    else:
        x = g.product(cut, g.parameter(3 * patch * patch, hidden), (2, 0))
    token = g.spread(g.argument(hidden), (batch, 1, hidden), [2])
    return g.concatenate([token, x], 1)


def _vision(
    g: Graph, config: Encoder, batch: int, image: int, patch: int, clip_like: bool
) -> tuple[Value, Value]:
    """The hidden states of all patches, and the class token's vector after the last norm."""
    net = Transformer(g, config)
    x = net.positioned(_patches(g, net, batch, image, patch, bias=not clip_like))
    if clip_like:
        x = net.norm(x)
    for _ in range(config.layers):
        x = net.layer_pre_norm(x, None)
    if not clip_like:
        x = net.norm(x)  # of every token, as the model has it
    first = g.reshape(g.slice(x, (0, batch), (0, 1), (0, config.hidden)), batch, config.hidden)
    return x, net.norm(first) if clip_like else first


def vision_encoder(
    config: Encoder, batch: int, image: int, patch: int, product_type: str = "bf16", element: str = "f32"
) -> Network:
    """ViT: images to class scores. element: of what lies between products."""
    g = Graph("vit", product_type, element)
    return g.network(
        Transformer(g, config).linear(_vision(g, config, batch, image, patch, False)[1], config.classes)
    )


def clip(
    vision: Encoder, text: Encoder, width: int, batch: int, image: int, patch: int, texts: int, tokens: int,
    product_type: str = "bf16",
) -> Network:  # fmt: skip
    """CLIP: ids of `texts` texts and images to what the benchmark's script returns (`return_dict=False`): the scores of
    every image against every text and turned, both embeddings, and of each tower the hidden states and the pooled one.

    width: of the space in which both are compared.
    """
    g = Graph("clip", product_type)
    net = Transformer(g, text)
    ids = g.input(texts, tokens, element="i32")
    x = net.positioned(g.rows_of(g.argument(text.vocabulary, text.hidden), ids))
    causal = g.argument(tokens, tokens)
    for _ in range(text.layers):
        x = net.layer_pre_norm(x, causal)
    # The end token of every text; where it stands is an input's matter, and its place costs nothing.
    x = net.norm(x)
    end = g.reshape(g.slice(x, (0, texts), (tokens - 1, tokens), (0, text.hidden)), texts, text.hidden)
    said = g.product(end, g.parameter(text.hidden, width), (1, 0))
    patches, first = _vision(g, vision, batch, image, patch, True)
    seen = g.product(first, g.parameter(vision.hidden, width), (1, 0))

    def unit(v: Value) -> Value:
        return g.binary(
            "multiply", v, g.unary("rsqrt", g.reduce("add", g.binary("multiply", v, v), [1])), [0]
        )

    said, seen = unit(said), unit(seen)
    scores = g.binary("multiply", g.product(said, seen, (1, 1)), 100.0)
    return g.network(g.transpose(scores, 1, 0), scores, said, seen, x, end, patches, first)
