"""The file of published measurements: read and checked before anything is predicted, which takes minutes."""

from __future__ import annotations

import csv
import math
from collections.abc import Collection

COLUMNS = ("id", "category", "workload", "metric", "value", "unit", "source", "note")


class RowsError(ValueError):
    """The file cannot be used; the message says where, why and what is wanted."""


def read(path: str, categories: Collection[str], only: str) -> list[dict[str, str]]:
    """The rows of these categories whose id contains `only`. Raises RowsError."""
    try:
        with open(path, newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            _require_columns(path, reader.fieldnames or ())
            rows = [(reader.line_num, row) for row in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise RowsError(f"cannot read {path}: {error}") from None
    for line, row in rows:
        short = [name for name in COLUMNS if row[name] is None]
        if short:
            raise RowsError(f"{path}:{line}: no value of column {short[0]}; a row has {', '.join(COLUMNS)}")
    looked_at = [(line, row) for line, row in rows if row["category"] in categories and only in row["id"]]
    for line, row in looked_at:
        _require_value(f"{path}:{line}", row)
    return [row for _, row in looked_at]


def _require_columns(path: str, found: Collection[str]) -> None:
    missing = [name for name in COLUMNS if name not in found]
    if missing:
        raise RowsError(f"{path}:1: no column {', '.join(missing)}; the first line is {','.join(COLUMNS)}")


def _require_value(place: str, row: dict[str, str]) -> None:
    """A published figure is a number to divide by; a share may be 0, see SHARE_FLOOR."""
    try:
        value = float(row["value"])
    except ValueError:
        raise RowsError(f"{place}: column value of {row['id']}: {row['value']!r} is not a number") from None
    if not math.isfinite(value) or value < 0 or (value == 0 and row["unit"] != "%"):
        raise RowsError(
            f"{place}: column value of {row['id']}: {row['value']} {row['unit']}; a published figure is more than 0, "
            "a share in % at least 0"
        )
