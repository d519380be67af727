"""Imports of several recordings as jobs: the same bytes wherever their tasks run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from roboreel.importing import job as importing
from roboreel.importing.mapping import Changes
from tests.edit.test_edit_jobs import published_everywhere
from tests.importing import foreign

if TYPE_CHECKING:
    from pathlib import Path

    from roboreel.jobs import Plan

KINDS = ["act", "zarr"]
"""Pictures that are stored as they are; images that are encoded as video."""


def import_plan(kind: str, folder: Path, out: Path) -> Plan:
    """Write three recordings, and plan a task for each."""
    write: Any = {"act": foreign.write_act, "zarr": foreign.write_zarr}[kind]
    names = ["a", "b", "c"]
    folder.mkdir()
    sources = [write(folder / f"{name}.{'hdf5' if kind == 'act' else kind}") for name in names]
    before = importing._TASK_BYTES
    importing._TASK_BYTES = 1
    try:
        return importing.plan_job(sources, out, None, Changes(fps=10))
    finally:
        importing._TASK_BYTES = before


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_processes_and_five_shards_leave_the_bytes_of_this_process(kind, tmp_path):
    for module in ("h5py", "zarr"):
        pytest.importorskip(module)
    out = tmp_path / "out"
    plan = import_plan(kind, tmp_path / "in", out)
    assert len(plan) == 3
    published_everywhere(plan, tmp_path, out)
