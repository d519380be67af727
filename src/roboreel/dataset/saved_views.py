"""Views that are saved under a name, beside their dataset or in the user's folder.

::

    <dataset>/.roboreel/views/good.json
    ~/.local/share/roboreel/views/<dataset>-1a2b3c4d/good.json   where the dataset cannot be written
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.errors import MetadataError, StaleDatasetError, UnsafePathError, ViewError
from roboreel.format.episode_values import value_digests
from roboreel.format.json_files import read_json, write_json
from roboreel.format.paths import INFO_PATH, STORE
from roboreel.version import __version__

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from roboreel.dataset.dataset import Dataset
    from roboreel.schema import EpisodeTable

_LAYOUT_VERSION = 1
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def save_view(view: Dataset, name: str) -> Path:
    """Save which episodes a view has, for ``open_dataset(path, view=name)``; return the file.

    The file is small JSON: numbers of episodes, and digests of the dataset's episode table and of
    the least and greatest values of the view's episodes, as the metadata has them. It is written to
    ``.roboreel/views`` in the dataset's folder, or to the user's own folder if the dataset cannot be
    written or is a snapshot in the Hub's cache. A view of the same name is replaced.

    Args:
        view: The episodes to save.
        name: Letters, digits, dots, dashes and underscores.

    Raises:
        ViewError: The name has other characters.
        UnsafePathError: ``.roboreel`` is a symbolic link.
    """
    root = view.path
    content = _to_json(view)
    beside, own = (folder / f"{_checked(name)}.json" for folder in _folders(root))
    # The files of a snapshot are links that other snapshots share.
    if os.access(root, os.W_OK) and not (root / INFO_PATH).is_symlink():
        _refuse_links(root, beside)
        write_json(beside, content)
        return beside
    write_json(own, content)
    return own


def list_views(root: Path) -> list[str]:
    """Return the names of the saved views of a dataset."""
    files = [path for folder in _folders(root) for path in folder.glob("*.json")]
    return sorted({path.stem for path in files if _NAME.fullmatch(path.stem)})


def read_view(dataset: Dataset, name: str) -> NDArray[np.int64]:
    """Return the positions of the episodes of a saved view.

    Raises:
        ViewError: There is no such view, or its file cannot be understood.
        StaleDatasetError: Episodes have changed since, or have been recorded anew.
    """
    paths = [folder / f"{_checked(name)}.json" for folder in _folders(dataset.path)]
    path = next((path for path in paths if path.exists()), None)
    if path is None:
        known = ", ".join(map(repr, list_views(dataset.path))) or "none"
        raise ViewError(
            f"There is no saved view {name!r}: there are {known}. Save one with "
            f"roboreel.save_view(view, {name!r}): {str(dataset.path)!r}."
        )
    count, digest, spans, values = _parse(path)
    table = dataset.manifest.episodes
    positions = _positions(table, spans)
    if count > len(table) or _digest(table, count) != digest or positions is None:
        raise StaleDatasetError(
            f"The view {name!r} was saved when there were {count} episodes, and some of them have "
            f"been removed, renumbered, cut or relabelled since; now there are {len(table)}. Choose "
            f"again, and replace it with roboreel.save_view(view, {name!r}): {str(path)!r}."
        )
    now = value_digests(dataset.manifest, positions)
    changed = [feature for feature, known in values.items() if now.get(feature, known) != known]
    if changed:
        raise StaleDatasetError(
            f"Episodes of the view {name!r} have been replaced or recorded anew since it was saved: "
            f"they differ in {', '.join(map(repr, changed))}. Choose again, and replace it with "
            f"roboreel.save_view(view, {name!r}): {str(path)!r}."
        )
    return positions


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ViewError(
            f"{name!r} is not a name for a view: use letters, digits, '.', '-' and '_', at most 100."
        )
    return name


def _folders(root: Path) -> tuple[Path, Path]:
    """Return where views are saved: beside the dataset, and in the user's folder."""
    base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    place = root.resolve()
    digest = hashlib.sha256(os.fsencode(place)).hexdigest()[:8]
    named = re.sub(r"[^\w.-]+", "_", f"{place.name}-{digest}")
    return root / STORE / "views", Path(base) / "roboreel" / "views" / named


def _refuse_links(root: Path, path: Path) -> None:
    for folder in (root / STORE, path.parent, path):
        if folder.is_symlink():
            raise UnsafePathError(
                f"{folder.relative_to(root).as_posix()!r} is a symbolic link, so no view is saved "
                f"there: it would be a file outside the dataset. Remove the link: {str(folder)!r}."
            )


def _to_json(view: Dataset) -> dict[str, Any]:
    table, numbers = view.manifest.episodes, view.episodes.numbers
    breaks = np.flatnonzero(np.diff(numbers) != 1) + 1
    runs = np.split(numbers, breaks) if len(numbers) else []
    return {
        "layout": _LAYOUT_VERSION,
        "roboreel": __version__,
        "episodes": [[int(run[0]), int(run[-1]) + 1] for run in runs],
        "saved_from": {
            "num_episodes": len(table),
            "digest": _digest(table, len(table)),
            "values": value_digests(view.manifest, view.selection.positions),
        },
    }


def _parse(path: Path) -> tuple[int, str, NDArray[np.int64], dict[str, str]]:
    """Return how many episodes there were, a digest, spans ``(S, 2)``, and digests of values."""
    try:
        raw = read_json(path)
        if raw["layout"] != _LAYOUT_VERSION:
            raise ValueError(f"another roboreel wrote layout {raw['layout']}")
        spans = np.asarray(raw["episodes"] or np.empty((0, 2)), dtype=np.int64)
        flat = spans.reshape(-1)
        if spans.shape != (len(spans), 2) or (np.diff(flat) < 0).any() or (flat < 0).any():
            raise ValueError("the episodes are not ascending spans")
        source = raw["saved_from"]
        values = dict(source.get("values") or {})  # Absent where an earlier roboreel wrote it.
        return int(source["num_episodes"]), str(source["digest"]), spans, values
    except (AttributeError, MetadataError, ValueError, KeyError, TypeError, OverflowError) as error:
        raise ViewError(f"Not a saved view ({error!r}): {str(path)!r}.") from error


def _positions(table: EpisodeTable, spans: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """Return the positions of the episodes in some spans of numbers; None if one is missing."""
    starts = np.searchsorted(table.number, spans[:, 0])
    stops = np.searchsorted(table.number, spans[:, 1])
    if not np.array_equal(stops - starts, spans[:, 1] - spans[:, 0]):
        return None
    parts = [np.arange(*span, dtype=np.int64) for span in zip(starts, stops, strict=True)]
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def _digest(table: EpisodeTable, count: int) -> str:
    """Return a digest of the numbers, lengths and tasks of the first episodes."""
    count = max(0, min(count, len(table)))
    bounds = table.task_bounds[: count + 1]
    texts = [
        hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest() for text in table.task_texts
    ]
    digest = hashlib.sha256()
    for numbers in (table.number[:count], table.length[:count], bounds):
        digest.update(np.ascontiguousarray(numbers, "<i8").tobytes())
    for code in table.task_codes[: int(bounds[-1])].tolist():
        digest.update(texts[code])
    return digest.hexdigest()
