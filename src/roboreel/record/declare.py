"""What a dataset is declared to hold, checked before anything is made."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from roboreel.errors import EncodingError, MetadataError, RecordingError
from roboreel.format.counters import COUNTERS
from roboreel.format.features import feature_from_json
from roboreel.format.video_info import encoding_of, with_video_info
from roboreel.numbers import is_rate
from roboreel.schema import Feature
from roboreel.video.encode import check_encoding
from roboreel.video.encoding import Encoding

if TYPE_CHECKING:
    from collections.abc import Mapping

    from roboreel.record.options import CameraKind, Encodings
    from roboreel.schema import Manifest

    Declared = Mapping[str, Feature | Mapping[str, Any]]
    """By name, a `Feature` or an entry as LeRobot's info.json has it."""


def check_rate(fps: float) -> None:
    """Raise if a dataset cannot have a rate."""
    if not is_rate(fps):
        raise MetadataError(f"fps is {fps}: give frames per second, from 1e-6 to 1e6.")


def declare_features(features: Declared, camera_kind: CameraKind | None) -> dict[str, Feature]:
    """Return the features of a dataset, with the counters that every dataset has.

    Args:
        features: What a caller gives for each frame.
        camera_kind: How cameras are stored; None as their features say.

    Raises:
        MetadataError: A feature cannot be recorded.
    """
    declared = {}
    for name, given in features.items():
        if name in COUNTERS:
            continue
        feature = given if isinstance(given, Feature) else feature_from_json(name, given)
        if feature.is_camera and camera_kind is not None:
            feature = replace(feature, dtype=camera_kind)
        _check_feature(name, feature)
        declared[name] = feature
    return {**declared, **COUNTERS}


def choose_encodings(
    features: Mapping[str, Feature], encoding: Encodings | None
) -> dict[str, Encoding]:
    """Return how the images of each camera become video.

    Args:
        features: All features of the dataset.
        encoding: What was asked for: see `RecordingOptions.encoding`.

    Raises:
        EncodingError: One is given for something that is not a camera stored as video.
    """
    cameras = {name: f for name, f in features.items() if f.is_video}
    if encoding is None or isinstance(encoding, Encoding):
        # Depth has an encoding of its own, unless one is given by name.
        common = encoding
        return {
            name: encoding_of(feature) if common is None or feature.depth is not None else common
            for name, feature in cameras.items()
        }
    unknown = [name for name in encoding if name not in cameras]
    if unknown:
        raise EncodingError(
            f"An encoding is given for {unknown[0]!r}, which is not a camera stored as video: "
            f"there are {', '.join(cameras) or 'none'}."
        )
    return {name: encoding.get(name) or encoding_of(feature) for name, feature in cameras.items()}


def describe_videos(
    features: Mapping[str, Feature], encodings: Mapping[str, Encoding], fps: float
) -> dict[str, Feature]:
    """Return the features with what the metadata says of each video.

    Raises:
        EncodingError: A camera's images cannot be encoded so.
    """
    for name, encoding in encodings.items():
        height, width, _ = features[name].shape
        check_encoding(encoding, size=(height, width), fps=fps)
    return {
        name: with_video_info(feature, encodings[name], fps) if name in encodings else feature
        for name, feature in features.items()
    }


def check_same(manifest: Manifest, fps: float | None, features: Declared | None) -> None:
    """Raise if recording cannot go on in a dataset as asked.

    Args:
        manifest: The dataset.
        fps: If given, it must be the dataset's.
        features: If given, they must be the dataset's.

    Raises:
        RecordingError: They are not, or the episodes are not numbered from 0 without gaps.
    """
    where = f"in {str(manifest.root)!r}"
    count = len(manifest.episodes)
    if count and int(manifest.episodes.number[-1]) != count - 1:
        raise RecordingError(
            f"The {count} episodes are not numbered 0 to {count - 1}, so readers would not find "
            f"another one: make a new dataset of them, {where}."
        )
    if fps is not None and fps != manifest.fps:
        raise RecordingError(f"{fps:g} fps were asked for: there are {manifest.fps:g}, {where}.")
    if features is None:
        return
    asked = declare_features(features, None)
    for name in dict.fromkeys([*asked, *manifest.features]):
        ours, theirs = asked.get(name), manifest.features.get(name)
        if theirs is None:
            raise RecordingError(f"Feature {name!r} is not in the dataset, {where}.")
        if ours is None:
            raise RecordingError(f"Feature {name!r} is in the dataset, not in features, {where}.")
        if (ours.dtype, ours.shape) != (theirs.dtype, theirs.shape):
            raise RecordingError(
                f"Feature {name!r} is {theirs.dtype} {theirs.shape} in the dataset, and "
                f"{ours.dtype} {ours.shape} was asked for, {where}."
            )


def _check_feature(name: str, feature: Feature) -> None:
    if not name or name[0] == "." or "/" in name or "\\" in name or name == "task":
        raise MetadataError(f"A feature cannot be called {name!r}: choose another name.")
    if feature.kind == "language":
        raise MetadataError(f"Feature {name!r} is language, which is not recorded yet.")
    if feature.is_video and feature.depth is None and feature.shape[-1] != 3:
        raise MetadataError(
            f"Video of {name!r} has three colours, not the {feature.shape[-1]} of shape "
            f"{feature.shape}: use store='image', or Depth for distances."
        )
