"""Threads make calls in order, end when nobody needs them, and survive interrupts."""

import gc
import os
import subprocess
import sys
import threading
import time
from queue import SimpleQueue
from typing import Any

import pytest

from roboreel.threads import Job, ThreadPool, _Worker, wait_for_all

NAME = "roboreel-tested"


def running() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == NAME]


def wait_until(condition) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("It did not come to pass.")


def test_results_come_in_the_order_of_the_items():
    def late(seconds, number):
        time.sleep(seconds)
        return number

    with ThreadPool(4, NAME) as pool:
        waits = [0.03, 0.0, 0.02, 0.01]
        assert list(pool.map(late, waits, range(4))) == [0, 1, 2, 3]
    assert running() == []


def test_calls_run_side_by_side_and_no_more_than_allowed():
    meeting = threading.Barrier(3)
    with ThreadPool(3, NAME) as pool:
        wait_for_all([pool.submit(meeting.wait, timeout=120) for _ in range(6)])
        assert len(running()) == 3


def test_a_thread_that_is_free_is_used_again():
    with ThreadPool(8, NAME) as pool:
        for _ in range(20):
            pool.submit(abs, -1).result()
        assert len(running()) == 1


def test_an_error_is_raised_where_the_result_is_asked_for():
    with ThreadPool(2, NAME) as pool:
        job = pool.submit(int, "seven")
        with pytest.raises(ValueError, match="seven"):
            job.result()
        assert pool.submit(int, "7").result() == 7


def test_after_an_error_no_call_is_running_and_the_rest_is_skipped():
    begun, ended = [], []

    def work(number):
        begun.append(number)
        if number == 0:
            raise ValueError("no")
        time.sleep(0.02)
        ended.append(number)

    with ThreadPool(2, NAME) as pool:
        # So many that a busy machine has time to wake this thread before the last begins.
        jobs = [pool.submit(work, number) for number in range(1000)]
        with pytest.raises(ValueError, match="no"):
            wait_for_all(jobs)
        assert set(begun) - {0} == set(ended)
        assert len(begun) < 1000


def test_stopping_early_skips_what_has_not_begun():
    begun = []

    def work(number):
        begun.append(number)
        time.sleep(0.01)

    with ThreadPool(1, NAME) as pool:
        for _ in pool.map(work, range(1000)):
            break
    assert len(begun) < 1000


def test_closing_skips_what_has_not_begun_and_the_pool_can_be_used_again():
    started, gate, begun = threading.Event(), threading.Event(), list[int]()
    pool = ThreadPool(1, NAME)

    def hold():
        started.set()
        return gate.wait(120)

    first = pool.submit(hold)
    second = pool.submit(begun.append, 1)
    started.wait()

    def open_gate():
        second.wait()  # It is skipped while the first still runs.
        gate.set()

    opening = threading.Thread(target=open_gate)
    opening.start()
    pool.close()
    opening.join()
    assert first.result() is True
    assert second.result() is None
    assert begun == []
    assert pool.submit(abs, -3).result() == 3
    pool.close()
    assert running() == []


def test_a_pool_that_is_forgotten_ends_its_threads():
    pool = ThreadPool(2, NAME)
    assert list(pool.map(abs, [-1, -2])) == [1, 2]
    del pool
    gc.collect()
    wait_until(lambda: running() == [])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_has_threads_of_its_own():
    with ThreadPool(2, NAME) as pool:
        assert pool.submit(abs, -1).result() == 1
        child = os.fork()
        if child == 0:
            os._exit(0 if pool.submit(abs, -4).result() == 4 else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_what_cannot_be_reset_in_a_child_does_not_stop_the_rest():
    program = """
import os
from roboreel.forking import after_fork
from roboreel.threads import ThreadPool

class Broken:
    def reset(self):
        raise OSError("gone")

first, pool, last = Broken(), ThreadPool(2), Broken()
after_fork(first, Broken.reset)
after_fork(pool, ThreadPool._begin_anew)
after_fork(last, Broken.reset)
pool.submit(abs, -1).result()
child = os.fork()
if child == 0:
    os._exit(0 if pool.submit(abs, -4).result() == 4 else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "0"
    assert "gone" in done.stderr


_STORM = """
import faulthandler, os, random, signal, sys, threading, time
from roboreel.loading.prefetch import Prefetcher

faulthandler.dump_traceback_later(240, exit=True)
begun = stop = False
rounds = struck = 0

def interrupt(_, frame):
    if frame.f_code.co_filename != __file__:  # This program itself is not what is tested.
        raise KeyboardInterrupt

def strike():
    while not begun:  # Starting a thread waits for it, which is not what is tested.
        time.sleep(0.001)
    while not stop:
        time.sleep(random.random() * 0.0006)
        os.kill(os.getpid(), signal.SIGINT)

def calmly(action):
    while True:
        try:
            return action()
        except KeyboardInterrupt:
            pass

signal.signal(signal.SIGINT, interrupt)
wanted, end = int(sys.argv[1]), time.monotonic() + 120
storm = threading.Thread(target=strike)
storm.start()
begun = True
while min(rounds, struck) < wanted and time.monotonic() < end:
    running = None
    try:
        running = Prefetcher(abs, iter(range(-30, 0)), threads=3, ahead=5)
        for task, result in running:
            assert result == -task
    except KeyboardInterrupt:
        struck += 1
    if running is not None:
        calmly(running.close)
    rounds += 1
stop = True
calmly(storm.join)
faulthandler.cancel_dump_traceback_later()
print(rounds, struck)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
def test_interrupts_at_any_moment_leave_nobody_waiting(tmp_path):
    program = tmp_path / "storm.py"
    program.write_text(_STORM)
    storm = subprocess.run(
        [sys.executable, str(program), "200"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert storm.returncode == 0, storm.stderr[-3000:]
    assert min(map(int, storm.stdout.split())) >= 200


def test_a_thread_that_an_interrupt_made_the_pool_forget_takes_no_other_threads_sign_to_end():
    pool = ThreadPool(2, NAME)
    pool.submit(abs, -1).result()
    forgotten = _Worker(pool._jobs, NAME)  # As if Ctrl-C struck between its start and its listing.
    closing = threading.Thread(target=pool.close, daemon=True)
    closing.start()
    closing.join(timeout=120)
    assert not closing.is_alive()
    forgotten.wait()
    wait_until(lambda: running() == [])


def test_a_job_that_is_cancelled_and_not_running_never_runs():
    begun, gate, made = threading.Event(), threading.Event(), list[int]()

    def hold():
        begun.set()
        gate.wait(120)

    first, second, never = Job(hold), Job(lambda: made.append(2)), Job(lambda: made.append(3))
    with ThreadPool(1, NAME) as pool:
        pool.start(first)
        pool.start(second)
        begun.wait()
        for job in (first, second, never):
            job.cancel()
        assert [job.is_running for job in (first, second, never)] == [True, False, False]
        gate.set()
        second.wait()
        assert not first.is_running
        assert made == []


class _Struck(SimpleQueue[Any]):
    """Ctrl-C strikes as soon as the first job is queued."""

    is_struck = False

    def put(self, item, *_):
        super().put(item)
        if not self.is_struck:
            self.is_struck = True
            raise KeyboardInterrupt


def test_an_interrupt_while_a_job_is_queued_does_not_cost_a_thread():
    meeting = threading.Barrier(2)
    with ThreadPool(2, NAME) as pool:
        pool._jobs = _Struck()
        with pytest.raises(KeyboardInterrupt):
            pool.submit(abs, -1)
        assert pool.submit(abs, -2).result() == 2
        wait_for_all([pool.submit(meeting.wait, timeout=20) for _ in range(2)])


def test_ctrl_c_while_a_thread_starts_is_no_other_error(monkeypatch):
    start = threading.Thread.start

    def struck(thread):
        start(thread)
        try:
            raise KeyboardInterrupt
        finally:
            threading.Lock().release()  # As `threading.Condition.wait` does at an unlucky moment.

    with ThreadPool(1, NAME) as pool:
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", struck)
            with pytest.raises(KeyboardInterrupt):
                pool.submit(abs, -1)
        assert pool.submit(abs, -2).result() == 2


def test_a_thread_that_cannot_be_started_is_said(monkeypatch):
    def refused(_):
        raise RuntimeError("can't start new thread")

    with ThreadPool(1, NAME) as pool, monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refused)
        with pytest.raises(RuntimeError, match="can't start"):
            pool.submit(abs, -1)
