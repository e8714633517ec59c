"""--loop-limit: how often device loops may run whose end depends on values."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager


def add_option(parser: argparse.ArgumentParser) -> None:
    """--loop-limit, for commands that compute values."""
    parser.add_argument("--loop-limit", type=loop_limit, metavar="N",
                        help="an error if a device loop whose end depends on values runs more often "
                        "(default $OPENTRN_LOOP_LIMIT, or 2^24 for a while)")  # fmt: skip


def loop_limit(text: str) -> int:
    """The number of --loop-limit."""
    from opentrn.kernel.run import require_loop_limit

    try:
        require_loop_limit(count := int(text))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of iterations from 1 to 2^31 - 1") from None
    return count


@contextmanager
def limited_loops(limit: int | None) -> Iterator[None]:
    """Models run meanwhile with this limit in place of that of OPENTRN_LOOP_LIMIT, if there is one."""
    from opentrn.settings.environment import LOOP_LIMIT_ENV

    if limit is None:
        yield
        return
    before = os.environ.get(LOOP_LIMIT_ENV)
    os.environ[LOOP_LIMIT_ENV] = str(limit)
    try:
        yield
    finally:
        if before is None:
            del os.environ[LOOP_LIMIT_ENV]
        else:
            os.environ[LOOP_LIMIT_ENV] = before
