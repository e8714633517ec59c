"""Tokens a second of vLLM on this machine, with the platform that the environment says. Prints JSON.

    speed.py MODEL TOKENS    each row: so many prompts at once, TOKENS of each, prompts of 16 tokens
"""

from __future__ import annotations

import json
import sys
import time


def main() -> None:
    from vllm import LLM, SamplingParams

    folder, tokens = sys.argv[1], int(sys.argv[2])
    begin = time.perf_counter()
    model = LLM(folder, max_model_len=1024, max_num_seqs=8, max_num_batched_tokens=512, enforce_eager=True,
                enable_prefix_caching=False)  # fmt: skip
    rows = {"start_s": time.perf_counter() - begin, "dtype": str(model.model_config.dtype)}
    params = SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True)
    for count in (1, 8):
        prompts = [{"prompt_token_ids": [100 + i] + list(range(200, 215))} for i in range(count)]
        model.generate(prompts, params, use_tqdm=False)  # what is compiled or allocated once
        begin = time.perf_counter()
        answers = model.generate(prompts, params, use_tqdm=False)
        seconds = time.perf_counter() - begin
        given = sum(len(answer.outputs[0].token_ids) for answer in answers)
        assert given == tokens * count
        rows[f"tokens_per_s_{count}"] = given / seconds
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
