"""Programs of torch.export, from Python and the command line, and what `opentrn profile` tells of a run."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

torch = pytest.importorskip("torch", reason="the programs are torch's")

from torch import nn  # noqa: E402

import opentrn  # noqa: E402
from opentrn.cli import commands as cli  # noqa: E402
from opentrn.errors import NotModelled  # noqa: E402
from opentrn.model import exported as exported_programs  # noqa: E402
from tests.package import PYTHON  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
RNG = np.random.default_rng(0)


class Tagger(nn.Module):
    """Tokens to logits; the weights, a buffer and a constant of every kind of exported input."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 8)
        self.norm = nn.BatchNorm1d(8)
        self.out = nn.Linear(8, 3)
        self.register_buffer("scale", torch.tensor([1.0, 2.0, 0.5]))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        hidden = self.norm(self.embedding(tokens).mean(1))
        return torch.log_softmax(self.out(hidden) * self.scale + torch.tensor([0.1, 0.2, 0.3]), -1)


@pytest.fixture(scope="module")
def model() -> Tagger:
    torch.manual_seed(0)
    return Tagger().eval()


def opentrn_command(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    variables = dict(os.environ, PYTHONPATH=str(PYTHON), **environment)
    command = [sys.executable, "-m", "opentrn", *words]
    return subprocess.run(command, env=variables, capture_output=True, text=True)


def test_an_exported_program_compiles_and_is_its_models_equal(
    model: Tagger, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tokens = torch.from_numpy(RNG.integers(0, 20, (4, 6)))
    exported = torch.export.export(model, (tokens,))
    wanted = model(tokens).detach().numpy()
    np.testing.assert_allclose(opentrn.compile(exported)(tokens.numpy())[0], wanted, rtol=1e-4, atol=1e-5)
    torch.export.save(exported, tmp_path / "model.pt2")
    command = ["compile", str(tmp_path / "model.pt2"), "-o", str(tmp_path / "model.neuron"), "--json"]
    assert cli.main(command) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["inputs"] == [["input0", "i64", [4, 6]]] and facts["time_us"] > 0
    loaded = opentrn.model.load(tmp_path / "model.neuron")
    np.testing.assert_allclose(loaded(tokens.numpy())[0], wanted, rtol=1e-4, atol=1e-5)


class Converting(nn.Module):
    """Conversions, which torch.export guards with assertions on the tensor's type, sizes and device."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.to(torch.float32) * 2 + x.to(torch.bfloat16).to(x.device).float()


@pytest.mark.parametrize("decomposed", [False, True])
@pytest.mark.filterwarnings("error")
def test_a_model_with_conversions_compiles(decomposed: bool) -> None:
    x = torch.from_numpy(RNG.standard_normal((4, 6)).astype(np.float32))
    exported = torch.export.export(Converting(), (x,))
    names = [str(node.target) for node in exported.graph.nodes]
    assert "aten._assert_tensor_metadata.default" in names
    if decomposed:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's own, of this call
            exported = exported.run_decompositions()
    given = opentrn.compile(exported)(x.numpy())[0]
    np.testing.assert_allclose(given, Converting()(x).numpy(), rtol=1e-4, atol=1e-5)


def test_an_assertion_on_a_tensor_is_held() -> None:
    from opentrn.torch.emitter import emit
    from opentrn.torch.text import Spec

    for asserted, why in (
        (([4, 7], None, None), r"wants a tensor of \(4, 7\); it is \(4, 6\)"),
        (([4, 6], None, torch.float64), r"wants a tensor of torch.float64; it is torch.float32"),
    ):
        graph = torch.fx.Graph()
        x = graph.placeholder("x")
        graph.call_function(torch.ops.aten._assert_tensor_metadata.default, (x, *asserted))
        graph.output((x,))
        with pytest.raises(NotModelled, match=why):
            emit(torch.fx.GraphModule({}, graph), [Spec((4, 6), torch.float32)], int)


def test_dynamic_dimensions_take_sizes(model: Tagger) -> None:
    tokens = torch.from_numpy(RNG.integers(0, 20, (4, 6)))
    shapes = ({0: torch.export.Dim("batch", max=64)},)
    exported = torch.export.export(model, (tokens,), dynamic_shapes=shapes)
    (name,) = map(str, exported.range_constraints)
    with pytest.raises(ValueError, match=f"needs a size for {name}"):
        opentrn.compile(exported)
    with pytest.raises(ValueError, match="has no dimension rows"):
        opentrn.compile(exported, dimensions={name: 2, "rows": 3})
    compiled = opentrn.compile(exported, dimensions={name: 2})
    np.testing.assert_allclose(
        compiled(tokens[:2].numpy())[0], model(tokens[:2]).detach().numpy(), rtol=1e-4, atol=1e-5
    )


def test_what_cannot_be_compiled_says_why(model: Tagger, tmp_path: Path) -> None:
    tokens = torch.from_numpy(RNG.integers(0, 20, (4, 6)))
    trained = torch.export.export(Tagger().train(), (tokens,))
    with pytest.raises(ValueError, match="changes norm.running_mean\n    try: export it with model.eval"):
        opentrn.compile(trained)
    damaged = tmp_path / "model.pt2"  # with a program that only torch can refuse
    parts = {"m/archive_format": "pt2", "m/archive_version": "0", "m/models/model.json": '{"graph_module": 3}'}
    damaged.write_bytes(archive(parts))
    with pytest.raises(ValueError, match="is not an exported program"):
        opentrn.compile(damaged)
    command = [sys.executable, "-m", "opentrn", "compile", str(damaged)]
    done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ, PYTHONPATH=str(PYTHON)))
    assert done.returncode == 2 and "Traceback" not in done.stderr  # torch logs one


def archive(parts: dict[str, str], packing: int = zipfile.ZIP_STORED) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", packing) as file:
        for name, text in parts.items():
            file.writestr(name, text)
    return made.getvalue()


PROGRAM = "m/models/model.json"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"no archive", "not a zip file"),
        (archive({PROGRAM: "{}"})[:-9], "not a zip file"),
        (archive({PROGRAM: '{"graph_module": 1}'}).replace(b': 1}', b': 2}'), f"checksum of its {PROGRAM} is another"),
        (archive({PROGRAM: "0" * 100_000}, zipfile.ZIP_DEFLATED), f"its {PROGRAM} is compressed"),
        (archive({"a": "1"}), "no program"),
        (archive({PROGRAM: "{,"}), "is not JSON"),
        (archive({PROGRAM: "[" * 1_000_000}), "is not JSON: maximum recursion"),
        (archive({PROGRAM: "null"}), "has no graph_module"),
    ],
)  # fmt: skip
def test_damaged_files_are_refused_before_torch_is_imported(data: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / "model.pt2").write_bytes(data)
    with pytest.raises(ValueError, match=said):
        opentrn.compile(tmp_path / "model.pt2")
    with pytest.raises(ValueError, match=said):
        exported_programs.stablehlo_of(str(tmp_path / "model.pt2"))
    code = "import sys, opentrn\ntry: opentrn.compile(sys.argv[1])\nexcept ValueError: print('torch' in sys.modules)"
    command = [sys.executable, "-c", code, str(tmp_path / "model.pt2")]
    done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ, PYTHONPATH=str(PYTHON)))
    assert done.stdout == "False\n", done.stderr


def test_a_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "model.pt2")
    with pytest.raises(ValueError, match="it is no regular file"):
        opentrn.compile(tmp_path / "model.pt2")


TRAIN = """
import torch, opentrn.torch
model = torch.nn.Linear(16, 4)
def loss_of(x, y): return torch.nn.functional.cross_entropy(model(x), y)
compiled = torch.compile(loss_of, backend="neuron")
for _ in range(3): compiled(torch.randn(8, 16), torch.randint(0, 4, (8,))).backward()
"""


def test_profile_sums_a_run(tmp_path: Path) -> None:
    file = tmp_path / "usage.json"
    script = tmp_path / "train.py"
    script.write_text(TRAIN)
    done = opentrn_command("profile", "--json", str(file), "--", sys.executable, str(script))
    assert done.returncode == 0, done.stderr
    usage = json.loads(file.read_text())
    rows = {row["name"].rpartition("_")[2]: row for row in usage["programs"]}
    assert set(rows) == {"forward", "backward"} and all(
        row["name"].startswith("loss_of") for row in rows.values()
    )
    assert all(row["runs"] == 3 and row["device_us"] > 0 and row["host_s"] > 0 for row in rows.values())
    assert 0 < usage["mfu"] < 1 and usage["bytes_peak"] > 16 * 4 * 4
    launches = sum(row["launch_us"] * 3 for row in rows.values()) / 1e6
    assert launches > 0 and usage["launch_s"] == pytest.approx(launches)
    in_programs = sum(row["device_us"] * 3 for row in rows.values()) / 1e6
    assert usage["device_s"] == pytest.approx(in_programs + launches)
    assert usage["step_us"] == pytest.approx(usage["device_s"] / 3 * 1e6)
    # trn2.48xlarge in a capacity block: src/arch/tables/price.toml
    assert usage["usd"]["capacity_block"] == pytest.approx(usage["device_s"] / 3600 * 35.7608 / 128)


def test_an_installed_opentrn_is_found_by_its_entry_point(tmp_path: Path) -> None:
    folder = tmp_path / "opentrn-0.0.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: opentrn\nVersion: 0.0.0\n")
    entries = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"][
        "torch_dynamo_backends"
    ]
    lines = "\n".join(f"{name} = {target}" for name, target in entries.items())
    (folder / "entry_points.txt").write_text(f"[torch_dynamo_backends]\n{lines}\n")
    use = "print(torch.compile(lambda x: x + 1, backend='neuron')(torch.ones(2)).tolist())"
    program = f"import torch\n{use}\nimport opentrn.torch"
    variables = dict(os.environ, PYTHONPATH=f"{PYTHON}{os.pathsep}{tmp_path}")
    done = subprocess.run([sys.executable, "-c", program], env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[2.0, 2.0]"
