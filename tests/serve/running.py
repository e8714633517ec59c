"""A server in a thread of the tests."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn

from opentrn.serve import Settings, build

KEY = "secret"


class Running:
    """A server's address and its parts."""

    def __init__(self, port: int, built: Any) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.built = built
        self.core = built.service.engine.core

    def stats(self) -> dict[str, Any]:
        return self.core.stats()

    def wait_idle(self, seconds: float = 20.0) -> dict[str, Any]:
        """Until nothing runs or waits; what the engine counts then."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            stats = self.stats()
            if stats["running"] == stats["waiting"] == stats["used_blocks"] == 0:
                return stats
            time.sleep(0.02)
        raise AssertionError(f"still busy: {self.stats()}")


@contextmanager
def served(source: Path, settings: Settings, **options: Any) -> Iterator[Running]:
    """A server of these settings, until the block ends."""
    built = build(source, settings)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = uvicorn.Server(
        uvicorn.Config(built.app, host="127.0.0.1", port=port, log_level="warning", lifespan="on", **options)
    )
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive(), "the server did not start"
        time.sleep(0.01)
    try:
        yield Running(port, built)
    finally:
        server.should_exit = True
        thread.join(30)
        assert not thread.is_alive()
