"""`opentrn cache`: the compiled models that are kept, listed or cleared."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from opentrn import _core


def cache_command(options: argparse.Namespace) -> int:
    """opentrn cache ls | clear."""
    from opentrn.cli import models as cli_model
    from opentrn.model import cache

    if options.action == "clear":
        return _clear(options)
    cli_model.refuse_given(options, {"older_than": 0.0}, "only for clear, and this lists")
    rows: list[dict[str, Any]] = []
    for entry in cache.entries():
        try:
            facts = entry.facts
        except ValueError as error:
            facts = {"damaged": str(error).partition("\n")[0]}
        rows.append({"key": entry.key, "bytes": entry.bytes, "used": entry.used, **facts})
    leftover = cache.kept().leftover()
    if options.json:
        found = {"folder": str(cache.folder()), "entries": rows, "leftover": [str(path) for path in leftover]}
        print(json.dumps(found, indent=1))
        return 0
    print(f"{len(rows)} compiled models in {cache.folder()}")
    for row in rows:
        used = time.strftime("%Y-%m-%d %H:%M", time.localtime(row["used"]))
        what = row.get("damaged") or f"{Path(row.get('source', '?')).name} for {row.get('target', '?')}"
        print(f"  {row['key'][:12]}  {_core.size_text(row['bytes']):>10}  {used}  {what}")
    if leftover:
        print(f"{len(leftover)} files that interrupted writers left; opentrn cache clear removes them")
    return 0


def _clear(options: argparse.Namespace) -> int:
    from opentrn.model import cache

    models, layers = cache.clear(options.older_than), cache.clear_layers(options.older_than)
    leftover = cache.sweep()
    if options.json:
        removed = {"models": models, "layer_times": layers, "leftover": leftover}
        rows = {name: {"files": count, "bytes": freed} for name, (count, freed) in removed.items()}
        print(json.dumps({"folder": str(cache.folder()), "removed": rows}, indent=1))
        return 0
    print(f"removed {models[0]} compiled models ({_core.size_text(models[1])}) from {cache.folder()}")
    if layers[0]:
        print(f"removed {layers[0]} files of layer times of plans ({_core.size_text(layers[1])})")
    if leftover[0]:
        print(f"removed {leftover[0]} files that interrupted writers left ({_core.size_text(leftover[1])})")
    return 0


def days(text: str) -> float:
    """The days of --older-than."""
    try:
        days = float(text)
    except ValueError:
        days = float("nan")
    if not 0 <= days < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of days; write 0 or more, as in 30")
    return days
