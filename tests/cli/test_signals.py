"""A signal ends the command line without a traceback, and with an exit code that names it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")

# The signal comes while the modules of the command line are loaded.
AT_START = """
import os, runpy, signal, sys
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "{module}":
            os.kill(os.getpid(), signal.{name})
sys.meta_path.insert(0, Finder())
sys.argv = ["roboreel", "info", "nowhere"]
{start}
"""
STARTS = (
    "runpy.run_module('roboreel', run_name='__main__')",
    "from roboreel.__main__ import main; sys.exit(main())",
)
# The signal comes while a command works; typer turns the interrupt into an exit, but not always.
AT_WORK = """
import os, signal, sys, types
sys.modules["roboreel.cli"] = stub = types.ModuleType("roboreel.cli")
signal.signal(signal.SIGINT, signal.default_int_handler)
def command():
    try:
        os.kill(os.getpid(), signal.{name})
        for _ in range(10**9): pass
    except KeyboardInterrupt:
        {then}
    finally:
        print("cleaned up")
stub.main, stub.load_first = command, lambda words: None
from roboreel.__main__ import main
main()
"""

# The tests may run under nohup, which ignores some.
DEFAULTS = """
import signal
for number in (signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_DFL)
"""


def run(code):
    command = [sys.executable, "-c", DEFAULTS + code]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("start", STARTS, ids=["module", "script"])
@pytest.mark.parametrize("module", ["roboreel.cli", "roboreel.cli.info"])
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_during_the_start_ends_it_quietly(name, module, start):
    ended = run(AT_START.format(name=name, module=module, start=start))
    assert (ended.returncode, ended.stdout, ended.stderr) == (128 + getattr(signal, name), "", "")


@pytest.mark.parametrize("then", ["raise", "sys.exit(130)"])
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_every_signal_is_an_interrupt_and_the_exit_code_names_it(name, then):
    ended = run(AT_WORK.format(name=name, then=then))
    assert (ended.returncode, ended.stderr) == (128 + getattr(signal, name), "")
    assert ended.stdout == "cleaned up\n"


def test_a_signal_that_is_ignored_stays_ignored():
    code = "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)" + AT_WORK.format(
        name="SIGHUP", then="raise"
    ).replace("10**9", "1000")
    ended = run(code)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "cleaned up\n", "")
