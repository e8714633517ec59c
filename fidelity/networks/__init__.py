"""Networks of published measurements, written as StableHLO from their published architectures: shapes, no weights.

Parameters are arguments. Products and convolutions take the type of the row's autocast, everything else fp32, as
AWS's compiler does with `--auto-cast matmult`; parameters of products come in that type, stored as products want them
(inputs by outputs), because a compiler that holds the parameters converts and lays them out once.
"""

from networks.convolutional import resnet, unet, vgg
from networks.diffusion import LATENT_SCALE, UNETS, UNet, denoiser, image_decoder, image_encoder
from networks.perceiver import perceiver
from networks.pipelines import CLIP_VOCABULARY, T5, Dit, dit, t5_encoder, text_encoder
from networks.stablehlo import Network
from networks.transformer import Encoder, clip, decoder, encoder, vision_encoder

__all__ = [
    "CLIP_VOCABULARY", "LATENT_SCALE", "T5", "UNETS", "Dit", "Encoder", "Network", "UNet", "clip", "decoder",
    "denoiser", "dit", "encoder", "image_decoder", "image_encoder", "perceiver", "resnet", "t5_encoder",
    "text_encoder", "unet", "vgg", "vision_encoder",
]  # fmt: skip
