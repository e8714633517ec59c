"""Stable Diffusion's networks, as diffusers has them: the U-Net of one denoising step and the image decoder.

Activations are [channels, images, height, width] between convolutions and [images, positions, channels] between
products.
"""

from __future__ import annotations

from dataclasses import dataclass

from networks.stablehlo import Graph, Network, Value
from networks.transformer import Transformer

GROUPS = 32  # of every group norm
EPSILON = 1e-5
LATENT = 4  # channels
# The sides of an image are this many times those of what is denoised.
LATENT_SCALE = 8


@dataclass(frozen=True)
class UNet:
    """Sizes of a U-Net with cross-attention.

    channels: of the levels, whose resolution halves from one to the next. depths: layers of the transformers of each
    level, 0 for a level without attention. text: width of the text's hidden states. heads: of every level, or None for
    heads of 64 channels. inputs: channels of what is denoised, with what it is conditioned on. added: width of what
    else conditions it (Stable Diffusion XL: the pooled text and sizes).
    """

    channels: tuple[int, ...]
    depths: tuple[int, ...]
    text: int
    heads: int | None = None
    inputs: int = LATENT
    added: int = 0

    def heads_of(self, channels: int) -> int:
        return self.heads or channels // 64


# The `unet/config.json` of each checkpoint.
UNETS = {
    "1.5": UNet((320, 640, 1280, 1280), (1, 1, 1, 0), 768, heads=8),
    "2.1": UNet((320, 640, 1280, 1280), (1, 1, 1, 0), 1024),
    "2 Inpainting": UNet((320, 640, 1280, 1280), (1, 1, 1, 0), 1024, inputs=9),
    "XL Base": UNet((320, 640, 1280), (0, 2, 10), 2048, added=2816),
    "XL Refiner": UNet((384, 768, 1536, 1536), (0, 4, 4, 0), 1280, added=2560),
}


class Blocks:
    """Writes the blocks that the U-Net and the decoder share."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def convolution(self, x: Value, features: int, size: int, stride: int = 1) -> Value:
        g = self.graph
        y = g.convolution(x, features, size, stride, size // 2)
        return g.binary("add", y, g.argument(features), [0])

    def linear(self, x: Value, outputs: int) -> Value:
        """x: [rows, inputs]."""
        g = self.graph
        return g.binary("add", g.product(x, g.parameter(x.shape[1], outputs), (1, 0)), g.argument(outputs))

    def silu(self, x: Value) -> Value:
        return self.graph.binary("multiply", x, self.graph.unary("logistic", x))

    def group_norm(self, x: Value) -> Value:
        """In fp32, over the channels of a group and all positions of an image."""
        g = self.graph
        channels, images, height, width = x.shape
        size = channels // GROUPS
        y = g.reshape(g.converted(x, "f32"), GROUPS, size, images, height, width)

        def mean(value: Value) -> Value:
            return g.binary("divide", g.reduce("add", value, [1, 3, 4]), float(size * height * width))

        centred = g.binary("subtract", y, mean(y), [0, 2])
        variance = mean(g.binary("multiply", centred, centred))
        y = g.binary("multiply", centred, g.unary("rsqrt", g.binary("add", variance, EPSILON)), [0, 2])
        y = g.reshape(y, *x.shape)
        y = g.binary("multiply", y, g.converted(g.argument(channels), "f32"), [0])
        return g.converted(g.binary("add", y, g.converted(g.argument(channels), "f32"), [0]), g.element)

    def residual(self, x: Value, features: int, step: Value | None) -> Value:
        """step: [images, width], the embedding of the denoising step after its SiLU; None in the decoder."""
        g = self.graph
        y = self.convolution(self.silu(self.group_norm(x)), features, 3)
        if step is not None:
            y = g.binary("add", y, g.transpose(self.linear(step, features), 1, 0), [0, 1])
        y = self.convolution(self.silu(self.group_norm(y)), features, 3)
        return g.binary("add", y, x if x.shape[0] == features else self.convolution(x, features, 1))

    def doubled(self, x: Value) -> Value:
        """Nearest neighbours at twice the resolution, then a convolution."""
        g = self.graph
        channels, images, height, width = x.shape
        wide = g.spread(x, (channels, images, height, 2, width, 2), [0, 1, 2, 4])
        return self.convolution(g.reshape(wide, channels, images, 2 * height, 2 * width), channels, 3)

    def positions(self, x: Value) -> Value:
        """[images, positions, channels]."""
        channels, images, height, width = x.shape
        return self.graph.reshape(self.graph.transpose(x, 1, 2, 3, 0), images, height * width, channels)

    def image(self, x: Value, height: int, width: int) -> Value:
        """The inverse of positions()."""
        images, _, channels = x.shape
        return self.graph.transpose(self.graph.reshape(x, images, height, width, channels), 3, 0, 1, 2)


class Attended(Transformer):
    """Attention and feed-forward layers between the U-Net's residual blocks."""

    def gated(self, x: Value) -> Value:
        """A feed-forward layer whose GELU gates the other half."""
        g = self.graph
        images, positions, channels = x.shape
        both = self.linear(x, 8 * channels)
        halves = [
            g.slice(both, (0, images), (0, positions), (part * 4 * channels, (part + 1) * 4 * channels))
            for part in range(2)
        ]
        return self.linear(g.binary("multiply", halves[0], self.gelu(halves[1])), channels)

    def block(self, x: Value, text: Value, heads: int) -> Value:
        g = self.graph
        y = self.norm(x)
        x = g.binary("add", self.cross(y, y, heads), x)
        x = g.binary("add", self.cross(self.norm(x), text, heads), x)
        return g.binary("add", self.gated(self.norm(x)), x)


class _Denoiser:
    """One U-Net being written."""

    def __init__(self, graph: Graph, config: UNet, text: Value, step: Value) -> None:
        self.blocks = Blocks(graph)
        self.attended = Attended(graph)
        self.graph, self.config, self.text, self.step = graph, config, text, step

    def transformer(self, x: Value, depth: int) -> Value:
        g = self.graph
        channels, _, height, width = x.shape
        y = self.blocks.positions(self.blocks.group_norm(x))
        y = self.attended.linear(y, channels)
        for _ in range(depth):
            y = self.attended.block(y, self.text, self.config.heads_of(channels))
        return g.binary("add", self.blocks.image(self.attended.linear(y, channels), height, width), x)

    def down(self, x: Value) -> tuple[Value, list[Value]]:
        """What goes down, and what the way up adds."""
        x = self.blocks.convolution(x, self.config.channels[0], 3)
        kept = [x]
        for level, (channels, depth) in enumerate(zip(self.config.channels, self.config.depths, strict=True)):
            for _ in range(2):
                x = self.blocks.residual(x, channels, self.step)
                if depth:
                    x = self.transformer(x, depth)
                kept.append(x)
            if level + 1 < len(self.config.channels):
                x = self.blocks.convolution(x, channels, 3, 2)
                kept.append(x)
        return x, kept

    def up(self, x: Value, kept: list[Value]) -> Value:
        for level in reversed(range(len(self.config.channels))):
            for _ in range(3):
                x = self.graph.concatenate([x, kept.pop()], 0)
                x = self.blocks.residual(x, self.config.channels[level], self.step)
                if self.config.depths[level]:
                    x = self.transformer(x, self.config.depths[level])
            if level:
                x = self.blocks.doubled(x)
                # An odd side was rounded up on the way down.
                sides = kept[-1].shape[2:]
                if x.shape[2:] != sides:
                    x = self.graph.slice(x, (0, x.shape[0]), (0, 1), (0, sides[0]), (0, sides[1]))
        return x


def _step_embedding(blocks: Blocks, config: UNet, images: int) -> Value:
    """Sines of the step's number, which are a constant of the step, through two layers; [images, 4 x channels]."""
    g, width = blocks.graph, 4 * config.channels[0]

    def embedded(rows: Value) -> Value:
        return blocks.linear(blocks.silu(blocks.linear(rows, width)), width)

    step = embedded(g.input(images, config.channels[0]))
    if config.added:
        step = g.binary("add", step, embedded(g.input(images, config.added)))
    return blocks.silu(step)


def denoiser(
    config: UNet, sides: tuple[int, int], tokens: int, product_type: str = "bf16", element: str = "f32"
) -> Network:
    """One step of one image of latents of these sides, conditioned on `tokens` hidden states of text."""
    g = Graph("denoiser", product_type, element)
    blocks = Blocks(g)
    latents = g.transpose(g.input(1, config.inputs, *sides), 1, 0, 2, 3)
    text = g.input(1, tokens, config.text)
    net = _Denoiser(g, config, text, _step_embedding(blocks, config, 1))
    x, kept = net.down(latents)
    x = blocks.residual(x, x.shape[0], net.step)
    # The last level that has attention says how deep the middle's is (Stable Diffusion 1 and 2: one layer).
    x = net.transformer(x, next(filter(None, reversed(config.depths))))
    x = blocks.residual(x, x.shape[0], net.step)
    x = net.up(x, kept)
    x = blocks.convolution(blocks.silu(blocks.group_norm(x)), LATENT, 3)
    return g.network(g.transpose(x, 1, 0, 2, 3))


def _attended_residuals(blocks: Blocks, x: Value) -> Value:
    """The innermost blocks of the autoencoder: attention with one head between two residual blocks."""
    g, attended = blocks.graph, Transformer(blocks.graph)
    channels, _, height, width = x.shape
    x = blocks.residual(x, channels, None)
    y = blocks.positions(blocks.group_norm(x))
    x = g.binary("add", blocks.image(attended.cross(y, y, 1, bias=True), height, width), x)
    return blocks.residual(x, channels, None)


def image_encoder(sides: tuple[int, int], product_type: str = "bf16", element: str = "f32") -> Network:
    """The encoder of the variational autoencoder: an image of these sides to means and variances of its latents."""
    g = Graph("image_encoder", product_type, element)
    blocks = Blocks(g)
    x = blocks.convolution(g.transpose(g.input(1, 3, *sides), 1, 0, 2, 3), 128, 3)
    for level, channels in enumerate((128, 256, 512, 512)):
        for _ in range(2):
            x = blocks.residual(x, channels, None)
        if level < 3:
            x = blocks.convolution(x, channels, 3, 2)
    x = _attended_residuals(blocks, x)
    x = blocks.convolution(blocks.silu(blocks.group_norm(x)), 2 * LATENT, 3)
    return g.network(g.transpose(x, 1, 0, 2, 3))


def image_decoder(sides: tuple[int, int], product_type: str = "bf16", element: str = "f32") -> Network:
    """The decoder of the variational autoencoder with the 1 x 1 convolution before it: latents of these sides to an
    image of sides LATENT_SCALE times as long."""
    g = Graph("image_decoder", product_type, element)
    blocks = Blocks(g)
    x = blocks.convolution(g.transpose(g.input(1, LATENT, *sides), 1, 0, 2, 3), LATENT, 1)
    x = _attended_residuals(blocks, blocks.convolution(x, 512, 3))
    for level, channels in enumerate((512, 512, 256, 128)):
        for _ in range(3):
            x = blocks.residual(x, channels, None)
        if level < 3:
            x = blocks.doubled(x)
    x = blocks.convolution(blocks.silu(blocks.group_norm(x)), 3, 3)
    return g.network(g.transpose(x, 1, 0, 2, 3))
