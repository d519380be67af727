"""A dataset with PNG pictures of 40 KB in Parquet, as LeRobot writes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.datasets import Shape, frames_table, write_v30_metadata
from benchmarks.picture_reads import CAMERA
from roboreel.image import encode_png

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = ["PictureShape", "write_pictures_v30"]

SIZE = (144, 144)
"""Height and width that give PNG files of 40 KB."""


@dataclass(frozen=True)
class PictureShape(Shape):
    """The size of a dataset with one camera, whose pictures are in the data files."""

    mean_length: int = 200
    cameras: int = 0
    """Cameras stored as video."""
    episodes_per_data_file: int = 12
    """LeRobot starts another file at about 100 MB."""

    def features(self) -> dict[str, dict[str, Any]]:
        """Return the features as info.json has them."""
        names = ["height", "width", "channels"]
        camera = {"dtype": "image", "shape": [*SIZE, 3], "names": names}
        return {CAMERA: camera, **super().features()}


def write_pictures_v30(root: Path, shape: PictureShape) -> Path:
    """Write a v3.0 dataset with Snappy, dictionaries and one row group per episode."""
    write_v30_metadata(root, shape)
    lengths = shape.lengths()
    starts = np.cumsum(lengths) - lengths
    (root / "data/chunk-000").mkdir(parents=True)
    for file, first in enumerate(range(0, shape.episodes, shape.episodes_per_data_file)):
        span = slice(first, first + shape.episodes_per_data_file)
        numbers = frames_table(shape, first, starts[span], lengths[span])
        schema = numbers.schema.insert(0, pa.field(CAMERA, _PICTURE))
        path = root / f"data/chunk-000/file-{file:03d}.parquet"
        with pq.ParquetWriter(path, schema, compression="snappy", use_dictionary=True) as writer:
            for start, length in zip(starts[span], lengths[span], strict=True):
                episode = numbers.slice(start - starts[first], length)
                writer.write_table(episode.add_column(0, CAMERA, _pictures(start, length)))
    return root


_PICTURE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


def _pictures(start: int, length: int) -> pa.Array:
    shots = [
        {"bytes": encode_png(_image(row)), "path": f"frame-{row - start:06d}.png"}
        for row in range(start, start + length)
    ]
    return pa.array(shots, _PICTURE)


def _image(row: int) -> NDArray[np.uint8]:
    """Return a smooth picture with sensor noise, which PNG halves, as it does photos."""
    height, width = SIZE
    soft = np.add.outer(np.arange(height), np.arange(width))[..., None] // 2 + [row % 64, 0, 32]
    noise = np.random.default_rng(row).integers(0, 16, (height, width, 3))
    return (soft + noise).astype(np.uint8)
