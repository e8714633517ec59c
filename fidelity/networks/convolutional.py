"""ResNet, VGG and U-Net, as torchvision and milesial/Pytorch-UNet have them.

Activations are [channels, images, height, width]. The batch norms of inference are part of the convolution before
them: scale and shift of constants, which a compiler that holds the parameters folds.
"""

from __future__ import annotations

from networks.stablehlo import Graph, Network, Value

# Blocks per stage, and whether blocks are bottlenecks (He et al. 2015, table 1).
RESNETS = {
    18: ((2, 2, 2, 2), False),
    34: ((3, 4, 6, 3), False),
    50: ((3, 4, 6, 3), True),
    101: ((3, 4, 23, 3), True),
    152: ((3, 8, 36, 3), True),
}
# Features of the convolutions; 0 is a 2x2 pooling (Simonyan and Zisserman 2014, table 1, A and D).
VGGS = {
    11: (64, 0, 128, 0, 256, 256, 0, 512, 512, 0, 512, 512, 0),
    16: (64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0),
}


class Layers:
    """Writes convolutions and dense layers with their biases.

    kept: the element type in which images lie between layers; a layer with its bias and ReLU is rounded to it once.
    """

    def __init__(self, name: str, product_type: str, kept: str = "f32") -> None:
        self.graph, self.kept = Graph(name, product_type), kept

    def images(self, batch: int, channels: int, side: int) -> Value:
        """The input is [batch, channels, side, side]."""
        return self.graph.transpose(self.graph.input(batch, channels, side, side), 1, 0, 2, 3)

    def convolution(
        self, x: Value, features: int, size: int, stride: int = 1, padding: int | None = None
    ) -> Value:
        g = self.graph
        y = g.convolution(x, features, size, stride, size // 2 if padding is None else padding)
        return g.binary("add", y, g.argument(features), [0])

    def relu(self, x: Value) -> Value:
        return self.graph.converted(self.graph.binary("maximum", x, 0.0), self.kept)

    def added(self, x: Value, y: Value) -> Value:
        g = self.graph
        return g.binary("add", g.converted(x, "f32"), g.converted(y, "f32"))

    def linear(self, x: Value, outputs: int) -> Value:
        """x: [batch, inputs]."""
        g = self.graph
        y = g.product(x, g.parameter(x.shape[1], outputs), (1, 0))
        return g.binary("add", y, g.argument(outputs))


def resnet(
    depth: int, batch: int, side: int = 224, product_type: str = "bf16", kept: str = "f32"
) -> Network:
    """Images to 1000 class scores. Raises KeyError for a depth that the paper does not have.

    kept: the element type of images between layers.
    """
    blocks, bottleneck = RESNETS[depth]
    net = Layers("resnet", product_type, kept)
    g = net.graph
    x = net.relu(net.convolution(net.images(batch, 3, side), 64, 7, 2))
    x = g.max_pool(x, 3, 2, 1)
    for stage, count in enumerate(blocks):
        inner = 64 * 2**stage
        outer = inner * 4 if bottleneck else inner
        for block in range(count):
            stride = 2 if stage and not block else 1
            if bottleneck:  # torchvision has the stride in the 3x3
                y = net.relu(net.convolution(x, inner, 1))
                y = net.relu(net.convolution(y, inner, 3, stride))
                y = net.convolution(y, outer, 1)
            else:
                y = net.relu(net.convolution(x, inner, 3, stride))
                y = net.convolution(y, outer, 3)
            if x.shape[0] != outer or stride != 1:
                x = net.convolution(x, outer, 1, stride)
            x = net.relu(net.added(y, x))
    x = g.converted(x, "f32")
    mean = g.binary("divide", g.reduce("add", x, [2, 3]), float(x.shape[2] * x.shape[3]))
    return g.network(net.linear(g.transpose(mean, 1, 0), 1000))


def vgg(depth: int, batch: int, side: int = 224, product_type: str = "bf16") -> Network:
    """Images to 1000 class scores. Raises KeyError for a depth that is not in VGGS."""
    net = Layers("vgg", product_type)
    g = net.graph
    x = net.images(batch, 3, side)
    for features in VGGS[depth]:
        x = net.relu(net.convolution(x, features, 3)) if features else g.max_pool(x, 2, 2)
    channels, _, height, width = x.shape
    x = g.reshape(g.transpose(x, 1, 0, 2, 3), batch, channels * height * width)
    for _ in range(2):
        x = net.relu(net.linear(x, 4096))
    return g.network(net.linear(x, 1000))


def unet(batch: int, side: int = 224, product_type: str = "bf16") -> Network:
    """milesial/Pytorch-UNet `unet_carvana`: four halvings, transposed convolutions up, two classes per pixel."""
    net = Layers("unet", product_type)
    g = net.graph

    def double(x: Value, features: int) -> Value:
        for _ in range(2):
            x = net.relu(net.convolution(x, features, 3))
        return x

    def doubled_side(x: Value, features: int) -> Value:
        return g.binary("add", g.doubled_convolution(x, features), g.argument(features), [0])

    x = double(net.images(batch, 3, side), 64)
    skipped = []
    for features in (128, 256, 512, 1024):
        skipped.append(x)
        x = double(g.max_pool(x, 2, 2), features)
    for features, skip in zip((512, 256, 128, 64), reversed(skipped), strict=True):
        x = double(g.concatenate([skip, doubled_side(x, features)], 0), features)
    return g.network(g.transpose(net.convolution(x, 2, 1), 1, 0, 2, 3))
