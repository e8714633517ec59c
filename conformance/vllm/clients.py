"""OpenAI's and Anthropic's clients against a vLLM server on simulated NeuronCores. Prints a line of JSON per case."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import anthropic
import httpx
import openai

MODEL = "smollm2"
QUESTION = [{"role": "user", "content": "What is the capital of France?"}]


class Cases:
    """Each method whose name begins with `case_` is one."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)

    def chat(self, **more: Any) -> Any:
        options = {"model": MODEL, "messages": QUESTION, "temperature": 0, "max_tokens": 16} | more
        return self.client.chat.completions.create(**options)

    def completion(self, **more: Any) -> Any:
        options = {"model": MODEL, "prompt": "The sea is", "temperature": 0, "max_tokens": 8} | more
        return self.client.completions.create(**options)

    def case_models(self) -> bool:
        return [model.id for model in self.client.models.list()] == [MODEL]

    def case_chat(self) -> bool:
        answer = self.chat()
        return "Paris" in answer.choices[0].message.content and answer.usage.completion_tokens > 1

    def case_stream(self) -> bool:
        pieces = list(self.chat(stream=True, stream_options={"include_usage": True}))
        text = "".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices)
        return text == self.chat().choices[0].message.content and pieces[-1].usage.completion_tokens > 1

    def case_completion(self) -> bool:
        return len(self.completion().choices[0].text) > 0

    def case_several_prompts(self) -> bool:
        answers = self.completion(prompt=["The sea is", "A prime number is"]).choices
        alone = self.completion().choices[0].text
        return len(answers) == 2 and answers[0].text == alone

    def case_several_answers(self) -> bool:
        answers = self.completion(n=3, temperature=1.0, seed=5, max_tokens=12).choices
        return len({answer.text for answer in answers}) > 1

    def case_seed(self) -> bool:
        texts = [self.completion(temperature=1.0, seed=seed, max_tokens=12).choices[0].text for seed in (1, 1, 2)]
        return texts[0] == texts[1] != texts[2]

    def case_stop(self) -> bool:
        answer = self.chat(stop=["Paris"])
        return answer.choices[0].finish_reason == "stop" and "Paris" not in answer.choices[0].message.content

    def case_length(self) -> bool:
        answer = self.completion(max_tokens=5, extra_body={"ignore_eos": True})
        return answer.choices[0].finish_reason == "length" and answer.usage.completion_tokens == 5

    def case_logprobs(self) -> bool:
        rows = self.chat(logprobs=True, top_logprobs=3).choices[0].logprobs.content
        greedy = all(row.token == row.top_logprobs[0].token for row in rows)
        sums = all(row.logprob <= 0 and len(row.top_logprobs) == 3 for row in rows)
        return greedy and sums

    def case_bias(self) -> bool:
        return self.completion(logit_bias={"28": 100}, max_tokens=3).choices[0].text == self.client_text(28, 3)

    def client_text(self, token: int, count: int) -> str:
        reply = httpx.post(f"{self.url}/detokenize", json={"model": MODEL, "tokens": [token] * count})
        return reply.json()["prompt"]

    def case_min_tokens(self) -> bool:
        answer = self.chat(max_tokens=24, extra_body={"min_tokens": 24})
        return answer.usage.completion_tokens == 24

    def case_allowed_tokens(self) -> bool:
        answer = self.completion(max_tokens=6, extra_body={"allowed_token_ids": [28, 29], "return_token_ids": True})
        return set(answer.choices[0].token_ids) <= {28, 29}

    def case_bad_words(self) -> bool:
        return "Paris" not in self.chat(extra_body={"bad_words": ["Paris"]}).choices[0].message.content

    def case_penalty(self) -> bool:
        texts = [
            self.completion(max_tokens=24, extra_body={"ignore_eos": True, **more}).choices[0].text
            for more in ({}, {"repetition_penalty": 1.3})
        ]
        return texts[0] != texts[1]

    def case_json_schema(self) -> bool:
        schema = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 20}}, "required": ["city"],
                  "additionalProperties": False}  # fmt: skip
        form = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": True}}
        return "city" in json.loads(self.chat(response_format=form, max_tokens=60).choices[0].message.content)

    def case_choice(self) -> bool:
        answer = self.chat(extra_body={"structured_outputs": {"choice": ["north", "south"]}})
        return answer.choices[0].message.content in ("north", "south")

    def case_responses(self) -> bool:
        answer = self.client.responses.create(model=MODEL, input="What is the capital of France?", temperature=0,
                                              max_output_tokens=16)  # fmt: skip
        return "Paris" in answer.output_text

    def case_anthropic(self) -> bool:
        client = anthropic.Anthropic(base_url=self.url, api_key="none", max_retries=0)
        answer = client.messages.create(
            model=MODEL, messages=QUESTION, max_tokens=16, extra_body={"temperature": 0}
        )
        return "Paris" in answer.content[0].text

    def case_prefix_cache(self) -> bool:
        text = "The lighthouse keeper counted the ships again, " * 12
        first, second = (self.completion(prompt=text, max_tokens=6).choices[0].text for _ in range(2))
        return first == second

    def case_unknown_model(self) -> bool:
        try:
            self.chat(model="another")
        except openai.NotFoundError:
            return True
        return False

    def case_too_long(self) -> bool:
        return self.refused(prompt=[28] * 5000)

    def case_prompt_logprobs(self) -> bool:
        """As lm-evaluation-harness asks for them."""
        answer = self.completion(prompt=list(range(300, 330)), echo=True, logprobs=1, max_tokens=1)
        values = answer.choices[0].logprobs.token_logprobs
        return len(values) == 31 and values[0] is None and all(value <= 0 for value in values[1:])

    def refused(self, **more: Any) -> bool:
        try:
            self.completion(**more)
        except openai.BadRequestError:
            return True
        return False

    def case_metrics(self) -> bool:
        page = httpx.get(f"{self.url}/metrics").text
        values = {line.rsplit(" ", 1)[0].split("{")[0]: float(line.rsplit(" ", 1)[1])
                  for line in page.splitlines() if line and not line.startswith("#")}  # fmt: skip
        device = values["opentrn:predicted_device_seconds_total"]
        name = "opentrn:predicted_first_token_seconds"
        first = values[f"{name}_sum"] / values[f"{name}_count"]
        return 0 < first < device and values["vllm_neuron:neff_execution_count_total"] > 10


def main() -> None:
    cases = Cases(sys.argv[1])
    for name in sorted(name for name in dir(cases) if name.startswith("case_")):
        case: Callable[[], bool] = getattr(cases, name)
        why = ""
        try:
            passed = case()
        except Exception as error:  # noqa: BLE001 - any is a failure of the case
            passed, why = False, f"{type(error).__name__}: {error}"[:300]
        print(json.dumps({"name": name.removeprefix("case_"), "passed": bool(passed), "why": why}), flush=True)


if __name__ == "__main__":
    main()
