"""A view as a dataset of `datasets`: in memory, mapped from a file, or streamed."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import datasets
import pyarrow as pa
from datasets.fingerprint import generate_random_fingerprint

from roboreel.errors import CacheError, TooLargeError
from roboreel.files import atomic_file
from roboreel.huggingface.arrow import (
    arrow_bytes,
    feature_names,
    frame_batches,
    frame_parts,
    to_hf_features,
)

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence

    from roboreel.dataset import Dataset

_FILE = "frames.arrow"


def to_datasets(
    view: Dataset,
    features: Sequence[str] | None = None,
    *,
    folder: str | os.PathLike[str] | None = None,
    tensors: bool = False,
) -> Any:  # noqa: ANN401  # a datasets.Dataset
    """Return the frames of a dataset or view as a `datasets.Dataset`, with cameras as images.

    The frames are copied, into memory or into a file in ``folder`` that is mapped. `arrow_bytes`
    says beforehand how large the copy will be; making it takes little more. With a folder, memory
    stays below 110 MB whatever the size of the view. `to_iterable` copies nothing.

    Video cameras are left out unless they are named: then every image is decoded and kept as a PNG,
    about a hundred times the size of the video.

    Args:
        view: What to convert; ``dataset.select(…)`` for some episodes.
        features: Names of features. Default: all except video cameras.
        folder: Where to write ``frames.arrow``; a temporary folder of yours, or one to keep, which
            `datasets.Dataset.from_file` opens again. Default: in memory, and no file is written.
        tensors: Whether items are what LeRobot gives: tensors, images float32 ``(3, H, W)`` in 0 … 1,
            texts as they are. Needs PyTorch.

    Raises:
        FeatureNotFoundError: A feature does not exist.
        TooLargeError: The disk has less space than the copy needs.
        CacheError: The folder has such a file already.
    """
    names = feature_names(view, features)
    if folder is None:
        types = to_hf_features(view, names)
        table = pa.Table.from_batches(frame_batches(view, names), schema=types.arrow_schema)
        # Left to itself, `datasets` pickles the whole table to name it: four times its memory.
        name = generate_random_fingerprint()
        info = datasets.DatasetInfo(features=types)
        converted = datasets.Dataset(table, info=info, fingerprint=name)
    else:
        path = _write(view, names, Path(folder).expanduser())
        converted = datasets.Dataset.from_file(str(path))
    if not tensors:
        return converted
    from roboreel.huggingface.tensors import batch_to_tensors

    return converted.with_transform(batch_to_tensors)


def to_iterable(
    view: Dataset, features: Sequence[str] | None = None, *, tensors: bool = False
) -> Any:  # noqa: ANN401  # a datasets.IterableDataset
    """Return the frames of a dataset or view as a `datasets.IterableDataset`.

    Nothing is copied: frames are read as they are asked for, in bounded memory. Every episode is a
    shard. So ``shuffle`` mixes the order of the episodes and then frames within its buffer,
    ``split_dataset_by_node`` and workers share out whole episodes, and ``state_dict`` and
    ``load_state_dict`` resume within an episode.

    Args:
        view: What to read; ``dataset.select(…)`` for some episodes.
        features: Names of features. Default: all except video cameras.
        tensors: See `to_datasets`.

    Raises:
        FeatureNotFoundError: A feature does not exist.
    """
    names = feature_names(view, features)
    table = view.manifest.episodes
    numbers = table.number[view.selection.filled].tolist()
    streamed = datasets.IterableDataset.from_generator(
        _examples,
        features=to_hf_features(view, names),
        gen_kwargs={"view": view, "names": tuple(names), "episodes": numbers},
    )
    if not tensors:
        return streamed
    from roboreel.huggingface.tensors import example_to_tensors

    return streamed.map(example_to_tensors)


def _write(view: Dataset, names: Sequence[str], folder: Path) -> Path:
    path = folder / _FILE
    if path.exists():
        raise CacheError(
            f"{_FILE!r} is there already. Open it with datasets.Dataset.from_file, or give another "
            f"folder: {str(path)!r}."
        )
    folder.mkdir(parents=True, exist_ok=True)
    needed, free = arrow_bytes(view, names), shutil.disk_usage(folder).free
    if needed > free:
        raise TooLargeError(
            f"The frames take about {needed:,} bytes as Arrow, and the disk has {free:,} left. "
            f"Convert fewer features or episodes, or stream them with to_iterable: {str(folder)!r}."
        )
    schema = to_hf_features(view, names).arrow_schema
    with (
        atomic_file(path, sync=False) as temporary,
        pa.OSFile(str(temporary), "wb") as file,
        pa.ipc.new_stream(file, schema) as writer,
    ):
        for batch in frame_batches(view, names):
            writer.write_batch(batch)
            del batch  # before the next one is made
    return path


def _examples(
    view: Dataset, names: tuple[str, ...], episodes: Sequence[int]
) -> Iterator[dict[str, Any]]:
    cameras = {name for name in names if view.features[name].is_camera}
    for part in frame_parts(view.select(episodes), names):
        for row in range(len(part[names[0]])):
            yield {
                name: {"bytes": part[name][row], "path": None}
                if name in cameras
                else part[name][row]
                for name in names
            }
