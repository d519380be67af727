"""Memory of batches, used again."""

import gc
import os
import threading

import numpy as np
import pytest

from roboreel.memory.batch_buffers import BatchBuffers
from roboreel.memory.budget import Budget

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
