"""Sizes and times as people read them."""

from __future__ import annotations


def size_text(count: float) -> str:
    """Bytes with four digits: 512 B, 1.5 KiB."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.4g} {unit}"
        count /= 1024
    return f"{count:.4g} GiB"


def time_text(us: float) -> str:
    """Microseconds in the unit that suits them."""
    return f"{us:.2f} us" if us < 1e3 else f"{us / 1e3:.2f} ms" if us < 1e6 else f"{us / 1e6:.2f} s"
