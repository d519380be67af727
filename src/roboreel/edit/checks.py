"""What an operation may be given: names, columns and texts that fit the dataset."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from roboreel.errors import EditError, FeatureNotFoundError
from roboreel.format.counters import COUNTERS
from roboreel.format.episode_metadata import check_name, check_value
from roboreel.format.episode_table import episode_list
from roboreel.text import is_writable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from roboreel.schema import Feature, Manifest
    from roboreel.video.encoding import Encoding


def check_rename(names: Mapping[str, str], feature: str, name: str | None) -> None:
    """Raise if a feature cannot have another name, or cannot leave.

    Args:
        names: The features that there are by now: old name by new name.
        feature: The feature.
        name: Its new name; None if it leaves.

    Raises:
        FeatureNotFoundError: There is no such feature.
        EditError: The name is taken or cannot be one, or every frame must have the feature.
    """
    if feature not in names:
        raise FeatureNotFoundError(
            f"There is no feature {feature!r}: there are {', '.join(names)}."
        )
    if feature in COUNTERS:
        raise EditError(
            f"{feature!r} counts frames, and every LeRobot dataset has it: it can neither leave nor "
            "have another name."
        )
    if name is None:
        return
    said: object = name  # a recipe may hold anything
    if not isinstance(said, str):
        raise EditError(f"{name!r} cannot be the name of a feature: a name is a text.")
    if name in names or name in COUNTERS or name in ("task", "subtask"):
        raise EditError(f"{feature!r} cannot become {name!r}: that name is taken.")
    wrong = not name or "/" in name or "\\" in name or ".." in name or not name.isprintable()
    if wrong or name.strip(". ") != name:
        raise EditError(
            f"{name!r} cannot be the name of a feature: videos lie in a folder of this name, so "
            "it may hold letters, digits, '.', '_' and '-'."
        )


def check_camera(manifest: Manifest, names: Mapping[str, str], camera: str) -> None:
    """Raise unless a feature is a camera that is stored as video.

    Raises:
        FeatureNotFoundError: There is no such feature.
        EditError: It is something else.
    """
    if camera not in names:
        raise FeatureNotFoundError(f"There is no camera {camera!r}: there are {', '.join(names)}.")
    dtype = manifest.features[names[camera]].dtype
    if dtype != "video":
        raise EditError(
            f"{camera!r} is stored as {dtype}, not as video: it cannot be encoded again."
        )


def with_depth(feature: Feature, camera: str, encoding: Encoding) -> Encoding:
    """Return an encoding that keeps the distances of a depth camera; another camera's stays.

    Raises:
        EditError: It has no room for distances.
    """
    if feature.depth is None:
        return encoding
    if encoding.codec != "hevc":
        raise EditError(
            f"{camera!r} shows depth in 12 bits, which {encoding.codec} does not offer: use hevc."
        )
    return replace(encoding, depth=feature.depth)


def check_columns(
    manifest: Manifest, columns: Mapping[str, Any], given: Mapping[str, Any]
) -> dict[str, bool | int | float | str | None]:
    """Return what the metadata will say of episodes, in the types that its columns have.

    Args:
        manifest: The dataset.
        columns: Values by column.
        given: Values that columns get by the same edit, so that they have a type already.

    Raises:
        EditError: A name is taken, or a value is not of its column's type.
    """
    there = episode_list(manifest).columns()
    checked: dict[str, bool | int | float | str | None] = {}
    for name, value in columns.items():
        check_name(name, EditError)
        values = [*there.get(name, ()), given.get(name)]
        held = next((type(old) for old in values if old is not None), None)
        checked[name] = None if value is None else check_value(name, value, held, EditError)
    if not checked:
        raise EditError("There is nothing to set: give values by column, such as success=true.")
    return checked


def check_text(text: object, noun: str) -> str:
    """Return a text that is not empty and can be written.

    Raises:
        EditError: It is empty, or cannot be written.
    """
    if not isinstance(text, str) or not text.strip():
        raise EditError(f"A {noun} is a text that is not empty, not {text!r}.")
    if not is_writable(text):
        raise EditError(f"A {noun} cannot be {text!r}: it holds half of a character.")
    return text
