"""Checks of time: whether timestamps advance as the frames do."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from roboreel.check.checks import Scan
from roboreel.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from roboreel.check.data_file import DataFile, StoredEpisode
    from roboreel.findings import Finding, Severity

_TIME, _FRAME = "timestamp", "frame_index"
# What LeRobot forgives when it looks for the image of a moment.
_TOLERANCE_S = 1e-4


class Timestamps(Scan):
    """Whether the timestamps of each episode are ``frame_index / fps``."""

    codes = ("RR301", "RR302", "RR303", "RR304")

    def file(self, file: DataFile) -> Iterator[Finding]:
        """Compare each timestamp with the moment of its frame."""
        counter, spans = file.counter(_TIME), file.spans
        if counter is None or not len(spans):
            return
        stored, nulls = counter.values[spans.rows], counter.nulls[spans.rows]
        frames = self._frames(file)
        moments = frames / self.context.manifest.fps
        # Hours of float32 seconds are coarser than the tolerance.
        grain = 2 * np.spacing(np.abs(stored)) if stored.dtype.kind == "f" else 0.0
        off = ~(np.abs(stored.astype(np.float64) - moments) <= _TOLERANCE_S + grain)
        for episode, _ in spans.where(off & ~nulls):
            if counter.nulls[episode.start : episode.stop].any():
                continue  # RR212
            times = counter.values[episode.start : episode.stop].astype(np.float64)
            times = times[np.argsort(frames[episode.inside], kind="stable")]
            if np.isfinite(times).all():  # otherwise RR601 and RR602
                yield from self._of_episode(episode, times)

    def _frames(self, file: DataFile) -> NDArray[np.int64]:
        """Return the frame of each row of the spans: by its own count where that is sound."""
        spans, counter = file.spans, file.counter(_FRAME)
        frames = spans.frames.copy()
        if counter is None:
            return frames
        own = counter.values[spans.rows]
        for episode, _ in spans.where(own != frames):
            inside = episode.inside
            if np.array_equal(np.sort(own[inside]), frames[inside]):
                frames[inside] = own[inside]
        return frames

    def _of_episode(self, episode: StoredEpisode, times: NDArray[np.float64]) -> Iterator[Finding]:
        # Without video no image is looked for by time.
        severity: Severity = "error" if self.context.manifest.video_files else "warning"
        for fault in _judge(times, self.context.manifest.fps):
            yield episode.finding(
                fault.code,
                f"Episode {episode.number}: {fault.says}.",
                *fault.frames,
                severity="note" if fault.code == "RR304" else severity,
                feature=_TIME,
            )


class _Fault(NamedTuple):
    code: str
    says: str
    frames: tuple[int, int]


def _judge(times: NDArray[np.float64], fps: float) -> list[_Fault]:
    """Return what is wrong with the timestamps of an episode, in the order of its frames."""
    steps, period = np.diff(times), 1 / fps
    if (steps <= 0).any():
        return [_back(times, np.flatnonzero(steps <= 0))]
    typical = float(np.median(steps)) if len(steps) else period
    faults = []
    everywhere = (0, len(times))
    if abs(times[0]) > period / 2:
        says = f"the timestamps start at {times[0]:.4f} s, not at 0"
        faults.append(_Fault("RR303", says, everywhere))
    if abs(typical - period) * len(steps) > period / 2:
        says = (
            f"the timestamps advance by {typical:.5f} s per frame, {1 / typical:.4g} frames per "
            f"second, but info.json says {fps:g}"
        )
        faults.append(_Fault("RR303", says, everywhere))
    gaps = np.flatnonzero(steps > 1.5 * typical)
    if len(gaps):
        says = (
            f"the timestamps jump at {counted(len(gaps), 'frame')}, first by "
            f"{steps[gaps[0]]:.4f} s at frame {gaps[0] + 1}; a frame lasts {typical:.4f} s"
        )
        faults.append(_Fault("RR301", says, (int(gaps[0]) + 1, int(gaps[-1]) + 2)))
    return faults or [_away(times, period)]


def _back(times: NDArray[np.float64], places: NDArray[np.int64]) -> _Fault:
    first = int(places[0])
    says = (
        f"the timestamps do not increase at {counted(len(places), 'frame')}, first from "
        f"{times[first]:.4f} s to {times[first + 1]:.4f} s at frame {first + 1}"
    )
    return _Fault("RR302", says, (first + 1, int(places[-1]) + 2))


def _away(times: NDArray[np.float64], period: float) -> _Fault:
    worst = float(np.abs(times - np.arange(len(times)) * period).max())
    says = f"the timestamps are up to {worst:.4f} s away from frame_index / fps"
    if worst > period / 2:
        return _Fault("RR303", f"{says}, which is more than half a frame", (0, len(times)))
    return _Fault("RR304", says, (0, len(times)))


SCANS: tuple[type[Scan], ...] = (Timestamps,)
