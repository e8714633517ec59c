"""Random numbers: words of Threefry whose key comes from torch's generator at each call (program.py).

torch.manual_seed() makes a run the same again; the numbers are not those of torch's own CPU generator.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch._prims import rng_prims

from opentrn.torch.emitter import Emitter
from opentrn.torch.ops.scan import sorted_with_places
from opentrn.torch.registry import RULES, emits, require
from opentrn.torch.text import Spec, Value


def uniform_f32(body: Emitter, shape: tuple[int, ...]) -> Value:
    """In [0, 1): 24 bits of a word."""
    if 0 in shape:
        return body.splat(0, torch.float32, shape)
    words = body.random_words(shape or (1,))
    top = body.binary("shift_right_logical", words, body.like(8, words))
    number = body.convert(body.op("bitcast_convert", [top], top.shape, torch.int32), torch.float32)
    return body.reshape(body.multiply(number, body.like(2.0**-24, number)), shape)


def normal_f32(body: Emitter, shape: tuple[int, ...]) -> Value:
    """sqrt 2 erf_inv(2u - 1), u in the middle of its step so that it is never an end."""
    number = uniform_f32(body, shape)
    centred = body.add(body.multiply(number, body.like(2.0, number)), body.like(2.0**-24 - 1, number))
    return body.multiply(body.unary("chlo.erf_inv", centred), body.like(math.sqrt(2), number))


def _placed(body: Emitter, out: Spec, number: Value) -> Value:
    """In the result's type; a uniform number that rounds up to 1 becomes 0."""
    made = body.convert(number, out.dtype)
    if out.dtype.itemsize >= 4:
        return made
    return body.select(body.compare("GE", made, body.like(1, made)), body.like(0, made), made)


@emits("rand.default", "rand_like.default", "rand.generator")
def rand(body: Emitter, out: Spec, *_: Any, **__: Any) -> Value:
    return _placed(body, out, uniform_f32(body, out.shape))


@emits("randn.default", "randn_like.default", "randn.generator")
def randn(body: Emitter, out: Spec, *_: Any, **__: Any) -> Value:
    return body.convert(normal_f32(body, out.shape), out.dtype)


@emits("uniform.default")
def uniform(body: Emitter, out: Spec, _value: Value, low: float = 0.0, high: float = 1.0, **__: Any) -> Value:
    number = uniform_f32(body, out.shape)
    made = body.add(body.multiply(number, body.like(high - low, number)), body.like(low, number))
    return body.convert(made, out.dtype)


@emits("normal_functional.default")
def normal_functional(
    body: Emitter, out: Spec, _value: Value, mean: float = 0.0, std: float = 1.0, **__: Any
) -> Value:
    """What x.normal_() becomes: x says its shape and type alone."""
    return normal(body, out, mean=mean, std=std)


@emits("prims.normal", "normal.float_float", "normal.Tensor_float",
       "normal.float_Tensor", "normal.Tensor_Tensor")  # fmt: skip
def normal(body: Emitter, out: Spec, *arguments: Any, mean: Any = None, std: Any = None, **__: Any) -> Value:
    if mean is None:
        given = arguments[1:] if out.shape and len(arguments) == 3 else arguments
        mean, std = (*given[:2], 1.0)[:2] if given else (0.0, 1.0)
    number = normal_f32(body, out.shape)
    scaled = body.multiply(number, body.tensor(std, torch.float32, out.shape))
    return body.convert(body.add(scaled, body.tensor(mean, torch.float32, out.shape)), out.dtype)


@emits("bernoulli.default", "bernoulli.p", "bernoulli.Tensor")
def bernoulli(body: Emitter, out: Spec, value: Value, chance: Any = None, **__: Any) -> Value:
    chance = body.tensor(value if chance is None else chance, torch.float32, out.shape)
    return body.convert(body.compare("LT", uniform_f32(body, out.shape), chance), out.dtype)


@emits("randint.default", "randint.low", "randint_like.default", "randint_like.low_dtype")
def randint(body: Emitter, out: Spec, *arguments: Any, **__: Any) -> Value:
    """A word's remainder: as uneven as torch's own."""
    numbers = [each for each in arguments if isinstance(each, int)]
    low, high = (0, numbers[0]) if len(numbers) == 1 else numbers[:2]
    require(0 < high - low <= 2**31, f"in [{low}, {high}) is beyond 32 bits")
    if 0 in out.shape:
        return body.splat(0, out.dtype, out.shape)
    words = body.reshape(body.random_words(out.shape or (1,)), out.shape)
    positive = body.binary("shift_right_logical", words, body.like(1, words))
    number = body.op("bitcast_convert", [positive], out.shape, torch.int32)
    rest = body.binary("remainder", number, body.like(high - low, number))
    return body.convert(body.add(rest, body.like(low, rest)), out.dtype)


@emits("randperm.default")
def randperm(body: Emitter, out: Spec, count: int, **__: Any) -> Value:
    """The order that sorts random words."""
    if count <= 1:
        return body.splat(0, out.dtype, out.shape)
    words = body.random_words((count,))
    key = body.op("bitcast_convert", [words], (count,), torch.int32)
    return body.convert(sorted_with_places(body, key, 0, False)[1], out.dtype)


@emits("native_dropout.default")
def native_dropout(
    body: Emitter, out: Any, value: Value, chance: float, train: bool | None
) -> tuple[Value, Value]:
    """(kept elements over 1 - chance, which are kept)."""
    if not train and train is not None or chance == 0:
        return value, body.splat(True, torch.bool, value.shape)
    if chance == 1:
        return body.like(0, value), body.splat(False, torch.bool, value.shape)
    number = uniform_f32(body, value.shape)
    kept = body.compare("GE", number, body.like(chance, number))
    scaled = body.multiply(value, body.like(1 / (1 - chance), value))
    return body.select(kept, scaled, body.like(0, value)), kept


def run_and_save_rng_state(body: Emitter, out: Any, op: Any, *arguments: Any, **keywords: Any) -> Any:
    """(the generator's state, the op's result): activation checkpointing draws the same numbers once more."""
    made_out = out[1] if out is not None and len(out) > 1 else None
    saved = body.saved_state(torch.get_rng_state().numel())
    return saved, RULES[op](body, made_out, *arguments, **keywords)


def run_with_rng_state(
    body: Emitter, out: Any, state: Value, op: Any, *arguments: Any, **keywords: Any
) -> Any:
    """What the op drew when the state was saved."""
    with body.drawing_from(state):
        return RULES[op](body, out, *arguments, **keywords)


RULES[rng_prims.run_and_save_rng_state] = run_and_save_rng_state
RULES[rng_prims.run_with_rng_state] = run_with_rng_state
