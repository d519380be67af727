"""Stored values with their images decoded, at any depth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roboreel.errors import CorruptFileError
from roboreel.image import decode_image
from roboreel.shards.features import FeatureType, Image, Sequence, Struct

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["decode_column", "decode_value"]


def decode_value(feature: FeatureType, value: Any, place: str) -> Any:  # noqa: ANN401  # of any type
    """Return one value with its images decoded.

    Args:
        feature: What the value is.
        value: The value as stored.
        place: Where it comes from, for errors.

    Raises:
        CorruptFileError: An image cannot be decoded.
    """
    match feature:
        case _ if value is None:
            return None
        case Image():
            return _decode_image(value, place)
        case Struct(fields):
            return {
                name: decode_value(of, value[name], f"{name!r} in {place}")
                for name, of in fields.items()
            }
        case Sequence(Image() | Struct() | Sequence() as of):
            return decode_column(of, value, place)
        case _:
            return value


def decode_column(feature: FeatureType, column: Any, place: str) -> Any:  # noqa: ANN401  # of any type
    """Return a column with its images decoded; see `decode_value`."""
    if isinstance(feature, Struct) and isinstance(column, dict):
        return {
            name: decode_column(of, column[name], f"{name!r} in {place}")
            for name, of in feature.fields.items()
        }
    if isinstance(column, list):
        return [
            decode_value(feature, value, f"value {number} of {place}")
            for number, value in enumerate(column)
        ]
    return column


def _decode_image(encoded: bytes, place: str) -> NDArray[Any]:
    try:
        return decode_image(encoded)
    except CorruptFileError as error:
        raise CorruptFileError(f"Cannot decode the image in {place}: {error}") from error
