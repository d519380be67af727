"""The byte budget."""

import os
import threading
from typing import Any

import pytest

from roboreel.io.budget import Budget, parse_size


def test_the_least_recently_used_value_leaves_first():
    budget = Budget(100)
    budget.put("a", "A", 40, owner="x")
    budget.put("b", "B", 40, owner="x")
    assert budget.get("a") == "A"
    budget.put("c", "C", 40, owner="y")
    assert budget.get("b") is None
    assert budget.get("a") == "A"
    assert budget.held_by_owner() == {"x": 40, "y": 40}


def test_a_value_larger_than_the_limit_is_made_but_not_held():
    budget = Budget(10)
    assert budget.load("big", lambda: b"x" * 11, len, owner="x") == b"x" * 11
    assert budget.held_bytes == 0


def test_putting_again_replaces_and_does_not_count_twice():
    budget = Budget(100)
    budget.put("a", "A", 60, owner="x")
    budget.put("a", "B", 70, owner="x")
    assert (budget.get("a"), budget.held_bytes) == ("B", 70)


def test_taking_removes():
    budget = Budget(100)
    budget.put("a", "A", 60, owner="x")
    assert budget.take("a") == "A"
    assert budget.take("a") is None
    assert budget.held_bytes == 0


def test_lowering_the_limit_evicts_at_once():
    budget = Budget(100)
    for key in range(10):
        budget.put(key, key, 10, owner="x")
    budget.limit_bytes = 35
    assert budget.held_bytes == 30
    assert budget.get(9) == 9


def test_many_threads_never_exceed_the_limit():
    budget = Budget(1000)
    over = []

    def work(seed: int) -> None:
        for step in range(500):
            budget.put((seed, step % 7), step, 90, owner="x")
            budget.get((seed + 1, step % 7))
            if budget.held_bytes > 1000:
                over.append(budget.held_bytes)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not over
    assert sum(budget.held_by_owner().values()) == budget.held_bytes


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_keeps_plain_memory_and_drops_the_rest():
    budget = Budget(100)
    budget.put("array", 1, 10, owner="x")
    budget.put("decoder", 2, 10, owner="x", survives_fork=False)
    budget._lock.acquire()  # as if another thread held it at the moment of the fork
    child = os.fork()
    if child == 0:
        good = budget.get("array") == 1 and budget.get("decoder") is None
        os._exit(0 if good else 1)
    budget._lock.release()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert budget.get("decoder") == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_what_is_lent_to_threads_of_the_parent_is_not_counted_in_a_forked_child():
    budget = Budget(100)
    budget.put("array", 1, 10, owner="x")
    with budget.lent(80, owner="y"):
        child = os.fork()
        if child == 0:
            os._exit(0 if budget.held_by_owner() == {"x": 10} else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    with budget.lent(80, owner="y"):
        budget._after_fork()
    assert budget.held_by_owner() == {"x": 10}
    assert budget.held_bytes == 10


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [("512MB", 512_000_000), ("2 GiB", 2 * 1024**3), ("1.5k", 1500), (7, 7), ("0", 0)],
)
def test_sizes_are_read_as_people_write_them(text, size_bytes):
    assert parse_size(text) == size_bytes


@pytest.mark.parametrize("text", ["", "MB", "-5", "12 parsecs", -1, True])
def test_what_is_not_a_size_says_so(text):
    with pytest.raises(ValueError, match="is not a size"):
        parse_size(text)


def test_of_several_keys_the_last_one_that_is_held_is_taken():
    budget = Budget(100)
    for name in "abc":
        budget.put(name, f"value of {name}", 10, owner="test")
    budget.drop("c")
    keys: list[Any] = list("abc")
    assert budget.take_last(keys) == "value of b"
    assert keys == ["a"]
    assert budget.take_last(keys) == "value of a"
    assert budget.take_last(keys) is None
    assert budget.held_bytes == 0
