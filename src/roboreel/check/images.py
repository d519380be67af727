"""Checks of the images themselves: each is decoded, once."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from roboreel.check.camera_images import CameraImages
from roboreel.check.checks import Check, NotChecked
from roboreel.check.episode_images import look_at_episode
from roboreel.check.movement import Movement
from roboreel.check.still_packets import shortest_still
from roboreel.cores import usable_cores
from roboreel.threads import Job, ThreadPool

if TYPE_CHECKING:
    from collections.abc import Iterator

    from roboreel.check.checks import Outcome
    from roboreel.check.context import Context
    from roboreel.check.episode_images import EpisodeImages

__all__ = ["CHECKS"]

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


CHECKS = (Check(_CODES, decoded_images, applies=_has_images, also=("RR501", "RR505", "RR506")),)
