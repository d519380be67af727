"""Findings about the clips of one video file: where they start, and what images they have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.check.clip_places import FileClips, far_images, find_misfits, mended_places
from roboreel.errors import DatasetError, MissingImageError
from roboreel.findings import finding
from roboreel.video.clip import images_of
from roboreel.words import counted, name_episodes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from roboreel.check.clip_places import Misfit, PlacedClips
    from roboreel.check.context import Context
    from roboreel.findings import Finding
    from roboreel.schema import Manifest
    from roboreel.video.packet_table import PacketTable

# LeRobot refuses images that are further away from the moment it asks for.
_LEROBOT_TOLERANCE_S = 1e-4
# An image may be as far from its moment as the file's clock is coarse.
_TOLERANCE_TICKS = 1.5


def clips_of(manifest: Manifest, camera: str, positions: NDArray[np.int64]) -> FileClips:
    """Return the clips of some episodes in one file, in the order of their starts."""
    episodes, clips = manifest.episodes, manifest.episodes.clips[camera]
    positions = positions[episodes.length[positions] > 0]
    start_s = np.nan_to_num(clips.start_s[positions], nan=0.0)
    order = np.lexsort((episodes.start[positions], start_s))
    positions = positions[order]
    return FileClips(
        position=positions,
        start_s=start_s[order],
        stop_s=clips.stop_s[positions],
        length=episodes.length[positions],
        fps=manifest.fps,
    )


def clip_findings(
    context: Context, camera: str, file: str, placed: PlacedClips, table: PacketTable
) -> Iterator[Finding]:
    """Yield what does not fit between the clips of a file and its images.

    Args:
        context: The dataset under check.
        camera: The camera.
        file: The file's path below the dataset's folder.
        placed: Where the clips of the file lie.
        table: Its packets, shown at about the dataset's rate.
    """
    report = _Report(context, camera, file, placed)
    misfits = find_misfits(placed)
    yield from report.late_first_image()
    yield from report.unused([one for one in misfits if one.kind == "unused"])
    for misfit in misfits:
        if misfit.kind == "shifted":
            yield from report.shifted(misfit)
        elif misfit.kind == "overlapping":
            yield report.overlapping(misfit)
        elif misfit.kind == "missing":
            yield report.missing(misfit)
    wrong = {clip for one in misfits if one.kind != "unused" for clip in range(one.start, one.stop)}
    rest = [clip for clip in range(len(placed.first)) if clip not in wrong]
    yield from report.between_images(rest, 1 / float(table.time_base))
    refused = list(report.unreadable(rest, table))
    yield from refused
    numbers = {one.episode for one in refused}
    yield from report.uneven([clip for clip in rest if report.number(clip) not in numbers], table)


class _Report:
    """Makes the findings of one file."""

    def __init__(self, context: Context, camera: str, file: str, placed: PlacedClips) -> None:
        self.placed = placed
        self._context = context
        self._manifest = context.manifest
        self._camera = camera
        self._file = file
        self._clips = placed.clips
        # In v2.x the metadata holds no times that could be mended.
        is_v3 = context.manifest.version.startswith("v3")
        self._is_fixable = is_v3 and mended_places(placed) is not None

    def shifted(self, misfit: Misfit) -> Iterator[Finding]:
        """Yield clips that start at the wrong image: all of the file in one, or each of them."""
        late_s = misfit.images / self._clips.fps
        way = "late" if misfit.images > 0 else "early"
        much = f"{counted(abs(misfit.images), 'image')} ({abs(late_s):.3f} s) {way}"
        if misfit.stop - misfit.start == len(self._clips.length) > 1:
            what = (
                f"All {misfit.stop} clips of the video start {much}: rows show the images of other "
                "moments."
            )
            yield self._finding("RR404", what)
            return
        for clip in range(misfit.start, misfit.stop):
            start_s = float(self._clips.start_s[clip])
            what = (
                f"The clip of episode {self.number(clip)} starts {much}, at {start_s:.3f} s "
                f"instead of {start_s - late_s:.3f} s: its rows show the images of other moments."
            )
            yield self._finding("RR404", what, clip)

    def overlapping(self, misfit: Misfit) -> Finding:
        """Return that two clips share images."""
        numbers = [self.number(clip) for clip in range(misfit.start, misfit.stop)]
        what = (
            f"The clips of {name_episodes(numbers)} overlap by {counted(misfit.images, 'image')}."
        )
        return self._finding("RR405", what, misfit.stop - 1)

    def missing(self, misfit: Misfit) -> Finding:
        """Return that a clip has fewer images than frames."""
        clip = misfit.start
        length = int(self._clips.length[clip])
        left = max(length - misfit.images, 0)
        what = (
            f"Episode {self.number(clip)} has {counted(length, 'frame')}, and its video has images "
            f"for {left:,} of them."
        )
        return self._finding("RR402", what, clip, left)

    def unused(self, misfits: list[Misfit]) -> Iterator[Finding]:
        """Yield, in one finding, that images belong to no episode."""
        if not misfits:
            return
        count = len(self._clips.length)
        places = [
            f"{one.images:,} before episode {self.number(one.start)}"
            if one.start < count
            else f"{one.images:,} at the end"
            for one in misfits
        ]
        total = sum(one.images for one in misfits)
        more = f" and {len(places) - 3} more places" if len(places) > 3 else ""
        belong = "belongs" if total == 1 else "belong"
        what = f"{counted(total, 'image')} of the video {belong} to no episode: "
        yield self._finding(
            "RR403", f"{what}{', '.join(places[:3])}{more}.", 0 if count == 1 else None
        )

    def late_first_image(self) -> Iterator[Finding]:
        """Yield that the file's clock does not start at 0, although the metadata counts from 0."""
        if self.placed.origin_s == 0.0:
            return
        what = (
            f"The first image of the video is at {self.placed.origin_s:.3f} s instead of 0: readers "
            "that go by time find no image or a wrong one."
        )
        yield self._finding("RR404", what, 0 if len(self._clips.length) == 1 else None)

    def between_images(self, rest: list[int], rate: float) -> Iterator[Finding]:
        """Yield clips whose start is not the time of an image."""
        off_s = np.abs(self.placed.off_s)
        half_s = 0.5 / self._clips.fps
        for clip in (clip for clip in rest if off_s[clip] >= half_s):
            what = (
                f"The clip of episode {self.number(clip)} starts at "
                f"{self._clips.start_s[clip]:.3f} s, where the video has no image: the nearest is "
                f"{off_s[clip]:.3f} s away."
            )
            yield self._finding("RR404", what, clip)
        tolerance_s = max(_LEROBOT_TOLERANCE_S, _TOLERANCE_TICKS / rate)
        near = [clip for clip in rest if tolerance_s < off_s[clip] < half_s]
        if near:
            what = (
                f"{counted(len(near), 'clip')} of the video start up to "
                f"{1000 * off_s[near].max():.2g} ms away from their images. LeRobot accepts "
                f"{1000 * _LEROBOT_TOLERANCE_S:.1g} ms."
            )
            yield self._finding(
                "RR404", what, near[0] if len(near) == 1 else None, severity="warning"
            )

    def unreadable(self, rest: list[int], table: PacketTable) -> Iterator[Finding]:
        """Yield clips that reading refuses, for whatever reason is not named above."""
        half_s = 0.5 / self._clips.fps
        for clip in (clip for clip in rest if abs(self.placed.off_s[clip]) < half_s):
            length = int(self._clips.length[clip])
            asked = self._context.frames.clips.clip(self._camera, int(self._clips.position[clip]))
            try:
                images_of(np.arange(length), asked, table.ticks, table.time_base)
            except MissingImageError as error:
                what = f"Episode {self.number(clip)} cannot be read whole. {error}"
                yield self._finding("RR402", what, clip)

    def uneven(self, rest: list[int], table: PacketTable) -> Iterator[Finding]:
        """Yield, in one finding, that images are far from the moments of their frames."""
        far = far_images(self.placed, table, rest, self._timestamps)
        if not far:
            return
        worst = max(far, key=lambda clip: far[clip])
        what = (
            f"The images of {counted(len(far), 'episode')} are up to {far[worst]:.3f} s away from "
            f"the times of their frames, most in episode {self.number(worst)}, although every frame "
            "has one. Readers that go by time find wrong ones."
        )
        yield self._finding("RR305", what, worst if len(far) == 1 else None, severity="warning")

    def _timestamps(self, clip: int) -> NDArray[np.float64] | None:
        start = int(self._manifest.episodes.start[self._clips.position[clip]])
        stop = start + int(self._clips.length[clip])
        try:
            columns = self._context.frames.columns.read_span(["timestamp"], start, stop)
        except (DatasetError, OSError, KeyError):
            return None
        return columns["timestamp"].astype(np.float64).reshape(-1)

    def number(self, clip: int) -> int:
        """Return the number of a clip's episode."""
        return self._context.number(int(self._clips.position[clip]))

    def _finding(
        self,
        code: str,
        message: str,
        clip: int | None = None,
        first: int = 0,
        **how: Any,  # noqa: ANN401
    ) -> Finding:
        """Return a finding about the file, or about a clip from a frame on."""
        how |= {"file": self._file, "feature": self._camera}
        if code in ("RR404", "RR405"):
            how.setdefault("fixable", self._is_fixable)
        if clip is None:
            return finding(code, message, **how)
        frames, position = (first, int(self._clips.length[clip])), int(self._clips.position[clip])
        return self._context.episode_finding(code, message, position, frames, **how)
