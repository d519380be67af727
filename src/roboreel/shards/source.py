"""The rows of a store as training samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.errors import FeatureNotFoundError, MissingValueError, WindowError
from roboreel.image import decode_image, from_channels_last, image_size
from roboreel.numbers import inside, whole_numbers
from roboreel.sample_spec import spec_of
from roboreel.schema import Feature
from roboreel.shards.features import (
    NUMBERS,
    Array,
    ClassLabel,
    FeatureType,
    Image,
    Sequence,
    Struct,
    Value,
    VideoPath,
)
from roboreel.video.scale import fit_picture

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from roboreel.sample_spec import SampleSpec
    from roboreel.shards.reading import StoreReader


class StoreSource:
    """Each row of a store is one sample, and none has neighbours in time.

    Images are decoded, without transparency. Fields of structs are features of their own, such as
    ``"pose.xyz"``. Lists of any length stay lists, and are left out of mixtures.
    """

    robot_type: str | None = None
    stats: Mapping[str, Any] = {}
    """A store has no statistics."""
    _text_names: tuple[str, ...] = ()

    def __init__(self, store: StoreReader) -> None:
        self._store = store
        self._types = dict(_flat(store.features))
        self.features = {
            name: found
            for name, of in self._types.items()
            if (found := _feature(of, lambda name=name: self._first_image(name))) is not None
        }
        """Features of samples, but lists of any length."""

    @property
    def path(self) -> Path | None:
        """The folder of the store."""
        return self._store.path

    @property
    def episode_bounds(self) -> NDArray[np.int64]:
        """All rows are one episode, ``(2,)``, so that shuffles and shares work as for datasets."""
        return np.array([0, len(self)] if len(self) else [0], np.int64)

    def __len__(self) -> int:
        return len(self._store)

    def __repr__(self) -> str:
        return f"StoreSource({self._store!r})"

    def read(self, samples: NDArray[np.int64], spec: SampleSpec | None = None, /) -> dict[str, Any]:
        """Return a batch: arrays ``(B, …)``, and lists for lists of any length.

        Raises:
            FeatureNotFoundError: A feature does not exist.
            MissingValueError: A number or an image is null.
            WindowError: A window was asked for.
            ValueError: Images differ in size, and no size was given.
        """
        spec = spec_of(spec)
        if spec.windows:
            raise WindowError(
                f"A window of {next(iter(spec.windows))!r} needs episodes, and the rows of a store "
                "have none. Leave the window out, or use a dataset."
            )
        names = self._checked(spec.features)
        rows = inside(whole_numbers(samples, "sample"), len(self), "sample")
        columns = dict.fromkeys(name.partition(".")[0] for name in names)
        stored = [name for name in self._store.features if name in names or name in columns]
        flat = dict(_flat_columns(self._store.take(rows, features=stored), self._store.features))
        return {name: self._finished(name, flat[name], spec) for name in names}

    def _checked(self, names: tuple[str, ...] | None) -> list[str]:
        wanted = list(self._types) if names is None else [name for name in names if name != "task"]
        for name in wanted:
            if name not in self._types:
                raise FeatureNotFoundError(
                    f"There is no feature {name!r}: there are {', '.join(self._types)}, in "
                    f"{self._store!r}."
                )
        return wanted

    def _finished(self, name: str, column: Any, spec: SampleSpec) -> Any:  # noqa: ANN401  # of any type
        of, feature = self._types[name], self.features.get(name)
        if feature is None:
            return column
        if feature.is_text:
            texts = np.empty(len(column), object)
            texts[:] = column
            return texts
        if isinstance(column, list) and any(value is None for value in column):
            raise MissingValueError(
                f"{name!r} is null in some rows. Leave these out with store.filter, or fill them "
                "with store.map."
            )
        if isinstance(of, Image):
            return _images(name, column, feature.shape, spec)
        return np.asarray(column).reshape(len(column), *feature.value_shape)

    def _first_image(self, name: str) -> tuple[int, ...]:
        """Return the shape of the first image, as that of all."""
        for row in range(min(len(self), 100)):
            column = self._store.slice(
                row,
                1,
                features=name.partition(".")[0] if name not in self._store.features else name,
            )
            (picture,) = dict(_flat_columns(column, self._store.features))[name]
            if picture is not None:
                return tuple(image_size(picture))
        return (1, 1, 3)


def _flat(
    features: Mapping[str, FeatureType], prefix: str = ""
) -> Iterator[tuple[str, FeatureType]]:
    for name, of in features.items():
        if isinstance(of, Struct):
            yield from _flat(of.fields, f"{prefix}{name}.")
        else:
            yield prefix + name, of


def _flat_columns(
    columns: Mapping[str, Any], features: Mapping[str, FeatureType], prefix: str = ""
) -> Iterator[tuple[str, Any]]:
    for name, column in columns.items():
        of = features[name]
        if not isinstance(of, Struct):
            yield prefix + name, column
        elif isinstance(column, dict):
            yield from _flat_columns(column, of.fields, f"{prefix}{name}.")
        else:  # Some structs are null, and so are their fields.
            fields = {
                field: [None if value is None else value[field] for value in column]
                for field in of.fields
            }
            yield from _flat_columns(fields, of.fields, f"{prefix}{name}.")


def _feature(of: FeatureType, image_shape: Any) -> Feature | None:  # noqa: ANN401  # a function
    match of:
        case Image():
            return Feature("image", image_shape())
        case Value("string" | "bytes") | VideoPath():
            return Feature("string", (1,))
        case Value(dtype) if dtype in NUMBERS:
            return Feature(dtype, (1,))
        case ClassLabel():
            return Feature("int64", (1,))
        case Array(shape, dtype):
            return Feature(dtype, shape)
        case Sequence(Value(dtype), int(length)) if dtype in NUMBERS:
            return Feature(dtype, (length,))
        case _:
            return None


def _images(
    name: str, pictures: list[bytes], shape: tuple[int, ...], spec: SampleSpec
) -> NDArray[Any]:
    """Return images of one size; if there are none, an empty array of the shape they would have."""
    decoded = [decode_image(picture) for picture in pictures]
    if spec.image_size is not None:
        decoded = [fit_picture(pixels, spec.image_size, spec.fit) for pixels in decoded]
    if len({(pixels.shape, pixels.dtype) for pixels in decoded}) > 1:
        shapes = ", ".join(map(str, {pixels.shape for pixels in decoded}))
        raise ValueError(
            f"Images of {name!r} differ: {shapes}. Pass image_size=(height, width) to scale them."
        )
    height, width = spec.image_size or shape[:2]
    batch = np.stack(decoded) if decoded else np.empty((0, height, width, shape[2]), np.uint8)
    return np.ascontiguousarray(from_channels_last(batch, spec.layout))
