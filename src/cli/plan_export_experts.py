"""Of a program that `opentrn plan --export jax` writes: where tokens meet their experts, before class Step."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from plan_export_jax import CAPACITY, CHOSEN, DTYPE, EXPERTS, with_gradient

# The program has what follows.


@jax.custom_vjp
def chosen(logits):
    """The experts of each token, largest logit first, as float32; and their shares, which add up to 1."""
    left, tops, experts = logits, [], []
    counted = jax.lax.broadcasted_iota(jnp.float32, logits.shape, logits.ndim - 1)
    for _ in range(CHOSEN):
        top = jnp.max(left, -1)
        expert = jnp.min(jnp.where(left == top[..., None], counted, float(EXPERTS)), -1)
        left = jnp.where(counted == expert[..., None], -jnp.inf, left)
        tops.append(top)
        experts.append(expert)
    raised = [jnp.exp(top - tops[0]) for top in tops]
    total = sum(raised)
    return jnp.stack([each / total for each in raised], -1), jnp.stack(experts, -1)


def chosen_forward(logits):
    made = chosen(logits)
    return made, made


def chosen_backward(kept, gradients):
    (shares, experts), gradient = with_gradient(kept, gradients[0])
    of_top = shares * (gradient - jnp.sum(shares * gradient, -1, keepdims=True))
    shape = (*shares.shape[:-1], EXPERTS)
    counted = jax.lax.broadcasted_iota(jnp.float32, shape, len(shape) - 1)
    each = (jnp.where(counted == experts[..., i : i + 1], of_top[..., i : i + 1], 0) for i in range(CHOSEN))
    return (sum(each),)


chosen.defvjp(chosen_forward, chosen_backward)


def places(shares, experts):
    """Where each chosen expert has a token, and what token each of its places has.

    An expert takes CAPACITY tokens of a sequence, first ones first; the rest pass it by. Places are counted expert by
    expert, then by sequence. Gives the place of [token, choice], which is none behind the last, and by place the
    token and its share, 0 where nobody is.
    """
    sequences, length, _ = experts.shape
    count = EXPERTS * sequences * CAPACITY
    counted = jax.lax.broadcasted_iota(jnp.float32, (sequences, length, EXPERTS), 2)
    hot = [counted == experts[..., i : i + 1] for i in range(CHOSEN)]
    meets = sum(each.astype(jnp.bfloat16) for each in hot)
    earlier = jnp.tril(jnp.ones((length, length), jnp.bfloat16), -1)
    # Tokens first, as they are read below.
    before = jax.lax.dot_general(earlier, meets, (((1,), (1,)), ((), ())), preferred_element_type=jnp.float32)
    before = jnp.swapaxes(before, 0, 1)
    before = jnp.stack([jnp.sum(jnp.where(each, before, 0), -1) for each in hot], -1)
    sequence = jax.lax.broadcasted_iota(jnp.float32, before.shape, 0)
    place = ((experts * sequences + sequence) * CAPACITY + before).reshape(-1)
    token = jax.lax.broadcasted_iota(jnp.float32, (sequences * length, CHOSEN), 0).reshape(-1)
    behind = count + jax.lax.iota(jnp.int32, len(place))  # each its own
    place = jnp.where(before.reshape(-1) < CAPACITY, place.astype(jnp.int32), behind)
    rows = jnp.stack((token, shares.reshape(-1)), -1)
    table = jnp.zeros((count, 2), jnp.float32)
    table = table.at[place].set(rows, mode="drop", unique_indices=True, wrap_negative_indices=False)
    return place.reshape(-1, CHOSEN), table[:, 0].astype(jnp.int32), table[:, 1]


def rows_of(x, index):
    return x.at[index].get(mode="promise_in_bounds", wrap_negative_indices=False)


def rows_by_choice(x, place):
    """Of each choice, the row of every token, and whether there is one: 0 or 1."""
    last = x.shape[0] - 1
    for i in range(CHOSEN):
        yield rows_of(x, jnp.minimum(place[:, i], last)), (place[:, i : i + 1] <= last).astype(jnp.float32)


@jax.custom_vjp
def dispatched(x, place, token):
    """The tokens of experts, place by place."""
    return rows_of(x, token)


def dispatched_backward(kept, gradient):
    """Gathered too, by the places of each token."""
    place, token = kept
    wide = sum(row.astype(jnp.float32) * there for row, there in rows_by_choice(gradient, place))
    return wide.astype(DTYPE), None, None


dispatched.defvjp(lambda x, place, token: (dispatched(x, place, token), (place, token)), dispatched_backward)


@jax.custom_vjp
def combined(made, shares, place, token, share):
    """What experts make of each token, by their shares."""
    each = zip(rows_by_choice(made, place), shares.T[..., None], strict=True)
    return sum(row.astype(jnp.float32) * (there * by) for (row, there), by in each).astype(DTYPE)


def combined_backward(kept, gradient):
    (made, place, token, share), gradient = with_gradient(kept, gradient)
    wide = gradient.astype(jnp.float32)
    of_made = (rows_of(gradient, token).astype(jnp.float32) * share[:, None]).astype(DTYPE)
    wide_rows = ((row.astype(jnp.float32), there[:, 0]) for row, there in rows_by_choice(made, place))
    of_shares = [jnp.sum(row * wide, -1) * there for row, there in wide_rows]
    return of_made, jnp.stack(of_shares, -1), None, None, None


def combined_forward(made, shares, place, token, share):
    return combined(made, shares, place, token, share), (made, place, token, share)


combined.defvjp(combined_forward, combined_backward)


@jax.custom_vjp
def product_each(x, w):
    """Of every expert of this device."""
    return jnp.einsum("esi,eio->eso", x, w)


def product_each_backward(kept, gradient):
    x, w = kept
    return jnp.einsum("eso,eio->esi", gradient, w), jnp.einsum("esi,eso->eio", x, gradient)


product_each.defvjp(lambda x, w: (product_each(x, w), (x, w)), product_each_backward)


@jax.custom_vjp
def shifted_each(x, bias):
    return x + bias[:, None]


def shifted_each_backward(bias, gradient):
    return gradient, jnp.sum(gradient.astype(jnp.float32), 1).astype(bias.dtype)


shifted_each.defvjp(lambda x, bias: (shifted_each(x, bias), bias), shifted_each_backward)


def with_bias_each(x, w, name, share=1):
    """`share`: of the bias, as a power of two."""
    return shifted_each(x, w[name + "_bias"] * DTYPE(share)) if name + "_bias" in w else x


def linear_each(x, w, name):
    return with_bias_each(product_each(x, w[name]), w, name)
