"""A chat with SmolLM2 on a simulated NeuronCore, and the time that the device would take for each answer.

    ./dev demo chat                                   asks at the terminal; an empty line ends it
    python examples/chat.py "Hello!" "And in French?"     these messages, one after the other
    python examples/chat.py --target inf2.xlarge --picture chat.png "What is the capital of France?"

Times are predicted, the launch of each program included; the price is that of the instance that is named as target,
else of the cheapest one, while each of its cores runs a conversation of its own.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from opentrn.generate import LanguageModel


def messages(given: list[str]) -> Iterator[str]:
    """Those of the command line, else what is typed until an empty line."""
    if given:
        for text in given:
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


class Clock:
    """Predicted time and price of what a model's programs have run so far."""

    def __init__(self, model: LanguageModel) -> None:
        self.model = model
        self.cost: dict[object, tuple[float, float]] = {}  # of a run of each program: us, USD
        self.rented = ""

    def now(self) -> tuple[float, float]:
        """us, USD."""
        us = usd = 0.0
        for bucket, program in self.model.programs.items():
            if bucket not in self.cost:
                timing = self.model.time(bucket)
                self.cost[bucket] = timing.time_us + timing.launch_ns / 1e3, self._usd(timing)
            us += program.runs * self.cost[bucket][0]
            usd += program.runs * self.cost[bucket][1]
        return us, usd

    def _usd(self, timing: object) -> float:
        rows = timing.profile()["model"]["serving"]
        rates = [(row["on_demand"] or row["capacity_block"], row["instance"]) for row in rows]
        known = [(rate["usd_per_million"] / 1e6, instance) for rate, instance in rates if rate]
        usd, self.rented = min(
            [row for row in known if row[1] == self.model.target] or known, default=(0.0, "")
        )
        return usd


def draw(file: Path, answers: list[tuple[str, list[float]]], title: str) -> None:
    """Tokens of each answer over the predicted time, in ms since the message."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6.4, 2.8), layout="constrained")
    for text, times in answers:
        axes.plot(times, range(1, len(times) + 1), ".-", markersize=3, label=text)
    axes.set_xlabel(f"ms since the message, {title}")
    axes.set_ylabel("tokens")
    axes.legend(fontsize=8)
    figure.savefig(file, dpi=90)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("messages", nargs="*")
    parser.add_argument("--target", help="default: of NEURON_PLATFORM_TARGET_OVERRIDE, else trn2")
    parser.add_argument("--picture", type=Path, help="draw when each token came (needs matplotlib)")
    o = parser.parse_args()
    model = LanguageModel("smollm2", target=o.target)
    clock = Clock(model)
    conversation: list[dict[str, str]] = []
    drawn: list[tuple[str, list[float]]] = []
    for text in messages(o.messages):
        conversation.append({"role": "user", "content": text})
        prompt = model.encode(model.chat_prompt(conversation))
        begin_us, begin_usd = clock.now()
        times = []
        for piece in model.generate([prompt], max_tokens=120):
            print(piece.text, end="", flush=True)
            times.append((clock.now()[0] - begin_us) / 1000)
        us, usd = (now - begin for now, begin in zip(clock.now(), (begin_us, begin_usd)))
        answer = model.answers[0]
        price = f"${usd * 1e6:.3g} for a million such answers on {clock.rented}" if clock.rented else "no known price"
        print(f"\n  [{len(answer.tokens)} tokens: {us / 1000:.1f} ms predicted on {model.target}, the first after "
              f"{times[0] if times else us / 1000:.1f} ms; {price}]")  # fmt: skip
        drawn.append((text, times))
        conversation.append({"role": "assistant", "content": answer.text})
    if o.picture:
        draw(o.picture, drawn, f"predicted on {model.target}")


if __name__ == "__main__":
    main()
