"""HDF5 files as recordings: ACT, robomimic, LIBERO, and files of no known layout."""

from __future__ import annotations

import json
import re
from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING, Any

import h5py
import hdf5plugin  # noqa: F401  # registers the filters that datasets of others need
import numpy as np

from roboreel.errors import CorruptFileError, SourceError
from roboreel.importing.array_layouts import (
    NUMBERED,
    children,
    open_plain,
    open_timed,
    rate_of,
    task_of,
)
from roboreel.importing.array_recording import ArrayEpisode, ArrayRecording, Rate
from roboreel.importing.array_streams import plain_text
from roboreel.importing.array_tree import ArrayTree, Leaf, on_one_line
from roboreel.importing.recording import natural_key

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from roboreel.importing.array_tree import LeafKind
    from roboreel.importing.recording import Recording


_ACT_RATE = Rate(50.0, "the layout act")
_LIBERO_RATE = Rate(20.0, "the layout libero")
_SCENE = re.compile(r"^(?:[A-Z]+_)*[A-Z_]*SCENE\d+_")


def open_source(path: Path) -> Recording:
    """Open an HDF5 file.

    Raises:
        CorruptFileError: It is damaged.
        SourceError: There is nothing in it that has steps.
    """
    tree = HDF5Tree(path)
    try:
        if "action" in tree.leaves and "observations/qpos" in tree.leaves:
            return _open_act(tree)
        groups = children(tree.leaves, "data")
        demos = {name: arrays for name, arrays in groups.items() if "actions" in arrays}
        if demos and all(NUMBERED.match(name) for name in demos):
            return _open_robomimic(tree, {n: demos[n] for n in sorted(demos, key=natural_key)})
        return open_plain(tree, "hdf5")
    except BaseException:
        tree.close()
        raise


def _open_act(tree: HDF5Tree) -> Recording:
    """One episode. With the attribute ``compress``, rows of images are padded JPEG pictures."""
    length = tree.leaves["action"].rows
    # Of compressed images, how long each is: the padding shows that as well.
    arrays = {path: path for path in tree.leaves if path != "compress_len"}
    metadata = {k: v for k, v in tree.attributes("").items() if k in ("sim", "compress")}
    task = task_of(tree, "")
    episode = ArrayEpisode(tree.path.stem, length, arrays, task=task, metadata=metadata)
    timed, remarks = open_timed(tree, "act", [episode])
    if timed is not None:
        return timed
    rate = rate_of(tree, episode)
    rate = rate if rate.fps else _ACT_RATE
    recording = ArrayRecording(tree, "act", [episode], rate, used=["compress_len"])
    recording.remarks = tuple(remarks)
    return recording


def _open_robomimic(tree: HDF5Tree, demos: Mapping[str, Mapping[str, str]]) -> Recording:
    about = tree.attributes("data")
    is_libero = "problem_info" in about or "bddl_file_name" in about
    masks = _masks(tree)
    task = _text_in(about, "problem_info", "language_instruction").strip('"')
    if is_libero and not task:
        task = _SCENE.sub("", tree.path.stem.removesuffix("_demo")).replace("_", " ").strip()
    episodes = []
    for name, arrays in demos.items():
        # RoboCasa keeps the task of each demo in ``ep_meta``.
        own = _text_in(tree.attributes(f"data/{name}"), "ep_meta", "lang")
        episodes.append(
            ArrayEpisode(
                name,
                tree.leaves[arrays["actions"]].rows,
                arrays,
                task=task_of(tree, f"data/{name}") or own or task or None,
                metadata={key: name in names for key, names in masks.items()},
            )
        )
    rate = _control_rate(about)
    if rate.fps is None and is_libero:
        rate = _LIBERO_RATE
    layout = "libero" if is_libero else "robomimic"
    used = [path for path in tree.leaves if path.startswith("mask/")]
    return ArrayRecording(tree, layout, episodes, rate, used=used)


def _masks(tree: HDF5Tree) -> dict[str, set[str]]:
    """Return which episodes each mask of robomimic lists, such as train and valid."""
    masks: dict[str, set[str]] = {}
    for path, leaf in tree.leaves.items():
        if path.startswith("mask/") and path.count("/") == 1 and len(leaf.shape) == 1:
            names = tree.read(path, 0, leaf.rows).tolist()
            masks[f"mask_{path.removeprefix('mask/')}"] = set(map(plain_text, names))
    return masks


def _control_rate(about: Mapping[str, Any]) -> Rate:
    """Return the rate that the arguments of the simulated environment name."""
    arguments = _json(about.get("env_args"))
    settings = arguments.get("env_kwargs")
    rate = settings.get("control_freq") if isinstance(settings, dict) else None
    if isinstance(rate, int | float) and not isinstance(rate, bool) and 0 < rate < 1e6:
        return Rate(float(rate), "control_freq of its env_args")
    return Rate()


def _text_in(attributes: Mapping[str, Any], name: str, key: str) -> str:
    """Return a text in the JSON that an attribute holds; LIBERO has it as a list of letters."""
    text = _json(attributes.get(name)).get(key)
    if isinstance(text, list):
        text = "".join(str(part) for part in text)
    return text.strip() if isinstance(text, str) else ""


def _json(text: object) -> dict[str, Any]:
    try:
        found = json.loads(text) if isinstance(text, str) else {}
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


# The arrays of an HDF5 file.

_MOST_ATTRIBUTE_BYTES = 16 * 1024**2
_MOST_ARRAYS = 2_000_000
_MOST_DEPTH = 64
_MOST_NAMES = 16
"""Under so many names a group is listed: links to groups can multiply without end."""


class HDF5Tree(ArrayTree):
    """An HDF5 file, open to be read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file = h5py.File(path, "r")
        except OSError as error:
            raise CorruptFileError(f"{on_one_line(error)}: {str(path)!r}.") from error

    @cached_property
    def leaves(self) -> dict[str, Leaf]:
        """All arrays, under each of their names; links to other files are not followed."""
        found: dict[str, Leaf] = {}
        with self.reading("The table of contents"):
            self._walk(self._file["/"].id, b"", (), Counter(), found)
        return found

    def _walk(
        self,
        group: h5py.h5g.GroupID,
        prefix: bytes,
        above: tuple[int, ...],
        visits: Counter[int],
        found: dict[str, Leaf],
    ) -> None:
        """Note the arrays below a group. h5py's own walk names an object once, by any of its links."""
        address = h5py.h5o.get_info(group).addr
        visits[address] += 1
        if address in above or visits[address] > _MOST_NAMES:
            return
        if len(above) >= _MOST_DEPTH:
            raise ValueError(f"groups are nested more than {_MOST_DEPTH} deep")
        for name in group:
            if len(found) >= _MOST_ARRAYS:
                return
            item, path = self._child(group, name), prefix + name
            if isinstance(item, h5py.h5g.GroupID):
                self._walk(item, path + b"/", (*above, address), visits, found)
                continue
            shown = path.decode("utf-8", "backslashreplace")
            if item is None:
                found[shown] = Leaf(shown, (), "other", note=_link_note(group, name))
            elif isinstance(item, h5py.h5d.DatasetID):
                found[shown] = self._leaf(path, shown, h5py.Dataset(item))

    def _leaf(self, path: bytes, shown: str, dataset: h5py.Dataset) -> Leaf:
        if path != shown.encode():
            return Leaf(shown, (), "other", note="Its name is not text.")
        if dataset.is_virtual and not all(
            source.file_name == "." and self._resolve(self._file["/"].id, source.dset_name.encode())
            for source in dataset.virtual_sources()
        ):
            return Leaf(shown, dataset.shape, "other", note="Its values lie in another file.")
        return _leaf(shown, dataset)

    def _child(self, group: h5py.h5g.GroupID, name: bytes, depth: int = 0) -> Any:  # noqa: ANN401
        """Return what a link of a group leads to; None where that is not in this file."""
        if not isinstance(group, h5py.h5g.GroupID) or not group.links.exists(name):
            return None
        kind = group.links.get_info(name).type
        if kind == h5py.h5l.TYPE_HARD:
            return h5py.h5o.open(group, name)
        if kind == h5py.h5l.TYPE_SOFT and depth < _MOST_NAMES:
            return self._resolve(group, group.links.get_val(name), depth + 1)
        return None

    def _resolve(self, group: h5py.h5g.GroupID, path: bytes, depth: int = 0) -> Any:  # noqa: ANN401
        """Return what lies at a path. Step by step, as any step may be a link to another file."""
        at = self._file["/"].id if path.startswith(b"/") else group
        for part in path.split(b"/"):
            at = at if part in (b"", b".") else self._child(at, part, depth)
        return at

    def attributes(self, path: str) -> Mapping[str, bool | int | float | str]:
        """Return the small attributes of a group or array."""
        found: dict[str, bool | int | float | str] = {}
        with self.reading(f"An attribute of {path or '/'!r}"):
            attributes = (self._file[path] if path else self._file).attrs
            for name in attributes:
                held = attributes.get_id(name)
                if held.get_space().get_simple_extent_type() == h5py.h5s.NULL:
                    continue  # HDF5 has no size of what is empty.
                if held.get_storage_size() > _MOST_ATTRIBUTE_BYTES:
                    raise SourceError(
                        f"The attribute {name!r} of {path or '/'!r} has more than "
                        f"{_MOST_ATTRIBUTE_BYTES:,} bytes: {str(self.path)!r}."
                    )
                value = _plain(attributes[name])
                if value is not None:
                    found[name] = value
        return found

    def read(self, path: str, start: int, stop: int) -> NDArray[Any]:
        """Return the rows ``[start, stop)`` of an array."""
        with self.reading(f"Rows {start} to {stop} of {path!r}"):
            dataset = self._file[path]
            rows: NDArray[Any] = dataset[start:stop] if dataset.shape else np.array([dataset[()]])
        return rows if rows.dtype == object else rows.astype(rows.dtype.newbyteorder("="))

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _link_note(group: h5py.h5g.GroupID, name: bytes) -> str:
    target = group.links.get_val(name)
    if isinstance(target, tuple):
        where = target[0].decode("utf-8", "backslashreplace")
        return f"It is a link to the file {where!r}, which is not followed."
    return (
        f"It is a link to {target.decode('utf-8', 'backslashreplace')!r}, where nothing is found."
    )


def _leaf(name: str, dataset: h5py.Dataset) -> Leaf:
    shape, dtype = dataset.shape, dataset.dtype
    if shape is None:
        return Leaf(name, (), "other", note="It is empty.")
    if dataset.external:
        return Leaf(name, shape, "other", note="Its values lie in another file.")
    rows = dataset.chunks[0] if dataset.chunks else 1
    chunk_rows = max(1, min(rows, shape[0])) if shape else 1
    vlen, text = h5py.check_vlen_dtype(dtype), h5py.check_string_dtype(dtype)
    if text is not None:
        kind: LeafKind = "text" if len(shape) < 2 else "other"
        return Leaf(name, shape, kind, chunk_rows=chunk_rows, note="Texts in a table.")
    if dtype.names is not None:
        columns = ", ".join(dtype.names[:8])
        return Leaf(name, shape, "other", note=f"A table with the columns {columns}.")
    if vlen is not None or dtype.kind == "V":
        is_bytes = len(shape) == 1 and (vlen is None or vlen == np.uint8)
        kind = "bytes" if is_bytes else "other"
        return Leaf(name, shape, kind, chunk_rows=chunk_rows, note="Values of varying length.")
    if dtype.kind not in "biuf":
        return Leaf(name, shape, "other", str(dtype), note=f"Values of type {dtype}.")
    return Leaf(name, shape, "numbers", dtype.newbyteorder("=").name, chunk_rows)


def _plain(value: object) -> bool | int | float | str | None:
    """Return an attribute as a plain value; None for arrays and the like."""
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.reshape(-1)[0]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value if isinstance(value, bool | int | float | str) else None
