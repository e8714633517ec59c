"""CMake configure and build through the presets of CMakePresets.json."""

from __future__ import annotations

import json
import os
from pathlib import Path

from devtool import sources
from devtool.paths import ROOT, venv_bin
from devtool.report import DevError, run, say


# Options that change how long GCC takes and not what it writes: ccache's key leaves them out (CMakeLists.txt).
_SAME_OBJECTS = "--param=ggc-min-heapsize*"
# Of a build folder: the options that it was configured with.
_MARKER = "opentrn-configured.txt"


def _parts_option(parts: str) -> str:
    return f"-DOPENTRN_PARTS={parts}"


def binary_dir(preset: str) -> Path:
    """The build folder of a configure preset."""
    presets = json.loads((ROOT / "CMakePresets.json").read_text())["configurePresets"]
    for row in presets:
        if row["name"] == preset:
            return Path(row["binaryDir"].replace("${sourceDir}", str(ROOT)))
    raise DevError(f"no preset '{preset}' in CMakePresets.json", "use one of those that ./dev build --help lists")


def ccache_environment() -> dict[str, str]:
    """What ccache is told, beside what the environment says."""
    stated = os.environ.get("CCACHE_IGNOREOPTIONS", "")
    return {"CCACHE_IGNOREOPTIONS": f"{stated} {_SAME_OBJECTS}".strip()}


def has_all_parts(preset: str) -> bool:
    """Whether the build folder was configured for all of opentrn._core."""
    marker = binary_dir(preset) / _MARKER
    return marker.exists() and _parts_option("all") in marker.read_text().splitlines()


def build(
    preset: str = "release", targets: tuple[str, ...] = (), options: tuple[str, ...] = (), parts: str = "all"
) -> Path:
    """Configures (when needed) and builds; returns the build folder. options: further ones of CMake.

    parts: what opentrn._core is made of; the objects of both are the same, so that no file is compiled twice.
    """
    folder = binary_dir(preset)
    cmake = venv_bin("cmake")
    defines = [f"-DPython_EXECUTABLE={venv_bin('python')}", _parts_option(parts), *options]
    prefix = sources.prefix_path()
    if prefix is not None:
        defines.append(f"-DCMAKE_PREFIX_PATH={prefix}")
    marker = folder / _MARKER
    wanted = "\n".join(defines)
    if not (folder / "build.ninja").exists() or not marker.exists() or marker.read_text() != wanted:
        say(f"cmake: configuring {folder.name}/ ({preset})")
        run(
            [cmake, "--preset", preset, *defines],
            cwd=ROOT,
            hint=f"a library of tools/apt.txt may be missing; if the folder is stale, remove {folder.name}/",
            quiet=True,
        )
        marker.write_text(wanted)
    say(f"ninja: building {folder.name}/")
    jobs = str(len(os.sched_getaffinity(0)))
    command = [cmake, "--build", folder, "-j", jobs]
    if targets:
        command += ["--target", *targets]
    run(command, cwd=ROOT, env=ccache_environment(), hint="read the first compiler error above")
    return folder
