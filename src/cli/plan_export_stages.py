"""Of a program that `opentrn plan --export jax` writes: the step of a plan with stages, behind class Step."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
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
    kinds_of,
    one_layer,
    with_gradient,
)

# The program has what follows.


def of_both(layer: dict) -> dict:
    """A block's weights where others of its place have experts, or have none."""
    names = () if "router" in layer else ("up", "down", "gate")
    return {"dense_" + name if name in names else name: each for name, each in layer.items()}


def arranged(layers: list) -> list:
    """Layers as a step has them. A block that a shorter chunk does not have is zeros, whose block passes on what it
    is given, and which stay zeros: all gradients of theirs are 0."""
    first = np.cumsum([0, *BLOCKS])

    def at(i, chunk):
        layer = layers[first[chunk] + min(i, BLOCKS[chunk] - 1)]
        layer = of_both(layer) if all(kinds_of(i)) else layer
        zeros = {name: np.zeros(s[0], np.float32) for name, s in one_layer(*kinds_of(i)).items()}
        return {**zeros, **layer} if i < BLOCKS[chunk] else zeros

    def of_all(i):
        chunks = ([at(i, chunk * PP + stage) for stage in range(PP)] for chunk in range(VPP))
        chunks = [jax.tree.map(lambda *x: np.concatenate(x), *each) for each in chunks]
        return chunks[0] if VPP == 1 else jax.tree.map(lambda *x: np.stack(x), *chunks)

    return [of_all(i) for i in range(LONGEST)]


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
        if LAYOUT["schedule"] == "dualpipe" and self.stages > 1:  # one device has nothing to wait for
            way = self.from_both_ends
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

    def block(self, x, w, place, number, put_off=lambda w: w):
        """`place`: of a chunk; `number`: that of the chunk and, where one device has all stages, of the stage."""
        chunk, stage = number
        if self.stages < PP:
            part = lambda w: jnp.split(w[chunk] if VPP > 1 else w, PP)[stage]  # noqa: E731
            w = jax.tree.map(part, w)
        else:
            stage = self.stage()
        return self.layer(x, put_off(w), 0, chunk * PP + stage < dense_chunks(place))

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

    mirrored = False  # whether stages lie on devices from the last one to the first

    def stage(self):
        at = jax.lax.axis_index("pp")
        return self.stages - 1 - at if self.mirrored else at

    def sent(self, x, by):
        """To the next stage (by 1), or back to the one before; between chunks, from the last stage to the first."""
        by = -by if self.mirrored else by
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
        return self.stage() == stage

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

    def from_both_ends(self, start, end, layers, tokens):
        """Half of the micro-batches from the first device to the last, and the others from there: each device has the
        stage of that number, and a copy of the one that is as far from the other end."""
        turned = StagedStep(self.mesh)
        turned.turns, turned.mirrored = self.turns, True
        across = [(stage, self.stages - 1 - stage) for stage in range(self.stages)]
        swapped = lambda tree: jax.tree.map(lambda w: jax.lax.ppermute(w, "pp", across), tree)  # noqa: E731
        half = len(tokens) // 2
        runs = (Alternating(self, start, end, layers, tokens[:half]),
                Alternating(turned, start, end, swapped(layers), tokens[half:]))  # fmt: skip
        both = Paired(*runs)
        both.begin()
        both.all_ticks()
        (loss, of_start, of_end, of_layers), others = (run.made() for run in runs)
        add = lambda a, b: jax.tree.map(jnp.add, a, b)  # noqa: E731
        return loss + others[0], add(of_start, others[1]), add(of_end, others[2]), add(of_layers, swapped(others[3]))

    def one_forward_one_backward(self, start, end, layers, tokens):
        """Of c chunks on each of p stages, a micro-batch meets its loss on tick c p - 1, and goes back from there. The
        first stage takes a micro-batch, and the last one has a loss, on p ticks of every c p."""
        splits = LAYOUT["schedule"] == "zb" and self.stages > 1  # one device has nothing to wait for
        run = (Splitting if splits else Alternating)(self, start, end, layers, tokens)
        stages, count = self.stages, len(tokens)
        loss, between = run.turns - 1, run.turns - stages
        run.begin()
        if splits:
            return run.all_ticks()
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
        return run.made()


class Alternating:
    """1F1B on all stages at once. What a block was given is kept for as many ticks as there are until its gradient
    comes, fewer than 2 c p; micro-batches are looked up for the tick that comes, and gradients of what was looked up
    are added to the table's a tick after."""

    more = ()  # that passes back change

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

    def made(self):
        return tuple(self.state[name] for name in ("loss", "of_start", "of_end", "of_layers"))

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
        stage = self.step.stage()
        chunk = self.chunk(tick - stage)
        x = jnp.where((stage == 0) & (chunk == 0), state["first"], state["x"])
        x, given = self.step.forward(x, self.of_chunk(self.layers, chunk), chunk)
        place = jax.lax.rem(tick, self.room)
        keep = lambda kept, x: jax.lax.dynamic_update_index_in_dim(kept, x, place, 0)  # noqa: E731
        return x, [keep(*each) for each in zip(state["kept"], given, strict=True)]

    def backward(self, state, tick, of_made):
        stage = self.step.stage()
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

    def changed(self, at, forward, backward):
        """What ticks like these change."""
        changed = [*(("x", "kept") if forward else ())]
        changed += ["gradient", "of_first", "of_layers", *self.more] if backward else []
        changed += [] if at is None else [*(("first",) if forward else ()), *(("of_start",) if backward else ())]
        return changed + (["loss", "of_end"] if forward and backward and at is not None else [])

    def ticks(self, tick, count, *, at=None, forward=False, backward=False) -> None:
        """So many from `tick` on: passes forward, back, or both. With `at`: the first of the micro-batches that have
        their loss on these ticks; as many stages after it one is looked up, and before it one is at its end."""
        if count == 0:
            return
        changed = self.changed(at, forward, backward)

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


class Paired:
    """Ticks of two runs from opposite ends: what one sends or gathers goes on beside what the other computes."""

    def __init__(self, *runs) -> None:
        self.runs = runs

    def begin(self) -> None:
        for run in self.runs:
            run.begin()

    def ticks(self, tick, count, *, at=None, forward=False, backward=False) -> None:
        if count == 0:
            return
        changed = self.runs[0].changed(at, forward, backward)

        def one(states, i):
            made = []
            for run, state in zip(self.runs, states, strict=True):
                state = run.tick({**run.state, **state}, tick + i, None if at is None else at + i, forward, backward)
                made.append({name: state[name] for name in changed})
            return tuple(made), None

        states = tuple({name: run.state[name] for name in changed} for run in self.runs)
        made, _ = jax.lax.scan(one, states, jnp.arange(count))
        for run, state in zip(self.runs, made, strict=True):
            run.state |= state

    def all_ticks(self) -> None:
        """Of each run, as 1F1B of one chunk a stage."""
        filling, count = self.runs[0].stages - 1, len(self.runs[0].tokens)
        self.ticks(0, filling, forward=True, at=-filling)
        self.ticks(filling, count, forward=True, backward=True, at=0)
        self.ticks(filling + count, filling, backward=True, at=count)
        for run in self.runs:
            run.left(count - 1)


@jax.custom_vjp
def product_put_off(x, w, slot):
    """Of `w` nothing comes back; what would make its gradient does, in place of `slot`."""
    return x @ w


def product_put_off_backward(w, gradient):
    return jnp.einsum("bso,io->bsi", gradient, w), None, gradient


product_put_off.defvjp(lambda x, w, slot: (x @ w, w), product_put_off_backward)


class PutOff:
    """A weight whose gradient is made on a later tick: what it is multiplied with is kept until then."""

    def __init__(self, weight, slot, factors, name) -> None:
        self.weight, self.slot, self.factors, self.name = weight, slot, factors, name

    def product(self, x):
        self.factors[factor_of(self.name)] = x
        return product_put_off(x, self.weight, self.slot)


def factor_of(name):
    """Weights that are multiplied with the same: under the name of the first."""
    if name in ("k", "v"):
        return "q"
    return name.replace("gate", "up")


class Splitting(Alternating):
    """1F1B whose weights' gradients are made on the tick on which the first stage has the other gradients of their
    micro-batch: on all stages at once, and on no tick without one. What they are made of waits for that, on the last
    stage for one tick less than there are stages."""

    more = ("sides",)
    weighs = False

    def begin(self) -> None:
        super().begin()
        self.state["sides"] = [self.no_sides(layer) for layer in self.layers]

    def put_off(self, layer):
        return [name for name in layer if layer[name].ndim == 2 and name != "router"]

    def none(self, columns, *first):
        shape = (*first, self.tokens.shape[1], self.step.length, columns)
        return self.step.varying(jnp.zeros(shape, DTYPE), (*DATA, *ENDS))

    def no_sides(self, layer):
        """Of each product what it is given, and the gradient of what it gives; as many as wait at most."""
        names = self.put_off(layer)
        factors = {factor_of(name): layer[name].shape[0] for name in names}
        return (
            {name: self.none(columns, self.stages) for name, columns in factors.items()},
            {name: self.none(layer[name].shape[1], self.stages) for name in names},
        )

    def back_through(self, x, gradient, layer, place, number):
        """The gradient of what a block was given, those that nothing waits for, and both sides of the others."""
        names = self.put_off(layer)
        late = {name: layer[name] for name in names}
        rest = {name: each for name, each in layer.items() if name not in names}

        def run(x, rest, slots):
            factors = {}
            weights = {name: PutOff(late[name], slots[name], factors, name) for name in names}
            return self.step.block(x, {**rest, **late}, place, number, lambda w: {**w, **weights}), factors

        slots = {name: self.none(layer[name].shape[1]) for name in names}
        _, back, factors = jax.vjp(run, x, rest, slots, has_aux=True)
        gradient, of_rest, of_products = back(gradient)
        return gradient, of_rest, (factors, of_products)

    def backward(self, state, tick, of_made):
        stage = self.step.stage()
        place = jax.lax.rem(jnp.maximum(tick - 2 * (self.stages - 1 - stage), 0), self.room)
        given = [jax.lax.dynamic_index_in_dim(kept, place, 0, False) for kept in state["kept"]]
        gradient = jnp.where(stage == self.stages - 1, of_made, state["gradient"])
        sums, kept = list(state["of_layers"]), list(state["sides"])
        now = jax.lax.rem(tick, self.stages)
        keep = lambda ring, x: jax.lax.dynamic_update_index_in_dim(ring, x, now, 0)  # noqa: E731
        for x, (i, *number) in zip(reversed(given), reversed(self.step.blocks()), strict=True):
            x, gradient = with_gradient(x, gradient)
            gradient, of_rest, sides = self.back_through(x, gradient, self.layers[i], i, number)
            sums[i] = {**sums[i], **{name: sums[i][name] + each for name, each in of_rest.items()}}
            kept[i] = jax.tree.map(keep, kept[i], sides)
        state["sides"] = kept
        then = jax.lax.rem(tick - stage + self.stages, self.stages)
        if self.weighs:
            sums = [self.with_weights(*each, then) for each in zip(sums, kept, strict=True)]
        return gradient, sums

    def with_weights(self, sums, sides, place):
        factors, of_products = jax.tree.map(lambda ring: jax.lax.dynamic_index_in_dim(ring, place, 0, False), sides)
        made = {name: jnp.einsum("bsi,bso->io", factors[factor_of(name)], d) for name, d in of_products.items()}
        return {**sums, **{name: sums[name] + each for name, each in made.items()}}

    def all_ticks(self):
        """Passes of all stages, and gradients of weights from the tick on which the first stage has some."""
        filling, count = self.stages - 1, len(self.tokens)
        first, last = min(count, filling), max(count - filling, 0)
        self.ticks(0, filling, forward=True, at=-filling)
        self.ticks(filling, first, forward=True, backward=True, at=0)
        self.weighs = True
        self.ticks(2 * filling, last, forward=True, backward=True, at=filling)
        self.weighs = False
        self.ticks(filling + count, filling - first, backward=True, at=count)
        self.weighs = True
        self.ticks(2 * filling + last, first, backward=True, at=filling + last)
        self.left(count - 1)
        return self.made()
