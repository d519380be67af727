"""The mapping that a recording gets if none is given: names by layout, and what is left out."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from roboreel.errors import SourceError
from roboreel.importing.mapping import FeatureMap, ImportMap, TaskRule
from roboreel.importing.rates import chosen_times, median_rate, usual_gap
from roboreel.importing.recording import TASK_NAMES
from roboreel.importing.time_units import is_time_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from roboreel.importing.mapping import Changes
    from roboreel.importing.recording import Recording, Stream

ACTION, STATE = "action", "observation.state"


@dataclass(frozen=True, slots=True)
class _Usual:
    """How often the messages of a topic come."""

    messages: int
    rate: float
    """Messages a second, usually."""
    span: int
    """Nanoseconds from the first to the end of the last."""
    covered: int
    """Nanoseconds of these that are near a message."""


@dataclass(frozen=True, slots=True)
class _Layout:
    """What is peculiar to a layout."""

    names: Mapping[str, str]
    """Features of streams, by name."""
    left_out: Mapping[str, str]
    """Why streams are not mapped, by a pattern of their names."""
    state: tuple[tuple[str, ...], ...] = ()
    """Streams that together are the state: the first of these of which all are there."""
    action_is_next_state: bool = False
    """Whether the action of a frame is the state of the next one."""
    flip: str | None = None
    """How images have to be turned."""


_SIMULATOR = {
    r"next_obs/.*": "the observation of the next frame",
    r"states": "the state of the simulator",
    r"action_dict/.*": "the parts of the action",
    r"(datagen_info/.*|src_demo_(inds|labels))": "how MimicGen made the demonstration",
}
_REWARDS = {"rewards": "next.reward", "dones": "next.done"}
_RESULTS = {
    **_REWARDS,
    "reward": "next.reward",
    "done": "next.done",
    **dict.fromkeys(("terminals", "terminations", "terminated"), "next.terminal"),
    **dict.fromkeys(("timeouts", "truncations", "truncated"), "next.truncated"),
}
_FLAGS = ("next.done", "next.terminal", "next.truncated")
_EEF = ("obs/robot0_eef_pos", "obs/robot0_eef_quat", "obs/robot0_gripper_qpos")
_HAND = ("eef_pos", "eef_rot_axis_angle", "gripper_width")
_UMI = tuple(f"robot0_{name}" for name in _HAND)
_UMI_TWO = (*_UMI, *(f"robot1_{name}" for name in _HAND))
_LAYOUTS = {
    "act": _Layout(
        {
            "observations/qpos": STATE,
            "observations/qvel": "observation.velocity",
            "observations/effort": "observation.effort",
            "base_action": "action.base",
        },
        {},
    ),
    "robomimic": _Layout(_REWARDS, _SIMULATOR, (_EEF,)),
    "libero": _Layout(
        _REWARDS,
        {**_SIMULATOR, "robot_states": "the joints and the gripper once more"},
        (("obs/ee_states", "obs/gripper_states"),),
        flip="vertical",  # The renderer counts lines from the bottom.
    ),
    "diffusion_policy": _Layout({"state": STATE, "img": "observation.image"}, {}),
    "umi": _Layout(
        {},
        {r"robot\d+_demo_end_pose": "how the episode ends, which is not known during it"},
        (_UMI_TWO, _UMI),
        action_is_next_state=True,
    ),
    "rlds": _Layout(
        {
            "reward": "next.reward",
            "is_last": "next.done",
            "is_terminal": "next.terminal",
            "discount": "next.discount",
        },
        {
            r"is_first": "the first frame of an episode",
            r".*embedding.*": "an embedding of the task",
        },
    ),
}
_NONE = _Layout({}, {r"next_obs(ervations?)?(/.*)?": "the observation of the next frame"})
_MESSAGES = {
    r"(rcl_interfaces|rosgraph_msgs)/(msg/)?Log": "a log",
    r"rcl_interfaces/(msg/)?\w+": "parameters of nodes",
    r"rosgraph_msgs/(msg/)?Clock": "a clock",
    r"(diagnostic|bond|lifecycle|service|statistics)_msgs/(msg/)?\w+": "the state of the software",
    r"(sensor_msgs/(msg/)?CameraInfo|foxglove.CameraCalibration)": "the calibration of a camera",
    r"(sensor_msgs/(msg/)?PointCloud2?|foxglove.PointCloud)": "a point cloud",
    r"(nav_msgs/(msg/)?(OccupancyGrid|Path)|visualization_msgs/(msg/)?\w+)": "a map or a drawing",
}
"""Why messages are not mapped, by a pattern of their type."""
_LEAST_COVERED = 0.8
_LEAST_COVERED_BY_CAMERA = 0.3
"""A camera is worth more than the seconds before its driver was ready."""
_LEAST_BYTES = 64
_COUNTERS = re.compile(r"(.*/)?(frame_index|episode_index|index|task_index)")
_COMMAND = re.compile(
    r"(.+_)?(cmds?|commands?|leader|master)(_(?!state|board).+)?|commanded_.+", re.IGNORECASE
)
"""What is sent to the robot: parts of the names of streams."""
_PREFIX = re.compile(r"^(observations?|obs|data)[/.]")
_SUFFIX = re.compile(r"[_/](image|rgb|color|img|compressed|image_raw|compressed_video|video)$")


def default_map(recording: Recording) -> ImportMap:
    """Return the mapping of a recording, by its layout and the names of its streams."""
    layout = _LAYOUTS.get(recording.layout, _NONE)
    features: dict[str, FeatureMap] = {}
    together = next((s for s in layout.state if _all_numbers(recording, s)), ())
    if together:
        features[STATE] = FeatureMap(together)
    if together and layout.action_is_next_state:
        features[ACTION] = FeatureMap(together, shift=1)
    task, usual = task_stream(recording), _usual(recording)
    for stream in recording.streams.values():
        if stream.name in together or _why_not(recording, stream, layout, task, usual):
            continue
        name = _free(_name(stream, layout, recording), features)
        flip = layout.flip if stream.is_camera and stream.depth_unit is None else None
        # Simulators write 0 and 1; LeRobot's features of these names are booleans.
        dtype = "bool" if name in _FLAGS and stream.dtype != "bool" else None
        features[name] = FeatureMap((stream.name,), flip=flip, dtype=dtype)
    if not features:
        said = [
            f"{s.name}: {_why_not(recording, s, layout, task, usual)}"
            for s in recording.streams.values()
        ]
        raise SourceError(
            f"No stream can become a feature by itself ({'; '.join(said[:8])}). Give a mapping with "
            f"--map: {str(recording.path)!r}."
        )
    return ImportMap(features, task=TaskRule(stream=task))


def changed_map(recording: Recording, mapping: ImportMap | None, changes: Changes) -> ImportMap:
    """Return a mapping, or the one that a recording gets by default, with changes."""
    given = default_map(recording) if mapping is None else mapping
    features = {
        name: _changed_feature(recording, one, changes) for name, one in given.features.items()
    }
    task = given.task if changes.task is None else TaskRule(changes.task, given.task.stream)
    names = ("fps", "align", "max_gap_ns", "clock", "follow", "drop_last")
    fields = {name: getattr(changes, name) for name in names}
    kept = {name: value for name, value in fields.items() if value is not None}
    return replace(given, features=features, task=task, **kept)


def _changed_feature(recording: Recording, one: FeatureMap, changes: Changes) -> FeatureMap:
    streams = [recording.streams[name] for name in one.streams if name in recording.streams]
    if changes.store is not None and any(s.is_camera and s.depth_unit is None for s in streams):
        one = replace(one, store=changes.store)
    wide = any(s.kind == "numbers" and s.dtype == "float64" for s in streams)
    if changes.float32 and wide and one.dtype is None:
        one = replace(one, dtype="float32")
    return one


def unmapped_streams(recording: Recording, mapping: ImportMap) -> dict[str, str]:
    """Return the streams that no feature comes from, and why, by name."""
    used: set[str | None] = {n for one in mapping.features.values() for n in one.streams}
    used |= {mapping.task.stream, mapping.episodes.start, mapping.episodes.stop}
    used |= {mapping.episodes.active, mapping.episodes.stream}
    layout, usual = _LAYOUTS.get(recording.layout, _NONE), _usual(recording)
    return {
        name: _why_not(recording, stream, layout, mapping.task.stream, usual)
        or "not in the mapping"
        for name, stream in recording.streams.items()
        if name not in used and not (stream.topic in used and _is_alone(recording, stream))
    }


def _is_alone(recording: Recording, stream: Stream) -> bool:
    """Return whether a stream can be meant by its topic's name: no other listed one has a part of it."""
    parts = [n for n, s in recording.streams.items() if s.topic == stream.topic and n != s.topic]
    return parts == [stream.name]


def _why_not(
    recording: Recording,
    stream: Stream,
    layout: _Layout,
    task: str | None,
    usual: Mapping[str, _Usual],
) -> str:
    """Return why a stream is mapped only on request; nothing if it is mapped by default."""
    if stream.kind == "other":
        return stream.note
    if stream.name == task:
        return "the task in words"
    for pattern, reason in layout.left_out.items():
        if re.fullmatch(pattern, stream.name):
            return reason
    if _COUNTERS.fullmatch(stream.name) or _is_time(stream):
        return "times and counters are made anew"
    for pattern, reason in _MESSAGES.items():
        if recording.timed and re.fullmatch(pattern, stream.source_type):
            return reason
    if recording.timed and stream.kind == "numbers" and _are_bytes(stream):
        return "bytes of a format that is not known"
    if recording.timed:
        return _too_rare(stream, usual)
    return ""


def _is_time(stream: Stream) -> bool:
    is_number = stream.kind == "numbers" and stream.dtype != "bool" and math.prod(stream.shape) == 1
    return is_number and is_time_name(stream.name)


def _are_bytes(stream: Stream) -> bool:
    """Whether values are rather sound or a packed format, whose length may change at any time."""
    return stream.dtype in ("uint8", "int8") and math.prod(stream.shape) >= _LEAST_BYTES


def _too_rare(stream: Stream, usual: Mapping[str, _Usual]) -> str:
    """Return why a stream of messages cannot fill rows; nothing if it can."""
    one = usual[stream.topic]
    if stream.kind == "text" or one.messages < 2:
        return f"{one.messages} messages" if stream.kind != "text" else "a text"
    if one.rate < 1:
        return f"{one.rate:.2g} messages a second"
    least = _LEAST_COVERED_BY_CAMERA if stream.is_camera else _LEAST_COVERED
    longest = max(other.span for other in usual.values())
    if one.span < least * longest:
        return f"it covers {one.span / longest:.0%} of the time only"
    # Messages on events, such as those of a gamepad: frames would be dropped between them. A pause
    # of the whole recording is another thing.
    most = max(other.covered for other in usual.values() if other.rate >= 1)
    if one.covered < least * most:
        return f"it has long gaps: messages are near for {one.covered / most:.0%} of the time"
    return ""


def _usual(recording: Recording) -> dict[str, _Usual]:
    """Return how often messages come, by topic; nothing for a recording of steps."""
    if not recording.timed:
        return {}
    # Streams of one topic have the same times, of which there may be millions.
    by_topic = {one.topic: name for name, one in recording.streams.items()}
    found = {}
    for topic, name in by_topic.items():
        times = np.sort(chosen_times(recording, 0, name))
        rate, steps = median_rate(times) or 0.0, np.diff(times)
        near = steps.clip(0, 2 * usual_gap(rate or None))
        # The last message stands for one more step: of three in three seconds, two lie between.
        last = round(1e9 / rate) if rate else 0
        found[topic] = _Usual(len(times), rate, int(steps.sum()) + last, int(near.sum()) + last)
    return found


def task_stream(recording: Recording) -> str | None:
    """Return the stream that holds the task, found by its name."""
    texts = [s for s in recording.streams.values() if s.kind == "text"]
    for wanted in TASK_NAMES:
        for stream in texts:
            if wanted in (stream.topic.rsplit("/", 1)[-1], stream.name.rpartition(":")[2]):
                return stream.name
    return None


def _all_numbers(recording: Recording, names: tuple[str, ...]) -> bool:
    streams = recording.streams
    return all(name in streams and streams[name].kind == "numbers" for name in names)


def _name(stream: Stream, layout: _Layout, recording: Recording) -> str:
    if stream.name in layout.names:
        return layout.names[stream.name]
    path = stream.name.strip("/")
    if path in ("action", "actions"):
        return ACTION
    if stream.is_camera:
        return _camera_name(path)
    if _is_command(stream):
        return _command_name(stream, recording)
    if path.endswith(":position") and _is_only(recording, ":position"):
        return STATE
    short = _PREFIX.sub("", path)
    if short in ("state", "qpos", "proprio", "observations"):
        return STATE
    parts = _parts(short)
    if short in _RESULTS:
        return _RESULTS[short]
    # Whatever is called an action must not become an observation: a policy would be told it.
    called = re.fullmatch(r"actions?(?:_(.+))?", parts[0]) if parts else None
    if called:
        rest = [called[1]] if called[1] and called[1] != "dict" else []
        return ".".join([ACTION, *rest, *parts[1:]])
    return ".".join(["observation", *(parts or ["value"])])


def _is_command(stream: Stream) -> bool:
    parts = re.split(r"[/:.]", stream.name.strip("/"))
    return stream.kind == "numbers" and any(_COMMAND.fullmatch(part) for part in parts)


def _command_name(stream: Stream, recording: Recording) -> str:
    """Return the name of a command to the robot: as an observation, a policy would copy it."""
    path = stream.name.strip("/")
    streams = recording.streams.values()
    others = [s for s in streams if _is_command(s) or s.name.strip("/") in ("action", "actions")]
    of_one = {s.topic for s in others} == {stream.topic}
    if len(others) == 1 or (of_one and path.endswith(":position")):
        return ACTION
    return ".".join([ACTION, *_parts(_PREFIX.sub("", path))])


def _camera_name(path: str) -> str:
    short = _PREFIX.sub("", path)
    if short in ("image", "img", "rgb"):
        return "observation.image"
    while _SUFFIX.search(short):
        short = _SUFFIX.sub("", short)
    parts = [p for p in _parts(short) if p not in ("images", "image", "observation")] or ["camera"]
    return f"observation.images.{'_'.join(parts)}"


def _is_only(recording: Recording, ending: str) -> bool:
    streams = recording.streams.values()
    return sum(s.name.endswith(ending) and not _is_command(s) for s in streams) == 1


def _parts(path: str) -> list[str]:
    """Return the parts of a stream's name, with what names of features may have."""
    parts = (re.sub(r"[^A-Za-z0-9_\-]+", "_", p).strip("_") for p in re.split(r"[/:.]", path))
    return [part for part in parts if part]


def _free(name: str, taken: Mapping[str, object]) -> str:
    number, free = 2, name
    while free in taken:
        free, number = f"{name}_{number}", number + 1
    return free
