"""Errors that say whose fault a failure is. The C++ core raises the same classes.

Kinds follow src/base/fault.h: the guest program broke a rule, the program did something the specification
leaves undefined, or we do not model (or the public documents do not specify) what it asked for.
"""

from __future__ import annotations


class NkiValidationError(Exception):
    """The kernel breaks a documented rule of the instruction set."""


class CapacityExceeded(NkiValidationError):
    """The kernel is legal and does not fit a memory."""


class UndefinedBehavior(NkiValidationError):
    """The kernel relies on something that the documentation calls undefined."""


class NotModelled(NotImplementedError):
    """The kernel asks for something that OpenTrn does not model, or that no public document specifies."""


class OutOfBounds(NkiValidationError, IndexError):
    """An access falls outside the tensor it addresses."""


def require(condition: bool, message: str) -> None:
    """Raise NkiValidationError(message) unless `condition` holds."""
    if not condition:
        raise NkiValidationError(message)


class NanOriginWarning(RuntimeWarning):
    """A kernel's results hold a NaN that its inputs did not; says which instruction made the first one."""


class UnwrittenOutputWarning(RuntimeWarning):
    """A tensor that a kernel returns has elements that nothing wrote; says which, and what they read as."""


class CapacityWarning(RuntimeWarning):
    """A kernel that was not compiled holds more at once, as it is written, than SBUF or PSUM has."""


RESULT_WARNINGS = (NanOriginWarning, UnwrittenOutputWarning, CapacityWarning)
