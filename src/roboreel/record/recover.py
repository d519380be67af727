"""After a crash: finish what was decided, and save what there is of the open episode."""

from __future__ import annotations

import json
import shutil
import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.commit import (
    Workshop,
    damaged_commit,
    finish_commit,
    has_commit,
    locked,
    set_aside_commit,
)
from roboreel.errors import CorruptFileError, FrameError
from roboreel.format import read_manifest
from roboreel.format.append_v3 import check_appendable
from roboreel.format.episode_metadata import check_metadata
from roboreel.format.hub import writable_folder
from roboreel.format.ledger import Ledger
from roboreel.format.strays import find_strays
from roboreel.image import decode_image
from roboreel.memory.budget import process_budget
from roboreel.record.checks import given_features
from roboreel.record.episode import METADATA, ROWS, FinishedEpisode, image_path, open_folder
from roboreel.record.journal import RowFormat, Rows, read_records
from roboreel.record.saving import save_episode
from roboreel.record.totals import ImageSampler, Totals, sample_stride
from roboreel.video.clip import Clip
from roboreel.video.reader import ClipRequest, VideoReader
from roboreel.video.salvage import first_images, whole_fragments

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from roboreel.format.episode_metadata import Value
    from roboreel.record.totals import Gathered
    from roboreel.schema import Manifest

__all__ = ["Recovery", "recover", "recover_dataset"]


@dataclass(frozen=True, slots=True)
class Recovery:
    """What was found after a crash, and what became of it."""

    saved_episodes: int
    """Episodes that had been saved."""
    finished: bool
    """Whether a save or a compaction had been decided, and has now been finished."""
    found_frames: int
    """Frames of the open episode that are in its journal."""
    kept_frames: int
    """How many of them have an image of every camera; they are now an episode."""
    set_aside: tuple[str, ...]
    """Paths of what belongs to no episode, moved to ``.recording/aside``."""


def recover_dataset(
    path: str | os.PathLike[str], *, dry_run: bool = False, any_owner: bool = False
) -> Recovery:
    """Save what a crash left of a recording; nothing is deleted that is not saved.

    Args:
        path: The dataset's folder.
        dry_run: Whether only to say what would be done.
        any_owner: Whether to finish a change that another user of this machine had decided.

    Raises:
        DatasetInUseError: Another process changes the dataset.
        ForeignChangeError: Another user had decided the change that was interrupted.
        UnsafePathError: A file or folder of the dataset is a symbolic link.
        NotADatasetError: There is no dataset at this path.
    """
    root = writable_folder(path)
    read_manifest(root)  # before the lock, which makes a folder
    with locked(Workshop(root)):
        return recover(root, dry_run=dry_run, any_owner=any_owner)


def recover(root: Path, *, dry_run: bool = False, any_owner: bool = False) -> Recovery:
    """Do what `recover_dataset` does, under a lock that the caller holds."""
    workshop = Workshop(root)
    damaged = damaged_commit(workshop)
    if damaged is not None and not dry_run:
        set_aside_commit(workshop)
    if dry_run:
        finished = damaged is None and has_commit(workshop)
    else:
        finished = finish_commit(workshop, any_owner=any_owner)
    manifest = read_manifest(root)
    check_appendable(manifest)
    # Files of a commit that is not finished yet are not strays.
    strays = [] if dry_run and finished else find_strays(manifest)
    with _scratch(workshop) as scratch:
        found = _Open.read(manifest, scratch)
        aside = [*([] if damaged is None else [damaged]), *strays, *found.unused]
        if not dry_run:
            for stray in strays:
                _set_aside(root, root / stray)
            found.save(manifest)
    return Recovery(len(manifest.episodes), finished, len(found.rows), found.kept, tuple(aside))


@contextmanager
def _scratch(workshop: Workshop) -> Iterator[Path]:
    """Yield a temporary folder; what dead processes left of theirs is removed."""
    folder = workshop.path / "salvage"
    for path in workshop.path.glob(".*.tmp-*"):
        path.unlink()
    for left in (folder, workshop.path / "gone"):
        shutil.rmtree(left, ignore_errors=True)
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class _Open:
    """What there is of the open episode.

    Args:
        folder: Its journal.
        rows: Its frames without images.
        pictures: Encoded images by camera.
        videos: By camera, a video file of complete fragments and how many images it has.
        whole: Whether no file has bytes that cannot be used.
    """

    def __init__(
        self,
        folder: Path,
        rows: Rows,
        pictures: dict[str, list[bytes]],
        videos: dict[str, tuple[Path, int]],
        *,
        whole: bool,
    ) -> None:
        self.folder, self.rows, self._pictures, self._videos = folder, rows, pictures, videos
        counts = [len(several) for several in pictures.values()]
        counts += [count for _, count in videos.values()]
        self.kept = min([len(rows), *counts])
        self._whole = whole and all(count == self.kept for count in [len(rows), *counts])

    @classmethod
    def read(cls, manifest: Manifest, scratch: Path) -> _Open:
        """Read the journal of a dataset."""
        folder, features = open_folder(manifest.root), manifest.features
        rows, left = _read_rows(folder / ROWS, manifest)
        pictures, videos = {}, {}
        for name in manifest.cameras:
            path = image_path(folder, features, name)
            if features[name].dtype == "video":
                videos[name] = (scratch / path.name, _whole_fragments(path, scratch / path.name))
            else:
                pictures[name], rest = read_records(path) if path.exists() else ([], 0)
                left += rest
        return cls(folder, rows, pictures, videos, whole=left == 0)

    @property
    def unused(self) -> list[str]:
        """The journal, if some of it cannot be used, in a list; otherwise an empty list."""
        if self._whole or not self.folder.exists():
            return []
        return [f"{self.folder.parent.name}/{self.folder.name}"]

    def save(self, manifest: Manifest) -> None:
        """Save the frames that are complete as an episode, and remove the journal."""
        if not self.folder.exists():
            return
        if self.unused:
            # Copied, not moved: the journal must stay until its frames are saved.
            shutil.copytree(self.folder, _aside(manifest.root) / self.folder.name)
        if self.kept:
            totals = Totals.restore(manifest)
            ledger = save_episode(Ledger.of(manifest), totals, self._finish(manifest))
            totals.remember(manifest.root, ledger.num_episodes, ledger.num_rows, numbers=False)
        shutil.rmtree(self.folder)

    def _finish(self, manifest: Manifest) -> FinishedEpisode:
        videos = {}
        for name, (path, _) in self._videos.items():
            videos[name] = path.with_suffix(".whole.mp4")
            first_images(path, self.kept, videos[name])
        pictures = {name: several[: self.kept] for name, several in self._pictures.items()}
        images: dict[str, Gathered] = {}
        for name in manifest.cameras:
            sampler = ImageSampler(manifest.features[name], 1)
            every = sample_stride(manifest.fps)
            seen = (
                _images(manifest, name, videos[name], np.arange(0, self.kept, every), self.kept)
                if name in videos
                else (decode_image(data) for data in pictures[name][::every])
            )
            for image in seen:
                sampler.take(image)
            if sampler.gathered is not None:
                images[name] = sampler.gathered
        metadata = _read_metadata(self.folder / METADATA, manifest)
        return FinishedEpisode(self.rows.first(self.kept), pictures, videos, images, metadata)


def _read_rows(path: Path, manifest: Manifest) -> tuple[Rows, int]:
    """Return the frames of a journal that are not saved yet, and the bytes left over."""
    rows = RowFormat(given_features(manifest.features))
    if not path.exists():
        return rows.unpack([]), 0
    records, left = read_records(path)
    try:
        header = json.loads(records[0]) if records else {}
        number = header.pop("episode", None)
        if number is not None and number < Ledger.of(manifest).num_episodes:
            return rows.unpack([]), 0  # saved right before the crash
        if header != rows.describe():
            return rows.unpack([]), path.stat().st_size
        return rows.unpack(records[1:]), left
    except (ValueError, TypeError, AttributeError, CorruptFileError):
        return rows.unpack([]), path.stat().st_size


def _read_metadata(path: Path, manifest: Manifest) -> dict[str, Value]:
    """Return what was said of the episode, if saving it had begun."""
    try:
        return check_metadata(Ledger.of(manifest), json.loads(path.read_bytes()))
    except (OSError, ValueError, FrameError):
        return {}


def _whole_fragments(path: Path, out: Path) -> int:
    try:
        return whole_fragments(path, out) if path.exists() else 0
    except CorruptFileError:
        return 0


def _images(
    manifest: Manifest, camera: str, path: Path, frames: NDArray[np.int64], length: int
) -> Iterator[NDArray[Any]]:
    request = ClipRequest(
        path=path,
        clip=Clip(0.0, length / manifest.fps, length, manifest.fps),
        frames=frames,
        slots=np.arange(len(frames)),
        episode=int(Ledger.of(manifest).num_episodes),
        camera=camera,
    )
    reader = VideoReader(budget=process_budget(), threads=1)
    return reader.stream(request, layout="hwc", depth=manifest.features[camera].depth)


def _set_aside(root: Path, path: Path) -> None:
    target = _aside(root) / path.relative_to(root)
    target.parent.mkdir(parents=True, exist_ok=True)
    path.replace(target)


def _aside(root: Path) -> Path:
    folder = Workshop(root).path / "aside" / uuid.uuid4().hex[:8]
    folder.mkdir(parents=True)
    return folder
