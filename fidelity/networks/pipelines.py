"""What stands around the denoiser of an image pipeline: the text encoders of CLIP and T5, and PixArt's transformer."""

from __future__ import annotations

from dataclasses import dataclass

from networks.diffusion import LATENT
from networks.stablehlo import Graph, Network, Value
from networks.transformer import MASKED, Encoder, Transformer

CLIP_VOCABULARY = 49408


def text_encoder(config: Encoder, tokens: int, width: int = 0, product_type: str = "bf16",
                 element: str = "f32") -> Network:  # fmt: skip
    """CLIP's: ids of one text to its hidden states, and with a `width` to its vector in the space of images too."""
    g = Graph("text_encoder", product_type, element)
    net = Transformer(g, config)
    ids = g.input(1, tokens, element="i32")
    x = net.positioned(g.rows_of(g.argument(config.vocabulary, config.hidden), ids))
    causal = g.argument(tokens, tokens)  # a constant of the model
    for _ in range(config.layers):
        x = net.layer_pre_norm(x, causal)
    x = net.norm(x)
    if not width:
        return g.network(x)
    end = g.reshape(g.slice(x, (0, 1), (tokens - 1, tokens), (0, config.hidden)), 1, config.hidden)
    return g.network(x, g.product(end, g.parameter(config.hidden, width), (1, 0)))


# -- T5
@dataclass(frozen=True)
class T5:
    """Sizes of T5's encoder, version 1.1: gated GELU, norms without a mean, biases by distance.

    The defaults are `google/t5-v1_1-xxl`.
    """

    layers: int = 24
    hidden: int = 4096
    heads: int = 64
    width: int = 64  # of a head
    inner: int = 10240
    vocabulary: int = 32128


class T5Layers(Transformer):
    """Writes the layers of T5's encoder."""

    def __init__(self, graph: Graph, config: T5) -> None:
        super().__init__(graph, Encoder(0, 0, 0, 0, gelu="tanh"))
        self.t5 = config

    def scaled(self, x: Value) -> Value:
        """x over the root of its mean square, in fp32."""
        g = self.graph
        wide = g.converted(x, "f32")
        mean = g.binary("divide", g.reduce("add", g.binary("multiply", wide, wide), [2]), x.shape[2])
        scale = g.unary("rsqrt", g.binary("add", mean, 1e-6))
        rows = g.converted(g.binary("multiply", wide, scale, [0, 1]), g.element)
        return g.binary("multiply", rows, g.argument(x.shape[2]))

    def attended(self, x: Value, bias: Value) -> Value:
        t5 = self.t5
        seen = self.seen(
            x, x, t5.heads, t5.heads * t5.width, bias=False, scaled=False, added=bias, dims=[1, 2, 3]
        )
        return self.linear(seen, t5.hidden, bias=False)

    def layer(self, x: Value, bias: Value) -> Value:
        g = self.graph
        x = g.binary("add", self.attended(self.scaled(x), bias), x)
        y = self.scaled(x)
        gate = self.gelu(self.linear(y, self.t5.inner, bias=False))
        gated = g.binary("multiply", gate, self.linear(y, self.t5.inner, bias=False))
        return g.binary("add", self.linear(gated, self.t5.hidden, bias=False), x)


def t5_encoder(config: T5, tokens: int, product_type: str = "bf16", element: str = "bf16") -> Network:
    """Ids and mask of one text to its hidden states. The bias by distance is a constant, as AWS's script computes it
    before it traces."""
    g = Graph("t5_encoder", product_type, element)
    net = T5Layers(g, config)
    ids, keep = g.input(1, tokens, element="i32"), g.input(1, tokens, element="i32")
    x = g.rows_of(g.argument(config.vocabulary, config.hidden), ids)
    bias = g.binary("add", g.argument(config.heads, tokens, tokens), _hidden(g, keep), [2])
    for _ in range(config.layers):
        x = net.layer(x, bias)
    return g.network(net.scaled(x))


def _hidden(g: Graph, keep: Value) -> Value:
    """[tokens]: 0 where a token counts, the smallest number where not."""
    flags = g.converted(g.reshape(keep, keep.shape[1]), g.element)
    ones = g.spread(g.number(1.0, g.element), flags.shape, [])
    return g.binary("multiply", g.binary("subtract", ones, flags), MASKED)


# -- PixArt
@dataclass(frozen=True)
class Dit:
    """Sizes of PixArt's transformer; the defaults are the `transformer/config.json` of PixArt-XL-2."""

    layers: int = 28
    hidden: int = 1152
    heads: int = 16
    text: int = 4096
    patch: int = 2
    sines: int = 256  # of the step's number


class DitLayers(Transformer):
    """Blocks whose norms are shifted, scaled and gated by the denoising step."""

    def shifted(self, x: Value, shift: Value, scale: Value) -> Value:
        g = self.graph
        y = self.norm(x, affine=False)
        y = g.binary("multiply", y, g.binary("add", scale, 1.0))
        return g.binary("add", y, shift)

    def step_parts(self, step: Value, parts: int) -> list[Value]:
        """A table of the block plus the step's vector [parts, hidden], row by row."""
        g = self.graph
        both = g.binary("add", step, g.argument(*step.shape))
        hidden = step.shape[1]
        return [g.reshape(g.slice(both, (row, row + 1), (0, hidden)), hidden) for row in range(parts)]

    def block(self, x: Value, text: Value, hidden_tokens: Value, step: Value, heads: int) -> Value:
        g = self.graph
        shift, scale, gate, shift_mlp, scale_mlp, gate_mlp = self.step_parts(step, 6)
        y = self.shifted(x, shift, scale)
        x = g.binary("add", g.binary("multiply", self.cross(y, y, heads, bias=True), gate), x)
        seen = self.seen(x, text, heads, x.shape[2], added=hidden_tokens, dims=[3])
        x = g.binary("add", self.linear(seen, x.shape[2]), x)
        y = self.shifted(x, shift_mlp, scale_mlp)
        y = self.linear(self.gelu(self.linear(y, 4 * x.shape[2])), x.shape[2])
        return g.binary("add", g.binary("multiply", y, gate_mlp), x)


def dit(
    config: Dit, sides: tuple[int, int], tokens: int, product_type: str = "bf16", element: str = "bf16"
) -> Network:
    """One denoising step of latents of these sides with `tokens` hidden states of text and their mask."""
    g = Graph("dit", product_type, element)
    net = DitLayers(g, Encoder(0, config.hidden, config.heads, 0, gelu="tanh"))
    hidden, patch = config.hidden, config.patch
    rows, columns = (side // patch for side in sides)
    cut = g.reshape(g.input(1, LATENT, *sides), 1, LATENT, rows, patch, columns, patch)
    cut = g.reshape(g.transpose(cut, 0, 2, 4, 1, 3, 5), 1, rows * columns, LATENT * patch * patch)
    x = g.binary("add", net.linear(cut, hidden), g.argument(rows * columns, hidden), [1, 2])
    text = g.input(1, tokens, config.text)
    hidden_tokens = _hidden(g, g.input(1, tokens, element="i32"))
    text = net.linear(net.gelu(net.linear(text, hidden)), hidden)

    def silu(v: Value) -> Value:
        return g.binary("multiply", v, g.unary("logistic", v))

    step = net.linear(silu(net.linear(g.input(1, config.sines), hidden)), hidden)
    steps = g.reshape(net.linear(silu(step), 6 * hidden), 6, hidden)
    for _ in range(config.layers):
        x = net.block(x, text, hidden_tokens, steps, config.heads)
    last = g.spread(g.reshape(step, hidden), (2, hidden), [1])
    shift, scale = net.step_parts(last, 2)
    y = net.linear(net.shifted(x, shift, scale), patch * patch * 2 * LATENT)
    y = g.transpose(g.reshape(y, 1, rows, columns, patch, patch, 2 * LATENT), 0, 5, 1, 3, 2, 4)
    return g.network(g.reshape(y, 1, 2 * LATENT, *sides))
