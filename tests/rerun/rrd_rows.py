"""Rerun recordings as plain rows, however they are cut into chunks."""

from pathlib import Path

import pytest

rerun_chunk = pytest.importorskip("rerun.chunk")


def chunks_of(path: Path):
    """Return the chunks of the one recording in a file."""
    reader = rerun_chunk.RrdReader(path)
    (recording,) = reader.recordings()
    return list(reader.stream(store=recording))


def rows_of(path: Path, timeline: str = "frame_index"):
    """Return ``{(entity, component, time): value}``.

    Times are frame numbers or nanoseconds; that of static values is None.
    """
    rows = {}
    for chunk in chunks_of(path):
        batch = chunk.to_record_batch()
        columns = {}
        times = [None] * batch.num_rows
        for field, column in zip(batch.schema, batch.columns, strict=True):
            kind = (field.metadata or {}).get(b"rerun:kind")
            if kind == b"index" and field.name == timeline:
                times = column.cast("int64").to_pylist()
            elif kind == b"data":
                columns[field.name] = column
        for name, column in columns.items():
            for row, time in enumerate(times):
                rows[chunk.entity_path, name, time] = _plain(column[row])
    return rows


def _plain(scalar):
    values = scalar.values
    if values is not None and str(values.type).startswith("list<") and len(values) == 1:
        inner = values[0].values
        if str(inner.type) == "uint8":
            return inner.to_numpy().tobytes()
    return scalar.as_py()
