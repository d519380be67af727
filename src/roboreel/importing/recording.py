"""The nouns of importing: a recording of another format, its streams and its episodes."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from roboreel.errors import FeatureError, SourceError
from roboreel.image import image_size
from roboreel.schema import Feature

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

    import numpy as np
    from numpy.typing import NDArray

    Values = NDArray[Any] | list[bytes] | list[str]
    """Values of a stream, one after the other: see `Stream.kind`."""

StreamKind = Literal["numbers", "text", "images", "pictures", "packets", "video", "other"]
"""What the values of a stream are:

* ``numbers``: arrays of ``dtype`` and ``shape``.
* ``text``: texts.
* ``images``: pixels, arrays ``(H, W, C)`` of ``dtype``: uint8, or for depth uint16 or float32.
* ``pictures``: images that are encoded one by one, as the bytes of a PNG or JPEG file.
* ``packets``: images that are encoded as video, one packet of bytes each; see `Recording.keyframes`.
* ``video``: images of a video file, one file for each episode; see `Recording.video_path`.
* ``other``: what cannot become a feature. Its times are known, so it can mark episodes.
"""

Clock = Literal["log", "header"]
"""When a value was written to the file, or when it came to be, as its own header says."""


@dataclass(frozen=True, slots=True)
class Stream:
    """A named series of values of one kind.

    Raises:
        SourceError: The kind needs a dtype, a shape, a codec or a unit that is not given or not known.
    """

    name: str
    """Unique in the recording. A part of a topic's messages is named ``topic:part``, such as
    ``/joint_states:position``; all streams of one topic have the same times."""
    kind: StreamKind
    dtype: str = ""
    """Of the elements of ``numbers``, and of pixels: a NumPy name, such as ``float32``. Empty for
    ``text`` and ``other``."""
    shape: tuple[int, ...] = ()
    """Of one value: ``()`` for a scalar, ``(H, W, C)`` for every kind of image."""
    names: tuple[str, ...] | None = None
    """Names of the elements of a value, in the order of their storage: joints, axes, fields."""
    codec: str | None = None
    """For ``packets``: ``h264``, ``hevc`` or ``av1``. For ``video`` as FFmpeg calls it."""
    depth_unit: str | None = None
    """What one step of a depth image is: ``mm`` or ``m``. None for what is not depth."""
    clocks: tuple[Clock, ...] = ("log",)
    """Which times its values have; of a recording that is not `timed`, ignored."""
    source_type: str = ""
    """What the file itself calls the type: ``sensor_msgs/msg/JointState``, ``<f8``."""
    note: str = ""
    """A sentence for people: why it is ``other``, or what is peculiar to it."""

    def __post_init__(self) -> None:
        if self.is_camera and (len(self.shape) != 3 or min(self.shape) < 1 or not self.dtype):
            raise SourceError(
                f"The images of {self.name!r} have the impossible shape {self.shape}."
            )
        try:
            if self.kind == "numbers":
                Feature(self.dtype, self.shape)
        except FeatureError as error:
            raise SourceError(f"The stream {self.name!r} is not numbers: {error}") from error
        if self.kind == "packets" and self.codec not in ("h264", "hevc", "av1"):
            raise SourceError(
                f"The video packets of {self.name!r} are {self.codec!r}: h264, hevc and av1 are read."
            )
        if self.depth_unit not in (None, "mm", "m"):
            raise SourceError(
                f"The depth of {self.name!r} is in {self.depth_unit!r}: mm and m are known."
            )

    @property
    def is_camera(self) -> bool:
        """Whether its values are images, in any form."""
        return self.kind in ("images", "pictures", "packets", "video")

    @property
    def topic(self) -> str:
        """The name without the part of the message: ``/joint_states``."""
        return self.name.partition(":")[0]


@dataclass(frozen=True, slots=True)
class SourceEpisode:
    """An episode as the recording has it. The mapping may cut it into several."""

    name: str
    """Unique in the recording, and the same whenever it is opened: ``demo_3``, ``17``."""
    length: int | None = None
    """How many steps it has; None in a recording that is `timed`."""
    task: str | None = None
    """What the robot does, in words, if the recording says so for the whole episode."""
    metadata: Mapping[str, bool | int | float | str] = field(default_factory=dict, hash=False)
    """What else the recording says of it: its split, its success, its operator."""


class Recording(ABC):
    """A recording of another format, open to be read; a context manager, for one thread at a time.

    There are two kinds. In a recording of steps (HDF5, Zarr, RLDS) every stream has one value for each
    step of an episode, and value ``i`` belongs to step ``i``. In a recording that is *timed* (bags,
    MCAP) each stream has values of its own number and times, which importing aligns.

    Opening reads the table of contents only. Whatever its size, a recording holds in memory no more
    than its contents, the times of its values, the values that were asked for, and one block or
    chunk of the file. What is wrong with the file raises a `DatasetError` with the file's path.

    Args:
        path: What was opened: a file, or a folder that is one recording.
        layout: What it was recognised as: ``act``, ``robomimic``, ``rlds``, ``mcap``, …
        streams: By name, in the order of the file.
        episodes: In the order of the file.
        timed: Whether streams have times of their own.
        fps: Steps per second, if the file says or the layout implies; None if that is not known.
        fps_reason: Where the rate comes from, in words: ``the layout act``, ``its timestamps``.
    """

    def __init__(
        self,
        path: Path,
        layout: str,
        streams: Mapping[str, Stream],
        episodes: Sequence[SourceEpisode],
        *,
        timed: bool = False,
        fps: float | None = None,
        fps_reason: str = "",
    ) -> None:
        self.path = path
        self.layout = layout
        self.streams = dict(streams)
        self.episodes = tuple(episodes)
        self.timed = timed
        self.fps = fps
        self.fps_reason = fps_reason
        self.remarks: tuple[str, ...] = ()
        """Sentences on what is wrong with the file and was tolerated, such as a missing index."""

    def count(self, episode: int, stream: str) -> int:
        """Return how many values a stream has in an episode, by its position in `episodes`."""
        self.stream(stream)
        return self.episodes[episode].length or 0

    def times(self, episode: int, stream: str, clock: Clock = "log") -> NDArray[np.int64]:
        """Return when each value was, ``(count,)``, in nanoseconds since any one moment.

        All streams of an episode count from the same moment. Values are in the order of the file;
        their times are as stored, so they may repeat or jump back.

        Args:
            episode: Its position in `episodes`.
            stream: Its name.
            clock: One of the stream's `Stream.clocks`; ``log`` is always there.

        Raises:
            SourceError: The recording is not `timed`, or the stream has no such clock.
        """
        raise SourceError(f"{stream!r} has no times of its own: {str(self.path)!r}.")

    def read(self, episode: int, wanted: Mapping[str, NDArray[np.int64]]) -> dict[str, Values]:
        """Return values of several streams at once, so that each block of the file is read once.

        Args:
            episode: Its position in `episodes`.
            wanted: By stream, the positions of values in ``[0, count)``, ascending; repeats are
                allowed. Callers ask for neighbouring moments, and go forward.

        Returns:
            By stream, the values at these positions, in that order: an array ``(N, *shape)`` of
            the stream's dtype for ``numbers`` and ``images``, a list of bytes for ``pictures`` and
            ``packets``, a list of texts for ``text``. They belong to the caller.

        Raises:
            SourceError: A stream is not there, has no such value, or is ``video`` or ``other``.
            CorruptFileError: The file is damaged there.
        """
        self._check_wanted(episode, wanted)
        return self._read(episode, wanted)

    @abstractmethod
    def _read(self, episode: int, wanted: Mapping[str, NDArray[np.int64]]) -> dict[str, Values]:
        """Return values that are there: see `read`."""

    def keyframes(self, episode: int, stream: str) -> NDArray[np.bool_]:
        """Return for each value of a stream of ``packets`` whether decoding can start there.

        A packet is one whole access unit: H.264 and HEVC in Annex B form (start codes), with the
        parameter sets in front of each keyframe; AV1 a temporal unit of OBUs. Each packet shows one
        image, and images are shown in the order of the packets.

        Raises:
            SourceError: The stream does not hold packets.
        """
        raise SourceError(f"{stream!r} does not hold video packets: {str(self.path)!r}.")

    def video_path(self, episode: int, stream: str) -> Path:
        """Return the file that holds the images of an episode, for a stream of ``video``.

        Value ``i`` is the image number ``i`` of the file, in the order of presentation.

        Raises:
            SourceError: The stream is not a video file.
        """
        raise SourceError(f"{stream!r} is not a video file: {str(self.path)!r}.")

    @abstractmethod
    def close(self) -> None:
        """Close the file; closing twice does nothing."""

    def stream(self, name: str) -> Stream:
        """Return a stream by its name.

        Raises:
            SourceError: It is not there.
        """
        if name not in self.streams:
            raise SourceError(
                f"There is no stream {name!r}: there are {', '.join(self.streams)}, in {str(self.path)!r}."
            )
        return self.streams[name]

    def _check_wanted(self, episode: int, wanted: Mapping[str, NDArray[np.int64]]) -> None:
        if not 0 <= episode < len(self.episodes):
            raise SourceError(
                f"There is no episode {episode}: there are {len(self.episodes)}, in {str(self.path)!r}."
            )
        for name, positions in wanted.items():
            stream, count = self.stream(name), self.count(episode, name)
            if stream.kind in ("video", "other"):
                raise SourceError(f"{name!r} has no values to read: {stream.note or stream.kind}")
            if len(positions) and not (positions[0] >= 0 and positions[-1] < count):
                raise SourceError(
                    f"{name!r} has {count} values in episode {self.episodes[episode].name!r}: "
                    f"{positions[0]} to {positions[-1]} were asked for, in {str(self.path)!r}."
                )

    def __enter__(self) -> Recording:  # noqa: PYI034  # typing.Self is younger than 3.10
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({str(self.path)!r}, {self.layout}, {len(self.episodes)} episodes, "
            f"{len(self.streams)} streams)"
        )


TASK_NAMES = (
    "language_instruction",
    "natural_language_instruction",
    "instruction",
    "task",
    "task_description",
    "language",
    "language_raw",
    "prompt",
    "current_task",
)
"""Names under which files keep the task in words, the most telling first."""


def natural_key(name: str) -> tuple[tuple[int, int | str], ...]:
    """Return a key that sorts ``demo_10`` behind ``demo_9``.

    Examples:
        >>> sorted(["demo_10", "demo_9"], key=natural_key)
        ['demo_9', 'demo_10']
    """
    parts = re.split(r"(\d+)", name)
    return tuple((1, int(part)) if part.isdigit() else (0, part) for part in parts if part)


def picture_stream(name: str, data: bytes) -> Stream:
    """Return the stream of encoded pictures, JPEG or PNG, of which this is the first.

    Raises:
        CorruptFileError: It is not a picture.
    """
    size = tuple(image_size(data))
    is_png = data.startswith(b"\x89PNG")
    is_depth = is_png and data[24] == 16 and size[2] == 1
    return Stream(
        name,
        "pictures",
        "uint16" if is_depth else "uint8",
        size,
        depth_unit="mm" if is_depth else None,
        source_type="PNG" if is_png else "JPEG",
        note="Depth of 16 bits is taken for millimetres." if is_depth else "",
    )
