"""How the program explains itself: groups of options, wrong command lines, colour, completion."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from opentrn.cli import commands as cli
from opentrn.cli import style as cli_style

MLP = Path(__file__).parents[2] / "examples" / "mlp.mlir"
SOFTMAX = Path(__file__).parents[2] / "examples" / "03_softmax.py"


def ended(capsys, *words: object) -> tuple[int, str, str]:
    """(status, stdout, stderr) of a command, also of one that argparse ends."""
    try:
        code = cli.main([str(word) for word in words])
    except SystemExit as end:
        code = int(end.code or 0)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.parametrize("command", ["run", "profile", "disasm", "compile", "coverage", "diff", "compare"])
def test_a_command_without_arguments_shows_examples_in_a_few_lines(capsys, command):
    code, out, err = ended(capsys, command)
    assert code == cli.INPUT and out == ""
    lines = err.splitlines()
    assert len(lines) <= 6 and all(len(line) <= 110 for line in lines)
    assert sum(line.startswith(f"    opentrn {command} ") for line in lines) >= 2
    assert f"try: opentrn {command} --help" in lines[-1]


@pytest.mark.parametrize("command", ["run", "profile", "disasm"])
def test_options_are_grouped(capsys, command):
    _, out, _ = ended(capsys, command, "--help")
    heads = [line for line in out.splitlines() if line.endswith(":") and not line.startswith((" ", "-"))]
    wanted = ["inputs and what is computed:", "machine:", "kernels:", "models:", "output:"]
    assert [head for head in heads if head in wanted] == wanted
    of_kernels = out[out.index("\nkernels:") : out.index("\nmodels:")]
    assert "--grid" in of_kernels and "--eager" in of_kernels and "--auto-cast" not in of_kernels
    assert "--auto-cast" in out[out.index("\nmodels:") : out.index("output:")]


@pytest.mark.parametrize("command", ["compile", "coverage", "diff", "compare"])
def test_every_command_that_takes_a_model_names_all_formats(capsys, command):
    _, out, _ = ended(capsys, command, "--help")
    assert "torch.export (.pt2" in " ".join(out.split())


@pytest.mark.parametrize("days", ["-1", "nan", "inf", "soon"])
def test_days_are_a_number_of_days(capsys, days):
    code, _, err = ended(capsys, "cache", "clear", f"--older-than={days}")
    assert code == cli.INPUT and "is not a number of days" in err


# -- colour --------------------------------------------------------------------------------------------------


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def no_say(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The environment says nothing about colour."""
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    return monkeypatch


@pytest.mark.parametrize(
    ("variables", "terminal", "file"),
    [
        ({}, True, False),
        ({"NO_COLOR": "1"}, False, False),
        ({"NO_COLOR": ""}, True, False),
        ({"FORCE_COLOR": "1"}, True, True),
        ({"FORCE_COLOR": "0"}, False, False),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, False, False),
        ({"TERM": "dumb"}, False, False),
    ],
)
def test_who_gets_colour(no_say, variables, terminal, file):
    for name, value in variables.items():
        no_say.setenv(name, value)
    assert cli_style.has_colour(_Terminal()) is terminal
    assert cli_style.has_colour(io.StringIO()) is file


def test_colour_changes_no_word(no_say, capsys):
    _, _, plain = ended(capsys, "run", "nowhere.py:f")
    assert "\x1b" not in plain
    no_say.setenv("FORCE_COLOR", "1")
    _, _, coloured = ended(capsys, "run", "nowhere.py:f")
    assert coloured.startswith("\x1b[1;31mopentrn:") and _without_colour(coloured) == plain


def test_headings_of_reports_are_bold(no_say, capsys):
    _, plain, _ = ended(capsys, "profile", MLP)
    no_say.setenv("FORCE_COLOR", "1")
    _, coloured, _ = ended(capsys, "profile", MLP)
    assert _without_colour(coloured) == plain
    bold = [line.startswith("\x1b[1m") for line in coloured.split("\n")]
    assert sum(bold) >= 4
    lines = plain.split("\n")
    for line, below, is_bold in zip(lines, lines[1:], bold):
        assert is_bold == bool(line and not line[0].isspace() and below[:1].isspace()), line


def test_json_has_no_colour(no_say, capsys):
    no_say.setenv("FORCE_COLOR", "1")
    _, out, _ = ended(capsys, "profile", MLP, "--json", "-")
    assert "\x1b" not in out


def _without_colour(text: str) -> str:
    import re

    return re.sub(r"\x1b\[[\d;]*m", "", text)


# -- completion ----------------------------------------------------------------------------------------------


def completed(script: Path, *words: str) -> list[str]:
    """What bash offers for the last word."""
    lines = [
        f"source {script}",
        f"COMP_WORDS=(opentrn {' '.join(repr(word) for word in words)})",
        f"COMP_CWORD={len(words)}",
        "$(complete -p opentrn | sed -E 's/.*-F ([^ ]+).*/\\1/')",
        'printf "%s\\n" "${COMPREPLY[@]}"',
    ]
    done = subprocess.run(["bash", "-c", "\n".join(lines)], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_bash_completes_commands_options_and_machines(capsys, tmp_path):
    pytest.importorskip("shtab")
    code, out, _ = ended(capsys, "completion", "bash")
    assert code == 0
    script = tmp_path / "opentrn.bash"
    script.write_text(out)
    assert {"compare", "compile"} == set(completed(script, "comp")) - {"completion"}
    assert "--no-execute" in completed(script, "run", "--no-e")
    assert {"trn2", "trn2.48xlarge"} <= set(completed(script, "run", "--target", "trn2"))
    assert "trn1.2xlarge" in completed(script, "describe", "trn1.2")


@pytest.mark.parametrize("shell", ["zsh", "tcsh"])
def test_other_shells_have_a_script(capsys, shell):
    pytest.importorskip("shtab")
    code, out, _ = ended(capsys, "completion", shell)
    assert code == 0 and "opentrn" in out and "no-execute" in out


def test_without_shtab_the_package_is_named(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "shtab", None)
    code, _, err = ended(capsys, "completion", "bash")
    assert code == cli.INPUT and "pip install shtab" in err


def test_a_command_of_its_own_process_needs_no_terminal(tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(SOFTMAX.parents[1] / "python")}
    environment.pop("FORCE_COLOR", None)
    done = subprocess.run(
        [sys.executable, "-m", "opentrn", "run"],
        capture_output=True,
        text=True,
        env=environment,
        cwd=tmp_path,
    )
    assert done.returncode == cli.INPUT and "\x1b" not in done.stderr
