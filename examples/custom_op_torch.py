"""A custom C++ operator in training: a network reads written digits with an activation that no engine has.

    python examples/custom_op_torch.py               # on the simulated core, then on this CPU: the same digits
    python examples/custom_op_torch.py --steps 5     # a shorter look
    python examples/custom_op_torch.py --picture digits.png

The activation is squareplus, (x + sqrt(x^2 + 4)) / 2 ("Squareplus: A Softplus-Like Algebraic Rectifier", Barron, 2021).
It and its derivative are C++ below, which a C++ compiler ($CXX, else c++) makes a library of; NKI kernels call them on
the GpSimd Engine, an autograd function calls the kernels, and torch.compile puts the kernels into the programs of the
network. How long the operators take is not public: their author states it, here CYCLES for an element.

The digits are scikit-learn's. The CPU runs the same network with torch's own operators, by torch.compile with the
backend aot_eager. Ends with an error where losses are further apart than rounding.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import nn

import opentrn
import opentrn.nki as nki
import opentrn.nki.isa as nisa
import opentrn.nki.language as nl
import opentrn.torch  # noqa: F401  (the backend)
from opentrn import custom_op

ROWS = 128  # partitions of a tile: the batch
CYCLES = 12  # of GpSimd for an element of a partition: an assumption of this file
LIMIT = 1e-4  # of a loss: sums in another order, through the steps

SOURCE = r"""
#include <cmath>
#include <cstring>

#include "custom_op_abi.h"

namespace {

int64_t elements(const opentrn_tensor& tensor) {
  int64_t count = 1;
  for (int32_t axis = 0; axis < tensor.rank; ++axis) count *= tensor.shape[axis];
  return count;
}

// The tensors, all float32 and of one size; nonzero, with a reason, for others.
int check(const opentrn_tensor* out, int32_t outs, const opentrn_tensor* in, int32_t ins, int32_t wanted,
          char* message, size_t size) {
  bool good = outs == 1 && ins == wanted && std::strcmp(out[0].dtype, "float32") == 0;
  for (int32_t i = 0; good && i < ins; ++i)
    good = std::strcmp(in[i].dtype, "float32") == 0 && elements(in[i]) == elements(out[0]);
  if (!good) std::strncpy(message, "squareplus takes float32 tensors of one size", size);
  return good ? 0 : 1;
}

int squareplus(const opentrn_tensor* out, int32_t outs, const opentrn_tensor* in, int32_t ins, char* message,
               size_t size) {
  if (check(out, outs, in, ins, 1, message, size) != 0) return 1;
  const float* x = static_cast<const float*>(in[0].data);
  float* y = static_cast<float*>(out[0].data);
  for (int64_t i = 0, n = elements(out[0]); i < n; ++i) y[i] = 0.5f * (x[i] + std::sqrt(x[i] * x[i] + 4.0f));
  return 0;
}

// The gradient at x of what has the gradient g.
int squareplus_backward(const opentrn_tensor* out, int32_t outs, const opentrn_tensor* in, int32_t ins,
                        char* message, size_t size) {
  if (check(out, outs, in, ins, 2, message, size) != 0) return 1;
  const float* x = static_cast<const float*>(in[0].data);
  const float* g = static_cast<const float*>(in[1].data);
  float* y = static_cast<float*>(out[0].data);
  for (int64_t i = 0, n = elements(out[0]); i < n; ++i)
    y[i] = g[i] * (0.5f * (1.0f + x[i] / std::sqrt(x[i] * x[i] + 4.0f)));
  return 0;
}

const opentrn_custom_op_entry entries[] = {{"squareplus", squareplus},
                                           {"squareplus_backward", squareplus_backward}};

}  // namespace

extern "C" {
int32_t opentrn_custom_op_abi_version(void) { return OPENTRN_CUSTOM_OP_ABI_VERSION; }
const opentrn_custom_op_entry* opentrn_custom_ops(size_t* count) { return *count = 2, entries; }
}
"""


def load(folder: Path) -> None:
    """Compiles the operators into a library in `folder` and registers them."""
    source, library = folder / "squareplus.cc", folder / "squareplus.so"
    source.write_text(SOURCE)
    words = [os.environ.get("CXX", "c++"), "-O2", "-shared", "-fPIC", f"-I{custom_op.ABI_HEADER.parent}"]
    try:
        subprocess.run([*words, "-o", library, source], check=True)
    except FileNotFoundError:
        raise SystemExit(f"{words[0]} is not there: name a C++ compiler by $CXX") from None
    for name in custom_op.load_library(str(library)):
        custom_op.set_time(name, cycles_per_element=CYCLES)


@nki.jit
def squareplus(x):
    """(128, n) float32."""
    given, found = nl.ndarray(x.shape, x.dtype), nl.ndarray(x.shape, x.dtype)
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(given, x)
    custom_op.call("squareplus", outputs=[found], inputs=[given])
    nisa.dma_copy(out, found)
    return out


@nki.jit
def squareplus_backward(x, gradient):
    at, given, found = (nl.ndarray(x.shape, x.dtype) for _ in range(3))
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(at, x)
    nisa.dma_copy(given, gradient)
    custom_op.call("squareplus_backward", outputs=[found], inputs=[at, given])
    nisa.dma_copy(out, found)
    return out


class OnDevice(torch.autograd.Function):
    """The kernels as an op of torch's with a derivative."""

    @staticmethod
    def forward(ctx, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return squareplus(x)

    @staticmethod
    def backward(ctx, gradient: torch.Tensor) -> torch.Tensor:
        return squareplus_backward(ctx.saved_tensors[0], gradient.contiguous())


def on_cpu(x: torch.Tensor) -> torch.Tensor:
    return 0.5 * (x + torch.sqrt(x * x + 4))


def digits() -> tuple[torch.Tensor, ...]:
    """Images (n, 64) from -1 to 1 and digits: to learn from, and a fifth for the test, a multiple of ROWS each."""
    from sklearn.datasets import load_digits

    images, kinds = (torch.from_numpy(each) for each in load_digits(return_X_y=True))
    images = images.to(torch.float32) / 8 - 1
    test = torch.arange(len(kinds)) % 5 == 4
    parts = []
    for chosen in (~test, test):
        whole = int(chosen.sum()) // ROWS * ROWS
        parts += [images[chosen][:whole], kinds[chosen][:whole]]
    return tuple(parts)


def learn(
    backend: str, activation: Callable[[torch.Tensor], torch.Tensor], data: tuple, o: argparse.Namespace
) -> tuple[torch.Tensor, list[float]]:
    """What the test images are taken for, and the loss of every step; the same start for every backend."""
    images, kinds, test, _ = data
    torch.manual_seed(0)
    layers = nn.ModuleList([nn.Linear(64, o.width), nn.Linear(o.width, o.width), nn.Linear(o.width, 10)])
    optimizer = torch.optim.SGD(layers.parameters(), lr=o.rate, momentum=0.9)

    def logits_of(x: torch.Tensor) -> torch.Tensor:
        return layers[2](activation(layers[1](activation(layers[0](x)))))

    def loss_of(x: torch.Tensor, kinds: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(logits_of(x), kinds)

    loss, predict, step = (torch.compile(each, backend=backend) for each in (loss_of, logits_of, optimizer.step))
    losses = []
    for _ in range(o.steps):
        part = torch.randint(len(images), (ROWS,))
        value = loss(images[part], kinds[part])
        optimizer.zero_grad()
        value.backward()
        step()
        losses.append(value.item())
    with torch.no_grad():
        return torch.cat([predict(part) for part in test.split(ROWS)]).argmax(1), losses


def draw(file: Path, losses: dict[str, list[float]], data: tuple, found: torch.Tensor) -> None:
    """Losses of both, and test digits with what the device took them for."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure = pyplot.figure(figsize=(9, 2.8), layout="constrained")
    left, right = figure.subfigures(1, 2)
    axes = left.subplots()
    for (name, values), style in zip(losses.items(), ("-", "--")):
        axes.plot(values, style, label=name)
    axes.set_xlabel("step")
    axes.set_ylabel("loss")
    axes.legend()
    for place, image, digit, wanted in zip(right.subplots(3, 8).flat, data[2], found, data[3]):
        place.imshow(image.view(8, 8), cmap="gray_r")
        place.set_title(int(digit), fontsize=8, color="black" if digit == wanted else "red")
        place.axis("off")
    figure.savefig(file, dpi=90)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--width", type=int, default=64, help="of a hidden layer (default %(default)s)")
    parser.add_argument("--rate", type=float, default=0.03)
    parser.add_argument("--picture", type=Path, help="draw losses and digits (needs matplotlib)")
    o = parser.parse_args()
    data = digits()
    with tempfile.TemporaryDirectory() as folder:
        load(Path(folder))
    with opentrn.profile_program() as profile:
        device, device_losses = learn("neuron", OnDevice.apply, data, o)
    cpu, cpu_losses = learn("aot_eager", on_cpu, data, o)
    print(profile)
    for name, found, losses in (("device", device, device_losses), ("CPU", cpu, cpu_losses)):
        right = (found == data[3]).double().mean().item()
        print(f"{name:>6}: accuracy {right:.1%} of {len(found)}, last loss {losses[-1]:.6f}")
    apart = max(abs(a - b) / b for a, b in zip(device_losses, cpu_losses, strict=True))
    print(f"losses at most {apart:.1e} apart; the same digit for {int((device == cpu).sum())} of {len(cpu)}")
    if o.picture:
        draw(o.picture, {"device": device_losses, "CPU": cpu_losses}, data, device)
    if not np.isfinite(apart) or apart > LIMIT:
        raise SystemExit(f"further from the CPU than rounding explains: {apart:.1e}, limit {LIMIT:.0e}")


if __name__ == "__main__":
    main()
