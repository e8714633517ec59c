"""./dev docs: the documents as a site, with a reference of the Python API made from docstrings and stubs.

The pages lie in the site as they lie in the repository, so that their links are the same in both. What a link names
that is no page (a source, a folder) becomes one. The order is that of docs/README.md: a page of docs/ that it does
not name is an error.
"""

from __future__ import annotations

import hashlib
import html
import os
import posixpath
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from devtool.paths import DEPS, OUT, ROOT, TOOLS
from devtool.report import DevError, run, say
from devtool.style import tracked

SOURCE, SITE = OUT / "docs-source", OUT / "docs"
_ENVIRONMENT = DEPS / "docs"
_REQUIREMENTS = TOOLS / "requirements-docs.txt"
# Pages beside those of docs/, which git's patterns match in subfolders too.
_PAGES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "CODE_OF_CONDUCT.md", "docs/*.md")
_MORE = ("examples/*.md", "fidelity/*.md", "conformance/*.md", "benchmarks/*.md")
_LINK = re.compile(r"(!?\[(?:[^\[\]]|\[[^\]]*\])*\]\()([^)#\s]+)")
_ESCAPED_BAR = r"\|"
_FENCE = re.compile(r"^(\s*```)(\w+) [\w ]+$", re.MULTILINE)
_LANGUAGES = {".py": "python", ".cc": "cpp", ".h": "cpp", ".toml": "toml", ".cmake": "cmake", ".json": "json"}

# The reference: page, title, and what mkdocstrings shows on it. A module shows what its __all__ names.
_API = {
    "opentrn": (
        "opentrn",
        "`import opentrn`: kernels and models run, timed and compared.",
        [
            "opentrn.kernel.run.run", "opentrn.kernel.run.RunResult", "opentrn.kernel.run.ShapeOf",
            "opentrn.activate", "opentrn.model.compiled.compile", "opentrn.model.compiled.load",
            "opentrn.model.compiled.coverage", "opentrn.model.compiled.CompiledModel",
            "opentrn.model.comparison.compare", "opentrn.planning", "opentrn.program_profile.profile_program",
        ],
    ),
    "nki": ("opentrn.nki", "Kernels, as `nki` after `opentrn.activate()`.", ["opentrn.nki._kernel"]),
    "nki_language": ("opentrn.nki.language", "Tiles, operators and loops.", ["opentrn.nki.language"]),
    "nki_isa": ("opentrn.nki.isa", "The instructions of a NeuronCore.", ["opentrn.nki.isa"]),
    "nki_collectives": ("opentrn.nki.collectives", "Collectives between ranks.", ["opentrn.nki.collectives"]),
    "graph": ("opentrn.graph", "Graphs: read, print, verify, evaluate.", ["opentrn.graph"]),
    "generate": ("opentrn.generate", "Language models.", ["opentrn.generate.language_model"]),
    "torch": ("opentrn.torch", "PyTorch's backend and device.", ["opentrn.torch"]),
    "jax": ("opentrn.jax", "JAX's platform `neuron`.", ["opentrn.jax"]),
    "tensorflow": ("opentrn.tensorflow", "TensorFlow functions.", ["opentrn.tensorflow"]),
    "custom_op": ("opentrn.custom_op", "GpSimd operators in C++.", ["opentrn.custom_op"]),
    "errors": ("opentrn.errors", "The exceptions and their fields.", ["opentrn.errors"]),
}  # fmt: skip

_CONFIGURATION = """\
site_name: OpenTrn
site_description: AWS Trainium in software
docs_dir: {source}
site_dir: {site}
theme:
  name: material
  font: false  # nothing is fetched from another host
  features: [navigation.indexes, navigation.top, navigation.footer, toc.follow, content.code.copy, search.highlight]
  palette:
    - media: "(prefers-color-scheme: light)"
      scheme: default
      primary: blue grey
      toggle: {{icon: material/weather-night, name: Dark}}
    - media: "(prefers-color-scheme: dark)"
      scheme: slate
      primary: blue grey
      toggle: {{icon: material/weather-sunny, name: Light}}
extra_css: [site.css]
markdown_extensions:
  - attr_list
  - footnotes
  - md_in_html
  - sane_lists
  - tables
  - toc:
      permalink: true
      slugify: !!python/object/apply:pymdownx.slugs.slugify {{kwds: {{case: lower}}}}
  - pymdownx.superfences
  - pymdownx.highlight
plugins:
  - search
  - mkdocstrings:
      handlers:
        python:
          paths: [{package}]
          options:
            docstring_style: null
            extensions: [{tools}/devtool/docstring_lists.py]
            show_source: false
            show_root_heading: true
            show_root_full_path: false
            show_symbol_type_heading: true
            separate_signature: true
            show_signature_annotations: true
            members_order: source
            filters: ["!^_"]
            heading_level: 2
validation:
  nav: {{omitted_files: warn, not_found: warn}}
  links: {{not_found: warn, absolute_links: warn, unrecognized_links: warn, anchors: warn}}
nav:
{nav}
"""
_STYLE = """\
.md-grid { max-width: 76rem; }
.md-typeset table:not([class]) { font-size: .68rem; }
.md-typeset pre > code { font-size: .68rem; }
"""


@dataclass
class Pages:
    """The site's pages by their path; errors are links that lead nowhere and pages in no order."""

    text: dict[str, str] = field(default_factory=dict)
    files: dict[str, Path] = field(default_factory=dict)  # images: copied as they are
    errors: list[str] = field(default_factory=list)


def _relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _first_line(path: Path) -> str:
    """What a source says of itself in its first comment, docstring or heading; empty where it says nothing."""
    if path.suffix not in {".md", ".toml", *_LANGUAGES}:
        return ""
    for line in path.read_text(errors="replace").splitlines():
        if text := re.sub(r'^(#!.*|#pragma.*|#include.*|#+ |// ?|r?""")', "", line).strip().removesuffix('"""'):
            return text
    return ""


def _listing(folder: str) -> str:
    """A page for a folder that has no README.md: its files, and what each says of itself."""
    rows = [f"# `{folder}`\n\n| file | |\n|---|---|\n"]
    for path in tracked(f"{folder}/*"):
        name = path.relative_to(ROOT / folder).as_posix()
        said = _first_line(path).replace("|", "\\|").replace("<", "&lt;")
        shown = f"[`{name}`]({name})" if path.suffix == ".md" else f"`{name}`"
        rows.append(f"| {shown} | {said} |\n")
    return "".join(rows)


def _shown(path: Path) -> str:
    """A page that holds a source."""
    fence = "````"
    return f"# `{_relative(path)}`\n\n{fence}{_LANGUAGES.get(path.suffix, 'text')}\n{path.read_text()}\n{fence}\n"


def _target(pages: Pages, page: str, target: str) -> str:
    """What a link of `page` becomes in the site; adds the page that it leads to where that is no document."""
    if "://" in target or target.startswith("mailto:"):
        return target
    name = posixpath.normpath(posixpath.join(posixpath.dirname(page), target))
    path = ROOT / name
    if not path.exists() or name.startswith(".."):
        pages.errors.append(f"{page}: the link {target} leads nowhere")
        return target
    if path.is_dir():
        name = f"{name}/README.md"
        if not (ROOT / name).exists():
            pages.text.setdefault(name, _listing(posixpath.dirname(name)))
    elif path.suffix in (".png", ".svg", ".jpg"):
        pages.files[name] = path
    elif path.suffix != ".md":
        name = f"{name}.md"
        pages.text.setdefault(name, _shown(path))
    return posixpath.relpath(name, posixpath.dirname(page) or ".")


def _converted(pages: Pages, page: str, text: str) -> str:
    """A document for MkDocs: links to what the site has, code blocks with one word behind their fence."""
    text = _FENCE.sub(r"\1\2", text)
    parts = re.split(r"(^\s*```.*?^\s*```|`[^`\n]+`)", text, flags=re.MULTILINE | re.DOTALL)
    for at in range(0, len(parts), 2):
        parts[at] = _LINK.sub(lambda m: m.group(1) + _target(pages, page, m.group(2)), parts[at])
    # GitHub reads \| in a table's code as |; Python-Markdown would show the backslash.
    for at in range(1, len(parts), 2):
        if "\\|" in parts[at] and not parts[at].lstrip().startswith("```"):
            parts[at] = f"<code>{html.escape(parts[at][1:-1]).replace(_ESCAPED_BAR, '&#124;')}</code>"
    # A list right behind a paragraph is a list for GitHub; Python-Markdown wants a blank line before it.
    return re.sub(r"(?m)^(?![-*|#> ]|\d+\. )(\S.*)\n(?=- )", r"\1\n\n", "".join(parts))


def _api(pages: Pages) -> None:
    index = ["# Python API\n\nMade from docstrings and stubs.\n\n| module | |\n|---|---|\n"]
    for name, (title, about, objects) in _API.items():
        index.append(f"| [`{title}`]({name}.md) | {about} |\n")
        shown = "\n".join(f"::: {each}\n" for each in objects)
        pages.text[f"api/{name}.md"] = f"# {title}\n\n{about}\n\n{shown}"
    pages.text["api/README.md"] = "".join(index)


def collected() -> Pages:
    """Every page of the site, converted."""
    pages = Pages()
    documents = tracked(*_PAGES, *_MORE)
    for path in documents:
        if _relative(path).count("/") == 0 and _relative(path) not in _PAGES:
            continue
        pages.text[_relative(path)] = _converted(pages, _relative(path), path.read_text())
    _api(pages)
    return pages


def _order() -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """(section, (title, page) ...) as docs/README.md has them."""
    text = (ROOT / "docs" / "README.md").read_text()
    for title, body in re.findall(r"^\*\*(.+?)\*\*\n(.*?)(?=^\*\*|\Z)", text, re.MULTILINE | re.DOTALL):
        links = re.findall(r"\[([^\]]+)\]\(([^)#\s]+)", body)
        # A link within a sentence begins with a small letter; an entry of the navigation does not.
        named = [(" ".join(name.split()), posixpath.normpath(f"docs/{to}")) for name, to in links]
        yield title, [(name[:1].upper() + name[1:], page) for name, page in named]


def navigation(pages: Pages) -> list[str]:
    """The lines of MkDocs' `nav`; a page of docs/ that docs/README.md does not name is an error of `pages`."""
    lines, seen = ["  - README.md", "  - Documents: docs/README.md"], {"README.md", "docs/README.md"}

    def add(depth: int, title: str, page: str) -> None:
        if page not in seen and page in pages.text:
            seen.add(page)
            lines.append(f"{'  ' * depth}- {title!r}: {page}")

    def add_folder(depth: int, title: str, prefix: str) -> None:
        inside = sorted(name for name in pages.text if name.startswith(prefix) and name not in seen)
        if inside:
            lines.append(f"{'  ' * depth}- {title!r}:")
            for name in inside:
                add(depth + 1, _title(pages.text[name], name), name)

    for section, entries in _order():
        lines.append(f"  - {section!r}:")
        for title, page in entries:
            if (ROOT / page).is_dir():
                add_folder(2, title, f"{page}/")
            else:
                add(2, title, page)
    missing = [name for name in pages.text if re.fullmatch(r"docs/[^/]+\.md", name) and name not in seen]
    pages.errors += [f"docs/README.md names no {name}: put it where a reader should meet it" for name in missing]
    lines.append("  - 'Python API':")
    add(2, "Modules", "api/README.md")
    for name, (title, _, _) in _API.items():
        add(2, title, f"api/{name}.md")
    for title, prefix in (("Examples", "examples/"), ("Measured", "fidelity/"), ("Benchmarks", "benchmarks/"),
                          ("Conformance", "conformance/"), ("Project", "")):  # fmt: skip
        add_folder(1, title, prefix)
    return lines


def _title(text: str, name: str) -> str:
    heading = re.search(r"^# (.+)$", text, re.MULTILINE)
    return re.sub(r"[`\\]|\[([^\]]*)\]\([^)]*\)", r"\1", heading.group(1)) if heading else name


def assembled() -> Pages:
    """Writes SOURCE and MkDocs' configuration; raises DevError with every broken link and every page in no order."""
    pages = collected()
    nav = navigation(pages)
    if pages.errors:
        raise DevError("\n".join(sorted(set(pages.errors))), "mend the links and docs/README.md")
    shutil.rmtree(SOURCE, ignore_errors=True)
    for name, text in pages.text.items():
        (SOURCE / name).parent.mkdir(parents=True, exist_ok=True)
        (SOURCE / name).write_text(text)
    for name, path in pages.files.items():
        (SOURCE / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, SOURCE / name)
    (SOURCE / "site.css").write_text(_STYLE)
    configuration = _CONFIGURATION.format(
        source=SOURCE, site=SITE, package=ROOT / "python", tools=TOOLS, nav="\n".join(nav)
    )
    SOURCE.with_suffix(".yml").write_text(configuration)
    return pages


def _prepare() -> Path:
    """The folder of programs of the site's environment, made or brought up to date."""
    programs, stamp = _ENVIRONMENT / "bin", _ENVIRONMENT / "requirements.sha256"
    wanted = hashlib.sha256(_REQUIREMENTS.read_bytes()).hexdigest()
    if not stamp.exists() or stamp.read_text() != wanted:
        say("docs: an environment of its own in .deps/docs")
        run([sys.executable, "-m", "venv", "--clear", _ENVIRONMENT], hint="apt-get install python3-venv")
        pip = [programs / "python", "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        run([*pip, "-r", _REQUIREMENTS], hint="the Python package registry could not be read", quiet=True)
        stamp.write_text(wanted)
    return programs


def build(serve: bool) -> int:
    """Builds the site into SITE, any warning being an error; with `serve` shows it on a local port instead."""
    programs = _prepare()
    pages = assembled()
    action = "serve" if serve else "build"
    run(
        # Not --quiet: that hides the warnings from --strict, too.
        [programs / "mkdocs", action, "--strict", "-f", SOURCE.with_suffix(".yml")],
        hint="the warnings above name the page",
        env={"PYTHONPATH": "", "NO_MKDOCS_2_WARNING": "1", "PATH": f"{programs}:{os.environ['PATH']}"},
    )
    say(f"{len(pages.text)} pages: {_relative(SITE)}/index.html")
    return 0
