"""What recording costs per instruction: the kernel's Python, its dialect, and the machine that takes the program.

Nothing executes. CPU seconds of the whole launch, so busy neighbours show less than in wall time; of several
launches the first, which loads and remembers things, and the fastest.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cases import CASES, _file

BENCH = "NKIBench"
ACCELOPT = "zhang677+AccelOpt"
AUTOCOMP = "ucb-bar+autocomp"
CONV1D_HEADER = "import numpy as np\nimport neuronxcc.nki as nki\nimport neuronxcc.nki.language as nl\n"
CONV1D_HEADER += "import neuronxcc.nki.isa as nisa\nimport neuronxcc.nki.typing as nt\n"


@dataclass(frozen=True)
class Recording:
    """One kernel: CPU seconds of the first and of the fastest launch, and its instructions."""

    case: str
    dialect: str
    instructions: int
    first_s: float
    fastest_s: float

    @property
    def us_per_instruction(self) -> float:
        return 1e6 * self.fastest_s / self.instructions


def _published(name: str, scale: int = 1) -> Callable[[Path], Callable[[], Any]]:
    def prepare(checkouts: Path) -> Callable[[], Any]:
        launch, arguments = CASES[name].prepare(checkouts, scale)
        return lambda: launch(*arguments)

    return prepare


def _accelopt(name: str) -> Callable[[Path], Callable[[], Any]]:
    def prepare(checkouts: Path) -> Callable[[], Any]:
        def module(folder: str) -> Any:
            (path,) = (checkouts / ACCELOPT / BENCH / folder).glob(f"{name}_[A-Z]*.py")
            return _file(checkouts, ACCELOPT, str(path.relative_to(checkouts / ACCELOPT)))

        reference = module("reference")
        arrays = reference.transform_to_nki_inputs(reference.get_inputs())
        kernel = module("kernels").kernel
        return lambda: kernel(*arrays)

    return prepare


def _conv1d(checkouts: Path) -> Callable[[], Any]:
    """Autocomp's best depthwise convolution: 8 x 512 channels, width 2048, 3 taps, padded by 1."""
    text = (checkouts / AUTOCOMP / "examples/trn-advanced/4_conv1d_opt.py").read_text()
    names: dict[str, Any] = {"__name__": "conv1d"}
    exec(compile(CONV1D_HEADER + text, "conv1d", "exec"), names)
    image, taps = np.zeros((8, 512, 1, 2048), np.float32), np.zeros((512, 1, 1, 3), np.float32)
    return lambda: names["test"](image, taps, padding=((0, 0), (1, 1)))


# name -> (dialect, what prepares a launch)
KERNELS: dict[str, tuple[str, Callable[[Path], Callable[[], Any]]]] = {
    "samples-flash-fwd": ("0.1", _published("samples-flash-fwd")),
    "samples-attention-v8": ("0.1", _published("samples-attention-v8")),
    "accelopt-mamba": ("0.1", _accelopt("mamba")),
    "accelopt-bmm": ("0.1", _accelopt("bmm")),
    "accelopt-bmm-softmax": ("0.1", _accelopt("bmm_softmax")),
    "accelopt-matmul": ("0.1", _accelopt("matmul")),
    "autocomp-conv1d": ("0.1", _conv1d),
    "docs-matmul": ("0.6", _published("docs-matmul", 4)),
    "docs-mamba-v1": ("0.6", _published("docs-mamba-v1")),
    "docs-mamba-v3": ("0.6", _published("docs-mamba-v3")),
}


def run(checkouts: Path, launches: int) -> Iterator[Recording]:
    """Each kernel in turn, in this process."""
    import opentrn

    opentrn.activate()
    core = importlib.import_module("opentrn.kernel.machine")
    for name, (dialect, prepare) in KERNELS.items():
        launch = prepare(checkouts)
        seconds = []
        for _ in range(launches + 1):
            start = time.process_time()
            with core.observed_launches("never") as observed:
                launch()
            seconds.append(time.process_time() - start)
            instructions = sum(m.instruction_count for machines in observed for m in machines)
        yield Recording(name, dialect, instructions, seconds[0], min(seconds))


def format_row(row: Recording) -> str:
    return (
        f"{row.case:21} {row.dialect:>7} {row.instructions:8,} {1e3 * row.first_s:8.1f} ms"
        f" {1e3 * row.fastest_s:8.1f} ms {row.us_per_instruction:7.2f} us"
    )


HEADER = f"{'case':21} {'dialect':>7} {'instr.':>8} {'first':>11} {'fastest':>11} {'per instr.':>10}"
