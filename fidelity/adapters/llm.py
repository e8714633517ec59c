"""Rows of language models at load 1: the time per token and the time to the first one, of the sizes in a row's text.

No weights are needed and nothing is fitted. One physical core's share of the model (heads, feed-forward features,
vocabulary divided by the cores) is built as `opentrn generate` builds models, compiled and timed beside those of the
other cores of its HBM stack; what the ranks exchange, two all-reduces a layer and a gather of the logits, and what the
two cores of a logical one do, gets its time from src/collectives; a step has one launch and one copy of the logits to
the host. Layers are alike: two short models are timed and their difference is a layer's.

What rows do not say is taken so: keys and values of a sequence lie side by side, as Transformers NeuronX, NxD
Inference without `is_block_kv_layout` and AWS's vLLM plugin before 0.21 have them; decode reads the positions of the
whole cache (`seq`), as AWS's programs of one bucket do; a prompt is padded to a power of two, or to the longest
sequence where that is less, as both libraries make buckets; with logical cores (LNC=2) each physical core is a rank's
half, of its heads or, where it has one alone, of that (decision 0266). What the stack's own code and pages say:

- Transformers NeuronX before SDK 2.19 has no attention kernel for prompts: `layers/attention.py` computes scores, masks
  them, and multiplies their softmax. From 2.19 on one is taken above 8192 tokens (its developer guide).
- Hugging Face's servers read every prompt in one program of the longest sequence (optimum-neuron's exporter for
  TGI: `context_length_estimate = [sequence_length]` where a batch is above 1; the graph builders of its vLLM: one graph
  for prompts), or in parts where the row says "chunked prefill". Their attention is a kernel from 4096 tokens on, and
  never in parts, which read the cache (`attention_base.py`).
- NxD Inference on Trainium2 reads prompts with sequence parallelism (its tutorials set `sequence_parallel_enabled`).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from adapters import models
from adapters._common import NotReproducible, fields

CATEGORIES = ("llm_decode", "llm_prefill")
DECODE, PREFILL = CATEGORIES
TOKEN_TIMES = ("TPOT p50", "TPOT p99", "TPOT median", "inter-token latency p50", "inter-token latency mean")
FIRST_TIMES = ("TTFT p50", "TTFT p99", "TTFT median", "TTFT mean")
MILLISECONDS = {"ms": 1e-3, "us": 1.0}
TARGETS = {"inf2": "inf2", "trn1": "trn1", "trn2": "trn2"}
BLOCK = 32
# Layers of the two models that are timed, for steps of few and of many tokens.
FEW, MANY = (2, 4), (1, 2)
GIB = 1 << 30


@dataclass(frozen=True)
class Workload:
    """What a row says. ranks: physical cores that share the model; lnc: of each logical one."""

    config: str
    layers: int
    hidden: int
    vocabulary: int
    instance: str
    target: str
    ranks: int
    lnc: int
    batch: int
    prompt: int
    positions: int
    chunk: int | None  # rows of one program for prompts, where it is one for all; None: one of several buckets
    prefill: bool
    fused_above: int | None  # tokens of a prompt above which attention is one kernel; None: never
    sequence_ranks: int  # that share the rows of a prompt between products; 1: none do
    quantization: str  # of the matrices of layers: "int8", or "none" for the program's type


def family_of(row: dict[str, str]) -> str:
    """By what was measured; a serving stack around the device is a family of its own."""
    return row["category"] + (".server" if row["id"].startswith("optimum") else "")


def is_known(row: dict[str, str]) -> bool:
    metrics = FIRST_TIMES if row["category"] == PREFILL else TOKEN_TIMES
    return row["metric"] in metrics and row["unit"] in MILLISECONDS


def is_time(row: dict[str, str]) -> bool:
    return is_known(row)


def run_key(row: dict[str, str]) -> object:
    """Rows of one run share their program."""
    try:
        return parse(row)
    except NotReproducible as reason:
        return str(reason), row["id"]


def _number(text: str, pattern: str, what: str) -> int:
    found = re.search(pattern, text)
    if not found:
        raise NotReproducible(f"no {what} is stated")
    return int(found[1])


def _up(value: int, to: int) -> int:
    return -(-value // to) * to


def _refuse_what_is_no_load_of_one(row: dict[str, str], items: dict[str, str]) -> None:
    text = row["workload"] + row["note"]
    if re.search(r"specul|EAGLE|draft|MoE|gpt-oss|verify", text, re.IGNORECASE):
        raise NotReproducible("speculation, or a mixture of experts")
    if "FP8" in text:
        raise NotReproducible("whether what FP8 weights meet is narrowed too is not stated")
    load, concurrency = items.get("load", "synchronous"), items.get("concurrency", "1")
    if not load.startswith("synchronous") or concurrency != "1":
        raise NotReproducible("several requests at once: a server's row, which replays are for")
    if "replicas unstated" in text:
        raise NotReproducible("no number of ranks is stated")


@cache
def _parsed(workload: str, category: str, note: str, id: str) -> Workload:
    row = {"workload": workload, "note": note, "id": id, "category": category}
    items = fields(row)
    _refuse_what_is_no_load_of_one(row, items)
    sizes = re.search(r"\(dec ([^)]*)\)", items.get("model", ""))
    if not sizes:
        raise NotReproducible("the sizes of the model are not stated")
    text, name = sizes[1], items["model"].split("(")[0].strip().lower()
    if "ffn" not in text:
        raise NotReproducible("the feed-forward size is not stated")
    hidden, heads = _number(text, r"h(\d+)", "hidden size"), _number(text, r"\ba(\d+)", "number of heads")
    layers = _number(text, r"(\d+)L", "number of layers")
    stated = re.search(r"kv(\d+)", text)
    vocab = re.search(r"vocab(\d+)", text)
    vocabulary = int(vocab[1]) if vocab else 151936 if "qwen" in name else 32000
    qwen3 = "qwen3" in name
    family = "Qwen3" if qwen3 else "Qwen2" if "qwen2" in name else "Llama"
    config = {
        "architectures": [f"{family}ForCausalLM"],
        "num_hidden_layers": layers, "hidden_size": hidden, "num_attention_heads": heads,
        "num_key_value_heads": int(stated[1]) if stated else heads, "head_dim": 128 if qwen3 else hidden // heads,
        "intermediate_size": _number(text, r"ffn(\d+)", "feed-forward size"), "vocab_size": vocabulary,
        "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "tie_word_embeddings": False,
    }  # fmt: skip
    # Hugging Face's rows of "trn2" with four ranks are of a trn2.3xlarge (its commits 56c35e6d and b0a576eb say so).
    named = "trn2.3xlarge" if items.get("instance") == "trn2" and "TP=4" in workload else items.get("instance", "")
    machine = re.match(r"((?:trn|inf)\d\w*)\.(\w+)", named)
    if not machine or machine[1] not in TARGETS:
        raise NotReproducible("no instance with NeuronCore-v2 or v3 is stated")
    ranks = _number(workload, r"TP=(\d+)", "number of ranks")
    logical = re.search(r"LNC=(\d)", workload)
    lnc = int(logical[1]) if logical else 2 if machine[1] == "trn2" else 1
    cores = ranks * lnc
    chunk = _chunk(workload) if category == PREFILL else None
    prompt = re.search(r"\bin=~?(\d+)", workload) or re.search(r"prompts (\d+)", workload)
    if chunk and not prompt:  # as long as the program, whatever the prompt is
        prompt = re.search(r"default ~(\d+) in", workload)
    answer = re.search(r"\bout[=~]~?(\d+)", workload) or re.search(r"(\d+)\+-\d+ generated", workload)
    if not prompt:
        raise NotReproducible("the prompt's length is not stated")
    longest = re.search(r"seq=(\d+)", workload)
    whole = int(longest[1]) if longest else int(prompt[1]) + int(answer[1] if answer else 0)
    batch = re.search(r"batch=(\d+)", workload)
    prefill = category == PREFILL
    if prefill and batch and int(batch[1]) > 1 and not chunk and "load=" not in workload:
        raise NotReproducible("whether the prompts of a batch are read together is not stated")
    trn2 = TARGETS[machine[1]] == "trn2"
    return Workload(
        json.dumps(config), layers, hidden, vocabulary, f"{machine[1]}.{machine[2]}", TARGETS[machine[1]], cores, lnc,
        1 if prefill else int(batch[1]) if batch else 1, int(prompt[1]), _up(whole, 128), chunk, prefill,
        _fused_above(items, workload), cores if prefill and trn2 else 1,
        "int8" if items.get("weights") == "int8" else "none",
    )  # fmt: skip


def _chunk(workload: str) -> int | None:
    """Rows of the one program with which Hugging Face's servers read all prompts; None: others, or several programs."""
    part, longest = re.search(r"chunked prefill (\d+)", workload), re.search(r"max seq=(\d+)", workload)
    if part:
        return int(part[1])
    together = re.search(r"max batch=(\d+)", workload)
    one = "vLLM" in workload or ("TGI" in workload and together and int(together[1]) > 1)
    return int(longest[1]) if one and longest else None


def _fused_above(items: dict[str, str], workload: str) -> int | None:
    """Tokens of a prompt above which the row's stack computes attention by a kernel; None: it has none."""
    if _chunk(workload):
        return None if "chunked prefill" in workload else 4095
    if items.get("fw") != "Transformers NeuronX":
        return 0
    release = re.match(r"(\d+)\.(\d+)", items.get("sdk", ""))
    return None if release and (int(release[1]), int(release[2])) < (2, 19) else 8192


def parse(row: dict[str, str]) -> Workload:
    """Raises NotReproducible where a row says too little, or what is not modelled."""
    return _parsed(row["workload"], row["category"], row["note"], row["id"])


@dataclass
class Predicted:
    """The device's and the host's time of one step."""

    microseconds: float
    bound_by: str
    name: str
    launch: float
    roofline: float
    kind: str

    def value_of(self, row: dict[str, str]) -> float:
        return self.microseconds * MILLISECONDS[row["unit"]]

    def roofline_of(self, row: dict[str, str]) -> float | None:
        return self.roofline * MILLISECONDS[row["unit"]]

    def program(self) -> str:
        return f"{self.name} {self.microseconds!r}"

    def launch_of(self, row: dict[str, str]) -> float:
        return self.launch * MILLISECONDS[row["unit"]]


def _bucket(work: Workload) -> tuple[int, int, int, bool]:
    if not work.prefill:
        return work.batch, 1, work.positions, False
    if work.chunk:
        return 1, work.chunk, max(work.positions, work.chunk), False
    tokens = 128
    while tokens < work.prompt:
        tokens *= 2
    tokens = min(tokens, max(work.positions, _up(work.prompt, 128)))
    return 1, tokens, tokens, False


def _step_time(work: Workload, layers: int) -> object:
    """Of one rank, without what the ranks exchange."""
    from opentrn import _core

    bucket = _bucket(work)
    fused = not work.prefill or (work.fused_above is not None and bucket[1] > work.fused_above)
    ranks = work.sequence_ranks if bucket[1] >= work.sequence_ranks else 1
    return _core.time_of_config(
        work.config, work.target, "bf16", bucket, work.ranks, layers, True, fused, ranks, cores_per_rank=work.lnc,
        quantization=work.quantization,
    )  # fmt: skip


def collectives_us(work: Workload, bucket: tuple[int, int, int, bool]) -> float:
    """What the cores exchange in a step: the sums of rows of the hidden size after attention and after the
    feed-forward layer, in 16 bits, and the logits of the last rows in 32."""
    from opentrn import _core

    of = (work.config, work.target, "bf16", bucket, work.ranks, work.instance, work.lnc)
    return _core.exchange_us_of_config(*of)


def predict(row: dict[str, str], checkouts: Path) -> Predicted:
    """Two short models compiled and timed, the collectives, and the host's part."""
    from opentrn import _core
    from opentrn.generate.ranks import time_on_stack
    from opentrn.kernel import run as _timings  # noqa: F401 - gives _core.Timing its methods

    work = parse(row)
    bucket = _bucket(work)
    timings = [_step_time(work, layers) for layers in (MANY if work.prefill else FEW)]
    (few, many), (first, second) = (
        (MANY if work.prefill else FEW), (time_on_stack(timing, work.ranks) for timing in timings)
    )  # fmt: skip
    layer = (second - first) / (many - few)
    parts = -(-work.prompt // work.chunk) if work.chunk else 1
    device = parts * (second + (work.layers - many) * layer)
    exchange = parts * collectives_us(work, bucket)
    host = models.host_costs()
    launch = parts * host["kernel_launch_us"]
    copy = _core.results_us_of_config(work.config, bucket)
    name = f"{work.config} {bucket} {work.ranks} {work.fused_above} {parts}"
    return Predicted(
        device + exchange + launch + copy, timings[1].bound_by, name, launch, parts * roofline_us(work, bucket),
        timings[1].kind,
    )  # fmt: skip


def roofline_us(work: Workload, bucket: tuple[int, int, int, bool]) -> float:
    """The weights of a rank at the published bandwidth of its part of HBM, or its products at the peak rate."""
    config = json.loads(work.config)
    features = config["head_dim"]
    q, kv = features * config["num_attention_heads"], features * config["num_key_value_heads"]
    layer = work.hidden * (2 * q + 2 * kv + 3 * config["intermediate_size"])
    weights = (work.layers * layer + work.hidden * work.vocabulary) / work.ranks
    gb_s, tflops = {"inf2": (410.0, 92.0), "trn1": (410.0, 92.0), "trn2": (362.5, 83.0)}[work.target]
    rows = bucket[0] * bucket[1]
    return max(2 * weights / gb_s / 1e3, 2 * weights * rows / tflops / 1e6)
