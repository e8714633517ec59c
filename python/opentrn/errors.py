"""Errors that say whose fault a failure is. The C++ core raises the same classes.

Kinds follow src/base/fault.h. Every error of this module, raised by Python or by C++, carries its parts as
fields, so that a program can act on them; the text is only for people:

    except opentrn.errors.NotModelled as error:
        if error.label == "onnx.operator": ...

`kind`      whose fault: "program", "input", "capacity", "not_modelled", "unspecified" or "internal"
`label`     the rule that was broken ("nc_matmul.C3"), from the tables that docs/labels.md names; "" for internal errors
`message`   what was found and what the limit is, without the label, the place and the hint
`hint`      what to try; may be ""
`location`  the line of the user's code, or None where it is not known
`notes`     lines of detail that stand between the place and the hint, such as the shapes of operands

Code of OpenTrn raises one of these classes, with a label and, where there is something to try, a hint. Where callers
may expect a class of Python's own (TypeError, BufferError, ...), the class raised is derived from both.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

# How to_string(FaultKind) of src/base/fault.h names each kind.
KIND_TEXTS = {
    "program": "program error",
    "input": "input error",
    "capacity": "capacity exceeded",
    "not_modelled": "not modelled",
    "unspecified": "unspecified behaviour",
    "internal": "internal error",
}


_Self = TypeVar("_Self", bound="Refusal")


class SourceLocation(NamedTuple):
    """A line of the user's code."""

    file: str
    line: int
    function: str = ""


class Refusal(Exception):
    """What every error of OpenTrn has in common: its fields. Catch the classes below, or this one for any of them."""

    kind = "internal"

    def __init__(
        self,
        message: str = "",
        *,
        label: str = "",
        hint: str = "",
        location: SourceLocation | None = None,
        notes: str = "",
    ) -> None:
        self.label = label
        self.message = message
        self.hint = hint
        self.location = location
        self.notes = notes
        super().__init__(self._text() if label else message)

    def _text(self) -> str:
        """The layout of Fault::rebuild() in src/base/fault.cc."""
        label = f" [{self.label}]" if self.label else ""
        return f"{KIND_TEXTS[self.kind]}{label}: {self.lines()}"

    def lines(self) -> str:
        """What the text says behind the label, for a warning that says the same."""
        text = self.message
        if self.location is not None:
            text += f"\n    at {self.location.file}:{self.location.line}"
            if self.location.function:
                text += f" in {self.location.function}"
        return text + self.notes + (f"\n    try: {self.hint}" if self.hint else "")

    def restated(self: _Self, **fields: Any) -> _Self:
        """The same error with other fields, for a caller that knows more than the one who raised it."""
        _, (cls, args, own) = self.__reduce__()
        error = _made(cls, args, own | fields)
        error.args = (error._text(),)
        return error

    def locate(self, location: SourceLocation) -> None:
        """Say where it was, unless that is known: set by the first layer that knows, as Fault::set_location()."""
        if self.location is None:
            self.location = location
            self.args = (self._text(),)

    def __reduce__(self) -> tuple[Any, ...]:
        """Constructors of derived classes take other arguments, so pickle restores the fields without them."""
        return _made, (type(self), self.args, self.__dict__)


def _made(cls: type[_Self], args: tuple[Any, ...], fields: dict[str, Any]) -> _Self:
    base: Any = cls
    while issubclass(base, Refusal):  # until Python's own class that lays the object out
        base = base.__base__
    error = base.__new__(cls)
    error.args = args
    for name, value in fields.items():
        setattr(error, name, value)
    return error


class NkiValidationError(Refusal):
    """The kernel breaks a documented rule of the instruction set."""

    kind = "program"


class CapacityExceeded(NkiValidationError):
    """The kernel is legal and does not fit a memory."""

    kind = "capacity"


class UndefinedBehavior(NkiValidationError):
    """The kernel relies on something that the documentation calls undefined."""

    kind = "unspecified"


class NotModelled(Refusal, NotImplementedError):
    """The kernel asks for something that OpenTrn does not model, or that no public document specifies."""

    kind = "not_modelled"


class ArgumentError(NkiValidationError, TypeError):
    """A call of an instruction has other arguments than the instruction takes."""


class OutOfBounds(NkiValidationError, IndexError):
    """An access falls outside the tensor it addresses."""


class InputError(Refusal, ValueError):
    """A file, a table or an argument is malformed."""

    kind = "input"


class InputTypeError(InputError, TypeError):
    """An argument is of a type that the call does not take."""


class MissingModule(InputError, ModuleNotFoundError):
    """What is asked needs a package that is not installed; `name` is the module's, as Python has it."""

    def __init__(self, message: str = "", *, name: str | None = None, **fields: Any) -> None:
        super().__init__(message, **fields)
        self.name = name

    def __reduce__(self) -> tuple[Any, ...]:
        return _made, (type(self), self.args, self.__dict__ | {"name": self.name})


class StateError(InputError, RuntimeError):
    """A call comes when it cannot be answered."""


class InternalError(Refusal, RuntimeError):
    """A bug in OpenTrn."""

    kind = "internal"


def require(condition: bool, message: str, label: str = "", hint: str = "") -> None:
    """Raise NkiValidationError unless `condition` holds."""
    if not condition:
        raise NkiValidationError(message, label=label, hint=hint)


class NanOriginWarning(RuntimeWarning):
    """A kernel's results hold a NaN that its inputs did not; says which instruction made the first one."""


class UnwrittenOutputWarning(RuntimeWarning):
    """A tensor that a kernel returns has elements that nothing wrote; says which, and what they read as. Or the kernel
    returns nothing, and writes nothing that its caller has."""


class CapacityWarning(RuntimeWarning):
    """A kernel that was not compiled holds more at once, as it is written, than SBUF or PSUM has."""


class OverlapWarning(RuntimeWarning):
    """An instruction writes elements of a tile before it reads them, if an engine takes them one after another: here
    all are read first, and no public document says what the hardware does."""


class TargetWarning(UserWarning):
    """A target was given that is not the one which NEURON_PLATFORM_TARGET_OVERRIDE states."""


RESULT_WARNINGS = (NanOriginWarning, UnwrittenOutputWarning, CapacityWarning, OverlapWarning)
