"""The `opentrn` program, in this process: what it prints, and whose fault its exit status says it is."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from opentrn.cli import commands as cli
from opentrn.cli import kernel_file

KERNELS = """
import nki
import nki.isa as nisa
import nki.language as nl

INPUTS = {"copy": {"x": "128x64:bfloat16:ones"}}


@nki.jit
def copy(x, rounds=1):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for _ in range(rounds):
        nisa.dma_copy(dst=out, src=x)
    return out


@nki.jit
def asserts(x):
    assert x.shape[0] == 7, "seven rows please"


@nki.jit
def too_large(x):
    tiles = [nl.ndarray((128, 65536), dtype=nl.float32, buffer=nl.sbuf) for _ in range(4)]
    for tile in tiles:
        nisa.memset(tile, 0.0)
    for tile in tiles:
        nisa.tensor_copy(tile, tiles[0])


@nki.jit
def does_not_fit(x):
    tiles = [nl.ndarray((128, 32768), dtype=nl.float32, buffer=nl.sbuf) for _ in range(2)]
    for tile in tiles:
        nisa.memset(tile, 0.0)
    nisa.tensor_tensor(tiles[0], tiles[0], tiles[1], nl.add)


@nki.jit
def reads_a_value(x):
    tile = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.memset(tile, 3)
    register = nisa.register_alloc(tile)
    if int(register) > 2:
        nisa.memset(tile, 4)


@nki.jit
def out_of_bounds(x):
    return x[0:1000, :]
"""


@pytest.fixture
def kernels(tmp_path: Path) -> str:
    path = tmp_path / "some_kernels.py"
    path.write_text(KERNELS)
    return str(path)


def run(capsys, *words: str) -> tuple[int, str, str]:
    code = cli.main([str(word) for word in words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_run_prints_outputs_and_time(capsys, kernels):
    code, out, err = run(capsys, "run", f"{kernels}:copy")
    assert code == 0 and err == ""
    assert "output 0: bfloat16 [128, 64]  min 1  max 1  mean 1" in out
    assert "predicted:" in out and "trn2" in out


def test_input_on_the_command_line_replaces_that_of_the_file(capsys, kernels):
    code, out, _ = run(
        capsys, "run", f"{kernels}:copy", "-i", "x=32x8:float32:zeros", "-i", "rounds=2", "--no-time"
    )
    assert code == 0
    assert "output 0: float32 [32, 8]  min 0  max 0" in out
    assert "2 instructions" in out


def test_run_as_json(capsys, kernels):
    code, out, _ = run(capsys, "run", f"{kernels}:copy", "--json", "--no-execute")
    report = json.loads(out)
    assert code == 0
    assert report["outputs"] == [{"shape": [128, 64], "dtype": "bfloat16"}]
    assert report["profiles"][0]["is_simulation"] is True


def test_outputs_can_be_read_back(capsys, kernels, tmp_path):
    code, _, _ = run(capsys, "run", f"{kernels}:copy", "--save-outputs", tmp_path / "out")
    assert code == 0
    (saved,) = (tmp_path / "out").glob("*.npy")
    again = kernel_file.read_value(f"{saved}:bfloat16", "x")
    assert again.shape == (128, 64) and (again.astype(np.float32) == 1).all()


def test_profile_writes_its_reports(capsys, kernels, tmp_path):
    files = [tmp_path / name for name in ("p.html", "p.perfetto", "p.json")]
    options = ("--html", files[0], "--perfetto", files[1], "--json", files[2])
    code, out, err = run(capsys, "profile", f"{kernels}:copy", *options)
    assert code == 0
    assert "Hottest source lines" in out and "some_kernels.py:13" in out
    assert max(map(len, out.splitlines())) <= 120
    assert all(file.stat().st_size > 500 for file in files)
    assert all(str(file) in err for file in files)


def test_disasm_lists_instructions(capsys, kernels):
    code, out, _ = run(capsys, "disasm", f"{kernels}:copy", "-i", "rounds=3")
    assert code == 0
    assert out.count("\ndma_copy ") == 3


def test_a_saved_program_needs_no_kernel(capsys, kernels, tmp_path):
    program = tmp_path / "copy.otrn"
    assert run(capsys, "run", f"{kernels}:copy", "--no-execute", "--save-program", program)[0] == 0
    _, of_kernel, _ = run(capsys, "profile", f"{kernels}:copy", "--no-execute")
    code, of_file, _ = run(capsys, "profile", program)
    assert code == 0 and of_file == of_kernel
    _, listing, _ = run(capsys, "disasm", f"{kernels}:copy")
    assert run(capsys, "disasm", program) == (0, listing, "")
    code, _, err = run(capsys, "run", program)
    assert code == cli.INPUT and "is a saved program" in err and "opentrn profile" in err


@pytest.mark.parametrize(("command", "takes"), [("run", False), ("profile", True), ("disasm", True)])
def test_the_help_says_which_commands_take_a_saved_program(capsys, command, takes):
    with pytest.raises(SystemExit):
        run(capsys, command, "--help")
    assert ("saved program" in " ".join(capsys.readouterr().out.split())) == takes


@pytest.mark.parametrize("scheduled", [False, True])
def test_a_program_is_saved_and_read_as_text_and_as_a_file(capsys, kernels, tmp_path, scheduled):
    flags = ["--scheduled"] if scheduled else []
    _, listing, _ = run(capsys, "disasm", f"{kernels}:copy", *flags)
    assert ("\nexecutable " in listing) == scheduled
    _, of_kernel, _ = run(capsys, "profile", f"{kernels}:copy", "--no-execute")
    for name in ("copy.otrn", "copy.txt"):
        file = tmp_path / name
        assert run(capsys, "run", f"{kernels}:copy", "--save-program", file, *flags)[0] == 0
        assert run(capsys, "disasm", file) == (0, listing, "")
        assert run(capsys, "profile", file)[:2] == (0, of_kernel)
    assert (tmp_path / "copy.txt").read_text() == listing


def test_a_damaged_text_of_a_program_names_its_line(capsys, tmp_path):
    (tmp_path / "bad.txt").write_text('opentrn program 1 "k"\nregisters 0\nnonsense\n')
    code, _, err = run(capsys, "disasm", tmp_path / "bad.txt")
    assert code == cli.INPUT and "input error [text." in err and "bad.txt:3" in err


def test_a_damaged_program_file_is_an_input_error(capsys, tmp_path):
    (tmp_path / "bad.otrn").write_bytes(b"OTRN" + bytes(60))
    code, _, err = run(capsys, "disasm", tmp_path / "bad.otrn")
    assert code == cli.INPUT and "input error [file." in err


def test_ls_and_describe_are_those_of_the_core(capsys):
    code, out, _ = run(capsys, "ls")
    assert code == 0 and "NeuronCore-v3" in out
    code, _, err = run(capsys, "describe", "nonsense")
    assert code == cli.INPUT and "opentrn ls" in err


@pytest.mark.parametrize(
    ("kernel", "code", "message"),
    [
        ("asserts", cli.PROGRAM, "seven rows please"),
        ("too_large", cli.CAPACITY, "capacity"),
        ("out_of_bounds", cli.PROGRAM, "NkiTensor.slice"),
        ("reads_a_value", cli.PROGRAM, "leave --no-execute out"),
    ],
)
def test_whose_fault_a_failing_kernel_is(capsys, kernels, kernel, code, message):
    found, out, err = run(capsys, "run", f"{kernels}:{kernel}", "-i", "x=128x64", "--no-execute")
    assert found == code, err
    assert message in err and "Traceback" not in err
    assert out == ""


def test_the_line_of_the_failure_is_shown(capsys, kernels):
    _, _, err = run(capsys, "run", f"{kernels}:asserts", "-i", "x=128x64", "--no-execute")
    assert "some_kernels.py:19 in asserts" in err
    assert 'assert x.shape[0] == 7, "seven rows please"' in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["{file}:nothing"], "its kernels: asserts, copy"),
        (["{file}"], "say which"),
        (["nowhere.py:f"], "there is no file"),
        (["no_such_module:f"], "neither a .py file nor an importable module"),
        (["{file}:asserts"], "inputs without a value: x"),
        (["{file}:copy", "-i", "z=3"], "no input z"),
        (["{file}:copy", "-i", "nonsense"], "NAME=SHAPE"),
        (["{file}:copy", "-i", "x=4x4:float99"], "unknown dtype"),
        (["{file}:copy", "-i", "x=4x4:float32:noise"], "makes no values"),
        (["{file}:copy", "-i", "x=missing.npy"], "cannot read missing.npy"),
        (["{file}:copy", "-i", "x=4x4", "-i", "x=8x8"], "x is given twice"),
        (["{file}:copy", "-i", "x="], "no value"),
        (["{file}:copy", "-i", "x=128X8"], "'128X8' is not an array"),
        (["{file}:copy", "-i", "x=-1x8"], "'-1x8' is not an array"),
        (["{file}:copy", "-i", "x=randn(x)"], "is not an array"),
        (["{file}:copy", "-i", "x=4x4:float32:randn(x)"], "is not an array"),
        (["{file}:copy", "-i", "x=4x4x"], "is not an array"),
        (["{file}:copy", "-i", "x=4X"], "1024x for one dimension"),
        (["{file}:copy", "--save-program", "/nonexistent/p"], "there is no folder /nonexistent"),
        (["{file}:copy", "--save-outputs", "{file}"], "a file, not a folder"),
        (["{file}:copy", "--target", "trn9"], "is not a target"),
        (["{file}:copy", "--set", "nonsense=1"], "no table value"),
        (["{file}:copy", "--no-execute", "--no-time"], "nothing to do"),
        (["{file}:copy", "--scheduled"], "--scheduled is of --save-program"),
        (["{file}:copy", "--scheduled", "--save-program", "p", "--no-time"], "leave --no-time out"),
    ],
)
def test_a_wrong_command_line_is_the_users(capsys, kernels, words, message):
    code, _, err = run(capsys, "run", *(word.format(file=kernels) for word in words))
    assert code == cli.INPUT, err
    assert message in err and "Traceback" not in err


def test_no_command_prints_the_help(capsys):
    code, out, _ = run(capsys)
    assert code == cli.INPUT
    assert "profile" in out and "disasm" in out


@pytest.mark.parametrize(
    ("text", "expected"),
    [("3", 3), ("0.5", 0.5), ("True", True), ("None", None), ("(1, 2)", (1, 2)), ("gelu", "gelu")],
)
def test_literals_are_values(text, expected):
    assert kernel_file.read_value(text, "x") == expected


@pytest.mark.parametrize(
    ("text", "shape", "dtype"),
    [
        ("1024x", (1024,), "float32"),
        ("1024x:bfloat16:ones", (1024,), "bfloat16"),
        ("1024:float32", (1024,), "float32"),
        ("(1024x)", (1024,), "float32"),
        ("2x3", (2, 3), "float32"),
    ],
)
def test_one_dimension_is_written_with_an_x_or_a_dtype(text, shape, dtype):
    array = kernel_file.read_value(text, "x")
    assert array.shape == shape and str(array.dtype) == dtype


def test_a_number_alone_or_in_a_tuple_is_no_array():
    assert kernel_file.read_value("1024", "x") == 1024
    assert kernel_file.read_value("(1024,)", "x") == (1024,)


def test_the_help_shows_an_input_of_one_dimension(capsys):
    with pytest.raises(SystemExit):
        cli.main(["run", "--help"])
    assert "-i gamma=1024x" in capsys.readouterr().out


def test_a_random_bool_is_0_or_1():
    for name in ("bool_", "bool"):
        assert set(kernel_file.read_value(f"64x64:{name}", "x").flat) == {0, 1}


def test_a_number_in_place_of_an_array_says_how_arrays_are_written(capsys, kernels):
    code, _, err = run(capsys, "run", f"{kernels}:copy", "-i", "x=128")
    assert code == cli.PROGRAM and "--input NAME=128x512:float32, or NAME=1024x" in err


def test_the_same_seed_gives_the_same_array():
    first, second, other = (kernel_file.read_value(f"8x8:float32:randn({seed})", "x") for seed in (1, 1, 2))
    assert (first == second).all() and not (first == other).all()


@pytest.mark.parametrize("used", [0, 64], ids=["moved only", "used"])
def test_unwritten_lanes_may_move_and_their_use_can_be_allowed(capsys, tmp_path, used):
    file = tmp_path / "moves.py"
    file.write_text(
        "import nki, nki.isa as nisa, nki.language as nl\n"
        "@nki.jit\n"
        "def moves(x):\n"
        "    tile, copy = nl.ndarray((128, 64), x.dtype), nl.ndarray((128, 64), x.dtype)\n"
        "    nisa.dma_copy(tile[0:64], x[0:64])\n"
        "    nisa.tensor_copy(copy, tile)\n"
        f"    nisa.tensor_scalar(copy[{used}:{used + 64}], copy[{used}:{used + 64}], nl.multiply, 1.0)\n"
        "    out = nl.ndarray((64, 64), x.dtype, buffer=nl.shared_hbm)\n"
        "    nisa.dma_copy(out, copy[0:64])\n"
        "    return out\n"
    )
    code, _, err = run(capsys, "run", str(file), "-i", "x=128x64:float32:ones")
    if used:
        assert code == cli.PROGRAM and "uninitialised_read" in err and "--uninitialised fill" in err
        assert "tensor_copy moved it there" in err and "moves.py:6" in err
    else:
        assert code == 0
    code, out, _ = run(capsys, "run", str(file), "-i", "x=128x64:float32:ones", "--uninitialised", "fill")
    assert code == 0 and "mean 1" in out and "not finite" not in out


PRINTS = """
import nki, nki.isa as nisa, nki.language as nl

print("a file prints")

@nki.jit
def prints(x):
    print("a kernel prints")
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nl.device_print("the device prints", tile)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out
"""


@pytest.mark.parametrize(
    ("words", "begins"),
    [(["run", "--json"], "{"), (["profile", "--json", "-"], "{"), (["disasm"], "opentrn program")],
)
def test_what_a_kernel_prints_is_apart_from_what_machines_read(capsys, tmp_path, words, begins):
    file = tmp_path / "prints.py"
    file.write_text(PRINTS)
    command, *options = words
    code, out, err = run(capsys, command, file, "-i", "x=1x4:float32:ones", *options)
    assert code == 0 and out.startswith(begins) and "a kernel prints" not in out
    assert "a file prints" in err and "a kernel prints" in err
    assert ("the device prints" in err) == (command != "disasm")
    if begins == "{":
        json.loads(out)


def test_what_a_kernel_prints_is_on_stdout_else(capsys, tmp_path):
    file = tmp_path / "prints.py"
    file.write_text(PRINTS)
    _, out, err = run(capsys, "run", file, "-i", "x=1x4:float32:ones")
    assert "a kernel prints" in out and "the device prints" in out and err == ""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-O", "3"], "--optlevel: only for models"),
        (["--weight-dtype", "int8", "--dim", "b=1"], "--dim, --weight-dtype: only for models"),
        (["--pad", "b", "--seed", "3"], "--pad: only for models"),
        (["--grid", "2"], "--grid: only for NKI 0.1 kernels"),
        (["--lnc", "2", "--target", "trn1"], "a logical core of trn1 is 1 core, not 2"),
    ],
)
def test_options_that_would_be_ignored_are_refused(capsys, kernels, words, message):
    code, out, err = run(capsys, "run", f"{kernels}:copy", *words)
    assert code == cli.INPUT and message in err and out == ""


def test_options_of_kernels_are_refused_for_models(capsys):
    model = Path(__file__).resolve().parents[2] / "examples" / "mlp.mlir"
    for command in ("run", "profile", "disasm"):
        code, _, err = run(capsys, command, model, "--lnc", "2", "--eager")
        assert code == cli.INPUT and "--lnc, --eager: only for kernels" in err


def test_an_input_of_a_model_is_given_once(capsys):
    model = Path(__file__).resolve().parents[2] / "examples" / "mlp.mlir"
    for first in ("0", "input0"):
        code, _, err = run(capsys, "run", model, "-i", "0=4x4", "-i", f"{first}=4x4")
        assert code == cli.INPUT and "is given twice" in err
    code, _, err = run(capsys, "run", model, "-i", "9=4x4")
    assert code == cli.INPUT and "the model's inputs: input0" in err


@pytest.mark.parametrize("text", ["0", "2,x", ""])
def test_a_grid_is_sizes(capsys, kernels, text):
    with pytest.raises(SystemExit) as ended:
        run(capsys, "run", f"{kernels}:copy", "--grid", text)
    assert ended.value.code == cli.INPUT and "is not a grid" in capsys.readouterr().err


@pytest.mark.parametrize(("kernel", "helps"), [("too_large", False), ("does_not_fit", True)])
def test_no_time_is_advised_where_it_helps(capsys, kernels, kernel, helps):
    words = ["run", f"{kernels}:{kernel}", "-i", "x=1x1"]
    code, _, err = run(capsys, *words)
    assert code == cli.CAPACITY
    assert ("--no-time computes the values alone" in err) == helps
    assert (run(capsys, *words, "--no-time")[0] == 0) == helps
    assert "--no-time" not in run(capsys, *words, "--no-execute")[2]


def test_progress_of_a_kernel_is_a_line_for_each_step(capsys, kernels):
    code, out, err = run(capsys, "run", f"{kernels}:copy", "--progress")
    assert code == 0 and "output 0" in out
    steps = [line.split(" s: ")[1] for line in err.splitlines() if line.startswith("opentrn: ")]
    assert steps[:2] == ["loading the kernel", "making inputs"] and {"computing", "timing"} <= set(steps)


def test_without_progress_nothing_is_told_to_a_file(capsys, kernels):
    assert run(capsys, "run", f"{kernels}:copy")[2] == ""


@pytest.mark.parametrize(
    ("command", "steps"),
    [
        ("run", ["compiling the model", "computing", "timing"]),
        ("profile", ["compiling the model", "timing"]),
        ("compile", ["compiling the model", "writing mlp.neuron", "timing"]),
        ("diff", ["compiling the model", "comparing every op with float64"]),
        ("compare", [f"compiling for NeuronCore-v{version}" for version in (1, 2, 3, 4)]),
    ],
)
def test_progress_of_a_model_is_a_line_for_each_step(command, steps, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    model = Path(__file__).resolve().parents[2] / "examples" / "mlp.mlir"
    code, _, err = run(capsys, command, model, "--progress")
    assert code == 0, err
    assert [line.split(" s: ")[1] for line in err.splitlines() if " s: " in line] == steps


def test_in_a_terminal_a_line_is_written_over(capsys, monkeypatch):
    from opentrn.cli import models as cli_model

    load = cli_model.load
    monkeypatch.setattr(cli_model, "load", lambda *given: time.sleep(1.3) or load(*given))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("NO_COLOR", "1")
    code, _, err = run(capsys, "run", Path(__file__).resolve().parents[2] / "examples" / "mlp.mlir")
    assert code == 0 and "\rcompiling the model, 1 s" in err


def test_phases_of_a_run_are_told(kernels):
    import opentrn

    kernel, _ = kernel_file.load_kernel(f"{kernels}:copy")
    x, phases = np.ones((4, 4), np.float32), []
    opentrn.run(kernel, x, on_progress=lambda phase, machines: phases.append((phase, len(machines))))
    assert phases == [("recording", 0), ("computing", 1), ("timing", 1)]


def test_a_kernel_without_instructions_is_bound_by_nothing(capsys, tmp_path):
    file = tmp_path / "empty.py"
    file.write_text("import nki\n@nki.jit\ndef empty(x):\n    return x\n")
    code, out, _ = run(capsys, "run", file, "-i", "x=4x4")
    assert code == 0 and "predicted: 0.00 us on trn2, nothing ran\n" in out
    code, out, _ = run(capsys, "profile", file, "-i", "x=4x4", "--json", "-")
    assert code == 0 and json.loads(out)["bound_by"] == {"verdict": None, "shares": []}


def test_a_report_that_cannot_be_written_is_refused_before_anything_runs(capsys, kernels, tmp_path):
    for option in ("--html", "--perfetto", "--json"):
        for path in (tmp_path / "no" / "file", tmp_path):
            code, out, err = run(capsys, "profile", f"{kernels}:copy", option, path)
            assert code == cli.INPUT and out == "" and f"{option} {path}: " in err


def shell(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """`opentrn` of this checkout in a shell, where stdout can be any file."""
    start = f"'{sys.executable}' -c 'import sys; from opentrn.cli import main; sys.exit(main())'"
    package = str(Path(cli.__file__).absolute().parents[2])
    return subprocess.run(
        ["bash", "-c", command.replace("opentrn", start)],
        cwd=folder, env=dict(os.environ, PYTHONPATH=package), capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("command", ["opentrn ls", "opentrn run quiet.py -i x=4x4 --no-time"])
@pytest.mark.parametrize(
    ("stdout", "message"), [(">/dev/full", "No space left"), (">&-", "standard output is closed")]
)
def test_output_that_cannot_be_written_is_no_success(tmp_path, command, stdout, message):
    (tmp_path / "quiet.py").write_text("import nki\n@nki.jit\ndef quiet(x):\n    return x\n")
    done = shell(f"{command} {stdout}", tmp_path)
    assert done.returncode == cli.INPUT, done.stderr
    assert (
        message in done.stderr and "Traceback" not in done.stderr and "Exception ignored" not in done.stderr
    )


@pytest.mark.parametrize(
    "command",
    [
        "fabric export all_reduce --instance trn1n.32xlarge -r 8 --bytes 1MB --format goal -o",
        "claims --html",
        "plan Llama-3.1-8B --instance trn1.32xlarge --count 4 --seq 2048 --global-batch 64 --html",
    ],
)
def test_a_file_that_does_not_fit_is_none_and_says_why(command: str, tmp_path: Path) -> None:
    done = shell(f"opentrn {command} /dev/full", tmp_path)
    assert done.returncode == 2 and "/dev/full cannot be written: No space left on device" in done.stderr


def test_sentences_fit_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal:
        def isatty(self) -> bool:
            return True

        def fileno(self) -> int:
            return 5

    from opentrn.cli import style

    monkeypatch.setattr(style.os, "get_terminal_size", lambda _: os.terminal_size((60, 20)))
    text = "a short one\n\n  " + "several words of a long sentence " * 4
    lines = style.fitted(text, Terminal()).split("\n")
    assert lines[:2] == ["a short one", ""] and all(len(line) <= 60 for line in lines)
    assert [line[:6] for line in lines[3:]] == [f"{'':6}"] * len(lines[3:]) and len(lines) > 3
    assert style.fitted(text, io.StringIO()) == text and style.width(io.StringIO()) == 100


@pytest.mark.parametrize("option", ["--perfetto", "--html", "--json"])
def test_a_report_on_a_full_disk_says_why(tmp_path: Path, option: str) -> None:
    (tmp_path / "quiet.py").write_text("import nki\n@nki.jit\ndef quiet(x):\n    return x\n")
    done = shell(f"opentrn profile quiet.py -i x=4x4 {option} /dev/full", tmp_path)
    assert done.returncode == cli.INPUT, done.stderr
    assert done.stderr.startswith("opentrn: /dev/full: No space left on device") and ".part" not in done.stderr


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"", "is no file of numpy.save"), (b"\x80\x04K\x01.", "is no file of numpy.save"),
     (b"\x93NUMPY\x01\x00v", "cannot be read")],
)  # fmt: skip
def test_files_that_are_no_arrays_are_named(kernels, tmp_path, capsys, content, said):
    """NumPy says of any other file that it holds pickled objects, and how to load those."""
    (tmp_path / "x.npy").write_bytes(content)
    code, out, err = run(capsys, "run", f"{kernels}:copy", "-i", f"x={tmp_path}/x.npy")
    assert code == cli.INPUT and out == "" and said in err and "pickle" not in err


def test_files_are_written_where_nobody_reads_the_text(tmp_path):
    """`opentrn profile kernel.py --html page.html | head -1` had no page, and said nothing."""
    kernel = "\n".join(
        [
            "import nki, nki.isa as nisa, nki.language as nl",
            "@nki.jit",
            "def copy(x):",
            "    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)",
            "    nisa.dma_copy(dst=out, src=x)",
            "    return out",
        ]
    )
    (tmp_path / "moved.py").write_text(kernel + "\n")
    files = "--html page.html --json profile.json --perfetto trace.json"
    done = shell(f"opentrn profile moved.py:copy -i x=128x64 --no-execute {files} | true", tmp_path)
    assert done.returncode == 0, done.stderr
    assert {each.name for each in tmp_path.iterdir()} >= {"page.html", "profile.json", "trace.json"}


def test_a_module_of_the_current_folder_is_found(tmp_path):
    (tmp_path / "some_package").mkdir()
    (tmp_path / "some_package" / "quiet.py").write_text("import nki\n@nki.jit\ndef quiet(x):\n    return x\n")
    done = shell("opentrn run some_package.quiet:quiet -i x=4x4 --no-time", tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("options", "where"), [("", "stdout"), ("--json -", "stderr")])
def test_what_a_profiled_program_prints_is_apart_from_json(tmp_path, options, where):
    done = shell(f"opentrn profile {options} -- echo a program prints", tmp_path)
    assert "a program prints" in getattr(done, where)
    assert ("a program prints" in done.stdout) == (where == "stdout")
