"""Memory that threads have in hand: they wait for room, and for nothing else."""

import threading

import pytest

from roboreel.io import budget as room_module
from roboreel.io.budget import Budget, Room


def side_by_side(room, sizes, limit_bytes):
    """Run a block of each size in a thread of its own; return the most that were in hand."""
    most, now, lock = [0], [0], threading.Lock()
    begin = threading.Barrier(len(sizes))

    def work(size):
        begin.wait()
        for _ in range(20):
            with room.take(size, limit_bytes):
                with lock:
                    now[0] += size
                    most[0] = max(most[0], now[0])
                threading.Event().wait(0.0005)
                with lock:
                    now[0] -= size

    threads = [threading.Thread(target=work, args=(size,)) for size in sizes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert not any(thread.is_alive() for thread in threads)
    return most[0]


def test_threads_together_have_no_more_in_hand_than_the_limit():
    assert side_by_side(Room(), [10] * 8, limit_bytes=30) <= 30


def test_whoever_needs_more_than_the_limit_works_alone():
    assert side_by_side(Room(), [100] * 4, limit_bytes=30) == 100


def test_a_thread_that_has_memory_in_hand_does_not_wait_for_itself():
    room = Room()
    with room.take(100, 10), room.take(100, 10):
        pass
    with room.take(100, 10):
        pass


def test_a_thread_goes_on_when_nobody_makes_room(monkeypatch):
    monkeypatch.setattr(room_module, "_PATIENCE_S", 0.05)
    room, done = Room(), threading.Event()

    def work():
        with room.take(100, 10):
            done.set()

    with room.take(100, 10):
        thread = threading.Thread(target=work)
        thread.start()
        assert done.wait(timeout=30)
    thread.join()


def test_an_error_gives_the_room_back():
    room = Room()
    with pytest.raises(ValueError, match="no"), room.take(100, 10):
        raise ValueError("no")
    assert side_by_side(room, [100, 100], limit_bytes=10) == 100


def test_what_is_in_hand_is_counted_and_makes_held_values_go():
    budget = Budget(100)
    budget.put("a", "A", 60, owner="x")
    with budget.in_hand(70, owner="y"):
        assert budget.get("a") is None
        assert budget.held_by_owner() == {"y": 70}
    assert budget.held_bytes == 0
