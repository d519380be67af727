"""Reads that wait for the disk are told from slow ones."""

import pytest

from roboreel.io import disk_watch
from roboreel.io.disk_watch import DiskWatch, usual_row_ns

FAST_NS, SLOW_NS = usual_row_ns(40_000), 10**8


@pytest.fixture
def fetched(monkeypatch):
    numbers = [5]
    monkeypatch.setattr(disk_watch, "_fetched", lambda: numbers[-1])
    return numbers


def waits_after(watch: DiskWatch, taken_ns: int) -> bool:
    watch.note(taken_ns, FAST_NS)
    return watch.waits


@pytest.mark.parametrize("waits", [False, True])
def test_a_fast_read_does_not_wait(fetched, waits):
    watch = DiskWatch(waits=waits)
    assert watch.waits == waits
    assert not waits_after(watch, FAST_NS)


def test_a_slow_read_waits_for_the_disk_only_if_something_was_fetched(fetched):
    watch = DiskWatch()
    assert waits_after(watch, SLOW_NS)
    assert not waits_after(watch, SLOW_NS)  # a busy machine
    fetched.append(6)
    assert waits_after(watch, SLOW_NS)


def test_what_the_process_has_fetched_never_shrinks():
    assert 0 <= disk_watch._fetched() <= disk_watch._fetched()
