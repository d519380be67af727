"""Images that come to a recorder encoded already, and stay so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from roboreel.errors import FrameError
from roboreel.image import decode_image, image_size
from roboreel.video.encoding import CODECS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from roboreel.schema import Feature
    from roboreel.video.codecs import Codec


@dataclass(frozen=True, slots=True)
class EncodedImage:
    """A picture as the bytes of its file: JPEG, PNG, or TIFF for depth in metres.

    A camera that is stored as images keeps the bytes as they are. One that is stored as video
    decodes them, in its own thread.
    """

    data: bytes

    def decode(self) -> NDArray[Any]:
        """Return the pixels, ``(H, W, C)``."""
        return decode_image(self.data)


@dataclass(frozen=True, slots=True)
class EncodedPacket:
    """One image as a packet of video, for a camera that is stored as video.

    The packets of an episode follow each other without a gap, in the order of their images, and the
    first one is a keyframe. H.264 and HEVC have start codes, and the parameter sets before each
    keyframe; AV1 is a temporal unit.
    """

    data: bytes
    codec: Codec
    keyframe: bool


def check_encoded(name: str, feature: Feature, value: EncodedImage | EncodedPacket) -> None:
    """Raise if the header of an encoded image does not fit the camera.

    Raises:
        FrameError: It does not.
        CorruptFileError: It is not a picture, or a damaged one.
    """
    if isinstance(value, EncodedPacket):
        if not feature.is_video or feature.depth is not None:
            raise FrameError(
                f"{name!r} takes no packets: only colour that is stored as video does."
            )
        if value.codec not in CODECS or not value.data:
            raise FrameError(
                f"{name!r} got a packet of {len(value.data)} bytes in {value.codec!r}: give whole "
                f"packets in one of {', '.join(CODECS)}."
            )
        return
    size = tuple(image_size(value.data))
    wanted = feature.shape if feature.depth is None else (*feature.shape[:2], 1)
    if size != wanted:
        raise FrameError(f"{name!r} is a picture of {size}: {wanted} is declared.")
