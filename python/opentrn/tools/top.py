"""neuron-top: the reports of neuron-monitor on a terminal, section by section as AWS's program shows them.

What a line says is made in C++ (src/monitor/neuron_top.h), which knows no terminal; run() draws it with curses and
reads keys. Utilisation is of simulated time, as in neuron-monitor. What a report leaves out stands as "-".
"""

from __future__ import annotations

import time
from typing import Any

from opentrn import _core
from opentrn.errors import InputError

Line = list[tuple[str, int]]  # pieces of text, each in a style: plain, title, bar, selected, dim
_BAR = 2


def screen(report: str, view: _core.TopView, width: int, height: int) -> list[Line]:
    """`height` lines of at most `width` columns, without characters that a terminal would take for something else."""
    from opentrn import __version__

    lines = view.screen(report, f"neuron-top of OpenTrn {__version__}", width, height)
    return [[("".join(c if c.isprintable() else "?" for c in text), style) for text, style in line] for line in lines]


def run(instance: str) -> int:
    """Until `q`. Raises InputError "tools.top" without a terminal."""
    import curses
    import sys

    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise InputError(
            "neuron-top draws on a terminal, and there is none",
            label="tools.top",
            hint="opentrn neuron-monitor",
        )
    _core.hold_as_tool()
    monitor = _core.Monitor(instance, _core.top_config(), "neuron-top")
    return curses.wrapper(_loop, _core.TopView(instance), monitor)


def _loop(window: Any, view: _core.TopView, monitor: _core.Monitor) -> int:
    import curses

    names = {curses.KEY_UP: "up", curses.KEY_DOWN: "down", curses.KEY_LEFT: "left", curses.KEY_RIGHT: "right"}
    styles = [curses.A_NORMAL, curses.A_BOLD, curses.A_NORMAL, curses.A_REVERSE, curses.A_DIM]
    try:
        curses.use_default_colors()
        curses.init_pair(1, curses.COLOR_GREEN, -1)
        styles[_BAR] = curses.color_pair(1)
        curses.curs_set(0)
    except curses.error:  # a terminal without colours or without a cursor to hide
        pass
    report = "{}"
    due = time.monotonic()
    window.timeout(100)
    while True:
        if time.monotonic() >= due:
            report = monitor.report()
            due = time.monotonic() + max(monitor.wait_s(), 0.1)
        height, width = window.getmaxyx()
        if height >= 4 and width >= 50:
            window.erase()
            for y, line in enumerate(screen(report, view, width - 1, height)):
                x = 0
                for text, style in line:
                    window.addstr(y, x, text, styles[style])
                    x += len(text)
            window.refresh()
        try:
            key = window.getch()
        except KeyboardInterrupt:
            return 0
        if key in (-1, curses.KEY_RESIZE):
            continue
        if not view.press(names.get(key, chr(key) if 0 < key < 256 else ""), report):
            return 0
