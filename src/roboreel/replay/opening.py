"""Opening a replay buffer: it is made if it does not exist, and compared with what is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roboreel.errors import BufferMismatchError, MissingFileError
from roboreel.files import make_folder
from roboreel.replay.ring import DESCRIPTION, create_files
from roboreel.replay.spec import RingSpec, describe_difference, read_spec
from roboreel.replay.writer import lock_for_writing

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from roboreel.schema import Feature

__all__ = ["open_spec"]

# Making a buffer takes milliseconds; wait for another process that is making it.
_CREATION_TIMEOUT_S = 10.0


def open_spec(
    root: Path,
    capacity: int | None,
    features: Mapping[str, Feature] | None,
    fps: float | None,
    tasks: Mapping[int, str] | None,
) -> RingSpec:
    """Return what the buffer in a folder is made of; it is made if it does not exist.

    Raises:
        MissingFileError: It does not exist, and too little is given to make it.
        BufferMismatchError: It has other features, or another capacity, rate or tasks.
    """
    if not (root / DESCRIPTION).exists():
        if capacity is None or features is None:
            raise MissingFileError(
                "There is no replay buffer: give capacity and features to make one, in "
                f"{str(root)!r}."
            )
        _create(root, RingSpec(capacity, dict(features), fps, dict(tasks or {})))
    there = read_spec(root / DESCRIPTION)
    asked = RingSpec(
        there.capacity if capacity is None else capacity,
        there.features if features is None else features,
        fps,
        tasks or {},
    )
    difference = describe_difference(there, asked)
    if difference:
        raise BufferMismatchError(
            f"The replay buffer is not the one asked for: {difference}. Open it without capacity, "
            f"features, fps and tasks, or choose another folder than {str(root)!r}."
        )
    return there


def _create(root: Path, spec: RingSpec) -> None:
    make_folder(root)
    with lock_for_writing(root, timeout_s=_CREATION_TIMEOUT_S):
        # Another process may have made it while this one waited.
        if not (root / DESCRIPTION).exists():
            create_files(root, spec)
