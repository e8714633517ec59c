"""Names of ALU operators and activation functions, and the one resolver from what kernels pass to a name.

A kernel passes `nl.add` (a function whose `__name__` is the operator), a numpy function (`np.add`, `np.max`,
the 0.1 dialect), a string, or an object with `op_name`. Names follow nki.language; src/numerics/ops.h has the
same list.
"""

from __future__ import annotations

import difflib
from typing import Any

from opentrn.errors import ArgumentError

BITVEC_OPS = frozenset(
    {
        "invert",
        "bitwise_and",
        "bitwise_or",
        "bitwise_xor",
        "left_shift",
        "right_shift",
        "arithmetic_right_shift",
    }
)
ARITHMETIC_OPS = frozenset(
    {
        "add", "subtract", "multiply", "divide", "maximum", "minimum",
        "equal", "not_equal", "greater", "greater_equal", "less", "less_equal",
        "logical_and", "logical_or", "logical_xor", "logical_not",
        "power", "abs_max", "abs_min", "mod", "fmod", "average",
        "abs", "square", "relu", "rsqrt", "reciprocal", "negative", "sqrt",
    }
)  # fmt: skip
UNARY_OPS = frozenset(
    {"invert", "abs", "square", "relu", "rsqrt", "reciprocal", "negative", "sqrt", "logical_not"}
)
ALU_OPS = BITVEC_OPS | ARITHMETIC_OPS | {"bypass"}

ACTIVATION_FUNCTIONS = frozenset(
    {
        "copy", "square", "sigmoid", "relu", "prelu", "gelu", "gelu_dx", "gelu_apprx_tanh",
        "gelu_apprx_sigmoid", "gelu_apprx_sigmoid_dx", "silu", "silu_dx", "tanh", "softplus", "mish", "erf",
        "erf_dx", "exp",
        "sign", "abs", "log", "sin", "arctan", "sqrt", "rsqrt", "reciprocal",
    }
)  # fmt: skip

# Other spellings: numpy functions, reductions named after themselves, names of older dialects.
_ALIASES = {
    "max": "maximum", "amax": "maximum", "fmax": "maximum",
    "min": "minimum", "amin": "minimum", "fmin": "minimum",
    "sum": "add", "prod": "multiply", "mean": "average",
    "sub": "subtract", "mult": "multiply", "mul": "multiply",
    "true_divide": "divide", "div": "divide",
    "pow": "power", "float_power": "power",
    "absolute": "abs", "fabs": "abs", "neg": "negative",
    "remainder": "mod", "all": "logical_and", "any": "logical_or",
    "bitwise_not": "invert", "bitwise_invert": "invert",
    "bitwise_left_shift": "left_shift", "bitwise_right_shift": "right_shift",
    "logical_left_shift": "left_shift", "logical_right_shift": "right_shift",
    "arithmetic_shift_left": "left_shift", "arithmetic_shift_right": "arithmetic_right_shift",
    "identity": "copy", "atan": "arctan", "gelu_tanh": "gelu_apprx_tanh",
}  # fmt: skip


_KNOWN = (ALU_OPS | ACTIVATION_FUNCTIONS) - set(_ALIASES)


def op_name(op: Any) -> str:
    """The operator or activation function that `op` names.

    Accepts a name, an object with `op_name`, `__name__` (functions, numpy ufuncs) or `name` (enum members).
    Raises TypeError for anything else, and for a name outside the known operators.
    """
    if type(op) is str and op in _KNOWN:
        return op
    if isinstance(op, str):
        name = op
    else:
        named = getattr(op, "op_name", None) or getattr(op, "__name__", None) or getattr(op, "name", None)
        if not isinstance(named, str):
            raise ArgumentError(
                f"{op!r} names no operator",
                label="operator.unknown", hint="nl.add, 'add' or np.add",
            )
        name = named
    name = _ALIASES.get(name, name)
    if name not in ALU_OPS and name not in ACTIVATION_FUNCTIONS:
        near = difflib.get_close_matches(name, sorted(ALU_OPS | ACTIVATION_FUNCTIONS))
        raise ArgumentError(f"unknown operator {name!r}", label="operator.unknown", hint=" or ".join(near))
    return name


def is_bitvec(name: str) -> bool:
    """True for operators that work on bit patterns of integers."""
    return name in BITVEC_OPS


def is_unary(name: str) -> bool:
    """True for operators that ignore their second operand."""
    return name in UNARY_OPS
