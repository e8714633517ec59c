"""TensorFlow functions on a simulated NeuronCore, through the HLO that TensorFlow itself makes of them.

    import opentrn.tensorflow as neuron

    @neuron.function(target="trn2")
    def train_step(x, y):
        with tf.GradientTape() as tape:
            loss = loss_of(model(x), y)
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        return loss

    loss = train_step(x, y)               # the device's values; variables are updated
    print(train_step.program(x, y).time())

A function is compiled once per signature of its arguments (shapes, dtypes, Python values), as `tf.function` does
with `jit_compile=True`; its values come from the compiled program. Needs TensorFlow 2.15 or newer, which OpenTrn
does not install.
"""

from __future__ import annotations

import linecache
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from opentrn import graph
from opentrn.errors import InputError, InputTypeError, NkiValidationError, NotModelled
from opentrn.model.compiled import CompiledModel
from opentrn.model.compiled import compile as compile_model

__all__ = ["Function", "Program", "function"]


class Program:
    """One signature of a function, compiled.

    `model` is the CompiledModel: its inputs are the tensors among the arguments in the order of tf.nest.flatten,
    then what the function captures; its results are the function's tensors, then the variables that it changes.
    """

    def __init__(self, traced: Any, hlo: bytes, options: dict[str, Any]) -> None:
        module = graph.parse(hlo, traced.name if isinstance(traced.name, str) else traced.name.decode())
        self.hlo = hlo
        self.model: CompiledModel = _compiled_with_lines(module, traced, options)
        self._traced = traced
        self._captured = [each for each in traced.captured_inputs if not _is_empty(each)]
        self._arguments = len(self.model.inputs) - len(self._captured)
        self._results = sum(
            isinstance(part, tf.Tensor) for part in tf.nest.flatten(traced.structured_outputs)
        )
        self._changed = _changed(module, self._results)

    def time(self) -> Any:
        """The predicted time of one call (opentrn.model.compiled.CompiledModel.time)."""
        return self.model.time()

    def __call__(self, tensors: list[Any]) -> Any:
        """The function's result for the flat list of its tensors; writes the variables that it changes."""
        tensors = [each for each in tensors if not _is_empty(each)]
        if len(tensors) != self._arguments:
            raise InputError(
                f"the program takes {self._arguments} tensors, {len(tensors)} were given", label="model.inputs"
            )
        captured = [
            _read(handle, port.dtype)
            for handle, port in zip(self._captured, self.model.inputs[self._arguments :], strict=True)
        ]
        values = self.model(*map(_array, tensors), *captured)
        for result, argument in self._changed:
            handle = self._captured[argument - self._arguments]
            tf.raw_ops.AssignVariableOp(resource=handle, value=tf.constant(values[result]))
        parts = iter(values[: self._results])
        return tf.nest.map_structure(
            lambda part: tf.constant(next(parts)) if isinstance(part, tf.Tensor) else part,
            self._traced.structured_outputs,
        )


class Function:
    """What `function` makes: called like the Python function, with tensors, arrays or Python values."""

    def __init__(self, python: Callable[..., Any], options: dict[str, Any]) -> None:
        self._python = getattr(python, "python_function", python)
        self._options = options
        self._programs: dict[Any, Program] = {}
        self.__doc__ = getattr(python, "__doc__", None)
        self.__name__ = getattr(python, "__name__", type(python).__name__)

    def program(self, *args: Any, **kwargs: Any) -> Program:
        """The program for arguments of this signature, compiled now if it was not.

        Raises what TensorFlow raises while it traces, TypeError for an argument that cannot be part of a signature,
        NotModelled for an op without device kernel or without a form in XLA, with its name and the user's line.
        """
        return self._program(args, kwargs)[0]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        program, tensors = self._program(args, kwargs)
        return program(tensors)

    def _program(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Program, list[Any]]:
        parts = [_as_tensor(part) for part in tf.nest.flatten((args, kwargs))]
        tensors = [part for part in parts if isinstance(part, tf.Tensor)]
        key = (_structure((args, kwargs)), tuple(map(_signature, parts)))
        if key not in self._programs:
            self._programs[key] = self._compiled((args, kwargs), parts, tensors)
        return self._programs[key], tensors

    def _compiled(self, structure: Any, parts: list[Any], tensors: list[Any]) -> Program:
        """Traces the function with its tensors as only arguments; everything else is part of the trace."""

        def flat(*given: Any) -> Any:
            rest = iter(given)
            filled = [next(rest) if isinstance(part, tf.Tensor) else part for part in parts]
            args, kwargs = tf.nest.pack_sequence_as(structure, filled)
            return self._python(*args, **kwargs)

        traced = tf.function(flat, jit_compile=True)
        concrete = traced.get_concrete_function(*tensors)
        try:
            hlo = traced.experimental_get_compiler_ir(*tensors)(stage="hlo_serialized")
        except ValueError as fault:
            raise _not_compiled(fault, concrete.graph) from fault
        return Program(concrete, hlo, self._options)


def function(python: Callable[..., Any] | None = None, **options: Any) -> Any:
    """A TensorFlow function that runs on a simulated NeuronCore; usable as decorator, with or without options.

    python: a Python function of TensorFlow ops, a Keras model or layer, or a tf.function. options: those of
    opentrn.compile (target, optlevel, auto_cast, auto_cast_type).
    """
    if python is None:
        return lambda each: Function(each, options)
    return Function(python, options)


_REMEDY = (
    "call it before or after the function, on its arguments or results, or use ops of fixed sizes (tf.where)"
)
_SITE = str(Path(tf.__file__).parents[1])


def _is_users(file: str) -> bool:
    """Not of TensorFlow, Keras and this module, nor of no file."""
    own = [f"{_SITE}/{package}/" for package in ("tensorflow", "keras")]
    return not any(map(file.startswith, (*own, __file__, "<")))


def _user_line(traced_graph: Any, op: str) -> str:
    """Where the user's code made an op; empty where it did not."""
    try:
        frames = traced_graph.get_operation_by_name(op).traceback
    except (KeyError, ValueError):  # XLA's bridge made it
        return ""
    found = [frame for frame in frames if _is_users(frame.filename)]
    if not found:
        return ""
    file, number = found[-1].filename, found[-1].lineno
    return f"\n    at {file}:{number}: {linecache.getline(file, number).strip()}"


def _compiled_with_lines(module: graph.Module, traced: Any, options: dict[str, Any]) -> CompiledModel:
    """Faults name the user's line: the HLO has lines of TensorFlow's own files only, and the ops' names."""
    try:
        return compile_model(module, **options)
    except (NotModelled, NkiValidationError) as fault:
        line = _user_line(traced.graph, fault.location.function) if fault.location else ""
        if not line:
            raise
        # The host does not run TensorFlow's functions in parts, so the usual hint does not apply.
        hint = _REMEDY if isinstance(fault, NotModelled) else fault.hint
        raise fault.restated(notes=fault.notes + line, hint=hint) from None


def _not_compiled(fault: ValueError, traced_graph: Any) -> Exception:
    """What TensorFlow says of ops that its XLA bridge has none of, in a few lines; anything else as it is."""
    found = re.search(r"(\w+) \(No registered .*?\{\{node ([^}]+)\}\}", str(fault), re.DOTALL)
    if not found:
        return fault
    why = f"the op {found[1]} ({found[2]}) has no form in TensorFlow's compiler, XLA"
    line = _user_line(traced_graph, found[2])
    return NotModelled(why, label="tensorflow.xla", notes=line, hint=_REMEDY)


def _is_empty(tensor: Any) -> bool:
    """XLA's bridge makes constants of arguments without elements."""
    return tensor.dtype != tf.resource and 0 in tensor.shape


def _array(tensor: Any) -> np.ndarray:
    """ValueError for whole numbers that 32 bits do not hold."""
    array = np.asarray(tensor)
    if array.dtype == np.int64:
        beyond = np.flatnonzero(array != array.astype(np.int32))
        if beyond.size:
            raise InputError(
                f"{array.reshape(-1)[beyond[0]]} does not fit the 32 bits that the device has for int64",
                label="model.range",
                hint="keep whole numbers below 2^31 on the device",
            )
    return array


def _as_tensor(value: Any) -> Any:
    if isinstance(value, tf.Variable):
        raise InputTypeError(
            f"a variable ({value.name}) as argument",
            label="tensorflow.argument", hint="use it in the function, which captures it",
        )
    if isinstance(value, tf.SparseTensor | tf.RaggedTensor | tf.IndexedSlices):
        kind = type(value).__name__
        raise InputTypeError(
            f"a {kind} as argument",
            label="tensorflow.argument", hint="pass a dense tensor of it (tf.sparse.to_dense, to_tensor())",
        )
    return tf.constant(value) if isinstance(value, np.ndarray | np.generic) else value


def _signature(part: Any) -> Any:
    """What programs are told apart by."""
    if isinstance(part, tf.Tensor):
        return part.dtype, tuple(part.shape)
    try:
        hash(part)
    except TypeError as error:
        raise InputTypeError(
            f"an argument of type {type(part).__name__} is neither tensor nor hashable",
            label="tensorflow.argument",
        ) from error
    return type(part), part


def _structure(nested: Any) -> str:
    return repr(tf.nest.map_structure(lambda _: 0, nested))


def _read(captured: Any, dtype: np.dtype) -> np.ndarray:
    if captured.dtype != tf.resource:
        return captured.numpy()
    return tf.raw_ops.ReadVariableOp(resource=captured, dtype=tf.as_dtype(dtype)).numpy()


def _changed(module: graph.Module, results: int) -> list[tuple[int, int]]:
    """(result, argument): which result is the new value of the variable that came as which argument."""
    signature = module.functions[module.entry]
    changed = [(to, i) for i, to in enumerate(signature.aliases) if to is not None and to >= results]
    if len(changed) != len(signature.results) - results:
        raise InputError(
            f"the HLO has {len(signature.results)} results, the function {results}, and names the variables "
            f"of {len(changed)}: this version of TensorFlow ({tf.__version__}) is not understood",
            label="tensorflow.version",
        )
    return changed
