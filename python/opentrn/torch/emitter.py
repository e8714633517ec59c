"""An FX graph of ATen ops as StableHLO text.

Sizes are concrete: a graph with symbolic sizes is written once per set of sizes that it is called with
(program.py). Every result is held to the shape and type that torch's tracing found for it.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from torch import fx
from torch._prims import rng_prims

from opentrn.errors import NotModelled, SourceLocation
from opentrn.torch import memory
from opentrn.torch.registry import NoDeviceForm, Rule, require, rule_of
from opentrn.torch.text import Body, Shape, Spec, Value, type_text
from opentrn.torch.types import ELEMENTS

_FRAME = re.compile(r'File "([^"]+)", line (\d+), in (\S+)\n\s*(.*)')


_INSTALLED = {"site-packages", "dist-packages"}


@dataclass
class Result:
    """One result of a graph: of the program, an argument handed back, or what is no tensor."""

    program: int = -1  # number among the program's results
    argument: int = -1
    other: Any = None
    spec: Spec | None = None
    is_copy: bool = False  # an earlier result is the same value, and torch gives this one memory of its own
    start: int | None = None  # elements of memory before its first one, where the caller asks (memory.find_starts)


@dataclass
class Check:
    """A result that is not 0 where the run failed: LAPACK's `info`, for which torch raises LinAlgError, or whether an
    assertion does not hold.
    """

    program: int  # number among the program's results
    name: str  # of the op, or what the assertion says
    is_matrix: bool = False  # no batch of them
    is_assertion: bool = False

    def hold(self, result: torch.Tensor) -> None:
        if self.is_assertion:
            torch._assert_async(result.cpu() == 0, self.name)
        else:
            torch._linalg_check_errors(result, self.name, is_matrix=self.is_matrix)


@dataclass
class Emitted:
    """A program's text and how a graph's arguments and results are those of the program."""

    text: str
    arguments: list[int]  # of the graph, in the order of the program's inputs
    results: list[Result]
    outputs: list[Spec]  # of the program
    draws: bool  # its last input is the state of a random generator, four words
    attributes: list[torch.Tensor] = field(
        default_factory=list
    )  # tensors of the graph: inputs after the arguments
    checks: list[Check] = field(default_factory=list)
    devices: list[torch.device] = field(default_factory=list)  # of the outputs

    @property
    def place(self) -> torch.device | None:
        """The core that a result is on; None where all are the host's."""
        return next((place for place in self.devices if place.type == "neuron"), None)


def source_of(node: fx.Node) -> tuple[str, int, str] | None:
    """(file, line, text) of the Python line that made a node; None where torch kept no trace."""
    found = _FRAME.findall(node.meta.get("stack_trace") or "")
    if not found:
        return None
    file, line, _, text = found[-1]
    return file, int(line), text


def _caller(node: fx.Node) -> tuple[str, int, str] | None:
    """The innermost line outside of installed packages; None where source_of() is one, or none is."""
    frames = [
        (file, int(line), text) for file, line, _, text in _FRAME.findall(node.meta.get("stack_trace") or "")
    ]
    own = [frame for frame in frames if not _INSTALLED & set(Path(frame[0]).parts)]
    return own[-1] if own and own[-1] != frames[-1] else None


def name_of(node: fx.Node) -> str:
    return str(node.target)


def schema_name(node: fx.Node) -> str:
    """aten::add; nothing of what is no op."""
    return node.target._schema.name if isinstance(node.target, torch._ops.OpOverload) else ""


def refusal(node: fx.Node, why: str, label: str = "torch.no_emitter") -> NoDeviceForm:
    """Names the op and the user's line."""
    return NoDeviceForm(f"{name_of(node)} {why}", label=label, **place_of(node))


def place_of(node: fx.Node) -> dict[str, Any]:
    """The fields of an error that say where a node is made; none where torch kept no trace."""
    where, caller = source_of(node), _caller(node)
    if where is None:
        return {}
    text = f"\n        {where[2]}" + (f"\n    called from {caller[0]}:{caller[1]}: {caller[2]}" if caller else "")
    return {"location": SourceLocation(*where[:2]), "notes": text}


class Emitter(Body):
    """Writes one graph. sizes: what stands for a symbolic size (opentrn.torch.program.Sizes)."""

    def __init__(self, concrete: Callable[[Any], int], rules: Mapping[str, Rule]) -> None:
        super().__init__()
        self.concrete = concrete
        self.rules = rules
        self.heads: list[str] = []  # of the program's inputs
        self.attributes: list[torch.Tensor] = []  # tensors that graphs hold and the program takes as inputs

    def graph_block(
        self,
        kinds: Sequence[tuple[Shape, torch.dtype]],
        build: Callable[..., Sequence[Value]],
        repeats: bool = False,
    ) -> str:
        """Body.block() for run_graph(): while build(*arguments) gives the results, this emitter writes into the region.

        repeats: the region is a loop's, where what draws random numbers or raises errors has no form.
        """
        draws, checks = self.draws, len(self.checks)
        given, made = self.open_block(list(kinds)), []
        try:
            made = list(build(*given))
            require(not repeats or self.draws == draws, "draws random numbers in a loop, which would repeat them")
            require(len(self.checks) == checks, "calls in a branch or loop what can fail: linear algebra, assertions")
        finally:
            text = self.close_block(made)
        return text

    # ---- the walk ---------------------------------------------------------------------------------------------

    def run_graph(self, graph: fx.GraphModule, arguments: Sequence[Any]) -> list[Any]:
        """The results of a graph that an op of this one holds, of Values and numbers. Raises as run_node() does."""
        values: dict[fx.Node, Any] = {}
        given = iter(arguments)
        for node in graph.graph.nodes:
            if node.op == "placeholder":
                values[node] = next(given)
            elif node.op == "get_attr":
                values[node] = self.attribute(graph, node)
            elif node.op == "call_function":
                values[node] = self.run_node(node, values)
            elif node.op == "output":
                results = node.args[0]
                listed = results if isinstance(results, (tuple, list)) else (results,)
                return [values[each] if isinstance(each, fx.Node) else each for each in listed]
            else:
                raise refusal(node, f"is a {node.op}, which is not an op of ATen's")
        raise AssertionError("a graph without results")

    def attribute(self, graph: fx.GraphModule, node: fx.Node) -> Any:
        """A tensor that a graph holds: in the program where it is small, else an input of it. A graph as it is."""
        target: Any = graph
        for part in str(node.target).split("."):
            target = getattr(target, part)
        if not isinstance(target, torch.Tensor):
            return target
        if target.numel() <= 16:
            return self.constant(target)
        self.attributes.append(target)
        value = Value(f"%c{len(self.attributes)}", tuple(target.shape), target.dtype)
        self.heads.append(f"{value.name}: {value.type}")
        return value

    def spec(self, meta: Any) -> Any:
        """Spec of a traced tensor, or of each of several; numbers and None as they are."""
        if isinstance(meta, torch.Tensor):
            strides = () if meta.is_sparse else tuple(self.concrete(step) for step in meta.stride())
            return Spec(tuple(self.concrete(size) for size in meta.shape), meta.dtype, strides)
        if isinstance(meta, (list, tuple)):
            return tuple(self.spec(each) for each in meta)
        return meta

    def traced(self, node: fx.Node) -> Any:
        """spec() of a node's result; of what torch's partitioner made without tracing it, by what reads its parts."""
        if _is_saved_state(node):  # whose size torch leaves open
            return Spec((torch.get_rng_state().numel(),), torch.uint8, (1,))
        if "val" in node.meta:
            return self.spec(node.meta["val"])
        parts = {user.args[1]: self.traced(user) for user in node.users if user.target is operator.getitem}
        return tuple(parts.get(i) for i in range(max(parts) + 1)) if parts else None

    def run_node(self, node: fx.Node, values: Mapping[fx.Node, Any]) -> Any:
        """The values of one call. Raises NoDeviceForm for an op, or a dtype, without a form on the device."""
        arguments = fx.node.map_arg(node.args, lambda each: values[each])
        keywords = fx.node.map_arg(node.kwargs, lambda each: values[each])
        if node.target is operator.getitem:
            return arguments[0][arguments[1]]
        if not _holds_value((arguments, keywords)) and not isinstance(
            node.meta.get("val"), (torch.Tensor, tuple, list)
        ):
            return node.target(*_plain(arguments), **_plain(keywords))  # arithmetic on sizes
        if node.target in _SIZES:
            return _SIZES[node.target](*arguments)
        where = source_of(node)
        self.location = f' loc("{where[0]}":{where[1]}:1)' if where and '"' not in where[0] else ""
        place = elsewhere(node)
        if place:
            raise refusal(
                node, f"gives a tensor on {place}, where torch.compile's neuron takes those of the CPU", "torch.device"
            )
        out = self.traced(node)
        if isinstance(out, Spec) and _takes_numbers_only(node, arguments, keywords):
            return self.constant(_evaluated(node, arguments, keywords).to(out.dtype).expand(out.shape))
        for each in out if isinstance(out, tuple) else (out,):
            if isinstance(each, Spec) and each.dtype not in ELEMENTS:
                raise refusal(node, f"gives {each.dtype}, of which a device has no form", "torch.type")
        rule = rule_of(node.target) or self.rules.get(schema_name(node))
        if rule is None:
            raise refusal(node, "has no form on the device")
        if node.target in memory.OPS:
            arguments = (self._as_in_memory(node, arguments[0]), *arguments[1:])
        parts = {user.args[1] if user.target is operator.getitem else None for user in node.users}
        self.read = None if None in parts else {part for part in parts if isinstance(part, int)}
        try:
            made = rule(self, out, *arguments, **keywords)
        except NotModelled as error:  # C++'s rules know the base alone
            raise NoDeviceForm(
                f"{name_of(node)} {error.message}", label=error.label, hint=error.hint, **place_of(node)
            ) from None
        self._check(node, out, made)
        return made

    def _as_in_memory(self, node: fx.Node, value: Value) -> Value:
        """What an op takes that counts places in memory, in the order of the traced memory."""
        traced = node.args[0].meta["val"]
        order = memory.order_of(self.spec(traced), self.concrete(traced.storage_offset()))
        if order is None or (node.target in memory.WRITERS and node.args[0] is not memory.owner_of(node.args[0])):
            raise refusal(node, "reads memory that holds more than the tensor's elements", "torch.memory")
        return value if node.target in memory.WRITERS else self.transpose(value, order)

    def _check(self, node: fx.Node, out: Any, made: Any) -> None:
        wanted = out if isinstance(out, tuple) else (out,)
        given = made if isinstance(out, tuple) else (made,)
        for spec, value in zip(wanted, given, strict="val" in node.meta):
            if (
                isinstance(spec, Spec)
                and value is not None
                and (value.shape, value.dtype) != (spec.shape, spec.dtype)
            ):
                raise AssertionError(
                    f"the rule of {name_of(node)} gave {value.type}, torch {type_text(spec.shape, spec.dtype)}"
                )


def _is_saved_state(node: fx.Node) -> bool:
    if node.target is not operator.getitem or node.args[1] != 0:
        return False
    return node.args[0].target is rng_prims.run_and_save_rng_state


def _is_token(node: fx.Node) -> bool:
    """What orders effects (ops/effects.py), not a value."""
    effects = torch.ops.higher_order.with_effects
    return bool(node.users) and all(user.target is effects and user.args[0] is node for user in node.users)


def elsewhere(node: fx.Node) -> str:
    """A device other than the CPU and a NeuronCore that a result of a node is on, such as meta; or nothing."""
    value = node.meta.get("val")
    parts = value if isinstance(value, (tuple, list)) else (value,)
    kinds = [part.device.type for part in parts if isinstance(part, torch.Tensor)]
    return next((kind for kind in kinds if kind not in ("cpu", "neuron")), "")


def _first_reader(node: fx.Node) -> dict[str, Any]:
    return next((found for user in node.users if (found := place_of(user))), {})


def _holds_value(tree: Any) -> bool:
    if isinstance(tree, Value):
        return True
    if isinstance(tree, (tuple, list)):
        return any(map(_holds_value, tree))
    return isinstance(tree, Mapping) and any(map(_holds_value, tree.values()))


def _takes_numbers_only(node: fx.Node, arguments: Any, keywords: Any) -> bool:
    """Whether every tensor that an op takes is a Python number: torch traces `1j` in `(1j * x)`'s gradient as one."""
    schema = getattr(node.target, "_schema", None)
    if schema is None or _holds_value((arguments, keywords)):
        return False
    names = {each.name for each in schema.arguments if isinstance(each.type, torch.TensorType)}
    given = dict(zip((each.name for each in schema.arguments), arguments)) | dict(keywords)
    return any(isinstance(given.get(name), (int, float, complex)) for name in names)


def _evaluated(node: fx.Node, arguments: Any, keywords: Any) -> torch.Tensor:
    """The op's result, by torch, of numbers that are known now."""
    taken = {each.name for each in node.target._schema.arguments if isinstance(each.type, torch.TensorType)}

    def tensor(name: str, value: Any) -> Any:
        is_number = name in taken and isinstance(value, (int, float, complex))
        return torch.scalar_tensor(value, dtype=torch.result_type(value, value)) if is_number else value

    positional = [tensor(each.name, value) for each, value in zip(node.target._schema.arguments, arguments)]
    return node.target(*positional, **{name: tensor(name, value) for name, value in keywords.items()})


def _plain(tree: Any) -> Any:
    if isinstance(tree, tuple):
        return tuple(map(_plain, tree))
    if isinstance(tree, Mapping):
        return {key: _plain(each) for key, each in tree.items()}
    return tree


_SIZES: dict[Any, Callable[..., int]] = {
    torch.ops.aten.sym_size.int: lambda value, axis: value.shape[axis],
    torch.ops.aten.sym_numel.default: lambda value: prod(value.shape),
}


def emit(
    graph: fx.GraphModule,
    arguments: Sequence[Any],
    concrete: Callable[[Any], int],
    name: str = "graph",
    names: Mapping[str, str] | None = None,
    rules: Mapping[str, Rule] = MappingProxyType({}),
    holds_masks: bool = False,
) -> Emitted:
    """The graph for arguments of these sizes.

    arguments: Spec of a tensor; a tensor that becomes a constant; a number of a symbolic size; None. names: of
    placeholders, which their arguments and constants carry in the text. rules: beside those of the registry, by
    the name of an op. holds_masks: every run looks at whether masks choose as many elements as there are for them.
    Raises NoDeviceForm, which names op and line.
    """
    from opentrn.torch import ops  # noqa: F401  (fills RULES)

    memory.read_owners(graph)
    emitter = Emitter(concrete, rules)
    emitter.holds_masks = holds_masks
    values: dict[fx.Node, Any] = {}
    heads = emitter.heads
    taken: list[int] = []
    result_node, places = None, 0
    for node in graph.graph.nodes:
        if node.op == "placeholder":
            number, places = places, places + 1
            given = arguments[number]
            if place := elsewhere(node):
                raise NoDeviceForm(
                    f"input {node.name} is on {place}: torch.compile's neuron takes tensors of the CPU, as .cpu() "
                    "gives them",
                    label="torch.device",
                    **_first_reader(node),
                )
            if _is_token(node):  # torch's runtime gives None for it
                values[node] = None
            elif isinstance(given, Spec):
                if given.dtype not in ELEMENTS:
                    why = f"input {node.name} is {given.dtype}, of which a device has no form"
                    raise NoDeviceForm(why, label="torch.type", **_first_reader(node))
                value = Value(f"%a{number}", given.shape, given.dtype)
                called = f' {{onnx.name = "{names[node.name]}"}}' if names and node.name in names else ""
                heads.append(f"{value.name}: {value.type}{called}")
                taken.append(number)
                values[node] = value
            elif isinstance(given, torch.Tensor):
                emitter.location = f' loc("{names[node.name]}")' if names and node.name in names else ""
                values[node] = emitter.constant(given)
                emitter.location = ""
            else:
                values[node] = given
        elif node.op == "get_attr":
            values[node] = emitter.attribute(graph, node)
        elif node.op == "call_function":
            values[node] = emitter.run_node(node, values)
        elif node.op == "output":
            result_node = node
        else:
            raise refusal(node, f"is a {node.op}, which is not an op of ATen's")
    assert result_node is not None
    results, outputs = _results(emitter, graph, result_node, values)
    checks = [
        Check(number, each.name, each.is_matrix, each.is_assertion)
        for number, each in enumerate(emitter.checks, len(outputs))
    ]
    outputs += [each.value for each in emitter.checks]
    if emitter.state is not None:
        heads.append(f"%state: {emitter.state.type}")
    types = ", ".join(value.type for value in outputs)
    lines = [
        f"module @{name} {{",
        f"func.func public @main({', '.join(heads)}) -> ({types}) {{",
        *emitter.lines,
        f"return {', '.join(value.name for value in outputs)} : {types}" if outputs else "return",
        "}",
        "}",
        "",
    ]
    specs = [Spec(value.shape, value.dtype) for value in outputs]
    devices = _devices(result_node, results, len(outputs))
    return Emitted(
        "\n".join(lines), taken, results, specs, emitter.state is not None, emitter.attributes, checks, devices
    )


def _devices(node: fx.Node, results: list[Result], count: int) -> list[torch.device]:
    """Where each output of the program is to be: where torch traced it."""
    places = [torch.device("cpu")] * count
    given = node.args[0]
    for each, row in zip(given if isinstance(given, (tuple, list)) else (given,), results):
        traced = each.meta.get("val") if isinstance(each, fx.Node) else None
        if row.program >= 0 and isinstance(traced, torch.Tensor):
            places[row.program] = traced.device
    return places


def _results(
    emitter: Emitter, graph: fx.GraphModule, node: fx.Node, values: Mapping[fx.Node, Any]
) -> tuple[list[Result], list[Value]]:
    places = {
        each: number for number, each in enumerate(n for n in graph.graph.nodes if n.op == "placeholder")
    }
    outputs: list[Value] = []
    number_of: dict[str, int] = {}
    memory_of: dict[int, Any] = {}  # by number: what came first; results of one value share memory where torch's do
    results = []
    given = node.args[0]
    for each in given if isinstance(given, (tuple, list)) else (given,):
        value = values[each] if isinstance(each, fx.Node) else each
        if isinstance(each, fx.Node) and each in places:
            results.append(Result(argument=places[each]))
        elif isinstance(value, Value):
            if value.name not in number_of:
                number_of[value.name] = len(outputs)
                outputs.append(value)
            number = number_of[value.name]
            held = memory_of.setdefault(number, memory.storage_of(each))
            results.append(Result(number, spec=emitter.traced(each), is_copy=held != memory.storage_of(each)))
        else:
            results.append(Result(other=value))
    return results, outputs
