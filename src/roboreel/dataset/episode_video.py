"""One camera of an episode as a video file of its own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from roboreel.errors import EncodingError, FeatureNotFoundError
from roboreel.files import atomic_file, write_atomically
from roboreel.format.video_info import encoding_of
from roboreel.video.clip_file import is_exact, make_clip_file
from roboreel.video.encode import encode_video

if TYPE_CHECKING:
    import os

    from roboreel.dataset.episodes import Episode
    from roboreel.video.encoding import Encoding


def write_episode_video(
    episode: Episode,
    path: str | os.PathLike[str],
    camera: str | None,
    encoding: Encoding | Literal["copy"] | None,
) -> Path:
    """Write the images of a camera to a file, and return its path; see `Episode.to_video`."""
    out, name = Path(path).expanduser(), _camera(episode, camera)
    if out.resolve().is_relative_to(episode.dataset.path.resolve()):
        raise EncodingError(
            "A video is not written into the folder of its dataset, which it would change. Give a "
            f"path elsewhere, not {str(out)!r}."
        )
    if isinstance(encoding, str) and encoding != "copy":
        raise EncodingError(
            f"encoding is {encoding!r}: give a roboreel.Encoding, such as Encoding(codec='h264'), or "
            "'copy'."
        )
    if out.is_dir():
        raise EncodingError(f"This is a folder: give the path of a video file, not {str(out)!r}.")
    if encoding is None or encoding == "copy":
        try:
            write_atomically(out, _copied(episode, name), sync=False)
        except _NoCopyError:
            if encoding == "copy":
                raise
            encoding = encoding_of(episode.dataset.features[name])
        else:
            return out
    with atomic_file(out, sync=False) as temporary:
        images = episode.stream(name, layout="hwc")
        encode_video(temporary, images, fps=episode.dataset.fps, encoding=encoding)
    return out


class _NoCopyError(EncodingError):
    """The packets of an episode are not all that a file of its own needs."""


def _copied(episode: Episode, camera: str) -> bytes:
    """Return the packets of an episode as a file."""
    dataset = episode.dataset
    if not dataset.features[camera].is_video:
        raise _refusal(episode, camera, "is stored as pictures, so there are no packets to copy")
    clip = dataset.frame_reader.clips.find(camera, episode.position)
    if not np.array_equal(clip.frames, np.arange(episode.length)):
        raise _refusal(episode, camera, "has frames without an image, or out of order")
    if not is_exact(clip.path, clip.table, clip.packets):
        raise _refusal(
            episode,
            camera,
            "needs packets of other episodes, since it does not start at a keyframe",
        )
    return make_clip_file(clip.path, clip.table, clip.packets, fps=dataset.fps)[0]


def _refusal(episode: Episode, camera: str, why: str) -> _NoCopyError:
    return _NoCopyError(
        f"Camera {camera!r} of episode {episode.number} {why}. To encode its images again, leave "
        f"out encoding='copy', or give a roboreel.Encoding: {str(episode.dataset.path)!r}."
    )


def _camera(episode: Episode, camera: str | None) -> str:
    cameras = episode.dataset.cameras
    if camera is None and len(cameras) == 1:
        return cameras[0]
    if camera is None or camera not in cameras:
        asked = "Name a camera" if camera is None else f"There is no camera {camera!r}"
        raise FeatureNotFoundError(
            f"{asked}: there are {', '.join(cameras) or 'none'}, in {str(episode.dataset.path)!r}."
        )
    return camera
