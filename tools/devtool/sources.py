"""Libraries taken from Debian 12's archive where the distribution has none or an older one (Ubuntu 22.04).

Both archives are pinned by SHA-256. Highway is built from its source; of toml++ only the headers are used.
The result lies in .deps/ and is found through CMAKE_PREFIX_PATH.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tarfile
import tempfile
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from devtool.paths import DEPS, venv_bin
from devtool.report import DevError, run, say

_POOL = "http://deb.debian.org/debian/pool/main"
_TOML_CONFIG = """\
add_library(tomlplusplus::tomlplusplus INTERFACE IMPORTED)
set_target_properties(tomlplusplus::tomlplusplus PROPERTIES
  INTERFACE_INCLUDE_DIRECTORIES "${CMAKE_CURRENT_LIST_DIR}/../../../include"
  INTERFACE_COMPILE_DEFINITIONS "TOML_HEADER_ONLY=1")
"""
# Highway 1.0.3 installs none of its own.
_HIGHWAY_CONFIG = """\
add_library(hwy::hwy STATIC IMPORTED)
set_target_properties(hwy::hwy PROPERTIES
  IMPORTED_LOCATION "${CMAKE_CURRENT_LIST_DIR}/../../libhwy.a"
  INTERFACE_INCLUDE_DIRECTORIES "${CMAKE_CURRENT_LIST_DIR}/../../../include")
"""


@dataclass(frozen=True)
class Archive:
    """A file of Debian's archive."""

    path: str
    sha256: str

    def fetch(self, folder: Path) -> Path:
        """Downloads into `folder`; raises DevError when it cannot be had or is not the pinned file."""
        url, target = f"{_POOL}/{self.path}", folder / Path(self.path).name
        try:
            with urllib.request.urlopen(url, timeout=60) as reply:
                target.write_bytes(reply.read())
        except (urllib.error.URLError, OSError) as error:
            raise DevError(f"{url}: {error}", "is the network up?") from error
        found = hashlib.sha256(target.read_bytes()).hexdigest()
        if found != self.sha256:
            raise DevError(
                f"{url} has checksum {found}, not {self.sha256}", "the archive changed: do not use it"
            )
        return target


_HIGHWAY = Archive(
    "h/highway/highway_1.0.3.orig.tar.gz", "566fc77315878473d9a6bd815f7de78c73734acdcb745c3dde8579560ac5440e"
)
_TOML = Archive(
    "t/tomlplusplus/libtomlplusplus-dev_3.3.0+ds-1_amd64.deb",
    "2779cce0001466dcf60eb6262ff68a888d49f9e30aee80c499d1d4f6f9f6e12e",
)


def _system_has(module: str, version: str) -> bool:
    if shutil.which("pkg-config") is None:
        return True  # not set up by apt: CMake says what is missing
    done = subprocess.run(["pkg-config", f"--atleast-version={version}", module], check=False)
    return done.returncode == 0


def prefix_path() -> Path | None:
    """A CMAKE_PREFIX_PATH with what the system lacks, made on first use; None where the system's serve."""
    wanted = []
    if not _system_has("libhwy", "1.0"):
        wanted.append(("highway", _build_highway))
    if not _system_has("tomlplusplus", "3.0"):
        wanted.append(("toml++", _unpack_toml))
    for name, make in wanted:
        done = DEPS / f"{name}.done"
        if not done.exists():
            say(f"{name}: not in this distribution, or too old; taking Debian 12's")
            DEPS.mkdir(exist_ok=True)
            with tempfile.TemporaryDirectory() as folder:
                make(Path(folder))
            done.touch()
    return DEPS if wanted else None


def _build_highway(folder: Path) -> None:
    with tarfile.open(_HIGHWAY.fetch(folder)) as archive:
        archive.extractall(folder)
    source = next(path for path in folder.iterdir() if path.is_dir())
    cmake, build = venv_bin("cmake"), folder / "build"
    options = ["-DBUILD_TESTING=OFF", "-DHWY_ENABLE_EXAMPLES=OFF", "-DHWY_ENABLE_CONTRIB=OFF"]
    options += [
        "-DBUILD_SHARED_LIBS=OFF",
        "-DCMAKE_POSITION_INDEPENDENT_CODE=ON",
        "-DCMAKE_BUILD_TYPE=Release",
    ]
    options += [
        "-DCMAKE_POLICY_VERSION_MINIMUM=3.5",
        "-DCMAKE_INSTALL_LIBDIR=lib",
        f"-DCMAKE_INSTALL_PREFIX={DEPS}",
    ]
    hint = "Highway's build failed; see its message above"
    run([cmake, "-G", "Ninja", "-S", source, "-B", build, *options], hint=hint, quiet=True)
    jobs = str(len(os.sched_getaffinity(0)))
    run([cmake, "--build", build, "--target", "install", "-j", jobs], hint=hint, quiet=True)
    _write_config("hwy", _HIGHWAY_CONFIG)


def _unpack_toml(folder: Path) -> None:
    run(["dpkg-deb", "-x", _TOML.fetch(folder), folder / "root"], hint="dpkg-deb failed", quiet=True)
    shutil.copytree(folder / "root" / "usr" / "include", DEPS / "include", dirs_exist_ok=True)
    _write_config("tomlplusplus", _TOML_CONFIG)


def _write_config(package: str, text: str) -> None:
    folder = DEPS / "lib" / "cmake" / package
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{package}-config.cmake").write_text(text)
