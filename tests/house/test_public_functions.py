"""What public functions say of themselves: a limit on the share that says too little, which may only fall.

CONTRIBUTING.md asks each public function for shapes, dtypes, units and errors. What can be seen without reading for
the sense is counted here: no text at all; a tensor among the arguments or results and no word of its shape, or of its
dtype; a refusal and no word of what is refused.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator

import pytest
from house import ROOT, relative, tracked

PACKAGE = ROOT / "python" / "opentrn"
# Percent of all public functions, by what is missing. Lower a limit when the share has fallen: the test says so.
LIMITS_PERCENT = {
    "python: no text": 10.0,
    "python: no word of errors": 6.2,
    "python: no word of shapes": 7.5,
    "python: no word of dtypes": 11.5,
    "c++: no text": 16.5,
}
SLACK_PERCENT = 1.5  # below a limit; beyond, the limit is to be lowered
# Not part of what users or other layers call: the reference of tests, the program's own commands, stand-ins.
PRIVATE = {"oracle", "cli", "compat"}

_TENSORS = re.compile(r"\b(ndarray|Array|Tensor|NkiTensor|Value|Tile)\b")
_SHAPES = re.compile(
    r"\[[\w., *+/()-]*\]|\bshapes?\b|\bdims?\b|dimension|\brows?\b|column|\bscalar|element|matri|axis|axes"
)
_DTYPES = re.compile(r"\bdtypes?\b|float|bf16|fp\d|\bf\d\d|\bint\d*\b|integer|bool|complex|\btypes?\b|format")
_ERRORS = re.compile(r"[Rr]ais|[Rr]efus|Error|[Ff]ault|\berrors?\b|fails?\b|must\b")


def python_functions(module: ast.Module) -> Iterator[ast.FunctionDef]:
    """Functions of a module and methods of its classes, those that begin with _ left out; properties too."""
    for node in module.body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            yield node
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from (each for each in python_functions(ast.Module(node.body, [])))


def _raises(function: ast.FunctionDef) -> bool:
    for node in ast.walk(function):
        if isinstance(node, ast.Raise) and node.exc is not None:
            return True
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "require":
            return True
    return False


def lacks(function: ast.FunctionDef) -> list[str]:
    """What the docstring of a function does not say."""
    text = ast.get_docstring(function)
    if text is None:
        return ["no text"]
    found = []
    arguments = function.args
    notes = [each.annotation for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    types = " ".join(ast.unparse(each) for each in (*notes, function.returns) if each is not None)
    if _TENSORS.search(types):
        found += [] if _SHAPES.search(text) else ["no word of shapes"]
        found += [] if _DTYPES.search(text) else ["no word of dtypes"]
    if _raises(function) and not _ERRORS.search(text):
        found.append("no word of errors")
    return found


# A declaration of a function with arguments that begins a line of a header.
_DECLARATION = re.compile(
    r"^ {0,2}(?!return|if|for|while|else|case|using|#|//|static_assert|friend|delete|namespace|throw|explicit\b)"
    r"(?:(?:static|virtual|inline|constexpr|template ?<[^>]*>|\[\[nodiscard\]\]) )*"
    r"[\w:<>,*& ]+?[ &*](?P<name>[a-z]\w*)\((?P<arguments>[^)]*\w[^)]*)\)?[^;{]*(?:[;{]|$)"
)


def cpp_functions(text: str) -> Iterator[tuple[str, bool]]:
    """(name, whether a comment stands above it, behind it, or above the lines it stands among) of each."""
    has_comment, is_private = False, False
    for line in text.splitlines():
        stripped = line.strip()
        if not stripped:
            has_comment = False
        elif stripped.startswith("//"):
            has_comment = True
        elif stripped in ("private:", "protected:"):
            is_private = True
        elif stripped == "public:" or re.match(r"(class|struct) \w[^;]*$", line):
            is_private = False
        elif not is_private and (found := _DECLARATION.match(line)):
            yield found["name"], has_comment or "//" in line
        if line.startswith("};"):
            is_private = False


def counted() -> tuple[Counter[str], dict[str, int], list[str]]:
    """(functions by what they lack, functions in all by language, where each is)"""
    missing: Counter[str] = Counter()
    total = {"python": 0, "c++": 0}
    places = []
    for path in tracked("python/opentrn/*.py"):
        parts = path.relative_to(PACKAGE).parts
        if parts[0] in PRIVATE:
            continue
        for function in python_functions(ast.parse(path.read_text())):
            total["python"] += 1
            for lack in lacks(function):
                missing[f"python: {lack}"] += 1
                places.append(f"{relative(path)}:{function.lineno}: {function.name}: {lack}")
    for path in tracked("src/*.h"):
        # AWS's interface in C is described on AWS's own pages.
        of_aws = relative(path).startswith("src/nrt/include/") and path.stem != "opentrn"
        if path.stem.endswith("_for_test") or of_aws:
            continue
        for name, has_text in cpp_functions(path.read_text()):
            total["c++"] += 1
            if not has_text:
                missing["c++: no text"] += 1
                places.append(f"{relative(path)}: {name}: no text")
    return missing, total, places


def test_the_share_of_functions_that_say_too_little_only_falls():
    missing, total, places = counted()
    assert min(total.values()) > 400
    shares = {name: 100 * missing[name] / total[name.partition(":")[0]] for name in LIMITS_PERCENT}
    grown = {name: f"{share:.2f} %" for name, share in shares.items() if share > LIMITS_PERCENT[name]}
    assert grown == {}, f"document what is new; {len(places)} in all, such as {places[-10:]}"
    fallen = {name: f"{share:.2f} %" for name, share in shares.items() if share < LIMITS_PERCENT[name] - SLACK_PERCENT}
    assert fallen == {}, "lower these limits"


@pytest.mark.parametrize(
    ("source", "missing"),
    [
        ("def f(x: int) -> int: return x", ["no text"]),
        ('def f(x: np.ndarray):\n    """Twice x."""', ["no word of shapes", "no word of dtypes"]),
        ('def f(x: np.ndarray):\n    """x of [n, m] floats, doubled."""', []),
        ('def f(x: int):\n    """One more."""\n    if x: raise InputError("no", label="a")', ["no word of errors"]),
        ('def f(x: int):\n    """One more. Raises InputError for none."""\n    require(x, "no", "a")', []),
    ],
)
def test_what_a_docstring_lacks_is_found(source: str, missing: list[str]):
    (function,) = python_functions(ast.parse(source))
    assert lacks(function) == missing


def test_comments_of_headers_are_found():
    text = """
// Twice x.
double twice(double x);
double thrice(double x);  // the same, thrice

double half(double x);

class Tile {
 public:
  int rows() const;
  void fill(double value);
  // All of it.
  void clear(bool at_once);

 private:
  void grow(int rows);
};
"""
    assert list(cpp_functions(text)) == [
        ("twice", True), ("thrice", True), ("half", False), ("fill", False), ("clear", True),
    ]  # fmt: skip
