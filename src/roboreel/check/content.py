"""Checks of the values themselves: numbers that are none, and joints that do not move."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.check.checks import Scan
from roboreel.findings import finding
from roboreel.format.counters import COUNTERS
from roboreel.format.paths import INFO_PATH
from roboreel.words import counted, enumerated

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from roboreel.check.context import Context
    from roboreel.check.data_file import Block, Spans
    from roboreel.findings import Finding

_FEWEST_ROWS = 50
"""Fewer rows are too few to call constant or at a limit."""
_SATURATED = 0.25
_STILL = 1e-3
"""A change of less than this part of an element's range is none."""
_IDLE_S = 5.0
_FEWEST_IDLE_FRAMES = 10


class NotNumbers(Scan):
    """Whether floating-point values are finite."""

    codes = ("RR601", "RR602")

    def block(self, block: Block) -> Iterator[Finding]:
        """Look for NaN and infinity, episode by episode."""
        for name, column in block.columns.items():
            values = column.values
            if values is None or values.dtype.kind != "f":
                continue
            flat = values.reshape(column.num_rows, -1)
            if not np.isfinite(flat).all():
                yield from self._of_kind(block, name, "RR601", "NaN", np.isnan(flat))
                yield from self._of_kind(block, name, "RR602", "infinite", np.isinf(flat))

    def _of_kind(
        self, block: Block, name: str, code: str, noun: str, wrong: NDArray[np.bool_]
    ) -> Iterator[Finding]:
        rows: NDArray[np.bool_] = np.any(wrong, axis=1)
        for episode, frames in block.spans.where(rows[block.spans.rows]):
            elements = np.flatnonzero(np.any(wrong[episode.start : episode.stop], axis=0))
            yield episode.finding(
                code,
                f"{_name_elements(self.context, name, elements)} is {noun} in "
                f"{counted(len(frames), 'row')} of episode {episode.number}, first at frame "
                f"{frames[0]}.",
                frames[0],
                frames[-1] + 1,
                feature=name,
            )


@dataclass(slots=True, eq=False)
class Extremes:
    """Least and greatest value of each element ``(D,)``, and how many rows have them."""

    num_rows: int
    low: NDArray[np.float64]
    at_low: NDArray[np.int64]
    high: NDArray[np.float64]
    at_high: NDArray[np.int64]

    @staticmethod
    def of(values: NDArray[Any]) -> Extremes:
        """Return the extremes of values ``(N, D)``."""
        low, high = values.min(axis=0), values.max(axis=0)
        at_low, at_high = (values == low).sum(axis=0), (values == high).sum(axis=0)
        return Extremes(len(values), low, at_low, high, at_high)

    def add(self, other: Extremes) -> None:
        """Take in the extremes of more rows."""
        self.num_rows += other.num_rows
        low, high = np.minimum(self.low, other.low), np.maximum(self.high, other.high)
        self.at_low = self.at_low * (self.low == low) + other.at_low * (other.low == low)
        self.at_high = self.at_high * (self.high == high) + other.at_high * (other.high == high)
        self.low, self.high = low, high


class Movement(Scan):
    """Whether each element of a feature moves, and is not at its limit much of the time."""

    codes = ("RR603", "RR604")

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._extremes: dict[str, Extremes] = {}
        self._odd: set[str] = set()

    def block(self, block: Block) -> Iterator[Finding]:
        """Take in the values of the wanted episodes."""
        rows = block.spans.rows
        for name, column in block.columns.items():
            values = column.values
            if values is None or values.dtype.kind != "f" or name in COUNTERS or not len(rows):
                continue
            flat = values.reshape(column.num_rows, -1)
            if len(rows) < len(flat):
                flat = flat[rows]
            self._add(name, Extremes.of(flat))
        yield from ()

    def state(self) -> dict[str, Any]:
        """Return the extremes so far."""
        return {"extremes": self._extremes, "odd": self._odd}

    def merge(self, state: Mapping[str, Any]) -> None:
        """Add the extremes of more rows."""
        self._odd |= state["odd"]
        for name, extremes in state["extremes"].items():
            self._add(name, extremes)

    def _add(self, name: str, extremes: Extremes) -> None:
        if name not in self._extremes:
            self._extremes[name] = extremes
        elif len(self._extremes[name].low) == len(extremes.low):
            self._extremes[name].add(extremes)
        else:
            self._odd.add(name)

    def finish(self) -> Iterator[Finding]:
        """Name the elements that do not move, or are at a limit."""
        for name, extremes in self._extremes.items():
            if name in self._odd or extremes.num_rows < _FEWEST_ROWS:
                continue
            constant = extremes.low == extremes.high
            yield from self._constant(name, constant, extremes)
            low, high = (at / extremes.num_rows for at in (extremes.at_low, extremes.at_high))
            # At both limits nearly always: a gripper, a switch, a reward. That is its nature.
            saturated = ~constant & (np.maximum(low, high) >= _SATURATED) & (low + high <= 0.75)
            for element in np.flatnonzero(saturated).tolist():
                side = "greatest" if high[element] >= low[element] else "least"
                value = extremes.high if high[element] >= low[element] else extremes.low
                yield finding(
                    "RR604",
                    f"{_name_elements(self.context, name, np.array([element]))} is at its {side} "
                    f"value, {value[element]:.6g}, in {max(low[element], high[element]):.0%} of "
                    "all rows.",
                    file=INFO_PATH,
                    feature=name,
                )

    def _constant(
        self, name: str, constant: NDArray[np.bool_], extremes: Extremes
    ) -> Iterator[Finding]:
        elements = np.flatnonzero(constant)
        if len(elements):
            values = enumerated(f"{value:.6g}" for value in np.unique(extremes.low[elements]))
            yield finding(
                "RR603",
                f"{_name_elements(self.context, name, elements)} never changes: {values} in all "
                f"{counted(extremes.num_rows, 'row')}.",
                file=INFO_PATH,
                feature=name,
            )


class Idleness(Scan):
    """Whether the robot moves."""

    codes = ("RR605",)

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        floats = {
            name: feature
            for name, feature in context.manifest.features.items()
            if feature.kind == "number"
            and feature.numpy_dtype.kind == "f"
            and feature.shape != (1,)
        }
        named = [n for n in floats if n.startswith(("action", "observation.state"))]
        self._names = named or list(floats)

    def block(self, block: Block) -> Iterator[Finding]:
        """Look for the longest stretch of each episode in which nothing moves."""
        columns = [block.columns.get(name) for name in self._names]
        spans, moves = block.spans, np.zeros(block.stop - block.start, bool)
        if not columns or not len(spans):
            return
        for name, column in zip(self._names, columns, strict=True):
            if column is None or column.values is None:
                return
            moves[1:] |= self._moves(name, column.values.reshape(column.num_rows, -1))
        moves[spans.start] = True
        yield from self._stretches(spans, moves)

    def _moves(self, name: str, values: NDArray[Any]) -> NDArray[np.bool_]:
        """Return whether any element changes from each row to the next, ``(N - 1,)``."""
        if values.dtype == bool:  # NumPy subtracts no truth values.
            values = values.view(np.uint8)
        stored = self.context.stats.get(name)
        if stored is not None and stored.min.size == values.shape[1]:
            span = (stored.max - stored.min).reshape(-1)
        else:
            span = np.ptp(values, axis=0).astype(np.float64)
        with np.errstate(invalid="ignore"):
            moves = np.abs(np.diff(values, axis=0)) > _STILL * span
        moved: NDArray[np.bool_] = np.any(moves, axis=1)
        return moved

    def _stretches(self, spans: Spans, moves: NDArray[np.bool_]) -> Iterator[Finding]:
        fps = self.context.manifest.fps
        breaks = np.unique(np.concatenate([np.flatnonzero(moves), spans.stop]))
        lengths = np.diff(breaks, append=breaks[-1])
        for span in range(len(spans)):
            episode = spans[span]
            whole = episode.stop - episode.start
            inside = slice(*np.searchsorted(breaks, [episode.start, episode.stop]).tolist())
            if not len(lengths[inside]):
                continue
            longest = int(lengths[inside].argmax())
            length = int(lengths[inside][longest])
            first = int(breaks[inside][longest]) - episode.start
            if length >= _FEWEST_IDLE_FRAMES and (length >= _IDLE_S * fps or 2 * length >= whole):
                yield episode.finding(
                    "RR605",
                    f"Nothing moves for {length / fps:.1f} s of episode {episode.number}, {length} "
                    f"of {counted(whole, 'frame')}, from frame {first}.",
                    first,
                    first + length,
                )


def _name_elements(context: Context, name: str, elements: NDArray[np.int64]) -> str:
    """Return some elements of a feature in words."""
    feature = context.manifest.features[name]
    size = int(np.prod(feature.shape))
    if len(elements) == size:
        return repr(name)
    labels = feature.names if feature.names is not None and len(feature.names) == size else None
    shown = [labels[i] if labels else str(i) for i in elements.tolist()]
    return f"{name!r} ({enumerated(shown)})"


SCANS: tuple[type[Scan], ...] = (NotNumbers, Movement, Idleness)
