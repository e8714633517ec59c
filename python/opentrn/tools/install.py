"""Programs of AWS's names in a folder of the user's: small scripts that start `opentrn` with the same words; and libnrt
with its headers and its package for CMake, which lie beside OpenTrn's own libraries.

Nothing is installed unless asked, and nothing is overwritten that this did not install (src/monitor/installation.h).
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from opentrn import _core
from opentrn.errors import InputError

# A program, and the words of `opentrn` that it stands for. AWS's companions are installed with .py.
PROGRAMS = {
    "neuron-ls": ["neuron-ls"],
    "nccom-test": ["nccom-test"],
    "neuron-monitor": ["neuron-monitor"],
    "neuron-monitor-prometheus.py": ["neuron-monitor-prometheus"],
    "neuron-monitor-statsd.py": ["neuron-monitor-statsd"],
    "neuron-monitor-cloudwatch.py": ["neuron-monitor-cloudwatch"],
    "neuron-monitor-k8s-info.py": ["neuron-monitor-k8s-info"],
    "neuron-top": ["neuron-top"],
    "neuron-explorer": ["neuron-explorer"],
    "neuronx-cc": ["neuronx-cc"],
    "neuron_parallel_compile": ["neuron_parallel_compile"],
}
LIBRARY = "libnrt.so.1"


def install(prefix: Path) -> list[Path]:
    """Writes PREFIX/bin/PROGRAM of every program, PREFIX/lib and PREFIX/include; returns the paths.

    Raises InputError "tools.install" where a file of that name is there that this did not install, or is changed.
    """
    programs = [(f"bin/{name}", _script(words).encode(), False) for name, words in PROGRAMS.items()]
    return _core.install_files(prefix, [*programs, *_libnrt(), ("lib/libnrt.so", LIBRARY.encode(), True)])


def uninstall(prefix: Path) -> tuple[list[Path], list[Path]]:
    """Removes what install() wrote: (removed, changed since and left). Raises InputError where nothing is installed."""
    return _core.uninstall_files(prefix)


def _libnrt() -> list[tuple[str, bytes, bool]]:
    """Paths below the prefix and their content. InputError where this build has no libnrt."""
    source = Path(__file__).resolve().parents[1] / "libnrt"
    library = source / "lib" / LIBRARY
    if not library.is_file():
        raise InputError(
            f"{library} is not there",
            label="tools.install",
            hint="build OpenTrn whole: ./dev build, or pip install .",
        )
    kept = [library, *source.glob("include/**/*.h"), *source.glob("lib/cmake/opentrn/*.cmake")]
    return [(str(path.relative_to(source)), path.read_bytes(), False) for path in sorted(kept)]


def _script(words: list[str]) -> str:
    start = shlex.join([sys.executable, "-m", "opentrn", *words])
    source = Path(__file__).resolve().parents[2]
    # A checkout is not installed in its environment: its sources are found by their path.
    path = f"export PYTHONPATH={shlex.quote(str(source))}${{PYTHONPATH:+:$PYTHONPATH}}\n"
    return (
        "#!/bin/sh\n# OpenTrn: a simulated Neuron device. Installed by `opentrn neuron-tools install`.\n"
        f'{"" if "site-packages" in source.parts else path}exec {start} "$@"\n'
    )
