"""Samples drawn from a ring that another process may be writing to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.errors import EmptyBufferError, FrameError
from roboreel.replay.ring import block_sums, draw_weighted, slot_spans
from roboreel.window import window_rows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from roboreel.replay.store import RingStore, Snapshot

__all__ = ["draw_sample"]


def draw_sample(
    store: RingStore,
    batch: int,
    offsets: Mapping[str, NDArray[np.int64]],
    weights: str | None,
    generator: np.random.Generator,
) -> dict[str, NDArray[Any]]:
    """Return frames drawn at random, and the windows around them; see `ReplayBuffer.sample`."""
    snapshot = store.snapshot()
    places = _draw(store, snapshot, batch, weights, generator)
    drawn = _gather(store, snapshot, places, offsets)
    if store.header().tail != snapshot.tail:
        _draw_lost_again(store, drawn, places + snapshot.turn, offsets, weights, generator)
    # Only now, since a picture that was half overwritten cannot be decoded.
    for name in store.encoded:
        drawn[name] = store.columns[name].decode(drawn[name])
    return drawn


def _draw_lost_again(
    store: RingStore,
    drawn: dict[str, NDArray[Any]],
    anchors: NDArray[np.int64],
    offsets: Mapping[str, NDArray[np.int64]],
    weights: str | None,
    generator: np.random.Generator,
) -> None:
    """Replace what the writer took back while it was read; the rest stands.

    Episodes leave whole, so the anchor tells of its window too.
    """
    while (lost := anchors < store.header().tail).any():
        snapshot = store.snapshot()
        places = _draw(store, snapshot, int(lost.sum()), weights, generator)
        for key, values in _gather(store, snapshot, places, offsets).items():
            drawn[key][lost] = values
        anchors[lost] = places + snapshot.turn


def _gather(
    store: RingStore,
    snapshot: Snapshot,
    places: NDArray[np.int64],
    offsets: Mapping[str, NDArray[np.int64]],
) -> dict[str, NDArray[Any]]:
    """Return the values at these places, not yet decoded, and the windows around them."""
    capacity = store.layout.capacity
    slots = places if snapshot.stop <= capacity else places % capacity
    drawn: dict[str, NDArray[Any]] = {"row": slots}
    for name, column in store.columns.items():
        if name not in offsets:
            drawn[name] = column.fetch(places)
    if offsets:
        episodes = snapshot.starts.searchsorted(places + snapshot.turn, side="right")
        starts = snapshot.starts[episodes - 1] - snapshot.turn
        stops = snapshot.starts[episodes] - snapshot.turn
        for name, around in offsets.items():
            wanted, drawn[f"{name}_is_pad"] = window_rows(places, around, starts, stops)
            drawn[name] = store.columns[name].fetch(wanted)
    return drawn


def _draw(
    store: RingStore,
    snapshot: Snapshot,
    count: int,
    weights: str | None,
    generator: np.random.Generator,
) -> NDArray[np.int64]:
    """Return the places that were drawn."""
    start, stop = snapshot.start, snapshot.stop
    if start == stop:
        raise EmptyBufferError(f"No complete episode to draw from, in {str(store.root)!r}.")
    if weights is None:
        return generator.integers(start, stop, size=count)
    spans = slot_spans(start, stop, store.layout.capacity)
    parts = [store.array(weights)[first:end] for first, end in spans]
    held = parts[0] if len(parts) == 1 else np.concatenate(parts)
    return start + draw_weighted(held, _checked_sums(held, weights), count, generator)


def _checked_sums(weights: NDArray[Any], name: str) -> NDArray[np.float64]:
    if weights.ndim != 1 or weights.dtype.kind not in "iuf":
        raise FrameError(f"{name!r} cannot weigh frames: a scalar number is needed.")
    sums = block_sums(weights)
    if weights.min() < 0 or not np.isfinite(sums).all():
        raise FrameError(f"{name!r} cannot weigh frames: it holds negative numbers, NaN or inf.")
    if not sums.any():
        raise EmptyBufferError(f"No frame to draw: {name!r} is zero for all of them.")
    return sums
