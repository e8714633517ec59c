"""A program for one class of calls of an op: what src/torch/eager.cc asks for when it meets a class for the first time.

The op is traced with CPU tensors that hold nothing, functionally, and taken apart as torch.compile's graphs are; what
comes out is written and compiled as those are. A tensor that lies dense in another order of dimensions is handed over
as it lies, and the program turns it: no copy.
"""

from __future__ import annotations

import functools
import itertools
import math
import os
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils import _pytree as pytree

from opentrn import _torch
from opentrn.errors import NotModelled
from opentrn.torch import attention, decompositions
from opentrn.torch import settings as settings_module
from opentrn.torch.compile_cache import Compiled
from opentrn.torch.eager import batch_norm, fused, integers, layouts, lifted, refused, stored, tracing
from opentrn.torch.emitter import emit
from opentrn.torch.program import Program
from opentrn.torch.registry import NoDeviceForm
from opentrn.torch.text import Spec

_SCALAR, _NUMBER = 1, 2  # Argument::Kind of src/torch/call.h


@dataclass(frozen=True)
class Ref:
    """A tensor of a call by its number; -1 - n is the n-th number that is an input."""

    index: int


@dataclass
class Output:
    target: int
    copied_from: int
    sizes: list[int]
    strides: list[int]
    dtype: torch.dtype
    is_in_order: bool = True
    order: Sequence[int] | None = None  # of its dimensions in the program's memory, the slowest first
    repeats: int = -1  # the number of the output before it that it equals


@dataclass(eq=False)
class Plan:
    """As struct Program of src/torch/program.h, which keeps it."""

    name: str
    number: int
    on_host: bool = False
    handle: tuple[int, int] = (0, 0)
    draws: bool = False
    inputs: list[tuple[Any, ...]] = field(default_factory=list)
    outputs: list[Output] = field(default_factory=list)
    returned: list[tuple[Any, ...]] = field(default_factory=list)
    program: Program | None = None


# By number: those of the table of src/torch/eager.cc, in the order in which they were made.
PLANS: weakref.WeakValueDictionary[int, Plan] = weakref.WeakValueDictionary()
_numbers = itertools.count()
_told: set[str] = set()


@dataclass(frozen=True)
class Given:
    """A tensor of the call as src/torch/module.cc describes it."""

    kind: int
    shape: tuple[int, ...]
    dtype: torch.dtype
    order: list[int] | None  # of its dimensions in memory, slowest first
    expanded: tuple[int, ...]
    is_wrapped: bool
    number: Any
    is_scattered: bool
    stride: tuple[int, ...]

    @property
    def memory_shape(self) -> tuple[int, ...]:
        if self.order is None:
            return self.shape
        return tuple(1 if dim in self.expanded else self.shape[dim] for dim in self.order)

    @property
    def dense_strides(self) -> tuple[int, ...]:
        """In the same order, without gaps."""
        return tuple(dense_strides(self.shape, self.order or range(len(self.shape))))

    def as_number(self, beside: torch.dtype | None) -> Any:
        """As an op takes it. For a bool of Python's it has no tensor, and any type wins over that of a bool.

        beside: the type of the op's tensors, where its schema takes no number in place of one; those win over the
        types of numbers, so that one in its stead has the type of the result.
        """
        if not self.is_wrapped or isinstance(self.number, bool):
            return torch.tensor(self.number, dtype=self.dtype)
        if beside is None:
            return self.number
        return torch.tensor(self.number).to(torch.result_type(torch.empty((), dtype=beside), self.number))

    def seen(self, memory: Tensor) -> Tensor:
        """As the op sees what lies in memory."""
        if self.order is None:
            return memory
        back = sorted(range(len(self.order)), key=self.order.__getitem__)
        return memory.permute(back).expand(self.shape)


def _op(name: str) -> Any:
    namespace, _, rest = name.partition("::")
    packet, _, overload = rest.partition(".")
    return getattr(getattr(getattr(torch.ops, namespace), packet), overload or "default")


def beside_numbers(schema: Any, given: Sequence[Given]) -> torch.dtype | None:
    """The type of a call's tensors, where numbers are to be tensors too; None where the schema takes them for such, and
    where there are none."""
    name = schema.name.partition("::")[2]
    if torch._C._should_allow_numbers_as_tensors(name) or all(each.number is None for each in given):
        return None
    types = {each.dtype for each in given if each.number is None}
    return functools.reduce(torch.promote_types, types) if types else torch.bool


def dense_strides(shape: Sequence[int], order: Sequence[int]) -> list[int]:
    """order: of dimensions, the slowest first."""
    strides, step = [0] * len(shape), 1
    for dim in reversed(order):
        strides[dim] = step
        step *= max(shape[dim], 1)
    return strides


def _memory_order(tensor: Tensor) -> list[int] | None:
    """Dimensions from the slowest to the fastest where the elements lie dense; None where they do not."""
    key = [sys.maxsize if size == 1 else step for size, step in zip(tensor.shape, tensor.stride())]
    order = sorted(range(tensor.dim()), key=lambda dim: -key[dim])
    step = 1
    for dim in reversed(order):
        if tensor.shape[dim] != 1 and tensor.stride()[dim] != step:
            return None
        step *= tensor.shape[dim]
    return order


def split(schema: Any, values: list[Any]) -> tuple[list[Any], dict[str, Any]]:
    """Values of all arguments as positional ones and keywords."""
    declared = schema.arguments
    positional = [value for value, each in zip(values, declared) if not each.kwarg_only]
    return positional, {each.name: value for value, each in zip(values, declared) if each.kwarg_only}


class _Tracer:
    """Traces one call as a function of its tensors and of those numbers that are inputs."""

    def __init__(self, name: str, arguments: list[Any], given: list[Given]) -> None:
        self.name = name
        self.op = _op(name)
        self.schema = self.op._schema
        self.arguments = arguments
        self.given = given
        self.form = lifted.FORMS.get(name) or fused.FORMS.get(name)
        refs = [leaf for leaf in pytree.tree_leaves(arguments) if isinstance(leaf, Ref)]
        self.lifts = any(ref.index < 0 for ref in refs)
        self.numbers = -min([0, *(ref.index for ref in refs)])
        self.inputs = [i for i, each in enumerate(given) if each.kind != _NUMBER]
        self.mutated = self._mutated(silently=True)
        self.declared = self._mutated()  # what the schema says is written
        self.written = self._mutated(out_only=True)
        self.returned: list[tuple[Any, ...]] = []
        self.outputs: list[Output] = []
        self.strides = layouts.of_results(name, self._laid_out, arguments, given, Ref, self.written)

    def _laid_out(self, real: list[Any]) -> Any:
        gives_size = any(0 in self.given[i].shape for i in self.written)
        return layouts.given_size(self.op, real) if gives_size else self._called(real)

    def _called(self, real: list[Any]) -> Any:
        positional, keywords = split(self.schema, real)
        return self.op(*positional, **keywords)

    def _mutated(self, out_only: bool = False, silently: bool = False) -> list[int]:
        """Tensors of the call that the op writes; out_only: whatever they hold; silently: what no schema says too."""
        found = []
        names = [each.name for each in self.schema.arguments]
        silent: tuple[str, ...] = batch_norm.WRITTEN.get(self.name, ()) if silently else ()
        if silent and "training" in names and not self.arguments[names.index("training")]:
            silent = ()
        for value, declared in zip(self.arguments, self.schema.arguments):
            if out_only and not declared.is_out:
                continue
            if declared.name in silent or declared.alias_info is not None and declared.alias_info.is_write:
                found += [leaf.index for leaf in pytree.tree_leaves(value) if isinstance(leaf, Ref)]
        return found

    def example(self, mode: FakeTensorMode) -> list[Tensor]:
        shapes = [(self.given[i].memory_shape, self.input_dtype(i)) for i in self.inputs]
        shapes += [((), torch.float32)] * self.numbers
        with mode:
            return [torch.empty(shape, dtype=dtype, device="cpu") for shape, dtype in shapes]

    def input_dtype(self, i: int) -> torch.dtype:
        given = self.given[i]
        # A number of Python's is a float64; beside tensors with dimensions its type has no say, as float32 has none.
        return torch.float32 if given.is_wrapped and given.dtype == torch.float64 else given.dtype

    def __call__(self, *memory: Tensor) -> list[Tensor]:
        seen: dict[int, Any] = {}
        for i, tensor in zip(self.inputs, memory):
            seen[i] = self.given[i].seen(tensor)
            if i in self.written:  # a base of its own: what is written through a view is sewn into its base
                each = self.given[i]
                seen[i] = torch.empty_strided(each.shape, each.dense_strides, dtype=each.dtype, device="cpu")
            elif i in self.mutated:
                seen[i] = seen[i].clone()
        for i, each in enumerate(self.given):
            if each.kind == _NUMBER:
                seen[i] = each.as_number(beside_numbers(self.schema, self.given))
        for n in range(self.numbers):
            seen[-1 - n] = memory[len(self.inputs) + n]
        real = pytree.tree_map_only(Ref, lambda ref: seen[ref.index], self.arguments)
        real = pytree.tree_map_only(torch.device, lambda _: torch.device("cpu"), real)
        result = self._lifted(real, seen) if self.lifts or self.name in fused.FORMS else self._plain(real)
        return self._results(result, seen)

    def _plain(self, real: list[Any]) -> Any:
        if self.name.startswith("aten::_fused_") and self.mutated:
            raise NoDeviceForm(f"{self.name} has no form", label="torch.no_emitter")  # functionalize() cannot
        positional, keywords = split(self.schema, real)
        for forms in (attention.FORMS, batch_norm.FORMS, integers.FORMS):
            if form := forms.get(self.name):
                return form(*positional, **keywords)
        return self._called(real)

    def _lifted(self, real: list[Any], seen: dict[int, Any]) -> Any:
        """The form with tensors for numbers; what it gives is what the op writes."""
        if self.form is None:
            raise NoDeviceForm(f"{self.name} has no form with numbers as inputs", label="torch.no_emitter")
        positional, keywords = split(self.schema, real)
        keywords.pop("out", None)
        result = self.form(*positional, **keywords)
        every = result if isinstance(result, list) else [result] * len(self.mutated)
        for i, value in zip(self.mutated, every, strict=True):
            seen[i] = value.to(self.given[i].dtype)
        return result

    def _results(self, result: Any, seen: dict[int, Any]) -> list[Tensor]:
        """All that the program gives: what is written, then what is new."""
        self.outputs, self.returned, values = [], [], []
        for place, i in enumerate(self.mutated):
            is_out = i in self.written and place < len(self.strides)
            values.append(self._ordered(seen[i], i, self.strides[place] if is_out else None))
        returns = self.schema.returns
        parts = result if isinstance(result, (tuple, list)) and len(returns) != 1 else [result]
        written = iter(self.declared)
        likes = iter(attention.LAYOUTS.get(self.name, ()))
        for place, (each, part) in enumerate(zip(returns, parts)):
            if each.alias_info is not None and each.alias_info.is_write:
                self.returned.append(("argument", next(written)))
            elif isinstance(part, (list, tuple)):
                places = []
                for item in part:
                    places.append(len(values))
                    values.append(self._ordered(item, -1))
                self.returned.append(("list", places))
            elif isinstance(part, Tensor):
                self.returned.append(("output", len(values)))
                like = next(likes, None)
                pattern = None if like is None else self.given[self.arguments[like].index].stride
                if pattern is None and place < len(self.strides):
                    pattern = self.strides[place]
                values.append(self._ordered(part, -1, pattern))
            elif part is None:
                self.returned.append(("none",))
            else:
                raise NoDeviceForm(f"{self.name} gives a {type(part).__name__}", label="torch.no_emitter")
        return values

    def _ordered(self, value: Tensor, target: int, pattern: Sequence[int] | None = None) -> Tensor:
        """In the order in which it is to lie in memory: that of the strides in `pattern`, where there are some."""
        order, strides = _memory_order(value), list(value.stride())
        is_kept = target >= 0 and tuple(value.shape) == self.given[target].shape
        if pattern is not None and len(pattern) == value.dim() and not is_kept:
            order = sorted(range(value.dim()), key=lambda dim: -pattern[dim])
            strides = dense_strides(value.shape, order)
        elif target >= 0:
            given = self.given[target]
            if self.name.startswith(_SEQUENCES) and value.numel() == math.prod(given.shape):
                value = value.reshape(given.shape)  # torch writes them one after the other, whatever the shape
            is_resized = tuple(value.shape) != given.shape
            # Only `out=` takes other sizes, which functionalize() does not ask.
            sizes = f"{list(given.shape)} doesn't match the broadcast shape {list(value.shape)}"
            torch._check(not is_resized or target in self.written, lambda: f"output with shape {sizes}")
            if given.expanded and not is_resized or given.is_scattered and not is_resized:
                order = None
            elif not is_resized:
                order = given.order or list(range(value.dim()))
            else:  # it lies as the op's own result would
                order = order or list(range(value.dim()))
                strides = dense_strides(value.shape, order)
        elif order is None:  # overlapping elements become single ones
            value = value.contiguous()
            order, strides = list(range(value.dim())), list(value.stride())
        self.outputs.append(Output(target, -1, list(value.shape), strides, value.dtype, order is not None, order))
        return value if order is None or order == sorted(order) else value.permute(order)


def _traced(tracer: _Tracer) -> Any:
    symbols = None
    if tracer.name.partition(".")[0] in decompositions.WITH_LOOPS:
        symbols = ShapeEnv(allow_scalar_outputs=False, allow_dynamic_output_shape_ops=False)
    mode = FakeTensorMode(allow_non_fake_inputs=True, shape_env=symbols)
    function = torch.func.functionalize(tracer, remove="mutations_and_views")
    with (
        sdpa_kernel(SDPBackend.MATH),
        decompositions.not_torchs_own(),
        mode,
        torch.no_grad(),
    ):
        return tracing.graph_of(function, tracer.example(mode), decompositions.eager_table())


def _plan(name: str, arguments: list[Any], given: list[Given], settings: settings_module.Settings) -> Plan:
    tracer = _Tracer(name, arguments, given)
    refused.hold_types(tracer.op, arguments, given, tracer.mutated if "index_put" in name else tracer.written)
    if name.partition(".")[0] in refused.DRAWS:
        refused.hold_draws(tracer.op, arguments, given)
    module = _traced(tracer)
    module.graph.eliminate_dead_code()
    memory = [(given[i].memory_shape, tracer.input_dtype(i)) for i in tracer.inputs]
    specs: list[Any] = [Spec(shape, dtype) for shape, dtype in memory] + [Spec((), torch.float32)] * tracer.numbers
    for number, node in enumerate(module.graph.find_nodes(op="placeholder")):
        if all(user.op == "output" for user in node.users):
            specs[number] = None  # what is only written may hold anything
    emitted = emit(module, specs, int, "eager")
    if emitted.checks:
        raise NoDeviceForm(f"{name} tells of its failure by a number", label="torch.no_emitter")
    plan = Plan(name, next(_numbers), draws=emitted.draws, returned=tracer.returned)
    plan.program = Program(emitted, settings, name)
    plan.program.is_op = True
    if plan.program.host_reason:
        raise NoDeviceForm(plan.program.host_reason, label="torch.no_emitter")
    for argument in emitted.arguments:
        if argument >= len(tracer.inputs):
            plan.inputs.append(("number", argument - len(tracer.inputs), torch.float32))
        elif tracer.input_dtype(tracer.inputs[argument]) != given[tracer.inputs[argument]].dtype:
            plan.inputs.append(("scalar", tracer.inputs[argument], torch.float32))
        else:
            plan.inputs.append(("tensor", tracer.inputs[argument]))
    plan.inputs += [("constant", tensor) for tensor in emitted.attributes]
    by_program: dict[int, int] = {}
    for place, (row, output) in enumerate(zip(emitted.results, tracer.outputs, strict=True)):
        if row.argument >= 0:
            output.copied_from = tracer.inputs[row.argument]
        elif row.program < 0:
            raise NoDeviceForm(f"{name} gives what is not a tensor", label="torch.no_emitter")
        elif (first := by_program.setdefault(row.program, place)) != place:
            if tracer.outputs[first].order != output.order:  # one memory for two values
                raise NoDeviceForm(f"{name} gives one tensor twice", label="torch.no_emitter")
            output.repeats = first
    plan.outputs = tracer.outputs
    if plan.program.device_model is not None:
        plan.handle = plan.program.device_model.call
    return plan


def _stored(key: str, name: str, arguments: list[Any], given: list[Given], settings: settings_module.Settings) -> Any:
    """The plan that an earlier process made of such a call; None without one."""
    found = stored.find(key)
    if found is None:
        return None
    facts, loaded = found
    plan = Plan(name, next(_numbers))
    refs = [leaf for leaf in pytree.tree_leaves(arguments) if isinstance(leaf, Ref)]
    if not stored.restore(plan, facts, loaded, given, sum(ref.index < 0 for ref in refs)):
        return None
    held = Compiled(loaded, facts.get("one_core_because", ""), facts.get("narrowing", ""))
    plan.program = Program.of(held, settings, name)
    plan.handle = loaded.call
    return plan


def _compile(name: str, arguments: list[Any], rows: list[tuple[Any, ...]], settings: settings_module.Settings) -> Plan:
    given = [
        Given(kind, tuple(shape), dtype, order, tuple(expanded), is_wrapped, number, is_scattered, tuple(stride))
        for kind, shape, dtype, order, expanded, is_wrapped, number, is_scattered, stride in rows
    ]
    key = stored.key_of(name, arguments, rows, settings)
    if key and (plan := _stored(key, name, arguments, given, settings)) is not None:
        PLANS[plan.number] = plan
        return plan
    try:
        plan = _plan(name, arguments, given, settings)
        if key:
            stored.keep(key, plan, settings)
    except (NotModelled, torch._subclasses.fake_tensor.DynamicOutputShapeException,
            torch._subclasses.fake_tensor.DataDependentOutputException,
            torch._subclasses.fake_tensor.UnsupportedOperatorException) as fault:  # fmt: skip
        if settings.strict:
            if isinstance(fault, NotModelled):
                raise
            raise NoDeviceForm(
                f"{name}: the size or the value of its result depends on values ({fault})",
                label="torch.traced", hint="a form of fixed size, such as torch.where; or without OPENTRN_STRICT=1",
            ) from fault
        plan = _host_plan(name, str(fault) or type(fault).__name__)
    except Exception as fault:  # of wrong arguments, or of a form that does not take what torch takes
        if not refused.takes(_op(name), arguments, given) or settings.strict:
            raise
        plan = _host_plan(name, f"{type(fault).__name__}: {fault}")
    PLANS[plan.number] = plan
    return plan


def _host_plan(name: str, why: str) -> Plan:
    if name not in _told:
        _told.add(name)
        print(f"opentrn: {name} runs on the host: {why}", file=sys.stderr)
    return Plan(name, next(_numbers), on_host=True)


class _Worker:
    """A thread that traces: free of the modes, guards and gradients of whoever calls an op."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._pool = None

    def __call__(self, function: Callable[..., Any], *arguments: Any) -> Any:
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(1, "opentrn-eager", initializer=_torch.ignore_warnings)
        return self._pool.submit(function, *arguments).result()


_worker = _Worker()


def compile(name: str, arguments: list[Any], rows: list[tuple[Any, ...]], _device: int) -> Plan:
    """For src/torch/module.cc. Raises what torch raises of wrong arguments; NoDeviceForm under OPENTRN_STRICT=1."""
    return _worker(_compile, name, arguments, rows, settings_module.read(None))


def plan_of(number: int) -> Plan:
    return PLANS[number]


def time_of(number: int) -> float:
    """Nanoseconds that one run of a program takes on a stream; 0 for a program of the host's."""
    from opentrn.torch import usage

    program = plan_of(number).program
    return 0.0 if program is None or program.device_model is None else usage.on_stream_ns(program)


def _copy_time_ns(elements: int) -> float:
    """Of a program that reads and writes so many fp32: what a copy inside HBM does."""
    from opentrn import _core

    text = (
        f"module @copy {{\nfunc.func public @main(%a: tensor<{elements}xf32>) -> (tensor<{elements}xf32>) {{\n"
        f"%v = stablehlo.negate %a : tensor<{elements}xf32>\nreturn %v : tensor<{elements}xf32>\n}}\n}}\n"
    )
    settings = settings_module.read(None)
    model = _core.compile_model(text, "<copy>", settings.target, {}, settings.compiler_options())
    timing = model.time([], None)
    return timing.launch_ns + timing.total_ns


_copy_costs: list[float] = []


def copies_ns(count: int, size: int) -> float:
    """Nanoseconds of `count` copies of `size` bytes together: what programs that read and write as much take."""
    if not _copy_costs:
        small, large = _copy_time_ns(2**10), _copy_time_ns(2**20)
        per_byte = (large - small) / (4 * (2**20 - 2**10))
        _copy_costs.extend([small - per_byte * 4 * 2**10, per_byte])
    return count * _copy_costs[0] + size * _copy_costs[1]


_SEQUENCES = ("aten::arange.", "aten::linspace.", "aten::logspace.", "aten::range.")

# PyTorch takes these apart for a device without a kernel, or says where results lie (padding, as on no other device);
# the core has a program for each.
ONE_PROGRAM = (
    "aten::convolution", "aten::convolution_backward", "aten::native_layer_norm", "aten::native_group_norm",
    "aten::embedding", "aten::masked_fill.Scalar", "aten::masked_fill.Tensor", "aten::repeat",
    "aten::constant_pad_nd", "aten::_unsafe_index.Tensor", "aten::abs", "aten::isinf", "aten::stack",
    "aten::cummin", "aten::cummin.out", "aten::cummax", "aten::cummax.out", "aten::replication_pad2d",
    "aten::replication_pad3d", "aten::reflection_pad3d", "aten::mode.values",
    "aten::addr", "aten::addr.out", "aten::pixel_shuffle", "aten::pixel_unshuffle", "aten::channel_shuffle",
    "aten::native_channel_shuffle", "aten::reflection_pad3d_backward",
)  # fmt: skip
