"""What a suite needs from PyPI or Debian and OpenTrn's development environment has not, in folders of its own.

`interpreter("ray", "ray==2.60.0")` makes `.deps/conformance/ray` where it is not there or holds other packages. What
the development environment has (NumPy, grpcio, OpenTrn itself) is found behind those packages.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def interpreter(name: str, *packages: str) -> Path:
    """The program `python` of the environment; raises SystemExit where pip can't install the packages."""
    return environment(ROOT / ".deps" / "conformance" / name, packages)


def environment(
    folder: Path,
    *installs: Sequence[str | Path],
    beside: str = "after",
    also: str = "",
    then: Callable[[Path], None] = lambda python: None,
) -> Path:
    """The program `python` of the environment in `folder`, which is made where it is not there or has other packages.

    installs: what follows `pip install`, for each call of it; files of `-r` count by their content. beside: when the
    development environment and OpenTrn come to be found behind the packages: "after" pip, which would else count theirs
    as installed, "before" it, so that it does, or "never". then: what else makes the environment, told its interpreter;
    `also`: what that depends on. Raises SystemExit where pip can't install the packages.
    """
    python, done = folder / "bin" / "python", folder / "opentrn-installed.txt"
    wanted = "".join(map(_content, installs)) + also
    if done.exists() and done.read_text() == wanted:
        return python
    print(f"installing {', '.join(wanted.split())} into {folder}", file=sys.stderr, flush=True)
    venv.create(folder, with_pip=True, clear=True)
    if beside == "before":
        _find_ours(folder)
    for words in installs:
        pip = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *words]
        if subprocess.run(pip, stdout=sys.stderr).returncode:
            raise SystemExit(f"pip could not install {' '.join(map(str, words))} into {folder}")
    if beside == "after":
        _find_ours(folder)
    then(python)
    done.write_text(wanted)
    return python


def _content(words: Sequence[str | Path]) -> str:
    """What an install depends on: its words, and what is in files of requirements."""
    files = [Path(word).read_text() for flag, word in zip(words, words[1:]) if flag == "-r"]
    return "".join(files) or "\n".join(map(str, words))


def _find_ours(folder: Path) -> None:
    site = next((folder / "lib").glob("python3*/site-packages"))
    (site / "opentrn-beside.pth").write_text(f"{sysconfig.get_path('purelib')}\n{ROOT / 'python'}\n")


def add_entry_point(site: Path) -> None:
    """What an installed OpenTrn has, in a folder of packages: the device comes with `import torch`."""
    about = site / "opentrn_checkout-0.dist-info"
    about.mkdir(exist_ok=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: opentrn-checkout\nVersion: 0\n")
    (about / "entry_points.txt").write_text("[torch.backends]\nneuron = opentrn.autoload:torch_device\n")


def unpack_debian(folder: Path, *packages: str) -> None:
    """Unpacks packages of the machine's Debian into `folder`, without installing them or what they depend on."""
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        raise SystemExit("apt-get and dpkg-deb fetch and unpack Debian's packages, and are not here")
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["apt-get", "download", "-qq", *packages], cwd=folder, check=True)
    for package in sorted(folder.glob("*.deb")):
        subprocess.run(["dpkg-deb", "-x", package, folder], check=True)


def add_option(parser: argparse.ArgumentParser, packages: str) -> None:
    """Declares `--python`, which parse_args() leaves empty where the user names none."""
    parser.add_argument(
        "--python",
        metavar="PYTHON",
        help=f"an interpreter that has {packages} (default: an environment in .deps/conformance, made once)",
    )


def yaml_documents(python: str | Path, path: Path) -> list[Any]:
    """The documents of a YAML file, read by an interpreter that has PyYAML; dates as text."""
    program = "import json, sys, yaml\nprint(json.dumps(list(yaml.safe_load_all(open(sys.argv[1]))), default=str))"
    done = subprocess.run([python, "-c", program, str(path)], capture_output=True, text=True, check=True)
    documents: list[Any] = json.loads(done.stdout)
    return documents
