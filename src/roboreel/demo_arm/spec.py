"""What a dataset of the simulated arm is like."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from roboreel.demo_arm.arm import ACTION_NAMES, STATE_NAMES
from roboreel.demo_arm.render import CAMERAS
from roboreel.format.counters import COUNTERS
from roboreel.format.video_info import with_video_info
from roboreel.schema import Feature
from roboreel.video.encoding import CODECS, Encoding

if TYPE_CHECKING:
    from roboreel.video.codecs import Codec

__all__ = ["DemoSpec"]

_KINDS = ("video", "image")
_VERSIONS = ("3.0", "2.1", "2.0")


@dataclass(frozen=True, slots=True)
class DemoSpec:
    """What a dataset of the simulated arm is like.

    Raises:
        ValueError: A value is out of range.
    """

    episodes: int = 20
    frames: int = 100
    """Frames of an average episode; single ones are up to a fifth shorter or longer."""
    cameras: int = 2
    size: tuple[int, int] = (240, 320)
    """``(height, width)`` of the images."""
    store: Literal["video", "image"] = "video"
    """Whether images are stored as video or, in Parquet, one by one."""
    codec: Codec = "av1"
    version: Literal["3.0", "2.1", "2.0"] = "3.0"
    """LeRobot's version of the dataset."""
    fps: int = 30
    seed: int = 0

    def __post_init__(self) -> None:
        if self.episodes < 0 or self.frames < 2 or self.fps < 1:
            raise ValueError(
                f"{self.episodes} episodes of {self.frames} frames at {self.fps} fps cannot be "
                "made: give 0 episodes or more, of at least 2 frames, at 1 fps or more."
            )
        if not 0 <= self.cameras <= len(CAMERAS):
            raise ValueError(f"{self.cameras} cameras were asked for: there are {len(CAMERAS)}.")
        _check_choice("store", self.store, _KINDS)
        _check_choice("codec", self.codec, CODECS)
        _check_choice("version", self.version, _VERSIONS)

    @property
    def features(self) -> dict[str, Feature]:
        """The features of the dataset."""
        camera = Feature(self.store, (*self.size, 3), ("height", "width", "channels"))
        if self.store == "video":
            camera = with_video_info(camera, Encoding(self.codec), self.fps)
        return {
            "observation.state": Feature("float32", (len(STATE_NAMES),), STATE_NAMES),
            "action": Feature("float32", (len(ACTION_NAMES),), ACTION_NAMES),
            "next.reward": Feature("float32", (1,)),
            "next.done": Feature("bool", (1,)),
            **{f"observation.images.{name}": camera for name in CAMERAS[: self.cameras]},
            **COUNTERS,
        }


def _check_choice(name: str, given: str, choices: tuple[str, ...]) -> None:
    if given not in choices:
        listed = ", ".join(repr(choice) for choice in choices)
        raise ValueError(f"{name} is {given!r}: choose one of {listed}.")
