"""What each keyword of a public Python function does: read by test_keywords.py, which fails for one without an entry.

- `Does(without, with_it)`: two calls, the second with the keyword; what they give is not the same;
- `Refused(call, words)`: the call raises an error whose message has these words;
- `Told(call, words)`: the call says on stderr or in a warning that it has no effect, in these words;
- `Held(test)`: that test shows what it does, and mentions it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import opentrn
from opentrn import nki
from opentrn.nki import isa as nisa
from opentrn.nki import language as nl
from tests import endless
from tests.keywords.observed import Held

Call = Callable[[], Any]


@dataclass(frozen=True)
class Does:
    without: Call
    with_it: Call


@dataclass(frozen=True)
class Refused:
    call: Call
    words: str


@dataclass(frozen=True)
class Told:
    call: Call
    words: str


def doubled(x):
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=tile, src=x)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    nisa.dma_copy(dst=out, src=tile)
    return out


X = np.ones((128, 512), np.float32)
SUM = """func.func @main(%x: tensor<64xf32>) -> tensor<64xf32> {
  %y = stablehlo.add %x, %x : tensor<64xf32>
  return %y : tensor<64xf32>
}"""
SLOW_HBM = {"timing.v3.constant.hbm_sustained_gb_s": 30}


def run(**how: Any) -> opentrn.RunResult:
    return opentrn.run(doubled, X, **how)


def ran_on(**how: Any) -> Any:
    """What nki.simulate ran the kernel on."""
    nki.simulate(doubled, **how)(X)
    return nki.last_launch()


def messages(**how: Any) -> list[str]:
    said: list[str] = []
    opentrn.compare(SUM, on_progress=said.append, **how)
    return said


def compared(**how: Any) -> list[Any]:
    return [(row.neuron_core, row.latency_us) for row in opentrn.compare(SUM, **how).chips]


def counted(**how: Any) -> list[Any]:
    """A loop whose end depends on a value: without a count it has no time."""
    return [row.latency_us for row in opentrn.compare(endless.model(), targets=["trn2"], **how).chips]


RUN = {
    "target": Does(lambda: run().target, lambda: run(target="trn1").target),
    "lnc": Does(lambda: len(run().machines[0]), lambda: len(run(lnc=2).machines[0])),
    "execute": Does(lambda: [type(run().outputs)], lambda: [type(run(execute=False).outputs)]),
    "time": Does(lambda: len(run().timings), lambda: len(run(time=False).timings)),
    "overrides": Does(lambda: run().timings[0].total_ns, lambda: run(overrides=SLOW_HBM).timings[0].total_ns),
    "strict": Held("tests/nki/test_strict.py::test_choosing_a_release"),
    "compiler": Held("tests/nki_legacy/test_written_loops.py::test_a_saved_program_is_timed_as_the_recorded_one"),
    "eager": Held("tests/nki/test_collectives_ranks.py::test_eager_repeats_loops_that_hold_collectives"),
    "loop_iterations": Held("tests/nki/test_device_loops.py::test_time_without_values_needs_the_iterations"),
    "uninitialised": Held("tests/nki/test_unwritten_output.py::test_filled_memory_reads_as_it_was_filled"),
    "stochastic_rounding": Held("tests/nki/test_stochastic_rounding.py::test_cores_and_launches_draw_apart"),
    "look_ahead": Held("tests/profile/test_trust.py::test_what_the_compiler_is_taken_to_do_can_be_overridden"),
    "dge": Held("tests/nki_legacy/test_launch.py::test_descriptors_are_prepared_where_the_compilers_flags_say_so"),
    "loop_limit": Held("tests/nki/test_interrupts.py::test_limit_of_a_while"),
    "on_progress": Held("tests/cli/test_cli.py::test_phases_of_a_run_are_told"),
    "ranks": Held("tests/nki/test_collectives_ranks.py::test_arguments_by_rank"),
    "rank_inputs": Held("tests/nki/test_collectives_ranks.py::test_arguments_by_rank"),
}
COMPILE = {
    "target": Does(lambda: opentrn.compile(SUM).target, lambda: opentrn.compile(SUM, target="trn1").target),
    "dimensions": Held("tests/compiler/test_buckets.py::test_any_size_up_to_the_largest"),
    "strict": Held("tests/compiler/test_complex_and_fft.py::test_a_length_with_a_large_prime_is_refused_by_name"),
    "cache": Held("tests/compiler/test_cache.py::test_a_damaged_entry_is_compiled_again_and_said"),
    "mesh": Held("tests/compiler/test_sharded.py::test_a_model_gives_the_values_of_one_core"),
    "shardings": Held("tests/compiler/test_sharded.py::test_a_model_gives_the_values_of_one_core"),
    "optlevel": Held("tests/compiler/test_attention.py::test_without_fusion_the_values_are_the_same_within_rounding"),
    "auto_cast": Held("tests/compiler/test_passes.py::test_autocast_is_the_graph_with_explicit_casts"),
    "auto_cast_type": Held("tests/compiler/test_passes.py::test_autocast_is_the_graph_with_explicit_casts"),
    "weight_dtype": Held("tests/compiler/test_packed_weights.py::test_traffic_and_time_of_a_step_shrink"),
    "weight_sparsity": Held(
        "tests/compiler/test_packed_weights.py::test_sparse_products_are_dense_ones_of_pruned_weights"
    ),
    "prune_weights": Held(
        "tests/compiler/test_packed_weights.py::test_sparse_products_are_dense_ones_of_pruned_weights"
    ),
    "enable_stochastic_rounding": Held(
        "tests/compiler/test_stochastic_rounding.py::test_roundings_are_to_neighbours_and_unbiased"
    ),
}
COMPARE = {
    "targets": Does(compared, lambda: compared(targets=["trn2"])),
    "overrides": Does(compared, lambda: compared(overrides=["timing.v3.constant.hbm_sustained_gb_s=0.1"])),
    "loop_iterations": Does(lambda: counted(loop_iterations=2), lambda: counted(loop_iterations=2000)),
    "inputs": Held("tests/compiler/test_stages.py::test_compare_times_the_sizes_of_one_inference"),
    "on_progress": Does(lambda: [], messages),
}
FIRST_CONTACT = "tests/compiler/test_first_contact.py::test_"
COVERAGE = {
    "dimensions": Held(FIRST_CONTACT + "coverage_takes_sizes_and_values"),
    "inputs": Held(FIRST_CONTACT + "coverage_takes_sizes_and_values"),
}
ALIAS = "tests/nki/test_alias.py::test_an_installed_package_is_left_alone"
ACTIVATE = {
    "names": Refused(lambda: opentrn.activate(("nothing",)), "no stand-in for 'nothing'"),
    "force": Held(ALIAS),
}
SIMULATE = {
    "backend": Does(lambda: ran_on().backend, lambda: ran_on(backend="oracle").backend),
    "target": Does(lambda: ran_on().target, lambda: ran_on(target="trn1").target),
    "strict": Held("tests/nki/test_strict.py::test_helpers_are_read_too"),
    "stochastic_rounding": Held(
        "tests/nki/test_stochastic_rounding.py::test_the_seed_decides_and_eager_execution_does_not"
    ),
    "ranks": Does(lambda: ran_on().ranks, lambda: ran_on(ranks=2).ranks),
}
def state_of(kernel: Any) -> tuple[Any, ...]:
    return kernel.grid, str(kernel.target)


JIT = {
    "platform_target": Does(
        lambda: state_of(nki.jit(doubled)), lambda: state_of(nki.jit(doubled, platform_target="trn1"))
    ),
    "grid": Does(lambda: state_of(nki.jit(doubled)), lambda: state_of(nki.jit(doubled, grid=2))),
    "mode": Told(lambda: nki.jit(doubled, mode="trace"), "every mode is a simulation"),
    "additional_compile_opt": Held(
        "tests/nki_legacy/test_launch.py::test_descriptors_are_prepared_where_the_compilers_flags_say_so"
    ),
}
CUSTOM = "tests/nki/test_custom_op.py::test_its_time_is_what_its_author_states"
CUSTOM_OP = {"ns": Held(CUSTOM), "cycles_per_element": Held(CUSTOM)}
SPARSE = {
    "pattern": Held("tests/oracle/test_matmul.py"),
    "accumulate": Held("tests/oracle/test_matmul.py"),
}
GENERATE = "tests/generate/test_generate.py::test_"
RANKS = "tests/generate/test_ranks.py::test_"
SPECULATION = "tests/generate/test_speculation.py::test_"
MODEL = {
    "dtype": Held(GENERATE + "the_answer_is_what_the_architecture_says"),
    "context": Held(GENERATE + "a_long_prompt_is_read_in_parts"),
    "sequences": Held(GENERATE + "answers_together_are_those_given_alone"),
    "pad_to": Held(GENERATE + "a_long_prompt_is_read_in_parts"),
    "lora": Held("tests/generate/test_adapter.py::test_the_command_takes_a_folder"),
    "quantization": Held("tests/generate/test_narrow_weights.py::test_what_is_no_type"),
    "kv_cache_dtype": Held("tests/generate/test_kv_cache_dtype.py::test_what_is_no_type"),
    "speculate": Held(SPECULATION + "answers_are_those_without_guesses"),
    "draft_model": Held(SPECULATION + "guesses_of_a_draft_model_change_no_answer"),
    "target": Held(GENERATE + "a_decoder_is_of_its_target_and_sizes"),
    "sizes": Held(GENERATE + "a_decoder_is_of_its_target_and_sizes"),
    "ranks": Held(RANKS + "answers_of_ranks_are_those_of_one_core"),
    "instance": Held(RANKS + "answers_of_ranks_are_those_of_one_core"),
    "lnc": Held(RANKS + "ranks_of_two_physical_cores_share_their_stack_and_exchange_as_logical_cores"),
}
SAMPLING = dict.fromkeys(("temperature", "seed"), Held(GENERATE + "drawn_tokens_depend_on_the_seed_alone")) | {
    name: Held(GENERATE + "each_limit_of_sampling_changes_what_is_drawn") for name in ("top_k", "top_p", "min_p")
}
ANSWERS = {
    "max_tokens": Held(GENERATE + "a_long_prompt_is_read_in_parts"),
    "sampling": Held(GENERATE + "drawn_tokens_depend_on_the_seed_alone"),
}

# What gives results to the caller: its fields are no options.
RECORDS = {
    "opentrn.CompiledModel", "opentrn.RunResult", "opentrn.ShapeOf", "opentrn.nki.Kernel", "opentrn.nki.LaunchReport",
    "opentrn.generate.Answer",
}  # fmt: skip
KEYWORDS: dict[str, dict[str, Does | Refused | Told | Held]] = {
    "opentrn.run": RUN, "opentrn.compile": COMPILE, "opentrn.compare": COMPARE, "opentrn.coverage": COVERAGE,
    "opentrn.activate": ACTIVATE, "opentrn.nki.simulate": SIMULATE, "opentrn.nki.jit": JIT,
    "opentrn.custom_op.register": CUSTOM_OP, "opentrn.custom_op.set_time": CUSTOM_OP,
    "opentrn.custom_op.nc_matmul_sparse": SPARSE, "opentrn.generate.LanguageModel": MODEL,
    "opentrn.generate.LanguageModel.generate": ANSWERS, "opentrn.generate.Sampling": SAMPLING,
}  # fmt: skip
