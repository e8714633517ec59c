"""The parts of ./dev that decide something: counting tests, finding packages, choosing what to run."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from house import ROOT

from devtool import build, coverage_fuzz, environment, sanitizers, sources, style, suites, system, testing
from devtool.report import DevError, run

CTEST_XML = """<testsuite tests="4">
  <testcase name="a" status="run"/>
  <testcase name="b" status="fail"><failure message=""/></testcase>
  <testcase name="c" status="notrun"><skipped message=""/></testcase>
  <testcase name="d" status="disabled"/>
</testsuite>"""
PYTEST_XML = """<testsuites><testsuite>
  <testcase name="a"/>
  <testcase name="b"><error message="in a fixture"/></testcase>
  <testcase name="c"><skipped message="no GPU"/></testcase>
</testsuite></testsuites>"""


@pytest.mark.parametrize(
    ("text", "count"), [(CTEST_XML, testing.Count(1, 1, 2)), (PYTEST_XML, testing.Count(1, 1, 1))]
)
def test_junit_files_of_both_runners_are_counted(tmp_path: Path, text: str, count: testing.Count):
    file = tmp_path / "junit.xml"
    file.write_text(text)
    assert testing.read_junit(file) == count


def test_counts_add_up():
    assert testing.Count(1, 2, 3) + testing.Count(10, 20, 30) == testing.Count(11, 22, 33)


def test_slow_functions_are_summed_over_their_cases(tmp_path: Path):
    report = tmp_path / "junit.xml"
    report.write_text("""<testsuites><testsuite>
      <testcase classname="tests.cli.test_a" name="test_x[1]" time="0.3"/>
      <testcase classname="tests.cli.test_a" name="test_x[2]" time="0.3"/>
      <testcase classname="tests.cli.test_a.TestGroup" name="test_y" time="2.5"/>
      <testcase classname="tests.cli.test_a" name="test_z" time="0.45"/>
    </testsuite></testsuites>""")
    assert testing.slow_functions(report) == ["tests/cli/test_a.py::test_x", "tests/cli/test_a.py::test_y"]


def test_slow_tests_exist():
    slow, long = (
        [line for line in path.read_text().splitlines() if not line.startswith("#")]
        for path in (testing.SLOW, testing.LONG)
    )
    assert len(slow) > 50
    for name in slow + long:
        file, function = name.split("::")
        assert f"def {function}(" in (ROOT / file).read_text(), f"{name} of tests/slow.txt or long.txt is gone"


def _collected(*options: str) -> set[str]:
    """The test functions that pytest finds; of a file which has slow ones, unless another is named."""
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider"]
    words = options if any(word.startswith("tests/") for word in options) else [*options, "tests/house/test_tables.py"]
    result = subprocess.run([*command, *words], cwd=ROOT, capture_output=True, text=True)
    return {line.split("[")[0] for line in result.stdout.splitlines() if "::" in line}


def test_quick_leaves_out_slow_tests_and_nothing_else():
    slow = {*testing.SLOW.read_text().splitlines()}
    whole = _collected()
    assert whole & slow
    assert _collected("--quick") == whole - slow


def test_long_tests_run_when_they_are_asked_for():
    name = next(line for line in testing.LONG.read_text().splitlines() if not line.startswith("#"))
    file = name.split("::")[0]
    assert _collected(file) == _collected(file, "--long") - {*testing.LONG.read_text().splitlines()}
    assert _collected(name) == {name}


def test_every_apt_package_has_a_purpose():
    lines = (ROOT / "tools" / "apt.txt").read_text().splitlines()
    assert [line for line in lines if not line.startswith("#") and len(line.split(maxsplit=1)) < 2] == []


def test_a_package_that_does_not_exist_is_missing():
    if not Path("/usr/bin/dpkg-query").exists():
        pytest.skip("not a Debian system")
    assert system.missing_packages(["dpkg", "opentrn-no-such-package"]) == ["opentrn-no-such-package"]


@pytest.mark.parametrize("preset", ["release", "debug", "asan-ubsan", "tsan"])
def test_every_preset_has_a_build_folder_that_git_ignores(preset: str):
    folder = build.binary_dir(preset)
    assert folder.parent == ROOT
    ignored = subprocess.run(["git", "check-ignore", "-q", f"{folder}/x"], cwd=ROOT)
    assert ignored.returncode == 0


def test_a_sanitizers_package_has_all_of_the_checkouts_but_its_libraries(tmp_path: Path):
    package = sanitizers._package(tmp_path)
    assert package == tmp_path / "python"
    for folder in ("", "opentrn"):
        sources_of = {path.name for path in (ROOT / "python" / folder).iterdir() if path.suffix != ".so"}
        assert {path.name for path in (package / folder).iterdir()} == sources_of - {"__pycache__"}
    assert sanitizers._package(tmp_path) == package  # again, over its links


def test_every_folder_of_tests_of_c_plus_plus_runs_under_a_sanitizer():
    """Others start commands, whose C++ is the same, or test Python."""
    folders = {path.name for path in (ROOT / "tests").iterdir() if any(path.glob("test_*.py"))}
    run = {path.partition("/")[2] for path in (*sanitizers._PYTHON_TESTS, *sanitizers._ONLY_HERE["asan-ubsan"])}
    without = {
        "cli", "conformance", "fidelity", "house", "keywords", "mpi", "numerics", "oracle", "serve", "tools",
    }  # fmt: skip
    assert run & without == set() and folders - without == run


def test_a_sanitizers_package_keeps_what_its_preset_built(tmp_path: Path):
    """libnrt is a folder of the preset's own, and one of the release build's beside the sources."""
    own = tmp_path / "python" / "opentrn" / "jax"
    own.mkdir(parents=True)
    package = sanitizers._package(tmp_path)
    assert own.is_dir() and not own.is_symlink() and (package / "opentrn" / "torch").is_symlink()


def test_processes_that_tests_start_run_the_package_under_test():
    # The checkout's own `python` has another build than a sanitizer's, or none. House rules are the checkout's.
    pattern = re.compile(r"""PYTHONPATH\W.*ROOT\s*/\s*['"]python""")
    files = [path for path in (ROOT / "tests").rglob("*.py") if "house" not in path.parts]
    assert [path for path in files if pattern.search(path.read_text())] == []


def test_an_unknown_preset_is_refused():
    with pytest.raises(DevError, match="no preset 'fast'"):
        build.binary_dir("fast")


def test_an_unknown_conformance_suite_is_refused_with_the_known_ones():
    with pytest.raises(DevError) as caught:
        suites.module("nki-nothing")
    assert all(name in caught.value.hint for name in suites.names())


def test_a_changed_archive_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "highway.tar.gz").write_bytes(b"not what was pinned")
    monkeypatch.setattr(sources, "_POOL", tmp_path.as_uri())
    (tmp_path / "target").mkdir()
    with pytest.raises(DevError, match="checksum"):
        sources.Archive("highway.tar.gz", "0" * 64).fetch(tmp_path / "target")


def test_a_failing_step_says_what_to_try(capfd: pytest.CaptureFixture[str]):
    with pytest.raises(DevError, match="exit status 3") as caught:
        run(["sh", "-c", "echo why; exit 3"], hint="do this", quiet=True)
    assert caught.value.hint == "do this"
    assert "why" in capfd.readouterr().out


def dev(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(ROOT / "dev"), *words], capture_output=True, text=True, check=False, timeout=20
    )


def test_help_of_a_command_runs_nothing():
    for word in ("-h", "--help"):
        done = dev("test", word)
        assert done.returncode == 0 and "pytest arguments" in done.stdout and done.stderr == ""
    assert "--seed" in dev("fuzz", "--help").stdout


# They take what they read (a checkout, an interpreter) and no options.
WITHOUT_OPTIONS = {
    "cloudwatch", "datadog", "dra", "kubelet", "neuron-tools", "nrt-headers", "nrt-sample", "sagemaker", "slurm",
}  # fmt: skip


def test_help_of_conformance_has_every_suite_with_its_options():
    done = dev("conformance", "--help")
    assert done.returncode == 0
    for name in suites.names():
        options = r" .*\[" if name not in WITHOUT_OPTIONS else ""
        usage = rf"^{name}: \w.*\n    \./dev conformance {name}{options}"
        assert re.search(usage, done.stdout, re.MULTILINE), name


def test_fuzz_takes_the_seed_that_it_prints(monkeypatch: pytest.MonkeyPatch):
    commands = []
    monkeypatch.setattr(testing, "run", lambda command, **_: commands.append(command) or 0)
    testing.run_fuzz(5, 17)
    assert commands[0][-2:] == ["--seed", "17"]


def test_coverage_guided_fuzzing_has_every_body(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    bodies = re.findall(
        r"^void (\w+)_bytes\(", (ROOT / "tests" / "fuzz" / "bodies.h").read_text(), re.MULTILINE
    )
    programs = re.findall(
        r"opentrn_coverage_guided\((\w+) ", (ROOT / "tests" / "fuzz" / "CMakeLists.txt").read_text()
    )
    assert sorted(bodies) == sorted(programs) == sorted(coverage_fuzz.TARGETS)
    commands = []
    monkeypatch.setattr(coverage_fuzz, "_compiler", lambda: "clang++")
    monkeypatch.setattr(coverage_fuzz, "binary_dir", lambda _: tmp_path)
    monkeypatch.setattr(coverage_fuzz, "build", lambda *_: tmp_path)
    monkeypatch.setattr(
        coverage_fuzz, "run", lambda command, **_: commands.append(command) or len(commands) % 2
    )
    assert coverage_fuzz.run_targets(7, ["model", "import"]) == 1  # the second of three failed
    assert [str(command[0]).rpartition("/")[2] for command in commands] == [
        "opentrn_fuzz", "opentrn_fuzz_model", "opentrn_fuzz_import",
    ]  # fmt: skip
    assert "-max_total_time=7" in commands[1]


def test_help_names_every_command():
    done = subprocess.run([str(ROOT / "dev"), "--help"], capture_output=True, text=True, check=True)
    for command in (
        "demo",
        "test",
        "bench",
        "conformance",
        "fidelity",
        "lint",
        "format",
        "fuzz",
        "build",
        "sanitize",
        "wheel-test",
        "docs",
        "status",
        "stubs",
        "assumptions",
    ):
        assert f"    {command}" in done.stdout


def test_what_clang_tidy_finds_fails_the_lint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    program = tmp_path / "clang-tidy"
    program.write_text(
        '#!/bin/sh\ncase "$4" in *bad.cc) echo "bad.cc:1:1: error: it is bad"; exit 1;; esac\n'
    )
    program.chmod(0o755)
    good, bad = tmp_path / "good.cc", tmp_path / "bad.cc"
    for file in (good, bad):
        file.touch()
    monkeypatch.setattr(style, "_clang_tidy", lambda: str(program))
    monkeypatch.setattr(style, "build", lambda preset: tmp_path)
    monkeypatch.setattr(style, "run", lambda *_, **__: 0)  # the other steps
    assert style.lint([str(good)]) == 0
    assert style.lint([str(good), str(bad)]) == 1
    assert style.lint(None) == 0
    with pytest.raises(DevError, match="no such file"):
        style.lint([str(tmp_path / "absent.cc")])


def test_lint_skips_nothing(monkeypatch: pytest.MonkeyPatch):
    """clang-format comes with the pinned packages, whatever the machine has."""
    pins = (ROOT / "tools" / "requirements.txt").read_text()
    assert "clang-format==14." in pins
    commands = []
    monkeypatch.setattr(
        style, "run", lambda command, **_: commands.append([str(word) for word in command]) or 0
    )
    style.lint(None)
    assert any(command[1:3] == ["-m", "mypy"] for command in commands)
    assert any(command[0].endswith(".venv/bin/clang-format") for command in commands)


def test_a_first_demo_installs_what_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """And what comes after it the rest; neither is installed twice."""
    installed: list[list[str]] = []
    monkeypatch.setattr(environment, "VENV", tmp_path)
    monkeypatch.setattr(environment, "run", lambda *_, **__: 0)
    monkeypatch.setattr(environment, "_torch_index", lambda: [])
    monkeypatch.setattr(environment, "_link_checkout", lambda: None)
    monkeypatch.setattr(environment, "_pip", lambda files, *_: installed.append(files))
    for small in (True, True, False, False, True):
        environment.prepare(small)
    assert [name for files in installed[:3] for name in files] == [*environment._DEMO_FILES]
    assert {name for files in installed[3:] for name in files} == {*environment._FILES}
    assert len(installed) == 6
    assert {path.name for path in (ROOT / "tools").glob("requirements*.txt")} == {
        *environment._FILES, "requirements-docs.txt"
    }  # fmt: skip
