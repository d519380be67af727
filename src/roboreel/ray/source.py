"""A dataset or view as a Ray Data dataset: one read task for each group of files."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import ray
import ray.data
from ray.data.block import BlockAccessor, BlockMetadata
from ray.data.datasource import Datasource, ReadTask

from roboreel.cores import limit_cores
from roboreel.dataset.job_source import decoding_s, files_of, reading_s
from roboreel.dataset.statistics import number_features
from roboreel.jobs import cut
from roboreel.sample_spec import spec_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from roboreel.dataset import Dataset
    from roboreel.image import Layout
    from roboreel.sample_spec import SampleSpec, Windows

_BLOCK_BYTES = 32 * 1024**2
"""Well below what Ray warns about, 128 MiB."""


def read(
    dataset: Dataset,
    windows: Windows | SampleSpec | None = None,
    *,
    features: Sequence[str] | None = None,
    image_size: Sequence[int] | None = None,
    layout: Layout | None = None,
    num_blocks: int | None = None,
    **ray_options: Any,  # noqa: ANN401  # Ray's own
) -> ray.data.Dataset:
    """Return the samples of a dataset or view as a `ray.data.Dataset`, a row each, in order.

    Only what is asked for is read: choose episodes by a view, such as ``dataset.select([0, 1])``,
    and features here. All machines must see the dataset's folder. Tasks read whole files, and parts
    of large ones; each decodes with the cores that Ray gives it.

    Args:
        dataset: The dataset or view, of v2.0, v2.1 or v3.0.
        windows: Windows by feature; or a `roboreel.SampleSpec` in place of all arguments that
            follow but ``num_blocks``.
        features: Names of the features to read; by default all of them, and ``"task"``.
        image_size: Height and width to scale images to.
        layout: Order of the axes of images, ``"chw"`` (the default) or ``"hwc"``.
        num_blocks: How many read tasks; by default Ray decides by the size.
        **ray_options: Arguments of `ray.data.read_datasource`: ``concurrency``, ``memory``, ….
    """
    spec = spec_of(features, windows, image_size, layout)
    source = DatasetSource(dataset, spec)
    ray_options.setdefault("num_cpus", 1)
    return ray.data.read_datasource(source, override_num_blocks=num_blocks, **ray_options)


class DatasetSource(Datasource):  # type: ignore[misc]  # untyped
    """Describes to Ray Data how large a dataset is, and how to read it in parts."""

    def __init__(self, dataset: Dataset, spec: SampleSpec) -> None:
        super().__init__()
        self._dataset = dataset
        self._spec = spec
        self._row_bytes = _row_bytes(dataset, spec)

    def get_name(self) -> str:
        """Return what Ray calls the read."""
        return "Roboreel"

    def estimate_inmemory_data_size(self) -> int:
        """Return the bytes of all samples."""
        return self._row_bytes * len(self._dataset)

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: int | None = None, **_: object
    ) -> list[ReadTask]:
        """Return about ``parallelism`` tasks: whole files, or whole episodes of large files."""
        more = {} if per_task_row_limit is None else {"per_task_row_limit": per_task_row_limit}
        return [
            ReadTask(
                partial(_blocks, self._dataset, self._spec, start, stop, self._row_bytes),
                BlockMetadata(
                    num_rows=stop - start,
                    size_bytes=(stop - start) * self._row_bytes,
                    input_files=None,
                    exec_stats=None,
                ),
                **more,
            )
            for start, stop in _spans(self._dataset, self._spec, max(1, parallelism))
        ]


def _row_bytes(dataset: Dataset, spec: SampleSpec) -> int:
    """Return the bytes of one sample, by reading one."""
    if not len(dataset):
        return 0
    return sum(_size_of(values) for values in dataset.read([0], spec).values())


def _size_of(values: Any) -> int:  # noqa: ANN401  # an array, or texts
    if isinstance(values, np.ndarray) and values.dtype != object:
        return values.nbytes
    return sum(len(str(value)) for value in values)


def _spans(dataset: Dataset, spec: SampleSpec, parallelism: int) -> Iterator[tuple[int, int]]:
    """Yield the samples ``[start, stop)`` of each task."""
    lengths = np.diff(dataset.episode_bounds)
    cameras = _cameras(dataset, spec)
    seconds = reading_s(dataset, number_features(dataset), lengths)
    for camera in cameras:
        seconds = seconds + decoding_s(dataset, camera, lengths)
    files = files_of(dataset, cameras[0] if cameras else None)
    bounds = cut(seconds, files, float(seconds.sum()) / parallelism or 1.0)
    yield from pairwise(dataset.episode_bounds[bounds].tolist())


def _cameras(dataset: Dataset, spec: SampleSpec) -> list[str]:
    if spec.features is None:
        return list(dataset.cameras)
    return [name for name in dataset.cameras if name in (*spec.features, *spec.windows)]


def _blocks(
    dataset: Dataset, spec: SampleSpec, start: int, stop: int, row_bytes: int
) -> Iterator[Any]:
    """Yield the samples of one task as Arrow blocks."""
    assigned = ray.get_runtime_context().get_assigned_resources()
    limit_cores(max(1, int(assigned.get("CPU", 1))))
    step = max(1, min(1024, _BLOCK_BYTES // max(1, row_bytes)))
    for first in range(start, stop, step):
        batch = dataset.read(np.arange(first, min(first + step, stop)), spec)
        yield BlockAccessor.batch_to_arrow_block(_as_columns(batch))


def _as_columns(batch: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: np.asarray(values, str) if _is_text(values) else values
        for name, values in batch.items()
    }


def _is_text(values: Any) -> bool:  # noqa: ANN401  # an array, or texts
    return isinstance(values, list) or values.dtype == object
