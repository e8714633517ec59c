"""What the device or TensorFlow's compiler cannot do is an exception with the user's line and what to try."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import opentrn.tensorflow as neuron
import tensorflow as tf
from opentrn.errors import NkiValidationError


def text_of_numbers(x: Any) -> Any:
    return tf.strings.as_string(x)  # line


def python_inside(x: Any) -> Any:
    return tf.py_function(lambda value: value, [x], tf.float32)  # line


def general_eigenvalues(x: Any) -> Any:
    return tf.linalg.eigvals(x)  # line


def size_from_values(x: Any) -> Any:
    return tf.boolean_mask(x, x > 0)  # line


def one_value_too_large(x: Any) -> Any:
    return tf.reduce_sum(x[:, None] * x[None, :], 0)  # line


def wrong_shapes(x: Any) -> Any:
    return x @ tf.ones((3, 4))  # line


def plus_one(x: Any) -> Any:
    return x + 1


# Function, argument, words of the message. A line is asked for where the function has one marked.
CASES: dict[str, tuple[Callable[[Any], Any], Callable[[], Any], str]] = {
    "refuses strings": (text_of_numbers, lambda: tf.ones(3), "AsString"),
    "refuses Python code": (python_inside, lambda: tf.ones(3), "EagerPyFunc"),
    "refuses eig": (general_eigenvalues, lambda: tf.ones((3, 3)), "Eig"),
    "refuses masks": (size_from_values, lambda: tf.ones(3), "boolean_mask"),
    "refuses what is too large": (one_value_too_large, lambda: tf.ones(1 << 19), "96 GiB of HBM"),
    "refuses wrong shapes": (wrong_shapes, lambda: tf.ones((4, 4)), "Dimensions must be equal"),
    "refuses large int64": (plus_one, lambda: tf.constant([2**40], tf.int64), "does not fit the 32 bits"),
    "refuses sparse tensors": (
        plus_one,
        lambda: tf.sparse.from_dense(tf.ones(3)),
        "a SparseTensor as argument",
    ),
}


def check(function: Callable[[Any], Any], argument: Callable[[], Any], words: str) -> tuple[bool, str]:
    """It raises, with those words, the marked line and, where the message is OpenTrn's, a remedy."""
    lines, first = inspect.getsourcelines(function)
    marked = [first + number for number, text in enumerate(lines) if "# line" in text]
    try:
        neuron.function(function)(argument())
    except (NotImplementedError, ValueError, TypeError, NkiValidationError) as error:
        message = str(error)
    else:
        return False, "no exception"
    missing = [] if words in message else [words]
    missing += [
        str(line)
        for line in marked
        if f"{__file__}:{line}" not in message and f'{__file__}", line {line}' not in message
    ]
    if function is not wrong_shapes and "try: " not in message and "pass a dense" not in message:
        missing.append("a remedy")
    return not missing, f"without {', '.join(missing)}: {message}" if missing else message.splitlines()[0][
        :80
    ]
