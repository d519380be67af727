"""What can be wrong with a dataset: findings, and the rules behind their codes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = get_args(Severity)
"""By consequence, the worst first.

``error``: training reads a wrong value, or fails. ``warning``: suspicious. ``note``: worth knowing.
"""

Tier = Literal["metadata", "numbers", "index", "deep"]
TIERS: tuple[Tier, ...] = get_args(Tier)
"""By cost, the cheapest first.

``metadata``: the files of ``meta/`` and the names of all others. ``numbers``: every row of the data
files. ``index``: the packet tables of the videos. ``deep``: every image, decoded.
"""


@dataclass(frozen=True, slots=True)
class Rule:
    """What one code stands for."""

    code: str
    """``RR`` and three digits. A code is never used again for something else."""
    name: str
    """The rule in a few words, in kebab-case."""
    severity: Severity
    """What a finding has unless its evidence says otherwise."""
    tier: Tier
    """What has to be read to find it."""
    summary: str
    """What is wrong, in one sentence."""
    fixable: bool = False
    """Whether `roboreel repair` usually has an answer."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong with a dataset, and where. Prints as its message.

    Examples:
        >>> found = finding("RR101", "info.json counts 3 episodes, the tables hold 2.")
        >>> print(found)
        info.json counts 3 episodes, the tables hold 2.
        >>> found.code, found.severity, found.rule.name
        ('RR101', 'error', 'wrong-counts')
    """

    code: str
    severity: Severity
    message: str
    """One or two sentences."""
    file: str | None = None
    """Path below the dataset's folder, with forward slashes."""
    episode: int | None = None
    """The number of the episode."""
    feature: str | None = None
    rows: tuple[int, int] | None = None
    """The rows of the dataset that are affected, ``[start, stop)``."""
    fixable: bool = False
    """Whether `roboreel repair` has an answer."""

    def __str__(self) -> str:
        return self.message

    @property
    def rule(self) -> Rule:
        """The rule that its code stands for."""
        return RULES[self.code]


def finding(
    code: str,
    message: str,
    *,
    severity: Severity | None = None,
    file: str | None = None,
    episode: int | None = None,
    feature: str | None = None,
    rows: tuple[int, int] | None = None,
    fixable: bool | None = None,
) -> Finding:
    """Return a finding; severity and fixable are those of its rule unless given.

    Raises:
        KeyError: There is no such rule.
    """
    rule = RULES[code]
    return Finding(
        code=code,
        severity=rule.severity if severity is None else severity,
        message=message,
        file=file,
        episode=None if episode is None else int(episode),
        feature=feature,
        rows=None if rows is None else (int(rows[0]), int(rows[1])),
        fixable=rule.fixable if fixable is None else fixable,
    )


# One line per rule, however long: this is the list that docs/checks/ follows.
# fmt: off
_ALL = (
    Rule("RR001", "not-checked", "warning", "metadata", "A check could not run."),

    Rule("RR101", "wrong-counts", "error", "metadata", "info.json counts something else than the tables hold.", fixable=True),
    Rule("RR102", "unclear-version", "warning", "metadata", "codebase_version is missing, null or newer than what is read."),
    Rule("RR103", "unusable-feature", "warning", "metadata", "A feature's entry in info.json cannot be used, and the feature is left out."),
    Rule("RR104", "missing-file", "error", "metadata", "A file that the metadata names is missing."),
    Rule("RR105", "orphan-file", "warning", "metadata", "A data or video file is used by no episode.", fixable=True),
    Rule("RR106", "stray-metadata", "warning", "metadata", "A file in meta/ is not part of the dataset, and is ignored.", fixable=True),
    Rule("RR107", "lfs-pointer", "error", "metadata", "A Git LFS pointer stands in place of a file."),
    Rule("RR108", "unsafe-path", "error", "metadata", "A path leads out of the dataset's folder."),
    Rule("RR109", "camera-without-files", "warning", "metadata", "A declared camera has no file at all."),
    Rule("RR110", "misplaced-files", "error", "metadata", "Files lie in another folder than the path template says.", fixable=True),
    Rule("RR111", "unreadable-metadata", "error", "metadata", "A metadata file is missing, empty or unreadable."),
    Rule("RR112", "duplicate-episode", "error", "metadata", "An episode is listed more than once.", fixable=True),
    Rule("RR113", "wrong-splits", "warning", "metadata", "The splits in info.json do not fit the episodes.", fixable=True),
    Rule("RR114", "derived-columns", "note", "metadata", "The episode table lacks columns, which were derived.", fixable=True),
    Rule("RR115", "ambiguous-tasks", "error", "metadata", "The numbers in the table of tasks are not the places of its rows: readers disagree."),
    Rule("RR116", "unlisted-task", "warning", "metadata", "An episode names a task that the table of tasks lacks."),

    Rule("RR201", "unreadable-table", "error", "numbers", "A data file is not a readable Parquet file.", fixable=True),
    Rule("RR202", "wrong-length", "error", "numbers", "An episode has another length in the metadata than in its data file.", fixable=True),
    Rule("RR203", "wrong-spans", "error", "metadata", "The row spans of the episodes do not add up.", fixable=True),
    Rule("RR204", "wrong-episode-index", "error", "numbers", "Rows belong to another episode than the metadata says."),
    Rule("RR205", "wrong-index", "error", "numbers", "The column index does not count the rows of the dataset.", fixable=True),
    Rule("RR206", "wrong-frame-index", "error", "numbers", "The column frame_index does not count the frames of an episode.", fixable=True),
    Rule("RR207", "undefined-task", "error", "numbers", "Rows have a task_index that no task has.", fixable=True),
    Rule("RR208", "unused-task", "note", "numbers", "A task is used by no row."),
    Rule("RR209", "null-task", "warning", "numbers", "Rows have no task_index.", fixable=True),
    Rule("RR210", "wrong-type", "error", "numbers", "A column has another shape or dtype than info.json declares."),
    Rule("RR211", "missing-column", "error", "numbers", "A declared feature has no column."),
    Rule("RR212", "null-values", "error", "numbers", "A column has nulls."),
    Rule("RR213", "unreadable-rows", "error", "numbers", "A part of a data file cannot be read."),

    Rule("RR301", "time-gap", "error", "numbers", "The timestamps of an episode jump."),
    Rule("RR302", "time-not-increasing", "error", "numbers", "The timestamps of an episode do not increase."),
    Rule("RR303", "time-drift", "error", "numbers", "Timestamps drift away from frame_index / fps."),
    Rule("RR304", "time-jitter", "note", "numbers", "The steps between timestamps are uneven."),
    Rule("RR305", "wrong-fps", "error", "index", "A video has another frame rate than info.json."),

    Rule("RR401", "unreadable-video", "error", "index", "A video file is unreadable or cut off."),
    Rule("RR402", "missing-images", "error", "index", "A video has fewer images than its episodes have frames."),
    Rule("RR403", "unused-images", "note", "index", "A video has images that belong to no episode."),
    Rule("RR404", "shifted-clip", "error", "index", "A clip does not start at its image.", fixable=True),
    Rule("RR405", "overlapping-clips", "error", "index", "Clips of one video file overlap.", fixable=True),
    Rule("RR406", "wrong-video-format", "error", "index", "A video has another size, channels or codec than info.json declares.", fixable=True),
    Rule("RR407", "mixed-videos", "warning", "index", "The video files of a camera differ in size or codec."),
    Rule("RR408", "few-keyframes", "warning", "index", "A video has no keyframe table, or few keyframes.", fixable=True),
    Rule("RR409", "frozen-feed", "note", "index", "The packets of a video suggest a frozen camera."),
    Rule("RR410", "swapped-videos", "error", "index", "The videos of two episodes or cameras look swapped."),
    Rule("RR411", "late-index", "note", "index", "The index of a video is at its end, which is slow to open over a network.", fixable=True),
    Rule("RR412", "codec-without-viewer", "note", "index", "Rerun cannot show a video's codec."),

    Rule("RR501", "wrong-statistics", "error", "numbers", "Stored statistics differ from the values.", fixable=True),
    Rule("RR502", "disordered-quantiles", "error", "metadata", "Stored quantiles are out of order or outside of min and max.", fixable=True),
    Rule("RR503", "missing-statistics", "warning", "metadata", "A feature has no statistics.", fixable=True),
    Rule("RR504", "degenerate-image-statistics", "warning", "metadata", "The stored std of a camera is 0 or not a number.", fixable=True),
    Rule("RR505", "known-statistics-defect", "note", "metadata", "The statistics have a known defect of the LeRobot version that wrote them.", fixable=True),
    Rule("RR506", "wrong-episode-statistics", "warning", "numbers", "The statistics of an episode differ from its values.", fixable=True),

    Rule("RR601", "nan", "error", "numbers", "Values are NaN."),
    Rule("RR602", "infinity", "error", "numbers", "Values are infinite."),
    Rule("RR603", "constant-element", "note", "numbers", "An element of a feature never changes."),
    Rule("RR604", "saturated", "note", "numbers", "An element of a feature is at its limit much of the time."),
    Rule("RR605", "idle-stretch", "note", "numbers", "Nothing moves for a long stretch of an episode."),
    Rule("RR610", "undecodable-image", "error", "deep", "An image cannot be decoded."),
    Rule("RR611", "frozen-camera", "warning", "deep", "A camera shows the same image for a long time."),
    Rule("RR612", "black-images", "note", "deep", "Images are black."),
    Rule("RR613", "blurred-images", "note", "deep", "Images are blurred."),
)
# fmt: on

RULES: dict[str, Rule] = {rule.code: rule for rule in _ALL}
"""Every rule by its code, in the order of the codes."""
