"""Several files of a folder change at once, or not at all: lock, prepare, decide, carry out.

A `Workshop` says which folder changes and which of its files may. Under `locked`, a `Commit` prepares
files and decides; `finish_commit` carries out what a process that died had decided.
"""

from roboreel.commit.lock import lock_folder, locked
from roboreel.commit.prepare import Commit
from roboreel.commit.steps import drop_commit, finish_commit, has_commit
from roboreel.commit.workshop import WORKSHOP, Workshop

__all__ = [
    "WORKSHOP",
    "Commit",
    "Workshop",
    "drop_commit",
    "finish_commit",
    "has_commit",
    "lock_folder",
    "locked",
]
