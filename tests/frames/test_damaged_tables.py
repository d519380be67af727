"""Whatever tables and data files say of each other, a row is the file's row or an error."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import example, given, settings
from hypothesis import strategies as st

import roboreel as reel
from roboreel.errors import DatasetError
from roboreel.frames.frame_reader import FrameReader
from roboreel.io.budget import Budget
from roboreel.schema import Feature
from tests.factory import write_dataset, write_dataset_v2

FEATURES = {
    "serial": Feature("int64", (1,)),
    "action": Feature("float32", (2,)),
    "note": Feature("string", (1,)),
}
NAMES = ("serial", "action", "note", "frame_index", "episode_index")
EPISODES = "meta/episodes/chunk-000/file-000.parquet"
# One array, row groups that are held, and parts of them.
LIMITS = st.sampled_from([2**29, 2**20, 100])

places = st.integers(0, 40)
changes = st.lists(
    st.one_of(
        st.tuples(st.just("length"), places, st.integers(-2, 3)),
        st.tuples(st.just("from"), places, st.integers(-3, 3)),
        st.tuples(st.just("to"), places, st.integers(-3, 3)),
        st.tuples(st.just("file"), places, places),
        st.tuples(st.just("swap rows"), places, places),
        st.tuples(st.just("move row"), places, places),
        st.tuples(st.just("drop row"), places, st.integers(1, 4)),
        st.tuples(st.just("repeat row"), places, places),
        st.tuples(st.just("renumber row"), places, places),
        st.tuples(st.just("no numbers"), places, places),
    ),
    max_size=3,
)
tables = st.fixed_dictionaries(
    {
        "version": st.sampled_from(["v2.1", "v3.0"]),
        "lengths": st.lists(st.integers(0, 6), min_size=1, max_size=5),
        "episodes_per_file": st.integers(1, 5),
        "rows_per_group": st.sampled_from([1, 2, 3, 5, 100]),
        "changes": changes,
    }
)
reads = st.lists(
    st.tuples(st.sampled_from(["gather", "span"]), st.sampled_from(NAMES), places, places),
    min_size=1,
    max_size=8,
)


def write(
    root: Path,
    version: str,
    lengths: list[int],
    episodes_per_file: int,
    rows_per_group: int,
    changes: list[tuple[str, int, int]],
) -> list[dict[str, Any]]:
    """Write a dataset whose tables are damaged; return the rows of its files, in their order."""
    if version == "v3.0":
        write_dataset(root, lengths, features=FEATURES, episodes_per_file=episodes_per_file)
    else:
        write_dataset_v2(root, lengths, features=FEATURES)
    paths = sorted((root / "data").rglob("*.parquet"))
    schema = pq.read_schema(paths[0])
    files = [pq.read_table(path).to_pylist() for path in paths]
    listed = read_episodes(root, version)
    dropped = set()
    for what, first, second in changes:
        episode, rows = listed[first % len(listed)], files[first % len(files)]
        keys = {"length": "length", "from": "dataset_from_index", "to": "dataset_to_index"}
        if keys.get(what) in episode:
            episode[keys[what]] = max(0, episode[keys[what]] + second)
        elif what == "file" and "data/file_index" in episode:
            episode["data/file_index"] = second % len(files)
        elif what == "no numbers":
            dropped.add(first % len(files))
        elif rows:
            change_rows(rows, what, first, second, len(lengths))
    for number, row in enumerate(row for rows in files for row in rows):
        row |= {"serial": number, "action": [number, -number], "note": f"row {number}"}
    for number, (path, rows) in enumerate(zip(paths, files, strict=True)):
        table = pa.Table.from_pylist(rows, schema)
        if number in dropped:
            table = table.drop_columns("episode_index")
            for row in rows:
                del row["episode_index"]
        pq.write_table(table, path, row_group_size=rows_per_group)
    write_episodes(root, version, listed)
    return [row for rows in files for row in rows]


def change_rows(rows: list[Any], what: str, first: int, second: int, num_episodes: int) -> None:
    one, other = first % len(rows), second % len(rows)
    if what == "swap rows":
        rows[one], rows[other] = rows[other], rows[one]
    elif what == "move row":
        rows.insert(other, rows.pop(one))
    elif what == "drop row":
        del rows[one : one + second]
    elif what == "repeat row":
        rows.insert(other, dict(rows[one]))
    elif what == "renumber row":
        rows[one]["episode_index"] = second % (num_episodes + 1)


def read_episodes(root: Path, version: str) -> list[dict[str, Any]]:
    if version == "v3.0":
        return list(pq.read_table(root / EPISODES).to_pylist())
    lines = (root / "meta/episodes.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def write_episodes(root: Path, version: str, listed: list[dict[str, Any]]) -> None:
    if version == "v3.0":
        schema = pq.read_schema(root / EPISODES)
        pq.write_table(pa.Table.from_pylist(listed, schema), root / EPISODES)
    else:
        text = "".join(json.dumps(episode) + "\n" for episode in listed)
        (root / "meta/episodes.jsonl").write_text(text)


def half_as_many() -> int:
    """Return how many examples are tried: as the profile says, but each of them reads files."""
    assert settings.default is not None
    return settings.default.max_examples // 2


def values_of(columns: Any, way: str, name: str, start: int, stop: int) -> list[Any] | None:
    """Return some rows of a feature; None if they are refused."""
    try:
        if way == "span":
            return list(columns.read_span([name], start, stop)[name].tolist())
        # Backwards: in any order.
        return list(columns.gather(name, np.arange(start, stop)[::-1]).tolist()[::-1])
    except DatasetError:
        return None


@settings(max_examples=half_as_many())
@given(table=tables, reads=reads, limit_bytes=LIMITS)
@example(  # Once a neighbour was read, the memory of this episode came back.
    table={
        "version": "v3.0",
        "lengths": [4, 4, 4],
        "episodes_per_file": 3,
        "rows_per_group": 100,
        "changes": [("length", 1, -1)],
    },
    reads=[("gather", "serial", 0, 0), ("gather", "serial", 1, 0)],
    limit_bytes=2**29,
)
def test_in_any_order_of_reads_a_row_is_that_of_its_file_or_an_error(table, reads, limit_bytes):
    with tempfile.TemporaryDirectory() as folder:
        stored = write(Path(folder), **table)
        try:
            manifest = reel.open_dataset(folder).manifest
        except DatasetError:
            return
        columns = FrameReader(manifest, Budget(limit_bytes)).columns
        episodes = manifest.episodes
        begins: dict[int, int] = {}
        """Where each episode that was read begins among the rows of the files."""
        for way, name, place, skip in reads:
            position = place % len(episodes)
            start, length = int(episodes.start[position]), int(episodes.length[position])
            first = skip % max(1, length)
            values = values_of(columns, way, name, start + first, start + length)
            # Who comes first is told the same.
            alone = FrameReader(manifest, Budget(2**29)).columns
            assert values == values_of(alone, "gather", name, start + first, start + length)
            serials = values_of(columns, "gather", "serial", start, start + length)
            assert (values is None) == (serials is None)
            if values is None or serials is None or not length:
                continue
            begin = begins.setdefault(position, serials[0])
            rows = stored[begin : begin + length]
            assert serials == [row["serial"] for row in rows]
            number = int(episodes.number[position])
            assert values == [row.get(name, number) for row in rows[first:]]
            if np.count_nonzero(episodes.data_file == episodes.data_file[position]) > 1:
                assert {row.get("episode_index", number) for row in rows} == {number}
