"""Plans of models of images that run, on simulated NeuronCores: ViT, and Stable Diffusion 3's transformer."""

from __future__ import annotations

import json
import re

import pytest

pytest.importorskip("jax", reason="the platform is JAX's")

from opentrn.errors import InputError  # noqa: E402
from tests.jax.test_plan_export import config, exported, gradients, ran  # noqa: E402

# 49 patches of an image and the class's token, and 10 classes.
IMAGES = {"model_type": "vit", "hidden_size": 128, "num_hidden_layers": 3, "num_attention_heads": 4,
          "intermediate_size": 256, "image_size": 63, "patch_size": 9, "num_labels": 10}  # fmt: skip
OF_IMAGES = [
    {"tp": 2, "sp": "on", "zero": 1, "micro_batch": 1, "recompute": "full"},
    {"tp": 4, "sp": "off", "zero": 3, "micro_batch": 2, "recompute": "none"},
    {"tp": 1, "sp": "off", "zero": 0, "micro_batch": 2, "recompute": "none"},
]


# 64 patches and 15 tokens of text.
JOINT = {"_class_name": "SD3Transformer2DModel", "num_layers": 2, "num_attention_heads": 4, "attention_head_dim": 32,
         "patch_size": 2, "in_channels": 4, "joint_attention_dim": 64, "pooled_projection_dim": 32, "sample_size": 16,
         "text_tokens": 15}  # fmt: skip
OF_BOTH = [
    {"tp": 2, "sp": "off", "zero": 1, "micro_batch": 1, "recompute": "full"},
    {"tp": 4, "sp": "off", "zero": 3, "micro_batch": 2, "recompute": "none"},
]


@pytest.mark.parametrize(
    ("model", "options"), [(IMAGES, each) for each in OF_IMAGES] + [(JOINT, each) for each in OF_BOTH]
)
def test_images_have_the_gradients_of_one_device(tmp_path, model, options):
    """Classes are filled up where ranks do not divide them."""
    plan = exported(tmp_path, config(tmp_path, **model), global_batch=16, precision="fp32", **options)
    assert plan["layout"]["tp"] == options["tp"]
    found = gradients(tmp_path)
    assert found["largest"] > 0 and found["whole"] < 3e-5  # a bias of keys has rounding alone


@pytest.mark.parametrize(("model", "options"), [(IMAGES, OF_IMAGES[0]), (JOINT, OF_BOTH[0])])
def test_images_have_the_losses_of_one_device(tmp_path, model, options):
    exported(tmp_path, config(tmp_path, **model), global_batch=16, **options)
    losses = [
        [float(each) for each in re.findall(r"loss ([0-9.]+)", ran(tmp_path, "--steps", "3", *words))]
        for words in ((), ("--whole",))
    ]
    assert len(losses[0]) == 3 and losses[0][0] > 1
    assert losses[0] == pytest.approx(losses[1], rel=5e-3)


def test_stages_of_images_are_refused(tmp_path):
    with pytest.raises(InputError, match="models of images without stages"):
        exported(tmp_path, config(tmp_path, **IMAGES), global_batch=16, pp=2)


def test_joint_streams_that_ranks_cannot_share_are_refused(tmp_path):
    for layout in ({"pp": 2}, {"tp": 2, "sp": "on"}):
        with pytest.raises(InputError, match="64 patches and 16 tokens of text") as refused:
            exported(tmp_path, config(tmp_path, **{**JOINT, "text_tokens": 16}), global_batch=16, **layout)
        assert refused.value.label == "plan.export"


VIT = {"model_type": "vit", "hidden_size": 512, "num_hidden_layers": 3, "num_attention_heads": 8,
       "intermediate_size": 2048, "image_size": 240, "patch_size": 16, "num_labels": 1000}  # fmt: skip
SD3 = {"_class_name": "SD3Transformer2DModel", "num_layers": 3, "num_attention_heads": 8, "attention_head_dim": 64,
       "patch_size": 2, "in_channels": 16, "joint_attention_dim": 1024, "pooled_projection_dim": 512,
       "sample_size": 32, "text_tokens": 64}  # fmt: skip


@pytest.mark.parametrize(
    ("lnc", "model", "layout"),
    [
        (1, VIT, {"tp": 2, "sp": "on", "zero": 1, "micro_batch": 1, "global_batch": 8, "recompute": "full"}),
        (2, VIT, {"tp": 2, "sp": "off", "zero": 0, "micro_batch": 2, "global_batch": 16, "recompute": "none"}),
        # Four sequences, of which each core of a rank has two: 17 % shorter than its plan when cores shared heads.
        (2, {**VIT, "image_size": 384}, {"tp": 4, "sp": "off", "zero": 2, "micro_batch": 4, "global_batch": 8,
                                         "recompute": "none"}),
        # Three heads on a rank of two cores, each with a sequence: 10 % shorter.
        (2, {**SD3, "num_attention_heads": 12, "attention_head_dim": 32, "sample_size": 48},
         {"tp": 4, "sp": "off", "zero": 1, "micro_batch": 2, "global_batch": 2, "recompute": "none"}),
        (1, SD3, {"tp": 2, "sp": "off", "zero": 0, "micro_batch": 2, "global_batch": 16, "recompute": "none"}),
        (1, SD3, {"tp": 2, "sp": "off", "zero": 1, "micro_batch": 1, "global_batch": 8, "recompute": "full"}),
    ],
)  # fmt: skip
def test_steps_of_images_take_what_their_plans_say(tmp_path, lnc, model, layout):
    plan = exported(tmp_path, config(tmp_path, **model), lnc=lnc, **layout)
    assert plan["layers"] == "compiled by OpenTrn"
    program = json.loads(ran(tmp_path, "--time", lnc=lnc).splitlines()[-1])
    assert plan["step_s"]["value"] == pytest.approx(program["step_s"], rel=0.05)
