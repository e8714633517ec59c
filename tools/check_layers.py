#!/usr/bin/env python3
"""Holds the #include lines of src/ to the layer table of cmake/layers.cmake.

CMake already refuses a link dependency that the table does not allow; a header used without linking
would slip through, so this reads every #include "layer/file.h". Exit status 1 and one line per finding
when a rule is broken.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

_ROW = re.compile(r'^\s*"([a-z/]+):([a-z/,]*)"\s*$', re.MULTILINE)
_INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')


def read_layers(table: Path) -> dict[str, list[str]]:
    """Layer -> layers it may use, in the order of the table."""
    rows = _ROW.findall(table.read_text())
    return {layer: [name for name in allowed.split(",") if name] for layer, allowed in rows}


def layer_of(path: str, layers: dict[str, list[str]]) -> str | None:
    """The layer that a path relative to src/ belongs to: the longest layer name that is a folder of it."""
    owners = [layer for layer in layers if path.startswith(f"{layer}/")]
    return max(owners, key=len, default=None)


def table_errors(layers: dict[str, list[str]]) -> Iterator[str]:
    """A layer may name only layers above it: that keeps the table free of cycles."""
    seen: set[str] = set()
    for layer, allowed in layers.items():
        for name in allowed:
            if name not in seen:
                yield f"cmake/layers.cmake: '{layer}' may not name '{name}', which does not stand above it"
        seen.add(layer)


def _looks_like_ours(include: str, layers: dict[str, list[str]]) -> bool:
    """A bare file name or a path below one of our folders; "hwy/foreach_target.h" is a library's."""
    folder, slash, _ = include.partition("/")
    return not slash or folder in {layer.split("/")[0] for layer in layers}


def include_errors(source: Path, layers: dict[str, list[str]]) -> Iterator[str]:
    """Findings for all C++ files under the folder `source`."""
    for file in sorted(p for pattern in ("*.h", "*.cc") for p in source.rglob(pattern)):
        path = file.relative_to(source).as_posix()
        layer = layer_of(path, layers)
        if layer is None:
            yield f"src/{path}: in no layer of cmake/layers.cmake"
            continue
        for number, line in enumerate(file.read_text().splitlines(), 1):
            match = _INCLUDE.match(line)
            if match is None:
                continue
            used = layer_of(match.group(1), layers)
            if used is None:
                if _looks_like_ours(match.group(1), layers):
                    yield f'src/{path}:{number}: "{match.group(1)}" is not a path below src/'
            elif used != layer and used not in layers[layer]:
                yield f"src/{path}:{number}: layer '{layer}' may not include from '{used}'"


def main() -> int:
    root = Path(__file__).resolve().parents[1]
    layers = read_layers(root / "cmake" / "layers.cmake")
    errors = [*table_errors(layers), *include_errors(root / "src", layers)]
    for error in errors:
        print(error)
    if not layers:
        print("cmake/layers.cmake: no layer row was understood")
        return 1
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
