#!/usr/bin/env python3
"""TensorFlow functions and Keras models on the device, compared with TensorFlow on the CPU.

    python -m conformance.tensorflow.run [--only NAME]... [--target trn2]

Functions run once (cases.py); a training step runs five times, and losses and variables must stay those of the same
step on the CPU. Nothing is downloaded. Ends with "N passed, N failed, N skipped".
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

ROOT = Path(__file__).resolve().parents[2]
for folder in (ROOT, ROOT / "python"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

import numpy as np  # noqa: E402

import opentrn.tensorflow as neuron  # noqa: E402
import tensorflow as tf  # noqa: E402
from conformance.common import distance, worst  # noqa: E402
from conformance.tensorflow import refusals  # noqa: E402
from conformance.tensorflow.cases import CASES, Case, integers, normal  # noqa: E402

STEPS = 5


def check_function(case: Case, target: str) -> tuple[bool, str]:
    """Values of one call."""
    function, arguments, tolerance = case
    # Compiled by XLA: TensorFlow's own kernels make other random numbers of the same seed.
    wanted = tf.nest.flatten(tf.function(function, jit_compile=True)(*map(tf.constant, arguments)))
    device = neuron.function(function, target=target)
    found = tf.nest.flatten(device(*arguments))
    off = worst(distance(b, a) for a, b in zip(found, wanted, strict=True))
    took = device.program(*arguments).time().time_us
    return (
        off <= tolerance,
        f"{len(wanted):3} results, worst {off:8.1e} of {tolerance:g}; {took:10.2f} us",
    )


def training(optimizer: Callable[[], Any]) -> tuple[Callable[..., Any], list[Any]]:
    """A step of a small classifier with batch normalisation, and the variables that it changes."""
    tf.keras.utils.set_random_seed(5)
    layers = tf.keras.layers
    model = tf.keras.Sequential(
        [
            layers.Conv2D(8, 3, use_bias=False),
            layers.BatchNormalization(),
            layers.ReLU(),
            layers.Flatten(),
            layers.Dense(10),
        ]
    )
    model.build((None, 8, 8, 1))
    rule = optimizer()
    rule.build(model.trainable_variables)
    loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def step(images: Any, labels: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = loss_of(labels, model(images, training=True))
        rule.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        return loss

    return step, [*model.variables, *rule.variables]


def check_training(optimizer: Callable[[], Any], target: str) -> tuple[bool, str]:
    """Losses and variables over STEPS steps; the fifth step's values carry the rounding of four."""
    batches = [(normal(32, 8, 8, 1), integers(0, 10, 32)) for _ in range(STEPS)]
    step, wanted_variables = training(optimizer)
    on_cpu = tf.function(step)
    wanted = [float(on_cpu(*map(tf.constant, batch))) for batch in batches]
    step, variables = training(optimizer)
    on_device = neuron.function(step, target=target)
    found = [float(on_device(*batch)) for batch in batches]
    losses = distance(np.array(wanted), np.array(found))
    values = worst(distance(b, a) for a, b in zip(variables, wanted_variables, strict=True))
    took = on_device.program(*batches[0]).time().time_us
    text = f"losses {wanted[0]:.4f} to {wanted[-1]:.4f}, off by {losses:.1e}; variables {values:.1e}; {took:8.2f} us"
    return losses < 1e-5 and values < 2e-4, text


def every_check() -> dict[str, Callable[[str], tuple[bool, str]]]:
    """Checks by name; each takes the target."""
    optimizers = tf.keras.optimizers
    rules: dict[str, Callable[[], Any]] = {
        "SGD": lambda: optimizers.SGD(0.05, momentum=0.9),
        "Adam": lambda: optimizers.Adam(1e-3),
        "AdamW": lambda: optimizers.AdamW(1e-3),
    }
    checks: dict[str, Callable[[str], tuple[bool, str]]] = {
        name: lambda target, make=make: check_function(make(), target) for name, make in CASES.items()
    }
    for name, rule in rules.items():
        checks[f"training with {name}"] = lambda target, rule=rule: check_training(rule, target)
    for name, case in refusals.CASES.items():
        checks[name] = lambda _target, case=case: refusals.check(*case)
    return checks


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="./dev conformance tensorflow", description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", metavar="NAME", help="cases whose name contains NAME")
    parser.add_argument("--target", default="trn2")
    options = parser.parse_args(arguments)
    outcomes = {True: 0, False: 0}
    for name, check in every_check().items():
        if options.only and not any(part in name for part in options.only):
            continue
        begin = time.monotonic()
        try:
            passed, text = check(options.target)
        except Exception as error:  # a case's own failure is a result of this run
            passed, text = False, "".join(traceback.format_exception_only(error)).strip()
        outcomes[passed] += 1
        print(
            f"{'passed' if passed else 'FAILED'}  {name:<22} {text}  ({time.monotonic() - begin:.1f} s)",
            flush=True,
        )
    print(f"{outcomes[True]} passed, {outcomes[False]} failed, 0 skipped")
    return 0 if outcomes[True] and not outcomes[False] else 1


if __name__ == "__main__":
    sys.exit(main())
