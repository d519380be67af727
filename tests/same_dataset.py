"""Whether two datasets hold the same values, file by file, whatever their bytes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import av
import numpy as np
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pathlib import Path


def files_of(root: Path) -> dict[str, Path]:
    """Return the files of a dataset by their paths below it, without what begins with a dot."""
    paths = {path.relative_to(root).as_posix(): path for path in root.rglob("*") if path.is_file()}
    return {name: paths[name] for name in sorted(paths) if not name.startswith(".")}


def differing_files(first: Path, second: Path) -> list[str]:
    """Return the files that only one of two datasets has, or that hold other values."""
    ours, theirs = files_of(first), files_of(second)
    return sorted(
        name
        for name in ours.keys() | theirs.keys()
        if name not in ours or name not in theirs or not same_file(ours[name], theirs[name])
    )


def same_file(first: Path, second: Path) -> bool:
    """Whether two files hold the same values, whatever their bytes."""
    same = first.read_bytes() == second.read_bytes()
    return same or _same(_content(first), _content(second))


def _content(path: Path) -> Any:
    if path.suffix == ".parquet":
        table = pq.read_table(path)
        with pq.ParquetFile(path) as file:
            groups = [file.metadata.row_group(g).num_rows for g in range(file.num_row_groups)]
        described = (table.schema.metadata or {}).get(b"huggingface")
        types = {field.name: str(field.type) for field in table.schema}
        return [table.to_pydict(), types, groups, described]
    if path.suffix == ".mp4":
        with av.open(str(path)) as container:
            packets = [packet for packet in container.demux(video=0) if packet.size]
            return [(p.pts, p.is_keyframe, bytes(p)) for p in packets]
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text().splitlines()]
    return json.loads(path.read_text())


def _same(first: Any, second: Any) -> bool:
    if isinstance(first, dict) and isinstance(second, dict):
        return first.keys() == second.keys() and all(_same(first[k], second[k]) for k in first)
    if isinstance(first, list | tuple) and isinstance(second, list | tuple):
        return len(first) == len(second) and all(map(_same, first, second))
    if isinstance(first, float) and isinstance(second, float):
        return bool(np.isclose(first, second, rtol=1e-5, atol=1e-6, equal_nan=True))
    return bool(first == second)
