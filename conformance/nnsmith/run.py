#!/usr/bin/env python3
"""Random models of NNSmith on PyTorch's device, under torch.compile and as ONNX files.

    ./dev conformance nnsmith [--models N] [--nodes N] [--seed S] [--only ROUTE] [--json FILE]

NNSmith (ISSTA 2023), a fuzzer of deep-learning compilers, draws models that are valid by its own specification of each
op. The values of a model on `neuron` in eager mode and of torch.compile(backend="neuron") are compared with those of
eager PyTorch on the CPU; the model's ONNX file, which PyTorch writes, with ONNX Runtime. Ends with `N passed, N failed,
N skipped`, counted by model and route; skipped is what PyTorch cannot write or ONNX Runtime cannot load.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import io
import json
import logging
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT))
REQUIREMENTS = ("nnsmith==0.1.0", "onnxscript", "onnxruntime==1.32.0")
# The device has no float64; complex and 16-bit floats are left to the suites of single ops.
DTYPES = ("f32", "i8", "i32", "i64", "u8", "bool")
WITHOUT = ("core.CastF64",)
ROUTES = ("eager", "compile", "onnx")


class Skipped(Exception):
    """A route that PyTorch's exporter or ONNX Runtime does not take."""


class Models:
    """Draws models; one for each seed."""

    def __init__(self, nodes: int) -> None:
        from nnsmith.abstract.extension import activate_ext
        from nnsmith.materialize import Model
        from nnsmith.narrow_spec import auto_opset

        self._type = Model.init("torch", backend_target="cpu")
        self._type.add_seed_setter()
        with quiet():
            ops = auto_opset(self._type, None)
        self._ops = [op for op in ops if op.name() not in WITHOUT]
        activate_ext(opset=self._ops, factory=None)
        self._nodes = nodes

    def draw(self, seed: int) -> tuple[Any, list[Any], list[Any]]:
        """A module, its arguments (tensors) and its results on the CPU (arrays)."""
        import torch

        from nnsmith.graph_gen import model_gen

        drawn = model_gen(
            opset=self._ops, method="symbolic-cinit", seed=seed, max_elem_per_tensor=4096, max_nodes=self._nodes,
            timeout_ms=10_000, dtype_choices=list(DTYPES),
        )  # fmt: skip
        model = self._type.from_gir(drawn.make_concrete())
        model.refine_weights()
        oracle = model.make_oracle()
        module = model.torch_model.eval()
        # What NNSmith looks at while it searches for arguments ends a graph.
        module.check_intermediate_numeric, module.use_gradient, module.loss = False, False, None
        module.debug_numeric = lambda *_: None
        arguments = [torch.from_numpy(value.copy()) for value in oracle.input.values()]
        return module, arguments, list(oracle.output.values())


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield


def positional(module: Any, count: int) -> Any:
    """The module with so many arguments that have names, as an exporter wants them."""
    import torch

    names = ", ".join(f"x{i}" for i in range(count))
    space: dict[str, Any] = {"module": module}
    exec(f"def forward(self, {names}):\n    return self.module({names})", space)  # noqa: S102
    named = type("Named", (torch.nn.Module,), {"forward": space["forward"]})()
    named.module = module
    return named.eval()


def eager(module: Any, arguments: Sequence[Any], wanted: Any) -> tuple[list[Any], Any]:
    moved = copy.deepcopy(module).to("neuron")
    return [each.cpu().numpy() for each in moved(*(each.to("neuron") for each in arguments))], wanted


def compiled(module: Any, arguments: Sequence[Any], wanted: Any) -> tuple[list[Any], Any]:
    import torch

    torch._dynamo.reset()
    return [each.numpy() for each in torch.compile(module, backend="neuron")(*arguments)], wanted


def onnx(module: Any, arguments: Sequence[Any], _wanted: Any) -> tuple[list[Any], list[Any]]:
    """What OpenTrn and what ONNX Runtime computes."""
    import onnxruntime
    import torch

    import opentrn

    with tempfile.TemporaryDirectory() as place:
        path = str(Path(place) / "model.onnx")
        try:
            with quiet():
                torch.onnx.export(
                    positional(module, len(arguments)), tuple(arguments), path, dynamo=True, verbose=False
                )
            silent = onnxruntime.SessionOptions()
            silent.log_severity_level = 4
            session = onnxruntime.InferenceSession(path, silent)
        except Exception as fault:
            raise Skipped(type(fault).__name__) from fault
        # "x2", or "x2_orig" where the exporter gives a copy of it to the graph.
        places = {each.name: int(each.name[1:].partition("_")[0]) for each in session.get_inputs()}
        given = {name: arguments[place].numpy() for name, place in places.items()}
        wanted = session.run(None, given)
        found = opentrn.compile(path)(*given.values())
    return list(found) if isinstance(found, (list, tuple)) else [found], wanted


RUNS: dict[str, Callable[..., tuple[list[Any], list[Any]]]] = {"eager": eager, "compile": compiled, "onnx": onnx}


def outcome(route: str, drawn: tuple[Any, list[Any], list[Any]]) -> tuple[str, str]:
    """passed, failed or skipped, and why."""
    import torch

    from conformance.common import Tolerance, differences

    try:
        with torch.no_grad():
            found, wanted = RUNS[route](*drawn)
    except Skipped as fault:
        return "skipped", str(fault)
    except Exception as fault:  # whatever it is: the reference computes this model
        return "failed", f"{type(fault).__name__}: {str(fault)[:400]}"
    problem = differences(wanted, found, Tolerance(each=1e-3, least=1e-3))
    return ("failed", problem) if problem else ("passed", "")


def run_models(options: argparse.Namespace) -> int:
    """In the environment that has NNSmith: the models, a line for each failure, and the counts."""
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    os.environ.setdefault("OPENTRN_NARROWING", "off")
    import opentrn.torch  # noqa: F401  (the device and the backend)

    models, rows = Models(options.nodes), []
    for seed in range(options.seed, options.seed + options.models):
        drawn = models.draw(seed)
        for route in options.only or ROUTES:
            state, why = outcome(route, drawn)
            rows.append({"seed": seed, "route": route, "outcome": state, "why": why})
            if state == "failed":
                print(f"FAILED seed {seed}, {route}: {why}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    for route in options.only or ROUTES:
        print(f"{route}: {counts([row for row in rows if row['route'] == route])}")
    print(counts(rows))
    return 1 if any(row["outcome"] == "failed" for row in rows) else 0


def counts(rows: Sequence[dict[str, Any]]) -> str:
    of = {state: sum(row["outcome"] == state for row in rows) for state in ("passed", "failed", "skipped")}
    return ", ".join(f"{number} {state}" for state, number in of.items())


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", type=int, default=50, help="how many (default: 50)")
    parser.add_argument("--nodes", type=int, default=20, help="ops of a model, at most (default: 20)")
    parser.add_argument("--seed", type=int, default=0, help="of the first model (default: 0)")
    parser.add_argument("--only", choices=ROUTES, action="append", metavar="ROUTE", help="eager, compile or onnx")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        return run_models(options)
    from conformance import environments

    python = environments.environment(ROOT / ".deps" / "conformance" / "nnsmith", REQUIREMENTS)
    return subprocess.run([python, __file__, *sys.argv[1:], "--here"], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
