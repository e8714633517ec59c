"""Random generator state of the engines.

The documents name the algorithm (XORWOW, 6 state words per lane on GpSimd, 24 on Vector, nisa.rand_set_state)
but not how a lane of the Vector engine uses its 24 words, how set_rng_seed fills them, or which generator
nisa.rng and nisa.dropout use before NeuronCore-v4. What follows is therefore a documented choice, not a model
of the device's bits:
- XORWOW as published by Marsaglia (2003): words x, y, z, w, v and a Weyl counter d that grows by 362437.
- the 24 Vector words are four such generators, used in turn, one value each.
- a seed s gives lane p the first outputs of splitmix64(s * 2**32 + p).
"""

from __future__ import annotations

import numpy as np

from opentrn.types.isa_enums import engine

LANES = 128
_WORDS = 6
_GENERATORS = {engine.gpsimd: 1, engine.vector: 4}
_MASK64 = (1 << 64) - 1


def _splitmix64(state: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    state = state + np.uint64(0x9E3779B97F4A7C15)
    z = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state, z ^ (z >> np.uint64(31))


class RandomState:
    """The generators of one NeuronCore: per engine, [lanes, generators, 6] words of XORWOW state."""

    def __init__(self) -> None:
        self.words = {e: seeded_words(0, n) for e, n in _GENERATORS.items()}
        self.turn = dict.fromkeys(_GENERATORS, 0)

    def seed(self, seed: int, which: engine = engine.vector) -> None:
        """Set every lane's state from one 32-bit seed."""
        self.words[which] = seeded_words(seed, _GENERATORS[which])
        self.turn[which] = 0

    def state_words(self, which: engine) -> int:
        """State words per lane: 6 on GpSimd, 24 on Vector."""
        return _GENERATORS[which] * _WORDS

    def set_state(self, which: engine, words: np.ndarray) -> None:
        """Replace the state of lanes 0..P-1 by `words`, uint32 [P, 6 or 24]."""
        self.words[which][: words.shape[0]] = words.reshape(words.shape[0], -1, _WORDS)
        self.turn[which] = 0

    def get_state(self, which: engine, lanes: int) -> np.ndarray:
        """The state of lanes 0..lanes-1, uint32 [lanes, 6 or 24]."""
        return self.words[which][:lanes].reshape(lanes, -1).copy()

    def bits(self, which: engine, lanes: int, count: int) -> np.ndarray:
        """`count` fresh 32-bit values for each of the first `lanes` lanes, uint32 [lanes, count]."""
        out: np.ndarray = np.empty((lanes, count), np.uint32)
        words = self.words[which][:lanes]
        for i in range(count):
            out[:, i] = _xorwow_step(words[:, self.turn[which], :])
            self.turn[which] = (self.turn[which] + 1) % words.shape[1]
        return out


def _xorwow_step(words: np.ndarray) -> np.ndarray:
    """Advance the generators in `words` (a [lanes, 6] view: x y z w v d) and return their outputs."""
    x, v = words[:, 0], words[:, 4]
    t = x ^ (x >> np.uint32(2))
    new = (v ^ (v << np.uint32(4))) ^ (t ^ (t << np.uint32(1)))
    words[:, 0:4] = words[:, 1:5].copy()
    words[:, 4] = new
    words[:, 5] += np.uint32(362437)
    return words[:, 5] + new


def seeded_words(seed: int, generators: int) -> np.ndarray:
    """State words for every lane from one seed, uint32 [128, generators, 6]; no generator is all zero."""
    with np.errstate(over="ignore"):
        state = np.uint64((int(seed) << 32) & _MASK64) + np.arange(LANES, dtype=np.uint64)
        columns = []
        for _ in range(generators * _WORDS):
            state, value = _splitmix64(state)
            columns.append((value >> np.uint64(32)).astype(np.uint32))
    words = np.stack(columns, axis=1).reshape(LANES, generators, _WORDS)
    words[..., 0] |= 1
    return words
