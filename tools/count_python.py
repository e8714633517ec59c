"""How much of python/opentrn computes or decides: lines of statements by what they do.

    python tools/count_python.py [COMMIT ...]      # of the working tree, or of commits
    python tools/count_python.py --files 20        # and of the 20 modules with most
    python tools/count_python.py --since COMMIT    # and how many of HEAD's stood in COMMIT already (minutes)

A statement inside of a function computes when it loops or has a comparison, arithmetic, boolean logic, a slice or a
comprehension in it; text that is put together (f-strings, + and % of strings) does not count as arithmetic. The rest
is spelling: definitions, calls that hand on their arguments, messages, options of a command line. Lines are those of
the statement itself, without the statements in it, blank lines, comments and docstrings. The oracle is left out: it is
a second, independent computation by intention.

The count is a measure to compare commits by; no single line of it says that a statement is in the wrong place.

--since asks `git blame -w -M -C`: a line stood then if its last change, but for indentation and for where it stands, is
of COMMIT or before. A folder is new if no computing line in it is that old.
"""

from __future__ import annotations

import argparse
import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "python/opentrn"
# A reference beside what is tested; it must not be C++.
REFERENCE = "oracle"

_COMPUTES = (ast.Compare, ast.BoolOp, ast.Slice, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_NESTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def _is_text(node: ast.expr) -> bool:
    if isinstance(node, ast.JoinedStr) or isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes)):
        return True
    return isinstance(node, ast.BinOp) and (_is_text(node.left) or _is_text(node.right))


def _own(statement: ast.stmt) -> Iterator[ast.AST]:
    """The nodes of a statement, without the statements in it and the contents of f-strings."""
    waiting: list[ast.AST] = [
        child for child in ast.iter_child_nodes(statement) if not isinstance(child, (ast.stmt, ast.ExceptHandler))
    ]
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.JoinedStr, ast.stmt, ast.match_case)):
            continue
        yield node
        waiting += ast.iter_child_nodes(node)


def computes(statement: ast.stmt) -> bool:
    """Whether the statement itself decides or computes something."""
    if isinstance(statement, (ast.For, ast.While, ast.AugAssign)):
        return True
    return any(
        isinstance(node, _COMPUTES) or isinstance(node, ast.BinOp) and not _is_text(node) for node in _own(statement)
    )


def _lines(statement: ast.stmt) -> int:
    """Of the statement up to the first one in it."""
    inner = [child.lineno for child in ast.walk(statement) if isinstance(child, ast.stmt) and child is not statement]
    return (min(inner) if inner else (statement.end_lineno or statement.lineno) + 1) - statement.lineno or 1


def count(text: str) -> tuple[int, list[int]]:
    """(lines of statements in functions, the numbers of those that compute) of a module."""
    total = 0
    computing: list[int] = []
    for function in ast.walk(ast.parse(text)):
        if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        waiting = list(function.body)
        while waiting:
            statement = waiting.pop()
            if isinstance(statement, _NESTED):
                continue  # ast.walk() comes to it
            waiting += [child for child in ast.walk(statement) if isinstance(child, ast.stmt) and child is not statement
                        and _parent_of(statement, child)]  # fmt: skip
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                continue  # a docstring
            lines = _lines(statement)
            total += lines
            computing += range(statement.lineno, statement.lineno + lines) if computes(statement) else ()
    return total, computing


def _parent_of(statement: ast.stmt, child: ast.stmt) -> bool:
    """Whether no other statement is between the two."""
    blocks = [statement, *getattr(statement, "handlers", []), *getattr(statement, "cases", [])]
    return any(child in getattr(block, name, []) for block in blocks for name in ("body", "orelse", "finalbody"))


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def modules(commit: str | None) -> Iterator[tuple[str, str]]:
    """(path, text) of every module of the package."""
    if commit is None:
        for path in sorted((ROOT / PACKAGE).rglob("*.py")):
            yield path.relative_to(ROOT).as_posix(), path.read_text()
        return
    listed = _git("ls-tree", "-r", "--name-only", commit, PACKAGE).split()
    for name in listed:
        if name.endswith(".py"):
            yield name, _git("show", f"{commit}:{name}")


def _part_of(path: str) -> str:
    """The package of a module, or the folder in it."""
    folder = path.removeprefix(PACKAGE + "/").rpartition("/")[0]
    return folder or "(modules)"


def tell_since(commit: str) -> None:
    """By folder: how many of HEAD's computing lines stood in `commit` already."""
    old = set(_git("rev-list", commit).split())
    today: Counter[str] = Counter()
    kept: Counter[str] = Counter()
    for path, text in modules("HEAD"):
        name = _part_of(path)
        if name.partition("/")[0] == REFERENCE or not text:
            continue
        blamed = _git("blame", "-w", "-M", "-C", "--porcelain", "HEAD", "--", path).splitlines()
        is_old = {int(words[2]): words[0] in old
                  for line in blamed if not line.startswith("\t") and len(words := line.split()) in (3, 4)
                  and len(words[0]) == 40}  # fmt: skip
        computing = count(text)[1]
        today[name] += len(computing)
        kept[name] += sum(is_old[line] for line in computing)
    new = sum(lines for name, lines in today.items() if not kept[name])
    print(f"HEAD: {sum(today.values()):,} lines compute; {sum(kept.values()):,} stood at {commit} already, "
          f"{new:,} are in folders where none did")  # fmt: skip
    for name, lines in today.most_common():
        print(f"  {lines:>6,}, old {kept[name]:>6,}  {name}{'' if kept[name] else ' (new)'}")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commits", nargs="*", metavar="COMMIT", default=[None], help="instead of the working tree")
    parser.add_argument("--files", type=int, default=0, metavar="N", help="show the N modules with most, too")
    parser.add_argument("--since", metavar="COMMIT", help="tell how many of HEAD's lines stood in COMMIT already")
    options = parser.parse_args(arguments)
    if options.since:
        tell_since(options.since)
        return 0
    for commit in options.commits:
        totals: Counter[str] = Counter()
        computing: Counter[str] = Counter()
        of_file: dict[str, tuple[int, int]] = {}
        for path, text in modules(commit):
            part = path.removeprefix(PACKAGE + "/").split("/")
            if part[0] == REFERENCE:
                continue
            name = part[0] if len(part) > 1 else "(modules)"
            lines, those = count(text)
            of_file["/".join(part)] = len(those), lines
            totals[name] += lines
            computing[name] += len(those)
        print(f"{commit or 'working tree'}: {sum(computing.values()):,} lines compute, of {sum(totals.values()):,}")
        for name, computed in computing.most_common():
            print(f"  {computed:>6,} of {totals[name]:>6,}  {name}")
        if options.files:
            print("modules:")
        for path, (computed, lines) in sorted(of_file.items(), key=lambda row: -row[1][0])[: options.files]:
            print(f"  {computed:>6,} of {lines:>6,}  {path}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
