"""Tokens a second of vLLM on this machine, with the platform that the environment says. Prints JSON.

    speed.py MODEL TOKENS DTYPE    each row: so many prompts at once, TOKENS of each, prompts of 16 tokens

A row says tokens a second, and tokens a second of the processor time of this process and its threads, which another
process's load changes less: vLLM's engine must run in the process (VLLM_ENABLE_V1_MULTIPROCESSING=0).
"""

from __future__ import annotations

import json
import sys
import time


def main() -> None:
    from vllm import LLM, SamplingParams

    folder, tokens, dtype = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    begin = time.perf_counter()
    model = LLM(folder, dtype=dtype, max_model_len=1024, max_num_seqs=8, max_num_batched_tokens=512, enforce_eager=True,
                enable_prefix_caching=False)  # fmt: skip
    rows = {"start_s": time.perf_counter() - begin, "dtype": str(model.model_config.dtype)}
    params = SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True)
    for count in (1, 8):
        prompts = [{"prompt_token_ids": [100 + i] + list(range(200, 215))} for i in range(count)]
        model.generate(prompts, params, use_tqdm=False)  # what is compiled or allocated once
        begin, used = time.perf_counter(), time.process_time()
        answers = model.generate(prompts, params, use_tqdm=False)
        seconds, used = time.perf_counter() - begin, time.process_time() - used
        given = sum(len(answer.outputs[0].token_ids) for answer in answers)
        assert given == tokens * count
        rows[f"tokens_per_s_{count}"] = given / seconds
        rows[f"tokens_per_processor_s_{count}"] = given / used
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
