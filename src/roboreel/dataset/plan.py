"""From samples to rows: the only place where the index space changes. Arithmetic only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from roboreel.distinct import distinct
from roboreel.numbers import inside, whole_numbers
from roboreel.window import window_rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from roboreel.schema import EpisodeTable


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """Some episodes of a dataset. Their frames, in the dataset's order, are samples ``0 … n - 1``."""

    positions: NDArray[np.int64]
    """Positions of the episodes in the episode table, ascending."""
    filled: NDArray[np.int64]
    """Those that have rows, in the order of their samples."""
    starts: NDArray[np.int64]
    """First row of each filled episode, ascending."""
    bounds: NDArray[np.int64]
    """Samples of that episode are ``[bounds[i], bounds[i + 1])``."""

    def __len__(self) -> int:
        return int(self.bounds[-1])

    def rows(self, samples: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the row of each sample; negative numbers count from the end.

        Raises:
            RowNotFoundError: A sample does not exist.
        """
        samples = inside(samples, len(self), "sample")
        if not len(samples) or self.starts[-1] == self.bounds[-2]:
            return samples  # Nothing is left out before the last episode: the numbers agree.
        episode = np.searchsorted(self.bounds, samples, side="right") - 1
        return samples - self.bounds[episode] + self.starts[episode]

    def row(self, sample: int) -> int:
        """Return the row of one sample, as `rows` does."""
        count = self.bounds.item(-1)
        if not -count <= sample < count:
            return int(self.rows(whole_numbers([sample], "sample"))[0])  # It raises.
        sample = sample if sample >= 0 else sample + count
        if self.starts.item(-1) == self.bounds.item(-2):
            return sample
        episode = self.bounds.searchsorted(sample, side="right") - 1
        return sample - self.bounds.item(episode) + self.starts.item(episode)


def select_episodes(episodes: EpisodeTable, positions: NDArray[np.int64] | None) -> Selection:
    """Return the selection of the episodes at some positions, in any order; None means all."""
    if positions is None:
        chosen = np.arange(len(episodes), dtype=np.int64)
        order = episodes.row_order
    else:
        chosen = distinct(positions)
        filled = chosen[episodes.length[chosen] > 0]
        order = filled[np.argsort(episodes.start[filled], kind="stable")]
    bounds = np.concatenate([[0], np.cumsum(episodes.length[order])]).astype(np.int64)
    return Selection(chosen, order, episodes.start[order], bounds)


Places: TypeAlias = "tuple[NDArray[np.int64], NDArray[np.float64] | None]"
"""`Window.places` at a rate; None in place of fractions that are all 0."""


@dataclass(frozen=True, slots=True, eq=False)
class WindowPlan:
    """The rows of one feature's windows."""

    rows: NDArray[np.int64]
    """``(B, T)``, inside the anchor's episode."""
    mask: NDArray[np.bool_]
    """``(B, T)``, True where the window left the episode and its first or last row is repeated."""
    later: NDArray[np.int64] | None = None
    """``(B, T)``, the rows to interpolate to, if values between rows are asked for."""
    fractions: NDArray[np.float64] | None = None
    """``(T,)``, how far on to the later row."""


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """What will be read; data, not action."""

    anchors: NDArray[np.int64]
    """Rows ``(B,)``."""
    episodes: NDArray[np.int64]
    """Position of each anchor's episode in the table, ``(B,)``."""
    features: Sequence[str]
    windows: Mapping[str, WindowPlan]
    """For the features that have a window."""

    def rows(self, name: str) -> NDArray[np.int64]:
        """Return the rows to read of a feature, ``(B,)`` or ``(B, T)``."""
        window = self.windows.get(name)
        return self.anchors if window is None else window.rows


def plan_read(
    anchors: NDArray[np.int64],
    episodes: NDArray[np.int64],
    table: EpisodeTable,
    features: Sequence[str],
    places: Mapping[str, Places],
) -> Plan:
    """Return what to read.

    Args:
        anchors: Rows ``(B,)``.
        episodes: Position of each anchor's episode, ``(B,)``.
        table: The dataset's episodes.
        features: Names of the features to read.
        places: Where the window of a feature reaches, for those that have one.
    """
    if not places:
        return Plan(anchors, episodes, features, {})
    starts = table.start[episodes]
    stops = starts + table.length[episodes]
    windows = {name: _plan_window(anchors, place, starts, stops) for name, place in places.items()}
    return Plan(anchors, episodes, features, windows)


def _plan_window(
    anchors: NDArray[np.int64],
    place: Places,
    starts: NDArray[np.int64],
    stops: NDArray[np.int64],
) -> WindowPlan:
    offsets, fractions = place
    rows, mask = window_rows(anchors, offsets, starts, stops)
    if fractions is None:
        return WindowPlan(rows, mask)
    later, beyond = window_rows(anchors, offsets + (fractions > 0), starts, stops)
    return WindowPlan(rows, mask | beyond, later, fractions)
