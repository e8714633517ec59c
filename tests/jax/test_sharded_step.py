"""Steps of JAX whose weights lie in parts (FSDP): their collectives are scattered sums, and are hidden."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("jax", reason="the platform is JAX's")

from tests.jax.test_programs import run  # noqa: E402

MACHINE = {"NEURON_PLATFORM_TARGET_OVERRIDE": "trn2.3xlarge", "NEURON_LOGICAL_NC_CONFIG": "1"}


def step(*words: str, **variables: str) -> dict:
    done = run("neuron", "tests/jax/sharded_step.py", *words, **MACHINE, **variables)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_a_step_of_weights_in_parts_scatters_its_gradients_and_hides_them():
    """Beside the same step with whole weights, which sums each gradient whole and gathers nothing."""
    parts, whole = step("2", "512", "512"), step("2", "512", "512", "--whole")
    assert parts["ops"] == {"all-gather": 4, "reduce-scatter": 4, "all-reduce": 1}  # the last is of the loss
    assert whole["ops"] == {"all-gather": 0, "reduce-scatter": 0, "all-reduce": 5}
    # An all_reduce is a reduce_scatter and an all_gather: both move the same bytes, in another order.
    assert parts["collectives_s"] < 1.2 * whole["collectives_s"]
    assert parts["exposed_s"] < 0.7 * parts["collectives_s"]
    # The update is of a part of each weight, and what makes that part of its gradient is done on the part.
    assert parts["step_s"] < 0.97 * whole["step_s"]


def test_packets_of_dma_say_who_waits_for_memory():
    """As AWS advises for weights in parts: compute's packets large and those of collectives small."""
    default = step("2", "512", "512")
    first = step(
        "2", "512", "512", NEURON_RT_DBG_DMA_PACKETIZATION_SIZE="65536", NEURON_RT_DBG_CC_DMA_PACKET_SIZE="4096"
    )
    assert first["collectives_s"] > 1.05 * default["collectives_s"]
    assert first["exposed_s"] < 0.8 * default["exposed_s"]
    assert first["step_s"] < default["step_s"]


def test_weights_are_gathered_so_many_layers_before_they_are_read():
    """Without a variable as early as they can be: the same time here, and all weights in memory at once."""
    early = step("4", "1024", "2048", "--forward")
    layer = 2 * 4 * 1024 * 1024 * 2  # bytes of two weights of 1024 x 4096
    assert early["gathered_bytes"] > 2.5 * layer
    for layers in (1, 2):
        shifted = step(
            "4", "1024", "2048", "--forward", NEURON_FSDP="1", NEURON_FSDP_NUM_LAYER_EARLY_AG_SHIFT=str(layers)
        )
        assert shifted["gathered_bytes"] == (layers + 1) * layer
        assert shifted["step_s"] == pytest.approx(early["step_s"], rel=1e-3)
    late = step("4", "1024", "2048", "--forward", NEURON_FSDP="1", NEURON_FSDP_NUM_LAYER_EARLY_AG_SHIFT="0")
    assert late["gathered_bytes"] <= layer
    assert late["step_s"] > 1.01 * early["step_s"]  # every layer waits for its weights
