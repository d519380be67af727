"""The values of one feature of a ring: a mapped file of slots of equal size."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.errors import CorruptFileError, FrameError
from roboreel.image import decode_image, encode_jpeg

if TYPE_CHECKING:
    from io import FileIO
    from pathlib import Path

    from numpy.typing import NDArray

    from roboreel.schema import Feature

_LENGTH = np.dtype("<u4")


class NumberSlots:
    """Numbers, and images as they are: an array of all slots."""

    def __init__(self, path: Path, feature: Feature, capacity: int) -> None:
        self.path = path
        shape = (capacity, *feature.value_shape)
        self._map = np.memmap(path, feature.numpy_dtype, mode="r+", shape=shape)
        self.values: NDArray[Any] = np.asarray(self._map)

    def encode(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the values themselves, contiguous."""
        return np.ascontiguousarray(values)

    def write(self, file: FileIO, slot: int, encoded: list[bytes] | NDArray[Any]) -> None:
        """Write values into consecutive slots."""
        array = np.asarray(encoded)
        write_at(file, slot * self.values[0].nbytes, array.reshape(-1).view(np.uint8).data)

    def fetch(self, places: NDArray[np.int64]) -> NDArray[Any]:
        """Return a copy of the values."""
        return self.values.take(places, axis=0, mode="wrap")

    def decode(self, fetched: NDArray[Any]) -> NDArray[Any]:
        """Return what was fetched: it needs no decoding."""
        return fetched

    def flush(self) -> None:
        """Wait until what was changed through the map is on the disk."""
        self._map.flush()


class JpegSlots:
    """Images as JPEG, each in its own slot: a length, then the picture."""

    def __init__(self, path: Path, feature: Feature, capacity: int, slot_bytes: int) -> None:
        self.path = path
        self._shape = feature.shape
        self._slot_bytes = slot_bytes
        self._slots = np.memmap(path, np.uint8, mode="r+", shape=(capacity, slot_bytes))

    def encode(self, values: NDArray[Any]) -> list[bytes]:
        """Return each image as its length and its JPEG."""
        encoded = []
        for image in values:
            picture = encode_jpeg(image)
            if len(picture) + _LENGTH.itemsize > self._slot_bytes:
                raise FrameError(
                    f"An image takes {len(picture):,} bytes as JPEG, and its slot has "
                    f"{self._slot_bytes:,}: declare the feature as 'uint8' to store it as it is."
                )
            encoded.append(np.array(len(picture), _LENGTH).tobytes() + picture)
        return encoded

    def write(self, file: FileIO, slot: int, encoded: list[bytes] | NDArray[Any]) -> None:
        """Write pictures into consecutive slots."""
        for number, picture in enumerate(encoded, start=slot):
            write_at(file, number * self._slot_bytes, picture)

    def fetch(self, places: NDArray[np.int64]) -> NDArray[Any]:
        """Return the encoded pictures as an array of objects; equal places share one."""
        unique, inverse = np.unique(places % len(self._slots), return_inverse=True)
        pictures = np.empty(len(unique), dtype=object)
        for number, slot in enumerate(unique.tolist()):
            data = self._slots[slot]
            length = int(data[: _LENGTH.itemsize].view(_LENGTH)[0])
            pictures[number] = data[_LENGTH.itemsize :][:length].tobytes()
        return pictures[inverse.reshape(places.shape)]

    def decode(self, fetched: NDArray[Any]) -> NDArray[Any]:
        """Return the images; a picture that is needed in several places is decoded once."""
        images = np.empty((*fetched.shape, *self._shape), np.uint8)
        flat = images.reshape(-1, *self._shape)
        decoded: dict[int, int] = {}
        for number, picture in enumerate(fetched.reshape(-1)):
            first = decoded.setdefault(id(picture), number)
            flat[number] = flat[first] if first < number else self._decode_one(picture)
        return images

    def _decode_one(self, picture: bytes) -> NDArray[Any]:
        try:
            image = decode_image(picture)
        except CorruptFileError as error:
            raise CorruptFileError(f"{error} In {str(self.path)!r}.") from error
        if image.shape != self._shape:
            raise CorruptFileError(
                f"An image has the shape {image.shape}, and {self._shape} is declared: "
                f"{str(self.path)!r}."
            )
        return image

    def flush(self) -> None:
        """Wait until what was changed through the map is on the disk."""
        self._slots.flush()


Slots = NumberSlots | JpegSlots
"""The values of one feature, a slot for each frame.

* ``encode`` returns values ``(T, …)`` in the form that ``write`` takes.
* ``write`` fills consecutive slots. By a write call, not through the map: on a full disk this raises,
  while touching a mapped page would kill the process.
* ``fetch`` returns a copy of what is there now, in the shape of ``places``, not yet decoded. Places
  beyond the last slot go on with the first.
* ``decode`` returns what was fetched as values.
* ``flush`` waits until what was changed through the map is on the disk.
"""


def open_slots(path: Path, feature: Feature, capacity: int, slot_bytes: int) -> Slots:
    """Map the file of one feature."""
    if feature.is_camera:
        return JpegSlots(path, feature, capacity, slot_bytes)
    return NumberSlots(path, feature, capacity)


def write_at(file: FileIO, offset: int, data: bytes | memoryview) -> None:
    """Write all of the bytes at an offset of an unbuffered file."""
    rest = memoryview(data)
    file.seek(offset, os.SEEK_SET)
    while rest:
        # One call may write less than it was given: Linux stops at 2 GB.
        rest = rest[file.write(rest) :]
