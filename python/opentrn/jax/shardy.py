"""Shardy's passes on a program that JAX hands to the plugin: how its arrays are spread, and what one device runs.

The plugin starts this file as a child process (Shardy ends its process on what it does not support) and keeps it:
`python shardy.py` reads requests on stdin and answers on stdout. All numbers are 8 bytes, little-endian.

    request:  size, a module in StableHLO's portable bytecode with sdy ops and attributes in it
    answer:   frames of 1 byte kind, size, content; the last one is `d`
              s   a line per argument and result of main: `in` or `out`, a space, its #sdy.sharding or nothing;
                  the last one counts
              u   nothing: devices do not divide some dimension that they cut, or parts of axes cut it; `l` has it whole
              l   the module of one device, in StableHLO's portable bytecode: local shapes, collectives
              e   why the next frame that one would expect is missing
              d   done

Needs jaxlib, whose MLIR has the passes, and the library of opentrn beside it. Source of the pass names:
shardy/dialect/sdy/transforms.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import struct
import sys
from collections.abc import Iterator
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, ModuleSpec
from pathlib import Path
from typing import Any, BinaryIO

# StableHLO's version of what goes back: the reader takes up to 1.20.
VERSION = "1.16.0"
PROPAGATE = ("sdy-propagation-pipeline",)
TO_COLLECTIVES = (
    "func.func(sdy-insert-explicit-reshards{enable-full-version=true})",
    "func.func(sdy-reshard-to-collectives)",
)
# Ops that Shardy cannot yet split get their operands whole; so many rounds of finding them.
ROUNDS_MAX = 12
# Rounds of making axes of parts of axes.
SPLITS_MAX = 4
_CALLEE = {"func.call": "callee", "stablehlo.composite": "decomposition"}
_NUMBER = "opentrn.op"
_COMBINES = {f"stablehlo.{name}" for name in ("add", "multiply", "maximum", "minimum", "and", "or", "xor")}
# Start values that count once however often they are taken; of the other kinds all do.
_IDENTITY = {
    "stablehlo.add": re.compile(r"dense<-?0(\.0+e\+00)?>"),
    "stablehlo.multiply": re.compile(r"dense<1(\.0+e\+00)?>"),
}
_HELD = "opentrn.held"
_RULE = "sdy.sharding_rule"
# Decompositions of matrices (src/graph/solver_call.h), whose leading dimensions are batches.
_SOLVERS = {f"opentrn.{name}" for name in ("geqrf", "ormqr", "getrf", "eigh", "svd")}
# In MLIR's text of shardings: an axis and its size, a name, a part of an axis.
_AXIS = re.compile(r'"([^"]+)"=(\d+)')
_NAME = re.compile(r'"([^"]+)"')
_SUB_AXIS = re.compile(r'"([^"]+)":\((\d+)\)(\d+)')
_PER_VALUE = re.compile(r"<@[^,>]+, \[(.*?)\](?:, replicated=\{[^}]*\})?>")
_DIM = re.compile(r"\{([^}]*)\}")
_NAMED = re.compile(rf"{_NUMBER} = (\d+)")


class PartsOfAxes(ValueError):
    """A sharding by parts of axes, which jaxlib 0.10.2 gets wrong; `parts` are (axis, before, size)."""

    def __init__(self, parts: set[tuple[str, int, int]]) -> None:
        super().__init__("a part of an axis in a sharding")
        self.parts = parts


def _native() -> Any:
    """The module opentrn._shardy of the C++ core's library, which lies one folder up: this file runs by itself."""
    library = Path(__file__).parents[1] / f"_core{EXTENSION_SUFFIXES[0]}"
    loader = ExtensionFileLoader("opentrn._shardy", str(library))
    made = loader.create_module(ModuleSpec(loader.name, loader, origin=str(library)))
    loader.exec_module(made)
    return made


class Shardy:
    """An MLIR context with everything that JAX's programs are made of."""

    def __init__(self) -> None:
        from jaxlib.mlir import ir, passmanager
        from jaxlib.mlir._mlir_libs import _jax_mlir_ext
        from jaxlib.mlir.dialects import sdy, stablehlo

        self._native = _native()
        self._ir, self._passmanager, self._sdy, self._stablehlo = ir, passmanager, sdy, stablehlo
        registry = ir.DialectRegistry()
        _jax_mlir_ext.register_dialects(registry)  # and the passes with them
        self.context = ir.Context()
        self.context.append_dialect_registry(registry)
        self.context.load_all_available_dialects()
        sdy.register_dialect(self.context)
        stablehlo.register_dialect(self.context)

    def read(self, code: bytes):
        """The module, main alone: its calls inlined. ValueError where it is none."""
        module = self._stablehlo.deserialize_portable_artifact(self.context, code)
        functions = {op.name.value: op for op in module.body.operations if op.operation.name == "func.func"}
        with self.context:
            while calls := [op for op in walk(functions["main"].operation) if op.name in _CALLEE]:
                for call in calls:
                    callee = functions[self._ir.FlatSymbolRefAttr(call.attributes[_CALLEE[call.name]]).value]
                    self._inline(call, callee.regions[0].blocks[0])
        for name, function in functions.items():
            if name != "main":
                function.operation.erase()
        with self.context:
            for op in walk(module.operation):
                if _is_solver(op):
                    op.attributes[_RULE] = self._ir.Attribute.parse(self._rule_of(op))
        return module

    def _rule_of(self, op) -> str:
        """Of a decomposition of matrices."""
        return self._native.solver_rule(list(map(_shape_of, op.operands)), list(map(_shape_of, op.results)))

    def _inline(self, call, body) -> None:
        returned = self._copy(body, call.operands, self._ir.InsertionPoint(call))
        for result, value in zip(call.results, returned, strict=True):
            result.replace_all_uses_with(value)
        call.erase()

    def _copy(self, body, arguments, to) -> list:
        """Copies of a block's ops, with these arguments; what the copies return."""
        here = dict(zip(body.arguments, arguments, strict=True))
        for op in body.operations:
            if op.operation.name in ("func.return", "sdy.return"):
                return [here[value] for value in op.operands]
            copy = op.operation.clone(to)
            for inner in (copy, *walk(copy)):
                for i, operand in enumerate(inner.operands):
                    if operand in here:
                        inner.operands[i] = here[operand]
            here |= zip(op.operation.results, copy.results, strict=True)
        raise ValueError("a region without a return")

    def manual_alone(self, module):
        """One device's module where main is one manual computation: its body, as it stands. Else None.

        So programs of `shard_map` need no pass, and may leave sums open between devices.
        """
        main = next(op.operation for op in module.body.operations if op.operation.name == "func.func")
        block = main.regions[0].blocks[0]
        ops = [op.operation for op in block.operations]
        if [op.name for op in ops] != ["sdy.manual_computation", "func.return"]:
            return None
        manual, end = ops
        body = manual.regions[0].blocks[0]
        whole = (
            list(manual.operands) == list(block.arguments)
            and list(end.operands) == list(manual.results)
            and set(_NAME.findall(str(manual.attributes["manual_axes"]))) == set(self._axis_sizes(module))
            and _are_equal(self._stated(manual, "in_shardings"), _given_shardings(main, "arg_attrs"))
            and _are_equal(self._stated(manual, "out_shardings"), _given_shardings(main, "res_attrs"))
            and all(op.name == "sdy.return" or not op.name.startswith("sdy.") for op in walk(manual))
        )
        return self._module_of(body, manual.location) if whole else None

    def _stated(self, manual, which: str) -> list:
        return list(self._sdy.TensorShardingPerValueAttr(manual.attributes[which]).shardings)

    def _module_of(self, body, location):
        from jaxlib.mlir.dialects import func

        with self.context, location:
            module = self._ir.Module.create()
            returned = list(body.operations)[-1].operands
            types = [value.type for value in body.arguments], [value.type for value in returned]
            with self._ir.InsertionPoint(module.body):
                main = func.FuncOp("main", types)
            entry = main.add_entry_block()
            at_end = self._ir.InsertionPoint(entry)
            values = self._copy(body, entry.arguments, at_end)
            with at_end:
                func.ReturnOp(values)
        self.apply(module, "sdy-drop-sharding-and-mesh")
        return module

    def apply(self, module, *passes: str, verify: bool = True) -> None:
        """Runs passes in place. jaxlib's MLIRError with Shardy's message where one fails."""
        with self.context:
            for name in passes:
                manager = self._passmanager.PassManager.parse(f"builtin.module({name})")
                manager.enable_verifier(verify)
                manager.run(module.operation)

    def axes(self, module) -> Any:
        """Its mesh's axes, to be cut (src/spmd/split_axes.h)."""
        return self._native.SplitAxes(self._axis_sizes(module))

    def with_axes(self, module, axes: Any):
        """The module with cut axes, which mean the same devices in the same order."""
        text = module.operation.get_asm(
            binary=False, enable_debug_info=True, print_generic_op_form=True, large_elements_limit=None
        )
        with self.context:
            return self._ir.Module.parse(axes.applied(text))

    def parts_of_axes(self, module) -> set[tuple[str, int, int]]:
        return _parts_of_axes(module.operation.get_asm(large_elements_limit=8, print_generic_op_form=True))

    def even_out(self, module, axes: Any) -> bool:
        """Takes from Shardy's shardings what jaxlib 0.10.2 cannot split: uneven dimensions and parts of axes.

        Those dimensions stay whole; sdy-insert-explicit-reshards puts exchanges around the ops. Arguments and results
        of main lose pieces of cut axes too: JAX knows whole axes only. Whether an op's sharding is another one now.
        """
        sizes = self._axis_sizes(module)
        changed = False
        with self.context:
            for op in walk(module.operation):
                if "sdy.sharding" in op.attributes and op.name != "func.func":
                    old = self._sdy.TensorShardingPerValueAttr(op.attributes["sdy.sharding"]).shardings
                    old = [self._sdy.TensorShardingAttr(each) for each in old]
                    new = [
                        self._evened(each, _shape_of(value), sizes) for each, value in zip(old, op.results)
                    ]
                    changed |= any(a is not b for a, b in zip(new, old))
                    if len(new) == len(old):
                        op.attributes["sdy.sharding"] = self._sdy.TensorShardingPerValueAttr.get(new)
            self._even_out_ends(module, sizes, axes)
        return changed

    def _axis_sizes(self, module) -> dict[str, int]:
        meshes = [op for op in walk(module.operation) if op.name == "sdy.mesh"]
        return {
            name: int(size) for mesh in meshes for name, size in _AXIS.findall(str(mesh.attributes["mesh"]))
        }

    def _even_out_ends(self, module, sizes: dict[str, int], axes: Any) -> None:
        main = next(op for op in module.body.operations if op.operation.name == "func.func")
        for field, kinds in (("arg_attrs", main.type.inputs), ("res_attrs", main.type.results)):
            if field not in main.attributes:
                continue
            given = []
            for attributes, kind in zip(main.attributes[field], kinds, strict=True):
                named = {each.name: each.attr for each in attributes}
                if "sdy.sharding" in named and hasattr(kind, "shape"):
                    sharding = self._sdy.TensorShardingAttr(named["sdy.sharding"])
                    named["sdy.sharding"] = self._evened(sharding, list(kind.shape), sizes, axes)
                given.append(self._ir.DictAttr.get(named))
            main.attributes[field] = self._ir.ArrayAttr.get(given)

    def _is_uneven(self, op, sizes: dict[str, int]) -> bool:
        """Whether an exchange of Shardy's own makes parts of which some are smaller."""
        sharding = self._sdy.TensorShardingAttr(op.attributes["out_sharding"])
        return any(self._uneven(sharding, _shape_of(op.results[0]), sizes))

    def _uneven(
        self, sharding, shape: list[int], sizes: dict[str, int], whole_axes: Any = None
    ) -> list[bool]:
        """By dimension: whether devices do not divide it, or parts of axes cut it; of `whole_axes`, pieces too."""
        found = []
        for size, dim in zip(shape, sharding.dimension_shardings):
            axes = [self._sdy.AxisRefAttr(axis) for axis in self._sdy.DimensionShardingAttr(dim).axes]
            parts = math.prod(sizes[axis.name] for axis in axes)
            in_pieces = whole_axes is not None and not whole_axes.are_whole([axis.name for axis in axes])
            in_parts = any(axis.sub_axis_info is not None for axis in axes)
            found.append(in_pieces or in_parts or size % parts != 0)
        return found

    def _evened(self, sharding, shape: list[int], sizes: dict[str, int], whole_axes: Any = None):
        """A sharding of `shape` with its uneven dimensions whole."""
        uneven = self._uneven(sharding, shape, sizes, whole_axes)
        if not any(uneven):
            return sharding
        dims = [
            self._sdy.DimensionShardingAttr.get([], self._sdy.DimensionShardingAttr(dim).is_closed)
            if is_uneven
            else dim
            for dim, is_uneven in zip(sharding.dimension_shardings, uneven)
        ]
        return self._sdy.TensorShardingAttr.get(
            sharding.mesh_or_ref, dims, list(sharding.replicated_axes), list(sharding.unreduced_axes)
        )

    def shardings(self, module) -> str:
        """A line per argument and result of main, the mesh written out."""
        with self.context:
            copy = self._ir.Module.parse(module.operation.get_asm(binary=False, enable_debug_info=False))
        self.apply(copy, "sdy-inline-meshes")
        main = next(
            op for op in copy.body.operations if op.operation.name == "func.func" and op.name.value == "main"
        )
        lines = []
        for kind, attributes in (("in", main.arguments), ("out", main.type.results)):
            field = "arg_attrs" if kind == "in" else "res_attrs"
            given = main.attributes[field] if field in main.attributes else [{}] * len(attributes)
            for each in given:
                has_one = "sdy.sharding" in each  # a DictAttr has no get()
                lines.append(f"{kind} {each['sdy.sharding']}" if has_one else f"{kind} ")
        return "\n".join(lines)

    def to_local(self, module):
        """One device's module. Ops that Shardy refuses by name are computed whole, on every device.

        jaxlib's MLIRError where that is not the way out.
        """
        with self.context:
            for number, op in enumerate(walk(module.operation)):
                op.attributes[_NUMBER] = self._ir.IntegerAttr.get(
                    self._ir.IntegerType.get_signless(64), number
                )
        whole = {_number_of(op) for op in walk(module.operation) if _is_call_for_all(op)}
        mesh = next(
            (op.attributes["sym_name"].value for op in walk(module.operation) if op.name == "sdy.mesh"), ""
        )
        for _ in range(ROUNDS_MAX):
            with self.context:
                asm = module.operation.get_asm(
                    binary=True, enable_debug_info=True
                )  # without it, no source lines
                copy = self._ir.Module.parse(asm)
            for op in [op for op in walk(copy.operation) if _number_of(op) in whole]:
                self._make_whole(op, mesh)
            for op in [op for op in walk(copy.operation) if _is_solver(op) and _number_of(op) not in whole]:
                self._join_matrices(op, mesh)
            try:
                self.apply(copy, *TO_COLLECTIVES)
                if refused := self._refuse(copy, whole) - whole:
                    whole |= refused
                    continue
                self._hold_arguments(copy)
                self.apply(copy, "sdy-convert-global-to-local", verify=False)
                self._release_arguments(copy)
                self._reduce_alike(copy)
                self.apply(copy, "sdy-drop-sharding-and-mesh")
            except self._ir.MLIRError as error:
                refused = {int(number) for number in _NAMED.findall(str(error))} - whole
                if not refused:
                    raise
                whole |= refused
                continue
            for op in walk(copy.operation):
                if _NUMBER in op.attributes:
                    del op.attributes[_NUMBER]
            return copy
        raise ValueError(f"more than {ROUNDS_MAX} rounds of ops that Shardy cannot split")

    def _hold_arguments(self, module) -> None:
        """Loops' regions read their arguments through barriers.

        sdy-convert-global-to-local of jaxlib 0.10.2 makes local what ops give, and takes arguments of regions as
        they are; release_arguments() makes these local too.
        """
        with self.context:
            for loop in [op for op in walk(module.operation) if op.name == "stablehlo.while"]:
                if "sdy.sharding" not in loop.attributes:
                    continue
                shardings = list(
                    self._sdy.TensorShardingPerValueAttr(loop.attributes["sdy.sharding"]).shardings
                )
                for region in loop.regions:
                    block = region.blocks[0]
                    with self._ir.InsertionPoint.at_block_begin(block), loop.location:
                        for argument, sharding in zip(block.arguments, shardings, strict=True):
                            held = self._stablehlo.OptimizationBarrierOp([argument]).operation
                            held.attributes["sdy.sharding"] = self._sdy.TensorShardingPerValueAttr.get(
                                [sharding]
                            )
                            held.attributes[_HELD] = self._ir.UnitAttr.get()
                            argument.replace_all_uses_except(held.results[0], held)

    def _release_arguments(self, module) -> None:
        """Undoes _hold_arguments(), with local types. Sizes of dynamic slices become local too."""
        with self.context:
            for op in list(walk(module.operation)):
                if op.name == "stablehlo.while":
                    for region in op.regions:
                        for argument, operand in zip(region.blocks[0].arguments, op.operands, strict=True):
                            argument.set_type(operand.type)
                elif op.name == "stablehlo.dynamic_slice":
                    self._cut_sizes(op)
            for held in [op for op in walk(module.operation) if _HELD in op.attributes]:
                held.results[0].replace_all_uses_with(held.operands[0])
                held.erase()
            module.operation.verify()

    def _refuse(self, module, refused: set[int | None]) -> set[int | None]:
        """Numbers of ops to be computed whole (None: an op of Shardy's own); `refused` were in earlier rounds.

        ValueError for what jaxlib 0.10.2 is known to get wrong.
        Found by JAX's own tests: exchanges of axes by collective_permute, sums that stay open between devices,
        parts of axes, sizes that devices do not divide, reductions of several arrays, constants that are cut.
        """
        text = module.operation.get_asm(large_elements_limit=8)
        for words, what in (
            ("reduced={", "sums that stay open between devices (unreduced), which jaxlib cannot split,"),
            ("sdy.collective_permute", "an exchange of axes"),
        ):
            if words in text:
                raise ValueError(f"{what} in a sharding")
        if parts := _parts_of_axes(text):
            raise PartsOfAxes(parts)
        sizes = {name: int(size) for name, size in _AXIS.findall(text)}
        whole: set[int | None] = set()
        for op in walk(module.operation):
            for value, sharding in zip(op.results, _shardings_of(op)):
                cut = [math.prod(sizes[axis] for axis in _NAME.findall(dim)) for dim in _dims_of(sharding)]
                if any(size % parts for size, parts in zip(_shape_of(value), cut)):
                    number = _number_before(op)
                    if number is None or number in refused:
                        raise ValueError("a dimension that the devices do not divide")
                    whole.add(number)
                if (
                    op.name == "sdy.constant"
                    and max(cut, default=1) > 1
                    and not op.attributes["value"].is_splat
                ):
                    whole.add(_number_of(op))
            if "out_sharding" in op.attributes and self._is_uneven(op, sizes):
                if not (readers := _readers(op) - refused):
                    raise ValueError("a dimension that the devices do not divide")
                whole |= readers
            if op.name in _CUT_DIMS and _CUT_DIMS[op.name](op):
                whole.add(_number_of(op))
            if op.name == "sdy.all_reduce":
                made = op.operands[0].owner
                if len(made.results) > 1 or (_regions_of(made) and not _is_split(made)):
                    whole.add(_number_of(made))
        return whole

    def _reduce_alike(self, module) -> None:
        """Devices' parts of a reduction are combined by its own op.

        sdy-convert-global-to-local of jaxlib 0.10.2 adds, whatever the reduction.
        """
        with self.context:
            for op in [op for op in walk(module.operation) if op.name == "stablehlo.all_reduce"]:
                made = op.operands[0].owner
                kind = _kind_of(made) if _regions_of(made) else None
                if kind in (None, "stablehlo.add"):
                    continue
                block = op.regions[0].blocks[0]
                adds, returns = (inner.operation for inner in block.operations)
                with self._ir.InsertionPoint(returns), op.location:
                    mine = self._ir.Operation.create(
                        kind, results=[block.arguments[0].type], operands=list(block.arguments)
                    )
                returns.operands[0] = mine.results[0]
                adds.erase()

    def _cut_sizes(self, op) -> None:
        """A dynamic slice of all that a device has of a dimension."""
        sizes = list(self._ir.DenseI64ArrayAttr(op.attributes["slice_sizes"]))
        local, whole = (list(value.type.shape) for value in (op.results[0], op.operands[0]))
        if any(a != b and b != c for a, b, c in zip(sizes, local, whole, strict=True)):
            raise ValueError("a dynamic slice of a dimension that is cut")
        op.attributes["slice_sizes"] = self._ir.DenseI64ArrayAttr.get(local)

    def _make_whole(self, op, mesh: str) -> None:
        """Puts reshards before an op, so that it reads and makes arrays that every device has whole.

        Whoever reads them and wants them otherwise gets a reshard from sdy-insert-explicit-reshards.
        """
        with self.context, op.location:

            def replicated(value):
                dims = ", ".join(["{}"] * len(_shape_of(value)))
                return self._ir.Attribute.parse(f"#sdy.sharding<@{mesh}, [{dims}]>")

            with self._ir.InsertionPoint(op):
                for i, operand in enumerate(list(op.operands)):
                    if isinstance(operand.type, self._ir.RankedTensorType):
                        op.operands[i] = self._sdy.ReshardOp(operand, replicated(operand)).result
            per_value = [replicated(result) for result in op.results]
            if per_value:
                op.attributes["sdy.sharding"] = self._sdy.TensorShardingPerValueAttr.get(per_value)
            elif "sdy.sharding" in op.attributes:
                del op.attributes["sdy.sharding"]

    def _join_matrices(self, op, mesh: str) -> None:
        """Puts reshards before a decomposition, so that its matrices are whole; batches stay cut as its results are."""
        made = _shardings_of(op)
        batch = len(_shape_of(op.operands[0])) - 2
        with self.context, op.location, self._ir.InsertionPoint(op):
            for i, operand in enumerate(list(op.operands)):
                rank = len(_shape_of(operand))
                cut = _dims_of(made[0])[:batch] if made else [""] * batch
                dims = ", ".join(f"{{{axes}}}" for axes in [*cut, *[""] * (rank - batch)])
                wanted = self._ir.Attribute.parse(f"#sdy.sharding<@{mesh}, [{dims}]>")
                op.operands[i] = self._sdy.ReshardOp(operand, wanted).result

    def write(self, module) -> bytes:
        for op in walk(module.operation):
            if _RULE in op.attributes:
                del op.attributes[_RULE]
        return self._stablehlo.serialize_portable_artifact(module, VERSION)


def _is_solver(op) -> bool:
    return op.name == "stablehlo.custom_call" and op.attributes["call_target_name"].value in _SOLVERS


def _is_call_for_all(op) -> bool:
    """A callback of JAX's that is made once, on whole arrays (jax_callbacks.py)."""
    if op.name != "stablehlo.custom_call" or op.attributes["call_target_name"].value != "opentrn.callback":
        return False
    return op.attributes["backend_config"].value.split(";")[1:2] == ["once"]


def _parts_of_axes(text: str) -> set[tuple[str, int, int]]:
    """Axis, size in front, size."""
    return {(axis, int(before), int(size)) for axis, before, size in _SUB_AXIS.findall(text)}


def _number_of(op) -> int | None:
    return int(op.attributes[_NUMBER]) if _NUMBER in op.attributes else None


def _given_shardings(main, which: str) -> list:
    """Of main's arguments (arg_attrs) or results (res_attrs); None where there is none."""
    if which not in main.attributes:
        return []
    found = []
    for each in main.attributes[which]:
        has_one = "sdy.sharding" in each  # a DictAttr has no get()
        found.append(each["sdy.sharding"] if has_one else None)
    return found


def _are_equal(stated: list, given: list) -> bool:
    """MLIR's attributes raise when they are compared with None."""
    same_count = len(stated) == len(given)
    return same_count and all(b is not None and a == b for a, b in zip(stated, given))


def _number_before(op) -> int | None:
    """Of the program's op that an op of Shardy's own moves the result of."""
    while _number_of(op) is None and len(op.operands) == 1 and not hasattr(op.operands[0].owner, "arguments"):
        op = op.operands[0].owner
    return _number_of(op)


def _readers(op) -> set[int | None]:
    """Of the program's ops that read what an op of Shardy's own moves."""
    readers: set[int | None] = set()
    for use in op.results[0].uses:
        number = _number_of(use.owner)
        readers |= (
            {number} if number is not None else _readers(use.owner) if len(use.owner.results) else set()
        )
    return readers


def _shardings_of(op) -> list[str]:
    """The dimensions' text of each result's sharding."""
    return _PER_VALUE.findall(str(op.attributes["sdy.sharding"])) if "sdy.sharding" in op.attributes else []


def _dims_of(sharding: str) -> list[str]:
    return _DIM.findall(sharding)


def _shape_of(value) -> list[int]:
    return list(value.type.shape) if hasattr(value.type, "shape") else []


def _regions_of(owner) -> list:
    """Of the op that makes a value; a block's argument has none."""
    return list(getattr(owner, "regions", []))


def _kind_of(op) -> str | None:
    """The one op that a reduction combines two elements with; None where it does more."""
    inner = [one.operation for one in op.regions[0].blocks[0].operations]
    simple = len(inner) == 2 and len(inner[0].operands) == 2 and len(inner[0].results) == 1
    return inner[0].name if simple and inner[0].name in _COMBINES else None


def _cut_dims(value) -> list[int]:
    """Dimensions that devices cut. Of an argument of a region all, but of a loop's, which is what the loop carries."""
    owner = value.owner
    dims = list(range(len(_shape_of(value))))
    if hasattr(owner, "arguments"):
        around = owner.owner.operation
        if around.name == "stablehlo.while":
            shardings = _shardings_of(around)
            return _cut_by(shardings[value.arg_number]) if shardings else dims
        if around.name != "func.func":
            return dims
        given = around.attributes["arg_attrs"][value.arg_number] if "arg_attrs" in around.attributes else {}
        if "sdy.sharding" not in given:
            return []
        shardings = _PER_VALUE.findall(str(given["sdy.sharding"]).replace("#sdy.sharding", ""))
        number = 0
    else:
        shardings = _shardings_of(owner)
        number = list(owner.results).index(value)
    return _cut_by(shardings[number]) if number < len(shardings) else []


def _cut_by(sharding: str) -> list[int]:
    return [d for d, axes in enumerate(_dims_of(sharding)) if _NAME.search(axes)]


def _cuts_reverse(op) -> bool:
    return bool(set(map(int, _numbers(op.attributes["dimensions"]))) & set(_cut_dims(op.results[0])))


def _cuts_update(op) -> bool:
    whole, part = _shape_of(op.operands[0]), _shape_of(op.operands[1])
    cut = {*_cut_dims(op.results[0]), *_cut_dims(op.operands[0]), *_cut_dims(op.operands[1])}
    return any(whole[d] != part[d] for d in cut)


def _cuts_gather(op) -> bool:
    """A dimension of the table of which slices take a part."""
    sizes = map(int, _numbers(op.attributes["slice_sizes"]))
    whole = _shape_of(op.operands[0])
    partly = {d for d, (size, of) in enumerate(zip(sizes, whole, strict=True)) if size != of}
    return bool(partly & set(_cut_dims(op.operands[0])))


def _cuts_window(op) -> bool:
    """A dimension along which windows are larger than one element, or move."""
    moving = set()
    for name in ("window_dimensions", "window_strides", "base_dilations", "window_dilations"):
        if name in op.attributes:
            moving |= {d for d, size in enumerate(map(int, _numbers(op.attributes[name]))) if size != 1}
    cut = {d for value in (*op.operands, *op.results) for d in _cut_dims(value)}
    return bool(moving & cut)


def _cuts_convolution(op) -> bool:
    """Anything but the batch."""
    found = re.search(r"\[([^\]]*)\]x\[[^\]]*\]->\[([^\]]*)\]", str(op.attributes["dimension_numbers"]))
    assert found is not None  # of every stablehlo.convolution
    sides = [[word.strip() for word in side.split(",")].index("b") for side in found.groups()]
    return bool(
        _cut_dims(op.operands[1])
        or set(_cut_dims(op.operands[0])) - {sides[0]}
        or set(_cut_dims(op.results[0])) - {sides[1]}
    )


def _numbers(attribute) -> list[str]:
    return re.findall(r"-?\d+", str(attribute).partition(":")[2])


# Ops that sdy-convert-global-to-local of jaxlib 0.10.2 makes local without a word where devices would have to
# exchange: whether one is such a case.
_CUT_DIMS = {
    "stablehlo.gather": _cuts_gather,
    "stablehlo.reduce_window": _cuts_window,
    "stablehlo.select_and_scatter": _cuts_window,
    "stablehlo.reverse": _cuts_reverse,
    "stablehlo.dynamic_update_slice": _cuts_update,
    "stablehlo.convolution": _cuts_convolution,
}


def _is_split(op) -> bool:
    """Whether devices can each reduce their part, start value included, and combine what they have."""
    kind = _kind_of(op)
    if op.name != "stablehlo.reduce" or kind not in _IDENTITY:
        return kind == "stablehlo.add" if op.name != "stablehlo.reduce" else kind is not None
    start = op.operands[1].owner
    return "value" in getattr(start, "attributes", {}) and bool(
        _IDENTITY[kind].match(str(start.attributes["value"]))
    )


def walk(top) -> Iterator:
    """Every op inside an op, those of its regions after it."""
    for region in top.regions:
        for block in region.blocks:
            for op in block.operations:
                yield op.operation
                yield from walk(op.operation)


def send(to: BinaryIO, kind: bytes, content: bytes = b"") -> None:
    to.write(kind + struct.pack("<Q", len(content)) + content)
    to.flush()


def answer(shardy: Shardy, code: bytes, to: BinaryIO) -> None:
    """One request. What is known goes out at once: a later pass may end the process."""
    try:
        module = shardy.read(code)
        alone = shardy.manual_alone(module)
        axes = shardy.axes(module)
        for left in reversed(range(SPLITS_MAX)):
            spread = shardy.with_axes(module, axes) if left < SPLITS_MAX - 1 else module
            shardy.apply(spread, *PROPAGATE)
            if left and not alone and axes.cut(shardy.parts_of_axes(spread)):
                module = shardy.read(code)
                continue
            uneven = shardy.even_out(spread, axes)
            send(to, b"s", shardy.shardings(spread).encode())
            if uneven:
                send(to, b"u")
            try:
                send(to, b"l", shardy.write(alone or shardy.to_local(spread)))
                break
            except PartsOfAxes as error:
                if not left or not axes.cut(error.parts):
                    raise
                module = shardy.read(code)
    except Exception as error:  # whatever it is, the caller is told and goes on without
        send(to, b"e", str(error).encode())
    send(to, b"d")


def serve(requests: BinaryIO, to: BinaryIO) -> None:
    shardy = Shardy()
    while len(size := requests.read(8)) == 8:
        (count,) = struct.unpack("<Q", size)
        answer(shardy, requests.read(count), to)


def main() -> None:
    # What MLIR prints goes to stderr; the pipe on stdout carries frames only.
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as to, contextlib.redirect_stdout(sys.stderr):
        os.dup2(sys.stderr.fileno(), 1)
        serve(sys.stdin.buffer, to)


if __name__ == "__main__":
    main()
