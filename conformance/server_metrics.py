"""What a server's /metrics says, for the suites that compare it with what clients counted."""

from __future__ import annotations

import urllib.request


def counters(url: str) -> dict[str, float]:
    """By name, sums over the labels. url: of the server, without /metrics. OSError: it does not answer in 30 s."""
    found: dict[str, float] = {}
    with urllib.request.urlopen(f"{url}/metrics", timeout=30) as reply:
        for line in reply.read().decode().splitlines():
            if line and not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                name = name.split("{")[0]
                found[name] = found.get(name, 0.0) + float(value)
    return found
