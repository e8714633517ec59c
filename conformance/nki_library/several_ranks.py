"""Tests of nki-library that need several ranks, in the suite's simulation mode.

The suite's simulation mode runs one rank and hands a per-rank generator of inputs to the kernel as it is. Here a
test with `InferenceArgs(collective_ranks=N)` runs on N simulated ranks, each with its inputs; the outputs of rank
i go to the folder output_worker_i, where the suite's validator looks for them.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np


def run_all_ranks() -> None:
    """Replace the method of the suite's orchestrator that simulates a kernel, for tests with several ranks."""
    from test.utils import test_orchestrator
    from test.utils.exceptions import InferenceException

    one_rank = test_orchestrator.Orchestrator._run_simulator_inference

    def _run_simulator_inference(self, kernel_under_test):
        ranks = kernel_under_test.inference_args.collective_ranks
        if ranks == 1:
            return one_rank(self, kernel_under_test)
        try:
            outputs = _simulate(kernel_under_test, ranks)
        except Exception as error:
            raise InferenceException(str(error)) from error
        folder = os.path.join(
            self.fs_config.artifacts_output_directory_path, test_orchestrator.INF_ARTIFACT_DIR_NAME
        )
        for rank, tensors in enumerate(outputs):
            self.__dump_tensors__(os.path.join(folder, f"output_worker_{rank}"), tensors, lambda name: name)
        return folder

    test_orchestrator.Orchestrator._run_simulator_inference = _run_simulator_inference


def _simulate(kernel_under_test: Any, ranks: int) -> list[dict[str, np.ndarray]]:
    """The outputs of every rank, by the names of the goldens and of their types."""
    from test.utils.common_dataclasses import PerRankLazyInputGenerator, normalize_golden_output

    import nki

    given = kernel_under_test.kernel_input

    def inputs(rank: int) -> dict[str, Any]:
        values = given.for_rank(rank) if isinstance(given, PerRankLazyInputGenerator) else given or {}
        return {name.removesuffix(".must_alias_input"): value for name, value in values.items()}

    compiled = kernel_under_test.compiler_input
    os.environ["NKI_NC_VERSION"] = compiled.platform_target.get_nc_gen()
    kernel = nki.simulate(kernel_under_test.kernel_func).on_ranks(ranks, inputs)
    results = nki.cpu_simulate(kernel)[compiled.logical_nc_config]()
    golden = kernel_under_test.validation_args.golden_output
    outputs = []
    for rank, result in enumerate(results):
        tensors = list(result) if isinstance(result, (list, tuple)) else [] if result is None else [result]
        expected = normalize_golden_output(golden, rank)
        if len(tensors) != len(expected):
            raise RuntimeError(f"rank {rank} returned {len(tensors)} outputs; expected {list(expected)}")
        outputs.append(
            {name: np.asarray(t, dtype=want.dtype) for (name, want), t in zip(expected.items(), tensors)}
        )
    return outputs
