"""lax.ragged_all_to_all over one axis of a mesh, beside its definition in NumPy. Prints what differs, then "done"."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

GROUPS, MEMBERS, ROWS, COLUMNS = 2, 4, 9, 3
SENT = ("input_offsets", "send_sizes", "output_offsets")


def plan(random: np.random.Generator, runs: int) -> dict[str, np.ndarray]:
    """[groups, senders, runs]: runs of rows, each to rows of its receiver's result that no other comes to."""
    shape = (GROUPS, MEMBERS, runs)
    sizes = random.integers(0, 3 if runs == MEMBERS else 2, shape)
    # No row is sent twice: JAX's gradient then has one of the two.
    starts = sizes.cumsum(2) - sizes + random.integers(0, 2, (GROUPS, MEMBERS, 1))
    found = {"send_sizes": sizes, "input_offsets": starts}
    places = np.zeros(shape, int)
    for group in range(GROUPS):
        free = random.integers(0, 2, MEMBERS)
        for sender, run in np.ndindex(MEMBERS, runs):
            receiver = run * MEMBERS // runs
            places[group, sender, run] = free[receiver]
            free[receiver] += sizes[group, sender, run]
    found["output_offsets"] = places
    # What each receives, by sender and run.
    by_receiver = sizes.reshape(GROUPS, MEMBERS, MEMBERS, runs // MEMBERS)
    found["recv_sizes"] = by_receiver.transpose(0, 2, 1, 3).reshape(shape)
    return {name: each.astype(np.int32) for name, each in found.items()}


def reference(rows: np.ndarray, kept: np.ndarray, stated: dict[str, np.ndarray]) -> np.ndarray:
    """rows, kept: [groups, members, rows, columns]."""
    out, runs = kept.copy(), stated["send_sizes"].shape[2]
    for group, sender, run in np.ndindex(GROUPS, MEMBERS, runs):
        start, size, place = (int(stated[name][group, sender, run]) for name in SENT)
        out[group, run * MEMBERS // runs, place : place + size] = rows[group, sender, start : start + size]
    return out


def check(mesh: Mesh, runs: int, random: np.random.Generator) -> None:
    stated = plan(random, runs)

    @jax.jit
    @jax.shard_map(mesh=mesh, in_specs=P("g", "d"), out_specs=P("g", "d"))
    def exchange(rows, kept, *numbers):
        made = lax.ragged_all_to_all(rows[0, 0], kept[0, 0], *(each[0, 0] for each in numbers), axis_name="d")
        return made[None, None]

    rows, kept = random.standard_normal((2, GROUPS, MEMBERS, ROWS, COLUMNS)).astype(np.float32)
    numbers = [stated[name] for name in (*SENT, "recv_sizes")]
    if not np.array_equal(exchange(rows, kept, *numbers), reference(rows, kept, stated)):
        print(f"{runs} runs: other rows")
    slopes, change = random.standard_normal((2, *rows.shape)).astype(np.float32)
    # Of the rows that are sent: that of the others is JAX's own, and wrong where a run is empty.
    of_rows = jax.grad(lambda each: jnp.sum(exchange(each, kept, *numbers) * slopes))(rows)
    # The map is linear: what the gradient makes of a change is what the change makes of the results.
    wanted = np.sum(reference(change, np.zeros_like(kept), stated) * slopes)
    if not np.allclose(np.sum(of_rows * change), wanted, rtol=1e-4):
        print(f"{runs} runs: other gradients")


def main() -> None:
    devices = np.array(jax.devices()[: GROUPS * MEMBERS])
    random = np.random.default_rng(0)
    for order in (devices.reshape(GROUPS, MEMBERS), devices.reshape(MEMBERS, GROUPS).T):
        for runs in (MEMBERS, 2 * MEMBERS):
            check(Mesh(order, ("g", "d")), runs, random)
    print("done")


main()
