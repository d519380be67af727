"""How the images of a camera are stored in a training cache."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from roboreel.errors import CacheError
from roboreel.sample_spec import check_image_size

if TYPE_CHECKING:
    from collections.abc import Mapping

    from roboreel.schema import Manifest


@dataclass(frozen=True, slots=True)
class Jpeg:
    """Images as JPEG: little disk; decoding takes a third of a millisecond at 224x224."""

    size: tuple[int, int] | None = None
    """Height and width; None keeps the size of the dataset's images."""
    quality: int = 95

    def __post_init__(self) -> None:
        _check_size(self)
        if isinstance(self.quality, bool) or self.quality not in range(1, 101):
            raise ValueError(
                f"quality is {self.quality!r}: JPEG takes a whole number from 1 to 100."
            )


@dataclass(frozen=True, slots=True)
class Raw:
    """Images as pixels: no decoding, several times the disk."""

    size: tuple[int, int] | None = None
    """Height and width; None keeps the size of the dataset's images."""

    def __post_init__(self) -> None:
        _check_size(self)


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
    size = None if picture.size is None else list(picture.size)
    return {"form": type(picture).__name__, **asdict(picture), "size": size}


def picture_from_json(entry: Mapping[str, Any]) -> Picture:
    """Return the picture that `picture_to_json` described."""
    size = None if entry["size"] is None else (int(entry["size"][0]), int(entry["size"][1]))
    return Jpeg(size, int(entry["quality"])) if entry["form"] == "Jpeg" else Raw(size)


def _check_size(picture: Picture) -> None:
    if picture.size is not None:
        object.__setattr__(picture, "size", check_image_size(picture.size, "size"))
