"""What the house-rule tests share: the checkout's root, its tracked files, the tools as modules."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]


def tracked(*patterns: str) -> list[Path]:
    """Files that git knows or would add, matching the patterns (git's own: * also matches slashes)."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return sorted({ROOT / line for line in done.stdout.splitlines() if (ROOT / line).is_file()})


def relative(path: Path) -> str:
    """A path as it stands in the repository."""
    return path.relative_to(ROOT).as_posix()


def load_tool(name: str) -> ModuleType:
    """Imports tools/<name>.py."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
