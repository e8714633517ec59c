"""The profile as one self-contained page.

page.html, page.css and the scripts (page.js and those before it) are put together with the data (src/profile/page.h):
the profile, the text of the source files it names, and the events as deflated binary columns, which the page reads
straight into typed arrays, so that a million events stay usable.

Which files a program names is up to whoever made it, and a page is made to be passed on: only those that this process
imported (a kernel and what it uses), and those that the caller lists, are embedded.
"""

from __future__ import annotations

import base64
import json
import os
import sys
import zlib
from collections.abc import Iterable
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any

from opentrn.base.files import new_file

# What is not worth embedding: a generated file of megabytes.
SOURCE_BYTES_MAX = 400_000

# Scripts of one page share their names: what others use comes first.
_SCRIPTS = ("colours.js", "model.js", "events.js", "fabric.js", "page.js")


def page(timing: Any, embed_source: Iterable[str | Path] = (), traffic: dict[str, Any] | None = None) -> str:
    """The page of a `Timing`, as text. embed_source: files whose text it may hold, beside imported ones.

    traffic: what collectives of its launch did to the fabric, which the page then begins with.
    """
    data = _data(timing, embed_source)
    data["traffic"] = traffic
    return (
        _part("page.html")
        .replace("{{title}}", escape(data["profile"]["program"], quote=False))
        .replace("{{css}}", _part("page.css"))
        .replace("{{js}}", "".join(map(_part, _SCRIPTS)))
        .replace("{{data}}", in_script(json.dumps(data, separators=(",", ":"))))
    )


def _part(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text("utf-8")


def save(
    timing: Any, path: str | Path, embed_source: Iterable[str | Path] = (), traffic: dict[str, Any] | None = None
) -> Path:
    """Write the page of a `Timing` to `path`, as page() makes it."""
    text = page(timing, embed_source, traffic)
    with new_file(path) as part:
        part.write_text(text, encoding="utf-8")
    return Path(path)


def _data(timing: Any, embed_source: Iterable[str | Path]) -> dict[str, Any]:
    text, events, critical = timing.page()
    data = json.loads(text)
    data["texts"] = _texts({line["file"] for line in data["profile"]["lines"]}, embed_source)
    data["events"]["data"], data["critical"]["data"] = _packed(events), _packed(critical)
    return data


def _texts(files: set[str], embed_source: Iterable[str | Path]) -> dict[str, list[str]]:
    """The lines of those source files that may be embedded and can still be read."""
    imported = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    allowed = {os.path.realpath(file) for file in [*imported, *embed_source] if file}
    texts = {}
    for name in sorted(files):
        path = Path(name)
        try:
            known = bool(name) and os.path.realpath(name) in allowed
            if known and path.is_file() and path.stat().st_size <= SOURCE_BYTES_MAX:
                texts[name] = path.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            continue  # gone or unreadable: the page shows file and line without the text
    return texts


def _packed(columns: bytes) -> str:
    return base64.b64encode(zlib.compress(columns, 6)).decode("ascii")


def in_script(text: str) -> str:
    """JSON that may stand in a script: `</` would end it, and `<!--` with `<script` keep it open beyond its end."""
    return text.replace("<", "\\u003c")
