"""Products of many small matrices, as the heads of attention are: a transfer brings and takes those of several batches.

Against NumPy in float64; how many transfers there are, by the profile of the predicted run.
"""

import numpy as np
import pytest

import opentrn

RNG = np.random.default_rng(5)
LIMIT = 1e-6  # of the largest result: float32 sums of 32 products


def compiled(arguments: str, body: str, out: str) -> opentrn.CompiledModel:
    text = f"func.func @main({arguments}) -> {out} {{\n{body}\n  return %r : {out}\n}}\n"
    return opentrn.compile(text, target="trn2")


def check(model: opentrn.CompiledModel, arrays: list[np.ndarray], want: np.ndarray, transfers: int) -> None:
    (got,) = model(*arrays)
    assert np.abs(got - want).max() <= LIMIT * np.abs(want).max()
    assert model.time().profile()["summary"]["dma_transfer_count"] <= transfers


def array(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("left", ["[2] x [1]", "[1] x [1]", "[2] x [2]", "[1] x [2]"])
@pytest.mark.parametrize("batches", [2, 30, 37, 144])
def test_heads_share_transfers(left: str, batches: int) -> None:
    """Either side with its contraction first or last; 37 batches have no divisor, so that results go one by one."""
    kind = f"tensor<{batches}x32x32xf32>"
    model = compiled(
        f"%a: {kind}, %b: {kind}",
        f"  %r = stablehlo.dot_general %a, %b, batching_dims = [0] x [0], contracting_dims = {left} :"
        f" ({kind}, {kind}) -> {kind}",
        kind,
    )
    a, b = array(batches, 32, 32), array(batches, 32, 32)
    first, second = (int(side[1]) for side in left.split(" x "))
    rows = np.moveaxis(a.astype(np.float64), first, 2)
    columns = np.moveaxis(b.astype(np.float64), second, 1)
    stores = batches if batches == 37 else -(-batches // 10)
    check(model, [a, b], rows @ columns, 2 * -(-batches // 10) + stores + 2)


def test_what_follows_a_product_moves_with_it() -> None:
    """A mask by batch that heads share, one number per row, and two results."""
    heads, sums = "tensor<4x6x32x16xf32>", "tensor<4x6x32x32xf32>"
    model = compiled(
        f"%a: {heads}, %b: {heads}, %mask: tensor<4x1x32x32xf32>, %other: {sums}",
        f"  %p = stablehlo.dot_general %a, %b, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3] :"
        f" ({heads}, {heads}) -> {sums}\n"
        f"  %m = stablehlo.broadcast_in_dim %mask, dims = [0, 1, 2, 3] : (tensor<4x1x32x32xf32>) -> {sums}\n"
        f"  %s = stablehlo.add %p, %m : {sums}\n"
        f"  %r = stablehlo.multiply %s, %other : {sums}",
        sums,
    )
    a, b, mask, other = array(4, 6, 32, 16), array(4, 6, 32, 16), array(4, 1, 32, 32), array(4, 6, 32, 32)
    want = (np.einsum("bhqd,bhkd->bhqk", a, b, dtype=np.float64) + mask) * other
    check(model, [a, b, mask, other], want, 20)


def test_rows_are_reduced_beside_each_other() -> None:
    """Softmax of each head's rows, and heads that lie side by side in memory as a projection leaves them."""
    kind, heads, sums = "tensor<3x32x8x16xf32>", "tensor<3x8x32x16xf32>", "tensor<3x8x32x32xf32>"
    turn = "dims = [0, 2, 1, 3]"
    model = compiled(
        f"%a: {kind}, %b: {kind}",
        f"  %x = stablehlo.transpose %a, {turn} : ({kind}) -> {heads}\n"
        f"  %y = stablehlo.transpose %b, {turn} : ({kind}) -> {heads}\n"
        f"  %p = stablehlo.dot_general %x, %y, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3] :"
        f" ({heads}, {heads}) -> {sums}\n"
        f"  %e = stablehlo.exponential %p : {sums}\n"
        f"  %z = stablehlo.constant dense<0.0> : tensor<f32>\n"
        f"  %t = stablehlo.reduce(%e init: %z) applies stablehlo.add across dimensions = [3] :"
        f" ({sums}, tensor<f32>) -> tensor<3x8x32xf32>\n"
        f"  %w = stablehlo.broadcast_in_dim %t, dims = [0, 1, 2] : (tensor<3x8x32xf32>) -> {sums}\n"
        f"  %r = stablehlo.divide %e, %w : {sums}",
        sums,
    )
    a, b = array(3, 32, 8, 16) / 4, array(3, 32, 8, 16) / 4
    powers = np.exp(np.einsum("bqhd,bkhd->bhqk", a, b, dtype=np.float64))
    check(model, [a, b], powers / powers.sum(-1, keepdims=True), 12)


def test_operands_of_several_batches_are_computed_at_once() -> None:
    """(x + y) of each batch is made as it is loaded, for several batches in one instruction."""
    kind = "tensor<48x32x32xf32>"
    model = compiled(
        f"%x: {kind}, %y: {kind}, %b: {kind}",
        f"  %s = stablehlo.add %x, %y : {kind}\n"
        f"  %r = stablehlo.dot_general %s, %b, batching_dims = [0] x [0], contracting_dims = [1] x [1] :"
        f" ({kind}, {kind}) -> {kind}",
        kind,
    )
    assert model.passes["prologues"] == 1
    x, y, b = array(48, 32, 32), array(48, 32, 32), array(48, 32, 32)
    want = np.einsum("bkm,bkn->bmn", (x + y).astype(np.float64), b.astype(np.float64))
    check(model, [x, y, b], want, 12)
