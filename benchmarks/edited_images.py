"""How many images of the episodes that stay differ after an edit, of some that are looked at."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import av
import numpy as np
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["changed_images"]

_CAMERA = "observation.images.front"
_LOOKED_AT = 5


def changed_images(old: str, new: str, pairs: list[tuple[int, int]]) -> int:
    """Return how many first images of episodes differ, by a plain decode of both files.

    Args:
        old: A v3.0 dataset.
        new: Another one.
        pairs: Numbers of episodes, there and here, that should be equal.
    """
    spread = np.linspace(0, len(pairs) - 1, min(_LOOKED_AT, len(pairs))).astype(int)
    chosen = [pairs[place] for place in spread]
    return sum(not np.array_equal(_image(old, a), _image(new, b)) for a, b in chosen)


def _image(root: str, episode: int) -> NDArray[np.uint8]:
    prefix = f"videos/{_CAMERA}"
    names = [
        "episode_index",
        *(f"{prefix}/{n}" for n in ("chunk_index", "file_index", "from_timestamp")),
    ]
    tables = [pq.read_table(p, columns=names) for p in Path(root).glob("meta/episodes/*/*.parquet")]
    rows = [row for table in tables for row in table.to_pylist() if row["episode_index"] == episode]
    chunk, file, start_s = (rows[0][name] for name in names[1:])
    path = Path(root, f"videos/{_CAMERA}/chunk-{chunk:03d}/file-{file:03d}.mp4")
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        container.seek(int(start_s / stream.time_base), stream=stream)
        for frame in container.decode(stream):
            if frame.time >= start_s - 1e-3:
                image: NDArray[np.uint8] = frame.to_ndarray(format="rgb24")
                return image
    raise LookupError(episode)
