"""Repairs of videos: their index, and what the metadata says about them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from roboreel.check.clip_findings import clips_of
from roboreel.check.clip_places import mended_places, place_clips
from roboreel.check.video import read_video
from roboreel.errors import DatasetError
from roboreel.format.edits import Difference, FileEdit
from roboreel.format.info_edits import with_video_format
from roboreel.format.video_info import declared_codec
from roboreel.video.mp4 import read_packet_table
from roboreel.video.rewrite_index import rewrite_index

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from roboreel.findings import Finding
    from roboreel.repair.draft import Draft
    from roboreel.schema import ClipTable
    from roboreel.video.packet_table import PacketTable


def cure_clips(draft: Draft) -> None:
    """Let clips start and end with their images, by the presentation times of the video."""
    found = draft.asked("RR404", "RR405")
    for camera in dict.fromkeys(one.feature for one in found if one.feature is not None):
        about = [one for one in found if one.feature == camera]
        old = draft.manifest.episodes.clips[camera]
        new = _mended(draft, camera, about)
        if new != old:
            episodes = draft.manifest.episodes
            clips = {**episodes.clips, camera: new}
            draft.manifest = replace(draft.manifest, episodes=replace(episodes, clips=clips))
            draft.episode_kinds.add("clips")


def _mended(draft: Draft, camera: str, about: Sequence[Finding]) -> ClipTable:
    clips = draft.manifest.episodes.clips[camera]
    start_s, stop_s = clips.start_s.copy(), clips.stop_s.copy()
    files = {one.file for one in about}
    for file, positions, table in _tables(draft, camera):
        if file not in files:
            continue
        placed = place_clips(clips_of(draft.manifest, camera, positions), table)
        first = mended_places(placed)
        if first is None:
            continue
        moved = placed.clips.position
        start_s[moved] = image_times(table)[first]
        stop_s[moved] = start_s[moved] + placed.clips.length / draft.manifest.fps
        draft.cure([one for one in about if one.file == file])
    if None in files:  # the ends of clips, all over the camera
        length = draft.manifest.episodes.length
        stop_s = np.where(np.isnan(start_s), stop_s, start_s + length / draft.manifest.fps)
        draft.cure([one for one in about if one.file is None])
    return replace(clips, start_s=start_s, stop_s=stop_s)


def cure_video_format(draft: Draft) -> None:
    """Let info.json say of a camera what most of its videos are."""
    found = draft.asked("RR406")
    for camera in dict.fromkeys(one.feature for one in found if one.feature is not None):
        codings = [table.coding for _, _, table in _tables(draft, camera)]
        if not codings:
            continue
        feature = draft.manifest.features[camera]
        size = Counter(coding.image_size for coding in codings).most_common(1)[0][0]
        codec = Counter(coding.codec for coding in codings).most_common(1)[0][0]
        draft.info = with_video_format(
            draft.info,
            camera,
            size=size,
            channels=3 if feature.depth is None else 1,
            codec=None if declared_codec(feature) in (None, codec) else codec,
        )
        draft.cure([one for one in found if one.feature == camera])


def _tables(draft: Draft, camera: str) -> Iterator[tuple[str, NDArray[np.int64], PacketTable]]:
    """Yield path, episodes' positions and packets of the videos of a camera that can be read."""
    for name, file, positions in draft.context.video_files():
        if name != camera:
            continue
        num_frames = int(draft.manifest.episodes.length[positions].sum())
        try:
            table, _ = read_video(draft.context.root / file, file, num_frames)
        except (DatasetError, OSError):
            continue  # a finding of its own
        if table is not None:
            yield file, positions, table


def image_times(table: PacketTable) -> NDArray[np.float64]:
    """Return when each image is shown, in seconds, as exactly as a float can say it."""
    step = table.time_base
    return table.ticks * np.float64(step.numerator) / np.float64(step.denominator)


def cure_indexes(draft: Draft) -> None:
    """Write the indexes of videos anew. The images are copied as they are."""
    found = draft.asked("RR408", "RR411")
    if not found:
        return
    files = {one.file for one in found if one.code == "RR408"}
    late = any(one.code == "RR411" for one in found)
    done: set[str] = set()
    for _, file, _ in draft.context.video_files():
        table = _table(draft.context.root / file)
        if table is None or not (file in files or (late and table.index_at_end)):
            continue
        codes = ("RR408",) * (file in files) + ("RR411",) * late
        draft.write(_rewritten(draft, file, table), codes)
        done.add(file)
    draft.cure([one for one in found if one.file in done or (one.file is None and done)])


def _table(path: Path) -> PacketTable | None:
    try:
        return read_packet_table(path)
    except (DatasetError, OSError):
        return None  # a finding of its own


def _rewritten(draft: Draft, file: str, table: PacketTable) -> FileEdit:
    return FileEdit(
        file,
        tuple(_differences(table)),
        partial(_rewrite, file),
        draft.context.listing.size_bytes(file),
    )


def _differences(table: PacketTable) -> Iterator[Difference]:
    if not table.lists_keyframes:
        yield Difference("keyframes", "not listed", "listed")
    if table.index_at_end:
        yield Difference("index", "at the end", "before the images")


def _rewrite(file: str, root: Path, out: Path) -> None:
    rewrite_index(root / file, out)
