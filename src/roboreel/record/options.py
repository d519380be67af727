"""How to record, as one value."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from roboreel.errors import RecordingError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from typing_extensions import TypedDict

    from roboreel.format.limits import FileSizes
    from roboreel.video.encoding import Encoding

    Encodings = Encoding | Mapping[str, Encoding]

    class RecordingKeywords(TypedDict, total=False):
        """The fields of `RecordingOptions`, as keywords."""

        encoding: Encodings | None
        nan_allowed: Collection[str]
        queue_s: float
        max_wait_s: float
        compact_on_close: bool
        files: FileSizes | None


CameraKind = Literal["video", "image"]
"""Whether images are stored as video, or one by one in Parquet."""


@dataclass(frozen=True, slots=True)
class RecordingOptions:
    """How to record; `create_dataset` and `resume_dataset` take the fields as keywords too.

    Examples:
        >>> RecordingOptions(queue_s=2.0).max_wait_s
        5.0

    Raises:
        RecordingError: A duration is negative or infinite, or ``nan_allowed`` is a single text.
    """

    encoding: Encodings | None = None
    """How images become video: one for all cameras, or one for each by name. None keeps the codec
    that the dataset has; in a new one it is AV1, and lossless 12-bit HEVC for depth."""
    nan_allowed: Collection[str] = ()
    """Features whose values may be NaN or infinite."""
    queue_s: float = 1.0
    """Seconds of images that may wait for a camera's encoder, in memory."""
    max_wait_s: float = 5.0
    """How long `Recorder.add_frame` waits while a queue is full before it raises."""
    compact_on_close: bool = True
    """Whether `Recorder.close` joins small files."""
    files: FileSizes | None = None
    """How large the files become when they are joined; None keeps what the dataset says."""

    def __post_init__(self) -> None:
        for name in ("queue_s", "max_wait_s"):
            seconds = getattr(self, name)
            if not (math.isfinite(seconds) and seconds >= 0):
                raise RecordingError(f"{name} is {seconds}: give seconds, 0 or more.")
        if isinstance(self.nan_allowed, str):
            raise RecordingError(
                f"nan_allowed is {self.nan_allowed!r}: give a list of features, "
                f"[{self.nan_allowed!r}]."
            )


def choose_options(
    options: RecordingOptions | None, keywords: RecordingKeywords
) -> RecordingOptions:
    """Return the options with the given keywords in place of their fields."""
    return replace(options or RecordingOptions(), **keywords)
