"""What all tests share."""

import os
import signal
import threading

import numpy as np
import pytest
from hypothesis import settings

from roboreel.io.batch_buffers import BatchBuffers

# A busy machine is no reason to fail: speed is measured in benchmarks/, never asserted here.
# In CI the same examples every time: a change fails for what it changed. New ones are looked for
# wherever else the tests run.
settings.register_profile("roboreel", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("roboreel")
# For as many examples as a day has time for: pytest --hypothesis-profile whole
settings.register_profile("whole", deadline=None, max_examples=5000)

# A shell lets what it starts in the background ignore interrupts, and so would every process of a
# test: some send interrupts to theirs.
if (
    threading.current_thread() is threading.main_thread()
    and signal.getsignal(signal.SIGINT) is signal.SIG_IGN
):
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Larger arrays may be there in name only: their pages are never touched.
_MOST_POISONED_BYTES = 2**20


@pytest.fixture(autouse=True, scope="session")
def poisoned_memory():
    """Fill new memory with odd values, so that what nobody wrote to is seen, not guessed."""

    def poisoned(make):
        def make_poisoned(*args, **kwargs):
            array = make(*args, **kwargs)
            # New arrays of objects hold None, and other libraries rely on that.
            if array.nbytes <= _MOST_POISONED_BYTES and not array.dtype.hasobject:
                array.fill(_poison(array.dtype))
            return array

        return make_poisoned

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(np, "empty", poisoned(np.empty))
        patch.setattr(np, "empty_like", poisoned(np.empty_like))
        patch.setattr(BatchBuffers, "empty", poisoned(BatchBuffers.empty))
        yield


def _poison(dtype):
    if dtype.kind == "b":
        return True
    return np.frombuffer(b"\xa5" * dtype.itemsize, dtype)[0] if dtype.itemsize else 0
