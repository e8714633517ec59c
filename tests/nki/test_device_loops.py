"""Device loops: recorded once, executed as often as they say, with the bits of the loop written out."""

import numpy as np
import pytest

import opentrn
from opentrn import nki
from opentrn.errors import NkiValidationError
from opentrn.nki import isa as nisa
from opentrn.nki import language as nl

X = np.random.default_rng(1).standard_normal((8 * 128, 64)).astype(np.float32)
N = np.array([[8]], np.int32)


def load_register(bound):
    tile = nl.ndarray((1, 1), nl.int32)
    nisa.dma_copy(tile, bound)
    register = nisa.register_alloc()
    nisa.register_load(register, tile)
    return register


def rows(tensor, i):
    """128 rows of a [n, 64] tensor from row 128 i."""
    return tensor.reshape((tensor.shape[0] // 128, 128, 64)).ap(
        [[64, 128], [1, 64]], scalar_offset=i, indirect_dim=0
    )


def block(x, out, i):
    tile, scaled = nl.ndarray((128, 64), x.dtype), nl.ndarray((128, 64), x.dtype)
    nisa.dma_copy(tile, rows(x, i))
    nisa.activation(scaled, nl.exp, tile, scale=0.5)
    nisa.dma_copy(rows(out, i), scaled)


def written_out(x, bound):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    for i in range(8):
        block(x, out, nisa.register_alloc(i))
    return out


def fori(x, bound):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nl.fori_loop(0, load_register(bound), lambda i: block(x, out, i))
    return out


def dynamic(x, bound):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    for i in nl.dynamic_range(load_register(bound)):
        block(x, out, i)
    return out


def count_down(body, register):
    """A body of a loop that counts a register down in SBUF."""
    body(register)
    left = nl.ndarray((1, 1), nl.int32)
    nisa.register_store(left, register)
    nisa.tensor_scalar(left, left, nl.subtract, 1)
    nisa.register_load(register, left)


def while_loop(x, bound):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)

    def body(left):
        block(x, out, nisa.register_alloc(left - 1))
        return left - 1

    nl.while_loop(load_register(bound), body)
    return out


def plain_while(x, bound):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    left = load_register(bound)
    while left:
        count_down(lambda register: block(x, out, nisa.register_alloc(register - 1)), left)
    return out


LOOPS = [fori, dynamic, while_loop, plain_while]


def recorded(kernel, *inputs, **options):
    result = opentrn.run(kernel, *inputs, **options)
    return result, result.program_text()


@pytest.mark.parametrize("kernel", LOOPS)
def test_same_bits_as_written_out(kernel):
    wanted = opentrn.run(written_out, X, N, time=False).outputs
    result, text = recorded(kernel, X, N)
    assert np.array_equal(result.outputs, wanted)
    assert text.count("_begin") == text.count("_end ") + text.count("_end\n") == 1
    assert text.count("activation") == 1 and " loop " in text
    assert result.instruction_count < 20


@pytest.mark.parametrize("kernel", LOOPS)
def test_same_bits_eagerly_and_on_the_oracle(kernel, monkeypatch):
    wanted = opentrn.run(kernel, X, N, time=False).outputs
    eager = opentrn.run(kernel, X, N, time=False, eager=True)
    assert np.array_equal(eager.outputs, wanted)
    assert "_begin" not in eager.program_text()
    assert np.allclose(nki.simulate(kernel, backend="oracle", target="trn2")(X, N), wanted, rtol=1e-5)


@pytest.mark.filterwarnings("ignore::opentrn.errors.UnwrittenOutputWarning")  # of fewer iterations
@pytest.mark.parametrize("trips", [0, 1, 3])
@pytest.mark.parametrize("kernel", LOOPS)
def test_trip_count_of_the_run_is_timed(kernel, trips):
    result = opentrn.run(kernel, X, np.array([[trips]], np.int32))
    longer = opentrn.run(kernel, X, np.array([[trips + 1]], np.int32))
    assert result.time_us < longer.time_us


def test_time_is_that_of_the_loop_written_out_when_iterations_depend_on_each_other():
    """One tile, updated in place: nothing can overlap, so only the loop's own instructions and jumps differ."""

    def step(tile):
        nisa.tensor_scalar(tile, tile, nl.multiply, 1.5)
        nisa.activation(tile, nl.tanh, tile)

    def chain(x, loop):
        tile = nl.ndarray((128, 64), x.dtype)
        nisa.dma_copy(tile, x[0:128])
        if loop:
            nl.fori_loop(0, 32, lambda i: step(tile))
        else:
            for _ in range(32):
                step(tile)
        out = nl.ndarray((128, 64), x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out, tile)
        return out

    looped, flat = opentrn.run(chain, X, loop=True), opentrn.run(chain, X, loop=False)
    assert np.array_equal(looped.outputs, flat.outputs)
    overhead = looped.time_us - flat.time_us
    jumps = 31 * 1.4  # microseconds: from each iteration to the next, as it was measured
    markers = 33 * 0.1  # a register instruction per iteration, and the drain of the pipeline
    assert jumps <= overhead < jumps + markers, (looped.time_us, flat.time_us)


def test_a_tile_made_in_the_body_is_new_in_every_iteration():
    """An automatic accumulation overwrites in each iteration; without that the product would add up."""

    def kernel(x):
        a = nl.ndarray((128, 64), x.dtype)
        nisa.dma_copy(a, x[0:128])
        out = nl.ndarray((64, 64), x.dtype, buffer=nl.shared_hbm)

        def body(i):
            product = nl.ndarray((64, 64), nl.float32, buffer=nl.psum)
            nisa.nc_matmul(product, a, a)
            copy = nl.ndarray((64, 64), nl.float32)
            nisa.tensor_copy(copy, product)
            nisa.dma_copy(out, copy)

        nl.fori_loop(0, 3, body)
        return out

    got = opentrn.run(kernel, X).outputs
    assert np.allclose(got, X[:128].T @ X[:128], rtol=1e-4, atol=1e-4)


def test_reading_what_the_last_iteration_left_in_a_tile_of_the_body_is_a_fault():
    def kernel(x):
        out = nl.ndarray((128, 64), x.dtype, buffer=nl.shared_hbm)

        def body(i):
            tile = nl.ndarray((128, 64), x.dtype)
            nl.fori_loop(0, i, lambda j: nisa.memset(tile, 1.0))  # zero times in the first iteration
            nisa.dma_copy(out, tile)

        nl.fori_loop(1, 2, body)  # written before it is read
        nl.fori_loop(0, 1, body)
        return out

    with pytest.raises(NkiValidationError, match="uninitialised_read"):
        opentrn.run(kernel, X, time=False)


def test_nested_loops():
    def kernel(x, bound):
        out = nl.ndarray((128, 1), x.dtype, buffer=nl.shared_hbm)
        total = nl.zeros((128, 1), x.dtype)
        n = load_register(bound)

        def outer(i):
            nl.fori_loop(0, i, lambda j: nisa.tensor_scalar(total, total, nl.add, 1.0))

        nl.fori_loop(0, n, outer)
        nisa.dma_copy(out, total)
        return out

    result = opentrn.run(kernel, X, N)
    assert (result.outputs == 28).all()
    assert result.timings[0].total_ns > 0


def test_a_branch_is_a_loop_of_one_or_no_iteration():
    def kernel(x, flag):
        tile = nl.zeros((128, 64), x.dtype)
        nl.fori_loop(0, load_register(flag), lambda _: nisa.dma_copy(tile, x[0:128]))
        out = nl.ndarray((128, 64), x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out, tile)
        return out

    taken = opentrn.run(kernel, X, np.array([[1]], np.int32))
    skipped = opentrn.run(kernel, X, np.array([[0]], np.int32))
    assert np.array_equal(taken.outputs, X[:128]) and not skipped.outputs.any()
    assert skipped.time_us < taken.time_us


def test_loops_survive_a_program_file(tmp_path, capsys):
    from opentrn.cli import main

    result, text = recorded(fori, X, N)
    (file,) = result.save_program(tmp_path / "loop.otrn")
    assert main(["disasm", str(file)]) == 0
    assert capsys.readouterr().out == text
    assert main(["profile", str(file)]) == 2
    err = capsys.readouterr().err
    assert "try: --loop-iterations N (in Python: loop_iterations=N)" in err
    assert err.count("try:") == 1 and "SimulateOptions" not in err
    for count, why in (("-3", "0 times or more"), (str(1 << 63), "fewer than 2^63"), ("many", "not a number")):
        with pytest.raises(SystemExit) as ended:
            main(["profile", str(file), "--loop-iterations", count])
        assert ended.value.code == 2 and why in capsys.readouterr().err
    assert main(["profile", str(file), "--loop-iterations", "8"]) == 0
    assert main(["profile", str(file), "--loop-iterations", str((1 << 63) - 1)]) == 3
    assert "timing.too_long" in capsys.readouterr().err


def test_time_without_values_needs_the_iterations():
    shapes = opentrn.ShapeOf(X.shape, "float32"), opentrn.ShapeOf((1, 1), "int32")
    with pytest.raises(ValueError, match=r"(?s)how often the loop.*try: .*loop_iterations=N"):
        opentrn.run(fori, *shapes, execute=False)
    eight = opentrn.run(fori, *shapes, execute=False, loop_iterations=8)
    with pytest.raises(ValueError, match="loop_iterations is -3"):
        opentrn.run(fori, *shapes, execute=False, loop_iterations=-3)
    assert eight.time_us == opentrn.run(fori, X, N).time_us


def test_two_cores():
    def kernel(x, bound):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        first = nl.program_id(0)

        def body(i):
            block(x, out, i * 2 + first)
            nisa.core_barrier(out, (0, 1))

        nl.fori_loop(0, load_register(bound), body)
        return out

    result = opentrn.run(kernel, X, np.array([[4]], np.int32), lnc=2)
    assert np.array_equal(result.outputs, opentrn.run(written_out, X, N, time=False).outputs)


def refused(loop):
    def kernel(x, bound):
        out = nl.ndarray((128, 64), x.dtype, buffer=nl.shared_hbm)
        nisa.memset(nl.ndarray((1, 1), nl.float32), 0.0)
        loop(load_register(bound), out)
        nisa.dma_copy(out, x[0:128])
        return out

    with pytest.raises(NkiValidationError) as error:
        opentrn.run(kernel, X, N, time=False)
    return str(error.value)


def test_what_a_loop_cannot_do():
    assert "loop.value" in refused(lambda n, out: nl.fori_loop(0, n, lambda i: int(i)))
    assert "cannot return a value" in refused(lambda n, out: nl.fori_loop(0, n, lambda i: i))
    assert "read-only" in refused(lambda n, out: nl.fori_loop(0, n, lambda i: nisa.register_load(i, out)))

    def left(n, out):
        for _ in nl.dynamic_range(n):
            break

    assert "loop.left" in refused(left)

    def outside(n, out):
        tiles = []
        nl.fori_loop(0, n, lambda i: tiles.append(nl.zeros((128, 64), nl.float32)))
        nisa.dma_copy(out, tiles[0])

    assert "loop.scope" in refused(outside)


def test_registers_that_a_loop_writes_are_not_constants():
    """A register set before the loop and moved in it has the loop's value afterwards."""

    def kernel(x, bound):
        last, two = nisa.register_alloc(5), nisa.register_alloc(2)
        nl.fori_loop(0, load_register(bound), lambda i: nisa.register_move(last, two))
        tile = nl.ndarray((1, 1), nl.int32)
        nisa.register_store(tile, last)
        out = nl.ndarray((1, 1), nl.int32, buffer=nl.shared_hbm)
        nisa.dma_copy(out, tile)
        assert int(last) == (2 if bound_value else 5)
        return out

    for bound_value in (0, 3):
        got = opentrn.run(kernel, X, np.array([[bound_value]], np.int32), time=False).outputs
        assert got[0, 0] == (2 if bound_value else 5)
