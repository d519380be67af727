"""The images of an episode, stored while it is recorded: one thread per camera."""

from __future__ import annotations

import threading
import time
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Protocol

from roboreel.errors import RecordingError, TooSlowError
from roboreel.image import encode_png
from roboreel.record.journal import RecordFile
from roboreel.record.totals import ImageSampler
from roboreel.video.encode import VideoWriter

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from roboreel.schema import Feature
    from roboreel.video.encode import Encoding

__all__ = ["Camera", "Cameras", "ImageFile", "PictureFile", "VideoFile"]


class ImageFile(Protocol):
    """Where the images of a camera go; used by one thread."""

    path: Path

    def write(self, image: NDArray[Any]) -> None:
        """Take the next image."""
        ...

    def finish(self) -> int:
        """Take no more; return how many images are stored."""
        ...


class VideoFile:
    """Images as video, in a file that can be read up to its last fragment at any moment."""

    def __init__(self, path: Path, shape: tuple[int, ...], fps: float, encoding: Encoding) -> None:
        self.path = path
        self._given = ((shape[0], shape[1]), fps, encoding)
        self._writer: VideoWriter | None = None

    def write(self, image: NDArray[Any]) -> None:
        """Encode the next image."""
        if self._writer is None:
            # Opened here, so that only the camera's own thread waits for it.
            size, fps, encoding = self._given
            self._writer = VideoWriter(
                self.path, size=size, fps=fps, encoding=encoding, fragmented=True
            )
        self._writer.write(image)

    def finish(self) -> int:
        """Wait for the encoder; return how many images came out of it."""
        if self._writer is None:
            return 0
        self._writer.close()
        return self._writer.images


class PictureFile:
    """Images as PNG, one record each."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = RecordFile(path)
        self._count = 0

    def write(self, image: NDArray[Any]) -> None:
        """Compress the next image."""
        self._file.append(encode_png(image))
        self._count += 1

    def finish(self) -> int:
        """Close the file; return how many images are in it."""
        self._file.close()
        return self._count


class Camera:
    """Stores the images of one camera in a thread of its own, in order and without gaps.

    Args:
        name: The feature.
        feature: What it is.
        file: Where the images go.
        capacity: How many images may wait.
        sample_every: One of this many images enters the statistics.
    """

    def __init__(
        self, name: str, feature: Feature, file: ImageFile, *, capacity: int, sample_every: int
    ) -> None:
        self.name = name
        self.file = file
        self.sampler = ImageSampler(feature, sample_every)
        self.error: BaseException | None = None
        self.count = 0
        """How many images are stored, known after `join`."""
        self._free = threading.Semaphore(capacity)
        self._waiting: SimpleQueue[NDArray[Any] | None] = SimpleQueue()
        self._given = 0
        self._done = 0
        self._start_s = time.monotonic()
        self._thread = threading.Thread(target=self._run, name=f"camera {name}", daemon=True)
        self._thread.start()

    def reserve(self, timeout_s: float) -> bool:
        """Wait for a free place in the queue; return whether there was one in time."""
        return self._free.acquire(timeout=max(0.0, timeout_s))

    def release(self) -> None:
        """Give back a place that was reserved."""
        self._free.release()

    def put(self, image: NDArray[Any]) -> None:
        """Hand over an image, for which a place was reserved."""
        self._given += 1
        self._waiting.put(image)

    def finish(self) -> None:
        """Tell the thread that no image follows."""
        self._waiting.put(None)

    def join(self) -> None:
        """Wait until all images are stored."""
        self._thread.join()

    def describe_rates(self) -> str:
        """Return how fast images came and were stored."""
        passed_s = max(time.monotonic() - self._start_s, 1e-9)
        size = self.file.path.stat().st_size if self.file.path.exists() else 0
        return (
            f"{self._given / passed_s:.1f} images/s came from {self.name!r}, "
            f"{self._done / passed_s:.1f}/s were stored, {size / passed_s / 1e6:.2f} MB/s"
        )

    def _run(self) -> None:
        while (image := self._waiting.get()) is not None:
            if self.error is None:
                self._take(image)
            # Also after an error, so that nobody waits for a place forever.
            self._free.release()
        try:
            self.count = self.file.finish()
        except Exception as error:  # noqa: BLE001  # raised by whoever waits for the thread
            self.error = self.error or error

    def _take(self, image: NDArray[Any]) -> None:
        try:
            self.file.write(image)
            self.sampler.take(image)
            self._done += 1
        except Exception as error:  # noqa: BLE001  # raised by whoever gives the next image
            self.error = error


class Cameras:
    """All cameras of an episode: each of them takes its image of a frame, or none does.

    Args:
        cameras: By feature.
        max_wait_s: How long `reserve` waits for a camera that falls behind.
    """

    def __init__(self, cameras: Mapping[str, Camera], *, max_wait_s: float) -> None:
        self._cameras = dict(cameras)
        self._max_wait_s = max_wait_s

    def reserve(self) -> None:
        """Wait until every camera has room for an image.

        Raises:
            TooSlowError: One has none for longer than the limit; no place is kept.
            RecordingError: One has failed.
        """
        self.check()
        deadline = time.monotonic() + self._max_wait_s
        reserved: list[Camera] = []
        for camera in self._cameras.values():
            if not camera.reserve(deadline - time.monotonic()):
                for other in reserved:
                    other.release()
                raise TooSlowError(
                    f"add_frame waited {self._max_wait_s:g} s for a full queue: "
                    f"{camera.describe_rates()}. This frame was not recorded, and no other was "
                    "dropped. Record fewer or smaller images, or choose a faster encoding or disk."
                )
            reserved.append(camera)

    def release(self) -> None:
        """Give back the places that were reserved."""
        for camera in self._cameras.values():
            camera.release()

    def put(self, images: Mapping[str, NDArray[Any]]) -> None:
        """Hand over an image for every camera; the arrays now belong to the cameras."""
        for name, camera in self._cameras.items():
            camera.put(images[name])

    def finish(self) -> dict[str, Camera]:
        """Wait until all cameras have stored their images, and return the cameras.

        Raises:
            RecordingError: One has failed.
        """
        self.stop()
        self.check()
        return self._cameras

    def stop(self) -> None:
        """Wait until the images that were handed over are stored, or have failed."""
        for camera in self._cameras.values():
            camera.finish()
        for camera in self._cameras.values():
            camera.join()

    def check(self) -> None:
        """Raise if a camera has failed."""
        for camera in self._cameras.values():
            if camera.error is not None:
                raise RecordingError(
                    f"The images of {camera.name!r} cannot be stored: {camera.error} "
                    "Discard this episode; the saved ones are safe."
                ) from camera.error
