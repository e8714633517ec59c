"""Rows `nkilib.*`: aws-neuron/nki-library's own regression figures on Trn2.

The figures include the launch of the kernel on the device (about 25 us; facts README section 1), so the
launch overhead of the timing table is added.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from adapters._common import NotReproducible, Predicted, activate, checkout, fields, shape, timed

DTYPES = {"BF16": "bfloat16", "FP16": "float16", "FP32": "float32"}
DEFAULT_LNC = 2  # of the library's Trn2 tests


def _attention(row: dict[str, str], items: dict[str, str]) -> Predicted:
    text = row["workload"]
    if "prior_kv" in text or "context" in text:
        raise NotReproducible("prefix caching and context parallelism take run-time lengths")
    from nkilib.core.attention.attention_cte import attention_cte

    dims = {k: int(v) for k, v in re.findall(r"(seqlen_q|seqlen_kv|d)=(\d+)", text)}
    heads = re.search(r"heads\*batch q=(\d+) kv=(\d+)", text)
    batch_q, batch_kv = int(heads[1]), int(heads[2])
    layout = dict(re.findall(r"(q|k|out)=(True|False|None)", text.split("transposed inputs")[1]))
    dtype = DTYPES[items["dtype"]]
    d, length_q, length_kv = dims["d"], dims["seqlen_q"], dims["seqlen_kv"]
    tp_q, tp_k, tp_out = layout["q"] == "True", layout["k"] == "True", layout["out"] == "True"
    q = shape((batch_q, length_q, d) if tp_q else (batch_q, d, length_q), dtype)
    k = shape((batch_kv, length_kv, d) if tp_k else (batch_kv, d, length_kv), dtype)
    v = shape((batch_kv, length_kv, d), dtype)
    options = {}
    if window := re.search(r"sliding_window=(\d+)", text):
        options["sliding_window"] = int(window[1])
    if re.search(r"; sink;", text):
        options["sink"] = shape((batch_q, 1), dtype)
    lnc = DEFAULT_LNC if "LNC=default" in text else int(re.search(r"LNC=(\d)", text)[1])
    return timed(
        attention_cte, q, k, v, scale=d**-0.5, causal_mask=items["causal"] == "True", tp_q=tp_q, tp_k=tp_k,
        tp_out=tp_out, target="trn2", lnc=lnc, launch=True, **options,
    )  # fmt: skip


def predict(row: dict[str, str], checkouts: Path) -> Predicted:
    repository = checkout(checkouts, "aws-neuron+nki-library")
    activate()
    sys.path.insert(0, str(repository / "src/nkilib_src"))
    items = fields(row)
    if row["metric"] != "latency":
        raise NotReproducible("a design target or a part of a kernel, not a measurement of one")
    if ".attn-cte." in row["id"]:
        return _attention(row, items)
    raise NotReproducible("no adapter for this nki-library kernel yet")
