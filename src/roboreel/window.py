"""Windows of time around a row. Arithmetic only."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np

from roboreel.errors import WindowError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["At", "Window", "window_rows"]

At: TypeAlias = Literal["exact", "nearest", "previous", "linear"]
"""What stands for a moment between two frames: nothing, the nearer frame, the frame before it, or
values in proportion between the two."""

# Added to any row number, such an offset stays far from the limits of int64.
_MAX_OFFSET = 2**31
_MAX_LENGTH = 2**20


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Window:
    """Offsets around an anchor, in frames or in seconds; order and repeats are kept.

    Raises:
        WindowError: There are no offsets, or they are not numbers of frames or seconds.

    Examples:
        >>> Window(frames=range(50))
        Window(frames=range(0, 50))
        >>> Window(seconds=(-0.1, 0.0)).offsets(fps=30)
        array([-3,  0])
        >>> Window(seconds=(-0.1, 0.0), at="nearest").offsets(fps=24)
        array([-2,  0])
    """

    frames: Iterable[int] | None = None
    """Offsets in frames: 0 is the anchor, negative offsets are before it. Kept as a tuple."""
    seconds: Iterable[float] | None = None
    """Offsets in seconds; multiples of ``1 / fps``, unless ``at`` is given. Kept as a tuple."""
    tolerance_s: float = 1e-4
    """How far an offset in seconds may be from a frame and still be that frame."""
    at: At = "exact"
    """What stands for a moment between two frames, for a dataset of another rate. ``"exact"``
    refuses it. Of two frames that are equally near, the earlier one is taken. ``"linear"`` is for
    floating-point features."""
    rotations: Literal["nearest", "linear"] = "nearest"
    """How elements that are angles or parts of quaternions, by their names, are taken with
    ``at="linear"``: halfway between 359 and 1 degrees is not 180."""

    def __post_init__(self) -> None:
        if (self.frames is None) == (self.seconds is None):
            raise WindowError(
                "A window has offsets either in frames or in seconds: write "
                "Window(frames=range(16)) or Window(seconds=(-0.1, 0.0))."
            )
        self._check_at()
        tolerance_s = _check_second(self.tolerance_s, "tolerance_s")
        if tolerance_s < 0:
            raise WindowError(f"tolerance_s is {tolerance_s}: give zero or more seconds.")
        object.__setattr__(self, "tolerance_s", tolerance_s)
        if self.frames is not None:
            frames = tuple(_check_frame(frame) for frame in _listed(self.frames, "frames"))
            object.__setattr__(self, "frames", frames)
        if self.seconds is not None:
            seconds = tuple(_check_second(s, "seconds") for s in _listed(self.seconds, "seconds"))
            object.__setattr__(self, "seconds", seconds)

    def __len__(self) -> int:
        return len(_listed(self.frames if self.seconds is None else self.seconds, "window"))

    def __repr__(self) -> str:
        if self.seconds is None:
            frames = _listed(self.frames, "frames")
            run = range(frames[0], frames[0] + len(frames))
            short = len(frames) > 2 and frames == tuple(run)
            return f"Window(frames={run if short else frames})"
        tolerance = "" if self.tolerance_s == 1e-4 else f", tolerance_s={self.tolerance_s}"
        at = "" if self.at == "exact" else f", at={self.at!r}"
        rotations = "" if self.rotations == "nearest" else f", rotations={self.rotations!r}"
        return f"Window(seconds={self.seconds}{tolerance}{at}{rotations})"

    def offsets(self, fps: float) -> NDArray[np.int64]:
        """Return the offsets in frames, ``(T,)``, in the order they were given.

        Raises:
            WindowError: An offset in seconds falls between two frames, and ``at`` does not say
                which of them to take.
        """
        offsets, fractions = self.places(fps)
        if fractions.any():
            raise WindowError(
                f"{self!r} falls between frames at {fps:g} fps, and values are not interpolated "
                "here. Use at='nearest' or at='previous'."
            )
        return offsets

    def places(self, fps: float) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the offsets in frames ``(T,)``, and how far on to the next frame each one is.

        The second is ``(T,)``, in ``[0, 1)``, and 0 unless ``at`` is ``"linear"``.

        Raises:
            WindowError: An offset in seconds falls between two frames, and ``at`` is ``"exact"``.
        """
        if self.seconds is None:
            return np.array(self.frames, dtype=np.int64), np.zeros(len(self))
        if not (math.isfinite(fps) and fps > 0):
            raise WindowError(f"Offsets in seconds need a rate: fps is {fps}.")
        seconds = np.array(self.seconds, dtype=np.float64)
        wanted = seconds * fps
        nearest = np.rint(wanted)
        between = np.abs(seconds - nearest / fps) > self.tolerance_s
        if self.at == "exact" and between.any():
            raise WindowError(_describe_between(seconds[between], nearest[between] / fps, fps))
        before = np.floor(wanted)
        between_frame = np.ceil(wanted - 0.5) if self.at == "nearest" else before
        offsets = np.where(between, between_frame, nearest)
        if np.abs(offsets).max() > _MAX_OFFSET:
            raise WindowError(
                f"{self!r} reaches further than {_MAX_OFFSET:,} frames at {fps:g} fps."
            )
        linear = between & (self.at == "linear")
        return offsets.astype(np.int64), np.where(linear, wanted - before, 0.0)

    def _check_at(self) -> None:
        if self.at not in get_args(At):
            raise WindowError(f"at is {self.at!r}: give one of {', '.join(get_args(At))}.")
        if self.at != "exact" and self.seconds is None:
            raise WindowError(f"at={self.at!r} is for offsets in seconds: frames are exact.")
        if self.rotations not in ("nearest", "linear"):
            raise WindowError(f"rotations is {self.rotations!r}: give 'nearest' or 'linear'.")
        if self.rotations == "linear" and self.at != "linear":
            raise WindowError("rotations='linear' goes with at='linear'.")


def window_rows(
    anchors: NDArray[np.int64],
    offsets: NDArray[np.int64],
    starts: NDArray[np.int64],
    stops: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the rows of one window around each anchor, and where rows are repeated.

    Args:
        anchors: Rows ``(B,)``.
        offsets: Frames from the anchor ``(T,)``, in any order.
        starts: First row of each anchor's episode, ``(B,)``.
        stops: The row right after each anchor's episode, ``(B,)``; episodes are not empty.

    Returns:
        Rows ``(B, T)``, with rows outside the episode replaced by its first or last row; and a
        mask ``(B, T)`` that is True where that was done.
    """
    wanted = anchors[:, None] + offsets[None, :]
    rows = np.maximum(wanted, starts[:, None])
    np.minimum(rows, stops[:, None] - 1, out=rows)
    return rows, rows != wanted


def _listed(offsets: object, name: str) -> tuple[Any, ...]:
    if isinstance(offsets, str | bytes) or not isinstance(offsets, Iterable):
        raise WindowError(f"{name} is {offsets!r}: give a sequence of numbers, such as (-1, 0).")
    # Cut off, so that a mistaken range(10**12) is refused before it fills the memory.
    listed = tuple(islice(offsets, _MAX_LENGTH + 1))
    if len(listed) > _MAX_LENGTH:
        raise WindowError(f"{name} has more than {_MAX_LENGTH:,} offsets: give fewer.")
    if not listed:
        raise WindowError(f"{name} is empty: a window has at least one offset; (0,) is the anchor.")
    return listed


def _check_frame(frame: object) -> int:
    try:
        if isinstance(frame, bool | np.bool_):
            raise TypeError
        offset = operator.index(frame)  # type: ignore[arg-type]  # that is the question
    except TypeError:
        raise WindowError(
            f"frames holds {frame!r}: offsets in frames are integers. "
            "Use Window(seconds=…) for time."
        ) from None
    if abs(offset) > _MAX_OFFSET:
        raise WindowError(f"frames holds {offset}: offsets are at most {_MAX_OFFSET:,} frames.")
    return offset


def _check_second(second: object, name: str) -> float:
    try:
        if isinstance(second, str | bytes | bool | np.bool_):
            raise TypeError
        value = float(second)  # type: ignore[arg-type]  # that is the question
    except (TypeError, ValueError, OverflowError):
        raise WindowError(f"{name} holds {second!r}: give a number of seconds.") from None
    if not math.isfinite(value):
        raise WindowError(f"{name} holds {value}: give a finite number of seconds.")
    return value


def _describe_between(
    seconds: NDArray[np.float64], nearest_s: NDArray[np.float64], fps: float
) -> str:
    pairs = [f"{s:.6g} s (nearest: {n:.6g} s)" for s, n in zip(seconds, nearest_s, strict=True)]
    listed = ", ".join(pairs[:5]) + (f" and {len(pairs) - 5} more" if len(pairs) > 5 else "")
    return (
        f"Between two frames at {fps:g} fps: {listed}. "
        "Give multiples of 1 / fps, say what to take with at='nearest', or count in frames: "
        "Window(frames=…)."
    )
