"""Parquet files as pyarrow opened them: their memory goes when they do."""

import gc

import pyarrow as pa
import pyarrow.parquet as pq

from roboreel.io.budget import Budget
from roboreel.parquet import row_groups
from roboreel.parquet.row_groups import OpenFiles


def test_a_footer_goes_with_its_last_reference(tmp_path):
    path = tmp_path / "file.parquet"
    pq.write_table(pa.table({"action": [[1.0, 2.0]] * 50}), path, row_group_size=5)
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        files = OpenFiles(Budget())
        opened = files.get("key", path)
        assert opened.leaves == ["action.list.element"]
        opened.read([0], ["action"], 10**6)
        del opened
        files.drop("key")
        gc.collect()  # Finds what nothing but the collector would have freed.
        assert not [thing for thing in gc.garbage if isinstance(thing, pq.FileMetaData)]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


def test_freed_memory_is_returned_by_shares_of_the_budget(monkeypatch):
    returned = []
    monkeypatch.setattr(row_groups, "return_freed_memory", lambda: returned.append("all"))
    for limit_bytes, times in ((64 * 2**20, 5), (256 * 2**20, 1)):
        files = OpenFiles(Budget(limit_bytes))
        for _ in range(16):
            files.note_freed(2**20)
        assert len(returned) == times
        returned.clear()
