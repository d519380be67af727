"""Samples drawn from a ring that another process may be writing to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.errors import EmptyBufferError, FeatureNotFoundError, FrameError, WindowError
from roboreel.replay.positions import block_sums, draw_weighted, slot_spans
from roboreel.window import window_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from roboreel.replay.ring import Ring, Snapshot
    from roboreel.replay.spec import RingSpec
    from roboreel.window import Window


def window_offsets(spec: RingSpec, windows: Mapping[str, Window]) -> dict[str, NDArray[np.int64]]:
    """Return the offsets of windows in frames, by feature.

    Raises:
        FeatureNotFoundError: A feature that does not exist.
        WindowError: A window is in seconds, and the buffer has no rate.
    """
    for name, window in windows.items():
        if name not in spec.features:
            raise FeatureNotFoundError(f"No feature {name!r}: there are {list(spec.features)}.")
        if window.seconds is not None and spec.fps is None:
            raise WindowError(f"{window} is in seconds: give the buffer an fps, or use frames.")
    return {name: window.offsets(spec.fps or 0) for name, window in windows.items()}


def draw_sample(
    ring: Ring,
    batch: int,
    offsets: Mapping[str, NDArray[np.int64]],
    weights: str | None,
    generator: np.random.Generator,
) -> dict[str, NDArray[Any]]:
    """Return frames drawn at random, and the windows around them; see `ReplayBuffer.sample`."""
    snapshot = _filled_snapshot(ring)
    places = _draw(ring, snapshot, batch, weights, generator)
    drawn = gather(ring, snapshot, places, ring.slots, offsets)
    anchors = places + snapshot.turn
    # Frames that were overwritten while they were read are replaced. Episodes leave as a whole: if
    # the anchor is still there, its window is too.
    while (lost := anchors < ring.header().tail).any():
        snapshot = _filled_snapshot(ring)
        places = _draw(ring, snapshot, int(lost.sum()), weights, generator)
        for key, values in gather(ring, snapshot, places, ring.slots, offsets).items():
            drawn[key][lost] = values
        anchors[lost] = places + snapshot.turn
    # Not earlier: a picture that was half overwritten cannot be decoded.
    for name in ring.encoded:
        drawn[name] = ring.slots[name].decode(drawn[name])
    return drawn


def _filled_snapshot(ring: Ring) -> Snapshot:
    """Return the complete episodes; none only if there are none.

    While a slow reader lists the episodes, a quick writer may replace all of them.
    """
    while True:
        snapshot, header = ring.snapshot(), ring.header()
        if len(snapshot) or header.first_episode == header.next_episode:
            return snapshot


def gather(
    ring: Ring,
    snapshot: Snapshot,
    places: NDArray[np.int64],
    names: Iterable[str],
    offsets: Mapping[str, NDArray[np.int64]],
) -> dict[str, NDArray[Any]]:
    """Return values at places, not yet decoded; for features with offsets the windows, with masks."""
    capacity = ring.spec.capacity
    drawn: dict[str, NDArray[Any]] = {
        "row": places if snapshot.stop <= capacity else places % capacity
    }
    drawn |= {name: ring.slots[name].fetch(places) for name in names if name not in offsets}
    if offsets:
        episodes = snapshot.starts.searchsorted(places + snapshot.turn, side="right")
        starts = snapshot.starts[episodes - 1] - snapshot.turn
        stops = snapshot.starts[episodes] - snapshot.turn
        for name, around in offsets.items():
            wanted, drawn[f"{name}_is_pad"] = window_rows(places, around, starts, stops)
            drawn[name] = ring.slots[name].fetch(wanted)
    return drawn


def _draw(
    ring: Ring,
    snapshot: Snapshot,
    count: int,
    weights: str | None,
    generator: np.random.Generator,
) -> NDArray[np.int64]:
    """Return the places that were drawn."""
    start, stop = snapshot.start, snapshot.stop
    if start == stop:
        raise EmptyBufferError(f"No complete episode to draw from, in {str(ring.root)!r}.")
    if weights is None:
        return generator.integers(start, stop, size=count)
    spans = slot_spans(start, stop, ring.spec.capacity)
    parts = [ring.array(weights)[first:end] for first, end in spans]
    held = parts[0] if len(parts) == 1 else np.concatenate(parts)
    return start + draw_weighted(held, _checked_sums(held, weights), count, generator)


def _checked_sums(weights: NDArray[Any], name: str) -> NDArray[np.float64]:
    if weights.ndim != 1 or weights.dtype.kind not in "iuf":
        raise FrameError(f"{name!r} cannot be used as weights: a scalar number is needed.")
    sums = block_sums(weights)
    if weights.min() < 0 or not np.isfinite(sums).all():
        raise FrameError(
            f"{name!r} cannot be used as weights: it holds negative numbers, NaN or infinity."
        )
    if not sums.any():
        raise EmptyBufferError(f"No frame can be drawn: {name!r} is zero for all of them.")
    return sums
