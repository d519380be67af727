"""Datasets, stores and buffers, damaged at random, and read in every way.

`mutate` and `exercise` are functions of their arguments alone, so that any number of seeds can be
tried, in this process or in another.
"""

from __future__ import annotations

import io
import json
import os
import random
import shutil
import tempfile
from contextlib import redirect_stdout, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import roboreel as reel
from roboreel.check import check_dataset
from roboreel.commit import STORE, WORKSHOP
from roboreel.errors import DatasetError
from roboreel.replay.buffer import ReplayBuffer
from roboreel.report import write_report
from roboreel.schema import Feature
from roboreel.shards import open_shards, validate_shards, write_shards
from tests.clean import clean_dataset
from tests.factory import write_dataset, write_dataset_v2

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["KINDS", "exercise", "make", "mutate"]

KINDS = (
    "numeric-v3",
    "numeric-v2",
    "image-v3",
    "video-v3",
    "video-v2",
    "shards",
    "replay",
    "cache",
)

_ODD: tuple[Any, ...] = (
    None, True, -1, 0, 1, 2**31, 2**63, 10**30, 0.5, float("nan"), float("inf"), "", "x", "\x1b[2J\x9b",
    "\ud800", "..", "/etc", "{chunk_index}", "{0}", [], [[]], [1, [2, [3]]], {}, {"a": {"b": [None]}},
    ["é", None, 3], "float128", "object", "datetime64", "int4", "O", "S5", "<f8,<i4",
)  # fmt: skip


def make(kind: str, folder: Path) -> None:
    """Write something whole to a folder that does not exist yet."""
    shutil.copytree(_template(kind), folder)


def mutate(seed: int, folder: Path) -> str:
    """Damage the files of a folder, and return what was done."""
    rng = random.Random(seed)
    return "; ".join(_mutate_once(rng, folder) for _ in range(rng.choice((1, 1, 1, 2, 4))))


def exercise(kind: str, folder: Path, *, report: bool = True) -> str:
    """Read all that a folder holds, in every way; return ``"read"``, or the name of our error.

    Whatever else is raised passes through. A report takes as long as all other ways together.
    """
    ways = [way for way in _ways(kind) if report or way is not _report]
    outcomes = [_attempt(way, folder) for way in ways]
    return next((outcome for outcome in outcomes if outcome != "read"), "read")


def _attempt(way: Callable[[Path], object], folder: Path) -> str:
    try:
        way(folder)
    except DatasetError as error:
        str(error).encode("utf-8", "backslashreplace")
        return type(error).__name__
    return "read"


def _ways(kind: str) -> list[Callable[[Path], object]]:
    if kind == "shards":
        return [_read_shards]
    if kind == "replay":
        return [_read_replay]
    if kind == "cache":
        return [_read_cache]
    return [_read, _check, _report]


def _read(folder: Path) -> None:
    dataset = reel.open_dataset(folder)
    _read_rows(dataset, folder)
    for way in (lambda _: dataset.stats, lambda _: [e.stats for e in dataset.episodes]):
        _attempt(way, folder)
    _read_episodes(dataset, folder)


def _read_rows(dataset: reel.Dataset, folder: Path) -> None:
    rows = [0, len(dataset) // 2, len(dataset) - 1] if len(dataset) else []
    for name in dataset.features:
        _attempt(lambda _, name=name: dataset.read(rows, [name]), folder)  # type: ignore[misc]
    repr(dataset), str(dataset.memory), dataset._repr_html_()


def _read_episodes(dataset: reel.Dataset, folder: Path) -> None:
    for episode in dataset.episodes[:3]:
        _attempt(lambda _, episode=episode: (episode.tasks, episode.metadata), folder)  # type: ignore[misc]
        for name in dataset.features:
            _attempt(lambda _, e=episode, n=name: e[n], folder)  # type: ignore[misc]


def _check(folder: Path) -> None:
    findings = check_dataset(folder, tier="deep")
    json.dumps(findings.to_json())
    with redirect_stdout(io.StringIO()):
        str(findings)


def _report(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as out:
        write_report(reel.open_dataset(folder), Path(out, "report.html"))


def _read_shards(folder: Path) -> None:
    store = open_shards(folder)
    for row in (0, len(store) // 2, len(store) - 1):
        _attempt(lambda _, row=row: store[row], folder)  # type: ignore[misc]
    validate_shards(folder)


def _read_replay(folder: Path) -> None:
    with ReplayBuffer(folder) as buffer:
        _attempt(lambda _: buffer.sample(4), folder)
        for _ in buffer.episodes():
            pass


def _read_cache(folder: Path) -> None:
    dataset = reel.open_dataset(folder / "dataset", cache=folder / "cache")
    for name in dataset.features:
        _attempt(lambda _, name=name: dataset.read([0, len(dataset) - 1], [name]), folder)  # type: ignore[misc]


def keep_templates(folder: Path) -> None:
    """Keep what copies are made of in a folder that processes share."""
    _FOLDER[:] = [folder]


_FOLDER: list[Path] = []


@cache
def _template(kind: str) -> Path:
    folder = _FOLDER[0] if _FOLDER else Path(tempfile.mkdtemp(prefix="mutation-"))
    if not (folder / kind).exists():
        write_template(kind, folder / f"{kind}.{os.getpid()}")
        with suppress(OSError):  # Another process was faster.
            (folder / f"{kind}.{os.getpid()}").rename(folder / kind)
    return folder / kind


def write_template(kind: str, root: Path) -> None:
    """Write something whole of a kind."""
    form, _, version = kind.partition("-")
    full = {"v3": "v3.0", "v2": "v2.1"}.get(version, "")
    if kind == "numeric-v3":
        write_dataset(root, [6, 4, 5])
    elif kind == "numeric-v2":
        write_dataset_v2(root, [6, 4, 5])
    elif form in ("image", "video"):
        clean_dataset(root, full, store="image" if form == "image" else "video")
        reel.edit_dataset(root).delete(
            [0, 1, 2, 3]
        ).apply()  # Two episodes are as easily damaged as six.
        for name in (STORE, WORKSHOP):
            shutil.rmtree(root / name, ignore_errors=True)
    elif kind == "shards":
        kinds = {"number": "int64", "text": "string"}
        write_shards(({"number": n, "text": f"row {n}"} for n in range(40)), kinds, root)
    elif kind == "replay":
        features = {"state": Feature("float32", (3,)), "cam": Feature("image", (16, 16, 3))}
        with ReplayBuffer(root, capacity=20, features=features) as buffer:
            for count in (5, 4):
                values = {"state": np.ones((count, 3), np.float32)}
                values["cam"] = np.zeros((count, 16, 16, 3), np.uint8)
                buffer.add_episode(values)
    else:
        features = {"state": Feature("float32", (3,)), "cam": Feature("image", (8, 12, 3))}
        write_dataset(root / "dataset", [6, 4], features=features)
        reel.open_dataset(root / "dataset").materialize(root / "cache")


def _mutate_once(rng: random.Random, folder: Path) -> str:
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.stat().st_size)
    if not files:
        return "nothing left"
    # As often in a small folder of metadata as in a large one of data.
    parents = sorted({path.relative_to(folder).parts[0] for path in files})
    top = rng.choice(parents)
    path = rng.choice([path for path in files if path.relative_to(folder).parts[0] == top])
    ways = [_flip, _flip, _truncate, _empty, _remove, _repeat]
    if path.suffix == ".json":
        ways += [_change_json] * 12
    elif path.suffix == ".jsonl":
        ways += [_change_lines] * 12
    elif path.suffix == ".parquet":
        ways += [_change_table] * 12
    way = rng.choice(ways)
    try:
        done = way(rng, path)
    except (
        ValueError,
        OSError,
        pa.ArrowException,
        TypeError,
        OverflowError,
        RecursionError,
    ) as error:
        done = f"nothing ({type(error).__name__})"  # Damaged before: it cannot be changed again.
    return f"{way.__name__.strip('_')} {path.relative_to(folder)} {done}"


def _flip(rng: random.Random, path: Path) -> str:
    data = bytearray(path.read_bytes())
    places = [rng.randrange(len(data)) for _ in range(rng.choice((1, 1, 8, 64)))]
    if rng.random() < 0.4:  # Footers and headers are at the ends.
        places = [min(len(data) - 1, rng.randrange(64)) * rng.choice((1, -1)) for _ in places]
    for place in places:
        data[place] = rng.randrange(256)
    path.write_bytes(data)
    return str(sorted(places)[:4])


def _truncate(rng: random.Random, path: Path) -> str:
    data = path.read_bytes()
    size = rng.randrange(len(data))
    path.write_bytes(data[:size])
    return str(size)


def _empty(_: random.Random, path: Path) -> str:
    path.write_bytes(b"")
    return ""


def _remove(_: random.Random, path: Path) -> str:
    path.unlink()
    return ""


def _repeat(rng: random.Random, path: Path) -> str:
    data = path.read_bytes()
    start = rng.randrange(len(data))
    path.write_bytes(data[:start] + data[start : start + 100] * rng.randrange(3) + data[start:])
    return str(start)


def _change_json(rng: random.Random, path: Path) -> str:
    value = json.loads(path.read_text())
    said = _change_value(rng, value)
    path.write_text(json.dumps(value), encoding="utf-8")
    return said


def _change_lines(rng: random.Random, path: Path) -> str:
    lines = path.read_text().splitlines()
    place = rng.randrange(len(lines))
    value = json.loads(lines[place])
    said = _change_value(rng, value)
    lines[place] = json.dumps(value)
    path.write_text("\n".join(lines))
    return f"line {place} {said}"


def _change_value(rng: random.Random, value: Any) -> str:
    """Change one place of a nested value."""
    trail = []
    while True:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        if not keys:
            raise ValueError("nothing to change")
        key = rng.choice(keys)
        trail.append(str(key))
        inside = value[key]
        if not isinstance(inside, dict | list) or not inside or rng.random() < 0.3:
            break
        value = inside
    odd = rng.choice(_ODD)
    if rng.random() < 0.15:
        del value[key]
        odd = "removed"
    elif rng.random() < 0.1 and isinstance(value, dict):
        value["\x1b]0;x\x07"] = value.pop(key)
        odd = "renamed"
    else:
        value[key] = odd
    return f"{'/'.join(trail)} = {odd!r}"


def _change_table(rng: random.Random, path: Path) -> str:
    table = pq.read_table(path)
    place = rng.randrange(table.num_columns)
    name = table.column_names[place]
    odd: list[Any] = [
        pa.nulls(len(table)),
        pa.array([rng.choice((-1, 2**40, 2**62)) for _ in range(len(table))]),
        pa.array([rng.random() * 1e30 for _ in range(len(table))]),
        pa.array([float("nan")] * len(table)),
        pa.array(["x\x1b[2J"] * len(table)),
        pa.array([b"\xff\xfe"] * len(table)).cast(pa.binary()).view(pa.string()),
        pa.array([[1, 2]] * len(table)),
        pa.array([[[None]]] * len(table)),
        pa.array([{"a": 1}] * len(table)),
        pa.array([True] * len(table)),
        pa.array([None, *[1] * (len(table) - 1)][: len(table)]),
        pa.array([0] * len(table), pa.timestamp("us")),
        pa.array([1] * len(table)).cast(pa.decimal128(20)),
        pa.array(["a"] * len(table)).dictionary_encode(),
    ]
    act = rng.choice(("drop", "twice", "retype", "retype", "retype", "rename", "rows", "groups"))
    if act == "drop":
        table = table.remove_column(place)
    elif act == "twice":
        table = table.append_column(name, rng.choice([table.column(place), *odd]))
    elif act == "retype":
        table = table.set_column(place, name, rng.choice(odd))
    elif act == "rename":
        names = [*table.column_names]
        names[place] = rng.choice(("", "x.y", "\x9b", "é" * 300, "action"))
        table = table.rename_columns(names)
    elif act == "rows":
        table = table.slice(0, rng.randrange(len(table) + 1))
    pq.write_table(table, path, row_group_size=rng.choice((1, 3, 1000)))
    return f"{act} {name!r}"
