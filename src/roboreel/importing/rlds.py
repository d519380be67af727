"""RLDS episodes of TensorFlow Datasets as recordings; one record is one episode."""

from __future__ import annotations

import math
import re
import zlib
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.errors import CorruptFileError, FeatureError, SourceError
from roboreel.importing.array_streams import pixel_stream
from roboreel.importing.recording import (
    Recording,
    SourceEpisode,
    Stream,
    natural_key,
    picture_stream,
)
from roboreel.importing.tf_example import list_records, parse_example, read_record
from roboreel.importing.tfds_features import read_features
from roboreel.io.mapped import MappedFile
from roboreel.schema import Feature

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from roboreel.importing.recording import Values
    from roboreel.importing.tf_example import Example, Record
    from roboreel.importing.tfds_features import TFDSFeature

_SPLIT = re.compile(r"-(?P<split>[A-Za-z0-9_]+)\.tfrecord")
_RATES = {
    r"bridge(_dataset|_orig|_v2)?-": 5.0,
    r"fractal20220817_data-": 3.0,
    r"droid(_100)?-": 15.0,
    r"libero_": 20.0,
}
"""Steps per second that were published for datasets, by how their files are called."""
_MOST_VALUE = 2**31
_LEAVE_OUT = "leave it out of the mapping (--write-map, --map)"
_SHARD = re.compile(r"(?P<name>.*\.tfrecord)-(?P<number>\d+)-of-(?P<count>\d+)")
LAST_NOTE = "In RLDS, the value of the last step has no meaning."


def open_source(path: Path) -> Recording:
    """Open a folder that TensorFlow Datasets made, the folder above it, or one of its files.

    Raises:
        CorruptFileError: A file is damaged.
        SourceError: There are no episodes.
    """
    folder = _version_folder(path) if path.is_dir() else path.parent
    if not (folder / "features.json").is_file():
        raise SourceError(
            f"A TFRecord file needs features.json beside it, which says what is in it: {str(path)!r}."
        )
    features = read_features(folder / "features.json")
    files = [path] if path.is_file() else sorted(folder.glob("*.tfrecord*"), key=_file_order)
    places = [(file, record) for file in files for record in list_records(file)]
    if not places:
        raise SourceError(f"There is no episode in {str(path)!r}.")
    recording = RLDSRecording(path, features, places)
    recording.remarks = tuple(_missing_files(files)) if path.is_dir() else ()
    return recording


def _missing_files(files: Sequence[Path]) -> Iterator[str]:
    """Yield a sentence for each split of which files are missing, as their names tell."""
    found = [match for file in files if (match := _SHARD.fullmatch(file.name))]
    for (name, count), of_split in groupby(found, key=lambda m: (m["name"], int(m["count"]))):
        there = len({match["number"] for match in of_split})
        if there < count:
            yield f"Of the {count} files of {name}, {there} are there: the others are left out."


class RLDSRecording(Recording):
    """Episodes in TFRecord files.

    Args:
        path: What was opened.
        features: What features.json declares.
        places: File and record of each episode.
    """

    def __init__(
        self, path: Path, features: Sequence[TFDSFeature], places: Sequence[tuple[Path, Record]]
    ) -> None:
        self._places = tuple(places)
        self._held: tuple[int, Example] | None = None
        self._steps = {f.key.removeprefix("steps/"): f for f in features if f.is_step}
        self._counter = _counter(self._steps)
        first = self._example_at(places[0])
        streams = {name: _stream(name, f, first) for name, f in self._steps.items()}
        about = [f for f in features if not f.is_step]
        fps = _published_rate(self._places[0][0].name)
        super().__init__(
            path,
            "rlds",
            streams,
            list(self._list_episodes(about)),
            fps=fps,
            fps_reason="the published rate of this dataset" if fps else "",
        )

    def _read(self, episode: int, wanted: Mapping[str, NDArray[np.int64]]) -> dict[str, Values]:
        """Return values of an episode, whose record is read once."""
        if self._held is None or self._held[0] != episode:
            self._held = (episode, self._example_at(self._places[episode]))
        example, length = self._held[1], self.episodes[episode].length or 0
        file = self._places[episode][0]
        try:
            return {
                name: _values(self.streams[name], self._steps[name], example, length, positions)
                for name, positions in wanted.items()
            }
        except CorruptFileError as error:
            raise CorruptFileError(f"Episode {episode}: {error} {str(file)!r}.") from error

    def close(self) -> None:
        """Forget the record that is held."""
        self._held = None

    def _list_episodes(self, about: Sequence[TFDSFeature]) -> Iterator[SourceEpisode]:
        """Yield the episodes, of which only a few bytes are read."""
        files: dict[Path, MappedFile] = {}
        for number, (path, (start, stop)) in enumerate(self._places):
            if path not in files:
                files = {path: MappedFile(path)}
            try:
                example = parse_example(files[path].view(start, stop - start))
                length = self._length(example)
                metadata = {**_split_of(path), **_metadata(about, example)}
            except CorruptFileError as error:
                raise CorruptFileError(
                    f"Episode {number} cannot be read: {error} {str(path)!r}."
                ) from error
            yield SourceEpisode(str(number), length, metadata=metadata)

    def _example_at(self, place: tuple[Path, Record]) -> Example:
        try:
            return parse_example(read_record(*place))
        except CorruptFileError as error:
            if str(place[0]) in str(error):
                raise
            raise CorruptFileError(
                f"The record at byte {place[1][0]:,} is not an example: {error} {str(place[0])!r}."
            ) from error

    def _length(self, example: Example) -> int:
        feature = self._counter
        return len(_list_of(feature, example)) // max(1, math.prod(feature.shape))


def _published_rate(name: str) -> float | None:
    """Return the rate of a dataset that is known by its name; the files do not tell it."""
    return next((fps for pattern, fps in _RATES.items() if re.match(pattern, name)), None)


def _version_folder(path: Path) -> Path:
    if (path / "features.json").is_file():
        return path
    return next(path.glob("*/features.json")).parent


def _file_order(path: Path) -> tuple[Any, ...]:
    order = {"train": 0, "val": 1, "validation": 1, "test": 2}
    split = str(_split_of(path).get("split", ""))
    return order.get(split, 3), natural_key(path.name)


def _split_of(path: Path) -> dict[str, str]:
    found = _SPLIT.search(path.name)
    return {"split": found["split"]} if found else {}


def _counter(steps: Mapping[str, TFDSFeature]) -> TFDSFeature:
    """Return the feature whose length is the number of steps: a small one of known size."""
    plain = [f for f in steps.values() if f.kind in ("numbers", "text") and -1 not in f.shape]
    plain = [f for f in plain if not f.encoding] or [f for f in steps.values() if f.kind == "image"]
    if not plain:
        raise SourceError("No feature of the steps gives their number.")
    return min(plain, key=lambda f: (f.kind == "text", math.prod(f.shape)))


def _stream(name: str, feature: TFDSFeature, example: Example) -> Stream:
    if feature.key not in example:
        return _other(name, feature, "The first episode does not have it.")
    note = LAST_NOTE if name == "action" or name.startswith("action/") else ""
    if feature.kind == "text":
        return Stream(name, "text", source_type="text")
    if feature.kind == "image":
        return _picture_stream(name, feature, example)
    if (
        feature.kind != "numbers"
        or -1 in feature.shape
        or not 0 < math.prod(feature.shape) < _MOST_VALUE
    ):
        return _other(name, feature, "Its values have no fixed shape that is known.")
    image = pixel_stream(name, feature.dtype, feature.shape)
    if image is not None:
        return image
    try:
        Feature(feature.dtype, feature.shape)
        return Stream(
            name, "numbers", feature.dtype, feature.shape, source_type=feature.dtype, note=note
        )
    except (FeatureError, SourceError) as error:
        return _other(name, feature, str(error))


def _picture_stream(name: str, feature: TFDSFeature, example: Example) -> Stream:
    pictures = example.strings(feature.key)
    if feature.dtype.startswith("float"):
        # As TensorFlow Datasets packs them, a PNG of four bytes per pixel, they look like colours.
        return _other(name, feature, "Its images are in floating point, which is not read.")
    if not pictures or not pictures[0]:
        return _other(name, feature, "The first episode has no picture of it.")
    try:
        return picture_stream(name, pictures[0])
    except (CorruptFileError, SourceError) as error:
        return _other(name, feature, f"Its first picture cannot be used: {error}")


def _other(name: str, feature: TFDSFeature, note: str) -> Stream:
    return Stream(name, "other", source_type=feature.dtype or feature.kind, note=note)


def _list_of(feature: TFDSFeature, example: Example) -> Sequence[Any] | NDArray[Any]:
    """Return a list of an example as it is stored."""
    if feature.key not in example:
        raise CorruptFileError(f"{feature.key!r} is missing.")
    if feature.kind in ("text", "image") or feature.encoding:
        return example.strings(feature.key)
    return (
        example.floats(feature.key)
        if feature.dtype in ("float16", "bfloat16", "float32", "float64")
        else example.ints(feature.key)
    )


def _values(
    stream: Stream,
    feature: TFDSFeature,
    example: Example,
    length: int,
    positions: NDArray[np.int64],
) -> Values:
    if feature.key not in example:
        raise CorruptFileError(f"{feature.key!r} is missing: {_LEAVE_OUT}.")
    stored = _list_of(feature, example)
    size = math.prod(feature.shape) if feature.kind == "numbers" and not feature.encoding else 1
    if len(stored) != length * size:
        raise CorruptFileError(
            f"{feature.key!r} has {len(stored):,} elements: {length} steps need {length * size:,}."
        )
    if stream.kind == "text":
        return [stored[i].decode("utf-8", "replace") for i in positions.tolist()]
    if stream.kind == "pictures":
        pictures = [stored[i] for i in positions.tolist()]
        if not all(pictures):
            raise CorruptFileError(
                f"{feature.key!r} has no picture at step {positions[pictures.index(b'')]}: {_LEAVE_OUT}."
            )
        return pictures
    if feature.encoding:
        parts = [_unpacked(stored[i], feature) for i in positions.tolist()]
        packed = np.stack(parts) if parts else np.empty((0, *stream.shape), stream.dtype)
        return packed.reshape(len(positions), *stream.shape).astype(stream.dtype)
    rows = np.asarray(stored).reshape(length, *feature.shape)[positions]
    return rows.reshape(len(positions), *stream.shape).astype(stream.dtype)


def _unpacked(data: bytes, feature: TFDSFeature) -> NDArray[Any]:
    """Return a tensor that is stored as the bytes of its elements."""
    wanted = math.prod(feature.shape) * np.dtype(feature.dtype).itemsize
    if feature.encoding == "zlib":
        try:
            data = zlib.decompressobj().decompress(data, wanted + 1)
        except zlib.error as error:
            raise CorruptFileError(f"{feature.key!r} cannot be unpacked: {error}.") from error
    if len(data) != wanted:
        raise CorruptFileError(f"{feature.key!r} has {len(data):,} bytes: {wanted:,} are needed.")
    return np.frombuffer(data, feature.dtype).reshape(feature.shape).copy()


def _metadata(
    features: Sequence[TFDSFeature], example: Example
) -> dict[str, bool | int | float | str]:
    """Return what an example says of the whole episode."""
    found: dict[str, bool | int | float | str] = {}
    for feature in features:
        if feature.key not in example or feature.shape or feature.encoding:
            continue
        stored = _list_of(feature, example) if feature.kind in ("numbers", "text") else []
        if len(stored) != 1:
            continue
        value = stored[0]
        name = feature.key.removeprefix("episode_metadata/").replace("/", ".")
        if isinstance(value, bytes):
            found[name] = value.decode("utf-8", "replace")
        else:
            found[name] = np.asarray(value).astype(feature.dtype).item()
    return found
