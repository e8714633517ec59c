"""For every test: compiled models stay in a folder of the run; RNG starts from the test's name; --quick, --long."""

from __future__ import annotations

import os
import signal
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

# A shell that starts a job in the background has it ignore Ctrl-C, and its children inherit that: those that a test
# interrupts would never hear of it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


_SLOW, _LONG = (Path(__file__).with_name(name) for name in ("slow.txt", "long.txt"))


def pytest_addoption(parser: pytest.Parser) -> None:
    """--quick and --long, which `./dev test` passes on."""
    parser.addoption(
        "--quick", action="store_true", help="leave out the test functions that tests/slow.txt names too"
    )
    parser.addoption("--long", action="store_true", help="run the test functions that tests/long.txt names too")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselects what tests/long.txt names, unless by --long or by name, and tests/slow.txt's with --quick.

    pytest's last line counts them.
    """
    lists = [] if config.getoption("--long") or any("::" in word for word in config.args) else [_LONG]
    lists += [_SLOW] if config.getoption("--quick") else []
    names = {line for each in lists for line in each.read_text().splitlines() if not line.startswith("#")}
    if not names:
        return

    def is_left_out(item: pytest.Item) -> bool:
        function = getattr(item, "originalname", None) or item.name.split("[")[0]
        return f"{item.path.relative_to(_SLOW.parents[1]).as_posix()}::{function}" in names

    config.hook.pytest_deselected(items=[item for item in items if is_left_out(item)])
    items[:] = [item for item in items if not is_left_out(item)]


@pytest.fixture(autouse=True, scope="session")
def _cache_of_the_run() -> Iterator[None]:
    with tempfile.TemporaryDirectory(prefix="opentrn-cache-") as folder:
        before = os.environ.get("OPENTRN_CACHE")
        os.environ["OPENTRN_CACHE"] = folder
        yield
        if before is None:
            del os.environ["OPENTRN_CACHE"]
        else:
            os.environ["OPENTRN_CACHE"] = before


@pytest.fixture(autouse=True)
def _generator_of_the_test(request: pytest.FixtureRequest) -> None:
    """What a test draws is decided by its name, not by which tests its worker ran before it.

    OPENTRN_TEST_SEED=n draws other numbers: to search for tests that hold for lucky ones only.
    """
    generator = getattr(request.module, "RNG", None)
    if isinstance(generator, np.random.Generator):
        seed = zlib.crc32(f"{request.node.name}{os.environ.get('OPENTRN_TEST_SEED', '')}".encode())
        generator.bit_generator.state = np.random.default_rng(seed).bit_generator.state
