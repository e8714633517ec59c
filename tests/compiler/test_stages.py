"""Models whose shapes depend on data: a chain of programs, against NumPy, for no rows, some and all."""

import json

import numpy as np
import pytest
from onnx_bytes import field, value_info

import opentrn
from opentrn import _core, graph
from opentrn.cli import commands as cli
from opentrn.errors import InputError
from opentrn.model import compiled as model
from opentrn.model import stages
from opentrn.model.stages import StagedModel

FLOAT, INT64, BOOL = 1, 7, 9
RNG = np.random.default_rng(0)


def attribute(name, value):
    if isinstance(value, bytes):
        return field(1, name) + field(6, value) + field(20, 5)
    if isinstance(value, list):
        return field(1, name) + b"".join(field(8, each & (1 << 64) - 1) for each in value) + field(20, 7)
    return field(1, name) + field(3, value) + field(20, 2)


def node(op, inputs, outputs, **attributes):
    names = b"".join(field(1, name) for name in inputs) + b"".join(field(2, name) for name in outputs)
    rows = b"".join(field(5, attribute(name, value)) for name, value in attributes.items())
    return names + field(3, f"{op}_{outputs[0]}") + field(4, op) + rows


def tensor(name, array):
    kind = {"float32": FLOAT, "int64": INT64, "bool": BOOL}[array.dtype.name]
    dims = b"".join(field(1, size) for size in array.shape)
    return dims + field(2, kind) + field(8, name) + field(9, array.tobytes())


def graph_of(nodes, inputs, outputs, constants=()):
    body = b"".join(field(1, row) for row in nodes) + field(2, "g")
    body += b"".join(field(5, tensor(name, np.asarray(array))) for name, array in constants)
    body += b"".join(field(11, value_info(*port)) for port in inputs)
    return body + b"".join(field(12, value_info(*port)) for port in outputs)


def onnx_file(path, *parts):
    path.write_bytes(field(1, 8) + field(7, graph_of(*parts)) + field(8, field(1, "") + field(2, 17)))
    return path


def evaluated(staged, *arrays):
    """The reference evaluator's results, stage by stage."""
    results, _ = stages.run(
        staged.first, arrays, lambda stage, values: graph.Module(stage.raw.module).evaluate(*values)
    )
    return results


def check(staged, arrays, expected):
    for results in (staged(*arrays), evaluated(staged, *arrays)):
        for got, want in zip(results, expected, strict=True):
            assert (got.shape, got.dtype) == (want.shape, want.dtype)
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.fixture()
def masked(tmp_path):
    """x[x > 0] * 2, and how many: as PyTorch's exporters write it."""
    return onnx_file(
        tmp_path / "masked.onnx",
        [
            node("Greater", ["x", "zero"], ["mask"]),
            node("NonZero", ["mask"], ["found"]),
            node("Transpose", ["found"], ["indices"]),
            node("GatherND", ["x", "indices"], ["values"]),
            node("Mul", ["values", "two"], ["y"]),
            node("Shape", ["y"], ["count"]),
        ],
        [("x", [4, 5])],
        [("y", ["kept"]), ("count", [1], INT64)],
        [("zero", np.float32(0)), ("two", np.float32(2))],
    )  # fmt: skip


def mixed(shape):
    return RNG.standard_normal(shape).astype(np.float32)


def test_the_elements_under_a_mask_are_as_many_as_there_are(masked):
    staged = opentrn.compile(masked, strict=True)
    assert isinstance(staged, StagedModel)
    for x in (mixed((4, 5)), mixed((4, 5)), -np.ones((4, 5), np.float32), np.ones((4, 5), np.float32)):
        y = 2 * x[x > 0]
        check(staged, [x], [y, np.array([y.size], np.int64)])
    assert staged.path[-1].sizes == {"found": 20}
    assert staged.outputs[0].shape == (-1,)


def test_a_size_that_came_up_before_is_not_compiled_again(masked):
    staged = opentrn.compile(masked)
    for _ in range(2):
        staged(np.eye(4, 5, dtype=np.float32))
    assert [stage.sizes for stage, _ in staged.compiled_stages] == [{}, {"found": 4}]


def test_the_file_is_imported_once(masked, monkeypatch):
    read = []
    files_of_onnx, compile_model = _core.files_of_onnx, _core.compile_model
    monkeypatch.setattr(_core, "files_of_onnx", lambda path: read.append(path) or files_of_onnx(path))
    monkeypatch.setattr(_core, "compile_model", lambda *how: read.append(how) or compile_model(*how))
    assert isinstance(opentrn.compile(masked), StagedModel)
    assert read == [str(masked)]


def test_time_is_that_of_the_sizes_of_the_last_call(masked):
    staged = opentrn.compile(masked)
    with pytest.raises(ValueError, match=r"found \(up to 20\), for NonZero node 'NonZero_found'"):
        staged.time()
    staged(np.ones((4, 5), np.float32))
    timing = staged.time()
    assert len(timing.parts) == 2
    assert timing.total_ns == sum(part.total_ns for _, part in timing.parts)
    assert "stage 2 of 2, for found=20" in timing.text()


@pytest.mark.parametrize("weights", ["copy", "reference"])
def test_a_file_holds_the_rest_of_the_model(masked, tmp_path, weights):
    staged = opentrn.compile(masked, dimensions={"found": [3]})
    path = staged.save(tmp_path / "masked.neuron", weights=weights)
    if weights == "copy":
        masked.unlink()
    again = model.load(path)
    assert [stage.sizes for stage, _ in again.compiled_stages] == [{}]
    x = mixed((4, 5))
    np.testing.assert_array_equal(again(x)[0], 2 * x[x > 0])
    if weights == "reference":
        masked.write_bytes(masked.read_bytes() + b"\0")
        with pytest.raises(ValueError, match="has changed since"):
            model.load(path)


def test_the_command_line_says_what_ran(masked, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("OPENTRN_CACHE", str(tmp_path / "cache"))
    file = str(tmp_path / "masked.neuron")
    assert cli.main(["compile", str(masked), "-o", file]) == 0
    out = capsys.readouterr().out
    assert "then the host reads found (up to 20), for NonZero node 'NonZero_found'" in out
    assert "output y          f32 [?]" in out
    np.save(tmp_path / "x.npy", np.ones((4, 5), np.float32))
    assert cli.main(["run", file, "--input", f"x={tmp_path / 'x.npy'}"]) == 0
    captured = capsys.readouterr()
    assert "stage 2 of 2 for found=20" in captured.err
    assert "predicted: " in captured.out
    assert cli.main(["coverage", str(masked)]) == 0
    assert "stage 2 is looked at for found=20, which data decide" in capsys.readouterr().out
    assert cli.main(["profile", str(masked), "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["time_us"] > 0


def test_progress_names_the_stages(masked, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("OPENTRN_CACHE", str(tmp_path / "cache"))
    np.save(tmp_path / "x.npy", np.ones((4, 5), np.float32))
    assert cli.main(["run", str(masked), "--input", f"x={tmp_path / 'x.npy'}", "--progress"]) == 0
    steps = [line.split(" s: ")[1] for line in capsys.readouterr().err.splitlines() if " s: " in line]
    assert steps == [
        "compiling the model", "computing", "computing stage 1", "compiling stage 2", "computing stage 2", "timing",
    ]  # fmt: skip


def test_a_module_of_its_own_is_refused_with_the_way_out(masked):
    with pytest.raises(NotImplementedError, match="opentrn compile and opentrn run take such models"):
        model.prepare(masked)


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_compress(tmp_path, axis):
    how = {} if axis is None else {"axis": axis}
    path = onnx_file(
        tmp_path / "compress.onnx", [node("Compress", ["x", "keep"], ["y"], **how)],
        [("x", [4, 6]), ("keep", [4], BOOL)], [("y", [])],
    )  # fmt: skip
    staged = opentrn.compile(path, strict=True)
    for keep in (RNG.random(4) < 0.5, np.zeros(4, bool), np.ones(4, bool)):
        x = mixed((4, 6))
        check(staged, [x, keep], [np.compress(keep, x, axis)])


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("by_value", [0, 1])
def test_unique(tmp_path, axis, by_value):
    how = {"sorted": by_value} | ({} if axis is None else {"axis": axis})
    path = onnx_file(
        tmp_path / "unique.onnx", [node("Unique", ["x"], ["y", "first", "which", "count"], **how)],
        [("x", [5, 3])],
        [("y", []), ("first", [], INT64), ("which", [], INT64), ("count", [], INT64)],
    )  # fmt: skip
    staged = opentrn.compile(path, strict=True)
    for x in (RNG.integers(0, 2, (5, 3)), np.zeros((5, 3)), np.arange(15).reshape(5, 3)[::-1]):
        x = x.astype(np.float32)
        y, first, which, count = np.unique(x, True, True, True, axis=axis)
        which = which.reshape(-1)
        if not by_value:
            order = np.argsort(first)
            y = np.take(y, order, axis=axis or 0)
            first, count, which = first[order], count[order], np.argsort(order)[which]
        check(staged, [x], [y, *(part.astype(np.int64) for part in (first, which, count))])


def suppressed(boxes, scores, most, overlap, lowest):
    """NonMaxSuppression box by box."""
    rows = []
    for b, c in np.ndindex(scores.shape[:2]):
        kept = []
        for i in np.argsort(-scores[b, c], kind="stable"):
            if scores[b, c, i] <= lowest or len(kept) == most:
                continue
            y1, x1, y2, x2 = boxes[b, i]
            for k in kept:
                u1, v1, u2, v2 = boxes[b, k]
                both = max(0, min(y2, u2) - max(y1, u1)) * max(0, min(x2, v2) - max(x1, v1))
                if both / ((y2 - y1) * (x2 - x1) + (u2 - u1) * (v2 - v1) - both) > overlap:
                    break
            else:
                kept.append(i)
        rows += [[b, c, i] for i in kept]
    return np.array(rows, np.int64).reshape(-1, 3)


def test_a_detector_keeps_the_boxes_that_do_not_overlap(tmp_path):
    path = onnx_file(
        tmp_path / "detector.onnx",
        [
            node("NonMaxSuppression", ["boxes", "scores", "most", "overlap", "lowest"], ["kept"]),
            node("Gather", ["kept", "two"], ["index"], axis=1),
            node("Squeeze", ["boxes", "zero"], ["first"]),
            node("Gather", ["first", "index"], ["y"], axis=0),
        ],
        [("boxes", [1, 12, 4]), ("scores", [1, 2, 12])],
        [("kept", [], INT64), ("y", [])],
        [("most", np.array([4])), ("overlap", np.array([0.3], np.float32)), ("two", np.int64(2)),
         ("lowest", np.array([0.4], np.float32)), ("zero", np.array([0]))],
    )  # fmt: skip
    staged = opentrn.compile(path, strict=True)
    for lowest in (0.0, 0.4, 1.0):
        boxes = RNG.random((1, 12, 4)).astype(np.float32)
        boxes[..., 2:] += boxes[..., :2]
        scores = (RNG.random((1, 2, 12)) * (1 - lowest) + 0.39 * lowest).astype(np.float32)
        kept = suppressed(boxes, scores, 4, 0.3, np.float32(0.4))
        check(staged, [boxes, scores], [kept, boxes[0, kept[:, 2]]])
    assert kept.size == 0


def test_a_shape_that_is_computed_is_read_before_the_rest_is_compiled(tmp_path):
    path = onnx_file(
        tmp_path / "reshape.onnx",
        [
            node("ReduceMax", ["n"], ["rows"], keepdims=1),
            node("Concat", ["rows", "open"], ["shape"], axis=0),
            node("Reshape", ["x", "shape"], ["y"]),
        ],
        [("x", [12]), ("n", [3], INT64)], [("y", [])], [("open", np.array([-1]))],
    )  # fmt: skip
    staged = opentrn.compile(path, strict=True)
    for rows in (2, 3, 12):
        x = mixed(12)
        check(staged, [x, np.array([1, rows, 1])], [x.reshape(rows, -1)])
    with pytest.raises(ValueError, match="do not fill the shape"):
        staged(mixed(12), np.array([1, 5, 1]))


def test_branches_of_different_shapes_and_loops_that_grow(tmp_path):
    scalar = [("c", [], BOOL)]
    then, other = (
        graph_of([node(op, ["x", *rest], ["out"])], [], [("out", [])])
        for op, rest in (("Add", ["x"]), ("Slice", ["from", "to"]))
    )
    body = graph_of(
        [node("Concat", ["s", "part"], ["s2"], axis=0), node("ReduceSum", ["s2"], ["sum"], keepdims=0),
         node("Less", ["sum", "limit"], ["go"])],
        [("i", [], INT64), *scalar, ("s", [])], [("go", [], BOOL), ("s2", []), ("sum", [])],
    )  # fmt: skip
    path = onnx_file(
        tmp_path / "control.onnx",
        [
            node("If", ["c"], ["part"], then_branch=then, else_branch=other),
            node("Loop", ["", "c_true", "part"], ["grown", "sums"], body=body),
        ],
        [("x", [4]), ("c", [], BOOL)], [("grown", []), ("sums", [])],
        [("from", np.array([0])), ("to", np.array([2])), ("limit", np.float32(30)), ("c_true", np.array(True))],
    )  # fmt: skip
    staged = opentrn.compile(path, strict=True)
    x = np.array([1, 2, 3, 4], np.float32)
    for c in (True, False):
        state = part = 2 * x if c else x[:2]
        sums = []
        while not sums or sums[-1] < 30:
            state = np.concatenate([state, part])
            sums.append(state.sum())
        check(staged, [x, np.array(c)], [state, np.array(sums)])


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("axis", [0, 1])
def test_a_scan_whose_body_has_shapes_that_depend_on_data(tmp_path, axis, backward):
    """Sums of each row's positive elements, and the running maximum of how many they are; as pairs."""
    body = graph_of(
        [
            node("Greater", ["row", "zero"], ["mask"]), node("Compress", ["row", "mask"], ["kept"]),
            node("ReduceSum", ["kept"], ["sum"], keepdims=0), node("Size", ["kept"], ["count"]),
            node("Max", ["most", "count"], ["next"]), node("Add", ["sum", "offset"], ["shifted"]),
            node("Unsqueeze", ["sum", "first"], ["a"]), node("Unsqueeze", ["shifted", "first"], ["b"]),
            node("Concat", ["a", "b"], ["pair"], axis=0),
        ],
        [("most", [], INT64), ("row", [5])], [("next", [], INT64), ("pair", [2])],
        [("zero", np.float32(0)), ("first", np.array([0]))],
    )  # fmt: skip
    scan = node(
        "Scan", ["start", "x"], ["most_of_all", "pairs"], body=body, num_scan_inputs=1, scan_input_axes=[axis - 2],
        scan_input_directions=[int(backward)], scan_output_axes=[axis], scan_output_directions=[int(backward)],
    )  # fmt: skip
    path = onnx_file(
        tmp_path / "scan.onnx", [scan], [("x", [3, 5] if axis == 0 else [5, 3]), ("offset", [])],
        [("most_of_all", [], INT64), ("pairs", [3, 2] if axis == 0 else [2, 3])], [("start", np.array(0))],
    )  # fmt: skip
    staged = opentrn.compile(path, strict=True)
    assert isinstance(staged, StagedModel)
    x = mixed((3, 5))
    x[1] = -1
    sums = np.array([row[row > 0].sum() for row in x], np.float32)
    pairs = np.stack([sums, sums + np.float32(2)], 1)
    counts = np.array((x > 0).sum(1).max(), np.int64)
    check(staged, [x if axis == 0 else x.T.copy(), np.float32(2)], [counts, pairs if axis == 0 else pairs.T])


def test_rows_are_padded_to_a_program_compiled_ahead_where_it_is_proved(tmp_path):
    path = onnx_file(
        tmp_path / "masked.onnx",
        [node("Greater", ["x", "zero"], ["mask"]), node("NonZero", ["mask"], ["found"]),
         node("Transpose", ["found"], ["indices"]), node("GatherND", ["x", "indices"], ["values"]),
         node("Add", ["values", "values"], ["y"])],
        [("x", [4, 5])], [("y", [])], [("zero", np.float32(0))],
    )  # fmt: skip
    staged = opentrn.compile(path, dimensions={"found": [8, 16]}, strict=True)
    assert [stage.sizes for stage, _ in staged.compiled_stages] == [{}, {"found": 8}, {"found": 16}]
    again = model.load(staged.save(tmp_path / "masked.neuron"))
    for count, ran in ((0, 8), (5, 8), (8, 8), (9, 16), (20, 20)):
        x = -np.ones(20, np.float32)
        x[RNG.permutation(20)[:count]] = 1 + np.arange(count)
        x = x.reshape(4, 5)
        for each in (staged, again):
            np.testing.assert_array_equal(each(x)[0], 2 * x[x > 0])
            assert each.time().parts[-1][0].sizes == {"found": ran}


def test_what_mixes_rows_is_compiled_for_their_number(tmp_path):
    path = onnx_file(
        tmp_path / "mean.onnx",
        [node("Compress", ["x", "keep"], ["rows"], axis=0), node("ReduceMean", ["rows"], ["y"], keepdims=0)],
        [("x", [6, 4]), ("keep", [6], BOOL)], [("y", [])],
    )  # fmt: skip
    staged = opentrn.compile(path, dimensions={"rows": 4}, strict=True)
    x, keep = mixed((6, 4)), np.array([1, 0, 1, 0, 0, 1], bool)
    check(staged, [x, keep], [x[keep].mean()])
    assert staged.time().parts[-1][0].sizes == {"rows": 3}


def test_a_mask_of_what_a_mask_kept(tmp_path):
    path = onnx_file(
        tmp_path / "twice.onnx",
        [node("Compress", ["x", "keep"], ["some"], axis=0), node("Greater", ["some", "zero"], ["more"]),
         node("NonZero", ["more"], ["where"]), node("Gather", ["some", "where"], ["picked"], axis=0),
         node("Concat", ["picked", "picked"], ["y"], axis=0)],
        [("x", [6]), ("keep", [6], BOOL)], [("y", [])], [("zero", np.float32(0))],
    )  # fmt: skip
    staged = opentrn.compile(path, strict=True)
    for keep in (RNG.random(6) < 0.5, np.zeros(6, bool), np.ones(6, bool)):
        x = mixed(6)
        some = x[keep]
        check(staged, [x, keep], [np.concatenate([some[some > 0][None]] * 2)])
    assert len(staged.path) == 3


def test_compare_times_the_sizes_of_one_inference(masked):
    with pytest.raises(ValueError, match="how long the model takes depends on data"):
        opentrn.compare(masked, targets=["trn2"])
    x = np.ones((4, 5), np.float32)
    found = opentrn.compare(masked, inputs=[x])
    assert found.sizes == {"found": 20} and "inference with found=20" in found.text()
    (unknown,) = (row for row in found.chips if row.neuron_core == "NeuronCore-v1")
    assert "GpSimd" in unknown.why
    for target, core in (("trn1", "NeuronCore-v2"), ("trn2", "NeuronCore-v3")):
        staged = opentrn.compile(masked, target=target)
        staged(x)
        parts = [part.profile() for _, part in staged.time().parts]
        assert len(parts) == 2
        (chip,) = (row for row in found.chips if row.neuron_core == core)
        assert chip.latency_us == pytest.approx(sum(part["model"]["latency_us"] for part in parts))
        assert chip.hbm_bytes == sum(part["memory"]["hbm_bytes_used"] for part in parts)
        for number, wanted in enumerate(parts[0]["model"]["serving"]):
            rows = [part["model"]["serving"][number] for part in parts]
            (row,) = (row for row in found.instances if row.instance == wanted["instance"])
            assert row.fits
            assert 1 / row.inferences_per_s == pytest.approx(
                sum(1 / part["inferences_per_s"] for part in rows)
            )
            for rate, price in row.prices.items():
                assert price == (
                    wanted[rate] and pytest.approx(sum(part[rate]["usd_per_million"] for part in rows))
                )


def test_a_file_is_opened_once(masked, monkeypatch):
    from opentrn.model import diff
    from opentrn.model.compiled import coverage

    opened = []
    plain = opentrn._core.files_of_onnx
    monkeypatch.setattr(opentrn._core, "files_of_onnx", lambda path: opened.append(path) or plain(path))
    assert coverage(masked) and len(opened) == 1
    assert diff.diff(masked, mixed((4, 5))).is_clean and len(opened) == 2
    with pytest.raises(ValueError, match="compared with itself alone"):
        diff.diff(masked, mixed((4, 5)), device_source=masked)


def test_diff_compares_every_stage(masked, capsys):
    from opentrn.cli import commands as cli
    from opentrn.model import diff

    x = mixed((4, 5))
    report = diff.diff(masked, x)
    count = int((x > 0).sum())
    assert [sizes for sizes, _ in report.parts] == ["", f"found={count}"]
    assert report.is_clean and report.first_bug is None
    assert all(part.ops and part.results for _, part in report.parts)
    assert cli.main(["diff", str(masked)]) == 0
    assert "== stage 2 of 2, for found=" in capsys.readouterr().out
    with pytest.raises(ValueError, match="takes 1 inputs, 2 were given"):
        diff.diff(masked, x, x)


def test_a_bug_in_a_later_stage_is_found(masked, monkeypatch):
    from opentrn.model import diff

    plain = diff.CompiledModel.run

    def wrong(model, arrays):
        results = plain(model, arrays)
        return [r + 1 if r.dtype.kind == "f" and len(arrays[0]) == 3 else r for r in results]

    x = np.full((4, 5), -1, np.float32)
    x[0, :3] = 2
    assert diff.diff(masked, x).is_clean
    monkeypatch.setattr(diff.CompiledModel, "run", wrong)
    report = diff.diff(masked, x)
    assert not report.is_clean and report.parts[0][1].is_clean


@pytest.mark.parametrize(
    "condition", [np.zeros((0,), bool), np.ones((2,), bool), np.float32(1.0)], ids=["none", "two", "a number"]
)
@pytest.mark.parametrize("inside", [False, True])
def test_a_condition_that_is_no_truth_value_is_refused(tmp_path, condition, inside):
    """Given to the loop, or made by its body: found by the fuzzer, which ended in a crash."""
    parts = [("bad", condition)]
    body = graph_of(
        [node("Identity", ["bad" if inside else "going"], ["go"]), node("Identity", ["state"], ["next"])],
        [("i", [], INT64), ("going", [], BOOL), ("state", [2])],
        [("go", [], BOOL), ("next", [2])],
    )
    path = onnx_file(
        tmp_path / "loop.onnx", [node("Loop", ["trips", "" if inside else "bad", "x"], ["y"], body=body)],
        [("x", [2])], [("y", [2])], [*parts, ("trips", np.array(3))],
    )  # fmt: skip
    with pytest.raises(InputError, match="the condition (has|is)"):
        opentrn.compile(path)
