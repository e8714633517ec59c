"""neuron_parallel_compile with real programs: what it collects, compiles, keeps for the next run, and refuses."""

import json
import os
import subprocess
import sys
import textwrap

import pytest

from opentrn.tools import parallel_compile

TORCH = textwrap.dedent(
    """
    import torch
    import opentrn.torch
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 4))
    step = torch.compile(lambda x, y: torch.nn.functional.cross_entropy(model(x), y), backend="neuron")
    loss = step(torch.randn(8, 16), torch.randint(0, 4, (8,)))
    loss.backward()
    print("loss", loss.item())
    """
)
JAX = textwrap.dedent(
    """
    import os
    os.environ["JAX_PLATFORMS"] = "neuron"
    import jax
    import jax.numpy as jnp
    print(float(jax.jit(lambda x: (x @ x).sum())(jnp.ones((16, 16)))))
    """
)


@pytest.fixture
def environment(tmp_path):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("NEURON_", "OPENTRN_C", "JAX_"))}
    return dict(clean, NEURON_COMPILE_CACHE_URL=str(tmp_path / "cache"), OPENTRN_RUN_DIR="off", OPENTRN_STRICT="1")


def tool(environment, *words, **more):
    command = [sys.executable, "-m", "opentrn", "neuron_parallel_compile", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, env=environment | more)


def summary(text):
    start = text.index('{\n    "compilation_summary"')
    return json.JSONDecoder().raw_decode(text[start:])[0]


def test_graphs_of_a_torch_program_are_compiled_and_the_next_run_takes_them(tmp_path, environment):
    pytest.importorskip("torch")
    (tmp_path / "train.py").write_text(TORCH)
    program = [sys.executable, tmp_path / "train.py"]
    collected = tool(environment, "--command", "collect", *program)
    assert collected.returncode == 0, collected.stderr
    assert collected.stdout.count("No compilation was done") == 2  # forward and backward
    assert not list((tmp_path / "cache").glob("models/*/*"))
    done = tool(environment, "--command", "compile")
    assert done.returncode == 0, done.stderr
    said = summary(done.stdout)
    assert said["compilation_summary"] == {"true": 2}
    assert all(row == {"status": True, "retry": 0} for row in said["compilation_report"].values())
    assert "Total successful compilations: 2" in done.stdout
    entries = list((tmp_path / "cache").glob("models/*/*.neuron"))
    assert len(entries) == 2
    for entry in entries:
        os.utime(entry, (1, 1))
    again = subprocess.run(program, capture_output=True, text=True, env=environment, check=True)
    assert list((tmp_path / "cache").glob("models/*/*.neuron")) == entries  # nothing was compiled
    assert all(entry.stat().st_mtime > 1 for entry in entries)  # and both were taken
    losses = [float(run.stdout.partition("loss ")[2].split()[0]) for run in (collected, again)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)  # the host evaluated the first
    assert tool(environment, "--command", "clean").returncode == 0
    assert not any((tmp_path / "cache").iterdir())


def test_a_jax_program_leaves_its_graph_and_its_own_cache(tmp_path, environment):
    pytest.importorskip("jax")
    (tmp_path / "step.py").write_text(JAX)
    done = tool(environment, sys.executable, tmp_path / "step.py")
    assert done.returncode == 0, done.stderr
    assert "4096.0" in done.stdout
    assert any(path.endswith(".mlirbc") for path in summary(done.stdout)["compilation_report"])
    assert f"JAX_COMPILATION_CACHE_DIR={tmp_path / 'cache' / 'jax'}" in done.stdout
    assert list((tmp_path / "cache" / "jax").iterdir())


GOOD = "module { func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> { return %a : tensor<8xf32> } }\n"


def graph(cache, text, options='{"target": "trn2", "options": {}}'):
    """A graph as a run leaves it, sorted in."""
    (cache / "run").mkdir(parents=True, exist_ok=True)
    (cache / "run" / "g.mlir").write_text(text)
    (cache / "run" / "g.json").write_text(options)
    return parallel_compile._sort_in(cache / "run" / "g.mlir", cache)


def test_a_program_that_fails_is_told_and_its_graphs_are_compiled_on_request(tmp_path, environment):
    graph(tmp_path / "cache", GOOD)
    program = ["sh", "-c", "exit 3"]
    failed = tool(environment, *program)
    assert failed.returncode == 1 and "ended with 3" in failed.stderr and "Total" not in failed.stdout
    done = tool(environment, *program, NEURON_IGNORE_TRAINING_SCRIPT_ERROR_AND_COMPILE="1")
    assert done.returncode == 0 and "Total graphs: 1" in done.stdout


def test_a_graph_that_does_not_compile_is_named_and_not_tried_again(tmp_path, environment):
    cache = tmp_path / "cache"
    good, bad = graph(cache, GOOD), graph(cache, "module {\n nonsense\n}\n")
    first = tool(environment, "--command", "compile", NEURON_PARALLEL_COMPILE_MAX_RETRIES="2")
    assert first.returncode == 1
    assert summary(first.stdout)["compilation_report"] == {
        str(good): {"status": True, "retry": 0}, str(bad): {"status": False, "retry": 2}
    }  # fmt: skip
    assert f"{bad}: " in first.stderr
    second = tool(environment, "--command", "compile")
    assert "failed before" in second.stderr
    bad.write_text(GOOD)
    third = tool(environment, "--command", "compile", NEURON_CC_FLAGS="--retry_failed_compilation")
    assert third.returncode == 0, third.stderr


def test_operations_are_analysed(tmp_path, environment):
    (tmp_path / "g.mlir").write_text(GOOD.replace("return %a", "%b = stablehlo.cosine %a : tensor<8xf32> return %b"))
    output = tmp_path / "out"
    done = tool(environment, "--command", "analyze", "--analyze-output", output, "--analyze-verbosity=1",
                "sh", "-c", f"cp {tmp_path / 'g.mlir'} $OPENTRN_DUMP")  # fmt: skip
    assert done.returncode == 0, done.stderr
    result = json.loads((output / "result.json").read_text())
    ((graph_facts),) = result["graphs"].values()
    assert result["unsupported"] == []
    assert graph_facts["operations"] == [{"op": "stablehlo.cosine", "count": 1, "unsupported": 0, "emulated": 0}]
    assert not (tmp_path / "cache").exists()  # of this run alone


@pytest.mark.parametrize(
    ("words", "variables", "message"),
    [
        (["--command", "bake", "true"], {}, "--command 'bake'"),
        (["--command"], {}, "takes a value"),
        (["--command", "collect"], {}, "no program is named"),
        (["--jobs", "2", "true"], {}, "'--jobs' is not an option"),
        (["--analyze-verbosity", "3"], {}, "1 or 2"),
        (["--analyze-output", "x", "true"], {}, "of --command analyze"),
        (["/no/such/program"], {}, "No such file"),
        (["true"], {"NEURON_COMPILE_CACHE_URL": "s3://bucket/x"}, "s3:// is not read"),
        (["true"], {"NEURON_CC_FLAGS": "'"}, "NEURON_CC_FLAGS"),
        (["--command", "compile"], {"NEURON_PARALLEL_COMPILE_MAX_RETRIES": "-1"}, "a number from 0"),
        (["true"], {"NEURON_COMPILE_CACHE_URL": "/dev/null/x"}, "Not a directory"),
    ],
)
def test_what_it_cannot_use_is_refused(words, variables, message, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("NEURON_COMPILE_CACHE_URL", str(tmp_path / "cache"))
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert parallel_compile.run(words) == 1
    assert message in capsys.readouterr().err
