#!/usr/bin/env python3
"""OpenTrn's headers of libnrt against AWS's: every enumerator, structure and function.

    ./dev conformance nrt-headers CHECKOUT

CHECKOUT: aws-neuron/aws-neuron-sdk (src/libnrt/include). For each of its headers: values of enumerators and macros,
size of structures and offset of their members are printed by a C program that is built once with either headers;
prototypes are compared as the compiler sees them, by assigning each function's address to a pointer of the other's
type.

AWS's nec.h defines one enumeration several times, which no C compiler takes: it is compared without the repetitions. Of
its structures those are compared that OpenTrn's header has, which are what its functions take.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OURS = ROOT / "src" / "nrt" / "include"
HEADERS = (
    *("nrt/nrt_status.h", "nrt/nrt.h", "nrt/nrt_version.h", "nrt/nrt_experimental.h", "nrt/nrt_profile.h"),
    *("nrt/nrt_sys_trace.h", "nrt/nrt_async.h", "nrt/nrt_async_sendrecv.h"),
    *("nrt/ndebug_stream.h", "nrt/nec.h", "nrt/nds/neuron_ds.h", "ndl/ndl.h", "ndl/neuron_driver_shared.h"),
    "ndl/neuron_driver_shared_tensor_batch_op.h",
)
PARTLY = "nrt/nec.h"


def _plain(text: str) -> str:
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL)
    return re.sub(r"//[^\n]*", " ", text)


def _members(body: str) -> list[str]:
    """Names of a structure's members that have an offset: a flexible array has one too."""
    return re.findall(r"(\w+)\s*(?:\[[^\]]*\])*\s*;", body)


def _once(text: str) -> str:
    """The header without definitions of an enumeration that it has had."""
    seen = set()

    def keep(match: re.Match[str]) -> str:
        is_new = match["name"] not in seen
        seen.add(match["name"])
        return match[0] if is_new else ""

    return re.sub(r"typedef enum (?P<name>\w+) \{[^}]*\} \w+;", keep, text)


def _what_both_have(theirs: str, ours: str) -> str:
    """Their enumerations and structures that are in ours, and all of their functions."""
    kept = [
        match[0]
        for match in re.finditer(r"typedef (?:enum|struct) (\w+)\s*\{[^{}]*\}\s*\w+\s*;", _once(theirs))
        if re.search(rf"\b{match[1]}\b", ours)
    ]
    return "\n".join(kept + re.findall(r"^\w[\w ]*[ *]nec_\w+\([^;{}]*\);", theirs, re.MULTILINE))


def _names(theirs: Path) -> tuple[list[str], list[tuple[str, list[str]]], list[str]]:
    """(enumerators and macros, [(structure, members)], functions) of AWS's headers."""
    values, structures, functions = [], [], []
    for header in HEADERS:
        text = _plain((theirs / header).read_text())
        if header == PARTLY:
            text = _what_both_have(text, _plain((OURS / header).read_text()))
        values += re.findall(r"^\s*#define\s+(\w+)\s+\(?-?\d", text, re.MULTILINE)
        for body in re.findall(r"\benum\b[^{;]*\{([^}]*)\}", text):
            values += re.findall(r"(?:^|,)\s*([A-Z]\w+)", body)
        for body, name in re.findall(r"typedef struct\s*\w*\s*\{([^{}]*)\}\s*(\w+)\s*;", text):
            structures.append((name, _members(body)))
        for name, body in re.findall(r"(?<!typedef )struct\s+(\w+)\s*\{([^{}]*)\}\s*;", text):
            structures.append((f"struct {name}", _members(body)))
        text = re.sub(r"^\s*#.*$", "", text, flags=re.MULTILINE)
        text = re.sub(r"\{[^{}]*\}", "", text.replace('extern "C" {', ""))
        functions += [
            name
            for name in re.findall(r"\b((?:nrt|nrta|nec|nds|ndl)_\w+)\s*\([^;{}]*\)\s*;", text)
            if not name.endswith("_t")
        ]
    return list(dict.fromkeys(values)), structures, list(dict.fromkeys(functions))


def _facts(
    include: Path, names: tuple[list[str], list[tuple[str, list[str]]], list[str]], folder: Path
) -> list[str]:
    values, structures, _ = names
    lines = [
        "#include <assert.h>",
        *(f"#include <{header}>" for header in HEADERS),
        "#include <stdio.h>",
        "int main(void) {",
    ]
    lines += [f'printf("{name} %lld\\n", (long long)({name}));' for name in values]
    for name, members in structures:
        lines.append(f'printf("{name} %zu\\n", sizeof({name}));')
        lines += [f'printf("{name}.{member} %zu\\n", offsetof({name}, {member}));' for member in members]
    (folder / "facts.c").write_text("\n".join([*lines, "return 0; }"]))
    subprocess.run(["cc", "-w", f"-I{include}", folder / "facts.c", "-o", folder / "facts"], check=True)
    return subprocess.run([folder / "facts"], capture_output=True, text=True, check=True).stdout.splitlines()


def _types(include: Path, functions: list[str], folder: Path) -> dict[str, str]:
    """Each function's type as the compiler writes it in an error."""
    lines = [
        "#include <assert.h>",
        *(f"#include <{header}>" for header in HEADERS),
        "struct probe { int x; };",
    ]
    lines += [f"struct probe probe_{name} = &{name};" for name in functions]
    (folder / "types.c").write_text("\n".join(lines))
    said = subprocess.run(
        ["cc", "-w", "-fsyntax-only", f"-I{include}", folder / "types.c"], capture_output=True, text=True,
        env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"},
    ).stderr  # fmt: skip
    found = {}
    for line in range(len(functions)):
        match = re.search(rf"types\.c:{line + len(HEADERS) + 3}:\d+: error: ([^\n]*)", said)
        found[functions[line]] = match.group(1) if match else "nothing said"
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkout", metavar="CHECKOUT", type=Path)
    options = parser.parse_args()
    theirs = options.checkout / "src" / "libnrt" / "include"
    names = _names(theirs)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        theirs = Path(shutil.copytree(theirs, folder / "theirs"))
        (theirs / PARTLY).write_text(_once(_plain((theirs / PARTLY).read_text())))
        facts = [_facts(include, names, folder) for include in (theirs, OURS)]
        types = [_types(include, names[2], folder) for include in (theirs, OURS)]
    apart = [f"{a}, here {b}" for a, b in zip(*facts, strict=True) if a != b]
    apart += [
        f"{name}: {types[0][name]}, here {types[1][name]}"
        for name in names[2]
        if types[0][name] != types[1][name]
    ]
    for each in apart:
        print(f"DIFFERS {each}")
    total = len(facts[0]) + len(names[2])
    print(
        f"{total - len(apart)} of {total} the same: {len(facts[0])} values, sizes, offsets, {len(names[2])} functions"
    )
    return 0 if not apart and len(names[2]) > 100 else 1


if __name__ == "__main__":
    sys.exit(main())
