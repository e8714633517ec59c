"""A server of a small model with random weights, and one that draws tokens, as any client meets them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent / "generate")]

from running import KEY, Running, served  # noqa: E402

from opentrn.serve import Settings  # noqa: E402


@pytest.fixture(scope="session")
def tiny_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tiny import Tiny

    return Tiny(context=1024).write(tmp_path_factory.mktemp("serve"))


@pytest.fixture(scope="session")
def model(tiny_file: Path) -> Iterator[Running]:
    """Tokens of the model; greedy where a request does not say."""
    settings = Settings(
        served_name="tiny", dtype="f32", max_model_len=1024, max_num_seqs=4, audit=True, api_keys=(KEY,),
        max_body_bytes=100_000, generation={"temperature": 0.0},
    )  # fmt: skip
    with served(tiny_file, settings) as running:
        yield running


@pytest.fixture(scope="session")
def drawn(tiny_file: Path) -> Iterator[Running]:
    """Tokens that are drawn, a step of 2 ms, four places and four that wait."""
    settings = Settings(
        served_name="tiny", max_model_len=256, max_num_seqs=4, audit=True, values=False,
        linear="step=2000", clock="paced", max_waiting=4,
    )  # fmt: skip
    with served(tiny_file, settings) as running:
        yield running


@pytest.fixture(scope="module")
def unhurried(tiny_file: Path) -> Iterator[Running]:
    """A step of 50 ms, so that a request still runs when a busy machine comes back to the test."""
    settings = Settings(
        served_name="tiny", max_model_len=256, audit=True, values=False, linear="step=50000", clock="paced"
    )  # fmt: skip
    with served(tiny_file, settings) as running:
        yield running
