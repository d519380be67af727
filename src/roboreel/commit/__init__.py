"""Several files of a folder change at once, or not at all: lock, prepare, decide, carry out, undo.

A `Workshop` says which folder changes and which of its files may. Under `locked`, a `Commit` prepares
files and decides; `finish_commit` carries out what a process that died had decided. A commit that is
given a `Change` keeps the old files, and `undo_change` brings them back.

A `ChangeSet` says what a change will do, before it does: edits, repairs and compaction are some. It is
carried out by `change_in_place` or `write_folder`, and by nothing else.
"""

from roboreel.commit.carry_out import (
    damaged_commit,
    drop_commit,
    finish_commit,
    has_commit,
    set_aside_commit,
)
from roboreel.commit.change import Change, FileChange, PastChange
from roboreel.commit.change_set import (
    ChangeSet,
    NewFolder,
    change_in_place,
    check_free,
    check_space,
    file_lines,
    size_text,
    write_folder,
)
from roboreel.commit.lock import lock_folder, locked
from roboreel.commit.prepare import Commit
from roboreel.commit.undo import (
    check_undoable,
    list_changes,
    newest_change,
    purge_changes,
    undo_change,
)
from roboreel.commit.workshop import STORE, WORKSHOP, Workshop

__all__ = [
    "STORE",
    "WORKSHOP",
    "Change",
    "ChangeSet",
    "Commit",
    "FileChange",
    "NewFolder",
    "PastChange",
    "Workshop",
    "change_in_place",
    "check_free",
    "check_space",
    "check_undoable",
    "damaged_commit",
    "drop_commit",
    "file_lines",
    "finish_commit",
    "has_commit",
    "list_changes",
    "lock_folder",
    "locked",
    "newest_change",
    "purge_changes",
    "set_aside_commit",
    "size_text",
    "undo_change",
    "write_folder",
]
