"""The backend's own emitter against another route to the same device: torchax's table of ops inside `jax.jit`.

    python -m conformance.torch.through_jax [NAME ...]

Each model of transformers_models.py is run forward and backward twice on the simulated NeuronCore: by
`torch.compile(backend="neuron")`, whose graphs the emitter (python/opentrn/torch) writes, and by torchax's reading of
the same module as a JAX function, compiled by the PJRT plugin. The loss and every gradient must agree. What both
routes share is below StableHLO; which StableHLO an ATen op becomes they decide apart.

Needs the packages transformers, jax 0.10.2 and torchax (requirements-models.txt). The last line counts models:
`N passed, N failed, N skipped`.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import torch

from conformance.torch.transformers_models import LOSS, MODELS, gradient_differences

Results = tuple[float, dict[str, torch.Tensor]]


def seeded(name: str) -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    """A model with the same parameters at every call, and its inputs."""
    torch.manual_seed(0)
    model, inputs = MODELS[name]()
    return model.train(), inputs


def by_emitter(name: str) -> Results:
    """(loss, gradients by the parameter's name)"""
    torch._dynamo.reset()
    model, inputs = seeded(name)
    loss = torch.compile(lambda **given: model(**given).loss, backend="neuron")(**inputs)
    loss.backward()
    # JAX gives zeros for a parameter that the loss does not depend on, torch nothing.
    named = model.named_parameters()
    return float(loss), {key: torch.zeros_like(p) if p.grad is None else p.grad for key, p in named}


def by_jax(name: str) -> tuple[float, dict[str, Any]]:
    """The same, as a JAX function of the parameters; gradients are NumPy's. In a process of its own, see main()."""
    import jax
    import numpy as np
    import torchax

    model, inputs = seeded(name)
    trained = {key for key, _ in model.named_parameters()}
    weights, call = torchax.extract_jax(model)
    given = {key: jax.numpy.asarray(value.numpy()) for key, value in inputs.items()}

    def loss_of(parameters: dict[str, Any], others: dict[str, Any], given: dict[str, Any]) -> Any:
        return call({**parameters, **others}, (), given)["loss"]

    parameters = {key: value for key, value in weights.items() if key in trained}
    others = {key: value for key, value in weights.items() if key not in trained}
    loss, gradients = jax.jit(jax.value_and_grad(loss_of))(parameters, others, given)
    return float(loss), {key: np.array(value) for key, value in gradients.items()}


def differences(name: str, jax_process: ProcessPoolExecutor) -> list[str]:
    """What the two routes do not agree on within rounding."""
    loss, own = by_emitter(name)
    other_loss, gradients = jax_process.submit(by_jax, name).result()
    other = {key: torch.from_numpy(value) for key, value in gradients.items()}
    found = [] if abs(loss - other_loss) <= LOSS * abs(loss) else [f"loss {loss}, by JAX {other_loss}"]
    return found + gradient_differences(own, other)


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help=f"of {', '.join(MODELS)}")
    options = parser.parse_args(words)
    warnings.simplefilter("ignore")
    for name, value in (("OPENTRN_STRICT", "1"), ("HF_HUB_OFFLINE", "1"), ("JAX_PLATFORMS", "neuron")):
        os.environ.setdefault(name, value)
    import opentrn.torch  # noqa: F401

    passed = failed = 0
    # torchax takes torch's one spare device for itself, with which dynamo cannot live.
    jax_process = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"))
    for name in options.names or MODELS:
        began = time.perf_counter()
        try:
            found = differences(name, jax_process)
        except Exception as error:  # noqa: BLE001  (a model that raises has failed, whatever it raised)
            found = [f"{type(error).__name__}: {str(error).strip()[:400]}"]
        failed, passed = failed + bool(found), passed + (not found)
        seconds = time.perf_counter() - began
        print(f"{name}: {'; '.join(found[:3]) if found else 'passed'} ({seconds:.1f} s)", flush=True)
    jax_process.shutdown()
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
