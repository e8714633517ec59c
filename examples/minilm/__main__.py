"""The demo: MiniLM's encoder on a simulated NeuronCore, checked against PyTorch layer by layer.

    ./dev demo                       all six layers in fp32 and bf16 on trn2
    ./dev demo --dtype bf16 --layers 1 --target trn3

First as NKI kernels: each kernel's input is what the kernel before it returned, so errors add up as they would on
a device; each result is compared with PyTorch computing the whole model so far in fp32. Then as one compiled
model, from token ids to sentence embeddings (whole_model.py). Exit status 1 when a result is outside its
tolerance (check.py). Profile pages of the first layer's kernels and of the compiled model go to out/demo.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np
import torch

from examples.minilm import kernels
from examples.minilm.check import TOLERANCE, WHOLE_MODEL_COSINE, cosine, difference
from examples.minilm.device import Execution, execute
from examples.minilm.reference import Encoder, sentence_embedding
from examples.minilm.sentences import SENTENCES
from examples.minilm.weights import BFLOAT16, key_mask, layer_operands, read_weights, tokenize
from examples.minilm.whole_model import Encoder as WholeEncoder

LAYERS = 6
DTYPES = {"fp32": np.dtype(np.float32), "bf16": BFLOAT16}


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="./dev demo", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--target", default="trn2", choices=["trn2", "trn3"], help="default: trn2")
    parser.add_argument("--dtype", default="both", choices=["fp32", "bf16", "both"], help="default: both")
    counts = range(1, LAYERS + 1)
    parser.add_argument("--layers", type=int, default=LAYERS, choices=counts, help="default: all 6")
    parser.add_argument("--out", type=Path, default=Path("out/demo"), help="folder for the profile pages")
    return parser.parse_args()


class Demo:
    """Model, input and reference; runs the encoder in one dtype at a time."""

    def __init__(self, target: str, layers: int, out: Path) -> None:
        self.target = target
        self.layers = layers
        self.out = out
        self.weights = read_weights()
        self.ids, self.attention_mask = tokenize(SENTENCES)
        self.mask = key_mask(self.attention_mask)
        self.reference = Encoder(self.weights, torch.float32)
        self.embedded = self.reference.embed(self.ids)
        self.failures: list[str] = []
        self.pages: list[Path] = []

    def run(self, name: str) -> np.ndarray:
        """Runs the encoder in one dtype and prints a line per kernel; returns the sentence embeddings."""
        dtype = DTYPES[name]
        shape = tuple(self.embedded.shape)
        hidden = self.embedded.numpy().reshape(-1, shape[-1]).astype(dtype)
        expected = self.embedded
        device_us = 0.0
        first: dict[str, Execution] = {}
        print(f"\n{name}  layer  kernel          max |error|  rel. error  cosine      predicted   host time")
        for layer in range(self.layers):
            operands = layer_operands(self.weights, layer, dtype)
            attention = {"hidden": hidden, "mask": self.mask, **operands.attention}
            attended = execute(kernels.self_attention, attention, self.target)
            expected = self.reference.attention(expected, self.attention_mask, layer)
            self._report(name, layer, "self_attention", attended, expected.numpy())
            transformed = execute(kernels.mlp, {"hidden": attended.values, **operands.mlp}, self.target)
            expected = self.reference.mlp(expected, layer)
            self._report(name, layer, "mlp", transformed, expected.numpy())
            hidden = transformed.values
            device_us += attended.device_us + transformed.device_us
            if layer == 0:
                first = {"self_attention": attended, "mlp": transformed}
        embedding = sentence_embedding(hidden.astype(np.float32).reshape(shape), self.attention_mask)
        wanted = sentence_embedding(expected.numpy(), self.attention_mask)
        self._report_embedding(name, embedding, wanted, TOLERANCE[name].cosine)
        print(f"      predicted device time, all kernels, without launches: {device_us:.0f} us")
        for kernel, execution in first.items():
            print(f"      {kernel} is bound by: {execution.bound_by}")
            self.pages.append(execution.save_profile(self.out, f"{kernel}_{name}"))
        return embedding

    def run_whole(self, name: str) -> None:
        """Compiles the encoder, embedding and pooling included, as one program and runs it."""
        import opentrn
        from opentrn.report import html

        encoder = WholeEncoder(self.weights, self.ids, self.layers, bf16=name == "bf16")
        begin = time.perf_counter()
        model = opentrn.compile(encoder.text, target=self.target, strict=True)
        compiled = time.perf_counter()
        embedding = model(self.ids, self.attention_mask.astype(np.float32), *encoder.operands)[0]
        done = time.perf_counter()
        timing = model.time()
        hidden = self.embedded
        for layer in range(self.layers):
            hidden = self.reference.mlp(self.reference.attention(hidden, self.attention_mask, layer), layer)
        wanted = sentence_embedding(hidden.numpy(), self.attention_mask)
        print(
            f"\n{name}  whole encoder as one compiled model: {model.instruction_count:,} instructions, compiled in "
            f"{compiled - begin:.2f} s, run in {done - compiled:.2f} s\n"
            f"      predicted device time: {timing.time_us:.0f} us, bound by {timing.bound_by}"
        )
        self._report_embedding(f"{name} whole model", embedding, wanted, WHOLE_MODEL_COSINE[name])
        self.out.mkdir(parents=True, exist_ok=True)
        timing.save_perfetto(str(self.out / f"encoder_{name}.perfetto.json"))
        self.pages.append(html.save(timing, self.out / f"encoder_{name}.html"))

    def _report(self, name: str, layer: int, kernel: str, done: Execution, expected: np.ndarray) -> None:
        found = difference(done.values.astype(np.float32).reshape(expected.shape), expected)
        verdict = "ok"
        if not found.within(TOLERANCE[name]):
            verdict = f"FAILED, outside {TOLERANCE[name]}"
            self.failures.append(f"{name} layer {layer} {kernel}")
        print(
            f"      {layer:5}  {kernel:14}  {found.max_absolute:11.2e}  {found.relative:10.2e}  "
            f"{found.cosine:.8f}  {done.device_us:6.1f} us   {done.host_s * 1e3:6.0f} ms  {verdict}"
        )

    def _report_embedding(self, name: str, embedding: np.ndarray, wanted: np.ndarray, bound: float) -> None:
        smallest = float(cosine(embedding, wanted).min())
        print(f"      sentence embeddings against PyTorch: cosine {smallest:.8f} at least")
        if not smallest >= bound:
            self.failures.append(f"{name} sentence embeddings")


def print_similarity(embedding: np.ndarray) -> None:
    """Which sentences mean the same: cosine of every pair."""
    print("\nhow alike the sentences are (cosine of their embeddings):")
    for sentence, row in zip(SENTENCES, embedding @ embedding.T, strict=True):
        print("  " + "  ".join(f"{value:5.2f}" for value in row) + f"   {sentence[:60]}...")


def main() -> int:
    arguments = parse_arguments()
    start = time.perf_counter()
    demo = Demo(arguments.target, arguments.layers, arguments.out)
    tokens = int(demo.attention_mask.sum())
    print(f"MiniLM encoder, {arguments.layers} of {LAYERS} layers (12 heads, 384 features), as NKI kernels")
    print(f"on one simulated NeuronCore of {arguments.target}")
    print(f"{len(SENTENCES)} sentences, {tokens} tokens, each padded to 128")
    names = list(DTYPES) if arguments.dtype == "both" else [arguments.dtype]
    embeddings = [demo.run(name) for name in names]
    for name in names:
        demo.run_whole(name)
    print_similarity(embeddings[-1])
    print("\nprofiles (open in a browser; the .perfetto.json beside each in ui.perfetto.dev):")
    for page in demo.pages:
        print(f"  {page}")
    print(f"\ndone in {time.perf_counter() - start:.1f} s")
    if demo.failures:
        print("outside tolerance: " + "; ".join(demo.failures), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
