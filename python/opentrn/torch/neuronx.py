"""What programs take from `torch_neuronx`, over torch.export, torch.library and the device `neuron`.

opentrn/compat/standins/torch_neuronx gives these their names. Sources: AWS's guide to NKI kernels in PyTorch and the
references of trace, DataParallel, dynamic batching and lazy loading in the Neuron SDK's documentation.
"""

from __future__ import annotations

import json
import os
import shlex
import threading
import warnings
import zipfile
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch import Tensor
from torch.export.passes import move_to_device_pass
from torch.utils import _pytree as pytree

from opentrn import _core
from opentrn.errors import InputError, InputTypeError
from opentrn.settings.compiler_options import option_values
from opentrn.torch import kernels

__all__ = ["DataParallel", "async_load", "dynamic_batch", "lazy_load", "load", "nki_op", "save", "trace", "wrap_nki"]


# ---- NKI kernels ---------------------------------------------------------------------------------------------------


class _Wrapped:
    """A kernel that takes and gives torch's tensors, of the device or of the host."""

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel

    def __getitem__(self, grid: Any) -> _Wrapped:
        if isinstance(grid, tuple) and len(grid) == 1:
            grid = grid[0]
        return _Wrapped(self.kernel[grid])

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return kernels.call_with_tensors(self.kernel, args, kwargs)


def wrap_nki(kernel: Any) -> Any:
    """`kernel`, of @nki.jit, for tensors: wrap_nki(kernel)[grid](x, y). Raises InputTypeError for anything else."""
    if not hasattr(kernel, "parts"):
        raise InputTypeError(
            f"wrap_nki takes a kernel of @nki.jit, not a {type(kernel).__name__}", label="torch.neuronx"
        )
    return _Wrapped(kernel)


def nki_op(name: str, fn: Callable[..., Any] | None = None, /, *, mutates_args: str | Iterable[str] = ()) -> Any:
    """Makes the decorated function, which calls kernels, an operator "namespace::name" of torch's.

    Its arguments have type hints. Shapes are found by tracing it, torch.compile looks into it, and
    `register_autograd` of what comes back gives it a derivative. Raises InputError for a name without one `::`.
    """
    if not isinstance(name, str) or name.count("::") != 1:
        raise InputError(f"nki_op takes a name like 'mylib::my_op', not {name!r}", label="torch.neuronx")
    names = {mutates_args} if isinstance(mutates_args, str) else set(mutates_args)
    make = torch.library.triton_op(name, mutates_args=names)
    return make if fn is None else make(fn)


# ---- models ahead of time --------------------------------------------------------------------------------------------


def _options(compiler_args: str | Sequence[str] | None) -> dict[str, Any]:
    """neuronx-cc's options as those of torch.compile."""
    if not compiler_args:
        return {}
    words = compiler_args if isinstance(compiler_args, str) else shlex.join(compiler_args)
    options, target, without_effect = _core.compiler_flags(words)
    for flag in without_effect:
        warnings.warn(f"opentrn: the compiler option {flag} has no effect here", stacklevel=4)
    return ({"target": target} if target else {}) | option_values(options)


class TracedModel(torch.nn.Module):
    """A model for inputs of fixed sizes, on a core. Made by trace() and load()."""

    def __init__(self, program: torch.export.ExportedProgram, options: dict[str, Any], how: dict[str, Any]) -> None:
        super().__init__()
        self.program = program
        self.options = options
        self.how = {"lazy": False, "async": False, "dynamic_batch": False, **how}
        self._runs: dict[int, Any] = {}
        self._lock = threading.Lock()
        self._loading: threading.Thread | None = None
        examples: tuple[Any, dict[str, Any]] = program.example_inputs or ((), {})
        self._examples, keywords = examples
        if keywords:
            raise InputError("a traced model takes no keyword arguments", label="torch.neuronx")

    def _on(self, device: int) -> Any:
        with self._lock:
            if device not in self._runs:
                place = f"neuron:{device}"
                moved = move_to_device_pass(self.program, place).module()
                self._runs[device] = torch.compile(moved, backend="neuron", dynamic=False, options=self.options)
            return self._runs[device]

    def _load(self, device: int) -> None:
        """Compiles it: runs it once, on the inputs that it was traced with."""
        with torch.no_grad():
            self._on(device)(*pytree.tree_map_only(Tensor, lambda x: x.to(f"neuron:{device}"), self._examples))

    def load_now(self) -> None:
        """As lazy_load() and async_load() say."""
        device = torch.neuron.current_device()
        if self.how["lazy"]:
            return
        if self.how["async"]:
            self._loading = threading.Thread(target=self._load, args=(device,))
            self._loading.start()
        else:
            self._load(device)

    def run_on(self, device: int, inputs: tuple[Any, ...]) -> Any:
        """Inputs of the traced sizes, from any device; results come back to where the first one was."""
        if self._loading is not None:
            self._loading.join()
        self._check(inputs)
        home = next((leaf.device for leaf in pytree.tree_leaves(inputs) if isinstance(leaf, Tensor)), None)
        place = torch.device("neuron", device)
        with torch.no_grad(), torch.neuron.device(device):
            results = self._on(device)(*pytree.tree_map_only(Tensor, lambda x: x.to(place), inputs))
        return results if home is None else pytree.tree_map_only(Tensor, lambda x: x.to(home), results)

    def _check(self, inputs: tuple[Any, ...]) -> None:
        given, traced = pytree.tree_leaves(inputs), pytree.tree_leaves(self._examples)
        if len(given) != len(traced):
            raise InputError(
                f"the model was traced with {len(traced)} inputs and got {len(given)}", label="torch.neuronx"
            )
        for i, (a, b) in enumerate(zip(given, traced)):
            if isinstance(b, Tensor) and (a.shape != b.shape or a.dtype != b.dtype):
                raise InputError(
                    f"input {i} is {a.dtype} {list(a.shape)}; the model was traced with {b.dtype} {list(b.shape)}",
                    label="torch.neuronx",
                    hint="torch_neuronx.dynamic_batch(model) for other sizes of dimension 0, or trace it again",
                )

    @property
    def batch(self) -> int:
        """The size of dimension 0 that it was traced with; an error where inputs differ in it."""
        leaves = [leaf for leaf in pytree.tree_leaves(self._examples) if isinstance(leaf, Tensor)]
        sizes = {leaf.shape[0] for leaf in leaves if leaf.dim()}
        if len(sizes) != 1:
            raise InputError(
                f"the inputs have the sizes {sorted(sizes)} of dimension 0: there is no one batch",
                label="torch.neuronx",
            )
        return sizes.pop()

    def run_batches(self, device: int, inputs: tuple[Any, ...]) -> Any:
        """Any size of dimension 0: in parts of the traced size, the last filled up with zeros."""
        rows = next(leaf.shape[0] for leaf in pytree.tree_leaves(inputs) if isinstance(leaf, Tensor))
        results = []
        for begin in range(0, rows, self.batch):
            count = min(self.batch, rows - begin)

            def part(x: Tensor, begin: int = begin, count: int = count) -> Tensor:
                own = x[begin : begin + count]
                if count == self.batch:
                    return own
                return torch.cat([own, own.new_zeros(self.batch - count, *own.shape[1:])])

            made = self.run_on(device, pytree.tree_map_only(Tensor, part, inputs))
            results.append(pytree.tree_map_only(Tensor, lambda x, count=count: x[:count], made))
        return results[0] if len(results) == 1 else _joined(results, 0)

    def forward(self, *inputs: Any) -> Any:
        device = torch.neuron.current_device()
        return self.run_batches(device, inputs) if self.how["dynamic_batch"] else self.run_on(device, inputs)

    def save(self, path: str | os.PathLike[str], _extra_files: Any = None) -> None:
        """A .pt2 file of torch.export; torch.jit.save(model, path) calls this."""
        extra = {"opentrn.json": json.dumps({"options": self.options, "how": self.how})}
        # A stream: PyTorch warns of names that do not end in .pt2, and programs write model.pt.
        with open(path, "wb") as file:
            torch.export.save(self.program, file, extra_files={**(_extra_files or {}), **extra})


def _joined(results: list[Any], dim: int) -> Any:
    leaves, spec = zip(*(pytree.tree_flatten(each) for each in results))
    return pytree.tree_unflatten([torch.cat(parts, dim) for parts in zip(*leaves)], spec[0])


class _Function(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Any) -> Any:
        return self.function(*inputs)


def trace(
    func: Callable[..., Any], example_inputs: Any, *, compiler_args: str | Sequence[str] | None = None,
    compiler_workdir: str | None = None, inline_weights_to_neff: bool = True,
) -> TracedModel:  # fmt: skip
    """The model for inputs of the sizes of `example_inputs`, compiled for a core.

    compiler_args: neuronx-cc's. compiler_workdir and inline_weights_to_neff have no effect, and warn: nothing is
    written, and weights lie in the core's memory once.
    """
    if not inline_weights_to_neff:
        warnings.warn(
            "opentrn: inline_weights_to_neff has no effect: weights lie in the core's memory once", stacklevel=2
        )
    if compiler_workdir is not None:
        warnings.warn("opentrn: compiler_workdir has no effect: nothing is written", stacklevel=2)
    inputs = example_inputs if isinstance(example_inputs, tuple) else (example_inputs,)
    module = func.eval() if isinstance(func, torch.nn.Module) else _Function(func)
    with torch.no_grad():
        program = torch.export.export(module, inputs)
    made = TracedModel(program, _options(compiler_args), {})
    made.load_now()
    return made


def save(model: TracedModel, path: str | os.PathLike[str]) -> None:
    """Writes what load() reads."""
    model.save(path)


def load(path: str | os.PathLike[str], _extra_files: dict[str, Any] | None = None) -> TracedModel:
    """A model that was saved. Runs code that is in the file: only of files that you trust.

    _extra_files: as of torch.jit.load, names of files that were saved with it, which get their text.
    Raises FileNotFoundError, and InputError for a file that is none of save().
    """
    extra = {**(_extra_files or {}), "opentrn.json": ""}
    try:
        with open(path, "rb") as file:
            program = torch.export.load(file, extra_files=extra)
        stated = json.loads(extra.pop("opentrn.json"))
    except FileNotFoundError:
        raise
    except Exception as fault:
        raise InputError(
            f"{path} is not a traced model: {str(fault).partition(chr(10))[0]}",
            label="torch.neuronx", hint="a file of torch_neuronx.save() or torch.jit.save() of a traced model",
        ) from fault  # fmt: skip
    if _extra_files is not None:
        _extra_files.update(extra)
    made = TracedModel(program, stated["options"], stated["how"])
    made.load_now()
    return made


def _is_saved(file: Any) -> bool:
    """Whether a file is of save()."""
    if not isinstance(file, (str, os.PathLike)) or not zipfile.is_zipfile(file):
        return False
    with zipfile.ZipFile(file) as archive:
        return any(name.endswith("/extra/opentrn.json") for name in archive.namelist())


_load_of_jit = torch.jit.load


def _load_either(f: Any, map_location: Any = None, _extra_files: Any = None, **keywords: Any) -> Any:
    """torch.jit.load, which programs for AWS's packages call, of traced models too. These lie on the current core."""
    if _is_saved(f):
        return load(f, _extra_files)
    return _load_of_jit(f, map_location, _extra_files, **keywords)


torch.jit.load = _load_either


def _traced(model: Any, what: str) -> TracedModel:
    if not isinstance(model, TracedModel):
        raise InputTypeError(
            f"{what} takes what torch_neuronx.trace() gives, not a {type(model).__name__}", label="torch.neuronx"
        )
    return model


def dynamic_batch(model: TracedModel) -> TracedModel:
    """The model takes any size of dimension 0, in parts of the size that it was traced with."""
    _traced(model, "dynamic_batch")
    _ = model.batch
    model.how["dynamic_batch"] = True
    return model


def lazy_load(model: TracedModel, enable_lazy_load: bool = True) -> None:
    """load() of the saved model compiles nothing; the first call does."""
    _traced(model, "lazy_load").how["lazy"] = bool(enable_lazy_load)


def async_load(model: TracedModel, enable_async_load: bool = True) -> None:
    """load() of the saved model compiles beside what the program does next; the first call waits for it."""
    _traced(model, "async_load").how["async"] = bool(enable_async_load)


class DataParallel:
    """A traced model on several cores of this process, each with a part of the batch."""

    def __init__(
        self, model: TracedModel, device_ids: Sequence[int] | None = None, dim: int = 0,
        set_dynamic_batching: bool = True,
    ) -> None:  # fmt: skip
        self.model = _traced(model, "DataParallel")
        every = range(torch.neuron.device_count())
        self.device_ids = list(every if device_ids is None else device_ids)
        wrong = [i for i in self.device_ids if i not in every]
        if wrong or not self.device_ids:
            raise InputError(
                f"there is no core {wrong}: this process has {len(every)}" if wrong else "DataParallel got no core",
                label="torch.device", hint="NEURON_RT_NUM_CORES before torch is imported says how many",
            )  # fmt: skip
        self.dim = dim
        self.num_workers = len(self.device_ids)
        self._dynamic = set_dynamic_batching and dim == 0

    def disable_dynamic_batching(self) -> None:
        """Each core gets exactly the size that the model was traced with."""
        self._dynamic = False

    def __call__(self, *inputs: Any) -> Any:
        def part(i: int) -> Any:
            return pytree.tree_map_only(Tensor, lambda x: x.chunk(len(self.device_ids), self.dim)[i], inputs)

        rows = next(leaf.shape[self.dim] for leaf in pytree.tree_leaves(inputs) if isinstance(leaf, Tensor))
        used = self.device_ids[: -(-rows // -(-rows // len(self.device_ids)))]
        run = self.model.run_batches if self._dynamic else self.model.run_on
        with ThreadPoolExecutor(max(self.num_workers, 1)) as threads:
            results = list(threads.map(lambda i: run(used[i], part(i)), range(len(used))))
        return _joined(results, self.dim)
