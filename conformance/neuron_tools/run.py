#!/usr/bin/env python3
"""AWS's guide to neuron-ls: its samples, printed again by OpenTrn and compared character by character.

    ./dev conformance neuron-tools CHECKOUT

CHECKOUT is one of aws-neuron/aws-neuron-sdk. The processes of the samples are handed to the printer, because no process
of this machine has their numbers. The samples name trn2n.48xlarge, whose devices are those of trn2.48xlarge.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import re
import sys
import textwrap
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "python"))

from opentrn import _core  # noqa: E402

GUIDE = "tools/neuron-sys-tools/neuron-ls.rst"
INSTANCE, INSTANCE_OF_GUIDE = "trn2.48xlarge", "trn2n.48xlarge"
LNC = 2
_PROCESS = re.compile(r"\| +(\d+) \| (\S.*?\S) +\| (\S+) +\|$")


def samples_of(text: str) -> list[tuple[list[str], str]]:
    """(options, what is printed) of every block that shows a call."""
    found = []
    for block in re.findall(r"^::\n\n((?:  .*\n|\n)+)", text, re.MULTILINE):
        lines = [line.removeprefix("  ") for line in block.rstrip("\n").split("\n")]
        if lines[0].startswith("$ neuron-ls"):
            found.append((lines[0].split()[2:], "\n".join(lines[1:]) + "\n"))
    return found


def processes_of(text: str) -> list[tuple[int, str, str, bool]]:
    """(number, command, version, whether it is a tool) of the rows of a sample."""
    rows = {match.groups() for line in text.splitlines() if (match := _PROCESS.search(line))}
    return sorted((int(pid), command, version, version == "NA") for pid, command, version in rows)


def elements_of(text: str) -> list[str]:
    """The devices of a list in JSON as they are printed, without the indentation of the list: the guide leaves some
    out, and prints the brackets of the list with another indentation than the rest."""
    inner = text.strip().removeprefix("[").removesuffix("]")
    parts = re.split(r"^ *\.\.\.\n", inner, flags=re.MULTILINE)
    return [textwrap.dedent(part.strip("\n")).rstrip().rstrip(",") for part in parts]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    options = parser.parse_args()
    os.environ["OPENTRN_INSTANCE_ID"] = "i-aabbccdd123456789"  # the guide's
    equal = differing = 0
    for words, wanted in samples_of((options.checkout / GUIDE).read_text()):
        if "-j" in words:
            process = json.loads(elements_of(wanted)[0])["neuron_processes"][0]
            processes = [(process["pid"], process["command"], process["neuron_runtime_version"], False)]
        else:
            processes = processes_of(wanted)
        printed = _core.neuron_ls(INSTANCE, LNC, words, processes).replace(INSTANCE, INSTANCE_OF_GUIDE)
        same = printed.rstrip("\n") == wanted.rstrip("\n")
        if "-j" in words:
            same = all(part in elements_of(printed)[0] for part in elements_of(wanted))
        equal, differing = equal + same, differing + (not same)
        print(f"neuron-ls {' '.join(words)}: {'equal' if same else 'differs'}")
        if not same:
            lines = difflib.unified_diff(wanted.splitlines(), printed.splitlines(), "guide", "OpenTrn", lineterm="")
            print("\n".join(list(lines)[:20]))
    print(f"{equal} samples equal, {differing} differ")
    return 1 if differing or not equal else 0


if __name__ == "__main__":
    sys.exit(main())
