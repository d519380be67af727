"""Checking a dataset as a job: rows by data files, packet tables and images by video files."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, fields, is_dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.check.checks import NotChecked
from roboreel.check.content import Extremes
from roboreel.check.context import Context
from roboreel.check.episode_images import Damage, EpisodeImages, look_at_episode
from roboreel.check.image_watch import StillRun
from roboreel.check.ledger import Ledger, needed_tier, select_codes
from roboreel.check.pixel_summary import PixelSummary
from roboreel.check.result import Findings
from roboreel.check.run import CHECKS, check_context, wanted_scans
from roboreel.check.scanning import files_in_order, scan_file
from roboreel.check.still_packets import StillPackets, Stretch, shortest_still
from roboreel.check.tables import RowCount
from roboreel.check.video import VideoFile, survey_video
from roboreel.cores import usable_cores
from roboreel.dataset.cache.manifest import dataset_state
from roboreel.errors import DatasetError, StaleDatasetError
from roboreel.findings import TIERS, Finding
from roboreel.format import read_manifest
from roboreel.format.hub import dataset_folder
from roboreel.io.sources import raise_failure
from roboreel.jobs import Operation, Plan, cut
from roboreel.stats.moments import Moments
from roboreel.threads import ThreadPool

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from roboreel.findings import Tier
    from roboreel.jobs import Part, Task
    from roboreel.schema import Manifest


_ROWS, _VIDEOS, _IMAGES = range(3)
_SEEN_FILE = "seen.json"
# What one core does, roughly: costs balance tasks, and promise nothing.
_BYTES_PER_S, _VIDEO_S, _FRAMES_PER_S, _PIXELS_PER_S = 5e7, 0.005, 2e5, 6e7


def plan_check(
    path: str | os.PathLike[str],
    *,
    tier: Tier | None = None,
    only: Sequence[str] = (),
    ignore: Sequence[str] = (),
    episodes: Sequence[int] | None = None,
    task_s: float | None = None,
) -> Plan:
    """Plan `check_dataset`; the result is for `findings_of`.

    Args:
        path: See `check_dataset`; likewise tier, only, ignore and episodes.
        tier: What to read.
        only: Codes to look for.
        ignore: Codes not to look for.
        episodes: Numbers of the episodes to check.
        task_s: About how long a task should take one core; by default see `target_cost`.

    Raises:
        DatasetError: The dataset cannot be opened. `check_dataset` says why.
    """
    manifest = read_manifest(dataset_folder(path))
    options = {
        "path": str(manifest.root.resolve()),
        "state": dataset_state(manifest),
        "tier": tier or needed_tier(only),
        "only": list(only),
        "ignore": list(ignore),
        "episodes": None if episodes is None else [int(number) for number in episodes],
    }
    context, ledger = _context(manifest, options), _ledger(options)
    tasks = [*_row_tasks(context, ledger, task_s)]
    if _wants(ledger, context, "index"):
        tasks += _video_tasks(context, task_s)
    if _wants(ledger, context, "deep"):
        tasks += _image_tasks(context, task_s)
    table = np.array([task[:4] for task in tasks], np.int64).reshape(-1, 4)
    inputs = {name: table[:, i] for i, name in enumerate(("kind", "camera", "start", "stop"))}
    cost = np.array([task[4] for task in tasks], np.float64)
    return Plan("roboreel.check.check_job:OPERATION", options, inputs, cost)


def findings_of(result: list[Any]) -> Findings:
    """Return the findings from what the job returned."""
    findings: Findings = from_plain(result)
    return findings


_TaskRow = tuple[int, int, int, int, float]


def _row_tasks(context: Context, ledger: Ledger, task_s: float | None) -> Iterator[_TaskRow]:
    if wanted_scans(ledger) is None or "numbers" not in TIERS[: TIERS.index(ledger.tier) + 1]:
        return
    names = [context.manifest.data_files[number] for number in files_in_order(context)]
    sizes = [context.listing.size_bytes(name) or 0 for name in names]
    seconds = np.array(sizes, np.float64) / _BYTES_PER_S + 0.001
    yield from _cut_tasks(_ROWS, 0, seconds, np.arange(len(seconds)), task_s)


def _video_tasks(context: Context, task_s: float | None) -> Iterator[_TaskRow]:
    frames = [context.manifest.episodes.length[p].sum() for _, _, p in context.video_files()]
    seconds = _VIDEO_S + np.array(frames, np.float64) / _FRAMES_PER_S
    yield from _cut_tasks(_VIDEOS, 0, seconds, np.arange(len(seconds)), task_s)


def _image_tasks(context: Context, task_s: float | None) -> Iterator[_TaskRow]:
    episodes, positions = context.manifest.episodes, _positions(context)
    for number, camera in enumerate(context.manifest.cameras):
        height, width = context.manifest.features[camera].shape[:2]
        pixels = episodes.length[positions].astype(np.float64) * height * width
        seconds = pixels / _PIXELS_PER_S
        clips = episodes.clips.get(camera)
        files = episodes.data_file if clips is None else clips.file
        yield from _cut_tasks(_IMAGES, number, seconds, files[positions], task_s)


def _cut_tasks(
    kind: int,
    camera: int,
    seconds: NDArray[np.float64],
    files: NDArray[np.int64],
    task_s: float | None,
) -> Iterator[_TaskRow]:
    for start, stop in pairwise(cut(seconds, files, task_s).tolist()):
        yield kind, camera, start, stop, float(seconds[start:stop].sum())


def _wants(ledger: Ledger, context: Context, tier: Tier) -> bool:
    return any(
        check.tier == tier and ledger.wants((*check.codes, *check.also)) and check.applies(context)
        for check in CHECKS
        if TIERS.index(tier) <= TIERS.index(ledger.tier)
    )


def _positions(context: Context) -> NDArray[np.int64]:
    """Return the positions of the wanted episodes that have rows, in the order of these."""
    order = context.manifest.episodes.row_order
    return order[context.wanted[order]]


def _ledger(options: Any) -> Ledger:  # noqa: ANN401  # plain values
    return Ledger(select_codes(options["only"], options["ignore"]), options["tier"])


def _context(manifest: Manifest, options: Any, gathered: _Parts | None = None) -> Context:  # noqa: ANN401
    return Context(manifest, episodes=options["episodes"], gathered=gathered)


@lru_cache(maxsize=1)
def _opened(path: str, state: str, episodes: str) -> Context:
    manifest = read_manifest(dataset_folder(path))
    if dataset_state(manifest) != json.loads(state):
        raise StaleDatasetError(
            "The dataset has changed since the job was made. Remove the job, and start it again: "
            f"{path!r}."
        )
    return _context(manifest, {"episodes": json.loads(episodes)})


def _open(options: Any) -> Context:  # noqa: ANN401  # plain values
    given = (json.dumps(options["state"]), json.dumps(options["episodes"]))
    return _opened(options["path"], *given)


def _run(task: Task, folder: Path) -> dict[str, Any]:
    look: Callable[[Task, Context], Any] = (_see_rows, _see_videos, _see_images)[
        task.inputs["kind"]
    ]
    try:
        seen = {"seen": to_plain(look(task, _open(task.options))), "error": None}
    except StaleDatasetError:
        raise
    except (DatasetError, OSError) as error:
        # As in one process: a finding that these rules could not be checked.
        seen = {"seen": None, "error": str(error)}
    raise_failure(Path(str(task.options["path"])))  # What could not be fetched is no finding.
    (folder / _SEEN_FILE).write_text(json.dumps(seen), encoding="utf-8")
    return {"kind": task.inputs["kind"], "error": seen["error"]}


def _see_rows(task: Task, context: Context) -> dict[str, Any]:
    wanted = wanted_scans(_ledger(task.options))
    kinds, reads_values = ([], False) if wanted is None else wanted
    scans = [kind(context) for kind in kinds]
    files = files_in_order(context)
    start, stop = task.inputs["start"], task.inputs["stop"]
    # Whether rows are counted on from the file before, which is another task's.
    counting = [scan for scan in scans if isinstance(scan, RowCount)]
    if start and counting:
        for _ in scan_file(context, files[start - 1], counting, reads_values=False):
            pass
    outcomes: list[Any] = []
    for number in files[start:stop]:
        outcomes += scan_file(context, number, scans, reads_values=reads_values)
    for scan in scans:
        outcomes += scan.pause()
    return {"outcomes": outcomes, "states": {type(scan).__name__: scan.state() for scan in scans}}


def _see_videos(task: Task, context: Context) -> dict[str, Any]:
    still: dict[str, StillPackets] = {}
    videos = []
    chosen = list(context.video_files())[task.inputs["start"] : task.inputs["stop"]]
    for camera, file, positions in chosen:
        gathered = still.setdefault(camera, StillPackets(context.manifest, camera))
        videos.append((camera, *survey_video(context, camera, file, positions, gathered)))
    return {"videos": videos, "still": {camera: one.state() for camera, one in still.items()}}


def _see_images(task: Task, context: Context) -> list[EpisodeImages]:
    camera = context.manifest.cameras[task.inputs["camera"]]
    positions = _positions(context)[task.inputs["start"] : task.inputs["stop"]].tolist()
    least = shortest_still(context.manifest.fps)

    def look(position: int) -> EpisodeImages:
        return look_at_episode(context.frames, camera, position, least=least)

    with ThreadPool(usable_cores(), "roboreel-check") as pool:
        return list(pool.map(look, positions))


@dataclass(frozen=True, slots=True)
class _Parts:
    """What the tasks have seen, read again for each kind of check."""

    folders: list[tuple[int, Path]]

    def rows(self) -> Iterator[Any]:
        return self._of(_ROWS)

    def videos(self) -> Iterator[Any]:
        return self._of(_VIDEOS)

    def images(self) -> Iterator[EpisodeImages]:
        for seen in self._of(_IMAGES):
            yield from seen

    def _of(self, kind: int) -> Iterator[Any]:
        for one, folder in self.folders:
            if one == kind:
                raw = json.loads((folder / _SEEN_FILE).read_bytes())
                if raw["error"] is not None:
                    raise DatasetError(raw["error"])
                yield from_plain(raw["seen"])


def _commit(plan: Plan, parts: Iterator[Part]) -> Any:  # noqa: ANN401  # plain values
    gathered = _Parts([(part.task.inputs["kind"], part.folder) for part in parts])
    opened = _open(plan.options)
    context = _context(opened.manifest, plan.options, gathered)
    return to_plain(check_context(context, _ledger(plan.options), plan.options["tier"]))


# What checks have seen, as plain values that another process can read. Nothing is executed.

_RECORDS: dict[str, type[Any]] = {
    record.__name__: record
    for record in (
        *(Damage, EpisodeImages, Extremes, Finding, Findings, Moments),
        *(NotChecked, PixelSummary, StillRun, Stretch, VideoFile),
    )
}


def to_plain(value: Any) -> Any:  # noqa: ANN401  # anything that checks keep
    """Return a value as lists, texts and numbers.

    Raises:
        TypeError: It is of a kind that checks do not keep.
    """
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        data = base64.b64encode(np.ascontiguousarray(value).tobytes()).decode()
        return ["array", value.dtype.str, list(value.shape), data]
    if isinstance(value, Path):
        return ["path", str(value)]
    if isinstance(value, list | tuple):
        return [type(value).__name__, [to_plain(one) for one in value]]
    if isinstance(value, set):
        return ["set", [to_plain(one) for one in sorted(value)]]
    if isinstance(value, dict):
        return ["dict", [[to_plain(key), to_plain(one)] for key, one in value.items()]]
    name = type(value).__name__
    if is_dataclass(value) and _RECORDS.get(name) is type(value):
        return [name, [to_plain(getattr(value, field.name)) for field in fields(value)]]
    raise TypeError(f"Checks do not keep a {name}.")


def from_plain(raw: Any) -> Any:  # noqa: ANN401  # what `to_plain` was given
    """Return the value that `to_plain` was given.

    Raises:
        ValueError: It is something else.
    """
    if not isinstance(raw, list):
        return raw
    kind = raw[0]
    if kind == "array":
        data = np.frombuffer(base64.b64decode(raw[3]), np.dtype(raw[1]))
        return data.reshape(raw[2]).copy()
    if kind == "path":
        return Path(raw[1])
    if kind == "dict":
        return {from_plain(key): from_plain(one) for key, one in raw[1]}
    values = [from_plain(one) for one in raw[1]]
    if kind in ("list", "tuple", "set"):
        return {"list": list, "tuple": tuple, "set": set}[kind](values)
    if kind not in _RECORDS:
        raise ValueError(f"Not what a check has seen: {kind!r}.")
    return _RECORDS[kind](*values)


OPERATION = Operation(run=_run, commit=_commit)
