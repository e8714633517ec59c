"""Sizes and times as people read them (src/base/number_text.h)."""

from __future__ import annotations

from opentrn import _core

size_text = _core.size_text
time_text = _core.time_text
