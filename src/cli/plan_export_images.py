"""Of a program that `opentrn plan --export jax` writes: the ends of a model of images, behind class Step."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from plan_export_jax import ENDS, HIDDEN, LAYOUT, MODEL, Step, linear, norm_of, surprise, with_biases

# The program has what follows.


def image_ends() -> dict:
    """How patches become tokens, with one more that has what the image is; and what finds that out of it."""
    products = {
        "patches": ((MODEL["patch_features"], HIDDEN), (None, ENDS)),
        "output": ((HIDDEN, MODEL["vocabulary"]), (None, ENDS)),
    }
    return {
        **with_biases(products),
        "class": ((1, HIDDEN), (None, ENDS)),
        "positions": ((MODEL["positions"], HIDDEN), (None, ENDS)),
    }


class ImageStep(Step):
    """Its micro-batches are patches [sequences, patches, numbers] and classes [sequences, 1]."""

    def looked_up(self, ends, tokens):
        """A part of the hidden dimension."""
        x = linear(self.varying(tokens[0], ENDS), ends, "patches")
        of_class = jnp.broadcast_to(ends["class"], (len(x), *ends["class"].shape))
        return jnp.concatenate((of_class, x), 1) + ends["positions"]

    def of_first(self, x):
        """The first token of each sequence: with sequence parallelism the first device has it."""
        first = x[:, :1]
        if self.tp == 1 or not LAYOUT["sp"]:
            return first
        return self.varying(jax.lax.psum(jnp.where(jax.lax.axis_index("tp") == 0, first, 0), "tp"), "tp")

    def loss_of(self, ends, x, tokens):
        logits = linear(norm_of(self.of_first(x), ends, "norm"), ends, "output").astype(jnp.float32)
        missed = surprise(logits, tokens[1] - jax.lax.axis_index(ENDS) * logits.shape[2])
        return jnp.mean(missed) / self.ranks
