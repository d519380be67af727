"""The frames that a replay buffer holds at one moment, as training samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.errors import FeatureNotFoundError, SampleError
from roboreel.format.counters import TASK_NUMBER
from roboreel.image import from_channels_last
from roboreel.numbers import inside, whole_numbers
from roboreel.replay.sampling import gather, window_offsets
from roboreel.sample_spec import spec_of
from roboreel.video.scale import fit_picture

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from roboreel.replay.buffer import ReplayBuffer
    from roboreel.replay.ring import Snapshot
    from roboreel.sample_spec import SampleSpec
    from roboreel.schema import Feature


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
        ring, snapshot = self._buffer._ring, self._snapshot
        offsets = window_offsets(ring.spec, spec.windows)
        drawn = gather(ring, snapshot, wanted + snapshot.start, names, offsets)
        gone = wanted + snapshot.tail < ring.header().tail
        if gone.any():
            raise SampleError(
                f"Frame {int(wanted[gone][0])} has left the buffer, which is being written. Make a "
                f"new loader, or use ReplayBuffer.sample: {str(self.path)!r}"
            )
        batch: dict[str, Any] = {
            name: self._shaped(name, ring.slots[name].decode(drawn.pop(name)), spec)
            for name in names
        }
        slots = drawn.pop("row")
        if self._text_names and (spec.features is None or "task" in spec.features):
            numbers = ring.slots[TASK_NUMBER].fetch(slots)
            batch["task"] = [self._buffer.tasks.get(int(number), "") for number in numbers]
        return batch | drawn

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
        return np.ascontiguousarray(from_channels_last(values, spec.layout))
