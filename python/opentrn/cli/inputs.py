"""Inputs of a model on the command line: those that are given, and those that are drawn, which is said."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from opentrn.cli import style as cli_style

_VALUE_LENGTH_MAX = 24


@dataclass(frozen=True)
class Inputs:
    """One array per input of a model. `drawn`: names of those that nobody gave; `deciding`: of these the ones that
    decide what is computed (a branch, how often a loop runs), with the value that each got.
    """

    arrays: list[np.ndarray]
    drawn: tuple[str, ...] = ()
    deciding: tuple[tuple[str, str], ...] = ()

    def facts(self) -> dict[str, Any]:
        """For JSON."""
        return {"inputs_drawn": list(self.drawn), "inputs_deciding": dict(self.deciding)}

    def text(self) -> str:
        """What was drawn; empty for nothing."""
        if not self.drawn:
            return ""
        lines = [
            f"inputs: seeded random numbers for {', '.join(self.drawn)} (--input NAME=FILE.npy or NAME=VALUE for yours)"
        ]
        if self.deciding:
            lines.append(f"  {self._deciding_text()}")
        return "\n".join(lines)

    def tell(self) -> None:
        """On stderr what was drawn."""
        if text := self.text():
            print(cli_style.fitted(text, sys.stderr), file=sys.stderr)

    def _deciding_text(self) -> str:
        rows = ", ".join(f"{name}={value}" for name, value in self.deciding)
        given = " ".join(f"-i {name}=VALUE" for name, _ in self.deciding)
        return (
            f"of these {rows} decide which branches are taken or how often loops run: {given} for your case"
        )

    @contextmanager
    def explain_failures(self) -> Iterator[None]:
        """Adds to what the body raises that a drawn value may have led there."""
        try:
            yield
        except Exception as error:
            if self.deciding and error.args and isinstance(error.args[0], str):
                rows = " and ".join(f"{name}={value}" for name, value in self.deciding)
                given = " ".join(f"-i {name}=VALUE" for name, _ in self.deciding)
                note = (
                    f"\n    {rows} was drawn at random and chose the branch that led here\n    try: {given}"
                )
                error.args = (error.args[0] + note, *error.args[1:])
            raise


def inputs_of(model: Any, given: Sequence[str], sizes: dict[str, int] | None = None) -> Inputs:
    """One array per input: those given as "name=value" or "number=value", others seeded normal numbers.

    sizes: of the open dimensions of a model with several programs, for inputs that are not given; those that are go
    before, the largest program's sizes come last.
    """
    from opentrn.cli.kernel_file import UsageError, given_inputs, read_value

    values: dict[int, Any] = {}
    ports = model.inputs
    names = {port.name: number for number, port in enumerate(ports)}

    def is_input(key: str) -> bool:
        return key in names or (key.isdecimal() and int(key) < len(ports))

    form = f"NAME=FILE.npy or NAME=VALUE; the model's inputs: {', '.join(names) or 'none'}"
    for key, value in given_inputs(given, is_input, form):
        number = names[key] if key in names else int(key)
        if number in values:
            raise UsageError(f"--input {key}={value}: input {number} is given twice", label="cli.input")
        values[number] = read_value(value, f"input {key}")
    if sizes is not None:
        sizes = dict(sizes)
        for row in model.dimensions:
            for number, axis in row.inputs:
                if number in values and np.ndim(values[number]) > axis:
                    sizes[row.name] = np.shape(values[number])[axis]
        ports = model.inputs_for(sizes)
    random = np.random.default_rng(0)
    arrays = [values[i] if i in values else _random(port, random) for i, port in enumerate(ports)]
    drawn = [number for number in range(len(ports)) if number not in values]
    deciding = [number for number in model.control_inputs if number in drawn]
    return Inputs(
        arrays,
        tuple(ports[number].name for number in drawn),
        tuple((ports[number].name, _value_text(arrays[number])) for number in deciding),
    )


def _value_text(array: np.ndarray) -> str:
    if array.size == 1:
        return str(array.reshape(-1)[0].item())
    text = np.array2string(array, separator=",", threshold=4, edgeitems=1).replace("\n", "")
    return text if len(text) <= _VALUE_LENGTH_MAX else f"an array of {'x'.join(map(str, array.shape))}"


def _random(port: Any, random: np.random.Generator) -> np.ndarray:
    if port.dtype.kind in "biu":
        return random.integers(0, 2, port.shape).astype(port.dtype)
    return random.standard_normal(port.shape).astype(port.dtype)
