"""The files of the old datasets, to be found unchanged when an edit is carried out."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from roboreel.commit.state import state_of
from roboreel.errors import StaleDatasetError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from roboreel.commit.state import State
    from roboreel.edit.context import EditContext

__all__ = ["check_digest", "check_metadata", "digest_of", "metadata_digest", "states_of"]


def states_of(context: EditContext) -> tuple[State, ...]:
    """Return the state of the metadata and of all files that an edit reads, for each source."""
    used: list[set[str]] = [set() for _ in context.sources]
    for target in (*context.layout.data, *context.layout.videos):
        for source, path in target.sources:
            used[source].add(path)
    pairs = zip(context.sources, used, strict=True)
    return tuple(state_of(source.root, files) for source, files in pairs)


def digest_of(states: Iterable[State]) -> str:
    """Return a short text that is another one if any file has changed."""
    digest = hashlib.sha256()
    for state in states:
        digest.update(json.dumps(state.marks).encode())
    return digest.hexdigest()


def metadata_digest(context: EditContext) -> str:
    """Return a short text that is another one if the metadata of a source has changed."""
    return digest_of(state_of(source.root, ()) for source in context.sources)


def check_digest(context: EditContext, digest: str) -> None:
    """Raise if a file that an edit reads has changed.

    Raises:
        StaleDatasetError: One has.
    """
    if digest_of(states_of(context)) != digest:
        raise _stale(context)


def check_metadata(context: EditContext, digest: str) -> None:
    """Raise if the metadata of a source has changed.

    Raises:
        StaleDatasetError: It has.
    """
    if metadata_digest(context) != digest:
        raise _stale(context)


def _stale(context: EditContext) -> StaleDatasetError:
    return StaleDatasetError(
        "The dataset has changed since the job was made. Remove the job, and plan it again: "
        f"{', '.join(repr(str(source.root)) for source in context.sources[:4])}."
    )
