#!/usr/bin/env python3
"""Holds the #include lines of src/ to cmake/layers.cmake, and the imports of python/opentrn to cmake/layers_python.txt.

CMake already refuses a link dependency that the table does not allow; a header used without linking
would slip through, so this reads every #include "layer/file.h". Exit status 1 and one line per finding
when a rule is broken.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

_ROW = re.compile(r'^\s*"([a-z_/]+):([a-z_/,]*)"\s*$', re.MULTILINE)
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


def unused_edges(source: Path, layers: dict[str, list[str]]) -> Iterator[str]:
    """Edges of the table that no #include under the folder `source` needs."""
    used: set[tuple[str | None, str | None]] = set()
    for file in (p for pattern in ("*.h", "*.cc") for p in source.rglob(pattern)):
        layer = layer_of(file.relative_to(source).as_posix(), layers)
        for line in file.read_text().splitlines():
            if match := _INCLUDE.match(line):
                used.add((layer, layer_of(match.group(1), layers)))
    for layer, allowed in layers.items():
        for name in allowed:
            if (layer, name) not in used:
                yield f"cmake/layers.cmake: '{layer}' may use '{name}', but nothing in it does"


def _layers_imported(tree: ast.AST, package: list[str], modules: set[str]) -> Iterator[tuple[int, str]]:
    """(line, module) of every import of the package opentrn; modules are paths as "nki/_machine"."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            for other in node.orelse:
                yield from _layers_imported(ast.Module([other], []), package, modules)
            continue
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name == "opentrn":
                    yield node.lineno, "opentrn.*"
                elif alias.name.startswith("opentrn."):
                    yield node.lineno, alias.name.partition(".")[2].replace(".", "/")
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])]).split(".")
            if base[0] == "opentrn":
                for alias in node.names:
                    full = "/".join([*base[1:], alias.name])
                    path = full if full in modules else "/".join(base[1:])
                    if path or alias.name != "__version__":
                        yield node.lineno, path or f"opentrn.{alias.name}"
        yield from _layers_imported(node, package, modules)


def python_layer_of(module: str, layers: dict[str, list[str]]) -> str | None:
    """The layer of "nki/_machine": the longest layer name that is the module or a package of it."""
    owners = [layer for layer in layers if module == layer or module.startswith(f"{layer}/")]
    return max(owners, key=len, default=None)


def import_errors(package: Path, layers: dict[str, list[str]]) -> Iterator[str]:
    """Findings for all Python files of the package at the folder `package`, and edges that nobody uses."""
    files = sorted(file for file in package.rglob("*.py"))
    names = {file: file.relative_to(package).with_suffix("").as_posix() for file in files}
    names = {file: name.removesuffix("/__init__") for file, name in names.items()}
    modules = {*names.values(), "_core", "_torch"}
    used: set[tuple[str, str]] = set()
    for file, name in names.items():
        shown = f"python/opentrn/{file.relative_to(package).as_posix()}"
        layer = "opentrn" if name == "__init__" else python_layer_of(name, layers)
        if layer is None or layer not in layers:
            yield f"{shown}: in no layer of cmake/layers_python.txt"
            continue
        dotted = ["opentrn", *(name.split("/") if file.name == "__init__.py" else name.split("/")[:-1])]
        for line, module in _layers_imported(ast.parse(file.read_text()), dotted, modules):
            target = "opentrn" if module.startswith("opentrn.") else python_layer_of(module, layers)
            if target is None:
                yield f"{shown}:{line}: '{module}' is not a module of python/opentrn"
            elif target != layer:
                used.add((layer, target))
                if target not in layers[layer]:
                    yield f"{shown}:{line}: layer '{layer}' may not import from '{target}'"
    for layer, allowed in layers.items():
        for target in allowed:
            if (layer, target) not in used:
                yield f"cmake/layers_python.txt: '{layer}' may use '{target}', but nothing in it does"


def main() -> int:
    root = Path(__file__).resolve().parents[1]
    layers = read_layers(root / "cmake" / "layers.cmake")
    python_layers = read_layers(root / "cmake" / "layers_python.txt")
    errors = [
        *table_errors(layers), *include_errors(root / "src", layers), *unused_edges(root / "src", layers),
        *table_errors(python_layers),
        *import_errors(root / "python" / "opentrn", python_layers),
    ]  # fmt: skip
    for error in errors:
        print(error)
    if not layers:
        print("cmake/layers.cmake: no layer row was understood")
        return 1
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
