"""Rows of language models: what is read of their text, what is refused, and what a prediction is made of."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "fidelity"))

from adapters import llm  # noqa: E402
from adapters._common import NotReproducible  # noqa: E402

MODEL = "model=Tiny (dec 8L h256 a8 kv2 ffn512 vocab1024 1M)"


def row(
    workload: str, *, category: str = "llm_decode", metric: str = "TPOT p50", id: str = "nsdk.x"
) -> dict[str, str]:
    fields = {"id": id, "category": category, "workload": workload, "metric": metric}
    return fields | {"unit": "ms", "value": "1", "note": ""}


def test_what_a_row_says() -> None:
    text = (
        f"{MODEL}; instance=inf2.48xlarge x1 (12 chips); TP=4; batch=2; seq=1000; in=100; out=900; dtype=FP16"
    )
    work = llm.parse(row(text))
    config = json.loads(work.config)
    assert (work.ranks, work.lnc, work.batch, work.positions) == (4, 1, 2, 1024)
    assert (config["num_key_value_heads"], config["head_dim"], config["vocab_size"]) == (2, 32, 1024)
    trn2 = llm.parse(
        row(f"{MODEL}; instance=trn2.48xlarge x1; TP=4 LNC=2; batch=1; in=100 out=28; dtype=BF16")
    )
    assert (trn2.ranks, trn2.lnc, trn2.positions) == (8, 2, 128)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("instance=inf2.48xlarge x1; TP=4; in=9; rescaled FP8 weights", "FP8 weights"),
        ("instance=inf2.48xlarge x1; TP=4; in=9; load=throughput", "several requests"),
        ("instance=inf1.xlarge x1; TP=4; in=9", "no instance"),
        ("instance=inf2.48xlarge x1; in=9", "no number of ranks"),
        ("instance=inf2.48xlarge x1; TP=4", "prompt's length"),
        ("instance=inf2.48xlarge x1; TP=4; in=9; EAGLE", "speculation"),
    ],
)
def test_rows_that_say_too_little(text: str, reason: str) -> None:
    with pytest.raises(NotReproducible, match=reason):
        llm.parse(row(f"{MODEL}; {text}"))


def test_weights_are_narrow_where_a_row_says_so() -> None:
    text = f"{MODEL}; instance=trn1.32xlarge x1 (16 chips); TP=1; batch=1; seq=128; in=64; out=64; dtype=BF16%s"
    whole, stated, narrow = (
        llm.predict(row(text % weights), Path()).microseconds for weights in ("", "; weights=bf16", "; weights=int8")
    )
    assert stated == whole != narrow


def test_a_step_is_its_layers_and_what_the_ranks_exchange() -> None:
    text = (
        f"{MODEL}; instance=trn1.32xlarge x1 (16 chips); TP=%d; batch=1; seq=128; in=64; out=64; dtype=BF16"
    )
    alone, shared = llm.predict(row(text % 1), Path()), llm.predict(row(text % 2), Path())
    work = llm.parse(row(text % 2))
    bucket = (1, 1, 128, False)
    exchange = llm.collectives_us(work, bucket)
    assert exchange > 0 and llm.collectives_us(llm.parse(row(text % 1)), bucket) == 0
    assert shared.microseconds > exchange
    assert alone.roofline < alone.microseconds
    # Two models of two and four layers say what eight take; all eight compiled take about as long.
    from opentrn import _core

    whole = _core.time_of_config(work.config, "trn1", "bf16", (1, 1, 128, False), 2, 0, True).time_us
    device = shared.microseconds - exchange - shared.launch
    assert device == pytest.approx(whole, rel=0.05)


def prefill(text: str) -> llm.Workload:
    return llm.parse(row(f"{MODEL}; {text}", category="llm_prefill", metric="TTFT p50"))


def test_prompts_as_the_stack_of_the_row_reads_them() -> None:
    tnx = "instance=inf2.48xlarge x1; TP=2; batch=1; seq=%d; in=%d; fw=Transformers NeuronX; sdk=%s"
    assert [prefill(tnx % (8192, 64, sdk)).fused_above for sdk in ("2.18.1", "2.19.0", "2.20.0")] == [
        None,
        8192,
        8192,
    ]
    trn2 = prefill("instance=trn2.48xlarge x1; TP=2 LNC=2; batch=1; in=300 out=20")
    assert (trn2.fused_above, trn2.sequence_ranks) == (0, 4)
    # Buckets are powers of two, and the longest sequence where that is shorter.
    sizes = (1024, 300), (512, 300), (1200, 1100)
    assert [llm._bucket(prefill(tnx % (*of, "2.18.1")))[1] for of in sizes] == [512, 512, 1280]


def test_servers_of_one_program_read_prompts_of_its_length() -> None:
    def bucket(text: str) -> tuple[int | None, tuple[int, int, int, bool]]:
        work = prefill(f"instance=inf2.48xlarge; TP=8; max seq=4096; load=synchronous; {text}")
        return work.fused_above, llm._bucket(work)

    asked = "prompts 1500+-150 tokens, 250+-20 generated"
    assert bucket(f"max batch=32; vLLM; {asked}") == (4095, (1, 4096, 4096, False))
    assert bucket(f"max batch=32; vLLM; chunked prefill 1024; {asked}") == (None, (1, 1024, 4096, False))
    assert bucket(f"max batch=1; TGI; {asked}") == (0, (1, 2048, 2048, False))
    assert bucket("max batch=8; TGI; llmperf (default ~550 in / 150 out unless configured)")[1][1] == 4096
    with pytest.raises(NotReproducible, match="prompt's length"):
        bucket("max batch=1; TGI; llmperf (default ~550 in / 150 out unless configured)")


def test_attention_without_a_kernel_and_a_sequence_in_parts_change_the_time() -> None:
    from opentrn import _core

    config = prefill("instance=trn1.32xlarge x1; TP=1; batch=1; in=512 out=128").config

    def time_of(fused: bool, ranks: int, layers: int = 1) -> float:
        return _core.time_of_config(
            config, "trn1", "bf16", (1, 512, 512, False), 1, layers, True, fused, ranks
        ).time_us

    assert time_of(False, 1) > time_of(True, 1)
    # Norms and sums are of an eighth of the rows. Of two steps' difference that would say little: layers overlap.
    assert time_of(True, 8) < time_of(True, 1) < time_of(True, 1, 2)
    assert time_of(True, 8) < time_of(True, 8, 2) < time_of(True, 1, 2)
    with pytest.raises(Exception, match="512 rows of a model divided by 1024 ranks"):
        time_of(True, 1024)


@pytest.mark.parametrize(
    ("bucket", "sequence_ranks"),
    [((1, 1, 1024, False), 1), ((2, 512, 1024, False), 1), ((1, 512, 512, False), 8), ((1, 33, 64, False), 1)],
)
def test_cores_of_a_rank_share_its_head(bucket: tuple[int, int, int, bool], sequence_ranks: int) -> None:
    """Four heads on four logical cores (Llama 3.3 70B on trn2.48xlarge has 64 on 64): a core computes half of a rank's
    products, and takes more than half of its time and less than all of it."""
    from opentrn import _core

    config = json.dumps({
        "architectures": ["LlamaForCausalLM"], "num_hidden_layers": 2, "hidden_size": 1024, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 128, "intermediate_size": 4096, "vocab_size": 4096,
        "max_position_embeddings": 4096, "rms_norm_eps": 1e-5,
    })  # fmt: skip

    def step(cores: int, lnc: int, ranks: int) -> tuple[float, float]:
        made = _core.time_of_config(
            config, "trn2", "bf16", bucket, cores, 2, True, True, ranks, cores_per_rank=lnc
        )
        return made.tensor_flops, made.time_us

    (whole, longest), (half, time) = step(4, 1, min(sequence_ranks, 4)), step(8, 2, sequence_ranks)
    assert half == pytest.approx(whole / 2, rel=0.01)
    assert longest / 2 < time < longest
    with pytest.raises(Exception, match="8 ranks share 4 heads"):
        step(8, 1, sequence_ranks)
    with pytest.raises(Exception, match="9 cores are no ranks of 2"):
        step(9, 2, sequence_ranks)
