"""The handle an instruction returns, and scalar registers."""

from __future__ import annotations

from typing import Any


class NkiInstruction:
    """Handle of an executed instruction. Dependencies are recorded; program order already honours them."""

    __slots__ = ("name", "producers")

    def __init__(self, name: str | None = None):
        self.name = name
        self.producers: list[NkiInstruction] = []

    def depends_on(self, *producers: NkiInstruction) -> NkiInstruction:
        """Record that this instruction runs after `producers`; returns self."""
        self.producers.extend(producers)
        return self


def _value(other: Any) -> int:
    return other.value if isinstance(other, VirtualRegister) else int(other)


class VirtualRegister:
    """A 32-bit scalar register, concrete because the oracle executes eagerly. Arithmetic gives plain ints."""

    __slots__ = ("_value", "frozen")

    def __init__(self, state: int | None = None, frozen: bool = False):
        self._value = state
        self.frozen = frozen

    @property
    def value(self) -> int:
        if self._value is None:
            from opentrn.errors import UndefinedBehavior

            raise UndefinedBehavior("a register was read before register_move or register_load wrote it")
        return self._value

    @value.setter
    def value(self, value: int) -> None:
        if self.frozen:
            from opentrn.errors import NkiValidationError

            raise NkiValidationError("a loop variable is read-only")
        value = int(value) & 0xFFFFFFFF
        self._value = value - (1 << 32) if value >= 1 << 31 else value

    def __int__(self) -> int:
        return self.value

    __index__ = __int__

    def __float__(self) -> float:
        return float(self.value)

    def __bool__(self) -> bool:
        return self.value != 0

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return f"VirtualRegister({self._value})"

    def __eq__(self, other: object) -> bool:
        try:
            return self.value == _value(other)
        except (TypeError, ValueError):
            return NotImplemented

    def __lt__(self, other: Any) -> bool:
        return self.value < _value(other)

    def __le__(self, other: Any) -> bool:
        return self.value <= _value(other)

    def __gt__(self, other: Any) -> bool:
        return self.value > _value(other)

    def __ge__(self, other: Any) -> bool:
        return self.value >= _value(other)

    def __neg__(self) -> int:
        return -self.value

    def __add__(self, other: Any) -> int:
        return self.value + _value(other)

    def __sub__(self, other: Any) -> int:
        return self.value - _value(other)

    def __rsub__(self, other: Any) -> int:
        return _value(other) - self.value

    def __mul__(self, other: Any) -> int:
        return self.value * _value(other)

    def __floordiv__(self, other: Any) -> int:
        return self.value // _value(other)

    def __rfloordiv__(self, other: Any) -> int:
        return _value(other) // self.value

    def __mod__(self, other: Any) -> int:
        return self.value % _value(other)

    def __rmod__(self, other: Any) -> int:
        return _value(other) % self.value

    __radd__ = __add__
    __rmul__ = __mul__
