"""neuron-monitor-statsd: the reports of neuron-monitor as datagrams for a StatsD server.

Metrics are those of the exporter for Prometheus: gauges, and what counters grew by since the report before
(src/monitor/companion_metrics.h has their names and the datagrams).
"""

from __future__ import annotations

import contextlib
import json
import re
import socket
from typing import Any

from opentrn import _core
from opentrn.errors import InputError
from opentrn.tools import reports


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
    for datagram in _core.statsd_datagrams(json.dumps(report), prefix, tags):
        # Nobody may listen yet: StatsD loses what is not heard.
        with contextlib.suppress(OSError):
            to.send(datagram.encode())
