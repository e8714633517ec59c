"""For every test: compiled models stay in a folder of the run; RNG starts from the test's name; --quick."""

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


_SLOW = Path(__file__).with_name("slow.txt")


def pytest_addoption(parser: pytest.Parser) -> None:
    """--quick, which `./dev test --quick` passes on."""
    parser.addoption(
        "--quick", action="store_true", help="leave out the test functions that tests/slow.txt names"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselects what tests/slow.txt names, if --quick is given; pytest's last line counts them."""
    if not config.getoption("--quick"):
        return
    slow = {line for line in _SLOW.read_text().splitlines() if not line.startswith("#")}

    def is_slow(item: pytest.Item) -> bool:
        function = getattr(item, "originalname", None) or item.name.split("[")[0]
        return f"{item.path.relative_to(_SLOW.parents[1]).as_posix()}::{function}" in slow

    config.hook.pytest_deselected(items=[item for item in items if is_slow(item)])
    items[:] = [item for item in items if not is_slow(item)]


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
