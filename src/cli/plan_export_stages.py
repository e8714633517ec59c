"""Of a program that `opentrn plan --export jax` writes: the step of a plan with stages, behind class Step."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from plan_export_jax import (
    BLOCKS,
    DATA,
    DTYPE,
    ENDS,
    HIDDEN,
    LAYOUT,
    LONGEST,
    MODEL,
    PLAN,
    PP,
    SP,
    VPP,
    Step,
    dense_chunks,
    given,
    with_gradient,
)

# The program has what follows.


class StagedStep(Step):
    """The step of all stages, which do the same on every tick, each with another micro-batch, or none: then it
    computes what nobody reads, and no gradient comes back for it."""

    def over_micro_batches(self, weights, tokens):
        ends = weights["ends"]
        start = {name: ends[name] for name in ends if name in ("embedding", "positions")}
        end = {name: ends[name] for name in ends if name not in start}
        if MODEL["tied"]:  # once for all micro-batches
            end["table"], table_back = jax.vjp(self.table, ends["embedding"])
        way = self.all_forward_all_backward if LAYOUT["schedule"] == "gpipe" else self.one_forward_one_backward
        loss, of_start, of_end, of_layers = way(start, end, weights["layers"], tokens)
        if MODEL["tied"]:
            of_start["embedding"] += table_back(of_end.pop("table"))[0]
        return loss, {"layers": of_layers, "ends": {**of_start, **of_end}}

    def blocks(self, chunk=0):
        """Of this device, in their order: which block of its chunk, which chunk, and of which stage of one device that
        has all of them."""
        if self.stages > 1:
            return [(i, chunk, 0) for i in range(LONGEST)]
        chunks = [(chunk, stage) for chunk in range(VPP) for stage in range(PP)]
        return [(i, chunk, stage) for chunk, stage in chunks for i in range(BLOCKS[chunk * PP + stage])]

    def block(self, x, w, place, number):
        """`place`: of a chunk; `number`: that of the chunk and, where one device has all stages, of the stage."""
        chunk, stage = number
        if self.stages < PP:
            part = lambda w: jnp.split(w[chunk] if VPP > 1 else w, PP)[stage]  # noqa: E731
            w = jax.tree.map(part, w)
        else:
            stage = jax.lax.axis_index("pp")
        return self.layer(x, w, 0, chunk * PP + stage < dense_chunks(place))

    def forward(self, x, layers, chunk=0):
        """What the blocks were given, and what the last one made."""
        given = []
        for place, *number in self.blocks(chunk):
            given.append(x)
            x = self.block(x, layers[place], place, number)
        return x, given

    def backward(self, gradient, given, layers, sums, added=jnp.add, chunk=0):
        """The gradient of what the first block was given, and sums with those of layers. Blocks run forward again."""
        sums = list(sums)
        for x, (i, *number) in zip(reversed(given), reversed(self.blocks(chunk)), strict=True):
            x, gradient = with_gradient(x, gradient)
            back = jax.vjp(lambda x, w, i=i, number=number: self.block(x, w, i, number), x, layers[i])[1]
            gradient, of_layer = back(gradient)
            sums[i] = jax.tree.map(added, sums[i], of_layer)
        return gradient, sums

    def sent(self, x, by):
        """To the next stage (by 1), or back to the one before; between chunks, from the last stage to the first."""
        pairs = [(stage, stage + by) for stage in range(self.stages)]
        if self.chunks > 1:
            pairs = [(a, b % self.stages) for a, b in pairs]
        pairs = [(a, b) for a, b in pairs if 0 <= b < self.stages]
        return jax.lax.ppermute(x, "pp", pairs) if pairs else x

    @property
    def chunks(self):
        """One device that has all stages goes through them at once."""
        return VPP if self.stages > 1 else 1

    def is_stage(self, stage):
        return jax.lax.axis_index("pp") == stage

    def of_last_stage(self, x):
        """On every stage."""
        return self.varying(jax.lax.psum(jnp.where(self.is_stage(self.stages - 1), x, 0), "pp"), "pp")

    def loss_and_gradients(self, end, x, tokens):
        """Of what the last stage made of a micro-batch."""
        of_loss = lambda end, x: self.loss_of(end, self.of_last_stage(x), tokens)  # noqa: E731
        return jax.value_and_grad(of_loss, (0, 1))(end, x)

    def no_tokens(self, sequences):
        shape = (sequences, self.length // (self.tp if SP else 1), HIDDEN)
        return self.varying(jnp.zeros(shape, DTYPE), (*DATA, *ENDS))

    def no_loss(self):
        return self.varying(jnp.float32(0), DATA)

    def back_to_ends(self, gradient):
        """Of what blocks were given: of what each device had looked up of it."""
        first = jnp.zeros((gradient.shape[0], self.length, HIDDEN // (self.tp * self.stages)), DTYPE)
        return jax.linear_transpose(self.spread, self.varying(first, (*DATA, *ENDS)))(gradient)[0]

    # GPipe: all micro-batches forward, their losses one by one, and all of them back.

    def through_stages(self, layers, looked_up):
        """What blocks were given on every tick, and what the last one made."""

        def tick(x, first):
            x, given = self.forward(jnp.where(self.is_stage(0), self.spread(first), x), layers)
            return self.sent(x, 1), (given, x)

        return jax.lax.scan(tick, self.no_tokens(looked_up.shape[1]), looked_up)[1]

    def back_through_stages(self, layers, given, of_made):
        """Gradients of what was looked up, tick by tick, and of layers."""
        def tick(carried, of):
            gradient, sums = carried
            of_given, of_made = of
            gradient = jnp.where(self.is_stage(self.stages - 1), of_made, gradient)
            gradient, sums = self.backward(gradient, of_given, layers, sums)
            of_first = self.back_to_ends(jnp.where(self.is_stage(0), gradient, 0))
            return (self.sent(gradient, -1), sums), of_first

        carried = (jnp.zeros_like(of_made[0]), self.zeros_of(layers))
        (_, of_layers), of_first = jax.lax.scan(tick, carried, (given, of_made), reverse=True)
        return of_first, of_layers

    def all_forward_all_backward(self, start, end, layers, tokens):
        filling = self.stages - 1
        looked_up, look_back = jax.vjp(lambda start: self.looked_up(start, tokens), start)
        given, made = self.through_stages(layers, jnp.pad(looked_up, [(0, filling)] + [(0, 0)] * 3))

        def add(sums, of):
            (loss, of_end, of_made), (at, tokens) = sums, of
            x = jax.lax.dynamic_index_in_dim(made, at, 0, False)
            each, (of_each, of_x) = self.loss_and_gradients(end, x, tokens)
            of_made = jax.lax.dynamic_update_index_in_dim(of_made, of_x, at, 0)
            return (loss + each, jax.tree.map(jnp.add, of_end, of_each), of_made), None

        counted = filling + jnp.arange(len(tokens))
        zeros = (self.no_loss(), self.zeros_of(end), jnp.zeros_like(made))
        (loss, of_end, of_made), _ = jax.lax.scan(add, zeros, (counted, tokens))
        of_first, of_layers = self.back_through_stages(layers, given, of_made)
        return loss, *look_back(of_first[: len(tokens)]), of_end, of_layers

    # 1F1B: a pass forward and one back on every tick, once there is a loss.

    def one_forward_one_backward(self, start, end, layers, tokens):
        """Of c chunks on each of p stages, a micro-batch meets its loss on tick c p - 1, and goes back from there. The
        first stage takes a micro-batch, and the last one has a loss, on p ticks of every c p."""
        run = Alternating(self, start, end, layers, tokens)
        stages, count = self.stages, len(tokens)
        loss, between = run.turns - 1, run.turns - stages
        run.begin()
        run.ticks(0, stages - 1, forward=True, at=1 - stages)
        run.ticks(stages - 1, between, forward=True)
        if between == 0:
            run.ticks(loss, count, forward=True, backward=True, at=0)
        else:
            run.rounds(count // stages - 1, between)
            run.ticks(loss + (count // stages - 1) * run.turns, stages, forward=True, backward=True, at=count - stages)
        last = count * self.chunks + stages - 1
        run.ticks(last, between, backward=True)
        run.ticks(last + between, stages - 1, backward=True, at=count)
        run.left(count - 1)
        return tuple(run.state[name] for name in ("loss", "of_start", "of_end", "of_layers"))


class Alternating:
    """1F1B on all stages at once. What a block was given is kept for as many ticks as there are until its gradient
    comes, fewer than 2 c p; micro-batches are looked up for the tick that comes, and gradients of what was looked up
    are added to the table's a tick after."""

    def __init__(self, step, start, end, layers, tokens) -> None:
        self.step, self.start, self.end, self.layers, self.tokens = step, start, end, layers, tokens
        self.stages, self.chunks = step.stages, step.chunks
        self.turns = self.stages * self.chunks  # that a micro-batch takes each way
        self.room = min(2 * self.turns - 1, len(tokens) * self.chunks + self.stages - 1)

    def begin(self) -> None:
        none = self.step.no_tokens(self.tokens.shape[1])
        kept = self.step.varying(jnp.zeros((self.room, *none.shape), DTYPE), (*DATA, *ENDS))
        self.state = {
            "x": none,
            "first": self.looked_up(self.start, 0),
            "kept": [kept for _ in self.step.blocks()],
            "gradient": none,
            "of_first": none,
            "loss": self.step.no_loss(),
            "of_layers": self.step.zeros_of(self.layers),
            "of_end": self.step.zeros_of(self.end),
            "of_start": self.step.zeros_of(self.start),
        }

    def looked_up(self, start, at):
        return self.step.spread(self.step.looked_up(start, self.tokens_of(at)))

    def tokens_of(self, at):
        return self.tokens[jnp.clip(at, 0, len(self.tokens) - 1)]

    def chunk(self, number, last=0):
        """Which chunk the pass of that number is of; passes come in turns of one micro-batch on each stage."""
        if self.chunks == 1:
            return 0
        chunk = jax.lax.div(jax.lax.rem(number + self.turns, self.turns), self.stages)
        return last - chunk if last else chunk

    def of_chunk(self, weights, chunk):
        part = lambda w: jax.lax.dynamic_index_in_dim(w, chunk, 0, False)  # noqa: E731
        return jax.tree.map(part, weights) if self.chunks > 1 else weights

    def added_to_chunk(self, chunk, sums, gradient):
        if self.chunks == 1:
            return sums + gradient
        of_chunk = jax.lax.dynamic_index_in_dim(sums, chunk, 0, False) + gradient
        return jax.lax.dynamic_update_index_in_dim(sums, of_chunk, chunk, 0)

    def forward(self, state, tick):
        """What this stage makes of its micro-batch, and what is kept of it."""
        stage = jax.lax.axis_index("pp")
        chunk = self.chunk(tick - stage)
        x = jnp.where((stage == 0) & (chunk == 0), state["first"], state["x"])
        x, given = self.step.forward(x, self.of_chunk(self.layers, chunk), chunk)
        place = jax.lax.rem(tick, self.room)
        keep = lambda kept, x: jax.lax.dynamic_update_index_in_dim(kept, x, place, 0)  # noqa: E731
        return x, [keep(*each) for each in zip(state["kept"], given, strict=True)]

    def backward(self, state, tick, of_made):
        stage = jax.lax.axis_index("pp")
        chunk = self.chunk(tick + stage + 2 - self.turns - self.stages, self.chunks - 1)
        ticks = 2 * (self.turns - 1 - chunk * self.stages - stage)  # since these blocks ran forward
        place = jax.lax.rem(jnp.maximum(tick - ticks, 0), self.room)
        given = [jax.lax.dynamic_index_in_dim(kept, place, 0, False) for kept in state["kept"]]
        is_last = (stage == self.stages - 1) & (chunk == self.chunks - 1)
        gradient = jnp.where(is_last, of_made, state["gradient"])
        added = lambda sums, gradient: self.added_to_chunk(chunk, sums, gradient)  # noqa: E731
        layers = self.of_chunk(self.layers, chunk)
        return self.step.backward(gradient, given, layers, state["of_layers"], added, chunk)

    def left(self, at) -> None:
        self.state["of_start"] = self.with_first(self.state["of_start"], self.state["of_first"], at)

    def with_first(self, of_start, of_first, at):
        """Rows of the table are added where their sums lie, not to a table of zeros that is added then."""
        tokens = given(self.tokens_of(at))
        of_own = self.step.back_to_ends(jnp.where(self.step.is_stage(0), of_first, 0))
        rows = of_start["embedding"].at[tokens.reshape(-1)]
        of_rows = of_own.reshape(-1, of_own.shape[-1])
        made = {"embedding": rows.add(of_rows, mode="promise_in_bounds", wrap_negative_indices=False)}
        if MODEL["positions"]:
            own = lambda table: self.step.own(table[: PLAN["seq"]], 0)  # noqa: E731
            (of_positions,) = jax.linear_transpose(own, self.start["positions"])(jnp.sum(of_own, 0))
            made["positions"] = of_start["positions"] + of_positions
        return made

    def tick(self, state, tick, at, forward, backward):
        state, of_made = dict(state), 0
        if at is not None and backward:
            state["of_start"] = self.with_first(state["of_start"], state["of_first"], at - self.stages)
        if forward:
            made, state["kept"] = self.forward(state, tick)
            state["x"] = self.step.sent(made, 1)
        if forward and at is not None:
            state["first"] = self.looked_up(self.start, at + self.stages)
        if forward and backward and at is not None:
            loss, (of_end, of_made) = self.step.loss_and_gradients(self.end, made, self.tokens[at])
            state["loss"] += loss
            state["of_end"] = jax.tree.map(jnp.add, state["of_end"], of_end)
        if backward:
            state["of_first"], state["of_layers"] = self.backward(state, tick, of_made)
            state["gradient"] = self.step.sent(state["of_first"], -1)
        return state

    def ticks(self, tick, count, *, at=None, forward=False, backward=False) -> None:
        """So many from `tick` on: passes forward, back, or both. With `at`: the first of the micro-batches that have
        their loss on these ticks; as many stages after it one is looked up, and before it one is at its end."""
        if count == 0:
            return
        changed = [*(("x", "kept") if forward else ()), *(("gradient", "of_first", "of_layers") if backward else ())]
        changed += [] if at is None else [*(("first",) if forward else ()), *(("of_start",) if backward else ())]
        changed += ["loss", "of_end"] if forward and backward and at is not None else []

        def one(state, i):
            state = self.tick({**self.state, **state}, tick + i, None if at is None else at + i, forward, backward)
            return {name: state[name] for name in changed}, None

        made, _ = jax.lax.scan(one, {name: self.state[name] for name in changed}, jnp.arange(count))
        self.state |= made

    def rounds(self, count, between) -> None:
        """Of micro-batches on all stages: their losses, and ticks without a loss until the next ones have theirs."""
        def one(state, i):
            self.state, tick = state, self.turns - 1 + i * self.turns
            self.ticks(tick, self.stages, forward=True, backward=True, at=i * self.stages)
            self.ticks(tick + self.stages, between, forward=True, backward=True)
            return self.state, None

        self.state, _ = jax.lax.scan(one, self.state, jnp.arange(count))
