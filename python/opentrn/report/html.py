"""The profile as one self-contained page.

page.html, page.css and the scripts (page.js and those before it) are put together with the data: the profile
(its JSON), the text of the source files it names, and the events as deflated binary columns, which the page reads
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
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from opentrn import _core
from opentrn.base.files import new_file

# What is not worth embedding: a generated file of megabytes.
SOURCE_BYTES_MAX = 400_000

# Columns of the page's event table, in this order, each as little-endian values one after another. 64-bit
# columns come first so that each starts at a multiple of its size.
_COLUMNS = (
    ("start_ns", "<f8"), ("duration_ns", "<f4"), ("stall_ns", "<f4"), ("bytes", "<f4"),
    ("instruction", "<u4"), ("waited_for", "<u4"), ("source", "<u4"), ("track", "<u2"),
    ("opcode", "u1"), ("stall", "u1"),
)  # fmt: skip
_CRITICAL_COLUMNS = (("start_ns", "<f8"), ("end_ns", "<f8"), ("instruction", "<u4"), ("resource", "u1"))


def page(timing: Any, embed_source: Iterable[str | Path] = (), traffic: dict[str, Any] | None = None) -> str:
    """The page of a `Timing`, as text. embed_source: files whose text it may hold, beside imported ones.

    traffic: what collectives of its launch did to the fabric, which the page then begins with.
    """
    files = resources.files(__package__)
    parts = {kind: files.joinpath(f"page.{kind}").read_text("utf-8") for kind in ("html", "css", "js")}
    # Scripts of one page share their names: what others use comes first.
    scripts = [files.joinpath(f"{name}.js").read_text("utf-8") for name in ("colours", "model", "events", "fabric")]
    data = in_script(json.dumps({**_data(timing, embed_source), "traffic": traffic}, separators=(",", ":")))
    profile_name = json.loads(timing.json())["program"]
    return (
        parts["html"]
        .replace("{{title}}", escaped(profile_name))
        .replace("{{css}}", parts["css"])
        .replace("{{js}}", "".join(scripts) + parts["js"])
        .replace("{{data}}", data)
    )


def save(
    timing: Any, path: str | Path, embed_source: Iterable[str | Path] = (), traffic: dict[str, Any] | None = None
) -> Path:
    """Write the page of a `Timing` to `path`, as page() makes it."""
    text = page(timing, embed_source, traffic)
    with new_file(path) as part:
        part.write_text(text, encoding="utf-8")
    return Path(path)


def _data(timing: Any, embed_source: Iterable[str | Path]) -> dict[str, Any]:
    profile = timing.profile()
    events = timing.events()
    order = np.lexsort((events["start_ns"], events["track"]))
    events = events[order]
    sources, source_of_event = _sources(events, timing.strings())
    columns = {
        **{name: events[name] for name, _ in _COLUMNS if name in events.dtype.names},
        "duration_ns": np.where(_is_engine(timing)[events["track"]], events["busy_ns"],
                                events["end_ns"] - events["start_ns"]),
        "source": source_of_event,
    }  # fmt: skip
    critical = timing.critical_path()[::-1]
    return {
        "profile": profile,
        "tracks": timing.tracks(),
        "skipped": timing.skipped(),
        "opcodes": _core.opcode_names(),
        "stalls": _core.stall_names(),
        "resources": _core.resource_names(),
        "sources": sources,
        "texts": _texts({line["file"] for line in profile["lines"]}, embed_source),
        "events": {"count": len(events), "data": _packed(columns, _COLUMNS)},
        "critical": {
            "count": len(critical),
            "data": _packed({name: critical[name] for name, _ in _CRITICAL_COLUMNS}, _CRITICAL_COLUMNS),
        },
    }


def _is_engine(timing: Any) -> np.ndarray:
    return np.array([track["kind"] == "engine" for track in timing.tracks()] or [False])


def _sources(events: np.ndarray, strings: list[str]) -> tuple[list[list[Any]], np.ndarray]:
    """Distinct [file, line, function] of the events, and which of them each event has."""
    keys: np.ndarray = np.empty(len(events), [("file", "u4"), ("line", "i4"), ("function", "u4")])
    for name in keys.dtype.names or ():
        keys[name] = events[name]
    distinct, index = np.unique(keys, return_inverse=True)
    return [[strings[k["file"]], int(k["line"]), strings[k["function"]]] for k in distinct], index


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


def _packed(columns: dict[str, np.ndarray], layout: tuple[tuple[str, str], ...]) -> str:
    raw = b"".join(np.ascontiguousarray(columns[name]).astype(dtype).tobytes() for name, dtype in layout)
    return base64.b64encode(zlib.compress(raw, 6)).decode("ascii")


def in_script(text: str) -> str:
    """JSON that may stand in a script: `</` would end it, and `<!--` with `<script` keep it open beyond its end."""
    return text.replace("<", "\\u003c")


def escaped(text: str) -> str:
    """Text as HTML."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
