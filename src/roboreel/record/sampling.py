"""Samples drawn from a ring that another process may be writing to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.errors import EmptyBufferError, FrameError
from roboreel.record.ring import block_sums, draw_weighted, slot_spans
from roboreel.window import window_rows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from roboreel.record.store import RingStore, Snapshot

__all__ = ["draw_sample"]


def draw_sample(
    store: RingStore,
    batch: int,
    offsets: Mapping[str, NDArray[np.int64]],
    weights: str | None,
    generator: np.random.Generator,
) -> dict[str, NDArray[Any]]:
    """Return frames drawn at random, and the windows around them; see `ReplayBuffer.sample`."""
    drawn, anchors = _gather(store, batch, offsets, weights, generator)
    # Episodes leave whole, so the anchor tells of its window too. What the writer took back while
    # it was read is drawn anew; the rest stands.
    while (lost := anchors < store.header().tail).any():
        again, anchors[lost] = _gather(store, int(lost.sum()), offsets, weights, generator)
        for key, values in again.items():
            drawn[key][lost] = values
    # Only now, since a picture that was half overwritten cannot be decoded.
    for name, column in store.columns.items():
        drawn[name] = column.decode(drawn[name])
    return drawn


def _gather(
    store: RingStore,
    count: int,
    offsets: Mapping[str, NDArray[np.int64]],
    weights: str | None,
    generator: np.random.Generator,
) -> tuple[dict[str, NDArray[Any]], NDArray[np.int64]]:
    """Return drawn values, not yet decoded, and the row each was drawn at."""
    snapshot, capacity = store.snapshot(), store.layout.capacity
    anchors = snapshot.tail + _draw(store, snapshot, count, weights, generator)
    slots = anchors % capacity
    drawn: dict[str, NDArray[Any]] = {"row": slots}
    for name, column in store.columns.items():
        if name not in offsets:
            drawn[name] = column.fetch(slots)
    if offsets:
        _gather_windows(store, snapshot, anchors, offsets, drawn)
    return drawn, anchors


def _gather_windows(
    store: RingStore,
    snapshot: Snapshot,
    anchors: NDArray[np.int64],
    offsets: Mapping[str, NDArray[np.int64]],
    drawn: dict[str, NDArray[Any]],
) -> None:
    capacity = store.layout.capacity
    episodes = snapshot.starts.searchsorted(anchors, side="right")
    starts, stops = snapshot.starts[episodes - 1], snapshot.starts[episodes]
    # Windows are found among slots: there is one turn to take off for each anchor, not each row.
    turns = starts - starts % capacity
    anchors, starts, stops = anchors - turns, starts - turns, stops - turns
    # One episode at most lies across the end of the ring, so most batches have none to wrap.
    crosses = bool((stops > capacity).any())
    for name, around in offsets.items():
        slots, mask = window_rows(anchors, around, starts, stops)
        drawn[name] = store.columns[name].fetch(slots % capacity if crosses else slots)
        drawn[f"{name}_is_pad"] = mask


def _draw(
    store: RingStore,
    snapshot: Snapshot,
    count: int,
    weights: str | None,
    generator: np.random.Generator,
) -> NDArray[np.int64]:
    """Return how far behind the oldest row each drawn one lies."""
    if not len(snapshot):
        raise EmptyBufferError(f"No complete episode to draw from, in {str(store.root)!r}.")
    if weights is None:
        return generator.integers(0, snapshot.num_rows, size=count)
    stop = snapshot.tail + snapshot.num_rows
    spans = slot_spans(snapshot.tail, stop, store.layout.capacity)
    parts = [store.array(weights)[start:end] for start, end in spans]
    held = parts[0] if len(parts) == 1 else np.concatenate(parts)
    return draw_weighted(held, _checked_sums(held, weights), count, generator)


def _checked_sums(weights: NDArray[Any], name: str) -> NDArray[np.float64]:
    if weights.ndim != 1 or weights.dtype.kind not in "iuf":
        raise FrameError(f"{name!r} cannot weigh frames: a scalar number is needed.")
    sums = block_sums(weights)
    if weights.min() < 0 or not np.isfinite(sums).all():
        raise FrameError(f"{name!r} cannot weigh frames: it holds negative numbers, NaN or inf.")
    if not sums.any():
        raise EmptyBufferError(f"No frame to draw: {name!r} is zero for all of them.")
    return sums
