"""A replay buffer is made if it is not there, and is the one asked for if it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roboreel.errors import BufferMismatchError, MissingFileError
from roboreel.replay.layout import Layout, describe_difference, read_layout
from roboreel.replay.store import DESCRIPTION, create_files
from roboreel.replay.writer import lock_for_writing

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from roboreel.schema import Feature

__all__ = ["open_layout"]

# Making a buffer takes milliseconds; whoever makes it at the same time is waited for.
_CREATION_TIMEOUT_S = 10.0


def open_layout(
    root: Path,
    capacity: int | None,
    features: Mapping[str, Feature] | None,
    fps: float | None,
    tasks: Mapping[int, str] | None,
) -> Layout:
    """Return what the buffer in a folder is made of, after making it if need be.

    Raises:
        MissingFileError: There is none, and too little is given to make one.
        BufferMismatchError: There is one of other features, capacity, rate or tasks.
    """
    if not (root / DESCRIPTION).exists():
        if capacity is None or features is None:
            raise MissingFileError(
                f"No replay buffer there: give capacity and features to make one, in {str(root)!r}."
            )
        _create(root, Layout(capacity, dict(features), fps, dict(tasks or {})))
    there = read_layout(root / DESCRIPTION)
    asked = Layout(
        there.capacity if capacity is None else capacity,
        there.features if features is None else features,
        fps,
        tasks or {},
    )
    difference = describe_difference(there, asked)
    if difference:
        raise BufferMismatchError(
            f"The buffer there is another one: {difference}. Open it as it is, without capacity, "
            f"features, fps and tasks, or choose another folder than {str(root)!r}."
        )
    return there


def _create(root: Path, layout: Layout) -> None:
    root.mkdir(parents=True, exist_ok=True)
    with lock_for_writing(root, timeout_s=_CREATION_TIMEOUT_S):
        # Another process may have made it while this one waited.
        if not (root / DESCRIPTION).exists():
            create_files(root, layout)
