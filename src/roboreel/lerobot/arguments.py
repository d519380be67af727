"""Arguments of LeRobot's that are not followed as they are: accepted or refused."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from roboreel.errors import UnsupportedArgumentError

if TYPE_CHECKING:
    from collections.abc import Mapping

_BACKENDS = ("torchcodec", "pyav", "video_reader")
_NOT_OFFERED = (
    "create_episode_buffer",
    "pull_from_repo",
    "download",
)
_RECORDING: dict[str, Any] = {
    "batch_encoding_size": 1,
    "vcodec": None,
    "rgb_encoder": None,
    "depth_encoder": None,
    "camera_encoder": None,
    "encoder_threads": None,
    "streaming_encoding": False,
    "encoder_queue_maxsize": 30,
}
"""Arguments of LeRobot's constructor that only concern recording, and their defaults."""

ENCODERS = ("vcodec", "rgb_encoder", "depth_encoder", "encoder_threads")
"""Those that say how images are encoded."""

NO_EFFECT_RECORDING = (
    "batch_encoding_size",
    "image_writer_processes",
    "image_writer_threads",
    "metadata_buffer_size",
    "streaming_encoding",
    "tolerance_s",
    "video_backend",
)
"""Arguments of `create` and `resume` without effect: no temporary image is written, every episode
is on the disk when it is saved, and images are always encoded while they are recorded."""


def check_reading(further: Mapping[str, Any], video_backend: str | None) -> dict[str, Any]:
    """Return the arguments of LeRobot's constructor that concern recording.

    Raises:
        TypeError: LeRobot has no such argument.
        UnsupportedArgumentError: LeRobot has no such video backend.
    """
    unknown = [name for name in further if name not in _RECORDING]
    if unknown:
        raise TypeError(f"LeRobotDataset() got an unexpected keyword argument {unknown[0]!r}")
    if video_backend is not None and video_backend not in _BACKENDS:
        raise UnsupportedArgumentError(
            f"No video backend {video_backend!r}: LeRobot has {', '.join(_BACKENDS)}; here they "
            "all have the same effect."
        )
    return {**_RECORDING, **further}


def asks_to_record(recording: Mapping[str, Any]) -> bool:
    """Return whether LeRobot's constructor would make a dataset that can be recorded into."""
    asked = recording["streaming_encoding"] or recording["batch_encoding_size"] != 1
    if asked:
        warnings.warn(
            "streaming_encoding and batch_encoding_size in the constructor are deprecated: use "
            "LeRobotDataset.resume to record.",
            DeprecationWarning,
            stacklevel=3,
        )
    return bool(asked)


def check_recording(method: str, further: Mapping[str, Any]) -> None:
    """Raise TypeError if LeRobot's method has no such arguments."""
    for name in further:
        if name not in NO_EFFECT_RECORDING:
            raise TypeError(
                f"LeRobotDataset.{method}() got an unexpected keyword argument {name!r}"
            )


def check_repo_type(repo_type: str) -> None:
    """Raise if a dataset would be something else than a dataset of the Hub.

    Raises:
        UnsupportedArgumentError: It is a bucket, or LeRobot has no such type.
    """
    if repo_type == "bucket":
        raise UnsupportedArgumentError(
            "repo_type='bucket' would stream from the Hub: only 'dataset' is supported."
        )
    if repo_type != "dataset":
        raise UnsupportedArgumentError(
            f"repo_type must be 'dataset' or 'bucket', and is {repo_type!r}: only 'dataset' is "
            "supported."
        )


def not_offered(name: str) -> str | None:
    """Return what to do instead of using an attribute of LeRobot's; None if it has no such."""
    if name not in _NOT_OFFERED:
        return None
    return (
        f"LeRobotDataset.{name} is not supported: frames go to add_frame, and downloads "
        "are done by roboreel.huggingface.download."
    )


def refuse_sync(repo_id: str, force_cache_sync: bool) -> None:
    """Raise if the network would have to be used."""
    if force_cache_sync:
        raise UnsupportedArgumentError(
            "force_cache_sync=True would use the network, which only "
            f"roboreel.huggingface.download({repo_id!r}) does: call that first."
        )
