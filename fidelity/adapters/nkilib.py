"""Rows `nkilib.*`: aws-neuron/nki-library's own regression figures on Trn2.

The figures include the launch of the kernel on the device (about 25 us; facts README section 1), so the
launch overhead of the timing table is added.
"""

from __future__ import annotations

import atexit
import re
import shutil
import sys
import tempfile
from pathlib import Path

from adapters._common import NotReproducible, Predicted, activate, checkout, fields, file_at, shape, timed

DTYPES = {"BF16": "bfloat16", "FP16": "float16", "FP32": "float32"}
# A row with "LNC=default" is of a test that names no number of cores: it gets the library's default. The figures of
# the oldest such tests are about twice what others with two cores publish, as if they had run on one; a choice by the
# published figure would be no prediction.
DEFAULT_LNC = 2
PARTITIONS = 128
# core/mlp/mlp.py of the published commit d2ad3a57 does not parse; the commit before it does.
MLP_COMMIT = "0759719"
MLP_FILE = "src/nkilib_src/nkilib/core/mlp/mlp.py"


def _attention(row: dict[str, str], items: dict[str, str]) -> Predicted:
    """Prefill attention. Run-time lengths (prior tokens used, rank) only reach masks, and addresses computed on
    the device; their values change no instruction, so the tensors that hold them stand without values."""
    from nkilib.core.attention.attention_cte import attention_cte

    text = row["workload"]
    dims = {k: int(v) for k, v in re.findall(r"\b(seqlen_q|seqlen_kv|d|prior_kv)=(\d+)", text)}
    heads = re.search(r"heads\*batch q=(\d+) kv=(\d+)", text)
    batch_q, batch_kv = int(heads[1]), int(heads[2])
    layout = dict(re.findall(r"(q|k|out)=(True|False|None)", text.split("transposed inputs")[1]))
    dtype = DTYPES[items["dtype"]]
    d = dims["d"]
    tp_q, tp_k, tp_out = layout["q"] == "True", layout["k"] == "True", layout["out"] == "True"

    def tokens(batch: int, length: int, transposed: bool):
        return shape((batch, length, d) if transposed else (batch, d, length), dtype)

    options, scale = {}, d**-0.5
    if window := re.search(r"sliding_window=(\d+)", text):
        options["sliding_window"] = int(window[1])
    if "prior_kv" in dims:
        options |= {
            "k_prior": tokens(batch_kv, dims["prior_kv"], tp_k),
            "v_prior": tokens(batch_kv, dims["prior_kv"], True),
            "prior_used_len": shape((1,), "int32"),
        }
    if degree := re.search(r"context parallel degree=(\d+)", text):
        options |= {"cp_offset": shape((1, 1), "int32"), "global_cp_deg": int(degree[1])}
    if options:
        scale = 1.0  # the only one that these support
    if re.search(r"; sink;", text):
        options["sink"] = shape((batch_q, 1), "float32")
    named = re.search(r"LNC=(\d)", text)
    return timed(
        attention_cte,
        tokens(batch_q, dims["seqlen_q"], tp_q),
        tokens(batch_kv, dims["seqlen_kv"], tp_k),
        tokens(batch_kv, dims["seqlen_kv"], True),
        scale=scale,
        causal_mask=items["causal"] != "False",
        tp_q=tp_q,
        tp_k=tp_k,
        tp_out=tp_out,
        target="trn2",
        lnc=int(named[1]) if named else DEFAULT_LNC,
        launch=True,
        **options,
    )


def _import_repaired_copy(repository: Path) -> None:
    """Put a copy of the library on the path whose MLP kernels load.

    core/mlp/mlp.py comes from MLP_COMMIT, and core/mlp/mlp_tkg/mlp_tkg.py gets two names that it does not import.
    """
    copy = Path(tempfile.mkdtemp(prefix="nkilib_"))
    atexit.register(shutil.rmtree, copy, ignore_errors=True)
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(repository / "src/nkilib_src/nkilib", copy / "nkilib", ignore=ignored)
    (copy / "nkilib/core/mlp/mlp.py").write_text(file_at(repository, MLP_COMMIT, MLP_FILE), encoding="utf-8")
    sys.path.insert(0, str(copy))

    from nkilib.core.mlp.mlp_tkg import mlp_tkg
    from nkilib.core.utils import allocator, logging

    for name, value in (("SbufManager", allocator.SbufManager), ("Logger", logging.Logger)):
        if not hasattr(mlp_tkg, name):
            setattr(mlp_tkg, name, value)


def _flag(text: str, name: str) -> bool:
    """`name=True` in a workload."""
    return bool(re.search(rf"\b{name}=True", text))


def _mlp_scales(quantization: str, hidden: int, inner: int) -> dict:
    """The dequantisation scales of the weights, as the library's tests shape them."""
    if quantization == "NONE":
        return {}
    widths = {"gate": inner, "up": inner, "down": hidden} if quantization == "ROW" else dict.fromkeys(
        ("gate", "up", "down"), 1
    )  # fmt: skip
    scales = {f"{name}_w_scale": shape((PARTITIONS, n), "float32") for name, n in widths.items()}
    if quantization == "STATIC":
        scales |= {name: shape((PARTITIONS, 1), "float32") for name in ("gate_up_in_scale", "down_in_scale")}
    return scales


def _mlp(row: dict[str, str], decode: bool) -> Predicted:
    """A row of the prefill or decode MLP. What the row leaves unsaid is the tests' default."""
    import nki.language as nl
    from nkilib.core.mlp.mlp import mlp
    from nkilib.core.utils.common_types import ActFnType, NormType, QuantizationType

    text = row["workload"]
    dims = {k: int(v) for k, v in re.findall(r"\b(batch|seq|new_tokens|hidden|intermediate)=(\d+)", text)}
    batch, hidden, inner = dims["batch"], dims["hidden"], dims["intermediate"]
    tokens = dims["new_tokens"] if decode else dims["seq"]
    norm = re.search(r"norm=(\w+)", text)[1]
    activation = re.search(r"act=(\w+)", text)
    quantization = re.search(r"quant=(\w+)", text)
    quantization = quantization[1] if quantization else "NONE"
    weight_dtype = "float8_e4m3" if quantization != "NONE" else "bfloat16"

    def optional(present: bool, *dims: int):
        return shape(dims, "bfloat16") if present else None

    has_gamma = norm in ("RMS_NORM", "LAYER_NORM")
    every_bias = _flag(text, "bias") if decode else False
    options = _mlp_scales(quantization, hidden, inner)
    if decode:
        tiling = re.search(r"column_tiling=(\w+)/(\w+)", text)
        options |= {
            "use_tkg_gate_up_proj_column_tiling": tiling[1] == "True",
            "use_tkg_down_proj_column_tiling": tiling[2] == "True",
            "use_tkg_down_proj_optimized_layout": _flag(text, "down_opt_layout"),
        }
    return timed(
        mlp,
        shape((batch, tokens, hidden), "bfloat16"),
        shape((hidden, inner), weight_dtype),
        shape((hidden, inner), weight_dtype),
        shape((inner, hidden), weight_dtype),
        normalization_weights_tensor=optional(has_gamma, 1, hidden),
        gate_proj_bias_tensor=optional(every_bias, 1, inner),
        up_proj_bias_tensor=optional(every_bias or _flag(text, "up_bias"), 1, inner),
        down_proj_bias_tensor=optional(every_bias or _flag(text, "down_bias"), 1, hidden),
        fused_add_tensor=optional(_flag(text, "fused_add"), batch, tokens, hidden),
        store_fused_add_result=_flag(text, "store_add"),
        activation_fn=ActFnType[activation[1]] if activation else ActFnType.SiLU,
        normalization_type=NormType[norm],
        quantization_type=QuantizationType[quantization],
        output_dtype=nl.bfloat16,
        eps=1e-6,
        skip_gate_proj="without gate" in text,
        target="trn2",
        lnc=int(re.search(r"LNC=(\d)", text)[1]),
        launch=True,
        **options,
    )


def _rmsnorm_quant(row: dict[str, str]) -> Predicted:
    from nkilib.core.rmsnorm.rmsnorm_quant import RmsNormQuantKernelArgs, rmsnorm_quant_kernel
    from nkilib.core.utils.common_types import NormType, QuantizationType

    text = row["workload"]
    dims = {k: int(v) for k, v in re.findall(r"\b(tokens|hidden)=(\d+)", text)}
    arguments = RmsNormQuantKernelArgs(
        quantization_type=QuantizationType.ROW,
        lower_bound=float(re.search(r"lower_bound=([\d.]+)", text)[1]),
        norm_type=NormType.NO_NORM if "quantize only" in text else NormType.RMS_NORM,
        eps=1e-6,
    )
    return timed(
        rmsnorm_quant_kernel,
        shape((1, dims["tokens"], dims["hidden"]), "bfloat16"),
        shape((1, dims["hidden"]), "bfloat16"),
        arguments,
        target="trn2",
        lnc=2,
        launch=True,
    )


def predict(row: dict[str, str], checkouts: Path) -> Predicted:
    repository = checkout(checkouts, "aws-neuron+nki-library")
    if row["metric"] != "latency":
        raise NotReproducible("a design target or a part of a kernel, not a measurement of one")
    activate()
    if ".mlp-" in row["id"]:
        _import_repaired_copy(repository)
        return _mlp(row, decode=".mlp-tkg." in row["id"])
    sys.path.insert(0, str(repository / "src/nkilib_src"))
    if ".attn-cte." in row["id"]:
        return _attention(row, fields(row))
    if ".rmsnorm-quant." in row["id"]:
        return _rmsnorm_quant(row)
    raise NotReproducible("no adapter for this nki-library kernel yet")
