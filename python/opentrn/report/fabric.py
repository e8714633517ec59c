"""What collectives did to the fabric, as one self-contained page: the JSON of `src/traffic`, drawn by fabric.js."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any

from opentrn.base.files import new_file
from opentrn.report.html import in_script


def page(title: str, traffics: Sequence[dict[str, Any]]) -> str:
    """A page with a section for each of `traffics` (schema "opentrn.traffic")."""
    files = resources.files(__package__)
    part = {name: files.joinpath(name).read_text("utf-8") for name in ("fabric.html", "fabric.js", "page.css")}
    return (
        part["fabric.html"]
        .replace("{{title}}", escape(title, quote=False))
        .replace("{{css}}", part["page.css"])
        .replace("{{js}}", part["fabric.js"])
        .replace("{{data}}", in_script(json.dumps(traffics, separators=(",", ":"))))
    )


def save(title: str, traffics: Sequence[dict[str, Any]], path: str | Path) -> Path:
    """Write the page to `path`."""
    text = page(title, traffics)
    with new_file(path) as part:
        part.write_text(text, encoding="utf-8")
    return Path(path)
