# Made by ./dev stubs; do not edit.
"""torch's graphs as StableHLO text."""

from collections.abc import Callable, Sequence, Set

import torch


class Value:
    """A tensor of the program."""

    def __init__(self, name: str, shape: Sequence[int], dtype: torch.dtype) -> None: ...

    @property
    def name(self) -> str: ...

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> torch.dtype: ...

    @property
    def rank(self) -> int: ...

    @property
    def type(self) -> str: ...

class Check:
    """A result that every run looks at."""

    @property
    def value(self) -> Value: ...

    @property
    def name(self) -> str: ...

    @property
    def is_matrix(self) -> bool: ...

    @property
    def is_assertion(self) -> bool: ...

class Body:
    """A function or region being written as StableHLO text."""

    def __init__(self) -> None: ...

    @property
    def lines(self) -> list[str]: ...

    @property
    def depth(self) -> int: ...

    @property
    def draws(self) -> int: ...

    @property
    def state(self) -> Value | None: ...

    @property
    def checks(self) -> list[Check]: ...

    @property
    def holds_masks(self) -> bool: ...

    @holds_masks.setter
    def holds_masks(self, arg: bool, /) -> None: ...

    @property
    def location(self) -> str: ...

    @location.setter
    def location(self, arg: str, /) -> None: ...

    @property
    def read(self) -> set[int] | None: ...

    @read.setter
    def read(self, value: Set[int] | None) -> None: ...

    def is_read(self, number: int) -> bool: ...

    def saved_state(self, count: int) -> Value: ...

    def draw_from(self, saved: Value) -> None: ...

    def resume_draws(self) -> None: ...

    def check_info(self, info: Value, name: str, is_matrix: bool) -> None: ...

    def check_that(self, condition: Value, message: str) -> None: ...

    def fresh(self) -> str: ...

    def op(self, name: str, operands: Sequence[Value], shape: Sequence[int], dtype: torch.dtype, attributes: str = '', regions: str = '') -> Value:
        """One op with one result. A name without a dialect is StableHLO's."""

    def ops(self, name: str, operands: Sequence[Value], results: Sequence[tuple[Sequence[int], torch.dtype]], attributes: str = '', regions: str = '') -> list[Value]:
        """One op with any number of results."""

    def region(self, arguments: Sequence[torch.dtype], build: Callable) -> str:
        """A region over numbers; build(body, *arguments) gives its results."""

    def block(self, arguments: Sequence[tuple[Sequence[int], torch.dtype]], build: Callable) -> str:
        """A region over tensors; it may read values of this body too."""

    def open_block(self, arguments: Sequence[tuple[Sequence[int], torch.dtype]]) -> list[Value]:
        """What this body writes until close_block() is a region's."""

    def close_block(self, results: Sequence[Value]) -> str:
        """The region's text."""

    def splat(self, value: object, dtype: torch.dtype, shape: Sequence[int] = []) -> Value:
        """A constant of one value."""

    def like(self, number: object, value: Value) -> Value:
        """A constant of a value's shape and type."""

    def constant(self, tensor: object) -> Value:
        """A tensor's values in the program."""

    def iota(self, shape: Sequence[int], dimension: int, dtype: torch.dtype) -> Value: ...

    def tensor(self, value: object, dtype: torch.dtype, shape: Sequence[int]) -> Value:
        """A Value or a number, in that type and broadcast to that shape."""

    def convert(self, value: Value, dtype: torch.dtype) -> Value: ...

    def reshape(self, value: Value, shape: Sequence[int]) -> Value: ...

    def transpose(self, value: Value, permutation: Sequence[int]) -> Value: ...

    def broadcast_in_dim(self, value: Value, shape: Sequence[int], dimensions: Sequence[int]) -> Value: ...

    def broadcast(self, value: Value, shape: Sequence[int]) -> Value: ...

    def slice_axis(self, value: Value, axis: int, start: int, limit: int, step: int = 1) -> Value: ...

    def pad(self, value: Value, low: Sequence[int], high: Sequence[int]) -> Value:
        """With zeros; negative amounts cut."""

    def concatenate(self, values: Sequence[Value], axis: int) -> Value: ...

    def unary(self, name: str, value: Value) -> Value: ...

    def binary(self, name: str, left: Value, right: Value) -> Value: ...

    def add(self, left: Value, right: Value) -> Value: ...

    def subtract(self, left: Value, right: Value) -> Value: ...

    def multiply(self, left: Value, right: Value) -> Value: ...

    def divide(self, left: Value, right: Value) -> Value: ...

    def compare(self, direction: str, left: Value, right: Value) -> Value: ...

    def select(self, condition: Value, left: Value, right: Value) -> Value: ...

    def reduce(self, combiner: str, value: Value, axes: Sequence[int], initial: object) -> Value: ...

    def dot(self, left: Value, right: Value, contract: tuple[Sequence[int], Sequence[int]], batch: tuple[Sequence[int], Sequence[int]] = ([], []), dtype: torch.dtype | None = None) -> Value: ...

class Rule:
    """Writes one op: rule(body, out, *arguments, **keywords)."""

    def __init__(self, name: str, names: Sequence[str], defaults: list) -> None: ...

    def __call__(self, body: object, out: object | None, *args, **kwargs) -> object: ...

def know_torch(types: Sequence[tuple[object, str]], byte_of: Callable, e4m3_saturates: bool) -> None: ...

def rules() -> list[str]:
    """What C++ has rules for, by the ops' names."""

def integer_range(dtype: torch.dtype) -> tuple[int, int]:
    """The lowest and the highest whole number that a device holds of a type."""

def numbers(values: Sequence[int]) -> str:
    """array<i64: 1, 2>"""

def type_text(shape: Sequence[int], dtype: torch.dtype) -> str:
    """tensor<2x3xf32>"""
