"""What the options of the commands do that the C++ core parses; see option_cases.py."""

from __future__ import annotations

from pathlib import Path

from option_cases import Form, does, fails, held, refused

LINEAR = "--linear step=500,prefill_token=40,decode_seq=150,context_token=0.02"
TRACE = """\
TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:00:00.0000000,800,12
2023-11-16 18:00:00.5000000,300,40
2023-11-16 18:00:03.0000000,1200,8
"""
JOB = """\
axes: {tp: 64, dp: 2}
blocks:
  - name: layers
    repeat: 3
    steps:
      - {all_gather: 64MB, over: tp}
      - {compute: 1.2ms, hbm: 400MB}
      - {all_reduce: 16MB, over: dp}
"""
RATES = """\
[source]
mine = "a contract"

[price."trn1.32xlarge"]
confidence = "documented"
source = "mine"
on_demand_usd_h = {value = 3.0, date = "2026-01-01"}
"""
TABLES = "[chip.Trainium2]\nmemory_gib = 90\n"
EFA = "[collective_time.v2]\nstep_us = 99\n"
MODEL = """\
func.func @main(%x: tensor<4x128xf32>) -> tensor<4x128xf32> {
  %c = stablehlo.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %z = stablehlo.broadcast_in_dim %c, dims = [0] : (tensor<4xf32>) -> tensor<4x128xf32>
  %y = stablehlo.add %x, %z : tensor<4x128xf32>
  %n = stablehlo.negate %y : tensor<4x128xf32>
  %p = stablehlo.negate %n : tensor<4x128xf32>
  %e = stablehlo.logistic %p : tensor<4x128xf32>
  %s = stablehlo.multiply %p, %e : tensor<4x128xf32>
  %q = stablehlo.atan2 %s, %y : tensor<4x128xf32>
  return %q : tensor<4x128xf32>
}
"""
SIZES = '{"send_counts": [[1, 3], [2, 2]]}'


CHIPS = '[instance."trn1.32xlarge"]\nchips = 8\n'
DECODE = [(rows, context, us) for rows in (1, 2, 4, 8) for context, us in (("", 2), ("_c1024", 1), ("_c32768", 3))]
PREFILL = "".join(f"prefill_s{128 << i},9000\n" for i in range(7))
FILES = {
    "trace.csv": TRACE,
    "job.yaml": JOB,
    "rates.toml": RATES,
    "tables.toml": TABLES,
    "step.toml": EFA,
    "step3.toml": EFA.replace("v2", "v3"),
    "chips.toml": CHIPS,
    "price.toml": '[price."trn1.32xlarge"]\non_demand_usd_h = 1.0\n',
    "job.toml": "[reliability.job]\nrestart_s = 99\n",
    "m.mlir": MODEL,
    "sizes.json": SIZES,
    "groups.json": '{"replica_groups": [[[0, 1, 2, 3], [4, 5, 6, 7]]]}',
    "pairs.json": "[[0, 1], [1, 0]]",
    "big.csv": "program,us\n" + PREFILL + "".join(f"decode_b{rows}{c},{us}000\n" for rows, c, us in DECODE),
}


def write_files(folder: Path) -> None:
    """What the command lines below name."""
    for name, text in FILES.items():
        (folder / name).write_text(text)


_TABLES = {"--set": does("--set chip.Trainium2.memory_gib=90"), "--tables": does("--tables tables.toml")}
_STEP = {"--set": does("--set collective_time.v2.step_us=99"), "--tables": does("--tables step.toml")}

_TRN1 = {"--set": does("--set instance.trn1.32xlarge.chips=8"), "--tables": does("--tables chips.toml")}
_TRN2 = "--instance trn2.48xlarge"
_LINK = "--kv-bytes-per-token 100000 --kv-link-gb-s 10"
_SCALED = (
    "--replicas 3 --rate 30 --requests 3000 --autoscale-min 1 --autoscale-target 2 --autoscale-start-s 1 "
    "--autoscale-down-s 1"
)

FORMS = [
    Form("ls", "", {"--json": does("--json"), **_TABLES}),
    Form("describe", "trn2.48xlarge", {"name": does("=trn1.32xlarge"), "--json": does("--json"), **_TABLES}),
    Form(
        "neuron-ls",
        "--instance trn1.32xlarge",
        {
            "--wide": does("-w"),
            "--show-all-procs": does("-a"),
            "--topology": does("-t"),
            "--json-output": does("-j"),
            "--instance": does("--instance trn2.48xlarge"),
            "--nnodes": refused("-N 2"),
            "--lnc": does("--lnc 1", "--instance trn2.48xlarge"),
            "--set": fails("--set instance.trn1.32xlarge.chips=8"),
            "--tables": fails("--tables chips.toml"),
        },
    ),
    Form(
        "opt",
        "m.mlir",
        {
            "--dim": held("src/cli/opt_test.cc"),
            "--pass": does("--pass simplify"),
            "--stop-after": does("--stop-after inlined"),
            "--dump-after": does("--dump-after all"),
            "--counts": does("--counts"),
            "--check": held("src/cli/opt_test.cc"),
            "--list": does("--list"),
            "--option": does("--option optlevel=1"),
            "--target": fails("--target trn9"),
            "--evaluator-ops": does("--evaluator-ops"),
            "--elide": does("--elide 1"),
            "--locations": does("--locations"),
            "-o": does("-o out.mlir"),
        },
    ),
    Form(
        "claims",
        "--only trn1-50-percent",
        {
            "--set": does("--set price.trn1.32xlarge.on_demand_usd_h=1"),
            "--tables": does("--tables price.toml"),
            "--only": does("--only bloom-85"),
            "--all": refused("--all"),
            "--list": refused("--list"),
            "--price": does("--price reserved"),
            "--price-file": does("--price-file rates.toml"),
            "--as-of": does("--as-of 2024-12"),
            "--seed": does("--seed 7"),
            "--html": does("--html page.html"),
            "--json": does("--json"),
        },
    ),
    Form(
        "goodput",
        "--chips 1000 --parameters 8e9 --runs 20",
        {
            "--set": does("--set reliability.job.restart_s=99"),
            "--tables": does("--tables job.toml"),
            "--chips": does("--chips 2000"),
            "--chips-per-host": does("--chips-per-host 4"),
            "--profile": does("--profile bloom"),
            "--mttf-h": does("--mttf-h 5"),
            "--model": refused("--model Llama-3.1-405B"),
            "--parameters": does("--parameters 9e9"),
            "--checkpoint-tb": refused("--checkpoint-tb 3"),
            "--checkpoint-gb-s": does("--checkpoint-gb-s 3"),
            "--stall-s": does("--stall-s 3"),
            "--interval-s": does("--interval-s 300"),
            "--restart-s": does("--restart-s 999"),
            "--spares": does("--spares 0"),
            "--repair-h": does("--repair-h 999", "--spares 1"),
            "--slow-hosts": does("--slow-hosts 0.01", "--slow-hosts 0.001 --slowdown 0.2"),
            "--slowdown": does("--slowdown 0.4", "--slow-hosts 0.1 --slowdown 0.2 --json"),
            "--runs": does("--runs 30"),
            "--days": does("--days 3"),
            "--seed": does("--seed 9"),
            "--check": held("src/cli/goodput_test.cc"),
            "--profiles": does("--profiles"),
            "--json": does("--json"),
        },
    ),
    Form(
        "replay",
        f"--requests 40 {LINEAR}",
        {
            "--set": does("--set price.trn1.32xlarge.on_demand_usd_h=1", "--instance trn1.32xlarge"),
            "--tables": does("--tables price.toml", "--instance trn1.32xlarge"),
            "--format": refused("--format azure"),
            "--limit": refused("--limit 3"),
            "--speedup": does("--speedup 3"),
            "--arrivals": does("--arrivals burst"),
            "--rate": does("--rate 3"),
            "--variation": does("--variation 3", "--arrivals gamma"),
            "--requests": does("--requests 41"),
            "--max-concurrency": does("--max-concurrency 1", "--rate 50"),
            "--prompt-tokens": does("--prompt-tokens 99"),
            "--output-tokens": does("--output-tokens 99"),
            "--spread": does("--spread 0.5"),
            "--seed": does("--seed 9"),
            "--policy": does("--policy vllm"),
            "--max-num-seqs": does("--max-num-seqs 1", "--rate 50"),
            "--max-num-batched-tokens": does("--max-num-batched-tokens 64"),
            "--max-model-len": does("--max-model-len 600"),
            "--block-size": does("--block-size 16"),
            "--num-gpu-blocks-override": does("--num-gpu-blocks-override 40", "--max-model-len 700"),
            "--no-enable-prefix-caching": does("--no-enable-prefix-caching"),
            "--async-scheduling": does("--async-scheduling", "--host-us 900 --policy vllm"),
            "--long-prefill-token-threshold": does("--long-prefill-token-threshold 64", "--policy vllm"),
            "--num-batched-tokens-buckets": does("--num-batched-tokens-buckets 1024,8192"),
            "--num-seqs-buckets": does("--num-seqs-buckets 8"),
            "--replicas": does("--replicas 2"),
            "--routing": does("--routing round-robin", "--replicas 2 --rate 50"),
            "--prefill-replicas": does("--prefill-replicas 2", f"--prefill-replicas 1 {_LINK}"),
            "--kv-bytes-per-token": does("--kv-bytes-per-token 200000", f"--prefill-replicas 1 {_LINK}"),
            "--kv-link-gb-s": does("--kv-link-gb-s 2", f"--prefill-replicas 1 {_LINK}"),
            "--kv-link-us": does("--kv-link-us 10000", f"--prefill-replicas 1 {_LINK}"),
            "--autoscale-min": does("--autoscale-min 1", "--replicas 3 --rate 50"),
            "--autoscale-target": does("--autoscale-target 1", _SCALED),
            "--autoscale-start-s": does("--autoscale-start-s 3", _SCALED),
            "--autoscale-down-s": does("--autoscale-down-s 60", _SCALED),
            "--step-times": held("src/cli/replay_test.cc"),
            "--linear": does("--linear step=1"),
            "--host-us": does("--host-us 900"),
            "--host-request-us": does("--host-request-us 900"),
            "--instance": does("--instance trn1.32xlarge"),
            "--replicas-per-instance": does("--replicas-per-instance 4", "--replicas 4 --instance trn1.32xlarge"),
            "--slo": does("--slo ttft=10"),
            "--json": does("--json"),
            "--html": does("--html page.html"),
        },
    ),
    Form(
        "replay",
        "--requests 9 --step-times big.csv --max-num-batched-tokens 8192",
        {
            "--decode-context-length-buckets": does("--decode-context-length-buckets 1024,32768"),
        },
    ),
    Form(
        "goodput",
        "--instance trn1.32xlarge --parameters 8e9 --runs 20",
        {
            "--instance": does("--instance p5.48xlarge"),
            "--count": does("--count 3"),
            "--chips-per-host": refused("--chips-per-host 4"),
        },
    ),
    Form("goodput", "--chips 1000 --runs 20 --checkpoint-tb 1", {"--checkpoint-tb": does("--checkpoint-tb 3")}),
    Form("goodput", "--chips 1000 --runs 20 --model Llama-3.1-8B", {"--model": does("--model Llama-3.1-405B")}),
    Form(
        "replay",
        f"trace.csv {LINEAR}",
        {
            "--format": fails("--format mooncake"),
            "--limit": does("--limit 1"),
            "--speedup": does("--speedup 100"),
            "--arrivals": refused("--arrivals burst"),
            "--rate": refused("--rate 3"),
            "--variation": refused("--variation 3"),
            "--requests": refused("--requests 41"),
            "--prompt-tokens": refused("--prompt-tokens 99"),
            "--output-tokens": refused("--output-tokens 99"),
            "--spread": refused("--spread 0.5"),
            "--seed": refused("--seed 9"),
        },
    ),
    Form(
        "replay",
        f"--requests 9 {LINEAR}",
        {  # without what they are of
            "--variation": refused("--variation 3"),
            "--routing": refused("--routing prefix"),
            "--kv-bytes-per-token": refused("--kv-bytes-per-token 9"),
            "--kv-link-gb-s": refused("--kv-link-gb-s 9"),
            "--kv-link-us": refused("--kv-link-us 9"),
            "--autoscale-target": refused("--autoscale-target 9"),
            "--autoscale-start-s": refused("--autoscale-start-s 9"),
            "--autoscale-down-s": refused("--autoscale-down-s 9"),
            "--replicas-per-instance": refused("--replicas-per-instance 4"),
            "--rate": refused("--rate 4", "--arrivals burst"),
        },
    ),
    Form(
        "goodput",
        "--chips 1000 --parameters 8e9 --runs 20",
        {
            "--slow-hosts": refused("--slow-hosts 0.1"),
            "--slowdown": refused("--slowdown 0.1"),
            "--count": refused("--count 3"),
        },
    ),
    Form(
        "plan",
        "Llama-3.1-8B --instance trn1.32xlarge --seq 8192 --global-batch 64 --tp 8 --top 3",
        {
            "--set": does("--set instance.trn1.32xlarge.chips=8"),
            "--tables": does("--tables chips.toml"),
            "--instance": does("--instance trn2.48xlarge"),
            "--count": does("--count 2"),
            "--seq": does("--seq 4096"),
            "--global-batch": does("--global-batch 128"),
            "--tokens": does("--tokens 1e12"),
            "--precision": does("--precision fp32"),
            "--stack": does("--stack megatron-lm"),
            "--tp": does("--tp 4"),
            "--cp": does("--cp 2"),
            "--pp": does("--pp 2"),
            "--vpp": does("--vpp 2", "--pp 2"),
            "--ep": refused("--ep 2"),
            "--dp": does("--dp 2"),
            "--micro-batch": does("--micro-batch 1"),
            "--zero": does("--zero 1"),
            "--recompute": does("--recompute full"),
            "--recompute-layers": does("--recompute-layers 2", "--stack megatron-core"),
            "--schedule": does("--schedule zb-h1", "--pp 2"),
            "--offload": does("--offload"),
            "--sp": does("--sp off"),
            "--top": does("--top 4"),
            "--explain": does("--explain 1"),
            "--compiled": held("src/cli/plan_test.cc"),
            "--layer-times": fails("--layer-times trace.csv"),
            "--links": does("--links"),
            "--pod": does("--pod 1", "--links --count 2"),
            "--oversubscription": does("--oversubscription 2", "--links --count 2"),
            "--lnc": does("--lnc 1", "--instance trn2.48xlarge"),
            "--exhaustive": does("--exhaustive"),
            "--price": does("--price reserved"),
            "--price-file": does("--price-file rates.toml"),
            "--as-of": does("--as-of 2020-01"),
            "--reliability": does("--reliability llama3"),
            "--checkpoint-gb-s": does("--checkpoint-gb-s 0.1", "--reliability llama3"),
            "--restart-s": does("--restart-s 9999", "--reliability llama3"),
            "--spares": does("--spares 0", "--reliability llama3"),
            "--models": does("--models"),
            "--instances": does("--instances"),
            "--export": does("--export jax"),
            "--output": does("-o made", "--export jax"),
            "--check": fails("--check trace.csv"),
            "--rows": refused("--rows"),
            "--html": does("--html page.html"),
            "--json": does("--json"),
            "--serve": refused("--serve"),
            "--prompt-tokens": refused("--prompt-tokens 9"),
            "--output-tokens": refused("--output-tokens 9"),
            "--max-model-len": refused("--max-model-len 99"),
            "--batch": refused("--batch 3"),
            "--slo": refused("--slo ttft=9"),
            "--rate": refused("--rate 9"),
            "--trace": refused("--trace trace.csv"),
            "--mesh": refused("--mesh tp=2"),
            "--shard": refused("--shard input0=tp"),
            "--steps": refused("--steps 9"),
        },
    ),
    Form(
        "plan",
        "Llama-3.1-8B --instance trn1.32xlarge --seq 8192 --global-batch 64 --tp 8 --top 3",
        {
            "--checkpoint-gb-s": refused("--checkpoint-gb-s 0.1"),
            "--restart-s": refused("--restart-s 9"),
            "--spares": refused("--spares 1"),
            "--output": refused("-o made"),
            "--pod": refused("--pod 2"),
            "--oversubscription": refused("--oversubscription 2"),
        },
    ),
    Form(
        "plan",
        "m.mlir --instance trn1.2xlarge --compiled 1",
        {
            "--mesh": does("--mesh tp=1"),
            "--shard": does("--shard input0=tp", "--mesh tp=2"),
            "--steps": does("--steps 9"),
            "--seq": refused("--seq 99"),
        },
    ),
    Form(
        "plan",
        "Llama-3.1-8B --serve --instance trn1.32xlarge --prompt-tokens 1000 --output-tokens 100",
        {
            "--prompt-tokens": does("--prompt-tokens 2000"),
            "--output-tokens": does("--output-tokens 9"),
            "--max-model-len": does("--max-model-len 9999"),
            "--batch": does("--batch 3"),
            "--slo": does("--slo tpot=20"),
            "--rate": does("--rate 9"),
            "--trace": held("src/cli/plan_test.cc"),
            "--tp": does("--tp 8"),
            "--seq": refused("--seq 99"),
            "--global-batch": refused("--global-batch 9"),
            "--tokens": refused("--tokens 1e9"),
            "--cp": refused("--cp 2"),
            "--pp": refused("--pp 2"),
            "--vpp": refused("--vpp 2"),
            "--ep": refused("--ep 2"),
            "--dp": refused("--dp 2"),
            "--micro-batch": refused("--micro-batch 1"),
            "--zero": refused("--zero 1"),
            "--recompute": refused("--recompute full"),
            "--recompute-layers": refused("--recompute-layers 2"),
            "--schedule": refused("--schedule zb-h1"),
            "--offload": refused("--offload"),
            "--sp": refused("--sp off"),
            "--compiled": does("--compiled 1"),
            "--layer-times": refused("--layer-times x.csv"),
            "--links": refused("--links"),
            "--exhaustive": refused("--exhaustive"),
            "--reliability": refused("--reliability llama3"),
            "--checkpoint-gb-s": refused("--checkpoint-gb-s 1"),
            "--restart-s": refused("--restart-s 9"),
            "--spares": refused("--spares 9"),
            "--export": refused("--export jax"),
            "--html": refused("--html page.html"),
            "--json": does("--json"),
            "--price": does("--price reserved"),
            "--price-file": does("--price-file rates.toml"),
            "--as-of": does("--as-of 2020-01"),
            "--lnc": fails("--lnc 2"),
            "--precision": does("--precision fp8"),
            "--top": does("--top 2"),
            "--explain": refused("--explain 1"),
            "--count": does("--count 2"),
            "--stack": refused("--stack megatron-lm"),
        },
    ),
    Form(
        "fabric show",
        "--instance trn1.32xlarge",
        {
            "--instance": does("--instance trn2.48xlarge"),
            "--nnodes": does("-N 2"),
            "--lnc": refused("--lnc 1"),
            "--json": does("--json"),
            **_TRN1,
        },
    ),
    Form(
        "fabric verify",
        "--instance trn1.32xlarge",
        {
            "--instance": does("--instance trn2.48xlarge"),
            "--nnodes": does("-N 2"),
            "--lnc": refused("--lnc 1"),
            "--msccl": held("tests/mpi/test_export.py::test_a_program_of_msccl_is_read_back_and_proved"),
            **_TRN1,
        },
    ),
    Form(
        "fabric predict",
        "all_reduce --instance trn1.32xlarge --bytes 1MB",
        {
            "--instance": does("--instance trn2.48xlarge"),
            "--nnodes": does("-N 2"),
            "--lnc": does("--lnc 1", _TRN2),
            **_STEP,
            "--ranks": does("-r 8"),
            "--group": does("--group 8"),
            "--bytes": does("--bytes 2MB"),
            "--datatype": does("-d fp32", "--bytes 1000001"),
            "--algorithm": does("--algorithm ring"),
            "--html": does("--html page.html"),
            "--perfetto": does("--perfetto t.json"),
            "--json": does("--json"),
        },
    ),
    Form(
        "fabric export",
        "all_reduce --instance trn1.32xlarge --format goal -o plan",
        {
            "--instance": does("--instance trn2.48xlarge"),
            "--nnodes": does("-N 2"),
            "--lnc": does("--lnc 1", _TRN2),
            "--set": does("--set instance.trn1.32xlarge.chips=8"),
            "--tables": does("--tables chips.toml"),
            "--ranks": does("-r 8"),
            "--bytes": does("--bytes 2MB"),
            "--datatype": fails("-d nothing"),
            "--algorithm": does("--algorithm kangaring"),
            "--format": does("--format chakra"),
            "--output": does("-o other"),
        },
    ),
    Form(
        "fabric cluster",
        "all_reduce --instance trn1.32xlarge -N 4 --bytes 64MB",
        {
            "--instance": does("--instance trn2.48xlarge"),
            "--nnodes": does("-N 8"),
            "--lnc": does("--lnc 1", _TRN2),
            **_STEP,
            "--datatype": does("-d fp32", "--bytes 1000001"),
            "--ranks-per-chip": does("--ranks-per-chip 1"),
            "--pod": does("--pod 2"),
            "--rails": does("--rails 2", "--pod 2"),
            "--oversubscription": does("--oversubscription 4", "--pod 2"),
            "--taken": does("--taken efa=0.5"),
            "--all-units": held("src/cli/fabric_cluster_test.cc"),
            "--all-steps": held("src/cli/fabric_cluster_test.cc"),
            "--json": does("--json"),
            "--bytes": does("--bytes 32MB"),
            "--within": does("--within ring"),
            "--levels": does("--levels ring:4"),
            "--pipeline": does("--pipeline 1"),
        },
    ),
    Form(
        "fabric job",
        "job.yaml --instance trn2.48xlarge -N 2",
        {
            "--instance": fails("--instance trn1.32xlarge"),
            "--nnodes": fails("-N 1"),
            "--lnc": fails("--lnc 1"),
            "--set": does("--set collective_time.v3.step_us=99"),
            "--tables": does("--tables step3.toml"),
            "--datatype": fails("-d nothing"),
            "--ranks-per-chip": fails("--ranks-per-chip 2"),
            "--pod": does("--pod 1"),
            "--rails": does("--rails 2"),
            "--oversubscription": does("--oversubscription 4", "--pod 1"),
            "--taken": does("--taken efa=0.5"),
            "--all-units": held("src/cli/fabric_cluster_test.cc"),
            "--all-steps": held("src/cli/fabric_cluster_test.cc"),
            "--json": does("--json"),
        },
    ),
    Form(
        "nccom-test",
        "allr -r 8 -b 1MB -e 2MB --instance trn1.32xlarge",
        {
            "--nworkers": does("-r 16"),
            "--minbytes": does("-b 512kb"),
            "--maxbytes": does("-e 4MB"),
            "--stepbytes": does("-i 256kb"),
            "--stepfactor": does("-f 4"),
            "--datatype": does("-d fp32"),
            "--coalesced-cc-size-ratio": does("--coalesced-cc-size-ratio 1 3"),
            "--variable-size-op-metadata": refused("--variable-size-op-metadata sizes.json"),
            "--data-parallel-dimension": does("--data-parallel-dimension 2"),
            "--custom-replica-groups": does("--custom-replica-groups groups.json"),
            "--custom-src-target-pairs": refused("--custom-src-target-pairs pairs.json"),
            "--streams-json": held("src/cli/nccom_test_test.cc"),
            "--check": does("-c"),
            "--seed": refused("--seed 3"),
            "--stats": does("-t p99"),
            "--report-to-json-file": does("--report-to-json-file r.json"),
            "--show-algorithm": does("--show-algorithm"),
            "--show-input-output-size": does("--show-input-output-size"),
            "--algorithm": does("--algorithm ring"),
            "--instance": does("--instance trn2.48xlarge"),
            "--nnodes": does("-N 2"),
            "--lnc": does("--lnc 1", _TRN2),
            **_STEP,
            "--iters": does("-n 7"),
            "--warmup_iters": does("-w 7"),
            "--neff_iters": does("-I 7"),
            "--neff_warmup_iters": does("-W 7"),
            "--data-collector-port": does("--data-collector-port 7"),
            "--non-interactive": does("--non-interactive"),
            "--debug": does("--debug"),
            "--vcpu-pin-mode": does("--vcpu-pin-mode"),
        },
    ),
]
