"""Views as `datasets.Dataset`, and downloads. Importing this is opting in to the ``hf`` extra."""

from __future__ import annotations

from glob import escape
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

try:
    import datasets
    import huggingface_hub
    import pyarrow as pa
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "roboreel.huggingface needs datasets and huggingface_hub. "
        "Install them with: pip install 'roboreel[hf]'",
        name=error.name,
    ) from error

from roboreel.errors import FeatureNotFoundError, MissingFileError
from roboreel.format import read_manifest
from roboreel.image import encode_png

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Sequence

    from roboreel.dataset import Dataset
    from roboreel.schema import Feature, Manifest

__all__ = ["download", "files_of_episodes", "to_datasets", "to_hf_features"]


def to_datasets(view: Dataset, features: Sequence[str] | None = None) -> Any:  # noqa: ANN401
    """Return the frames of a dataset or view as a `datasets.Dataset`, with cameras as images.

    It is made in memory, and no cache folder is touched. It takes as many bytes as the numbers
    have, and for cameras those of the encoded pictures: as much as the view's share of the Parquet
    files. Video is left out unless its camera is named; then every image of it is decoded and
    held as a PNG, about a hundred times the size of the video.

    Args:
        view: What to convert; ``dataset.select(…)`` first, to convert some episodes.
        features: Names of features; all that are not video when not given.

    Raises:
        FeatureNotFoundError: A feature that does not exist.
    """
    names = _names(view, features)
    plain = [name for name in names if not view.features[name].is_camera]
    samples = np.arange(len(view), dtype=np.int64)
    values = view.read(samples, plain) if plain else {}
    types = to_hf_features(view, names)
    columns = {
        name: _arrow_column(view, name, values.get(name), types.arrow_schema.field(name).type)
        for name in names
    }
    table = pa.table(columns, schema=types.arrow_schema)
    return datasets.Dataset(table, info=datasets.DatasetInfo(features=types))


def to_hf_features(view: Dataset, features: Sequence[str] | None = None) -> Any:  # noqa: ANN401
    """Return the types of such a dataset: a `datasets.Features`."""
    names = _names(view, features)
    return datasets.Features({name: _hf_feature(view.features[name]) for name in names})


def download(
    repo_id: str,
    *,
    episodes: Iterable[int] | None = None,
    revision: str | None = None,
    root: str | os.PathLike[str] | None = None,
) -> Path:
    """Fetch a dataset from the Hub, or only the files that some episodes need.

    The metadata comes first and whole; it names the rest. What is there already is not fetched
    again, and a file that was cut off goes on where it stopped. With ``HF_HUB_OFFLINE`` set,
    nothing is fetched, and it is checked that all is there. A progress bar is shown; the variable
    ``HF_HUB_DISABLE_PROGRESS_BARS`` hides it.

    Args:
        repo_id: The dataset's id on the Hub.
        episodes: Numbers of the episodes that are needed; all when not given.
        revision: A branch, tag or commit; ``"main"`` when not given.
        root: A folder to put the files in; the Hub's cache when not given, where
            ``open_dataset("hf://datasets/…")`` finds them.

    Returns:
        The dataset's folder, for `open_dataset`.

    Raises:
        EpisodeNotFoundError: An episode that does not exist.
        MissingFileError: A file that the episodes need is not on the Hub.
    """
    folder = _fetch(repo_id, ["meta/*"], revision, root)
    manifest = read_manifest(folder)
    if episodes is None:
        positions = np.arange(len(manifest.episodes), dtype=np.int64)
    else:
        positions = manifest.episodes.positions_of(list(episodes))
    files = files_of_episodes(manifest, positions.tolist())
    offline = huggingface_hub.constants.HF_HUB_OFFLINE
    if not offline and any(not (folder / file).exists() for file in files):
        folder = _fetch(repo_id, [escape(file) for file in files], revision, root)
    missing = [file for file in files if not (folder / file).exists()]
    if missing:
        raise MissingFileError(
            f"{len(missing)} of {len(files)} files of {repo_id!r} could not be had, the first of "
            f"them {missing[0]!r}. If HF_HUB_OFFLINE is set, unset it and try again: {str(folder)!r}."
        )
    return folder


def files_of_episodes(manifest: Manifest, positions: Sequence[int]) -> list[str]:
    """Return the data and video files of some episodes, relative to the dataset's folder."""
    table = manifest.episodes
    files = {manifest.data_files[int(table.data_file[place])]: None for place in positions}
    for camera, clips in table.clips.items():
        held = {int(clips.file[place]) for place in positions}
        files |= {manifest.video_files[camera][file]: None for file in sorted(held) if file >= 0}
    return list(files)


def _fetch(
    repo_id: str,
    patterns: Sequence[str],
    revision: str | None,
    root: str | os.PathLike[str] | None,
) -> Path:
    return Path(
        huggingface_hub.snapshot_download(
            repo_id,
            repo_type="dataset",
            revision=revision,
            local_dir=root,
            allow_patterns=list(patterns),
        )
    )


def _names(view: Dataset, features: Sequence[str] | None) -> list[str]:
    if features is None:
        return [name for name, feature in view.features.items() if feature.dtype != "video"]
    unknown = [name for name in features if name not in view.features]
    if unknown:
        raise FeatureNotFoundError(
            f"There is no feature {unknown[0]!r}: there are {', '.join(view.features)}, in "
            f"{str(view.path)!r}."
        )
    return list(features)


def _hf_feature(feature: Feature) -> Any:  # noqa: ANN401  # a type of datasets
    if feature.is_camera:
        return datasets.Image()
    shape = feature.value_shape
    if not shape:
        return datasets.Value("string" if feature.kind != "number" else feature.dtype)
    if len(shape) == 1:
        return datasets.Sequence(datasets.Value(feature.dtype), length=shape[0])
    return getattr(datasets, f"Array{len(shape)}D")(shape=shape, dtype=feature.dtype)


def _arrow_column(view: Dataset, name: str, values: Any, kind: Any) -> Any:  # noqa: ANN401
    feature = view.features[name]
    if feature.is_camera:
        pictures = _pictures(view, name)
        return pa.array([{"bytes": picture, "path": None} for picture in pictures], type=kind)
    if feature.kind != "number":
        return pa.array([str(value) for value in values], type=kind)
    if values.ndim == 1:
        return pa.array(values, type=kind)
    return _nested(values, kind)


def _nested(values: Any, kind: Any) -> Any:  # noqa: ANN401  # an array of several axes
    """Return lists in lists over one flat buffer."""
    column = pa.array(np.ascontiguousarray(values).reshape(-1))
    if values.ndim == 2:
        return pa.FixedSizeListArray.from_arrays(column, values.shape[1]).cast(kind)
    for size in reversed(values.shape[1:]):
        bounds = np.arange(0, len(column) + 1, size, dtype=np.int32)
        column = pa.ListArray.from_arrays(bounds, column)
    return pa.ExtensionArray.from_storage(kind, column)


def _pictures(view: Dataset, camera: str) -> list[bytes]:
    """Return the encoded pictures of a camera: those stored, or PNG of what a video shows."""
    if view.features[camera].dtype == "image":
        return view.encoded_images(camera, np.arange(len(view), dtype=np.int64))
    bounds = view.episode_bounds.tolist()
    return [
        encode_png(image)
        for start, stop in pairwise(bounds)
        for image in view.read(range(start, stop), [camera], layout="hwc")[camera]
    ]
