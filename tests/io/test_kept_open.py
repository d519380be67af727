"""The things used last stay open, whoever asks for them."""

import os
import threading
from functools import partial

import pytest

from roboreel.io import kept_open
from roboreel.io.kept_open import KeptOpen


class Thing:
    """Something that can be opened, and closed by its last reference."""


def test_what_is_open_is_not_opened_again():
    kept: KeptOpen[int, Thing] = KeptOpen(limit=2)
    first = kept.get(1, Thing)
    assert kept.get(1, Thing) is first
    assert kept.get(2, Thing) is not first


def test_the_thing_not_used_for_longest_is_dropped_but_not_closed():
    kept: KeptOpen[int, Thing] = KeptOpen(limit=2)
    first, second = kept.get(1, Thing), kept.get(2, Thing)
    assert kept.get(1, Thing) is first
    kept.get(3, Thing)
    assert [key for key, _ in kept.items()] == [1, 3]
    assert kept.get(2, Thing) is not second


def test_what_cannot_be_opened_is_not_kept():
    kept: KeptOpen[int, int] = KeptOpen(limit=2)
    with pytest.raises(ZeroDivisionError):
        kept.get(1, lambda: 1 // 0)
    assert kept.items() == []


def test_many_threads_never_keep_more_than_the_limit():
    kept: KeptOpen[int, int] = KeptOpen(limit=3)
    wrong: list[int] = []

    def use(seed):
        for step in range(2000):
            key = (seed * 7 + step * 13) % 11
            if kept.get(key, partial(int, key)) != key or len(kept.items()) > 3:
                wrong.append(key)

    threads = [threading.Thread(target=use, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("survives", [False, True])
def test_a_forked_child_can_use_it_even_if_the_lock_was_held(survives):
    kept: KeptOpen[int, int] = KeptOpen(limit=2, survives_fork=survives)
    kept.get(1, lambda: 10)
    with kept_open._process.lock:
        child = os.fork()
        if child == 0:
            os._exit(0 if kept.get(1, lambda: 20) == (10 if survives else 20) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
