"""The frames that a replay buffer holds at one moment, as training samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.errors import FeatureNotFoundError, SampleError
from roboreel.format.counters import TASK_NUMBER
from roboreel.numbers import inside, whole_numbers
from roboreel.replay.sampling import window_offsets
from roboreel.sample_spec import spec_of
from roboreel.video.scale import fit_picture
from roboreel.window import window_rows

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from roboreel.replay.buffer import ReplayBuffer
    from roboreel.replay.ring import Snapshot
    from roboreel.sample_spec import SampleSpec
    from roboreel.schema import Feature

__all__ = ["ReplaySource"]


class ReplaySource:
    """The complete episodes at one moment, oldest first.

    Frames that leave the ring afterwards cannot be read: a loader is for a buffer that rests, and
    `ReplayBuffer.sample` for one that is being written.
    """

    robot_type: str | None = None
    stats: Mapping[str, Any] = {}
    """A buffer has no statistics."""

    def __init__(self, buffer: ReplayBuffer, snapshot: Snapshot) -> None:
        self._buffer = buffer
        self._snapshot = snapshot

    @property
    def features(self) -> Mapping[str, Feature]:
        """What every frame has."""
        return self._buffer.features

    @property
    def path(self) -> Path:
        """The folder of the buffer."""
        return self._buffer.path

    @property
    def episode_bounds(self) -> NDArray[np.int64]:
        """Samples of the i-th episode are ``[bounds[i], bounds[i + 1])``."""
        return np.asarray(self._snapshot.starts - self._snapshot.tail, np.int64)

    @property
    def _text_names(self) -> tuple[str, ...]:
        return ("task",) if self._buffer.tasks and TASK_NUMBER in self.features else ()

    def __len__(self) -> int:
        return self._snapshot.num_rows

    def __repr__(self) -> str:
        return f"ReplaySource({self._buffer!r})"

    def read(self, samples: NDArray[np.int64], spec: SampleSpec | None = None, /) -> dict[str, Any]:
        """Return a batch of frames and windows, each ``(B, …)`` or ``(B, T, …)``.

        Raises:
            FeatureNotFoundError: A feature does not exist.
            SampleError: A frame has left the buffer.
        """
        spec = spec_of(spec)
        names = self._checked(spec)
        wanted = inside(whole_numbers(samples, "sample"), len(self), "sample")
        ring, anchors = self._buffer._ring, wanted + self._snapshot.tail
        fetched, masks = self._fetch(anchors, names, spec)
        gone = anchors < ring.header().tail
        if gone.any():
            raise SampleError(
                f"Frame {int(wanted[gone][0])} has left the buffer, which is being written. Make a "
                f"new loader, or use ReplayBuffer.sample: {str(self.path)!r}"
            )
        batch: dict[str, Any] = {
            name: self._shaped(name, ring.slots[name].decode(v), spec)
            for name, v in fetched.items()
        }
        if self._text_names and (spec.features is None or "task" in spec.features):
            numbers = ring.slots[TASK_NUMBER].fetch(anchors % self._buffer.capacity)
            batch["task"] = [self._buffer.tasks.get(int(number), "") for number in numbers]
        return batch | masks

    def _checked(self, spec: SampleSpec) -> list[str]:
        asked = tuple(self.features) if spec.features is None else spec.features
        names = [
            n for n in dict.fromkeys((*asked, *spec.windows)) if n != "task" or n in self.features
        ]
        for name in names:
            if name not in self.features:
                raise FeatureNotFoundError(
                    f"No feature {name!r}: there are {', '.join(self.features)}, in {str(self.path)!r}."
                )
        return names

    def _fetch(
        self, anchors: NDArray[np.int64], names: list[str], spec: SampleSpec
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return what the ring holds for each feature, not yet decoded, and the masks of windows."""
        ring, snapshot = self._buffer._ring, self._snapshot
        episodes = snapshot.starts.searchsorted(anchors, side="right")
        starts, stops = snapshot.starts[episodes - 1], snapshot.starts[episodes]
        offsets = window_offsets(ring.spec, spec.windows)
        fetched: dict[str, Any] = {}
        masks: dict[str, Any] = {}
        for name in names:
            rows = anchors
            if name in offsets:
                rows, masks[f"{name}_is_pad"] = window_rows(anchors, offsets[name], starts, stops)
            fetched[name] = ring.slots[name].fetch(rows % ring.spec.capacity)
        return fetched, masks

    def _shaped(self, name: str, values: NDArray[Any], spec: SampleSpec) -> NDArray[Any]:
        """Return images in the size and the order of axes that are wanted; numbers as they are."""
        if not self.features[name].is_camera:
            return values
        if spec.image_size is not None and values.shape[-3:-1] != spec.image_size:
            flat = values.reshape(-1, *values.shape[-3:])
            scaled = np.empty((len(flat), *spec.image_size, flat.shape[-1]), values.dtype)
            for place, pixels in enumerate(flat):
                scaled[place] = fit_picture(pixels, spec.image_size, spec.fit)
            values = scaled.reshape(*values.shape[:-3], *scaled.shape[1:])
        if spec.layout == "chw":
            values = np.ascontiguousarray(np.moveaxis(values, -1, -3))
        return values
