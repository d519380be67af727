"""A dataset of the simulated arm, made from nothing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Literal, get_args

from roboreel.demo_arm.arm import ACTION_NAMES, STATE_NAMES, simulate_episode
from roboreel.demo_arm.render import CAMERAS, render
from roboreel.edit import plan_conversion
from roboreel.files import atomic_folder
from roboreel.format.paths import STATS_PATH
from roboreel.record.folders import check_absent
from roboreel.record.opening import create_dataset
from roboreel.schema import Feature
from roboreel.video.encoding import CODECS, Encoding

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from roboreel.video.codecs import Codec

__all__ = ["DemoSpec", "make_demo_dataset"]

_Store = Literal["video", "image"]
_Version = Literal["3.0", "2.1", "2.0"]
_MOST_WAIT_S = 3600.0


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
    store: _Store = "video"
    """Whether images are stored as video or, in Parquet, as PNG."""
    codec: Codec = "av1"
    version: _Version = "3.0"
    """LeRobot's version of the dataset."""
    fps: int = 30
    seed: int = 0

    def __post_init__(self) -> None:
        least = 0 if self.version == "3.0" else 1  # v2.x has no empty datasets to convert to.
        if self.episodes < least or self.frames < 2 or self.fps < 1:
            raise ValueError(
                f"{self.episodes} episodes of {self.frames} frames at {self.fps} fps cannot be "
                f"made: give {least} episodes or more, of at least 2 frames, at 1 fps or more."
            )
        if not 0 <= self.cameras <= len(CAMERAS):
            raise ValueError(f"{self.cameras} cameras were asked for: there are {len(CAMERAS)}.")
        choices = {"store": get_args(_Store), "codec": CODECS, "version": get_args(_Version)}
        for name, known in choices.items():
            if getattr(self, name) not in known:
                listed = ", ".join(map(repr, known))
                raise ValueError(f"{name} is {getattr(self, name)!r}: choose one of {listed}.")


def make_demo_dataset(
    path: str | os.PathLike[str],
    spec: DemoSpec | None = None,
    *,
    on_episode: Callable[[int], object] = lambda _: None,
) -> Path:
    """Make a dataset; it appears whole or not at all, and equal specs give equal Parquet files.

    Args:
        path: A folder that does not exist yet, or is empty.
        spec: What the dataset is like.
        on_episode: Called after each episode, with how many are done.

    Returns:
        The dataset's folder.

    Raises:
        RecordingError: The path already exists, and is not an empty folder.
    """
    root, spec = Path(path).expanduser(), spec or DemoSpec()
    check_absent(root)
    with atomic_folder(root) as made:
        if spec.version == "3.0":
            _record(made, spec, on_episode)
        else:
            with TemporaryDirectory(prefix="roboreel-") as scratch:
                recorded = Path(scratch) / "arm"
                _record(recorded, spec, on_episode)
                plan_conversion(recorded, spec.version, made).apply()
                if spec.version == "2.1":
                    (made / STATS_PATH).unlink()  # LeRobot's v2.1 has those of episodes alone.
    return root


def _record(root: Path, spec: DemoSpec, on_episode: Callable[[int], object]) -> None:
    cameras = {f"observation.images.{name}": name for name in CAMERAS[: spec.cameras]}
    features = {
        "observation.state": Feature("float32", (len(STATE_NAMES),), STATE_NAMES),
        "action": Feature("float32", (len(ACTION_NAMES),), ACTION_NAMES),
        "next.reward": Feature("float32", (1,)),
        "next.done": Feature("bool", (1,)),
        **dict.fromkeys(cameras, Feature(spec.store, (*spec.size, 3))),
    }
    with create_dataset(
        root,
        fps=spec.fps,
        features=features,
        robot_type="roboreel_demo_arm",
        encoding=Encoding(spec.codec),
        max_wait_s=_MOST_WAIT_S,
    ) as recorder:
        for number in range(spec.episodes):
            run = simulate_episode(spec.seed, number, spec.frames, spec.fps)
            for i, scene in enumerate(run.scenes):
                numbers = {
                    "observation.state": run.state[i],
                    "action": run.action[i],
                    "next.reward": run.reward[i],
                    "next.done": run.done[i],
                }
                images = {key: render(scene, name, spec.size) for key, name in cameras.items()}
                recorder.add_frame({**numbers, **images}, task=run.task)
            recorder.hold_episode()
            on_episode(number + 1)
