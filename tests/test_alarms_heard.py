"""The alarm of tests/alarms.py is heard where Python drops the first one."""

from __future__ import annotations

import time
import weakref

from tests.alarms import SECONDS, raises_soon


class Held:
    pass


def test_an_alarm_in_a_callback_of_a_weak_reference_is_followed_by_another():
    held = Held()
    begin = time.perf_counter()

    def wait(_: object) -> None:
        while time.perf_counter() - begin < 0.6:
            pass

    with raises_soon(0.2, cpu_seconds=SECONDS):  # the first alarm is dropped; this is at work until the next one
        watched = weakref.ref(held, wait)
        del held
        while True:
            assert watched() is None
