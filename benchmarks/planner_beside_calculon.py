"""Evaluations of layouts a second, by Calculon and by the planner, in turn on this machine.

    git clone https://github.com/calculon-ai/calculon DIR
    python benchmarks/planner_beside_calculon.py DIR [--build build] [--seconds 5]

The job is GPT-3 175B on 4,096 GPUs. Calculon evaluates layouts of its own search in this process (one thread, no
writing of files); the planner's benchmark (`ninja planner_bench`) evaluates every legal layout of its search on one
core. Each side runs three times, in turn; the medians count. Then `opentrn plan` runs twice with compiled layers, with
an empty folder of them and with the one that this left. Times are processor time.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import logging
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import types
from pathlib import Path

PROCESSES, BATCH = 4096, 4096
# Plans of its own search for this job, counted once by running it; counting them again takes hours.
PLANS_OF_CALCULON = 1_149_728


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
        if name not in sys.modules and importlib.util.find_spec(name) is None:
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
    count, start = 0, time.process_time()  # other work on the machine takes none of it
    for execution in itertools.cycle(all_of_them[::step]):
        try:
            model = Llm(app, log)
            model.compile(system, execution)
            model.run(system)
        except Llm.Error:
            pass
        count += 1
        if count % 16 == 0 and time.process_time() - start > seconds:
            break
    return count / (time.process_time() - start), count


def planner_rates(build: Path, seconds: float) -> tuple[float, float]:
    """(full evaluations a second, seconds of the exhaustive search), processor time of one core, by planner_bench."""
    program = build / "src" / "planner" / "planner_bench"
    if not program.exists():
        sys.exit(f"{program} is not there: ninja -C {build} planner_bench")
    ran = subprocess.run(
        [str(program), "--benchmark_filter=^(evaluations|whole_search/0)$", f"--benchmark_min_time={seconds}",
         "--benchmark_format=json"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    evaluations, search = json.loads(ran.stdout)["benchmarks"]
    return float(evaluations["layouts/s"]), float(search["cpu_time"]) / 1e3


def seconds_of_a_plan(cache: Path) -> float:
    """Processor time of `opentrn plan` for Llama 3.1 70B on 512 Trainium2 chips, its 32 best with compiled layers."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-m", "opentrn", "plan", "Llama-3.1-70B", "--instance", "trn2.48xlarge", "--count", "32",
         "--seq", "8192", "--global-batch", "1024", "--compiled", "32", "--top", "1"],
        check=True, capture_output=True, env={**os.environ, "OPENTRN_CACHE": str(cache)},
    )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkout", type=Path, help="of calculon-ai/calculon")
    parser.add_argument("--build", type=Path, default=Path("build"))
    parser.add_argument("--seconds", type=float, default=5.0, help="of each of the three runs of each side")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    sys.path.insert(0, str(options.checkout))
    theirs, ours, searches = [], [], []
    for _ in range(3):
        theirs.append(calculon_rate(options.checkout, options.seconds)[0])
        rate, search = planner_rates(options.build, options.seconds)
        ours.append(rate)
        searches.append(search)
    with tempfile.TemporaryDirectory() as cache:
        cold, warm = seconds_of_a_plan(Path(cache)), seconds_of_a_plan(Path(cache))
    found = {
        "calculon_per_s": statistics.median(theirs),
        "planner_per_s": statistics.median(ours),
        "ratio": statistics.median(ours) / statistics.median(theirs),
        "exhaustive_search_s": statistics.median(searches),
        "calculons_search_s": PLANS_OF_CALCULON / statistics.median(theirs),
        "as_many_evaluations_s": PLANS_OF_CALCULON / statistics.median(ours),
        "plan_70b_512_cold_s": cold,
        "plan_70b_512_warm_s": warm,
    }
    if options.json:
        print(json.dumps(found))
        return
    print("GPT-3 175B on 4,096 GPUs, processor time of one core:")
    print(f"  evaluations a second: Calculon {found['calculon_per_s']:,.0f}, the planner {found['planner_per_s']:,.0f}"
          f" ({found['ratio']:,.0f} times as many)")  # fmt: skip
    print(f"  the planner's exhaustive search: {found['exhaustive_search_s'] * 1e3:.1f} ms")
    print(f"  {PLANS_OF_CALCULON:,} evaluations, as many as its search makes: {found['calculons_search_s']:,.0f} s and"
          f" {found['as_many_evaluations_s']:.1f} s")  # fmt: skip
    print(f"Llama 3.1 70B on 512 Trainium2 chips, the 32 best compiled: {cold:.1f} s, and {warm:.2f} s once kept")


if __name__ == "__main__":
    main()
