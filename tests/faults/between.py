"""A dataset that was stopped anywhere, before anybody finishes what was decided: refused, or old, or new."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

import roboreel as reel
from roboreel.commit import Workshop, has_commit
from roboreel.errors import DatasetError, UnfinishedChangeError
from roboreel.format.info import read_info
from roboreel.format.paths import INFO_PATH, METADATA_FOLDER
from tests.same_dataset import files_of, same_file

if TYPE_CHECKING:
    from pathlib import Path

    from tests.faults.scenario import Remains

__all__ = ["check_between", "check_either", "values_of"]


def check_between(
    remains: Remains, before: str = "old", after: str = "new", *, renames: bool = True
) -> None:
    """Check the dataset as a change left it.

    Args:
        remains: What is left.
        before: The folder that holds the dataset as it was before.
        after: The folder that holds it as it is afterwards.
        renames: Whether files that change get new names, where the version allows it.
    """
    folder = remains.folder
    root, old, new = folder / "dataset", folder / before, folder / after
    if has_commit(Workshop(root)):
        try:
            reel.open_dataset(root)
        except UnfinishedChangeError:
            check_files(root, old, new, renames=renames)
            return
        raise AssertionError("a change that is not finished was read")
    remains.once(check_either, root, old, new)


def check_either(root: Path, *allowed: Path) -> None:
    """Check that every value of a dataset is that of one of some others."""
    found = values_of(root)
    assert found in map(values_of, allowed), "neither what was before nor what was after"


def values_of(root: Path) -> str:
    """Return a digest of every number, text and image of a dataset; of one that is damaged, why."""
    try:
        dataset = reel.open_dataset(root)
        values = dataset.read(np.arange(len(dataset)))
    except DatasetError as error:
        return str(error).replace(str(root), "")
    total = blake2b(digest_size=16)
    total.update(repr([(e.number, len(e), e.tasks, e.metadata) for e in dataset.episodes]).encode())
    for name in sorted(values):
        array = np.asarray(values[name])
        total.update(f"{name} {array.dtype} {array.shape}".encode())
        total.update(repr(array.tolist()).encode() if array.dtype == object else array.tobytes())
    return total.hexdigest()


def check_files(root: Path, old: Path, new: Path, *, renames: bool) -> None:
    """Check what others see between two steps, who do not know that there is a change.

    No file is missing that both have. The index is new once what it describes is there, and info.json
    last. In v3.0, all that the old index describes is there as long as it is; after a repair, which
    leaves episodes and rows where they are, each of these files is the old or the new one.
    """
    ours, olds, news = files_of(root), files_of(old), files_of(new)
    missing = sorted((olds.keys() & news.keys()) - ours.keys())
    assert not missing, f"missing between two steps: {missing}"
    came = {name for name, path in news.items() if name in ours and same_file(ours[name], path)}
    stayed = {name for name, path in olds.items() if name in ours and same_file(ours[name], path)}
    index = {name for name in news if name.startswith(f"{METADATA_FOLDER}/")}
    described = news.keys() - index
    if (index & came) - stayed:
        assert described <= came, f"an index before its files: {sorted(described - came)}"
    if INFO_PATH in came - stayed:
        assert index <= came, f"info.json before the rest of the index: {sorted(index - came)}"
    elif read_info(old).version[0] == 3 and {n for n in index & olds.keys() if n in came} <= stayed:
        lost = {name for name in olds if not name.startswith(f"{METADATA_FOLDER}/")} - stayed
        lost -= set() if renames else came
        assert not lost, f"files of the old index have changed: {sorted(lost)}"
