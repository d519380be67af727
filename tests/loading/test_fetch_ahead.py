"""Batches of remote datasets are fetched ahead: in order, within a limit, and not in vain."""

import threading

import pytest

from roboreel.errors import RemoteError
from roboreel.loading import fetch_ahead
from roboreel.loading.fetch_ahead import FetchAhead


class Source:
    root = "/nowhere/"
    room_bytes = 4000


class Fetch:
    """Notes the tasks, and says how many bytes each lacked."""

    def __init__(self, missing=lambda task: 1):
        self.tasks = []
        self.missing = missing

    def __call__(self, task):
        self.tasks.append(task)
        return self.missing(task)


def wait_until_idle(ahead):
    for _, job in list(ahead._begun):
        job.wait()


def test_all_tasks_come_in_order_and_all_but_the_first_are_fetched():
    ahead = FetchAhead(iter(range(40)), fetch := Fetch())
    taken = []
    for task in ahead:
        wait_until_idle(ahead)
        taken.append(task)
    ahead.close()
    assert taken == list(range(40))
    assert sorted(fetch.tasks) == list(range(1, 40))


def test_no_more_is_fetched_ahead_than_the_limit_or_a_quarter_of_the_mirror(monkeypatch):
    monkeypatch.setattr(fetch_ahead, "sources", lambda: [Source()])
    ahead = FetchAhead(iter(range(1000)), Fetch(lambda task: 600))
    assert [next(ahead), next(ahead)] == [0, 1]
    for _ in range(50):  # The first tasks are begun before it is known how much they bring.
        wait_until_idle(ahead)
        next(ahead)
    wait_until_idle(ahead)
    assert sum(600 for _ in ahead._begun) <= 1200
    ahead.close()


def test_a_mirror_that_has_all_is_looked_at_for_every_fourth_task():
    ahead = FetchAhead(iter(range(400)), fetch := Fetch(lambda task: 0))
    for _ in ahead:
        wait_until_idle(ahead)
    ahead.close()
    assert 90 <= len(fetch.tasks) <= 150


def test_after_a_miss_every_task_is_looked_at_again():
    ahead = FetchAhead(iter(range(400)), fetch := Fetch(lambda task: int(task >= 200)))
    for _ in ahead:
        wait_until_idle(ahead)
    ahead.close()
    assert [task for task in range(230, 400) if task not in fetch.tasks] == []


def test_an_error_is_left_to_whoever_reads():
    def fail(task):
        raise RemoteError("no")

    ahead = FetchAhead(iter(range(5)), fail)
    assert list(ahead) == list(range(5))
    ahead.close()


@pytest.mark.parametrize("taken", [0, 1, 3])
def test_closing_leaves_no_thread(taken):
    before = threading.active_count()
    ahead = FetchAhead(iter(range(50)), lambda task: task)
    for _ in range(taken):
        next(ahead)
    ahead.close()
    assert threading.active_count() == before
