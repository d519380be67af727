"""Memory of batches, used again."""

import gc
import os
import threading
import time
from typing import Any

import numpy as np
import pytest

from roboreel.io import batch_buffers
from roboreel.io.batch_buffers import BatchBuffers
from roboreel.io.budget import Budget

LARGE = (4, 3, 480, 640)


def address(array):
    return array.__array_interface__["data"][0]


def test_memory_that_nobody_refers_to_is_handed_out_again():
    buffers = BatchBuffers(Budget())
    first = buffers.empty(LARGE, np.uint8)
    place = address(first)
    del first
    again = buffers.empty(LARGE, np.uint8)
    assert address(again) == place
    assert (again.shape, again.dtype.name, again.flags.writeable) == (LARGE, "uint8", True)


@pytest.mark.parametrize("form", ["array", "slice", "reshaped", "transposed", "tensor", "part"])
def test_memory_is_kept_for_as_long_as_any_view_of_it_lives(form):
    torch = pytest.importorskip("torch")
    buffers = BatchBuffers(Budget())
    kept = {
        "array": lambda array: array,
        "slice": lambda array: array[1:2, :, ::2],
        "reshaped": lambda array: array.reshape(-1),
        "transposed": lambda array: array.transpose(0, 2, 3, 1)[0],
        "tensor": torch.from_numpy,
        "part": lambda array: torch.from_numpy(array)[1:].unbind()[0],
    }[form](buffers.empty(LARGE, np.uint8))
    kept[...] = 7
    gc.collect()  # Once: with torch imported, it takes as long as all the rest.
    for value in range(20):
        buffers.empty(LARGE, np.uint8)[...] = value
    assert (kept == 7).all()


def test_two_batches_in_use_have_memory_of_their_own():
    buffers = BatchBuffers(Budget())
    first, second = buffers.empty(LARGE, np.uint8), buffers.empty(LARGE, np.uint8)
    assert not np.shares_memory(first, second)


def test_what_waits_is_counted_in_the_budget_and_leaves_with_it():
    budget = Budget()
    buffers = BatchBuffers(budget)
    held = [buffers.empty(LARGE, np.uint8) for _ in range(3)]
    size_bytes = held[0].nbytes
    assert budget.held_by_owner() == {}
    del held
    assert budget.held_by_owner() == {"batch buffers": 3 * size_bytes}
    budget.limit_bytes = size_bytes + 1
    assert budget.held_bytes == size_bytes


def test_a_batch_larger_than_the_budget_works_and_is_not_kept():
    budget = Budget(1000)
    buffers = BatchBuffers(budget)
    buffers.empty(LARGE, np.float32)[...] = 1
    assert budget.held_bytes == 0


@pytest.mark.parametrize("shape", [(0, 3, 4, 4), (2, 3, 4, 4), ()])
def test_small_and_empty_arrays_are_plain_ones(shape):
    array = BatchBuffers(Budget()).empty(shape, np.float32)
    assert (array.shape, array.dtype.name) == (shape, "float32")
    assert array.base is None


def test_threads_never_share_a_batch():
    buffers = BatchBuffers(Budget())
    wrong = []

    def work(value):
        for _ in range(50):
            array = buffers.empty((2, 2**20), np.uint8)
            array[...] = value
            if not (array == value).all():
                wrong.append(value)

    threads = [threading.Thread(target=work, args=(value,)) for value in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows cannot fork.")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_does_not_write_into_its_parents_batches():
    buffers = BatchBuffers(Budget())
    kept = buffers.empty(LARGE, np.uint8)
    kept[...] = 5
    del_me = buffers.empty(LARGE, np.uint8)
    del del_me
    child = os.fork()
    if child == 0:
        kept[...] = 6
        buffers.empty(LARGE, np.uint8)[...] = 6
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert (kept == 5).all()


def test_beside_a_full_budget_half_of_what_was_in_use_waits_until_nothing_is():
    buffers = BatchBuffers(Budget(1000))
    group = [buffers.empty(LARGE, np.uint8) for _ in range(8)]
    kept = group.pop()
    group.clear()
    assert buffers._spare_bytes == 4 * kept.nbytes
    del kept
    assert buffers._spare_bytes == 0


def test_memory_beside_a_full_budget_goes_when_no_batches_are_expected():
    buffers = BatchBuffers(Budget(1000))
    group = [buffers.empty(LARGE, np.uint8) for _ in range(8)]
    kept = group.pop()
    group.clear()
    buffers.trim()
    assert buffers._spare_bytes <= kept.nbytes // 2


def test_what_was_in_use_long_ago_is_forgotten():
    buffers = BatchBuffers(Budget(1000))
    kept = buffers.empty(LARGE, np.uint8)
    images = [buffers.empty((480, 640, 3), np.uint8) for _ in range(40)]
    del images
    assert buffers._spare_bytes > 10 * 480 * 640
    for _ in range(2 * batch_buffers._PERIOD):
        buffers.empty((2**18,), np.uint8)  # Of another size.
    assert buffers._spare_bytes <= kept.nbytes


def test_an_interrupt_while_memory_is_let_go_does_not_break_what_follows():
    class Struck(list[Any]):
        def pop(self, place=-1, /):
            buffers._spare = list(self)[1:]
            raise KeyboardInterrupt

    buffers = BatchBuffers(Budget(1000))
    group = [buffers.empty(LARGE, np.uint8) for _ in range(8)]
    kept = group.pop()
    group.clear()
    buffers._spare = Struck(buffers._spare)
    with pytest.raises(KeyboardInterrupt):
        buffers.trim()
    buffers.trim()
    assert buffers._spare_bytes <= kept.nbytes // 2


def test_a_batch_that_ends_while_the_budget_evicts_waits_for_nobody(monkeypatch):
    """The collector may find a batch while this thread has one lock and another thread the other."""
    budget = Budget()
    buffers = BatchBuffers(budget)
    shape = (2**18,)
    budget.put("row", [buffers.empty(shape, np.uint8)], 2**18, owner="x")
    ring: list[object] = [buffers.empty(shape, np.uint8)]
    ring.append(ring)
    inside, go = threading.Event(), threading.Event()

    def collecting(values):  # Python may collect where this is called.
        inside.set()
        go.wait()
        ring.clear()
        return enumerate(values)

    monkeypatch.setattr(batch_buffers, "enumerate", collecting, raising=False)

    def evict():
        inside.wait()
        with budget._lock:
            go.set()
            time.sleep(0.3)
            budget.drop("row")

    threads = [
        threading.Thread(target=evict, daemon=True),
        threading.Thread(target=buffers.empty, args=(shape, np.uint8), daemon=True),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
