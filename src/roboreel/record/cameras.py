"""The images of an episode, stored while it is recorded: one thread per camera."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Protocol

from roboreel.errors import RecordingError, TooSlowError
from roboreel.image import encode_depth, encode_png
from roboreel.record.encoded import EncodedImage, EncodedPacket
from roboreel.record.journal import RecordFile
from roboreel.stats import ImageSampler
from roboreel.video.encode import VideoWriter
from roboreel.video.packet_file import PacketWriter, ShownImage

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from roboreel.schema import Depth, Feature
    from roboreel.video.encode import Encoding

    Image = NDArray[Any] | EncodedImage | EncodedPacket
    """An image as it is handed over."""


class ImageFile(Protocol):
    """Where the images of a camera go; used by one thread."""

    path: Path

    def write(self, image: Image) -> None:
        """Take the next image."""
        ...

    def finish(self) -> int:
        """Take no more; return how many images are stored."""
        ...


class VideoFile:
    """Images as video, in a file that can be read up to its last fragment at any moment.

    Packets are stored as they come, others are encoded: an episode has either.
    """

    def __init__(self, path: Path, shape: tuple[int, ...], fps: float, encoding: Encoding) -> None:
        self.path = path
        self._given = ((shape[0], shape[1]), fps, encoding)
        self._writer: VideoWriter | PacketWriter | None = None
        self._shown: list[ShownImage] = []

    def write(self, image: Image) -> None:
        """Encode the next image, or store its packet."""
        size, fps, encoding = self._given
        # Opened here, so that only the camera's own thread waits for it.
        if self._writer is None and isinstance(image, EncodedPacket):
            self._writer = PacketWriter(self.path, codec=image.codec, size=size, fps=fps)
        elif self._writer is None:
            self._writer = VideoWriter(
                self.path, size=size, fps=fps, encoding=encoding, fragmented=True
            )
        if isinstance(self._writer, PacketWriter) != isinstance(image, EncodedPacket):
            raise RecordingError("An episode has packets or images of a camera, not both.")
        if isinstance(self._writer, PacketWriter) and isinstance(image, EncodedPacket):
            self._shown += self._writer.write(image.data, keyframe=image.keyframe)
        elif isinstance(self._writer, VideoWriter) and not isinstance(image, EncodedPacket):
            self._writer.write(image.decode() if isinstance(image, EncodedImage) else image)

    def take_shown(self) -> list[ShownImage]:
        """Return the images of packets that came out of the decoder since the last call."""
        shown, self._shown = self._shown, []
        return shown

    def finish(self) -> int:
        """Wait for the encoder; return how many images came out of it."""
        if self._writer is None:
            return 0
        if isinstance(self._writer, PacketWriter):
            self._shown += self._writer.finish()
        else:
            self._writer.close()
        return self._writer.images


class PictureFile:
    """Images one record each: PNG, and TIFF for depth in metres; encoded ones as they come."""

    def __init__(self, path: Path, depth: Depth | None = None) -> None:
        self.path = path
        self._file = RecordFile(path)
        self._depth = depth
        self._count = 0

    def write(self, image: Image) -> None:
        """Compress the next image, unless it is."""
        if isinstance(image, EncodedPacket):
            raise RecordingError("Packets are stored as video only.")
        if isinstance(image, EncodedImage):
            encoded = image.data
        elif self._depth is None:
            encoded = encode_png(image)
        else:
            encoded = encode_depth(image, self._depth.unit)
        self._file.append(encoded)
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
        # Queues and locks of C alone: Ctrl-C cannot leave them half changed.
        self._waiting: SimpleQueue[tuple[int, Image] | None] = SimpleQueue()
        self._left: SimpleQueue[None] = SimpleQueue()
        self._capacity = capacity
        self._taken = 0
        self._start_s = time.monotonic()
        self._running = threading.Lock()
        self._running.acquire()
        threading.Thread(target=self._run, name=f"camera {name}", daemon=True).start()

    def has_room(self, number: int, deadline_s: float) -> bool:
        """Wait until an image, given by its number, has a place; return whether it got one."""
        with suppress(Empty):
            while number - self._taken >= self._capacity:
                self._left.get(timeout=max(0.0, deadline_s - time.monotonic()))
            return True
        return False

    def put(self, number: int, image: Image) -> None:
        """Hand over an image by its number; handing over the same one again does nothing."""
        self._waiting.put((number, image))

    def finish(self) -> None:
        """Tell the thread that no image follows."""
        self._waiting.put(None)

    def join(self) -> None:
        """Wait until all images are stored."""
        with self._running:
            pass

    def describe_rates(self, given: int) -> str:
        """Return how fast images came and were stored, as a sentence."""
        passed_s = max(time.monotonic() - self._start_s, 1e-9)
        size = self.file.path.stat().st_size if self.file.path.exists() else 0
        return (
            f"{given / passed_s:.1f} images/s came from {self.name!r}, "
            f"{self._taken / passed_s:.1f}/s were stored, {size / passed_s / 1e6:.2f} MB/s"
        )

    def _run(self) -> None:
        while (given := self._waiting.get()) is not None:
            number, image = given
            if number == self._taken:
                if self.error is None:
                    self._take(image)
                # Also after an error, so that nobody waits for a place forever.
                self._taken += 1
                self._left.put(None)
        try:
            self.count = self.file.finish()
            self._sample_shown()
        except Exception as error:  # noqa: BLE001  # raised by whoever waits for the thread
            self.error = self.error or error
        self._running.release()

    def _take(self, image: Image) -> None:
        try:
            self.file.write(image)
            if not isinstance(image, EncodedPacket):
                self.sampler.take(image)
            self._sample_shown()
        except Exception as error:  # noqa: BLE001  # raised by whoever gives the next image
            self.error = error

    def _sample_shown(self) -> None:
        """Show the images of packets to the statistics; they come when the decoder has them."""
        if isinstance(self.file, VideoFile):
            for shown in self.file.take_shown():
                self.sampler.take(shown)


class Cameras:
    """All cameras of an episode: each of them takes its image of a frame, or none does.

    Args:
        cameras: By feature.
        max_wait_s: How long `wait_for_room` waits for a camera that falls behind.
    """

    def __init__(self, cameras: Mapping[str, Camera], *, max_wait_s: float) -> None:
        self._cameras = dict(cameras)
        self._max_wait_s = max_wait_s

    def wait_for_room(self, number: int) -> None:
        """Wait until every camera has room for the images of a frame.

        Raises:
            TooSlowError: One has none for longer than the limit.
            RecordingError: One has failed.
        """
        self.check()
        deadline_s = time.monotonic() + self._max_wait_s
        for camera in self._cameras.values():
            if not camera.has_room(number, deadline_s):
                raise TooSlowError(
                    f"add_frame waited {self._max_wait_s:g} s for a full queue: "
                    f"{camera.describe_rates(number)}. This frame was not recorded, and no other "
                    "was dropped. Record fewer or smaller images, or choose a faster encoding or "
                    "disk."
                )

    def put(self, number: int, images: Mapping[str, Image]) -> None:
        """Hand over the images of a frame, which now belong to the cameras.

        Handing over the same frame again does nothing: what an interrupt broke off is completed so.
        """
        for name, camera in self._cameras.items():
            camera.put(number, images[name])

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
                    f"The images of {camera.name!r} cannot be stored: {camera.error} Discard this "
                    "episode, or close: resume_dataset keeps its frames that have all their images. "
                    "The saved episodes are safe."
                ) from camera.error
