"""How the images of a camera are stored in a training cache."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from roboreel.errors import CacheError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from roboreel.schema import Manifest

__all__ = ["Jpeg", "Picture", "Raw", "choose_pictures", "picture_from_json", "picture_to_json"]


@dataclass(frozen=True, slots=True)
class Jpeg:
    """Images as JPEG: little disk; decoding takes a third of a millisecond at 224x224."""

    size: tuple[int, int] | None = None
    """Height and width; None keeps the size of the dataset's images."""
    quality: int = 95

    def __post_init__(self) -> None:
        _check_size(self.size)
        if not 1 <= self.quality <= 100:
            raise ValueError(f"JPEG quality must be between 1 and 100, not {self.quality}.")


@dataclass(frozen=True, slots=True)
class Raw:
    """Images as pixels: no decoding, several times the disk."""

    size: tuple[int, int] | None = None
    """Height and width; None keeps the size of the dataset's images."""

    def __post_init__(self) -> None:
        _check_size(self.size)


Picture = Jpeg | Raw


def choose_pictures(
    manifest: Manifest, cameras: Mapping[str, Picture] | None
) -> dict[str, Picture]:
    """Return how each chosen camera is stored.

    Args:
        manifest: The dataset.
        cameras: A picture for each camera name or pattern, such as ``"observation.images.*"``;
            the first match wins.

    Raises:
        CacheError: A pattern matches no camera, or JPEG would destroy depth or alpha.
    """
    chosen: dict[str, Picture] = {}
    for pattern, picture in (cameras or {}).items():
        matching = [name for name in manifest.cameras if fnmatchcase(name, pattern)]
        if not matching:
            raise CacheError(
                f"No camera matches {pattern!r}: there are {', '.join(manifest.cameras) or 'none'}, "
                f"in {str(manifest.root)!r}."
            )
        for name in matching:
            if manifest.features[name].depth is not None and isinstance(picture, Jpeg):
                raise CacheError(f"JPEG would destroy the depth of {name!r}: store it as Raw.")
            if manifest.features[name].has_alpha and isinstance(picture, Jpeg):
                raise CacheError(f"JPEG would drop the alpha of {name!r}: store it as Raw.")
            chosen.setdefault(name, picture)
    return chosen


def picture_to_json(picture: Picture) -> dict[str, Any]:
    """Return a picture as plain values."""
    return {"form": type(picture).__name__, **asdict(picture)}


def picture_from_json(entry: Mapping[str, Any]) -> Picture:
    """Return the picture that `picture_to_json` described."""
    size = None if entry["size"] is None else (int(entry["size"][0]), int(entry["size"][1]))
    return Jpeg(size, int(entry["quality"])) if entry["form"] == "Jpeg" else Raw(size)


def _check_size(size: Sequence[int] | None) -> None:
    if size is not None and (len(size) != 2 or min(size) < 1):
        raise ValueError(f"An image size is (height, width), each at least 1, not {size!r}.")
