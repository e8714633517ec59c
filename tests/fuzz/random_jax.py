"""Random JAX programs: each op takes results of earlier ones, and is drawn from a seed.

Ops that jump (rounding, comparisons, the place of a maximum) take arguments of the program alone, which are multiples
of 1/8, so that a last bit of rounding on one platform makes no difference that counts.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

EXTENTS = (1, 2, 3, 4, 5, 7, 8, 16, 31, 64, 130)
ARGUMENT_ELEMENTS_MAX = 20_000
ELEMENTS_MAX = 60_000
TRIES = 200  # of drawing an op: many do not fit the shapes there are

Apply = Callable[[Sequence[Any]], Any]


@dataclass(frozen=True)
class Step:
    """One op: `apply` takes the values of all earlier steps, arguments of the program first."""

    name: str
    apply: Apply


@dataclass
class Draw:
    """What an op is drawn from: the random numbers, and the shapes of the values there are."""

    random: random.Random
    arguments: int
    values: list[jax.ShapeDtypeStruct]
    operand: int = 0  # the value that the op takes
    shape: tuple[int, ...] = ()
    axis: int = 0
    steps: list[Step] = field(default_factory=list)

    def begin(self, exact: bool) -> None:
        """Draws the value that the next op takes. exact: an argument of the program."""
        self.operand = self.random.randrange(self.arguments if exact else len(self.values))
        self.shape = self.values[self.operand].shape
        self.axis = self.random.randrange(len(self.shape))

    @property
    def extent(self) -> int:
        return self.shape[self.axis]

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def numbers(self, shape: Sequence[int]) -> np.ndarray:
        return np.random.RandomState(self.random.randrange(1 << 30)).standard_normal(shape).astype(np.float32)

    def indices(self, limit: int, shape: Sequence[int]) -> np.ndarray:
        made = np.random.RandomState(self.random.randrange(1 << 30)).randint(0, limit, shape)
        return np.asarray(made, np.int32)

    def other(self, fits: Callable[[tuple[int, ...]], bool]) -> int:
        """A value whose shape fits; -1: none does."""
        found = [i for i, value in enumerate(self.values) if fits(value.shape)]
        return self.random.choice(found) if found else -1


Factory = Callable[[Draw], Callable[..., Any] | Apply | None]
OPS: dict[str, tuple[Factory, bool, bool]] = {}  # the factory, whether it is exact, whether it takes all values


def op(exact: bool = False, takes_all: bool = False) -> Callable[[Factory], Factory]:
    """An op by its name. The factory gives a function of the drawn value, or of all of them; None: it does not fit."""

    def add(factory: Factory) -> Factory:
        OPS[factory.__name__] = factory, exact, takes_all
        return factory

    return add


SMOOTH: tuple[Callable[..., Any], ...] = (
    jnp.sin, jnp.cos, jnp.tanh, jnp.exp2, jax.nn.gelu, jax.nn.softplus, jax.nn.sigmoid, jax.nn.silu, jnp.arctan,
    lax.erf, jnp.square, lambda x: jnp.sqrt(jnp.square(x) + 0.1), lambda x: jnp.log1p(jnp.square(x)),
    lambda x: lax.rsqrt(x * x + 1),
)  # fmt: skip
JUMPING: tuple[Callable[..., Any], ...] = (
    jnp.floor, jnp.sign, jnp.round, jnp.abs, jax.nn.relu, lambda x: jnp.clip(x, -1, 1), lambda x: (x > 0) * 1.0,
    lambda x: ((x * 8).astype(jnp.int32) // 3 % 7 << 1).astype(jnp.float32),
)  # fmt: skip
PAIRS: tuple[Callable[..., Any], ...] = (
    jnp.add, jnp.subtract, jnp.multiply, lambda a, b: a / (b * b + 1), lambda a, b: jnp.arctan2(a, b * b + 1),
    lambda a, b: jnp.logaddexp(jnp.tanh(a), jnp.tanh(b)),
)  # fmt: skip


@op()
def smooth(draw: Draw) -> Callable[..., Any]:
    return draw.random.choice(SMOOTH)


@op(exact=True)
def jumping(draw: Draw) -> Callable[..., Any]:
    return draw.random.choice(JUMPING)


@op(takes_all=True)
def pair(draw: Draw) -> Apply:
    other, operand, axis = draw.other(lambda shape: shape == draw.shape), draw.operand, draw.axis
    function = draw.random.choice(PAIRS)
    if draw.random.random() < 0.4:
        return lambda values: function(values[operand], lax.slice_in_dim(values[other], 0, 1, axis=axis))
    return lambda values: function(values[operand], values[other])


@op()
def reduction(draw: Draw) -> Callable[..., Any]:
    rank = len(draw.shape)
    axes = tuple(sorted(draw.random.sample(range(rank), draw.random.randint(1, rank))))
    keeps = len(axes) == rank or draw.random.random() < 0.5
    functions: list[Callable[..., Any]] = [jnp.sum, jnp.mean, jnp.var, jax.nn.logsumexp]
    function = draw.random.choice(functions)
    return lambda x: function(x, axis=axes, keepdims=keeps)


@op(exact=True)
def extreme(draw: Draw) -> Callable[..., Any]:
    functions: list[Callable[..., Any]] = [jnp.max, jnp.min, jnp.argmax, jnp.argmin]
    axis, function = draw.axis, draw.random.choice(functions)
    return lambda x: function(x, axis=axis, keepdims=True).astype(jnp.float32)


@op()
def softmax(draw: Draw) -> Callable[..., Any]:
    axis, function = draw.axis, draw.random.choice([jax.nn.softmax, jax.nn.log_softmax])
    return lambda x: function(x, axis=axis)


@op()
def normalised(draw: Draw) -> Callable[..., Any]:
    axis = draw.axis
    return lambda x: (x - x.mean(axis, keepdims=True)) * lax.rsqrt(x.var(axis, keepdims=True) + 1e-2)


@op()
def transposed(draw: Draw) -> Callable[..., Any]:
    order = list(range(len(draw.shape)))
    draw.random.shuffle(order)
    return lambda x: jnp.transpose(x, order)


@op()
def reshaped(draw: Draw) -> Callable[..., Any]:
    left, shape = draw.size, []
    for _ in range(draw.random.randint(0, 3)):
        shape.append(draw.random.choice([extent for extent in range(1, left + 1) if left % extent == 0]))
        left //= shape[-1]
    shape.append(left)
    draw.random.shuffle(shape)
    return lambda x: x.reshape(shape)


@op()
def repeated(draw: Draw) -> Callable[..., Any]:
    axis, count = draw.axis, draw.random.choice([2, 3, 5])
    return lambda x: jnp.repeat(jnp.expand_dims(x, axis), count, axis)


@op(takes_all=True)
def concatenated(draw: Draw) -> Apply:
    axis, rank = draw.axis, len(draw.shape)

    def fits(shape: tuple[int, ...]) -> bool:
        return len(shape) == rank and all(shape[d] == draw.shape[d] for d in range(rank) if d != axis)

    parts = [draw.operand, *(draw.other(fits) for _ in range(draw.random.randint(1, 2)))]
    return lambda values: jnp.concatenate([values[part] for part in parts], axis)


@op()
def sliced(draw: Draw) -> Callable[..., Any]:
    axis, start = draw.axis, draw.random.randrange(draw.extent)
    stop, step = draw.random.randint(start + 1, draw.extent), draw.random.choice([1, 1, 2, 3])
    return lambda x: lax.slice_in_dim(x, start, stop, step, axis)


@op()
def padded(draw: Draw) -> Callable[..., Any]:
    low, high, between = draw.random.randint(-1, 3), draw.random.randint(0, 3), draw.random.choice([0, 0, 1])
    sides = [(low, high, between) if d == draw.axis else (0, 0, 0) for d in range(len(draw.shape))]
    return lambda x: lax.pad(x, jnp.float32(0.5), sides)


@op()
def padded_by_itself(draw: Draw) -> Callable[..., Any] | None:
    if draw.extent < 4:
        return None
    sides = [(draw.random.randint(0, 3), 2) if d == draw.axis else (0, 0) for d in range(len(draw.shape))]
    mode = draw.random.choice(["reflect", "edge", "wrap"])
    return lambda x: jnp.pad(x, sides, mode=mode)


@op()
def turned(draw: Draw) -> Callable[..., Any]:
    axis, by = draw.axis, draw.random.randint(-3, 3)
    return draw.random.choice([lambda x: jnp.flip(x, axis), lambda x: jnp.roll(x, by, axis)])


@op(takes_all=True)
def product(draw: Draw) -> Apply:
    operand, inner = draw.operand, draw.shape[-1]
    other = draw.other(lambda shape: len(shape) <= 2 and shape[0] == inner)
    if other < 0:
        return lambda values: jnp.einsum("...ab,...cb->...ac", values[operand], values[operand]) / inner
    return lambda values: jnp.dot(values[operand], values[other]) / inner


@op()
def convolution(draw: Draw) -> Callable[..., Any] | None:
    if len(draw.shape) < 3:
        return None
    pick, spatial, channels = draw.random, draw.shape[2:], draw.shape[1]
    groups = pick.choice([1, channels])
    extents = [pick.randint(1, 3) for _ in spatial]
    weights = draw.numbers((pick.choice([1, 2, 3]) * groups, channels // groups, *extents)) * 0.3
    strides, dilations, gaps = ([pick.choice([1, 1, 2]) for _ in spatial] for _ in range(3))
    # Wider sides make gradients with negative ones, which XLA:CPU of jaxlib 0.10.2 gets wrong: (-1, 1) reads an element
    # where zero is, as NumPy and its own op by op show.
    spans = [(extent - 1) * dilation for extent, dilation in zip(extents, dilations)]
    sides = [(pick.randint(0, span), pick.randint(0, span)) for span in spans]
    return lambda x: lax.conv_general_dilated(
        x, weights, strides, sides, gaps, dilations, feature_group_count=groups
    )


@op(exact=True)
def pooled(draw: Draw) -> Callable[..., Any] | None:
    if len(draw.shape) < 3:
        return None
    windows = [1, 1, *(min(draw.random.choice([2, 3]), extent) for extent in draw.shape[2:])]
    strides = [1, 1, *(draw.random.choice([1, 2]) for _ in draw.shape[2:])]
    start, function = draw.random.choice([(-jnp.inf, lax.max), (0.0, lax.add)])
    return lambda x: lax.reduce_window(x, start, function, windows, strides, "SAME")


@op()
def taken(draw: Draw) -> Callable[..., Any]:
    axis, where = draw.axis, draw.indices(draw.extent, draw.random.choice([(3,), (2, 4), (1,), (17,)]))
    return lambda x: jnp.take(x, where, axis=axis)


@op()
def written(draw: Draw) -> Callable[..., Any]:
    where = (slice(None),) * draw.axis + (draw.random.randrange(draw.extent),)
    how = draw.random.choice(["set", "add", "multiply"])
    return lambda x: getattr(x.at[where], how)(0.3)


@op()
def added_by_segments(draw: Draw) -> Callable[..., Any] | None:
    if len(draw.shape) > 2:
        return None
    segments = draw.indices(4, draw.shape[:1])
    return lambda x: jax.ops.segment_sum(x, segments, 5)


@op(exact=True)
def ordered(draw: Draw) -> Callable[..., Any]:
    axis, count = draw.axis, draw.random.randint(1, draw.shape[-1])
    return draw.random.choice([lambda x: jnp.sort(x, axis=axis), lambda x: lax.top_k(x, count)[0]])


@op()
def running(draw: Draw) -> Callable[..., Any]:
    axis, extent, backward = draw.axis, draw.extent, draw.random.random() < 0.5
    return draw.random.choice([
        lambda x: lax.cumsum(x, axis, reverse=backward) / extent,
        lambda x: lax.cumlogsumexp(x, axis, reverse=backward),
        lambda x: lax.associative_scan(jnp.add, x, axis=axis, reverse=backward) / extent,
    ])  # fmt: skip


@op()
def loop(draw: Draw) -> Callable[..., Any]:
    count = draw.random.randint(1, 4)
    return lambda x: lax.fori_loop(0, count, lambda i, y: jnp.sin(y) + i * 0.1, x)


@op()
def scan(draw: Draw) -> Callable[..., Any] | None:
    if draw.shape[0] > 20 or len(draw.shape) < 2:
        return None
    backward = draw.random.random() < 0.5

    def step(carried: Any, x: Any) -> tuple[Any, Any]:
        carried = jnp.tanh(carried * 0.5 + x)
        return carried, carried * x

    def run(x: Any) -> Any:
        last, rows = lax.scan(step, x[0], x, reverse=backward)
        return rows + last

    return run


@op()
def mapped(draw: Draw) -> Callable[..., Any] | None:
    axis = draw.axis
    return jax.vmap(lambda x: jnp.tanh(x) * x.mean(), in_axes=axis) if len(draw.shape) > 1 else None


@op()
def triangle(draw: Draw) -> Callable[..., Any] | None:
    diagonal = draw.random.randint(-2, 2)
    return (lambda x: jnp.tril(x, diagonal) + 0.5 * jnp.triu(x, 1 + diagonal)) if len(draw.shape) > 1 else None


@op()
def resized(draw: Draw) -> Callable[..., Any]:
    shape = list(draw.shape)
    shape[draw.axis] = draw.random.choice([1, 3, draw.extent * 2])
    method = draw.random.choice(["nearest", "linear", "cubic"])
    return lambda x: jax.image.resize(x, shape, method)


@op()
def summed_parts(draw: Draw) -> Callable[..., Any] | None:
    axis, counts = draw.axis, [count for count in (2, 3, 4) if draw.extent % count == 0]
    count = draw.random.choice(counts) if counts else 0
    return (lambda x: sum(jnp.split(x, count, axis))) if counts else None


@op()
def narrowed(draw: Draw) -> Callable[..., Any]:
    return lambda x: x.astype(jnp.float16).astype(jnp.float32)


def draw_shape(pick: random.Random) -> tuple[int, ...]:
    shape = [pick.choice(EXTENTS) for _ in range(pick.randint(1, 4))]
    while math.prod(shape) > ARGUMENT_ELEMENTS_MAX:
        largest = shape.index(max(shape))
        shape[largest] = max(1, shape[largest] // 3)
    return tuple(shape)


@dataclass(eq=False)
class Program:
    """A drawn program: a function of its arguments that gives the results of all of its steps."""

    arguments: list[np.ndarray]
    steps: list[Step]

    def __call__(self, *arguments: Any) -> list[Any]:
        values = list(arguments)
        for step in self.steps:
            values.append(step.apply(values))
        return values[len(arguments) :]

    def loss(self, *arguments: Any) -> Any:
        """A number that depends on the last results, for gradients."""
        last = self(*arguments)[-6:]
        return sum((each * (jnp.arange(each.size).reshape(each.shape) % 5 - 1.0)).mean() for each in last)


def program(seed: int, steps: int) -> Program:
    """The program of a seed. steps: how many ops it has, at most."""
    pick = random.Random(seed)
    numbers = np.random.RandomState(seed % (1 << 32))
    shapes = [draw_shape(pick) for _ in range(pick.randint(1, 3))]
    arguments = [(numbers.randint(-24, 25, shape) / 8).astype(np.float32) for shape in shapes]
    draw = Draw(pick, len(arguments), [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes])
    for _ in range(TRIES):
        if len(draw.steps) == steps:
            break
        _add(draw)
    return Program(arguments, draw.steps)


def _add(draw: Draw) -> None:
    """One more step, if the op that is drawn takes a value there is and its result is not too large."""
    name = draw.random.choice(list(OPS))
    factory, exact, takes_all = OPS[name]
    draw.begin(exact)
    function, operand = factory(draw), draw.operand
    if function is None:
        return
    apply = function if takes_all else lambda values: function(values[operand])
    try:
        result = jax.eval_shape(lambda *values: apply(values), *draw.values)
    except (TypeError, ValueError, IndexError):  # JAX says that the op does not take these shapes
        return
    if result.shape and 0 < math.prod(result.shape) <= ELEMENTS_MAX and result.dtype == jnp.float32:
        draw.values.append(result)
        draw.steps.append(Step(f"{name} of {operand}, axis {draw.axis}: {list(result.shape)}", apply))
