"""Loops, branches and slices at run-time places as device code, against NumPy and the graph's evaluator."""

import json
import re

import numpy as np
import pytest

import opentrn
from opentrn import graph
from opentrn.cli import commands as cli

RNG = np.random.default_rng(11)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def run(text: str, *arrays: np.ndarray) -> tuple[opentrn.CompiledModel, list[np.ndarray]]:
    """The device's values, which must be the evaluator's: whole numbers exactly, floats to 2e-6 of the largest."""
    model = opentrn.compile(text)
    outputs = model(*arrays)
    wanted = graph.parse(text).evaluate(*arrays)
    wanted = wanted if isinstance(wanted, (list, tuple)) else [wanted]
    for got, want in zip(outputs, wanted, strict=True):
        if want.dtype.kind in "biu":
            np.testing.assert_array_equal(got, want)
        else:
            np.testing.assert_allclose(got, want, rtol=0, atol=2e-6 * max(1e-30, np.abs(want).max()))
    return model, outputs


def instructions(model: opentrn.CompiledModel, opcode: str) -> int:
    return len(re.findall(rf"\b{opcode}\b", model.program_text()))


COUNTED = """
func.func @main(%x: tensor<5x7xf32>, %n: tensor<i32>) -> (tensor<5x7xf32>, tensor<i32>) {
  %start = stablehlo.constant dense<START> : tensor<i32>
  %r:2 = stablehlo.while(%i = %start, %a = %x) : tensor<i32>, tensor<5x7xf32>
    cond {
      %go = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %go : tensor<i1>
    } do {
      %step = stablehlo.constant dense<STEP> : tensor<i32>
      %f = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
      %b = stablehlo.broadcast_in_dim %f, dims = [] : (tensor<f32>) -> tensor<5x7xf32>
      %s = stablehlo.add %a, %b : tensor<5x7xf32>
      %next = stablehlo.add %i, %step : tensor<i32>
      stablehlo.return %next, %s : tensor<i32>, tensor<5x7xf32>
    }
  return %r#1, %r#0 : tensor<5x7xf32>, tensor<i32>
}
"""


@pytest.mark.parametrize("start,step,bound", [(0, 1, 6), (-3, 2, 8), (4, 3, 4), (9, 1, 2)])
def test_a_while_that_counts_is_a_counted_loop(start, step, bound):
    text = COUNTED.replace("START", str(start)).replace("STEP", str(step))
    x = normal(5, 7)
    model, (total, last) = run(text, x, np.int32(bound))
    steps = range(start, bound, step)
    np.testing.assert_allclose(total, x + sum(steps), rtol=1e-6)
    assert last == (steps[-1] + step if steps else start)
    assert instructions(model, "loop_begin") == 1
    assert instructions(model, "while_begin") == 0


RECURRENCE = """
func.func @main(%h: tensor<2x200xf32>, %w: tensor<200x200xf32>) -> (tensor<2x200xf32>, tensor<200x200xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %r:2 = stablehlo.while(%i = %zero, %a = %h) : tensor<i32>, tensor<2x200xf32>
    cond {
      %n = stablehlo.constant dense<300> : tensor<i32>
      %go = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %go : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %p = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0]
           : (tensor<2x200xf32>, tensor<200x200xf32>) -> tensor<2x200xf32>
      %t = stablehlo.tanh %p : tensor<2x200xf32>
      %next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %next, %t : tensor<i32>, tensor<2x200xf32>
    }
  %v = stablehlo.multiply %w, %w : tensor<200x200xf32>
  return %r#1, %v : tensor<2x200xf32>, tensor<200x200xf32>
}
"""


def test_weights_of_a_recurrence_are_loaded_before_it():
    model, _ = run(RECURRENCE, normal(2, 200), normal(200, 200) / 32)
    text = model.program_text()
    loop = text[text.index("loop_begin") : text.index("loop_end")]
    weights = re.search(r'tensor (%\d+) .*"input1"', text)[1]
    assert "nc_matmul" in loop
    assert f"src={weights}[" not in loop


OUTER = """
func.func @main(%h: tensor<8xf32>, %w: tensor<16x4xf32>) -> tensor<8xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %nothing = stablehlo.constant dense<0.0> : tensor<f32>
  %r:2 = stablehlo.while(%i = %zero, %a = %h) : tensor<i32>, tensor<8xf32>
    cond {
      %n = stablehlo.constant dense<3> : tensor<i32>
      %go = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %go : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %p = stablehlo.dot_general %a, %w : (tensor<8xf32>, tensor<16x4xf32>) -> tensor<8x16x4xf32>
      %s = stablehlo.reduce(%p init: %nothing) applies stablehlo.maximum across dimensions = [1, 2]
           : (tensor<8x16x4xf32>, tensor<f32>) -> tensor<8xf32>
      %next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %next, %s : tensor<i32>, tensor<8xf32>
    }
  return %r#1 : tensor<8xf32>
}
"""


def test_an_outer_product_in_a_loop():
    h, w = normal(8), normal(16, 4)
    want = h
    for _ in range(3):
        want = np.maximum((want[:, None, None] * w).max((1, 2)), 0)
    np.testing.assert_allclose(run(OUTER, h, w)[1][0], want, rtol=1e-6)


DOUBLING = """
func.func @main(%x: tensor<f32>) -> (tensor<f32>, tensor<i32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %r:2 = stablehlo.while(%a = %x, %i = %zero) : tensor<f32>, tensor<i32>
    cond {
      %limit = stablehlo.constant dense<100.0> : tensor<f32>
      %go = stablehlo.compare LT, %a, %limit, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %go : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %s = stablehlo.add %a, %a : tensor<f32>
      %next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %s, %next : tensor<f32>, tensor<i32>
    }
  return %r#0, %r#1 : tensor<f32>, tensor<i32>
}
"""


def test_a_while_that_looks_at_values():
    model, outputs = run(DOUBLING, np.float32(3))
    assert [float(outputs[0]), int(outputs[1])] == [192, 6]
    assert instructions(model, "while_begin") == 1
    six = model.time().total_ns  # as often as it has just run
    run_none = model(np.float32(200))
    assert int(run_none[1]) == 0
    assert model.time().total_ns < six
    fresh = opentrn.compile(DOUBLING)
    with pytest.raises(ValueError, match="how often the loop"):
        fresh.time()
    assert fresh.time(loop_iterations=6).total_ns == pytest.approx(six, rel=1e-3)
    with pytest.raises(ValueError, match="loop_iterations is -1"):
        fresh.time(loop_iterations=-1)


def test_commands_on_a_model_without_a_known_time(tmp_path, capsys):
    source, file = tmp_path / "doubling.mlir", tmp_path / "doubling.neuron"
    source.write_text(DOUBLING)
    assert cli.main(["compile", str(source), "-o", str(file)]) == 0
    assert "predicted: unknown" in capsys.readouterr().out
    assert cli.main(["describe", str(file)]) == 0
    assert "unknown time" in capsys.readouterr().out
    assert cli.main(["compile", str(source), "-o", str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["time_us"] is None
    assert cli.main(["compile", str(source), "-o", str(file), "--loop-iterations", "3", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["time_us"] > 0
    assert cli.main(["run", str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["time_us"] > 0  # the run has counted
    assert cli.main(["compile", str(source), "-o", str(file), "--report", "-"]) == 2
    assert "--loop-iterations N" in capsys.readouterr().err


def test_carried_values_change_places_at_once():
    text = """
func.func @main(%x: tensor<3x4xf32>, %y: tensor<3x4xf32>, %n: tensor<i32>) -> (tensor<3x4xf32>, tensor<3x4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %r:3 = stablehlo.while(%i = %zero, %a = %x, %b = %y) : tensor<i32>, tensor<3x4xf32>, tensor<3x4xf32>
    cond {
      %go = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %go : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %next, %b, %a : tensor<i32>, tensor<3x4xf32>, tensor<3x4xf32>
    }
  return %r#1, %r#2 : tensor<3x4xf32>, tensor<3x4xf32>
}
"""
    x, y = normal(3, 4), normal(3, 4)
    for n in (0, 1, 2, 5):
        _, (a, b) = run(text, x, y, np.int32(n))
        np.testing.assert_array_equal(a, y if n % 2 else x)
        np.testing.assert_array_equal(b, x if n % 2 else y)


BRANCH = """
func.func @main(%p: tensor<i1>, %x: tensor<150x9xf32>) -> (tensor<150x9xf32>, tensor<9xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %e = stablehlo.exponential %x : tensor<150x9xf32>
  %r:2 = "stablehlo.if"(%p) ({
    %s = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [0]
      : (tensor<150x9xf32>, tensor<f32>) -> tensor<9xf32>
    stablehlo.return %x, %s : tensor<150x9xf32>, tensor<9xf32>
  }, {
    %s = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0]
      : (tensor<150x9xf32>, tensor<f32>) -> tensor<9xf32>
    stablehlo.return %e, %s : tensor<150x9xf32>, tensor<9xf32>
  }) : (tensor<i1>) -> (tensor<150x9xf32>, tensor<9xf32>)
  %sum = stablehlo.add %r#0, %e : tensor<150x9xf32>
  return %sum, %r#1 : tensor<150x9xf32>, tensor<9xf32>
}
"""


@pytest.mark.parametrize("taken", [True, False])
def test_a_branch(taken):
    x = normal(150, 9)
    model, outputs = run(BRANCH, np.bool_(taken), x)
    wide = x.astype(np.float64)
    np.testing.assert_allclose(
        outputs[0], (wide if taken else np.exp(wide)) + np.exp(wide), rtol=1e-5, atol=1e-5
    )
    assert instructions(model, "loop_begin") == 2


@pytest.mark.parametrize("index", [-1, 0, 1, 2, 3, 2**31 - 1])
def test_case_takes_the_last_branch_when_out_of_range(index):
    text = """
func.func @main(%i: tensor<i32>, %x: tensor<8xf32>) -> tensor<8xf32> {
  %r = "stablehlo.case"(%i) ({
    %a = stablehlo.negate %x : tensor<8xf32>
    stablehlo.return %a : tensor<8xf32>
  }, {
    stablehlo.return %x : tensor<8xf32>
  }, {
    %c = stablehlo.add %x, %x : tensor<8xf32>
    stablehlo.return %c : tensor<8xf32>
  }) : (tensor<i32>) -> tensor<8xf32>
  return %r : tensor<8xf32>
}
"""
    x = normal(8)
    _, outputs = run(text, np.int32(index), x)
    np.testing.assert_array_equal(outputs[0], {0: -x, 1: x}.get(index, 2 * x))


def test_a_loop_in_a_branch_in_a_loop():
    text = """
func.func @main(%x: tensor<6x5xf32>) -> tensor<6x5xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %r:2 = stablehlo.while(%i = %zero, %a = %x) : tensor<i32>, tensor<6x5xf32>
    cond {
      %go = stablehlo.compare LT, %i, %four, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %go : tensor<i1>
    } do {
      %p = stablehlo.compare LT, %i, %two, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %b = "stablehlo.if"(%p) ({
        %inner:2 = stablehlo.while(%j = %zero, %c = %a) : tensor<i32>, tensor<6x5xf32>
          cond {
            %more = stablehlo.compare LE, %j, %i, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
            stablehlo.return %more : tensor<i1>
          } do {
            %d = stablehlo.add %c, %x : tensor<6x5xf32>
            %k = stablehlo.add %j, %one : tensor<i32>
            stablehlo.return %k, %d : tensor<i32>, tensor<6x5xf32>
          }
        stablehlo.return %inner#1 : tensor<6x5xf32>
      }, {
        %d = stablehlo.multiply %a, %a : tensor<6x5xf32>
        stablehlo.return %d : tensor<6x5xf32>
      }) : (tensor<i1>) -> tensor<6x5xf32>
      %next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %next, %b : tensor<i32>, tensor<6x5xf32>
    }
  return %r#1 : tensor<6x5xf32>
}
"""
    x = normal(6, 5)
    _, outputs = run(text, x)
    np.testing.assert_allclose(outputs[0], (4 * x.astype(np.float64)) ** 4, rtol=1e-5)


@pytest.mark.parametrize("i,j", [(0, 0), (4, 11), (-5, 3), (2**31 - 1, -(2**31)), (7, 8)])
@pytest.mark.parametrize("index", ["i32", "ui32"])
def test_slices_and_updates_are_clamped(i, j, index):
    text = """
func.func @main(%x: tensor<10x12xf32>, %u: tensor<3x4xf32>, %i: tensor<INDEX>, %j: tensor<INDEX>)
    -> (tensor<3x4xf32>, tensor<10x12xf32>, tensor<3x4xf32>) {
  %a = stablehlo.dynamic_slice %x, %i, %j, sizes = [3, 4]
    : (tensor<10x12xf32>, tensor<INDEX>, tensor<INDEX>) -> tensor<3x4xf32>
  %b = stablehlo.dynamic_update_slice %x, %u, %i, %j
    : (tensor<10x12xf32>, tensor<3x4xf32>, tensor<INDEX>, tensor<INDEX>) -> tensor<10x12xf32>
  %back = stablehlo.reverse %x, dims = [1] : tensor<10x12xf32>
  %c = stablehlo.dynamic_slice %back, %i, %j, sizes = [3, 4]
    : (tensor<10x12xf32>, tensor<INDEX>, tensor<INDEX>) -> tensor<3x4xf32>
  return %a, %b, %c : tensor<3x4xf32>, tensor<10x12xf32>, tensor<3x4xf32>
}
""".replace("INDEX", index)
    x, u = normal(10, 12), normal(3, 4)
    kind = {"i32": np.int32, "ui32": np.uint32}[index]
    at = [np.array(k, np.int64).astype(kind) for k in (i, j)]
    _, (a, b, c) = run(text, x, u, *at)
    row, column = int(np.clip(at[0], 0, 7)), int(np.clip(at[1], 0, 8))
    np.testing.assert_array_equal(a, x[row : row + 3, column : column + 4])
    np.testing.assert_array_equal(b[row : row + 3, column : column + 4], u)
    np.testing.assert_array_equal(c, x[:, ::-1][row : row + 3, column : column + 4])


CACHE = """
func.func @main(%cache: tensor<64x16xf32>, %x: tensor<5x16xf32>, %at: tensor<i32>) -> (tensor<64x16xf32>, tensor<f32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %five = stablehlo.constant dense<5> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<f32>
  %r:3 = stablehlo.while(%i = %zero, %c = %cache, %t = %none) : tensor<i32>, tensor<64x16xf32>, tensor<f32>
    cond {
      %go = stablehlo.compare LT, %i, %five, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %go : tensor<i1>
    } do {
      %k = stablehlo.dynamic_slice %x, %i, %zero, sizes = [1, 16]
        : (tensor<5x16xf32>, tensor<i32>, tensor<i32>) -> tensor<1x16xf32>
      %place = stablehlo.add %i, %at : tensor<i32>
      READ_BEFORE
      %d = stablehlo.dynamic_update_slice %c, %k, %place, %zero
        : (tensor<64x16xf32>, tensor<1x16xf32>, tensor<i32>, tensor<i32>) -> tensor<64x16xf32>
      %s = stablehlo.reduce(%READ init: %none) applies stablehlo.add across dimensions = [0, 1]
        : (tensor<64x16xf32>, tensor<f32>) -> tensor<f32>
      %u = stablehlo.add %t, %s : tensor<f32>
      %next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %next, %d, %u : tensor<i32>, tensor<64x16xf32>, tensor<f32>
    }
  return %r#1, %r#2 : tensor<64x16xf32>, tensor<f32>
}
"""


@pytest.mark.parametrize("read", ["d", "c"])
def test_a_cache_is_updated_in_place(read):
    """Of the old cache too, which must then be read before the update although it comes later in the text."""
    text = CACHE.replace("%READ", f"%{read}").replace("READ_BEFORE", "")
    cache, x = (RNG.integers(-9, 10, shape).astype(np.float32) for shape in [(64, 16), (5, 16)])  # exact sums
    model, (after, _) = run(text, cache, x, np.int32(30))
    np.testing.assert_array_equal(after[30:35], x)
    np.testing.assert_array_equal(after[35:], cache[35:])
    # The cache's 4 KiB move once, to where the loop works on them; then only rows do.
    whole = [
        line for line in model.program_text().splitlines() if "dma_copy" in line and line.count("1024]") >= 2
    ]
    assert len(whole) == 1


def test_reads_of_the_old_value_after_an_update():
    text = """
func.func @main(%x: tensor<9x8xf32>, %u: tensor<2x8xf32>, %i: tensor<i32>) -> (tensor<9x8xf32>, tensor<9x8xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %e = stablehlo.exponential %x : tensor<9x8xf32>
  %d = stablehlo.dynamic_update_slice %e, %u, %i, %zero
    : (tensor<9x8xf32>, tensor<2x8xf32>, tensor<i32>, tensor<i32>) -> tensor<9x8xf32>
  %s = stablehlo.multiply %d, %e : tensor<9x8xf32>
  return %d, %s : tensor<9x8xf32>, tensor<9x8xf32>
}
"""
    x, u = normal(9, 8), normal(2, 8)
    run(text, x, u, np.int32(3))


def test_coverage_looks_into_loops():
    text = COUNTED.replace("START", "0").replace("STEP", "1")
    rows = {row.op: row for row in opentrn.model.coverage(text)}
    assert rows["stablehlo.while"].unsupported == 0
    assert rows["stablehlo.convert"].count == 1


def test_a_value_that_three_loops_carry_as_it_is():
    """As jax.experimental.ode.odeint makes them: the innermost reads what the outermost was given."""
    header = "tensor<i32>, tensor<4xf32>, tensor<4xf32>"
    text = "func.func @main(%x: tensor<4xf32>, %c: tensor<4xf32>) -> tensor<4xf32> {\n"
    text += "%zero = stablehlo.constant dense<0> : tensor<i32>\n%one = stablehlo.constant dense<1> : tensor<i32>\n"
    text += "%two = stablehlo.constant dense<2> : tensor<i32>\n"
    total, same = "%x", "%c"
    for depth in range(3):
        text += f"%r{depth}:3 = stablehlo.while(%i{depth} = %zero, %t{depth} = {total}, %s{depth} = {same}) : {header}"
        text += f" cond {{ %go = stablehlo.compare LT, %i{depth}, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
        text += "stablehlo.return %go : tensor<i1> } do {\n"
        total, same = f"%t{depth}", f"%s{depth}"
    text += f"%sum = stablehlo.add {total}, {same} : tensor<4xf32>\n"
    total = "%sum"
    for depth in (2, 1, 0):
        text += f"%n{depth} = stablehlo.add %i{depth}, %one : tensor<i32>\n"
        text += f"stablehlo.return %n{depth}, {total}, %s{depth} : {header} }}\n"
        total = f"%r{depth}#1"
    text += f"return {total} : tensor<4xf32> }}\n"
    x, c = np.float32([1, 2, 3, 4]), np.float32([0.5, 1, -1, 0])
    for level in (1, 2, 3):
        (got,) = opentrn.compile(text, optlevel=level)(x, c)
        np.testing.assert_array_equal(got, x + 8 * c)
