"""Attention as one kernel: found in the forms that exporters write, and equal to the graph evaluated in float64."""

from dataclasses import dataclass

import ml_dtypes
import numpy as np
import pytest

import opentrn
from opentrn import graph

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


@dataclass(frozen=True)
class Form:
    """Shapes and the way of writing of one attention."""

    batch: int = 2
    heads: int = 3
    queries: int = 40
    keys: int = 40
    features: int = 16
    element: str = "f32"
    mask: str = "none"  # none, added (per key), full (per query and key), select, causal-select, causal-added
    shared: int = 1  # heads that have one key and value
    values_left: bool = True  # JAX writes the last product so
    turned: bool = False  # the weights are transposed before it, as U-Nets have them
    heads_first: bool = False  # inputs [batch, heads, tokens, features], as torch has them
    features_first: bool = False  # keys and values [batch, heads, features, tokens]
    cap: float = 0.0  # scores are cap tanh(scores / cap), below the masks
    sinks: bool = False  # a score of each head beside those of the keys, which has no value

    def text(self) -> str:
        b, h, q, k, d, e = self.batch, self.heads, self.queries, self.keys, self.features, self.element
        kv = h // self.shared
        scores, rows = f"{b}x{h}x{q}x{k}xf32", f"{b}x{h}x{q}xf32"

        def tokens(count: int, heads: int) -> str:
            return f"{b}x{heads}x{count}x{d}x{e}" if self.heads_first else f"{b}x{count}x{heads}x{d}x{e}"

        def stored(heads: int) -> str:
            return f"{b}x{heads}x{d}x{k}x{e}" if self.features_first else tokens(k, heads)

        head, token = (1, 2) if self.heads_first else (2, 1)
        kept, place, feature = (1, 3, 2) if self.features_first else (head, token, 3)
        lines, most, total = [], "%m", "%l"
        if self.sinks:
            most, total = "%most", "%total"
            lines.append(
                f"%spread = stablehlo.broadcast_in_dim %sink, dims = [1] : (tensor<{h}xf32>) -> tensor<{rows}>"
            )
        key, value = "%k", "%v"
        if self.shared > 1:
            wide = f"{b}x{k}x{kv}x{self.shared}x{d}x{e}"
            for name in "kv":
                lines += [
                    f"%{name}w = stablehlo.broadcast_in_dim %{name}, dims = [0, 1, 2, 4]"
                    f" : (tensor<{tokens(k, kv)}>) -> tensor<{wide}>",
                    f"%{name}r = stablehlo.reshape %{name}w : (tensor<{wide}>) -> tensor<{tokens(k, h)}>",
                ]
            key, value = "%kr", "%vr"
        lines += [
            f"%s = stablehlo.dot_general %q, {key}, batching_dims = [0, {head}] x [0, {kept}],"
            f" contracting_dims = [3] x [{feature}]"
            f" : (tensor<{tokens(q, h)}>, tensor<{stored(h)}>) -> tensor<{scores}>",
            f"%scale = stablehlo.constant dense<{d**-0.5:.9e}> : tensor<{scores}>",
            f"{'%raw' if self.cap else '%scaled'} = stablehlo.multiply %s, %scale : tensor<{scores}>",
            *self.capped(scores),
            *self.masked(scores),
            "%low = stablehlo.constant dense<0xFF800000> : tensor<f32>",
            "%zero = stablehlo.constant dense<0.0> : tensor<f32>",
            f"%m = stablehlo.reduce(%x init: %low) applies stablehlo.maximum across dimensions = [3]"
            f" : (tensor<{scores}>, tensor<f32>) -> tensor<{rows}>",
            *self.with_sink("%m", most, "maximum", "%spread", rows),
            f"%mb = stablehlo.broadcast_in_dim {most}, dims = [0, 1, 2] : (tensor<{rows}>) -> tensor<{scores}>",
            f"%c = stablehlo.subtract %x, %mb : tensor<{scores}>",
            f"%e = stablehlo.exponential %c : tensor<{scores}>",
            f"%l = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [3]"
            f" : (tensor<{scores}>, tensor<f32>) -> tensor<{rows}>",
            *self.with_sink("%l", total, "add", "%raised", rows),
            f"%lb = stablehlo.broadcast_in_dim {total}, dims = [0, 1, 2] : (tensor<{rows}>) -> tensor<{scores}>",
            f"%p = stablehlo.divide %e, %lb : tensor<{scores}>",
            f"%pn = stablehlo.convert %p : (tensor<{scores}>) -> tensor<{b}x{h}x{q}x{k}x{e}>",
        ]
        if self.values_left:
            weights, weights_type, keys_place = "%pn", f"tensor<{b}x{h}x{q}x{k}x{e}>", 3
            if self.turned:
                turned_type, keys_place = f"tensor<{b}x{h}x{k}x{q}x{e}>", 2
                lines.append(
                    f"%pt = stablehlo.transpose %pn, dims = [0, 1, 3, 2] : ({weights_type}) -> {turned_type}"
                )
                weights, weights_type = "%pt", turned_type
            lines += [
                f"%o = stablehlo.dot_general {value}, {weights}, batching_dims = [0, {head}] x [0, 1],"
                f" contracting_dims = [{token}] x [{keys_place}]"
                f" : (tensor<{tokens(k, h)}>, {weights_type}) -> tensor<{b}x{h}x{d}x{q}x{e}>",
                f"%r = stablehlo.transpose %o, dims = [0, 3, 1, 2]"
                f" : (tensor<{b}x{h}x{d}x{q}x{e}>) -> tensor<{b}x{q}x{h}x{d}x{e}>",
            ]
        else:
            lines += [
                f"%o = stablehlo.dot_general %pn, {value}, batching_dims = [0, 1] x [0, {kept}],"
                f" contracting_dims = [3] x [{place}]"
                f" : (tensor<{b}x{h}x{q}x{k}x{e}>, tensor<{stored(h)}>) -> tensor<{b}x{h}x{q}x{d}x{e}>",
                f"%r = stablehlo.transpose %o, dims = [0, 2, 1, 3]"
                f" : (tensor<{b}x{h}x{q}x{d}x{e}>) -> tensor<{b}x{q}x{h}x{d}x{e}>",
            ]
        body = "\n  ".join(lines)
        sink = f", %sink: tensor<{h}xf32>" if self.sinks else ""
        return (
            f"func.func @main(%q: tensor<{tokens(q, h)}>, %k: tensor<{stored(kv)}>, %v: tensor<{stored(kv)}>"
            f"{self.mask_argument()}{sink}) -> tensor<{b}x{q}x{h}x{d}x{e}> {{\n  {body}\n"
            f"  return %r : tensor<{b}x{q}x{h}x{d}x{e}>\n}}\n"
        )

    def mask_argument(self) -> str:
        kind = {
            "added": f"{self.batch}x{self.keys}xf32",
            "full": f"{self.batch}x{self.queries}x{self.keys}xf32",
            "select": f"{self.queries}x{self.keys}xi1",
        }.get(self.mask)
        return f", %mask: tensor<{kind}>" if kind else ""

    def with_sink(self, of_keys: str, both: str, op: str, sink: str, rows: str) -> list[str]:
        if not self.sinks:
            return []
        kind = f"tensor<{rows}>"
        raised = [] if op == "maximum" else [f"%gap_s = stablehlo.subtract %spread, %most : {kind}",
                                             f"%raised = stablehlo.exponential %gap_s : {kind}"]  # fmt: skip
        return [*raised, f"{both} = stablehlo.{op} {of_keys}, {sink} : {kind}"]

    def capped(self, scores: str) -> list[str]:
        if not self.cap:
            return []
        return [
            f"%cap = stablehlo.constant dense<{self.cap:.9e}> : tensor<{scores}>",
            f"%part = stablehlo.divide %raw, %cap : tensor<{scores}>",
            f"%bent = stablehlo.tanh %part : tensor<{scores}>",
            f"%scaled = stablehlo.multiply %bent, %cap : tensor<{scores}>",
        ]

    def masked(self, scores: str) -> list[str]:
        q, k = self.queries, self.keys
        low = f"%fill = stablehlo.constant dense<-3.0e38> : tensor<{scores}>"
        diagonal = [
            f"%i = stablehlo.iota dim = 0 : tensor<{q}x{k}xi32>",
            f"%gap = stablehlo.constant dense<{k - q}> : tensor<{q}x{k}xi32>",
            f"%ig = stablehlo.add %i, %gap : tensor<{q}x{k}xi32>",
            f"%j = stablehlo.iota dim = 1 : tensor<{q}x{k}xi32>",
            f"%keep = stablehlo.compare GE, %ig, %j : (tensor<{q}x{k}xi32>, tensor<{q}x{k}xi32>) -> tensor<{q}x{k}xi1>",
        ]
        spread = f"-> tensor<{scores}>"
        spread_bool = f"-> tensor<{scores.replace('f32', 'i1')}>"
        add = f"%x = stablehlo.add %scaled, %mb0 : tensor<{scores}>"
        select = f"%x = stablehlo.select %kb, %scaled, %fill : tensor<{scores.replace('f32', 'i1')}>, tensor<{scores}>"
        if self.mask == "added":
            shape = f"tensor<{self.batch}x{k}xf32>"
            return [f"%mb0 = stablehlo.broadcast_in_dim %mask, dims = [0, 3] : ({shape}) {spread}", add]
        if self.mask == "full":
            shape = f"tensor<{self.batch}x{q}x{k}xf32>"
            return [f"%mb0 = stablehlo.broadcast_in_dim %mask, dims = [0, 2, 3] : ({shape}) {spread}", add]
        if self.mask == "select":
            shape = f"tensor<{q}x{k}xi1>"
            return [
                low,
                f"%kb = stablehlo.broadcast_in_dim %mask, dims = [2, 3] : ({shape}) {spread_bool}",
                select,
            ]
        if self.mask == "causal-select":
            shape = f"tensor<{q}x{k}xi1>"
            return [
                low, *diagonal,
                f"%kb = stablehlo.broadcast_in_dim %keep, dims = [2, 3] : ({shape}) {spread_bool}", select,
            ]  # fmt: skip
        if self.mask == "causal-added":
            shape = f"tensor<{q}x{k}xf32>"
            return [
                *diagonal,
                f"%none = stablehlo.constant dense<0.0> : {shape}",
                f"%much = stablehlo.constant dense<0xFF800000> : {shape}",
                f"%bias = stablehlo.select %keep, %none, %much : tensor<{q}x{k}xi1>, {shape}",
                f"%mb0 = stablehlo.broadcast_in_dim %bias, dims = [2, 3] : ({shape}) {spread}",
                add,
            ]
        return [f"%one = stablehlo.constant dense<1.0> : tensor<{scores}>",
                f"%x = stablehlo.multiply %scaled, %one : tensor<{scores}>"]  # fmt: skip

    def inputs(self) -> list[np.ndarray]:
        random = np.random.default_rng(3)
        dtype = {"f32": np.dtype(np.float32), "bf16": BFLOAT16}[self.element]

        def tokens(count: int, heads: int) -> np.ndarray:
            shape = (heads, count) if self.heads_first else (count, heads)
            return random.standard_normal((self.batch, *shape, self.features)).astype(dtype)

        kv = self.heads // self.shared
        arrays = [tokens(self.queries, self.heads), tokens(self.keys, kv), tokens(self.keys, kv)]
        if self.features_first:
            arrays[1:] = [np.ascontiguousarray(a.transpose(0, 1, 3, 2)) for a in arrays[1:]]
        if self.mask == "added":
            arrays.append(
                np.where(random.random((self.batch, self.keys)) < 0.3, -1e4, 0.0).astype(np.float32)
            )
        if self.mask == "full":
            arrays.append(random.standard_normal((self.batch, self.queries, self.keys)).astype(np.float32))
        if self.mask == "select":
            keep = random.random((self.queries, self.keys)) < 0.7
            keep[:, 0] = True
            arrays.append(keep)
        if self.sinks:
            arrays.append(random.standard_normal(self.heads).astype(np.float32) * 3)
        return arrays


FORMS = [
    Form(),
    Form(values_left=False),
    Form(turned=True, heads_first=True),
    Form(heads_first=True, values_left=False, mask="added"),
    Form(queries=197, keys=197, batch=1, heads=2, element="bf16"),
    Form(queries=128, keys=300, batch=1, features=64, element="bf16", mask="added"),
    Form(queries=200, keys=70, heads=2, mask="added"),  # the last queries are fewer than 128
    Form(queries=130, keys=70, mask="full"),
    Form(queries=33, keys=140, mask="select", values_left=False),
    Form(queries=260, keys=260, batch=1, heads=2, mask="causal-select"),
    Form(queries=150, keys=278, batch=1, heads=2, mask="causal-added", element="bf16"),
    Form(queries=140, keys=140, heads=6, shared=3, mask="causal-select", element="bf16"),
    Form(queries=5, keys=2100, batch=1, heads=1),  # two blocks of keys
    Form(queries=200, keys=4000, batch=1, heads=1, features=8, mask="causal-select"),
    Form(queries=1, keys=150, batch=3, features=128, mask="added"),
    Form(
        queries=3, keys=1300, features=64, element="bf16", mask="added"
    ),  # several blocks in a transfer, and a rest
    Form(queries=2, keys=1300, heads=6, shared=3, features=128),
]

# Sinks: as gpt-oss has them.
SINK_FORMS = [
    Form(sinks=True),
    Form(queries=200, keys=330, sinks=True, mask="causal-select", element="bf16"),
    Form(queries=7, keys=2100, batch=1, sinks=True, mask="select", heads=4, shared=2),
    Form(queries=1, keys=300, batch=3, sinks=True, mask="added"),
]

# More keys than SBUF holds at once, 4,096 in float32 and 8,192 in bfloat16: sections of them, and groups of queries.
SECTION_FORMS = [
    Form(queries=20, keys=8500, batch=1, heads=1),
    Form(queries=150, keys=8400, batch=2, heads=2, features=32, shared=2, mask="causal-select", element="bf16"),
    Form(queries=140, keys=4500, batch=1, heads=2, features=8, mask="select", heads_first=True),
    Form(queries=30, keys=8300, batch=1, heads=2, features=16, element="bf16", features_first=True, heads_first=True,
         values_left=False),
    Form(queries=20, keys=4300, batch=1, heads=2, sinks=True, mask="added"),
    Form(queries=4300, keys=4300, batch=1, heads=1, features=128, mask="causal-select"),
]  # fmt: skip

# Keys over partitions (lowering/attention_decode.cc).
DECODE_FORMS = [
    Form(queries=1, keys=512, batch=1, heads=1, features=64),
    Form(queries=1, keys=2048, batch=3, heads=2, features=128, element="bf16", mask="select"),
    Form(queries=4, keys=1280, batch=2, heads=6, features=32, mask="added"),
    Form(queries=5, keys=640, batch=2, heads=3, mask="full"),
    Form(queries=1, keys=768, heads=6, shared=3, features=128, element="bf16"),
    Form(queries=7, keys=1024, batch=2, heads=5, features=64, heads_first=True, values_left=False, mask="select"),
    Form(queries=16, keys=896, batch=1, heads=9, features=16, element="bf16", mask="added"),
    Form(queries=2, keys=1024, heads_first=True, features_first=True, values_left=False, features=128,
         element="bf16"),
    Form(queries=1, keys=16384, batch=1, heads=2, features=128, element="bf16", mask="added"),
    Form(queries=1, keys=1024, batch=2, heads=6, features=64, sinks=True),
    Form(queries=8, keys=640, batch=2, heads=5, features=32, sinks=True, mask="select", element="bf16"),
    Form(queries=3, keys=2048, batch=1, heads=3, features=16, sinks=True, mask="full", heads_first=True),
]  # fmt: skip

CAP_FORMS = [
    Form(cap=0.5),
    Form(cap=50.0, mask="causal-select", queries=300, keys=300),
    Form(cap=2.0, mask="causal-added", queries=130, keys=130, element="bf16"),
    Form(cap=0.7, mask="select", keys=1100),
    Form(cap=30.0, mask="full", sinks=True, heads=2),
    Form(cap=1.5, sinks=True, mask="causal-select", queries=140, keys=140, element="bf16"),
    Form(cap=1.0, queries=20, keys=4300, batch=1, heads=2, sinks=True, mask="added"),
    Form(cap=50.0, queries=1, keys=2048, heads=4, shared=2, features=64, element="bf16"),
    Form(cap=0.5, queries=4, keys=1280, batch=2, heads=6, features=32, mask="added", values_left=False),
    Form(cap=3.0, queries=8, keys=640, batch=2, heads=5, features=32, sinks=True, mask="select"),
    Form(cap=1.0, queries=3, keys=1024, batch=1, heads=3, features=16, sinks=True),
]  # fmt: skip


# Features of a head that do not fit in the partitions at once.
WIDE_FORMS = [
    Form(features=256, queries=200, keys=200, mask="causal-select"),
    Form(features=192, element="bf16", mask="added", heads_first=True, values_left=False),
    Form(features=160, queries=130, keys=600, shared=3, element="bf16"),
    Form(features=256, queries=24, keys=4200, batch=1, heads=2),
    Form(features=256, queries=300, keys=300, heads=2, features_first=True, heads_first=True, values_left=False),
    Form(features=256, cap=50.0, queries=140, keys=140, mask="causal-select", sinks=True, element="bf16"),
    Form(features=256, queries=1, keys=2048, heads=4, element="bf16", mask="select"),
    Form(features=192, queries=5, keys=640, batch=2, heads=3, mask="full"),
    Form(features=256, queries=2, keys=1024, heads_first=True, features_first=True, values_left=False),
    Form(features=256, queries=1, keys=768, heads=6, shared=3, cap=20.0, sinks=True),
]  # fmt: skip


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
@pytest.mark.parametrize(
    "form", FORMS + SINK_FORMS + SECTION_FORMS + DECODE_FORMS + CAP_FORMS + WIDE_FORMS, ids=str
)
def test_attention_is_one_kernel_with_the_values_of_float64(form: Form, target: str):
    text, arrays = form.text(), form.inputs()
    model = opentrn.compile(text, target=target)
    assert model.time().total_ns > 0
    assert model.passes["attention"] == 1
    got = model(*arrays)[0].astype(np.float64)
    want = np.asarray(graph.parse(text).evaluate(*arrays, float64=True)[0], np.float64)
    # Weights and results round to the element type once each; sums are of normal numbers times weights of sum one.
    # A cap is kept to 1e-7 of it.
    bound = 2.0**-7 if form.element == "bf16" else 4e-6 + 1e-7 * form.cap
    np.testing.assert_allclose(got, want, rtol=0, atol=bound * max(1.0, np.abs(want).max()))


@pytest.mark.parametrize("form", [CAP_FORMS[i] for i in (1, 5, 7, 9)] + WIDE_FORMS[:3] + WIDE_FORMS[6:8], ids=str)
def test_soft_caps_and_wide_heads_are_in_the_kernel(form: Form):
    test_attention_is_one_kernel_with_the_values_of_float64(form, "trn2")


def test_caps_that_the_kernel_does_not_keep_exactly_enough_stay_outside_of_it():
    assert opentrn.compile(Form(cap=500.0).text()).passes["attention"] == 0


@pytest.mark.parametrize("size", [-60.0, 60.0])
def test_a_sink_far_from_all_scores_of_a_decode_step(size: float):
    """Far above them it takes all weight, far below none."""
    form = Form(queries=2, keys=1024, batch=1, heads=3, features=64, sinks=True)
    arrays = [*form.inputs()[:-1], np.full(3, size, np.float32)]
    got = opentrn.compile(form.text())(*arrays)[0]
    want = graph.parse(form.text()).evaluate(*arrays, float64=True)[0]
    np.testing.assert_allclose(got, want, rtol=0, atol=4e-6)
    assert np.abs(want).max() < 1e-9 if size > 0 else np.abs(want).max() > 0.1


def test_without_fusion_the_values_are_the_same_within_rounding():
    form = Form(queries=130, keys=130, mask="causal-select")
    text, arrays = form.text(), form.inputs()
    fused, plain = opentrn.compile(text), opentrn.compile(text, optlevel=1)
    assert plain.passes["attention"] == 0
    np.testing.assert_allclose(fused(*arrays)[0], plain(*arrays)[0], rtol=0, atol=4e-6)
    assert fused.time().total_ns < plain.time().total_ns


def test_keys_that_nobody_sees_are_not_touched():
    """Of two blocks of queries the first sees half of the keys: a quarter of the tiles is never made."""
    square = {"queries": 256, "keys": 256, "batch": 1, "heads": 1}

    def transposes(form: Form) -> int:
        return opentrn.compile(form.text()).program_text().count("nc_transpose")

    operands = 4  # of 128 rows of Q and of K
    assert transposes(Form(**square)) == operands + 4
    assert transposes(Form(**square, mask="causal-select")) == operands + 3


def test_keys_and_values_come_many_blocks_at_once():
    """32 blocks of 128 keys of 256 bytes, 16 in each transfer; queries and the result are one each."""
    form = Form(queries=3, keys=4096, batch=1, heads=1, features=128, element="bf16")
    assert opentrn.compile(form.text()).program_text().count("dma_copy") <= 2 + 2 + 2


def test_short_sequences_come_many_at_once():
    """24 sequences of 9 rows of 256 bytes, three operands: a load each was 72, and the stores are 24."""
    form = Form(batch=24, heads=2, queries=9, keys=9, features=64, element="bf16")
    text, arrays = form.text(), form.inputs()
    model = opentrn.compile(text)
    want = np.asarray(graph.parse(text).evaluate(*arrays, float64=True)[0], np.float64)
    np.testing.assert_allclose(model(*arrays)[0].astype(np.float64), want, rtol=0, atol=2.0**-7 * np.abs(want).max())
    assert model.program_text().count("dma_copy") <= 24 + 2 * 3  # the first sequence's, and those of all others


def test_values_of_short_sequences_are_made_in_blocks_of_128_rows():
    """A product for each of 64 sequences of 9 rows takes as long as one for 128 rows: the values go through memory."""
    sequences, tokens, heads, features = 64, 9, 4, 64
    width = heads * features
    form = Form(batch=sequences, heads=heads, queries=tokens, keys=tokens, features=features, element="bf16")
    inside = form.text()
    rows, split = f"{sequences}x{tokens}x{width}", f"{sequences}x{tokens}x{heads}x{features}"
    weights = ", ".join(f"%w{name}: tensor<{width}x{width}xbf16>" for name in "qkv")
    made = "".join(
        f"""  %{name}f = stablehlo.dot_general %n, %w{name}, contracting_dims = [2] x [0]
    : (tensor<{rows}xbf16>, tensor<{width}x{width}xbf16>) -> tensor<{rows}xbf16>
  %{name} = stablehlo.reshape %{name}f : (tensor<{rows}xbf16>) -> tensor<{split}xbf16>
"""
        for name in "qkv"
    )
    head, body = inside.split("{", 1)
    result = head.rsplit("->", 1)[1].strip()
    text = f"""func.func @main(%in: tensor<{rows}xf32>, {weights}) -> {result} {{
  %t = stablehlo.tanh %in : tensor<{rows}xf32>
  %n = stablehlo.convert %t : (tensor<{rows}xf32>) -> tensor<{rows}xbf16>
{made}{body}"""
    random = np.random.default_rng(3)
    x = random.standard_normal((sequences, tokens, width)).astype(np.float32)
    parameters = [(random.standard_normal((width, width)) * width**-0.5).astype(BFLOAT16) for _ in "qkv"]
    model = opentrn.compile(text, target="trn1")
    assert model.passes["attention"] == 1
    want = np.asarray(graph.parse(text).evaluate(x, *parameters, float64=True)[0], np.float64)
    got = model(x, *parameters)[0].astype(np.float64)
    np.testing.assert_allclose(got, want, rtol=0, atol=2.0**-5 * np.abs(want).max())
    of_attention = 2 * sequences * heads
    # Two blocks of the contraction: queries and keys by columns, two tiles by three parts of the rows; values by rows.
    blocks = 2 * 2 * 2 * 3 + 2 * 5
    assert model.program_text().count("nc_matmul") <= of_attention + blocks


def test_rows_that_a_product_turns_come_many_blocks_at_once():
    text = """func.func @main(%q: tensor<3x128xbf16>, %k: tensor<4200x128xbf16>) -> tensor<3x4200xf32> {
      %s = stablehlo.dot_general %q, %k, contracting_dims = [1] x [1]
        : (tensor<3x128xbf16>, tensor<4200x128xbf16>) -> tensor<3x4200xf32>
      return %s : tensor<3x4200xf32>
    }"""
    random = np.random.default_rng(5)
    q, k = (random.standard_normal((rows, 128)).astype(BFLOAT16) for rows in (3, 4200))
    model = opentrn.compile(text)
    want = q.astype(np.float64) @ k.astype(np.float64).T
    np.testing.assert_allclose(model(q, k)[0], want, rtol=0, atol=1e-4)
    loads = [line for line in model.program_text().splitlines() if "dma_copy" in line and "128:128" in line]
    assert 0 < len(loads) <= 6  # of 33 blocks


def test_a_row_that_sees_nothing_is_nan_as_in_the_graph():
    form = Form(queries=4, keys=6, batch=1, heads=1, mask="added")
    arrays = form.inputs()
    arrays[3][:] = -np.inf
    assert np.isnan(opentrn.compile(form.text())(*arrays)[0]).all()


def test_what_one_sequence_holds_changes_no_bit_of_another():
    form = Form(queries=2, keys=1024, batch=3, heads=3, features=64, element="bf16", mask="added")
    arrays, model = form.inputs(), opentrn.compile(form.text())
    whole = model(*arrays)[0]
    for strange in (np.nan, 1e30, 0.0):
        others = [a.copy() for a in arrays]
        for a in others:
            a[1] = strange
        np.testing.assert_array_equal(model(*others)[0][[0, 2]].view(np.uint16), whole[[0, 2]].view(np.uint16))


def test_a_sequence_that_sees_nothing_is_nan_and_the_others_are_not():
    form = Form(queries=1, keys=512, batch=2, heads=2, mask="added")
    arrays = form.inputs()
    arrays[3][0] = -np.inf
    got = opentrn.compile(form.text())(*arrays)[0]
    assert np.isnan(got[0]).all() and np.isfinite(got[1]).all()


@pytest.mark.parametrize("target", ["trn1", "trn2"])
def test_a_decode_step_is_bound_by_its_keys_and_values(target: str):
    """No engine works longer than the transfers, which are long runs: 16 heads of 8,192 keys."""
    form = Form(queries=1, keys=8192, batch=8, heads=2, features=128, element="bf16", mask="select")
    timing = opentrn.compile(form.text(), target=target).time()
    assert timing.bound_by == "DMA engines"
    assert 2 * 2 * 16 * 8192 * 128 / timing.total_ns > 200  # GB/s; a core's share of HBM is 410 and 362


def test_other_exponentials_are_left_alone():
    """Scores that are shifted by something else than their own maximum are no softmax."""
    text = Form().text().replace("stablehlo.reduce(%x init: %low) applies stablehlo.maximum",
                                 "stablehlo.reduce(%s init: %low) applies stablehlo.maximum")  # fmt: skip
    assert opentrn.compile(text).passes["attention"] == 0


def test_the_longest_section_fits_beside_what_other_kernels_keep():
    """On the smallest SBUF, alone and with sums that wait for the next section."""
    forms = [Form(queries=128, keys=8192, batch=1, heads=2, features=128, element="bf16"),
             Form(queries=128, keys=4096, batch=1, heads=2, features=128),
             Form(queries=4224, keys=16384, batch=1, heads=1, features=128, element="bf16")]  # fmt: skip
    for form in forms:
        model = opentrn.compile(form.text(), target="trn1")
        assert model.passes["attention"] == 1 and model.time().total_ns > 0


def test_sections_take_as_long_for_each_score_as_keys_that_are_held_at_once():
    """Scores of 16,384 keys are twice as many as those of 8,192; without the kernel they go through HBM."""
    def time(keys: int, **options: int) -> float:
        form = Form(queries=2048, keys=keys, batch=1, heads=1, features=128, element="bf16")
        return opentrn.compile(form.text(), target="trn2", **options).time().total_ns

    assert time(16384) < 2.1 * time(8192)
    assert time(16384) < 0.5 * time(16384, optlevel=1)


def test_a_sum_without_its_sink_is_no_softmax():
    text = Form(sinks=True).text().replace("stablehlo.subtract %spread, %most", "stablehlo.subtract %most, %spread")
    assert opentrn.compile(text).passes["attention"] == 0
