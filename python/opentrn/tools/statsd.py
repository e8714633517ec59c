"""neuron-monitor-statsd: the reports of neuron-monitor as datagrams for a StatsD server.

Metrics are those of the exporter for Prometheus (prometheus.py): gauges, and what counters grew by since the report
before. A gauge of StatsD has no labels: they stand in the name, `neuron.neuroncore_utilization_ratio.neuroncore.0`, or
behind it as tags where the server is DogStatsD.
"""

from __future__ import annotations

import contextlib
import re
import socket
from collections.abc import Iterator
from typing import Any

from opentrn.errors import InputError
from opentrn.tools import reports
from opentrn.tools.prometheus import samples_of

_DATAGRAM_BYTES = 1400  # below the size of a packet of most networks
_UNSAFE = re.compile(r"[^A-Za-z0-9_\-]")


def _part(text: str) -> str:
    return _UNSAFE.sub("_", text) or "_"


def lines_of(report: dict[str, Any], prefix: str, tags: bool) -> Iterator[str]:
    """Lines of the protocol. Raises KeyError, TypeError, AttributeError or ValueError for what is no report."""
    for kind, name, labels, value in samples_of(report):
        letter = "g" if kind == "gauge" else "c"
        number = float(value)
        if letter == "c" and number == 0:
            continue
        text = f"{number:.0f}" if number == int(number) else repr(number)
        if tags:
            after = ",".join(f"{_part(key)}:{_part(label)}" for key, label in sorted(labels.items()))
            yield f"{prefix}.{name}:{text}|{letter}" + (f"|#{after}" if after else "")
        else:
            path = "".join(f".{_part(key)}.{_part(label)}" for key, label in sorted(labels.items()))
            yield f"{prefix}.{name}{path}:{text}|{letter}"


def datagrams(lines: Iterator[str]) -> Iterator[bytes]:
    """Several lines in one datagram, as many as fit."""
    part = b""
    for line in lines:
        piece = line.encode()
        if part and len(part) + 1 + len(piece) > _DATAGRAM_BYTES:
            yield part
            part = b""
        part = part + b"\n" + piece if part else piece
    if part:
        yield part


def run(host: str, port: int, prefix: str, tags: bool) -> int:
    """Sends until standard input ends. Raises InputError "tools.statsd"."""
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.\-]{0,100}", prefix):
        raise InputError(
            f"--prefix {prefix[:40]!r} is not a name of a metric",
            label="tools.statsd",
            hint="letters and points",
        )
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        to = socket.socket(family, kind, protocol)
        to.connect(address)
    except OSError as error:
        raise InputError(f"{host}:{port}: {error.strerror or error}", label="tools.statsd") from error
    with to:
        return reports.each("neuron-monitor-statsd", lambda report: _send(to, report, prefix, tags))


def _send(to: socket.socket, report: dict[str, Any], prefix: str, tags: bool) -> None:
    for datagram in datagrams(lines_of(report, prefix, tags)):
        # Nobody may listen yet: StatsD loses what is not heard.
        with contextlib.suppress(OSError):
            to.send(datagram)
