"""What all tests share."""

import os
import signal
import threading

from hypothesis import settings

# A busy machine is no reason to fail: speed is measured in benchmarks/, never asserted here.
# In CI the same examples every time: a change fails for what it changed. New ones are looked for
# wherever else the tests run.
settings.register_profile("roboreel", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("roboreel")

# A shell lets what it starts in the background ignore interrupts, and so would every process of a
# test: some send interrupts to theirs.
if (
    threading.current_thread() is threading.main_thread()
    and signal.getsignal(signal.SIGINT) is signal.SIG_IGN
):
    signal.signal(signal.SIGINT, signal.default_int_handler)
