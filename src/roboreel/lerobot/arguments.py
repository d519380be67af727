"""Arguments of LeRobot's that have no effect here, accepted or refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roboreel.errors import UnsupportedArgumentError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "NO_EFFECT_RECORDING",
    "check_reading",
    "check_recording",
    "check_repo_type",
    "not_offered",
    "refuse_sync",
]

_BACKENDS = ("torchcodec", "pyav", "video_reader")
_NOT_OFFERED = (
    "start_image_writer",
    "stop_image_writer",
    "create_episode_buffer",
    "episode_buffer",
    "pull_from_repo",
    "download",
)
_RECORDING: dict[str, Any] = {
    "batch_encoding_size": 1,
    "vcodec": "libsvtav1",
    "rgb_encoder": None,
    "depth_encoder": None,
    "camera_encoder": None,
    "encoder_threads": None,
    "streaming_encoding": False,
    "encoder_queue_maxsize": 30,
}
"""Arguments of LeRobot's constructor that only concern recording, and their defaults."""

NO_EFFECT_RECORDING = (
    "image_writer_processes",
    "image_writer_threads",
    "metadata_buffer_size",
    "streaming_encoding",
    "tolerance_s",
    "video_backend",
)
"""Arguments of `create` and `resume` without effect: no temporary image is written, every episode
is on the disk when it is saved, and images are always encoded while they are recorded."""


def check_reading(further: Mapping[str, Any], video_backend: str | None) -> None:
    """Raise if a dataset cannot be read as asked.

    Raises:
        TypeError: LeRobot has no such argument.
        UnsupportedArgumentError: An argument would have no effect.
    """
    for name, value in further.items():
        if name not in _RECORDING:
            raise TypeError(f"LeRobotDataset() got an unexpected keyword argument {name!r}")
        if value is not None and value != _RECORDING[name]:
            raise UnsupportedArgumentError(
                f"{name}={value!r} is for recording, and the constructor only reads. Give it to "
                "LeRobotDataset.create or LeRobotDataset.resume."
            )
    if video_backend is not None and video_backend not in _BACKENDS:
        raise UnsupportedArgumentError(
            f"No video backend {video_backend!r}: LeRobot has {', '.join(_BACKENDS)}; here they "
            "all have the same effect."
        )


def check_recording(method: str, further: Mapping[str, Any]) -> None:
    """Raise if LeRobot's method has no such arguments, or one that cannot be followed.

    Raises:
        TypeError: LeRobot has no such argument.
        UnsupportedArgumentError: Episodes cannot be encoded later.
    """
    for name, value in further.items():
        if name in NO_EFFECT_RECORDING:
            continue
        if name == "batch_encoding_size":
            if value != 1:
                raise UnsupportedArgumentError(
                    f"batch_encoding_size={value!r} would encode several episodes later: here "
                    "images are encoded while they are recorded. Leave it out."
                )
        else:
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
