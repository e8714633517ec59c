"""Elements of a kernel's outputs that nothing wrote: found by the masks of written bytes, told as warnings."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from opentrn import _core, errors
from opentrn.settings import environment

UNWRITTEN_ENV = "OPENTRN_UNWRITTEN"
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


@dataclass(frozen=True)
class UnwrittenOutput:
    """`number`: of the output among all that the kernel returns, from 0; `name`: of its tensor, may be empty.

    `count` elements were not written; the one at index `first` is the first and reads as `value`. `made`: (file,
    line, function) where the kernel made the tensor; `moved`: the copy that carried unwritten elements into it.
    """

    number: int
    name: str
    dtype: str
    shape: tuple[int, ...]
    count: int
    first: tuple[int, ...]
    value: str
    made: tuple[str, int, str] | None
    moved: str

    @property
    def error(self) -> errors.NkiValidationError:
        """As OPENTRN_UNWRITTEN=error raises it."""
        elements = math.prod(self.shape)
        name = f" '{self.name}'" if self.name else ""
        return errors.NkiValidationError(
            f"nothing wrote {self.count} of the {elements} elements of output {self.number}{name}, {self.dtype} "
            f"{list(self.shape)}: the first is {list(self.first)} and reads as {self.value}",
            label="kernel.unwritten",
            hint="write the whole output, or look at the part that was written only",
            location=errors.SourceLocation(*self.made) if self.made else None,
            notes=f"\n    {self.moved}" if self.moved else "",
        )

    @property
    def text(self) -> str:
        """As the warning says it."""
        return self.error.lines()


def tell(machines: list[Any], returned: Any) -> None:
    """Warn of every output of a launch that is not wholly written, or raise; and keep them with its first machine.

    OPENTRN_UNWRITTEN is "warn", "error" or "off".
    """
    what = environment.of_results(UNWRITTEN_ENV)
    if what == "off":
        return
    leaves = list(_leaves(returned))
    examined = [_examine(number, leaf) for number, leaf in enumerate(leaves)]
    machines[0].unwritten_outputs = outputs = [output for output in examined if output is not None]
    _refuse_outputs_without_a_store(outputs)
    found = [output.error for output in outputs]
    if not leaves and (last := _core.last_without_effect(machines)) is not None:
        found.append(_nothing_left(errors.SourceLocation(*last)))
    for error in found:
        if what == "error":
            raise error
        warnings.warn(errors.UnwrittenOutputWarning(error.lines()), stacklevel=4)


def _refuse_outputs_without_a_store(outputs: list[UnwrittenOutput]) -> None:
    """A release that documents it refuses an output that no instruction writes at all."""
    from opentrn import strict

    release = strict.current()
    if release is None:
        return
    for rule in strict.rules_of(release, "no_output"):
        for output in outputs:
            if output.count == math.prod(output.shape):
                place = errors.SourceLocation(*output.made[:2]) if output.made else None
                raise strict.StrictRefusal(rule, release, f"nothing writes output {output.number}", place)


def _nothing_left(last: errors.SourceLocation) -> errors.NkiValidationError:
    """last: where the kernel's last instruction stands."""
    return errors.NkiValidationError(
        "the kernel returns nothing and writes none of its arguments: nothing is left of what it computes",
        label="kernel.unwritten",
        hint="return the tensor in shared HBM that holds the result",
        location=last,
        notes=" (its last instruction)",
    )


def tell_of_model(rows: list[tuple]) -> None:
    """As tell(), for results of a compiled model that a kernel or a custom operator in it left unwritten.

    rows: (number, name, element type, shape, elements not written, the first of them row-major, where what
    computes it stands, who left it out) of an output each.
    """
    what = environment.of_results(UNWRITTEN_ENV)
    for number, name, element, shape, count, first, made, moved in rows if what != "off" else ():
        index: list[int] = []
        for size in reversed(shape):
            first, place = divmod(first, size)
            index.insert(0, place)
        value = "nan" if element.startswith(("f", "bf")) else "all ones"
        output = UnwrittenOutput(number, name, element, tuple(shape), count, tuple(index), value, made, moved)
        if what == "error":
            raise output.error.restated(label="model.unwritten")
        warnings.warn(errors.UnwrittenOutputWarning(output.text), stacklevel=3)


def of_launch(machines: list[Any]) -> list[UnwrittenOutput]:
    """What tell() found; nothing for a launch without values."""
    return getattr(machines[0], "unwritten_outputs", [])


def _leaves(returned: Any) -> Iterator[Any]:
    if isinstance(returned, dict):
        returned = list(returned.values())
    if isinstance(returned, (tuple, list)):
        for item in returned:
            yield from _leaves(item)
    elif returned is not None:
        yield returned


def _examine(number: int, leaf: Any) -> UnwrittenOutput | None:
    # A result of NKI 0.1 is an array already; it names the tensor that it came from.
    tensor = getattr(leaf, "tensor", leaf)
    if not isinstance(tensor, _core.NkiTensor) or not tensor.buffer.is_hbm or tensor.is_indirect():
        return None
    found = _core.unwritten_elements(tensor)
    if found is None:
        return None
    count, first, made, moved = found
    if made is not None and made[0].startswith(_PACKAGE):
        made = None  # a tensor of NKI 0.1 that nothing touched is made when its values are asked for
    value = str(tensor.numpy()[tuple(first)])
    shape = tuple(tensor.shape)
    return UnwrittenOutput(
        number, tensor.name or "", str(tensor.dtype), shape, count, tuple(first), value, made, moved
    )
