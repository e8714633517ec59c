"""The site of the documents (./dev docs): every page is in its order, every link leads to a page of it."""

import importlib
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from house import ROOT

from devtool import docsite


def test_every_page_has_a_place_and_every_link_a_page():
    pages = docsite.collected()
    lines = docsite.navigation(pages)
    assert pages.errors == []
    assert "    - 'A language model': docs/language_models.md" in lines  # "a language model" in a sentence
    named = {line.rpartition(" ")[2] for line in lines}
    assert {name for name in pages.text if name not in named} == set()
    assert len(pages.text) > 100


def test_what_a_link_names_becomes_a_page():
    pages = docsite.Pages()
    text = "[a](../examples/03_softmax.py) [b](../src/isa/instructions) [c](images/profile_page.png) [d](nki.md#x)"
    assert docsite._converted(pages, "docs/a.md", text) == (
        "[a](../examples/03_softmax.py.md) [b](../src/isa/instructions/README.md) [c](images/profile_page.png) "
        "[d](nki.md#x)"
    )
    assert "```" in pages.text["examples/03_softmax.py.md"] and list(pages.files) == ["docs/images/profile_page.png"]
    assert "`matmul.cc`" in pages.text["src/isa/instructions/README.md"] and pages.errors == []


def test_a_link_that_leads_nowhere_is_found():
    pages = docsite.Pages()
    docsite._converted(pages, "docs/a.md", "[a](no_such_page.md), and in code: `[b](nor_this.md)`")
    assert pages.errors == ["docs/a.md: the link no_such_page.md leads nowhere"]


def test_a_page_in_no_order_is_found():
    pages = docsite.collected()
    pages.text["docs/new.md"] = "# New"
    docsite.navigation(pages)
    assert [error for error in pages.errors if "docs/new.md" in error]


def test_code_and_lists_are_written_as_markdown_of_the_site_wants_them():
    assert docsite._converted(docsite.Pages(), "docs/a.md", "```console run\n$ x\n```\n") == "```console\n$ x\n```\n"
    assert docsite._converted(docsite.Pages(), "docs/a.md", "Two:\n- a\n- b\n") == "Two:\n\n- a\n- b\n"
    table = docsite._converted(docsite.Pages(), "docs/a.md", "| `--price a\\|<b>` | `c` |\n")
    assert table == "| <code>--price a&#124;&lt;b&gt;</code> | `c` |\n"


def test_every_api_page_names_what_there_is():
    for _, _, objects in docsite._API.values():
        for name in objects:
            parts = name.split(".")
            folders = [ROOT.joinpath("python", *parts[:end]) for end in range(len(parts), 0, -1)]
            module = next(each for each in folders if each.is_dir() or each.with_suffix(".py").exists())
            source = module / "__init__.py" if module.is_dir() else module.with_suffix(".py")
            rest = parts[len(module.relative_to(ROOT / "python").parts) :]
            assert not rest or f" {rest[0]}" in source.read_text(), name


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Runs it.\n\ntarget: a chip,\nor None.\nx, y: sizes.\n\nRaises ValueError.",
         "Runs it.\n\n\n- `target`: a chip,\n  or None.\n- `x`, `y`: sizes.\n\nRaises ValueError."),
        ("Note: no argument.", "Note: no argument."),
    ],
)  # fmt: skip
def test_arguments_in_docstrings_become_a_list(text: str, shown: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "griffe", SimpleNamespace(Extension=object))  # of the site's environment alone
    monkeypatch.syspath_prepend(str(Path(ROOT, "tools")))
    lists = importlib.import_module("devtool.docstring_lists")
    assert lists.as_lists(text, {"target", "x", "y"}) == shown
