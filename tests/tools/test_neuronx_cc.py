"""neuronx-cc: its command line, what it writes, and that the list of operators is what the importer takes."""

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import opentrn
from opentrn import _core
from opentrn.compat import alias
from opentrn.errors import InputError, NotModelled
from opentrn.tools import neuronx_cc

TWICE = """func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %y = stablehlo.add %x, %x : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}
"""


def varint(number):
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def field(number, content):
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    content = content.encode() if isinstance(content, str) else content
    return varint(number << 3 | 2) + varint(len(content)) + content


def shape(dims):
    return field(2, 11) + field(3, b"".join(varint(d) for d in dims))


def instruction(name, opcode, number, operands=(), dims=(4,), **more):
    body = field(1, name) + field(2, opcode) + field(3, shape(dims)) + field(35, number)
    body += b"".join(field(36, operand) for operand in operands)
    for key, value in more.get("attributes", {}).items():
        body += field(68, field(1, field(1, key) + field(2, value)))
    return body + (field(9, more["parameter"]) if "parameter" in more else b"")


def module(*instructions, root):
    entry = (
        field(1, "main") + b"".join(field(2, each) for each in instructions) + field(5, 1) + field(6, root)
    )
    return field(1, "m") + field(2, "main") + field(3, entry) + field(6, 1)


def named_sum():
    """x + y of float32 [4] as nkipy writes it: names of ports are frontend attributes."""
    return module(
        instruction("p0", "parameter", 1, parameter=0, attributes={"neff_input_names": "left"}),
        instruction("p1", "parameter", 2, parameter=1, attributes={"neff_input_names": "right"}),
        instruction("sum", "add", 3, (1, 2), attributes={"neff_output_names": "total"}),
        root=3,
    )


def test_it_compiles_hlo_and_says_what_it_wrote(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hlo_module.pb").write_bytes(named_sum())
    words = "compile --framework XLA hlo_module.pb --pipeline compile SaveTemps"
    words += " --target trn2 --output=file.neff --lnc 1"
    assert neuronx_cc.run([*words.split(), "--internal-tensorizer-opt-level=2"]) == 0
    out, err = capsys.readouterr()
    assert out == "file.neff: OpenTrn's container of a compiled model (not a NEFF)\nCompiler status PASS\n"
    assert "--internal-tensorizer-opt-level=2 changes nothing here" in err
    assert (tmp_path / "file.neff").read_bytes()[:4] == b"OTNM"
    assert "neuronx-cc compile" in (tmp_path / "log-neuron-cc.txt").read_text()
    model = opentrn.load(tmp_path / "file.neff")
    assert ([p.name for p in model.inputs], [p.name for p in model.outputs]) == (["left", "right"], ["total"])
    np.testing.assert_array_equal(
        model(np.arange(4, dtype=np.float32), np.ones(4, np.float32))[0], [1, 2, 3, 4]
    )


def test_options_change_the_program(tmp_path, capsys):
    (tmp_path / "m.mlir").write_text(TWICE)
    base = ["compile", str(tmp_path / "m.mlir"), "--target=trn1", "--logfile", str(tmp_path / "log")]
    assert neuronx_cc.run([*base, "--output", str(tmp_path / "a"), "-O1", "--auto-cast", "all"]) == 0
    facts = _core.load_models(str(tmp_path / "a"))[0]
    assert (
        facts["target"] == "trn1"
        and '"optlevel": 1' in facts["options"]
        and '"auto_cast": "all"' in facts["options"]
    )
    capsys.readouterr()


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["nothing"], "is not a command"),
        (["compile"], "no model"),
        (["compile", "x"], "no --target"),
        (["compile", "x", "y", "--target", "trn2"], "two models"),
        (["compile", "x", "--target", "trn2", "--framework", "MXNET"], "there is XLA"),
        (["compile", "x", "--target", "trn2", "--model-type", "resnet"], "--model-type resnet"),
        (["compile", "x", "--target", "trn2", "--verbose", "loud"], "--verbose loud"),
        (["compile", "x", "--target", "trn2", "--pipeline", "tensorize"], "--pipeline tensorize"),
        (["compile", "x", "--target"], "--target has no value"),
        (["list-operators"], "framework"),
    ],
)
def test_a_bad_command_line_is_refused_by_name(words, what, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert neuronx_cc.run(words) == 70
    assert what in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["--target", "trn2", "--no-such-option"], "--no-such-option"),
        (["--target", "trn2", "--native-int64", "enabled"], "native-int64"),
        (["--target", "trn9"], "trn9"),
        (["--target", "trn2", "--auto-cast", "some"], "some"),
    ],
)
def test_a_refused_compilation_says_why_and_writes_nothing(words, what, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.mlir").write_text(TWICE)
    assert neuronx_cc.run(["compile", "m.mlir", *words]) == 70
    out, err = capsys.readouterr()
    assert what in err and "Compiler status ERROR" in out and not (tmp_path / "file.neff").exists()


def test_files_that_are_no_model(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.pb").write_bytes(b"\x00\xff garbage")
    for name in ("m.pb", "none.pb"):
        assert neuronx_cc.run(["compile", name, "--target", "trn2"]) == 70
        assert name in capsys.readouterr().err


def test_the_driver_returns_or_exits(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.mlir").write_text(TWICE)
    script = (
        "import opentrn, sys; opentrn.activate(); from neuronxcc.driver.CommandDriver import main;"
        "sys.argv = ['neuronx-cc', 'compile', sys.argv[1], '--target', 'trn2']; main(); print('back')"
    )
    done = subprocess.run([sys.executable, "-c", script, "m.mlir"], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.endswith("back\n"), done.stderr
    done = subprocess.run([sys.executable, "-c", script, "none.mlir"], capture_output=True, text=True)
    assert done.returncode == 70 and "back" not in done.stdout
    assert "neuronxcc" in alias.ALIASES


def test_the_program_prints_its_operators():
    done = subprocess.run(
        [sys.executable, "-m", "opentrn", "neuronx-cc", "list-operators", "--framework", "XLA"],
        capture_output=True, text=True, env=dict(os.environ),
    )  # fmt: skip
    assert done.returncode == 0 and done.stdout.split() == sorted(neuronx_cc.OPERATORS)


# XLA's opcodes that OpenTrn does not take, and one that XLA has not.
FOREIGN = ("infeed", "outfeed", "send", "recv", "stochastic-convert", "ragged-dot", "no-such-op")


@pytest.mark.parametrize("opcode", [*neuronx_cc.OPERATORS, *FOREIGN])
def test_the_list_of_operators_is_what_the_importer_takes(opcode, tmp_path):
    """An instruction without its attributes is malformed, or compiles; an opcode that is not taken says so."""
    path = tmp_path / "m.pb"
    root = instruction("r", opcode, 2, () if opcode == "parameter" else (1, 1))
    path.write_bytes(module(instruction("p", "parameter", 1, parameter=0), root, root=2))
    try:
        _core.prepared_text(None, str(path), "trn2", {}, {})
        said = ""
    except (InputError, NotModelled) as error:
        said = str(error)
    assert (f"HLO opcode {opcode} is not taken" in said) == (opcode in FOREIGN), said


@given(
    st.lists(
        st.one_of(
            st.sampled_from(["--target", "--output", "-O", "-lnc", "--pipeline", "x"]), st.text(max_size=8)
        )
    )
)
def test_any_words_are_parsed_or_refused(words):
    try:
        command = _core.neuronx_cc(["compile", *words])
    except (InputError, NotModelled) as error:
        assert error.label
        return
    assert command.command == "help" or command.model and command.target


def test_the_folder_of_the_cache():
    assert _core.cache_dir_of_flags("--cache_dir=/a -O1") == "/a"
    assert _core.cache_dir_of_flags("-O1 --cache_dir /b") == "/b"
    assert _core.cache_dir_of_flags("--cache_dir") == _core.cache_dir_of_flags("") == ""
    with pytest.raises(InputError, match="NEURON_CC_FLAGS"):
        _core.cache_dir_of_flags("'")
