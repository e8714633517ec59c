"""AWS's configurations: what they change, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import httpx2 as httpx
import pytest
from running import served

from opentrn import _core
from opentrn.cli import main
from opentrn.errors import InputError
from opentrn.serve import Settings
from opentrn.serve.neuron_config import applied, explained

HONOURED, WITHOUT_EFFECT, REFUSED = "values and time", "without effect", "refused"
KEYS, NXDI_KEYS = _core.neuron_config_keys(False), _core.neuron_config_keys(True)

DRAWN = Settings(values=False, linear="step=1", served_name="tiny")


@pytest.mark.parametrize(
    ("nxdi", "config", "verdict"),
    [
        (False, {"num_seqs_buckets": [1, 4]}, HONOURED),
        (False, {"quantization": "bf16"}, HONOURED),
        (False, {"quantization": "mxfp4"}, HONOURED),
        (False, {"quantization": "int4"}, REFUSED),
        (False, {"ep_degree": 1}, WITHOUT_EFFECT),
        (False, {"ep_degree": 8}, REFUSED),
        (False, {"on_device_sampling_config": {"all_greedy": True}}, HONOURED),
        (True, {"tp_degree": 2}, HONOURED),
        (True, {"cp_degree": 2}, REFUSED),
        (True, {"torch_dtype": "bfloat16"}, HONOURED),
        (True, {"fused_qkv": True}, WITHOUT_EFFECT),
        (True, {"async_mode": True}, REFUSED),
        (True, {"kv_cache_quant": True}, HONOURED),
    ],
)
def test_each_key_has_a_verdict(nxdi: bool, config: dict[str, Any], verdict: str):
    [(key, value, found, why)] = explained(config, nxdi=nxdi)
    assert {key: value} == config and found == verdict and why
    if verdict == REFUSED:
        with pytest.raises(InputError, match="not possible") as raised:
            applied(DRAWN, config, nxdi=nxdi)
        assert raised.value.label == "serve.neuron_config"
    else:
        applied(DRAWN, config, nxdi=nxdi)


def test_every_setting_of_the_tables_is_one():
    names = {setting for _, _, _, setting in (*KEYS, *NXDI_KEYS) if setting} - {
        "cold", "kv_cache_quant", "quantized", "quantization_dtype", "quantization_type", "modules_to_not_convert",
        "mx_type",
    }  # fmt: skip
    assert names <= set(Settings.__dataclass_fields__)


@pytest.mark.parametrize(
    ("nxdi", "config", "match"),
    [
        (False, {"num_seq_buckets": [1]}, "not a key"),
        (False, {"num_seqs_buckets": [4, 1]}, "ascending"),
        (False, {"num_seqs_buckets": 4}, "ascending"),
        (False, {"max_logprobs": True}, "not a number"),
        (False, {"enable_structured_outputs": 1}, "neither"),
        (True, {"batch_size": 4, "tkg_batch_size": 8}, "another key"),
        (True, {"target": 2}, "not a name"),
        (False, {"modules_to_not_convert": ["lm_head"]}, "nothing is quantised"),
        (True, {"quantized": True, "modules_to_not_convert": "lm_head"}, "not a list of modules"),
        (True, {"tp_degree": 0}, "not a number"),
    ],
)
def test_values_that_are_none(nxdi: bool, config: dict[str, Any], match: str):
    with pytest.raises(InputError, match=match):
        applied(DRAWN, config, nxdi=nxdi)


@pytest.mark.parametrize(("nxdi", "config", "quantization"), [
    (True, {"quantized": True}, "int8,per_tensor_symmetric"),
    (True, {"quantized": True, "quantization_dtype": "f8e4m3", "quantization_type": "per_channel_symmetric",
            "modules_to_not_convert": ["lm_head", "self_attn"]},
     "fp8_e4m3,per_channel_symmetric,except=lm_head,except=self_attn"),
    (True, {"quantized": False}, "none"), (True, {"modules_to_not_convert": []}, "none"),
    (False, {"quantization": "mxfp4", "modules_to_not_convert": ["self_attn"]}, "mxfp4,except=self_attn"),
    (False, {"quantization": "bf16"}, "none"),
])  # fmt: skip
def test_narrow_weights(nxdi: bool, config: dict[str, Any], quantization: str):
    assert applied(DRAWN, config, nxdi=nxdi).quantization == quantization


def test_buckets_are_the_programs_that_run(tiny_file: Path):
    """Two requests in a bucket of four are padded by two; a grammar and too many logprobs are refused."""
    config = {"num_seqs_buckets": [4], "num_batched_tokens_buckets": [64], "decode_context_length_buckets": [64],
              "enable_structured_outputs": False, "max_logprobs": 1}  # fmt: skip
    settings = applied(
        Settings(served_name="tiny", dtype="f32", max_model_len=128, max_num_seqs=4, audit=True), config
    )
    with served(tiny_file, settings) as running:
        assert running.built.model.buckets == ([4], [64], [64, 128])
        url, body = f"{running.url}/v1/completions", {"model": "tiny", "prompt": "the", "max_tokens": 3}
        assert httpx.post(url, json=body, timeout=60).status_code == 200
        stats = running.wait_idle()
        assert stats["decode_padding"] == 2 * 3 and stats["prefill_padding"] > 0
        assert httpx.post(url, json=body | {"logprobs": 2}).status_code == 400
        assert httpx.post(url, json=body | {"structured_outputs": {"choice": ["a"]}}).status_code == 400


def test_the_command_explains(capsys: pytest.CaptureFixture[str]):
    words = ["serve", "smollm2", "--explain-config", "--override-neuron-config"]
    assert main([*words, '{"context_encoding_buckets": [128], "ep_degree": 8}']) == 0
    assert capsys.readouterr().out == (
        "context_encoding_buckets = [128]: values and time; the prefill programs\n"
        "ep_degree = 8: refused; the model is served by one group of tensor-parallel NeuronCores\n"
    )
    assert main([*words, '{"ep_degree": 8}', "--json"]) == 0
    why = "the model is served by one group of tensor-parallel NeuronCores"
    row = {"key": "ep_degree", "value": 8, "verdict": "refused", "why": why}
    assert json.loads(capsys.readouterr().out) == row
    assert main([*words, "[]"]) == 2 and main([*words, "{"]) == 2
    assert main(["serve", "smollm2", "--additional-config", '{"other": 1}']) == 2


def test_any_configuration_is_taken_or_an_input_error():
    """Drawn keys with drawn values: settings, an explanation, or a refusal, and nothing else."""
    values: list[Any] = [
        None, True, 0, -1, 7, 128, 2**70, 1e308, float("nan"), "", "auto", [], [1], [128, 64], [-1], ["a"], [[1]],
        [None], [2**70], [1.5], {}, {"a": 1}, {"enabled": True},
    ]  # fmt: skip
    random = Random(3)
    taken = 0
    for _ in range(600):
        nxdi = random.random() < 0.5
        keys = [*(key for key, *_ in (NXDI_KEYS if nxdi else KEYS)), "nobody"]
        config = {random.choice(keys): random.choice(values) for _ in range(random.randint(1, 3))}
        try:
            rows = explained(config, nxdi=nxdi)
            applied(Settings(), config, nxdi=nxdi)
            taken += len(rows) == len(config)
        except InputError as error:
            assert error.label
    assert 20 < taken < 600
