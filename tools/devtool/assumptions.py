"""docs/assumptions.md: what the functional model takes for granted where AWS publishes no rule.

The page is made of the marks `[assumed]` and `[assumed: why]` in the comments of src and python; a test holds it to
them.
"""

from __future__ import annotations

import re
import textwrap
from collections import defaultdict
from pathlib import Path

from devtool.paths import ROOT

PAGE = ROOT / "docs" / "assumptions.md"
_MARK = re.compile(r"\[assumed\b")
_HEAD = """\
# What is assumed where AWS publishes no rule

No hardware was at hand when OpenTrn was written: it computes by what AWS documents, and where the documents are silent
by the assumptions below. A device may round, order or treat these cases differently. Times have assumptions of their
own: `opentrn describe timing.v3` marks the values, every predicted time says how many it used, and
[fidelity](../fidelity/README.md) says how far off predictions were.

Written by `./dev assumptions` from the marks `[assumed]` in the comments of the sources: change those.
"""


def _comments(path: Path) -> list[tuple[int, str]]:
    """(line, text) of every comment; consecutive lines are one, a list item or a blank line begins another."""
    found: list[tuple[int, list[str]]] = []
    sign = "#" if path.suffix == ".py" else "//"
    open_comment = False
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        at = line.find(sign)
        text = line[at + len(sign) :].strip() if at >= 0 else ""
        alone = at >= 0 and not line[:at].strip()
        if not text:
            open_comment = False
            continue
        if not open_comment or not alone or text.startswith("- "):
            found.append((number, []))
        found[-1][1].append(text.removeprefix("- "))
        open_comment = True
    return [(number, " ".join(lines)) for number, lines in found]


def _sentences(text: str) -> list[str]:
    """Those with a mark; one that is nothing but a mark belongs to the sentence before it."""
    parts = re.split(r"(?<=[.;])\s+(?=[A-Z`\[])", text)
    joined: list[str] = []
    for part in parts:
        if joined and re.match(r"\[assumed", part):
            joined[-1] += " " + part
        else:
            joined.append(part)
    return [part.strip().rstrip(";") for part in joined if _MARK.search(part)]


def found() -> dict[str, list[str]]:
    """By file: its assumptions."""
    by_file = defaultdict(list)
    paths = [p for pattern in ("src/**/*.h", "src/**/*.cc", "python/**/*.py") for p in ROOT.glob(pattern)]
    for path in sorted(paths):
        for _, text in _comments(path):
            if _MARK.search(text):
                by_file[str(path.relative_to(ROOT))] += _sentences(text)
    return dict(by_file)


def page() -> str:
    """The text of PAGE."""
    parts = [_HEAD]
    for file, sentences in found().items():
        parts.append(f"\n## `{file}`\n\n" + "".join(map(_item, sentences)))
    return "".join(parts)


def _item(sentence: str) -> str:
    """A list item, in lines of at most 120 columns."""
    how = {"initial_indent": "- ", "subsequent_indent": "  ", "break_on_hyphens": False, "break_long_words": False}
    return textwrap.fill(_escaped(sentence), 118, **how) + "\n"


def _escaped(text: str) -> str:
    return text.replace("<", "&lt;").replace("*", "\\*").replace("](", "]\\(")


def write() -> int:
    """Writes PAGE."""
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}: {sum(map(len, found().values()))} assumptions")
    return 0
