"""Evaluations of layouts a second, by Calculon and by the planner, in turn on this machine.

    git clone https://github.com/calculon-ai/calculon DIR
    python benchmarks/planner_beside_calculon.py DIR [--build build] [--seconds 5]

The job is GPT-3 175B on 4,096 GPUs. Calculon evaluates layouts of its own search in this process (one thread, no
writing of files); the planner's benchmark (`ninja planner_bench`) evaluates every legal layout of its search on one
core. Each side runs three times, in turn; the medians count.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import logging
import statistics
import subprocess
import sys
import time
import types
from pathlib import Path

PROCESSES, BATCH = 4096, 4096


def executions(llm, app) -> list:
    """Layouts of Calculon's search, every legal one of tensor, pipeline and data parallelism."""
    found = []
    for tp in llm.get_all_tensor_parallelisms(PROCESSES, app.hidden, app.attn_heads):
        for pp in llm.get_all_pipeline_parallelisms(PROCESSES, tp, app.num_blocks):
            dp = llm.get_data_parallelism(PROCESSES, tp, pp)
            if BATCH % dp:
                continue
            for vpp, recompute, sharding in itertools.product(
                llm.get_valid_pipeline_interleavings(app.num_blocks, pp),
                ("full", "attn_only", "none"),
                (True, False),
            ):
                for micro in llm.get_valid_microbatch_sizes(app.seq_size, tp, dp, BATCH, pp):
                    found.append(
                        llm.Execution.from_json({
                            "num_procs": PROCESSES, "tensor_par": tp, "pipeline_par": pp, "data_par": dp,
                            "tensor_par_net": 0, "pipeline_par_net": 1, "data_par_net": 1, "batch_size": BATCH,
                            "microbatch_size": micro, "datatype": "float16", "fused_activation": True,
                            "attention_type": "multihead", "activation_recompute": recompute,
                            "pipeline_interleaving": vpp, "optimizer_sharding": sharding,
                            "tensor_par_comm_type": "rs_ag", "tensor_par_overlap": "none", "seq_par_ag_redo": False,
                            "data_par_overlap": False, "weight_offload": False, "activations_offload": False,
                            "optimizer_offload": False, "training": True,
                        })
                    )  # fmt: skip
    return found


def calculon_rate(checkout: Path, seconds: float) -> tuple[float, int]:
    """(evaluations a second, how many were made). A layout that Calculon refuses counts as evaluated."""
    for name in ("pandas", "psutil"):  # of its command line alone
        if importlib.util.find_spec(name) is None:
            sys.modules.setdefault(name, types.ModuleType(name))
            sys.modules[name].cpu_count = lambda logical=False: 1
    import calculon
    from calculon.llm import Llm
    from calculon.system import System

    read = lambda name: calculon.io.read_json_file(str(checkout / name))  # noqa: E731
    app, system = Llm.Application(read("models/gpt3-175B.json")), System(read("systems/h100_80g_nvl8.json"))
    log = logging.getLogger("calculon")
    log.setLevel(logging.CRITICAL)
    all_of_them = executions(Llm, app)
    # Evenly from the whole list, so that a part of it stands for all.
    step = max(1, len(all_of_them) // 20_000)
    count, start = 0, time.perf_counter()
    for execution in itertools.cycle(all_of_them[::step]):
        try:
            model = Llm(app, log)
            model.compile(system, execution)
            model.run(system)
        except Llm.Error:
            pass
        count += 1
        if count % 16 == 0 and time.perf_counter() - start > seconds:
            break
    return count / (time.perf_counter() - start), count


def planner_rate(build: Path, seconds: float) -> float:
    """Full evaluations a second of the planner, by planner_bench."""
    program = build / "src" / "planner" / "planner_bench"
    if not program.exists():
        sys.exit(f"{program} is not there: ninja -C {build} planner_bench")
    ran = subprocess.run(
        [str(program), "--benchmark_filter=^evaluations$", f"--benchmark_min_time={seconds}s",
         "--benchmark_format=json"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    return float(json.loads(ran.stdout)["benchmarks"][0]["layouts/s"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkout", type=Path, help="of calculon-ai/calculon")
    parser.add_argument("--build", type=Path, default=Path("build"))
    parser.add_argument("--seconds", type=float, default=5.0, help="of each of the three runs of each side")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    sys.path.insert(0, str(options.checkout))
    theirs, ours = [], []
    for _ in range(3):
        theirs.append(calculon_rate(options.checkout, options.seconds)[0])
        ours.append(planner_rate(options.build, options.seconds))
    a, b = statistics.median(theirs), statistics.median(ours)
    if options.json:
        print(json.dumps({"calculon_per_s": a, "planner_per_s": b, "ratio": b / a}))
    else:
        print(f"Calculon: {a:,.0f} evaluations a second; the planner: {b:,.0f}; {b / a:,.0f} times as many")


if __name__ == "__main__":
    main()
