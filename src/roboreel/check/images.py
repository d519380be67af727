"""Checks of the images themselves: each is decoded, once."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import numpy as np

from roboreel.check.checks import Check, NotChecked
from roboreel.check.episode_images import NOT_SEEN, look_at_episode
from roboreel.check.image_watch import SHARPNESS_STEPS
from roboreel.check.pixel_summary import differences, join_summaries
from roboreel.check.statistics import is_overflown
from roboreel.check.still_packets import Movement, is_common, is_long, runs_of, shortest_still
from roboreel.cores import usable_cores
from roboreel.errors import DatasetError
from roboreel.findings import finding
from roboreel.format.paths import EPISODE_STATS_PATH, STATS_PATH
from roboreel.format.statistics import read_episode_stat_columns
from roboreel.threads import Job, ThreadPool
from roboreel.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from roboreel.check.checks import Outcome
    from roboreel.check.context import Context
    from roboreel.check.episode_images import EpisodeImages
    from roboreel.check.image_watch import StillRun
    from roboreel.findings import Finding, Severity
    from roboreel.format.statistics import EpisodeStatColumns


_CODES = ("RR610", "RR611", "RR612", "RR613")


def decoded_images(context: Context) -> Iterator[Outcome]:
    """Yield what the images tell, of one episode after another and then of each camera."""
    cameras = {camera: CameraImages(context, camera) for camera in context.manifest.cameras}
    unread: dict[str, str] = {}
    for seen in _look_at_all(context):
        yield from cameras[seen.camera].add(seen)
        if seen.not_read is not None:
            unread.setdefault(seen.camera, seen.not_read)
    for camera, reason in unread.items():
        yield from (NotChecked(code, f"{camera!r}: {reason}") for code in _CODES)
    movement = Movement(context.frames)
    for one in cameras.values():
        yield from one.findings(movement)


def _look_at_all(context: Context) -> Iterator[EpisodeImages]:
    """Decode episodes in the order of their rows, several at a time, and yield them in order."""
    if context.gathered is not None:  # by a job, before
        yield from context.gathered.images()
        return
    manifest = context.manifest
    least = shortest_still(manifest.fps)
    positions = [p for p in manifest.episodes.row_order.tolist() if context.wanted[p]]
    work = [(camera, position) for position in positions for camera in manifest.cameras]
    threads = usable_cores()
    pending: deque[Job[EpisodeImages]] = deque()
    with ThreadPool(threads, "roboreel-check") as pool:
        for done, (camera, position) in enumerate(work):
            pending.append(
                pool.submit(look_at_episode, context.frames, camera, position, least=least)
            )
            # No more than is needed to keep all threads busy.
            if len(pending) > 2 * threads:
                context.report_progress("Images", done - len(pending), len(work))
                yield pending.popleft().result()
        while pending:
            context.report_progress("Images", len(work) - len(pending), len(work))
            yield pending.popleft().result()
    context.report_progress("Images", len(work), len(work))


def _has_images(context: Context) -> bool:
    return bool(context.manifest.cameras) and len(context.manifest.episodes) > 0


# Findings about the decoded images of one camera.

# So many equal images that were encoded apart from each other are no accident.
_CODINGS = 3
# A camera that is still most of the time is not frozen, but looks at a still scene.
_MOSTLY = 0.5
# Images that hardly differ change by this part of what the camera usually sees, at most.
_QUIET = 0.1
_FEWEST_BLACK = 3
# An image is blurred if its sharpness is a tenth of the camera's median, and that is worth the name.
_BLURRED = SHARPNESS_STEPS * float(np.log2(10))
_LEAST_SHARPNESS = 3 * SHARPNESS_STEPS


class CameraImages:
    """Gathers what is seen of a camera, and judges it when all is known."""

    def __init__(self, context: Context, camera: str) -> None:
        self._context = context
        self._manifest = context.manifest
        self._camera = camera
        self._seen: list[EpisodeImages] = []
        self._stored = self._episode_stats()

    def add(self, seen: EpisodeImages) -> Iterator[Finding]:
        """Add an episode, and yield what can be said at once."""
        self._seen.append(seen)
        if seen.damage:
            yield self._undecodable(seen)
        yield from self._episode_statistics(seen)

    def findings(self, movement: Movement) -> Iterator[Finding]:
        """Yield what only all episodes together tell."""
        yield from self._frozen(movement)
        yield from self._black()
        yield from self._blurred()
        yield from self._statistics()

    def _undecodable(self, seen: EpisodeImages) -> Finding:
        first = seen.damage[0]
        count = sum(one.stop - one.start for one in seen.damage)
        what = (
            f"{counted(count, 'image')} of episode {self._number(seen)} cannot be decoded, from "
            f"frame {first.start} on. {first.cause}"
        )
        return self._finding("RR610", what, seen, (first.start, seen.damage[-1].stop))

    def _frozen(self, movement: Movement) -> Iterator[Finding]:
        changes = [change for seen in self._seen for change in seen.changes]
        usual = float(np.median(changes)) if changes else 0.0
        judged = (self._judge(seen, usual, movement) for seen in self._seen)
        found = [one for one in judged if one is not None]
        if is_common(len(found), len(self._seen)):
            what = (
                f"{self._camera!r} often shows the same image for long: in {len(found):,} of "
                f"{len(self._seen):,} episodes. Either the scene is still, or the camera hangs."
            )
            yield finding("RR611", what, severity="note", feature=self._camera)
            return
        total = sum(seen.num_images for seen in self._seen)
        is_still = sum(seen.num_still for seen in self._seen) > _MOSTLY * total
        for seen, run, severity, moves in found:
            meanwhile = " while numbers change" if moves else ""
            what = (
                f"The camera shows the same image for {counted(run.length, 'frame')} of episode "
                f"{self._number(seen)}{meanwhile}."
            )
            yield self._finding(
                "RR611",
                what,
                seen,
                (run.start, run.stop),
                severity="note" if is_still else severity,
            )

    def _judge(
        self, seen: EpisodeImages, usual: float, movement: Movement
    ) -> tuple[EpisodeImages, StillRun, Severity, bool] | None:
        """Return the run of an episode that is worth reporting, and its severity.

        Equal images that were encoded apart do not come from a live sensor. Images that hardly
        differ may, so they are reported only if the camera usually sees much more change, and the
        robot moves.

        Args:
            seen: The episode.
            usual: How much images change over as many frames as the shortest run has.
            movement: Tells whether the robot moves.
        """
        is_strong = seen.same is not None and seen.same.codings >= _CODINGS
        run = seen.same if is_strong else seen.still
        if run is None or sum(run.start <= frame < run.stop for frame in seen.black) > 1:
            return None
        if not is_strong and not (
            run.change <= _QUIET * usual
            and is_long(run.length, len(seen.sharpness), self._manifest.fps)
        ):
            return None
        start = int(self._manifest.episodes.start[seen.position])
        moves = bool(movement.moves(start + run.start, start + run.stop))
        if not (is_strong or moves):
            return None
        return seen, run, "warning" if is_strong and moves else "note", moves

    def _black(self) -> Iterator[Finding]:
        found = [seen for seen in self._seen if len(seen.black) >= _FEWEST_BLACK]
        if is_common(len(found), len(self._seen)):
            what = (
                f"Images of {self._camera!r} are black in {len(found):,} of {len(self._seen):,} "
                "episodes."
            )
            yield finding("RR612", what, feature=self._camera)
            return
        for seen in found:
            what = f"{counted(len(seen.black), 'image')} of episode {self._number(seen)} are black."
            yield self._finding("RR612", what, seen, (seen.black[0], seen.black[-1] + 1))

    def _blurred(self) -> Iterator[Finding]:
        counts = sum(
            (np.bincount(seen.sharpness, minlength=256) for seen in self._seen),
            np.zeros(256, np.int64),
        )
        counts[NOT_SEEN] = 0
        if not counts.sum():
            return
        median = int(np.searchsorted(np.cumsum(counts), counts.sum() / 2))
        if median - _BLURRED < 0 or median < _LEAST_SHARPNESS:
            return
        least = shortest_still(self._manifest.fps)
        found = [
            (seen, runs)
            for seen in self._seen
            if (runs := runs_of(seen.sharpness < median - _BLURRED, least))
        ]
        if is_common(len(found), len(self._seen)):
            what = (
                f"{self._camera!r} is blurred for a while in {len(found):,} of "
                f"{len(self._seen):,} episodes: less than a tenth as sharp as usual."
            )
            yield finding("RR613", what, feature=self._camera)
            return
        for seen, runs in found:
            count = sum(stop - start for start, stop in runs)
            what = (
                f"{counted(count, 'image')} of episode {self._number(seen)} are blurred: less than "
                "a tenth as sharp as this camera's usually are."
            )
            yield self._finding("RR613", what, seen, (runs[0][0], runs[-1][1]))

    def _statistics(self) -> Iterator[Finding]:
        """Yield how the stored statistics of all episodes differ, if all were seen."""
        stored = self._context.stats.get(self._camera)
        parts = [seen.pixels for seen in self._seen if seen.pixels is not None]
        if stored is None or not parts or len(parts) < len(self._manifest.episodes.row_order):
            return
        found = differences(stored.mean, stored.std, join_summaries(parts))
        if found.problem is None or (found.is_overflow and is_overflown(stored)):
            return
        if found.is_overflow:
            defect = "LeRobot 0.4.0 to 0.5.1 squared pixels in 8 bits"
            what = f"{self._camera!r}: {found.problem}: {defect}."
            yield finding("RR505", what, file=STATS_PATH, feature=self._camera)
            return
        what = f"{self._camera!r}: {found.problem}."
        yield finding("RR501", what, file=STATS_PATH, feature=self._camera)

    def _episode_statistics(self, seen: EpisodeImages) -> Iterator[Finding]:
        """Yield how the stored statistics of an episode differ; not by the known defect."""
        if self._stored is None or seen.pixels is None or seen.damage:
            return
        mean, std = self._stored.mean[seen.position], self._stored.std[seen.position]
        if np.isnan(mean).all():
            return
        found = differences(mean, std, seen.pixels)
        if found.problem is None or found.is_overflow:
            return
        number = self._number(seen)
        # Where there are no others, these are what training normalizes by.
        severity: Severity = "warning" if self._context.stats else "error"
        yield finding(
            "RR506",
            f"Episode {number}, {self._camera!r}: {found.problem}.",
            severity=severity,
            file=None if self._context.stats else EPISODE_STATS_PATH,
            episode=number,
            feature=self._camera,
        )

    def _episode_stats(self) -> EpisodeStatColumns | None:
        try:
            return read_episode_stat_columns(self._manifest, [self._camera]).get(self._camera)
        except (DatasetError, OSError):  # a finding of its own: RR111
            return None

    def _number(self, seen: EpisodeImages) -> int:
        return self._context.number(seen.position)

    def _finding(
        self,
        code: str,
        message: str,
        seen: EpisodeImages,
        span: tuple[int, int],
        severity: Severity | None = None,
    ) -> Finding:
        return self._context.episode_finding(
            code,
            message,
            seen.position,
            span,
            severity=severity,
            file=self._file(seen.position),
            feature=self._camera,
        )

    def _file(self, position: int) -> str | None:
        """Return the file that an episode's images are in."""
        episodes = self._manifest.episodes
        if self._camera in self._manifest.video_files:
            file = int(episodes.clips[self._camera].file[position])
            return self._manifest.video_files[self._camera][file] if file >= 0 else None
        return self._manifest.data_files[int(episodes.data_file[position])]


CHECKS = (Check(_CODES, decoded_images, applies=_has_images, also=("RR501", "RR505", "RR506")),)
