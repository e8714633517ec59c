"""What the tests of the 0.1 dialect share."""

from __future__ import annotations

import pytest

from opentrn.oracle.isa import INSTRUCTIONS


class Recorder:
    """Names of the machine instructions issued, in order."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def count(self, name: str) -> int:
        return self.names.count(name)


@pytest.fixture
def issued(monkeypatch) -> Recorder:
    """Records every instruction that the dialect issues, without changing it."""
    from opentrn.nki import isa

    recorder = Recorder()
    for name in INSTRUCTIONS:
        original = getattr(isa, name)

        def recorded(*args, _original=original, _name=name, **kwargs):
            recorder.names.append(_name)
            return _original(*args, **kwargs)

        monkeypatch.setattr(isa, name, recorded)
    return recorder
