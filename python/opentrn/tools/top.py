"""neuron-top: the reports of neuron-monitor on a terminal, section by section as AWS's program shows them.

What a line says is made by screen(), which knows no terminal; run() draws it with curses and reads keys. Utilisation is
of simulated time, as in neuron-monitor. What a report leaves out stands as "-".
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from opentrn import _core
from opentrn.errors import InputError

PLAIN, TITLE, BAR, SELECTED, DIM = range(5)
_PERIOD_S = 1.0
_CONFIG = {
    "period": "1s",
    "neuron_runtimes": [
        {
            "tag_filter": ".*",
            "metrics": [
                {"type": "neuroncore_counters"},
                {"type": "memory_used"},
                {"type": "neuron_runtime_vcpu_usage"},
                {"type": "execution_stats"},
            ],
        }
    ],
    "system_metrics": [{"type": "vcpu_usage"}, {"type": "memory_info"}],
}
_HOST = (("Tensors", "tensors"), ("Constants", "constants"), ("DMA Buffers", "dma_buffers"),
         ("App. Memory", "application_memory"))  # fmt: skip
_DEVICE = (("Tensors", "tensors"), ("Constants", "constants"), ("Model Code", "model_code"),
           ("Runtime Memory", "runtime_memory"), ("Model Scratchpad", "model_shared_scratchpad"))  # fmt: skip
_HELP = "q: quit   F: percent/teraflops   a/d, 1-9: process   up/down: tree   left/right: fold   x: fold all"


@dataclass
class View:
    """What keys change."""

    tab: int = 0  # 0: all processes
    flops: bool = False
    row: int = 0  # of the tree
    folded: set[str] = field(default_factory=set)

    def press(self, key: str, tabs: int, rows: Sequence[tuple[str, bool]]) -> bool:
        """Takes a key; False to end. `rows`: (key, whether it has children) of the tree's visible rows."""
        if key == "q":
            return False
        if key in ("f", "F"):
            self.flops = not self.flops
        elif key in ("a", "d"):
            self.tab = (self.tab + (1 if key == "d" else -1)) % tabs
            self.row = 0
        elif key.isdecimal() and 1 <= int(key) <= tabs:
            self.tab, self.row = int(key) - 1, 0
        elif key == "x":
            parents = {name for name, has in rows if has}
            self.folded = set() if self.folded else parents
        elif key in ("up", "down"):
            self.row = max(0, min(len(rows) - 1, self.row + (1 if key == "down" else -1)))
        elif key in ("left", "right") and self.row < len(rows):
            (self.folded.add if key == "left" else self.folded.discard)(rows[self.row][0])
        return True


Line = list[tuple[str, int]]  # pieces of text, each in a style


def size_text(count: float | None) -> str:
    if count is None:
        return "-"
    for unit in ("B", "KB", "MB", "GB"):
        if abs(count) < 1024 or unit == "GB":
            return f"{count:.0f}{unit}" if unit == "B" else f"{count:.1f}{unit}"
        count /= 1024
    raise AssertionError


def _bar(share: float | None, width: int) -> str:
    if share is None:
        return "[" + " " * width + "]"
    filled = round(min(max(share, 0.0), 1.0) * width)
    return "[" + "|" * filled + " " * (width - filled) + "]"


def _sum(values: Sequence[Any]) -> float | None:
    known = [value for value in values if isinstance(value, (int, float))]
    return sum(known) if known else None


def _cores(runtimes: Sequence[dict[str, Any]]) -> dict[int, dict[str, float]]:
    """By core, the sum over processes: utilisation in percent, and flops a second."""
    total: dict[int, dict[str, float]] = {}
    for runtime in runtimes:
        rows = runtime["report"].get("neuroncore_counters", {}).get("neuroncores_in_use", {})
        for core, row in rows.items():
            to = total.setdefault(int(core), {"percent": 0.0, "flops": 0.0})
            to["percent"] += row.get("neuroncore_utilization", 0.0)
            to["flops"] += row.get("flops") or 0.0
    return total


def _core_section(
    machine: dict[str, Any], runtimes: Sequence[dict[str, Any]], view: View, width: int, room: int
) -> list[Line]:
    """At most `room` lines; devices that no process holds are counted and not drawn."""
    used = _cores(runtimes)
    version = f"v{machine['generation']}" + ("d" if machine["physical_cores_per_core"] == 2 else "")
    unit = "teraflops" if view.flops else "utilisation of simulated time"
    lines: list[Line] = [[(f" NeuronCore {version} {unit} ".ljust(width, "-"), TITLE)]]
    peak = max([row["flops"] for row in used.values()], default=0.0)
    devices = [device for device in machine["devices"] if any(core in used for core in device["cores"])]
    hidden = len(machine["devices"]) - len(devices)
    per_line = max(1, (width - 6) // 24)
    for device in devices:
        for begin in range(0, len(device["cores"]), per_line):
            line: Line = [(f"ND{device['index']:<3}" if begin == 0 else "     ", PLAIN)]
            for core in device["cores"][begin : begin + per_line]:
                row = used.get(core)
                share = None
                text = "-"
                if row is not None:
                    share = (row["flops"] / peak if peak else 0.0) if view.flops else row["percent"] / 100
                    text = f"{row['flops'] / 1e12:.2f}" if view.flops else f"{row['percent']:.1f}%"
                line += [(f" NC{core:<3}", PLAIN), (_bar(share, 8), BAR), (f"{text:>8}", PLAIN)]
            lines.append(line)
    if len(lines) > room:
        left = len(lines) - room + 1
        lines = [*lines[: room - 1], [(f" {left} more lines", DIM)]]
    elif hidden:
        lines.append([(f" {hidden} of {len(machine['devices'])} devices are held by no process", DIM)])
    return lines


def _vcpu_section(report: dict[str, Any], runtimes: Sequence[dict[str, Any]], width: int) -> list[Line]:
    average = report.get("system_data", {}).get("vcpu_usage", {}).get("average_usage") or {}
    usages = [
        runtime["report"].get("neuron_runtime_vcpu_usage", {}).get("vcpu_usage") or {} for runtime in runtimes
    ]

    def row(name: str, user: float | None, system: float | None) -> Line:
        if user is None or system is None:
            return [(f" {name:<19} -", PLAIN)]
        return [
            (f" {name:<19} ", PLAIN),
            (_bar((user + system) / 100, 20), BAR),
            (f" user {user:5.1f}%  system {system:5.1f}%", PLAIN),
        ]

    return [
        [(" VCPU utilisation of this host ".ljust(width, "-"), TITLE)],
        row("System vCPU usage", average.get("user"), average.get("system")),
        row(
            "Runtime vCPU usage",
            _sum([u.get("user") for u in usages]),
            _sum([u.get("system") for u in usages]),
        ),
    ]


def _memory_section(runtimes: Sequence[dict[str, Any]], width: int) -> list[Line]:
    used = [r["report"].get("memory_used", {}).get("neuron_runtime_used_bytes") or {} for r in runtimes]
    hosts = [u.get("usage_breakdown", {}).get("host", {}) for u in used]
    cores = [
        row for u in used for row in u.get("usage_breakdown", {}).get("neuroncore_memory_usage", {}).values()
    ]

    def rows(title: str, total: float | None, parts: Sequence[tuple[str, float | None]]) -> list[Line]:
        texts = [f"  {name} {size_text(value)}" for name, value in parts]
        lines: list[Line] = [[(f" {title:<19} Total {size_text(total):>9}", PLAIN)]]
        for text in texts:
            if sum(len(piece) for piece, _ in lines[-1]) + len(text) > width:
                lines.append([(" " * 36, PLAIN)])
            lines[-1].append((text, DIM))
        return lines

    return [
        [(" Memory usage summary ".ljust(width, "-"), TITLE)],
        *rows("Host Used Memory", _sum([u.get("host") for u in used]),
            [(name, _sum([h.get(key) for h in hosts])) for name, key in _HOST]),
        *rows("Device Used Memory", _sum([u.get("neuron_device") for u in used]),
            [(name, _sum([c.get(key) for c in cores])) for name, key in _DEVICE]),
    ]  # fmt: skip


@dataclass
class _Node:
    key: str
    name: str
    host: float | None = None
    device: float | None = None
    model_id: str = ""
    children: list[_Node] = field(default_factory=list)


def _tree(runtimes: Sequence[dict[str, Any]], machine: dict[str, Any]) -> list[_Node]:
    """Devices, their cores, and on them models and what belongs to no model."""
    owner = {core: device["index"] for device in machine["devices"] for core in device["cores"]}
    devices: dict[int, _Node] = {}
    cores: dict[int, _Node] = {}
    for runtime in runtimes:
        used = runtime["report"].get("memory_used", {})
        rows = (
            used.get("neuron_runtime_used_bytes", {})
            .get("usage_breakdown", {})
            .get("neuroncore_memory_usage", {})
        )
        for core, row in rows.items():
            number = int(core)
            device = devices.setdefault(owner.get(number, -1), _Node(f"d{owner.get(number, -1)}", ""))
            node = cores.get(number)
            if node is None:
                node = cores[number] = _Node(f"c{number}", f"NeuronCore {number}")
                device.children.append(node)
            node.device = _sum([node.device, *(row.get(key) for _, key in _DEVICE)])
            for name, key in _DEVICE:
                if row.get(key):
                    node.children.append(_Node(f"c{number}{key}", name, None, row[key]))
        for model in used.get("loaded_models", []):
            for part in model.get("subgraphs", {}).values():
                memory = part.get("memory_used_bytes", {})
                # Its constants are in the core's own row already: the core is not their sum.
                node = cores.get(part.get("neuroncore_index", -1))
                if node is not None:
                    node.children.append(
                        _Node(f"m{model.get('model_id')}", f"model {model.get('name', '')}", memory.get("host"),
                              memory.get("neuron_device"), str(model.get("model_id", "")))
                    )  # fmt: skip
    for number, device in devices.items():
        device.name = f"Neuron Device {number}" if number >= 0 else "no device of this machine"
        device.device = _sum([core.device for core in device.children])
    return [devices[number] for number in sorted(devices)]


def tree_rows(
    runtimes: Sequence[dict[str, Any]], machine: dict[str, Any], view: View
) -> list[tuple[_Node, int]]:
    """Visible nodes with their depth."""
    rows: list[tuple[_Node, int]] = []

    def add(node: _Node, depth: int) -> None:
        rows.append((node, depth))
        if node.key not in view.folded:
            for child in node.children:
                add(child, depth + 1)

    for node in _tree(runtimes, machine):
        add(node, 0)
    return rows


def selected(report: dict[str, Any], view: View) -> tuple[list[str], list[dict[str, Any]]]:
    """(tabs, processes of the current one)."""
    runtimes = report.get("neuron_runtime_data", [])
    tabs = ["all", *(str(runtime.get("neuron_runtime_tag", "")) for runtime in runtimes)]
    view.tab = min(view.tab, len(tabs) - 1)
    return tabs, runtimes if view.tab == 0 else [runtimes[view.tab - 1]]


def screen(
    report: dict[str, Any], machine: dict[str, Any], view: View, width: int, height: int
) -> list[Line]:
    """`height` lines of at most `width` columns."""
    from opentrn import __version__

    tabs, runtimes = selected(report, view)
    name = machine["instance_id"] or "no instance id"
    lines: list[Line] = [
        [(f" neuron-top of OpenTrn {__version__}   {name}   {machine['instance_type']} (simulated)".ljust(width),
          SELECTED)],
        *_core_section(machine, runtimes, view, width, max(2, height - 14)),
        *_vcpu_section(report, runtimes, width),
        *_memory_section(runtimes, width),
        [(" Memory usage details ".ljust(width - 40, "-") + f"{'Model ID':>10}{'Host':>14}{'Device':>15}-", TITLE)],
    ]  # fmt: skip
    rows = tree_rows(runtimes, machine, view)
    view.row = max(0, min(view.row, len(rows) - 1))
    room = height - len(lines) - 2
    first = max(0, view.row - room + 1) if room > 0 else 0
    for number, (node, depth) in list(enumerate(rows))[first : first + max(room, 0)]:
        mark = ("+" if node.key in view.folded else "-") if node.children else " "
        text = f" {'  ' * depth}{mark} {node.name}"[: width - 40].ljust(width - 40)
        text += f"{node.model_id:>10}{size_text(node.host):>14}{size_text(node.device):>15}"
        lines.append([(text, SELECTED if number == view.row else PLAIN)])
    if not rows and room > 0:
        lines.append([(" no process holds cores of this machine", DIM)])
    lines = lines[: height - 2]
    lines += [[("", PLAIN)] for _ in range(height - 2 - len(lines))]
    bar: Line = [(" ", PLAIN)]
    for number, tab in enumerate(tabs):
        chosen = number == view.tab
        bar.append(
            (f">{number + 1}:{tab}< " if chosen else f" {number + 1}:{tab}  ", SELECTED if chosen else PLAIN)
        )
    lines += [bar, [(f" {_HELP}", DIM)]]
    return [_cut(line, width) for line in lines]


def _cut(line: Line, width: int) -> Line:
    """At most `width` columns, without characters that a terminal would take for something else."""
    out: Line = []
    for text, style in line:
        text = "".join(c if c.isprintable() else "?" for c in text)[:width]
        width -= len(text)
        out.append((text, style))
    return out


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
    machine = _core.machine_facts(instance)
    monitor = _core.Monitor(instance, json.dumps(_CONFIG), "neuron-top")
    return curses.wrapper(_loop, machine, monitor)


def _loop(window: Any, machine: dict[str, Any], monitor: Any) -> int:
    import curses

    names = {curses.KEY_UP: "up", curses.KEY_DOWN: "down", curses.KEY_LEFT: "left", curses.KEY_RIGHT: "right"}
    styles = [curses.A_NORMAL, curses.A_BOLD, curses.A_NORMAL, curses.A_REVERSE, curses.A_DIM]
    try:
        curses.use_default_colors()
        curses.init_pair(1, curses.COLOR_GREEN, -1)
        styles[BAR] = curses.color_pair(1)
        curses.curs_set(0)
    except curses.error:  # a terminal without colours or without a cursor to hide
        pass
    view = View()
    report: dict[str, Any] = {}
    due = time.monotonic()
    window.timeout(100)
    while True:
        if time.monotonic() >= due:
            report = json.loads(monitor.report())
            due = time.monotonic() + max(monitor.wait_s(), 0.1)
        height, width = window.getmaxyx()
        if height >= 4 and width >= 50:
            window.erase()
            for y, line in enumerate(screen(report, machine, view, width - 1, height)):
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
        tabs, runtimes = selected(report, view)
        rows = [(node.key, bool(node.children)) for node, _ in tree_rows(runtimes, machine, view)]
        if not view.press(names.get(key, chr(key) if 0 < key < 256 else ""), len(tabs), rows):
            return 0
