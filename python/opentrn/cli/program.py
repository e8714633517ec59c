"""`opentrn profile -- COMMAND`: a framework's program on simulated devices, and what its programs cost them."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from opentrn.cli import interrupts as cli_interrupts
from opentrn.cli.kernel_file import UsageError
from opentrn.cli.streams import is_read_by_machines, require_writable

_OWN_END_S = 0.1
_STDERR = 2  # its descriptor: sys.stderr of a caller need not have one
INPUT = 2  # as of every command: the fault is the caller's


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="opentrn profile",
        usage="opentrn profile [--target T] [--json FILE] [--html FILE] [--perfetto FILE] [--lines N] "
        "[--deadline SECONDS] "
        "-- COMMAND ...",
        description="Run a JAX or PyTorch program on simulated NeuronCores and sum its device time.",
    )
    parser.add_argument(
        "--target", help="NEURON_PLATFORM_TARGET_OVERRIDE for the command: trn2, trn2.48xlarge, ..."
    )
    parser.add_argument("--json", metavar="FILE", help="write everything as JSON ('-' prints it)")
    parser.add_argument(
        "--html", metavar="FILE", help="write a page: collectives and links of programs of several devices"
    )
    parser.add_argument(
        "--perfetto", metavar="FILE", help="write the same as events for ui.perfetto.dev: CC-cores and links over time"
    )
    parser.add_argument("--lines", type=int, default=12, metavar="N", help="programs to show (default 12)")
    cli_interrupts.add_option(parser)
    return parser


def main(words: Sequence[str]) -> int:
    """`words`: options, `--`, the command. Gives the command's exit status."""
    cut = list(words).index("--")
    options, command = _parser().parse_args(words[:cut]), list(words[cut + 1 :])
    if not command:
        print(
            "opentrn profile: no command after `--`\n  try: opentrn profile -- python train.py",
            file=sys.stderr,
        )
        return INPUT
    try:
        require_writable(options, "json", "html", "perfetto")
        seconds_left = cli_interrupts.deadline_of(options)
    except UsageError as error:
        print(f"opentrn profile: {error}", file=sys.stderr)
        return INPUT
    with tempfile.TemporaryDirectory() as folder, cli_interrupts.deadline(seconds_left):
        file = Path(folder, "usage.json")
        status, seconds = run(command, file, options.target, aside=is_read_by_machines(options))
        files = [*Path(folder).glob(f"{file.name}.torch.*"), *([file] if file.exists() else [])]
        usage = joined([each.read_text() for each in sorted(files)])
    if usage is None:
        print(
            f"opentrn profile: {command[0]} ended with {status} and ran nothing on the platform `neuron`\n"
            "  try: a program that uses JAX (JAX_PLATFORMS is set to neuron,cpu unless you set it), or one that calls\n"
            '  torch.compile(..., backend="neuron")',
            file=sys.stderr,
        )
        return status or INPUT
    summary = summarise(usage, seconds)
    if options.html or options.perfetto:
        _write_traffic(summary, options.html, options.perfetto)
    if options.json == "-":
        print(json.dumps(summary, indent=1))
    else:
        if options.json:
            Path(options.json).write_text(json.dumps(summary, indent=1))
        print(as_text(summary, options.lines))
    return status


def _write_traffic(summary: dict[str, Any], page: str | None, events: str | None) -> None:
    """The page and the events of the programs of several devices, those that take most time first."""
    from opentrn import _core
    from opentrn.report import fabric

    rows = summary["programs"]  # longest first
    traffics = [row["traffic"] for row in rows if "traffic" in row]
    if not traffics:
        print("no page and no events: no program of several devices has collectives", file=sys.stderr)
        return
    if page:
        fabric.save(rows[0]["name"], traffics, page)
        print(f"page: {page}", file=sys.stderr)
    if events:
        _core.save_traffic_events(json.dumps(traffics), events)
        print(f"events: {events}", file=sys.stderr)


def joined(parts: list[str]) -> Any:
    """What JAX's plugin and PyTorch's backend tell, of each rank, as one; None without any. parts: texts of JSON."""
    from opentrn import _core

    return json.loads(_core.join_usages(parts)) if parts else None


def run(command: list[str], usage: Path, target: str | None, aside: bool = False) -> tuple[int, float]:
    """(exit status, seconds) of the command with the platform `neuron` before the CPU.

    aside: what it prints goes to stderr.
    """
    environment = dict(os.environ, OPENTRN_USAGE=str(usage))
    environment.setdefault("JAX_PLATFORMS", "neuron,cpu")
    package = str(Path(__file__).absolute().parents[2])  # links stay: the build lies beside them
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))
    if target:
        environment["NEURON_PLATFORM_TARGET_OVERRIDE"] = target
    started = time.perf_counter()
    try:
        stdout = _STDERR if aside else None
        process = subprocess.Popen(command, env=environment, stdout=stdout)
    except FileNotFoundError:
        print(f"opentrn profile: there is no program {command[0]}", file=sys.stderr)
        return 127, 0.0
    return _waited_for(process), time.perf_counter() - started


def _waited_for(process: subprocess.Popen[bytes]) -> int:
    """The exit status. What is raised meanwhile ends the command: at Ctrl-C, which a terminal sends to both, it has a
    moment for an end of its own."""
    try:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # Popen.wait() would hold Ctrl-C back
    except BaseException as ended:
        if isinstance(ended, KeyboardInterrupt):
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_OWN_END_S)
        process.kill()
        process.wait()
        raise
    return process.wait()


def summarise(usage: dict[str, Any], seconds: float) -> dict[str, Any]:
    """The usage file with totals and prices, as src/profile/programs.h has them; `seconds` of this host's time."""
    from opentrn import _core

    return json.loads(_core.summarise_programs(json.dumps(usage), seconds))


def as_text(summary: dict[str, Any], lines: int) -> str:
    """At most 80 columns; `lines` of programs."""
    from opentrn import _core

    return _core.programs_text(json.dumps(summary), lines)
