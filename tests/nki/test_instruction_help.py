"""help() and inspect on the calls of nki.isa: signatures as NKI documents them, and what stands in the tables."""

from __future__ import annotations

import inspect
import pydoc

import numpy as np
import pytest

import opentrn
import opentrn.custom_op

opentrn.activate()

import nki.isa as nisa  # noqa: E402
import nki.language as nl  # noqa: E402

from opentrn.kernel import machine as core  # noqa: E402
from opentrn.oracle import isa as oracle  # noqa: E402
from opentrn.types import isa_ops  # noqa: E402

# Every instruction that Python makes by a function of the core, the sparse product included, which nki.isa has not.
FUNCTIONS = [name for name in dir(core.isa) if hasattr(getattr(core.isa, name), "first_generation")]


def test_summaries_say_what_the_reference_says_of_its_functions():
    for name in FUNCTIONS:
        explained = getattr(opentrn.custom_op, name, None) or getattr(oracle, name)
        summary = getattr(core.isa, name).summary
        assert summary.split() == inspect.cleandoc(explained.__doc__).split(), name


REQUIRED = inspect.Parameter.empty
# Of the stub of NKI 0.6.0.
DOCUMENTED = {
    "nc_matmul": {
        "dst": REQUIRED, "stationary": REQUIRED, "moving": REQUIRED, "is_stationary_onezero": False,
        "is_moving_onezero": False, "is_transpose": False, "accumulate": None, "tile_position": (),
        "tile_size": (), "perf_mode": nisa.matmul_perf_mode.none, "name": None,
    },
    "activation": {
        "dst": REQUIRED, "op": REQUIRED, "data": REQUIRED, "bias": None, "scale": 1.0, "reduce_op": None,
        "reduce_res": None, "reduce_cmd": nisa.reduce_cmd.idle, "name": None,
    },
    "sendrecv": {
        "src": REQUIRED, "dst": REQUIRED, "send_to_rank": REQUIRED, "recv_from_rank": REQUIRED,
        "pipe_id": REQUIRED, "dma_engine": nisa.dma_engine.dma, "name": None,
    },
    "core_barrier": {"data": REQUIRED, "cores": REQUIRED, "engine": nisa.engine.gpsimd, "name": None},
    "affine_select": {
        "dst": REQUIRED, "pattern": REQUIRED, "channel_multiplier": REQUIRED, "on_true_tile": REQUIRED,
        "on_false_value": REQUIRED, "cmp_op": nl.equal, "offset": 0, "name": None,
    },
    "nonzero_with_count": {
        "dst": REQUIRED, "src": REQUIRED, "index_offset": 0, "padding_val": -1, "name": None,
    },
}  # fmt: skip
# Parameters that NKI 0.6 does not document and earlier releases, or AWS's own kernels, have.
EARLIER = {
    "dma_copy": {"unique_indices"},
    "tensor_copy": {"dtype"},
    "sendrecv": {"use_gpsimd_dma"},
    "scalar_tensor_tensor": {"engine"},
    "tensor_scalar_cumulative": {"reverse0"},
}
# Where the oracle asks for an argument that the core does not, or the other way round.
OPTIONAL_IN_ONE = {("activation_reduce", "reduce_res"), ("core_barrier", "cores")}


def parameters(function, leave_out=()):
    found = inspect.signature(function).parameters.values()
    return {parameter.name: parameter.default for parameter in found if parameter.name not in leave_out}


def plain(default):
    """Operators by their names: the oracle's defaults are names."""
    return isa_ops.op_name(default) if callable(default) and default is not REQUIRED else default


@pytest.mark.parametrize("name", DOCUMENTED)
def test_signatures_are_the_documented_ones(name):
    found = parameters(getattr(nisa, name), EARLIER.get(name, ()))
    assert list(found) == list(DOCUMENTED[name])
    assert found == DOCUMENTED[name]


@pytest.mark.parametrize("name", [*nisa.INSTRUCTIONS, "nc_matmul_sparse"])
def test_both_backends_have_the_same_signature(name):
    mine, other = (
        parameters(getattr(core.isa, name), EARLIER.get(name, ())),
        parameters(getattr(oracle, name)),
    )
    assert list(mine) == list(other)
    for parameter, default in mine.items():
        if (name, parameter) not in OPTIONAL_IN_ONE:
            assert plain(default) == other[parameter], parameter


@pytest.mark.parametrize("name", nisa.INSTRUCTIONS)
def test_help_shows_the_signature_and_a_summary(name):
    text = pydoc.plain(pydoc.render_doc(getattr(nisa, name)))
    assert f"\n{name}(" in text and "*args" not in text
    assert len(inspect.getdoc(getattr(nisa, name))) > 20


def test_help_tells_engines_generation_and_rules():
    text = inspect.getdoc(core.isa.nc_matmul_sparse)
    assert "Engine: Tensor. NeuronCore-v3 and later." in text
    assert "nc_matmul_sparse.C1: The pattern is 4:16, 4:12, 4:8, 2:8, 2:4, 1:4 or 1:2." in text
    assert "DMA, Sync" in inspect.getdoc(nisa.dma_copy)


def test_defaults_said_again_change_nothing():
    x = np.random.default_rng(0).standard_normal((128, 16)).astype(np.float32)

    def applied(**said):
        def kernel(x):
            tile, result = nl.ndarray(x.shape, x.dtype), nl.ndarray(x.shape, x.dtype)
            out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
            nisa.dma_copy(dst=tile, src=x)
            nisa.activation(dst=result, op=nl.square, data=tile, **said)
            nisa.dma_copy(dst=out, src=result)
            return out

        return opentrn.run(kernel, x, time=False)

    defaults = {n: d for n, d in parameters(nisa.activation).items() if d is not REQUIRED}
    plainly, again = applied(), applied(**defaults)
    assert np.array_equal(plainly.outputs, again.outputs)

    def instructions(run):
        return [line.partition(" @ ")[0] for line in run.program_text().splitlines() if "activation" in line]

    assert instructions(plainly) == instructions(again)


def test_an_instruction_in_a_class_is_no_method():
    class Ops:
        copy = nisa.tensor_copy

    assert Ops().copy is nisa.tensor_copy and Ops.copy is nisa.tensor_copy


# Of the stubs of NKI 0.6.0: nki/api/nki/collectives and nki/api/nki/language.
OF_COLLECTIVES = {
    "all_reduce": "srcs dsts replica_group op priority name",
    "all_gather": "srcs dsts replica_group collective_dim priority name",
    "all_gather_v": "srcs dsts replica_group metadata_tensor recv_counts_known has_rdispls priority name",
    "reduce_scatter": "srcs dsts replica_group collective_dim op priority name",
    "all_to_all": "srcs dsts replica_group collective_dim priority name",
    "all_to_all_v": "srcs dsts replica_group metadata_tensor recv_counts_known has_rdispls priority name",
    "collective_permute": "srcs dsts source_target_pairs priority name",
    "collective_permute_implicit": "srcs_by_channel dsts_by_channel replica_group channel_ids priority name",
    "collective_permute_implicit_reduce":
        "srcs0_by_channel srcs1_by_channel dsts_by_channel replica_group op channel_ids priority name",
    "collective_permute_implicit_current_processing_rank_id": "iteration_id replica_group channel_id name",
    "rank_id": "name",
}  # fmt: skip


@pytest.mark.parametrize("name", OF_COLLECTIVES)
def test_collectives_have_their_documented_parameters(name):
    import nki.collectives as ncc

    assert list(inspect.signature(getattr(ncc, name)).parameters) == OF_COLLECTIVES[name].split()
    assert list(inspect.signature(ncc.ReplicaGroup).parameters) == ["groups"]


@pytest.mark.parametrize("name", ["affine_range", "sequential_range", "static_range", "dynamic_range"])
def test_ranges_have_their_documented_parameters(name):
    assert parameters(getattr(nl, name)) == {"start": REQUIRED, "stop": None, "step": 1}


def test_every_public_function_has_a_signature_and_a_text():
    import nki.collectives as ncc

    for module in (nl, nisa, ncc):
        for name in module.__all__:
            value = getattr(module, name)
            if callable(value) and not isinstance(value, type):
                assert inspect.signature(value) and value.__doc__, f"{module.__name__}.{name}"
