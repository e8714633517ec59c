"""A chat with SmolLM2 on a simulated NeuronCore, and the time that the device would take for each answer.

    ./dev demo chat                                   asks at the terminal; an empty line ends it
    python examples/chat.py "Hello!" "And in French?"     these messages, one after the other
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from opentrn.generate import LanguageModel


def messages() -> Iterator[str]:
    """Those of the command line, else what is typed until an empty line."""
    if len(sys.argv) > 1:
        for text in sys.argv[1:]:
            print(f"> {text}")
            yield text
        return
    while True:
        try:
            text = input("> ").strip()
        except EOFError:
            return
        if not text:
            return
        yield text


def main() -> None:
    model = LanguageModel("smollm2")
    conversation: list[dict[str, str]] = []
    for text in messages():
        conversation.append({"role": "user", "content": text})
        prompt = model.encode(model.chat_prompt(conversation))
        predicted_us = 0.0
        before = {bucket: program.runs for bucket, program in model.programs.items()}
        for piece in model.generate([prompt], max_tokens=120):
            print(piece.text, end="", flush=True)
        for bucket, program in model.programs.items():
            predicted_us += (program.runs - before.get(bucket, 0)) * program.predicted_us
        answer = model.answers[0]
        print(f"\n  [{len(answer.tokens)} tokens: {predicted_us / 1000:.1f} ms predicted on {model.target}, "
              f"the first after {answer.predicted_first_us / 1000:.1f} ms]")  # fmt: skip
        conversation.append({"role": "assistant", "content": answer.text})


if __name__ == "__main__":
    main()
