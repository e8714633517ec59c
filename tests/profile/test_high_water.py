"""No run holds more than its memories have: programs that fill SBUF, and those of the examples."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import opentrn

EXAMPLES = Path(__file__).parents[2] / "examples"


def two_products(m: int, k: int, n: int) -> str:
    """[m, k] @ [k, n], a function, and [n, m] behind it, in fp32."""
    a, b, c, p, r = (
        f"tensor<{rows}x{columns}xf32>" for rows, columns in ((m, k), (k, n), (n, m), (m, n), (m, m))
    )
    return f"""func.func @main(%a: {a}, %b: {b}, %c: {c}) -> {r} {{
      %p = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : ({a}, {b}) -> {p}
      %q = stablehlo.tanh %p : {p}
      %r = stablehlo.dot_general %q, %c, contracting_dims = [1] x [0] : ({p}, {c}) -> {r}
      return %r : {r}
    }}"""


PROGRAMS = {
    "wide": two_products(1024, 1024, 4096),
    "square": two_products(2048, 512, 2048),
    "tall": two_products(4096, 256, 1024),
    **{path.stem: str(path) for path in sorted(EXAMPLES.glob("*.mlir"))},
}


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_high_water_is_within_capacity(name, target):
    source = PROGRAMS[name]
    timing = opentrn.compile(source if source.startswith("func") else Path(source), target=target).time()
    memory = json.loads(timing.json())["memory"]
    used, limit = (memory[f"sbuf_bytes_per_partition_{which}"] for which in ("used", "limit"))
    assert 0 < used <= limit
    assert memory["psum_banks_used"] <= memory["psum_banks_limit"]
    if name == "tall":  # a value of 16 MiB is in the way: nearly all of SBUF is in use
        assert used > limit / 2
