"""A dataset in another version of LeRobot's format, and a dataset in several parts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from roboreel.dataset.dataset import Dataset
from roboreel.dataset.opened import Opened
from roboreel.edit.operations import edit_dataset
from roboreel.edit.plan import plan_edit
from roboreel.edit.recipe import Recipe, whole_episodes
from roboreel.edit.sources import Source
from roboreel.errors import EditError

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from roboreel.edit.plan import EditPlan

_VERSIONS = ("v2.0", "v2.1", "v3.0")


def plan_conversion(
    path: str | os.PathLike[str],
    version: str,
    out: str | os.PathLike[str],
    *,
    reencode: bool = False,
    link: bool = False,
) -> EditPlan:
    """Return how a dataset becomes one of another version. Nothing is written yet.

    Packets and rows are copied. Statistics of episodes are made where the version has them and the
    old one has not; `verify_copy` compares every row and packet afterwards.

    Args:
        path: The dataset's folder.
        version: ``"v2.0"``, ``"v2.1"`` or ``"v3.0"``.
        out: A new folder.
        reencode: Whether a clip may be encoded again that does not start at a keyframe, which v2.x
            needs.
        link: Whether files may share their bytes with the old ones.

    Raises:
        NotADatasetError: There is no dataset at this path.
        EditError: There is no such version, or a clip cannot be cut.
    """
    spelled = version if version.startswith("v") else f"v{version}"
    if spelled not in _VERSIONS:
        raise EditError(f"There is no version {version!r}: choose one of {', '.join(_VERSIONS)}.")
    source = Source(path)
    pieces = whole_episodes(source.manifest.episodes.length)
    if not pieces:
        raise EditError(f"There are no episodes to convert: {str(source.root)!r}.")
    recipe = Recipe(pieces, version=spelled, reencode=reencode)
    said = [f"convert {source.manifest.version} to {spelled}"]
    return plan_edit([source], recipe, said, Path(out).expanduser(), link=link)


def plan_split(
    path: str | os.PathLike[str],
    parts: Mapping[str, float],
    out: str | os.PathLike[str],
    *,
    by: str | Sequence[str] | None = None,
    stratify: str | Sequence[str] | None = None,
    seed: int = 0,
    link: bool = False,
) -> dict[str, EditPlan]:
    """Return how a dataset becomes several, by whole episodes. Nothing is written yet.

    Args:
        path: The dataset's folder.
        parts: Shares by name, as `Dataset.split` takes them; each becomes a folder of this name.
        out: A folder for the new datasets.
        by: Columns of episodes that must not be divided: see `Dataset.split`.
        stratify: Columns whose values each part has in equal shares.
        seed: Which of the possible splits to make.
        link: Whether files may share their bytes with the old ones.

    Raises:
        NotADatasetError: There is no dataset at this path.
        EditError: A part would have no episode, or its name cannot be that of a folder.
    """
    edit = edit_dataset(path)
    whole = Dataset(Opened(edit.source.manifest, None, None))
    views = whole.split(parts, by=by, stratify=stratify, seed=seed)
    plans = {}
    for name, view in views.items():
        if not name.replace("-", "").replace("_", "").isalnum():
            raise EditError(f"{name!r} cannot be the name of a folder: use letters and digits.")
        numbers = view.episodes.numbers.tolist()
        if not numbers:
            raise EditError(f"The part {name!r} would have no episode: give it a larger share.")
        plans[name] = edit.keep(numbers).plan(Path(out).expanduser() / name, link=link)
    return plans
