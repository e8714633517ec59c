"""The mypy step of ./dev lint: python/opentrn is checked, and the errors that are left in a file may only become fewer.

`tools/mypy_errors.txt` holds the files that are not clean yet with their number of errors. A file that has more fails;
one that has fewer gets its new number, which belongs into the same commit.
"""

from __future__ import annotations

import re
import subprocess
from collections import Counter

from devtool.paths import ROOT, TOOLS, venv_bin
from devtool.report import DevError

LIST = TOOLS / "mypy_errors.txt"
_HEAD = """\
# Files of python/opentrn that mypy is not content with, and how many errors it finds. A number may only fall;
# ./dev lint writes a smaller one. A file that is not here has none.
"""


def errors_of(output: str) -> Counter[str]:
    """Errors by file in mypy's output."""
    return Counter(re.findall(r"^([^:\n]+):\d+(?::\d+)?: error:", output, re.MULTILINE))


def allowed() -> Counter[str]:
    """Errors by file as LIST has them."""
    if not LIST.exists():
        return Counter()
    rows = (line.split() for line in LIST.read_text().splitlines() if line and not line.startswith("#"))
    return Counter({path: int(count) for count, path in rows})


def write(found: Counter[str]) -> None:
    """Writes LIST."""
    rows = "".join(f"{count} {path}\n" for path, count in sorted(found.items()))
    LIST.write_text(_HEAD + rows, encoding="utf-8")


def check() -> bool:
    """Whether no file has more errors than LIST allows; prints those of files that have."""
    command = [venv_bin("python"), "-m", "mypy", "--no-error-summary", "--no-pretty"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise DevError(f"mypy ended with {done.returncode}: {done.stderr or done.stdout}")
    found, limit = errors_of(done.stdout), allowed()
    worse = [path for path, count in found.items() if count > limit[path]]
    for line in done.stdout.splitlines():
        if line.partition(":")[0] in worse:
            print(line)
    for path in worse:
        print(f"{path}: {found[path]} errors of mypy; {limit[path]} are allowed (tools/{LIST.name})")
    if not worse and found != limit:
        write(found)
        print(f"mypy: {limit.total() - found.total()} errors fewer, written to tools/{LIST.name}")
    return not worse
