"""The profile page's layout and colours, as its files say them."""

from __future__ import annotations

import re
from importlib import resources

import pytest

from opentrn import _core

MODEL = """func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %y = stablehlo.tanh %x : tensor<8x8xf32>
  return %y : tensor<8x8xf32>
}
"""


def part(name: str) -> str:
    return resources.files("opentrn.report").joinpath(name).read_text("utf-8")


def colours(table: str) -> dict[str, str]:
    """Names and colours of a table of colours.js."""
    text = part("colours.js")
    block = text[text.index(f"const {table} = {{") :]
    return {
        name: colour
        for quoted, bare, colour in re.findall(r'(?:"([^"]+)"|(\w+)): "(#[0-9a-f]{6})"', block[: block.index("};")])
        for name in [quoted or bare]
    }


def lab(colour: str) -> tuple[float, float, float]:
    """CIE L*a*b*, in which equal distances look equally far apart."""

    def linear(value: int) -> float:
        share = value / 255
        return share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4

    r, g, b = (linear(int(colour[i : i + 2], 16)) for i in (1, 3, 5))
    xyz = (
        (0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.9505,
        0.2126 * r + 0.7152 * g + 0.0722 * b,
        (0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.089,
    )
    x, y, z = (v ** (1 / 3) if v > 0.008856 else 7.787 * v + 16 / 116 for v in xyz)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def test_the_timeline_follows_the_headline():
    page = part("page.html")
    heads = re.findall(r"<h2>([^<]+?) ?<", page)
    assert heads[0] == "Timeline" and page.index('id="cards"') < page.index('id="timeline"')
    assert heads.index("Layers") > heads.index("Timeline") and heads.index("Roofline") > heads.index("Timeline")


def test_instructions_have_colours_of_their_own():
    table = colours("INSTRUCTION_COLOURS")
    assert len(table) > 30 and set(table) <= set(_core.opcode_names())
    assert len(set(table.values())) == len(table)


@pytest.mark.parametrize(
    "names",
    [
        # What the same engine usually does, side by side in a row.
        ("nc_matmul", "nc_transpose"),
        ("tensor_copy", "tensor_tensor", "tensor_scalar", "tensor_reduce", "scalar_tensor_tensor", "reciprocal"),
        ("activation", "activation_reduce", "tensor_copy", "tensor_scalar"),
        ("iota", "affine_select", "range_select", "local_gather", "memset"),
        ("dma_copy", "dma_transpose", "dma_compute"),
    ],
    ids=lambda names: names[0],
)
def test_neighbours_can_be_told_apart(names):
    table = colours("INSTRUCTION_COLOURS")
    for i, one in enumerate(names):
        for other in names[:i]:
            apart = sum((a - b) ** 2 for a, b in zip(lab(table[one]), lab(table[other]))) ** 0.5
            assert apart > 15, (one, other, apart)


def test_every_resource_has_a_colour():
    assert set(colours("RESOURCE_COLOURS")) == set(_core.resource_names())


def test_no_colour_goes_by_rank():
    """Else an instruction changes its colour with its share of the run."""
    page = part("page.js")
    assert "PALETTE" not in page and "data.opcodes.map(instructionColour)" in page


def test_the_canvas_has_a_table_in_its_place():
    page = part("page.html")
    canvas = re.search(r"<canvas[^>]*>", page)
    assert canvas is not None and 'aria-describedby="event-table"' in canvas[0]
    assert '<details id="event-table">' in page and "listenToEventTable(timeline)" in part("page.js")


def test_fingers_are_told_how():
    assert 'class="dim hint with-touch"' in part("page.html")
    style = part("page.css")
    assert "(pointer: coarse)" in style and "touch-action: pan-y" in style


def test_every_script_is_in_the_page():
    import opentrn
    from opentrn.report import html

    text = html.page(opentrn.compile(MODEL).time())
    for name in ("colours.js", "model.js", "events.js", "page.js"):
        assert part(name) in text


def test_the_page_of_ranks_begins_with_the_fabric():
    """The data of the fabric is that of the launch, and may not end its script."""
    import json

    from opentrn.report import fabric

    traffic = {"title": "</script><script>alert(1)", "verdict": "<b>", "ranks": [], "links": [], "collectives": []}
    page = fabric.page("a <title>", [traffic])
    assert "<h1>a &lt;title&gt;</h1>" in page
    data = page[page.index('id="data">') + len('id="data">') :].split("</script>", 1)[0]
    assert json.loads(data) == [traffic]
    assert "<script>alert" not in page
    assert 'id="fabric" hidden' in part("page.html")
