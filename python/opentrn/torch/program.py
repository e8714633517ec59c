"""A compiled graph: what AOTAutograd calls with tensors of the host, and gets such from."""

from __future__ import annotations

import functools
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch.utils._python_dispatch import _disable_current_modes

from opentrn import graph as stablehlo
from opentrn.base import notices
from opentrn.errors import NotModelled
from opentrn.settings import environment
from opentrn.torch import attention, compile_cache, decompositions, memory, ranges, skipped, stages, usage
from opentrn.torch.emitter import Emitted, emit
from opentrn.torch.registry import NoDeviceForm
from opentrn.torch.settings import Settings
from opentrn.torch.text import Spec


class Program:
    """One graph for one set of sizes, on the device or, where an op has no kernel, in the reference evaluator.

    `host_reason` says why the latter; empty for the device. `one_core_because`: why one of the two physical cores of a
    logical one computes; empty where both do, or there is one. `starts`: a run launches it; False for a later part of a
    program that was launched.
    """

    def __init__(
        self, emitted: Emitted, settings: Settings, name: str, starts: bool = True, loaded: Any = None
    ) -> None:
        self.emitted = emitted
        self.name = name
        self.starts = starts
        self.is_op = False  # one op of an eager program
        self.host_reason = ""
        self.one_core_because = ""
        self._loaded = loaded
        self._module: stablehlo.Module | None = None
        self._time_ns: float | None = None  # of one run, for tensors that are on a core
        self.runs = 0
        self.host_seconds = 0.0
        self.settings = settings
        self._is_checked = not settings.check
        if loaded is not None:
            usage.note(self)
        if loaded is not None or not emitted.outputs:
            return
        try:
            options = settings.compiler_options()
            compile_cache.keep(emitted.text, settings.target, options)
            if compile_cache.only_collects():
                self.host_reason = "NEURON_EXTRACT_GRAPHS_ONLY is set"
                self._module = stablehlo.parse(emitted.text)
                return
            compiled = compile_cache.compile_model(emitted.text, f"<{name}>", settings.target, options)
            self._loaded = compiled.model
            self.one_core_because = compiled.one_core_because
            self._loaded.set_stochastic_rounding(settings.rounding_seed)
            notices.tell_narrowing(name, compiled.narrowing)
        except NotModelled as fault:
            if settings.strict:
                raise
            self.host_reason = str(fault)
            print(f"opentrn: {name} runs on the host's evaluator: {fault}", file=sys.stderr)
            self._module = stablehlo.parse(emitted.text)
        usage.note(self)

    @classmethod
    def of(cls, compiled: compile_cache.Compiled, settings: Settings, name: str) -> Program:
        """Of a model that a file held, without the graph: for what runs by addresses alone (eager.stored)."""
        compiled.model.set_stochastic_rounding(settings.rounding_seed)
        notices.tell_narrowing(name, compiled.narrowing)
        program = cls(Emitted("", [], [], [], False), settings, name, loaded=compiled.model)
        program.one_core_because = compiled.one_core_because
        return program

    @property
    def device_model(self) -> Any:
        """The compiled model, as opentrn.torch.compile_cache has it; None where the host runs it."""
        return self._loaded

    def __call__(self, arguments: Sequence[Any]) -> list[Any]:
        """Results as the graph lists them. Arguments that it hands back are the same objects."""
        emitted = self.emitted
        inputs = [_plain(arguments[number]) for number in emitted.arguments]
        inputs += [_plain(tensor) for tensor in emitted.attributes]
        if emitted.draws:
            inputs.append(_state())
        outputs = [
            torch.empty(spec.shape, dtype=spec.dtype, device=place)
            for spec, place in zip(emitted.outputs, emitted.devices)
        ]
        if outputs:
            if emitted.place is not None and self._loaded is not None:
                self._advance(emitted.place)
            if not self._is_checked:
                self._check(inputs)
            began = time.perf_counter()
            self._run(inputs, outputs)
            self.host_seconds += time.perf_counter() - began
            self.runs += 1
        for check in emitted.checks:
            check.hold(outputs[check.program])
        return [
            memory.placed(outputs[row.program], row.spec, row.start) if row.start is not None
            else outputs[row.program].clone() if row.is_copy and _is_dense(row.spec)
            else outputs[row.program] if row.program >= 0 and _is_dense(row.spec)
            else _strided(outputs[row.program], row.spec) if row.program >= 0
            else arguments[row.argument] if row.argument >= 0
            else row.other
            for row in emitted.results
        ]  # fmt: skip

    def _advance(self, place: torch.device) -> None:
        """The stream of the core that holds the results goes on by the program's time."""
        from opentrn.torch import usage

        if self._time_ns is None:
            self._time_ns = usage.on_stream_ns(self)
        torch.neuron._advance(place, self.name, self._time_ns)

    def _check(self, inputs: list[torch.Tensor]) -> None:
        """The device's values of every op against float64's, once. ValueError names the first that differ."""
        self._is_checked = True
        if self._loaded is None:
            return  # the evaluator runs it
        from opentrn.model.checking import check

        module = stablehlo.parse(self.emitted.text)
        types = module.functions[module.entry].arguments
        arrays = [_array(each, kind) for each, kind in zip(inputs, types)]
        settings = self.settings
        check(self.emitted.text.encode(), arrays, settings.target, **settings.of_program())

    def _core(self) -> int | None:
        """The core that holds the results; None of a program whose tensors are the host's."""
        place = self.emitted.place
        if place is None:
            return None
        from opentrn.torch import process_group

        return process_group.core_of(place.index or 0)

    def _run(self, inputs: list[torch.Tensor], outputs: list[torch.Tensor]) -> None:
        if self._loaded is not None:
            self._loaded.run_at(
                [each.data_ptr() for each in inputs], [each.data_ptr() for each in outputs], self._core()
            )
            return
        assert self._module is not None
        types = self._module.functions[self._module.entry].arguments
        arrays = [_array(each, kind) for each, kind in zip(inputs, types)]
        for array, tensor in zip(self._module.evaluate(*arrays), outputs):
            if tensor.numel():
                raw = torch.frombuffer(bytearray(array.tobytes()), dtype=torch.uint8)
                tensor.reshape(-1).view(torch.uint8).copy_(raw)


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor's values one after the other in memory."""
    if tensor.is_conj() or tensor.is_neg():
        tensor = tensor.resolve_conj().resolve_neg()
    return tensor if tensor.is_contiguous() else tensor.contiguous()


def _array(tensor: torch.Tensor, kind: Any) -> Any:
    raw = tensor.detach().reshape(-1).view(torch.uint8).numpy()
    return raw.view(kind.dtype).reshape(kind.shape)


def _state() -> torch.Tensor:
    """A random generator's key and counter, from torch's: torch.manual_seed() makes it the same again."""
    key = torch.randint(0, 2**31 - 1, (2,), dtype=torch.int64)
    return torch.cat([key, torch.zeros(2, dtype=torch.int64)]).to(torch.uint32)


def _is_dense(spec: Spec | None) -> bool:
    if spec is None:
        return True
    step = 1
    for size, stride in zip(reversed(spec.shape), reversed(spec.stride)):
        if size != 1 and stride != step:
            return 0 in spec.shape
        step *= size
    return True


def _strided(tensor: torch.Tensor, spec: Spec | None) -> torch.Tensor:
    """In the strides that torch traced, which what comes after was compiled for; elements that share memory do not."""
    assert spec is not None
    return with_strides(tensor, spec.stride)


def with_strides(tensor: torch.Tensor, strides: Sequence[int]) -> torch.Tensor:
    """A copy in these strides, unless elements would share memory."""
    if any(size > 1 and stride == 0 for size, stride in zip(tensor.shape, strides)):
        return tensor
    made = torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype, device=tensor.device)
    return made.copy_(tensor)


@dataclass
class Sizes:
    """What symbolic sizes are in one call."""

    values: dict[Any, int]

    def __call__(self, size: Any) -> int:
        if isinstance(size, int):
            return size
        number = size.node.expr.subs(self.values)
        if not number.is_number:
            raise NotModelled(
                f"the size {size} depends on values that a program computes",
                label="torch.size", hint="a form of fixed size, such as torch.where",
            )
        return int(number)


class CallableGraph:
    """A graph as AOTAutograd calls it; one Program for each set of sizes, and the last used are kept.

    visible: how many of its results the caller sees, in the strides that torch traced. What follows is kept for the
    backward pass and goes to it as the program wrote it. None: all.
    """

    def __init__(
        self,
        module: fx.GraphModule,
        settings: Settings,
        name: str,
        starts: bool = True,
        visible: int | None = None,
    ) -> None:
        self._boxed_call = True  # takes one list of arguments, which it may empty; torch looks for it here
        self.module = module
        self.settings = settings
        self.name = name
        self.starts = starts
        self.visible = visible
        self.programs: dict[tuple[Any, ...], Program] = {}  # the one used longest ago is first
        self._most = environment.sized_programs()
        self._lock = threading.Lock()
        self._inputs = [node.meta.get("val") for node in module.graph.nodes if node.op == "placeholder"]
        results = next(iter(module.graph.find_nodes(op="output"))).args[0]
        self.is_single = not isinstance(results, (tuple, list))
        self._is_symbolic = any(map(_has_symbols, self._inputs))
        self._only: Program | None = None
        self._on_host: Callable[[list[Any]], list[Any]] | None = None  # from the first call on that asked for it
        if not self._is_symbolic:
            self._only = self._compile(self._inputs)

    def __call__(self, arguments: list[Any]) -> list[Any]:
        skipped.THREAD.touched += 1
        taken = list(arguments)
        arguments.clear()
        if self.settings.check:
            ranges.check(self.module, taken)
        if self._on_host is not None:
            return self._on_host(taken)
        program = self._only
        if program is None:
            # Of symbolic sizes the graph is compiled here, and that an op has no form is known no earlier.
            try:
                program = self._for_sizes(taken)
            except NotModelled as fault:
                if self.settings.strict:
                    raise
                return self._host_form(fault)(taken)
        return program(taken)

    def _host_form(self, fault: NotModelled) -> Callable[[list[Any]], list[Any]]:
        from opentrn.torch.partition import with_host_parts

        with self._lock:
            if self._on_host is None:
                self._on_host = with_host_parts(self.module, self.settings, self.name, fault)
            return self._on_host

    def _for_sizes(self, taken: list[Any]) -> Program:
        key = tuple(tuple(each.shape) if isinstance(each, torch.Tensor) else each for each in taken)
        with self._lock:
            program = self.programs.pop(key, None)
            if program is not None:
                self.programs[key] = program
                return program
        made = self._compile(taken)
        with self._lock:
            program = self.programs.setdefault(key, made)  # another thread may have been first
            while self._most and len(self.programs) > self._most:
                del self.programs[next(iter(self.programs))]
        return program

    def _compile(self, given: Sequence[Any]) -> Program:
        sizes = Sizes(_bound(self._inputs, given) if self._is_symbolic else {})
        specs: list[Any] = []
        for traced, actual in zip(self._inputs, given):
            if isinstance(traced, torch.Tensor):
                shape = (traced if actual is None else actual).shape  # None: of what orders effects, which is no value
                specs.append(Spec(tuple(int(size) for size in shape), traced.dtype))
            else:
                specs.append(actual)
        emitted = emit(self.module, specs, sizes, self.name, holds_masks=True)
        for row in emitted.results[self.visible :] if self.visible is not None else ():
            row.spec = None
        if self._is_symbolic:
            memory.find_starts(self.module, emitted.results, sizes)
        return Program(emitted, self.settings, self.name, self.starts)


def _has_symbols(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return any(not isinstance(size, int) for size in value.shape)
    return isinstance(value, (torch.SymInt, torch.SymFloat))


def _bound(traced: Sequence[Any], given: Sequence[Any]) -> dict[Any, int]:
    """Symbols of the sizes, from arguments that are one or a tensor with one."""
    values: dict[Any, int] = {}
    for kind, actual in zip(traced, given):
        if actual is None:  # of what orders effects
            continue
        pairs = list(zip(kind.shape, actual.shape)) if isinstance(kind, torch.Tensor) else [(kind, actual)]
        for size, number in pairs:
            if isinstance(size, torch.SymInt) and size.node.expr.is_symbol:
                values[size.node.expr] = int(number)
    return values


def _compiled(
    settings: Settings, module: fx.GraphModule, name: str, starts: bool = True, visible: int | None = None
) -> Callable[[list[Any]], list[Any]]:
    from opentrn.torch.partition import with_host_parts

    try:
        return CallableGraph(module, settings, name, starts, visible)
    except NotModelled as fault:
        if not settings.strict:
            return with_host_parts(module, settings, name, fault)
        if not isinstance(fault, NoDeviceForm):
            raise
        remedy = "convert to a type of the device, or let torch do it on the host: without OPENTRN_STRICT=1"
        raise fault.restated(hint=fault.hint or remedy) from None


def callable_graph(
    module: fx.GraphModule, settings: Settings, name: str, visible: int | None = None
) -> Callable[[list[Any]], list[Any]]:
    """What runs a graph; without OPENTRN_STRICT torch runs what has no form on the device, and stderr says so."""
    attention.expand(module, decompositions.table())
    memory.read_owners(module)
    # AOTAutograd calls with its fake tensors in force; those made here are real.
    with _disable_current_modes():
        if stages.has_collectives(module):
            return stages.in_stages(module, name, functools.partial(_compiled, settings))
        return _compiled(settings, module, name, visible=visible)
