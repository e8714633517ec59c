"""An option of the compiler is one row of src/compiler/options.cc: everything else is made from it."""

from __future__ import annotations

import re

from house import ROOT, relative, tracked

from opentrn.settings.compiler_options import OPTIONS

SOURCES = ("src/*.cc", "src/*.h", "python/opentrn/*.py")


def test_no_option_is_declared_again() -> None:
    """Neither as a field or parameter with a default, nor as an option of a parser, nor with its help."""
    again = []
    for path in tracked(*SOURCES):
        if relative(path) == "src/compiler/options.cc" or path.name.endswith("_test.cc"):
            continue
        text = path.read_text()
        for name, row in OPTIONS.items():
            declared = rf'^\s*{name}: [\w\[\]| ]+ = |add_argument\([^)]*"--{row.name}"|add_\w+\([^)]*"--{row.name}"'
            if re.search(declared, text, re.M) or (row.help and f'"{row.help}' in text):
                again.append(f"{relative(path)}: {row.name}")
    assert again == []


def test_a_declaration_is_found() -> None:
    (row,) = re.findall(r'^    \{"(prune-\w+)"', (ROOT / "src/compiler/options.cc").read_text(), re.M)
    assert row in [each.name for each in OPTIONS.values()]
    assert re.search(r"^\s*prune_weights: [\w\[\]| ]+ = ", "    prune_weights: bool = False", re.M)
