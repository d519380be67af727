"""Views as `datasets.Dataset`, downloads and uploads. Importing this is opting in to the ``hf`` extra."""

from __future__ import annotations

from contextlib import suppress
from fnmatch import fnmatch
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

try:
    import datasets
    import huggingface_hub
    import pyarrow as pa
    from huggingface_hub.errors import EntryNotFoundError, RevisionNotFoundError
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "roboreel.huggingface needs datasets and huggingface_hub. "
        "Install them with: pip install 'roboreel[hf]'",
        name=error.name,
    ) from error

from roboreel.errors import FeatureNotFoundError, MissingFileError
from roboreel.format import read_manifest
from roboreel.format.paths import FOLDERS, METADATA_FOLDER
from roboreel.image import encode_png

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Mapping, Sequence

    from roboreel.dataset import Dataset
    from roboreel.schema import Feature, Manifest

__all__ = ["download", "files_of_episodes", "push", "to_datasets", "to_hf_features"]

_CARD = "README.md"


def to_datasets(view: Dataset, features: Sequence[str] | None = None) -> Any:  # noqa: ANN401
    """Return the frames of a dataset or view as a `datasets.Dataset`, with cameras as images.

    The result is held in memory, and no cache folder is touched. It is about as large as the view's
    share of the Parquet files. Video cameras are left out unless they are named: then every image
    is decoded and held as a PNG, about a hundred times the size of the video.

    Args:
        view: What to convert; ``dataset.select(…)`` for some episodes.
        features: Names of features. Default: all except video cameras.

    Raises:
        FeatureNotFoundError: A feature does not exist.
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
    """Return the `datasets.Features` of what `to_datasets` returns."""
    names = _names(view, features)
    return datasets.Features({name: _hf_feature(view.features[name]) for name in names})


def download(
    repo_id: str,
    *,
    episodes: Iterable[int] | None = None,
    revision: str | None = None,
    root: str | os.PathLike[str] | None = None,
) -> Path:
    """Download a dataset from the Hub, or only the files of some episodes.

    All metadata is downloaded first: it names the other files. Files that exist are not downloaded
    again, and interrupted downloads resume. If ``HF_HUB_OFFLINE`` is set, nothing is downloaded:
    the call only checks that all files exist. Set ``HF_HUB_DISABLE_PROGRESS_BARS`` to hide the
    progress bar.

    Args:
        repo_id: The dataset's id on the Hub.
        episodes: Episode numbers. Default: all.
        revision: A branch, tag or commit. Default: ``"main"``.
        root: A folder for the files. Default: the Hub's cache, where
            ``open_dataset("hf://datasets/…")`` finds them.

    Returns:
        The dataset's folder, for `open_dataset`.

    Raises:
        EpisodeNotFoundError: An episode does not exist.
        MissingFileError: A file of these episodes is not on the Hub.
    """
    folder = _fetch(repo_id, [f"{METADATA_FOLDER}/*"], revision, root)
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
            f"{len(missing)} of {len(files)} files of {repo_id!r} could not be downloaded, the first "
            f"being {missing[0]!r}. If HF_HUB_OFFLINE is set, unset it and retry: {str(folder)!r}."
        )
    return folder


def push(
    path: str | os.PathLike[str],
    repo_id: str,
    *,
    revision: str | None = None,
    private: bool | None = None,
    token: str | bool | None = None,
    tag_version: bool = True,
    videos: bool = True,
    patterns: Sequence[str] | None = None,
    card: Mapping[str, Any] | None = None,
) -> str:
    """Upload a dataset to the Hub as one commit, so that nobody sees half of it.

    Files that the Hub has are not sent again, so an interrupted upload resumes with the file that
    it was at. Files below ``data/``, ``videos/`` and ``meta/`` that the dataset no longer has are
    removed, since LeRobot reads whatever lies there. Hidden files and folders are left out, such
    as ``.roboreel`` and ``.recording``. Set ``HF_HUB_DISABLE_PROGRESS_BARS`` to hide the bars.

    Args:
        path: The dataset's folder.
        repo_id: Its id on the Hub; the repository is made if there is none.
        revision: A branch, made if there is none. Default: ``"main"``.
        private: Whether a new repository is private. Default: what the owner has set.
        token: A token of the Hub. Default: that of `huggingface_hub`.
        tag_version: Whether to set the tag, such as ``v3.0``, by which LeRobot finds a dataset.
        videos: Whether to upload videos.
        patterns: Upload only files that match one of these, such as ``"meta/*"``.
        card: Keys of the dataset card that is made if there is no README.md.

    Returns:
        The address of the commit.

    Raises:
        NotADatasetError: There is no dataset at this path.
    """
    root = Path(path).expanduser()
    manifest = read_manifest(root)
    api = huggingface_hub.HfApi(token=token)
    api.create_repo(repo_id, repo_type="dataset", private=private, exist_ok=True)
    if revision is not None:
        api.create_branch(repo_id, branch=revision, repo_type="dataset", exist_ok=True)
    listed = set(api.list_repo_files(repo_id, revision=revision, repo_type="dataset"))
    is_whole = videos and patterns is None
    sent = [file for file in _own_files(root) if _is_wanted(file, videos, patterns)]
    operations: list[Any] = [
        huggingface_hub.CommitOperationAdd(path_in_repo=file, path_or_fileobj=root / file)
        for file in sent
    ]
    if _CARD not in listed and _CARD not in sent:
        text = _card_of(manifest, card or {})
        operations.append(huggingface_hub.CommitOperationAdd(_CARD, text.encode()))
    if is_whole:
        stale = sorted(f for f in listed - set(sent) if f.split("/")[0] in FOLDERS)
        operations += [huggingface_hub.CommitOperationDelete(file) for file in stale]
    commit = api.create_commit(
        repo_id,
        operations,
        commit_message=f"Upload {len(manifest.episodes)} episodes with roboreel",
        repo_type="dataset",
        revision=revision,
    )
    if tag_version:
        _set_tag(api, repo_id, manifest.version, revision)
    return str(commit.commit_url)


def _own_files(root: Path) -> list[str]:
    """Return the files of a folder, hidden ones left out, relative to it."""
    files = (path.relative_to(root) for path in sorted(root.rglob("*")) if path.is_file())
    return [f.as_posix() for f in files if not any(part.startswith(".") for part in f.parts)]


def _is_wanted(file: str, videos: bool, patterns: Sequence[str] | None) -> bool:
    # LeRobot leaves "images/" behind, its pictures that wait to become video.
    if file.startswith("images/") or (file.startswith("videos/") and not videos):
        return False
    return patterns is None or any(fnmatch(file, pattern) for pattern in patterns)


def _card_of(manifest: Manifest, keys: Mapping[str, Any]) -> str:
    about = {
        "license": "apache-2.0",
        "task_categories": ["robotics"],
        "configs": [{"config_name": "default", "data_files": "data/*/*.parquet"}],
        **{name: value for name, value in keys.items() if value},
    }
    about["tags"] = list(dict.fromkeys(["LeRobot", *about.get("tags", ())]))
    head = huggingface_hub.DatasetCardData(**about).to_yaml()
    table = manifest.episodes
    return (
        f"---\n{head}\n---\n\nA LeRobot dataset ({manifest.version}): {len(table)} episodes, "
        f"{table.num_rows} frames at {manifest.fps:g} fps, "
        f"{manifest.robot_type or 'robot not named'}.\n"
    )


def _set_tag(api: Any, repo_id: str, tag: str, revision: str | None) -> None:  # noqa: ANN401
    """Move a tag to the newest commit."""
    with suppress(RevisionNotFoundError, EntryNotFoundError):  # the first upload
        api.delete_tag(repo_id, tag=tag, repo_type="dataset")
    api.create_tag(repo_id, tag=tag, revision=revision, repo_type="dataset")


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


def _arrow_column(view: Dataset, name: str, values: Any, arrow_type: Any) -> Any:  # noqa: ANN401
    feature = view.features[name]
    if feature.is_camera:
        pictures = _pictures(view, name)
        return pa.array([{"bytes": picture, "path": None} for picture in pictures], type=arrow_type)
    if feature.kind != "number":
        return pa.array([str(value) for value in values], type=arrow_type)
    if values.ndim == 1:
        return pa.array(values, type=arrow_type)
    return _nested(values, arrow_type)


def _nested(values: Any, arrow_type: Any) -> Any:  # noqa: ANN401  # an array of several axes
    """Return an array of several axes as nested lists over one flat buffer."""
    column = pa.array(np.ascontiguousarray(values).reshape(-1))
    if values.ndim == 2:
        return pa.FixedSizeListArray.from_arrays(column, values.shape[1]).cast(arrow_type)
    for size in reversed(values.shape[1:]):
        bounds = np.arange(0, len(column) + 1, size, dtype=np.int32)
        column = pa.ListArray.from_arrays(bounds, column)
    return pa.ExtensionArray.from_storage(arrow_type, column)


def _pictures(view: Dataset, camera: str) -> list[bytes]:
    """Return the pictures of a camera as stored, or the images of a video as PNG."""
    if view.features[camera].dtype == "image":
        return view.encoded_images(camera, np.arange(len(view), dtype=np.int64))
    return [
        encode_png(image)
        for episode in view.episodes
        if episode.length
        for image in episode.stream(camera, layout="hwc")
    ]
