"""The data files of the new dataset: rows copied, what counts them counted anew."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.edit.context import RENUMBERED
from roboreel.errors import CorruptFileError, DatasetError, EditError
from roboreel.format.counters import COUNTERS, EPISODE_NUMBER, TASK_NUMBER
from roboreel.parquet.arrow_types import is_numeric, plain_numbers
from roboreel.parquet.dense import numbers_of
from roboreel.parquet.row_stream import RowReader, TablePart, read_layout, write_parts
from roboreel.parquet.to_arrow import from_numpy
from roboreel.stats import Accumulator, stats_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from roboreel.edit.context import EditContext
    from roboreel.edit.layout import FileTarget
    from roboreel.edit.recipe import Piece
    from roboreel.parquet.row_stream import Layout
    from roboreel.stats import FeatureStats


SUBTASK_NUMBER = "subtask_index"
_MOST_ROUNDING_S = 1e-4
_MOST_WAITING_BYTES = 8 * 1024**2


@dataclass(frozen=True, slots=True)
class StatsWanted:
    """Which statistics are computed from the rows, by the shape of a feature's statistics."""

    total: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Features whose statistics of all rows are wanted."""
    own: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Features whose statistics of each episode are wanted, if it has other frames than before."""
    every: bool = False
    """Whether those of each episode are wanted, whatever its frames."""

    def of_episode(
        self, *, is_whole: bool, lacking: Sequence[str] = ()
    ) -> Mapping[str, tuple[int, ...]]:
        """Return the features whose statistics are new for an episode."""
        if self.every or not is_whole:
            return self.own
        new = (*RENUMBERED, *lacking)
        return {name: shape for name, shape in self.own.items() if name in new}


@dataclass(slots=True)
class RowsResult:
    """What the rows of a file say."""

    tasks: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """By new episode, its tasks in the order in which they come, where that was looked at."""
    stats: dict[int, dict[str, FeatureStats]] = field(default_factory=dict)
    """By new episode, statistics that are new."""
    totals: dict[str, Accumulator] = field(default_factory=dict)
    """Statistics of all rows of the file."""
    lost: set[str] = field(default_factory=set)
    """Features of which a value is missing, so that they have no statistics."""

    def add(self, other: RowsResult) -> None:
        """Take over what the rows of the next file say."""
        self.tasks |= other.tasks
        self.stats |= other.stats
        self.lost |= other.lost
        for name, part in other.totals.items():
            if self.totals.setdefault(name, part) is not part:
                self.totals[name].merge(part)


def data_layout(context: EditContext) -> Layout:
    """Return the columns of the new data files: all that an old one has, with their new names."""
    pieces = context.recipe.pieces
    first = next((piece for piece in pieces if piece.source == 0), pieces[0])
    source = context.source(first)
    layout = _old_layout(context, first)
    for one in _rewritten(context):
        layout = layout.joined(_old_layout(context, one))
    if context.layout.version[:2] != source.manifest.version[:2]:
        layout = layout.added({n: f.dtype.replace("float32", "float") for n, f in COUNTERS.items()})
    return layout if context.layout.version.startswith("v3") else layout.with_sequences()


def _rewritten(context: EditContext) -> Iterator[Piece]:
    """Yield a piece of each old data file whose rows are written anew."""
    seen: set[tuple[int, int]] = set()
    for target in context.layout.data:
        for number in target.pieces if target.how == "rewritten" else ():
            piece = context.recipe.pieces[number]
            file = int(context.source(piece).manifest.episodes.data_file[piece.episode])
            if (piece.source, file) not in seen:
                seen.add((piece.source, file))
                yield piece


def _old_layout(context: EditContext, piece: Piece) -> Layout:
    """Return the columns of the data file of a piece, with their new names."""
    source = context.source(piece)
    path, small = source.data_file(piece.episode), source.episode_file(piece.episode)
    layout = (read_layout(path) if small is None else small.layout).renamed(context.names(piece))
    twice = {name for name in layout.names if layout.names.count(name) > 1}
    if twice:
        raise EditError(
            f"Two columns would be called {min(twice)!r}: info.json does not list the one that has "
            f"this name already. Choose another name: {str(path)!r}."
        )
    return layout


def write_rows(
    context: EditContext, target: FileTarget, layout: Layout, wanted: StatsWanted, out: Path | None
) -> RowsResult:
    """Write a data file of the new dataset, or only look at its rows; nothing is synced.

    Args:
        context: The edit.
        target: The file.
        layout: Its columns.
        wanted: Which statistics to compute.
        out: Where to write; None if the file is there already and only statistics are wanted.
    """
    result = RowsResult(totals={name: Accumulator(shape) for name, shape in wanted.total.items()})
    totals = _Totals(result.totals)
    names = None if out is not None else [*wanted.total, *wanted.own, TASK_NUMBER]
    with ExitStack() as stack:
        parts = _parts(context, target, layout, names, stack)
        counted = (_counted(context, n, part, wanted, result, totals) for n, part in parts)
        if out is None:
            for _ in counted:
                pass
        else:
            write_parts(out, counted, layout)
    totals.flush()
    return result


class _Totals:
    """Values of many short episodes, counted together: each call has a cost of its own."""

    def __init__(self, totals: Mapping[str, Accumulator]) -> None:
        self._totals = totals
        self._waiting: dict[str, list[NDArray[Any]]] = {}
        self._bytes = 0

    def add(self, name: str, values: NDArray[Any]) -> None:
        self._waiting.setdefault(name, []).append(values)
        self._bytes += values.nbytes
        if self._bytes > _MOST_WAITING_BYTES:
            self.flush()

    def flush(self) -> None:
        for name, values in self._waiting.items():
            self._totals[name].update(np.concatenate(values))
        self._waiting, self._bytes = {}, 0


def _parts(
    context: EditContext,
    target: FileTarget,
    layout: Layout,
    names: list[str] | None,
    stack: ExitStack,
) -> Iterator[tuple[int, TablePart]]:
    """Yield the rows of each new episode of a file."""
    reader = stack.enter_context(RowReader())
    for number in target.pieces:
        piece = context.recipe.pieces[number]
        frames = context.frames(number)
        old = None if names is None else [context.old_name(piece, name) for name in names]
        table = read_piece(context, piece, reader, old)
        if len(frames) != piece.stop - piece.start:
            table = table.take(from_numpy(frames - piece.start))
        yield number, _part(context, number, table, layout)


def read_piece(
    context: EditContext, piece: Piece, reader: RowReader, names: Sequence[str] | None = None
) -> Any:  # noqa: ANN401  # pyarrow is untyped
    """Return the rows of a piece, as its source has them: at least the columns that are named."""
    source = context.source(piece)
    small = source.episode_file(piece.episode)
    if small is not None:
        return small.table.slice(piece.start, piece.stop - piece.start)
    first = source.first_row(piece.episode)
    path = source.data_file(piece.episode)
    return reader.take(path, first + piece.start, first + piece.stop, names)


def _part(context: EditContext, number: int, table: Any, layout: Layout) -> TablePart:  # noqa: ANN401  # pyarrow is untyped
    piece = context.recipe.pieces[number]
    names = context.names(piece)
    there = {names.get(name, name) for name in table.column_names}
    added = set(COUNTERS).intersection(layout.names) - there
    counted = _counters(context, number, table)
    columns: dict[str, Any] = {n: values for n, values in counted.items() if n in there | added}
    columns |= shift_language(context, number, table, names)
    for name in context.lacking(piece):
        feature, length = context.features[name], int(context.layout.length[number])
        value = np.full(feature.value_shape, context.recipe.padded[name], feature.numpy_dtype)
        columns[name] = [value.tolist()] * length
    return TablePart(table, columns, names)


def _counters(context: EditContext, number: int, table: Any) -> dict[str, NDArray[Any]]:  # noqa: ANN401
    """Return what counts the rows of a new episode, as far as it may differ from what is stored."""
    piece, layout = context.recipe.pieces[number], context.layout
    length = int(layout.length[number])
    counted: dict[str, NDArray[Any]] = {
        EPISODE_NUMBER: np.full(length, number),
        "index": int(layout.start[number]) + np.arange(length),
    }
    if TASK_NUMBER in table.column_names:
        stored = _numbers(table, TASK_NUMBER)
        counted[TASK_NUMBER] = context.tasks.renumbered(piece, stored)
    elif piece.task is not None:
        counted[TASK_NUMBER] = np.full(length, context.tasks.number_of[piece.task])
    else:
        texts = context.source(piece).manifest.episodes.tasks_of(piece.episode)
        known = context.tasks.number_of.get(piece.new_task(texts[0]), 0) if texts else 0
        counted[TASK_NUMBER] = np.full(length, known)
    if SUBTASK_NUMBER in table.column_names and len(context.sources) > 1:
        counted[SUBTASK_NUMBER] = context.subtasks.renumbered(
            piece, _numbers(table, SUBTASK_NUMBER)
        )
    if not context.is_whole(number) or "frame_index" not in table.column_names:
        counted["frame_index"] = np.arange(length)
    if not context.is_whole(number) or "timestamp" not in table.column_names:
        counted["timestamp"] = _times(context, number, table)
    return counted


def _times(context: EditContext, number: int, table: Any) -> NDArray[np.float64]:  # noqa: ANN401
    """Return the times of a new episode: by the rate, or as measured if they were measured."""
    piece, length = context.recipe.pieces[number], int(context.layout.length[number])
    by_rate = np.arange(length) / context.layout.fps
    if "timestamp" not in table.column_names or context.recipe.fps is not None:
        return by_rate
    stored = _numbers(table, "timestamp").astype(np.float64)
    nominal = np.arange(piece.start, piece.stop) / context.source(piece).manifest.fps
    # float32 is coarse after hours: what is that close to the rate is the rate.
    if np.allclose(stored, nominal, rtol=1e-6, atol=_MOST_ROUNDING_S):
        return by_rate
    times: NDArray[np.float64] = stored - stored[0]
    return times


def _numbers(table: Any, name: str) -> NDArray[Any]:  # noqa: ANN401
    column = table.column(name)
    if column.null_count:
        raise CorruptFileError(
            f"{name!r} has {column.null_count} nulls, so its rows cannot be renumbered. Run "
            "`roboreel repair` first."
        )
    if not is_numeric(column.type):
        raise CorruptFileError(
            f"{name!r} holds {column.type} values, so its rows cannot be renumbered. Run "
            "`roboreel check`."
        )
    return plain_numbers(column)


def _counted(
    context: EditContext,
    number: int,
    part: TablePart,
    wanted: StatsWanted,
    result: RowsResult,
    totals: _Totals,
) -> TablePart:
    """Take note of what the rows of a new episode say, and return them."""
    if TASK_NUMBER in part.columns and not context.is_whole(number):
        tasks = dict.fromkeys(np.asarray(part.columns[TASK_NUMBER]).tolist())
        result.tasks[number] = tuple(tasks)
    piece = context.recipe.pieces[number]
    is_whole = context.is_whole(number)
    own = wanted.of_episode(is_whole=is_whole, lacking=context.lacking(piece))
    new: dict[str, NDArray[Any]] = {}
    stored = {part.names.get(column, column): column for column in part.table.column_names}
    for name in {**wanted.total, **own}:
        values = _values(context, part, name, stored.get(name))
        if values is None:
            result.lost.add(name)
            continue
        if name in result.totals:
            totals.add(name, values.reshape(-1, *wanted.total[name]))
        if name in own:
            new[name] = values.reshape(-1, *own[name])
    if new:
        found = stats_of(new)
        result.stats[number] = {n: s.per_frame(context.features[n].shape) for n, s in found.items()}
    return part


def _values(
    context: EditContext, part: TablePart, name: str, old: str | None
) -> NDArray[Any] | None:
    """Return the numbers of a feature, which a column may hold; None if one is missing."""
    feature = context.features[name]
    if name in part.columns:
        return np.asarray(part.columns[name]).astype(feature.numpy_dtype)
    if old is None:
        return None
    try:
        values, nulls = numbers_of(name, part.table.column(old), feature, place="a data file")
    except DatasetError:
        return None
    return values if nulls is None else None


# Language columns of an episode that is cut: their times count from the new start.

Message = dict[str, Any]
_ROUNDING_S = 1e-6


def shift_language(
    context: EditContext,
    number: int,
    table: Any,  # noqa: ANN401  # pyarrow is untyped
    names: Mapping[str, str | None],
) -> dict[str, list[Any]]:
    """Return the language columns of a new episode that has other frames than the old one.

    Args:
        context: The edit.
        number: The new episode.
        table: Its rows.
        names: New names of columns.
    """
    if context.is_whole(number):
        return {}
    piece = context.recipe.pieces[number]
    start_s = piece.start / context.source(piece).manifest.fps
    length_s = int(context.layout.length[number]) / context.layout.fps
    columns = {}
    for old in table.column_names:
        new = names.get(old, old)
        if new is None or new not in context.features or context.features[new].kind != "language":
            continue
        rows = table.column(old).to_pylist()
        if any(message.get("timestamp") is not None for row in rows for message in row or ()):
            columns[new] = [row and shifted_messages(row, start_s, length_s) for row in rows]
    return columns


def shifted_messages(messages: Sequence[Message], start_s: float, length_s: float) -> list[Message]:
    """Return messages with times from the start of a part on.

    The last message of each kind before the part still holds when the part starts, so it is moved
    to time 0. Messages of the same moment stay together, such as the wordings of a task. Messages
    after the end are left out.

    Examples:
        >>> said = [{"style": "subtask", "content": c, "timestamp": t} for c, t in (("a", 0.0), ("b", 1.0))]
        >>> [(m["content"], m["timestamp"]) for m in shifted_messages(said, 2.0, 5.0)]
        [('b', 0.0)]
    """
    latest: dict[tuple[Any, ...], float] = {}
    for message in messages:
        time_s = message.get("timestamp")
        if time_s is not None and time_s - start_s <= _ROUNDING_S:
            latest[_kind(message)] = max(time_s, latest.get(_kind(message), time_s))
    kept: list[Message] = []
    for message in messages:
        time_s = message.get("timestamp")
        if time_s is None:
            kept.append(message)
            continue
        over = time_s - start_s <= _ROUNDING_S and time_s < latest[_kind(message)] - _ROUNDING_S
        if not over and time_s - start_s < length_s:
            kept.append({**message, "timestamp": max(0.0, time_s - start_s)})
    return kept


def _kind(message: Message) -> tuple[Any, ...]:
    return tuple(message.get(key) for key in ("style", "role", "camera"))
