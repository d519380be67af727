"""Features as Arrow types, and Arrow columns as features."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from roboreel.errors import CorruptFileError, FeatureNotFoundError, MetadataError
from roboreel.parquet.arrow_types import numpy_type
from roboreel.shards.features import (
    NUMBERS,
    TIMES,
    Array,
    ClassLabel,
    FeatureType,
    Image,
    Sequence,
    Struct,
    Value,
    VideoPath,
    as_feature,
    features_from_json,
    features_to_json,
    is_number,
    normalize_features,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

_ARROW_NUMBERS = {str(pa.from_numpy_dtype(np.dtype(name))): name for name in (*NUMBERS, *TIMES)}
_SCHEMA_KEY = b"roboreel.features"


def arrow_type(feature: FeatureType) -> pa.DataType:
    """Return the Arrow type of a feature; bytes, text and lists have 64-bit offsets."""
    match feature:
        case Value("string") | VideoPath():
            return pa.large_string()
        case Value("bytes") | Image():
            return pa.large_binary()
        case Value(dtype):
            return pa.from_numpy_dtype(np.dtype(dtype))
        case ClassLabel():
            return pa.int64()
        case Array(shape, dtype):
            return pa.list_(pa.from_numpy_dtype(np.dtype(dtype)), math.prod(shape))
        case Sequence(of, None):
            return pa.large_list(arrow_type(of))
        case Sequence(of, length):
            return pa.list_(arrow_type(of), length)
        case Struct(fields):
            return pa.struct([(name, arrow_type(inner)) for name, inner in fields.items()])


def fits(feature: FeatureType, stored: FeatureType) -> bool:
    """Return whether columns that were found as ``stored`` can be read as a feature.

    Beyond columns of the same Arrow type, these are: arrays stored as their bytes or as lists of
    lists, labels of any integer type, and images stored as a struct of ``bytes`` and ``path``.
    """
    match feature, stored:
        case Array(shape, dtype), Sequence():
            return _numbers_at(stored, len(shape)) == dtype
        case Array(), Value("bytes"):
            return True
        case Array(shape, dtype), Array(inner, other):
            return math.prod(shape) == math.prod(inner) and dtype == other
        case ClassLabel(), Value(dtype):
            return np.dtype(dtype).kind in "iu" if is_number(stored) else False
        case Image(), Struct(fields):
            return fields.get("bytes") == Value("bytes")
        case Struct(fields), Struct(inner):
            same = fields.keys() == inner.keys()
            return same and all(fits(of, inner[name]) for name, of in fields.items())
        case Sequence(of, None), Sequence(inner, None):
            return fits(of, inner)
        case _:
            return bool(arrow_type(feature) == arrow_type(stored))


def _numbers_at(stored: FeatureType, depth: int) -> str | None:
    """Return the dtype of lists of numbers of some depth; None if they are something else."""
    match stored:
        case Value(dtype) if depth == 0 and dtype in NUMBERS:
            return dtype
        case Array(shape, dtype) if depth == len(shape):
            return dtype
        case Sequence(of) if depth:
            return _numbers_at(of, depth - 1)
        case _:
            return None


def declare(
    stored: Mapping[str, FeatureType], declared: Mapping[str, object] | None
) -> dict[str, FeatureType]:
    """Return the features that were found, where others are declared as these.

    Raises:
        FeatureNotFoundError: A declared feature has no column.
        MetadataError: A column cannot be read as what is declared.
    """
    features = dict(stored)
    for name, given in (declared or {}).items():
        feature = as_feature(given)
        if name not in stored:
            there = ", ".join(map(repr, stored))
            raise FeatureNotFoundError(
                f"There is no column {name!r} to be declared: there are {there}."
            )
        if not fits(feature, stored[name]):
            raise MetadataError(
                f"Column {name!r} holds {stored[name]} and cannot be read as {feature}."
            )
        features[name] = feature
    return features


def arrow_schema(features: Mapping[str, FeatureType]) -> pa.Schema:
    """Return the schema of a shard; its metadata describes the features."""
    return pa.schema(
        [(name, arrow_type(feature)) for name, feature in features.items()],
        metadata={_SCHEMA_KEY: json.dumps(features_to_json(features))},
    )


def features_of_schema(schema: pa.Schema) -> dict[str, FeatureType]:
    """Return the features of any table, as far as its schema describes them.

    Metadata is used only where it fits the column: other tools flatten, rename and cast tables
    but keep the old metadata.

    Raises:
        MetadataError: Two columns have the same name, a name is empty or not text, a type is not
            supported, or there are no columns.
    """
    try:
        return _features_of_schema(schema)
    except MetadataError:
        raise
    except ValueError as error:  # of names, which Arrow does not check
        raise MetadataError(f"The columns of the table cannot be used: {error}") from error


def _features_of_schema(schema: pa.Schema) -> dict[str, FeatureType]:
    if not schema.names:
        raise MetadataError("The table has no columns.")
    if len(set(schema.names)) != len(schema.names):
        raise MetadataError(f"Two columns have the same name: {', '.join(schema.names)}.")
    described = _described_features(schema)
    features: dict[str, FeatureType] = {}
    for column in schema:
        features[column.name] = _feature_of_type(column.type, column.name)
        feature = described.get(column.name)
        if feature is not None and arrow_type(feature) == arrow_type(features[column.name]):
            features[column.name] = feature
    return normalize_features(features)


def _described_features(schema: pa.Schema) -> dict[str, FeatureType]:
    try:
        return features_from_json(json.loads((schema.metadata or {})[_SCHEMA_KEY]))
    except (KeyError, ValueError, RecursionError):
        return {}


def _feature_of_type(stored: pa.DataType, name: str) -> FeatureType:
    if isinstance(stored, pa.FixedShapeTensorType) and stored.permutation is None:
        of = _feature_of_type(stored.value_type, name)
        if isinstance(of, Value) and of.dtype in NUMBERS:
            return Array(tuple(stored.shape), of.dtype)
    if isinstance(stored, pa.BaseExtensionType):
        stored = stored.storage_type
    types = pa.types
    if types.is_dictionary(stored) or types.is_run_end_encoded(stored):
        return _feature_of_type(stored.value_type, name)
    if any(
        check(stored) for check in (types.is_string, types.is_large_string, types.is_string_view)
    ):
        return Value("string")
    if any(check(stored) for check in _IS_BYTES):
        return Value("bytes")
    if types.is_struct(stored) and stored.num_fields:
        return Struct({inner.name: _feature_of_type(inner.type, name) for inner in stored})
    if types.is_map(stored):
        pair = {"key": stored.key_type, "value": stored.item_type}
        return Sequence({part: _feature_of_type(of, name) for part, of in pair.items()})
    if any(check(stored) for check in _IS_LIST):
        return _feature_of_list(stored, name)
    if types.is_date(stored) or types.is_timestamp(stored):
        unit = "s" if types.is_date32(stored) else getattr(stored, "unit", "ms")
        return Value(f"datetime64[{unit}]")
    if str(stored) in _ARROW_NUMBERS:
        return Value(_ARROW_NUMBERS[str(stored)])
    raise MetadataError(
        f"Column {name!r} has the Arrow type {stored}, which a store cannot hold. Cast or drop it."
    )


_IS_BYTES = (
    *(pa.types.is_binary, pa.types.is_large_binary),
    *(pa.types.is_binary_view, pa.types.is_fixed_size_binary),
)
_IS_LIST = (
    *(pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list),
    *(pa.types.is_list_view, pa.types.is_large_list_view),
)


def _feature_of_list(stored: pa.DataType, name: str) -> FeatureType:
    of = _feature_of_type(stored.value_type, name)
    if not pa.types.is_fixed_size_list(stored):
        return Sequence(of)
    match of:
        case Value(dtype) if dtype in NUMBERS:
            return Array((stored.list_size,), dtype)
        case Array(shape, dtype):
            return Array((stored.list_size, *shape), dtype)
        case _:
            return Sequence(of)


def as_declared(array: pa.Array, feature: FeatureType) -> pa.Array:
    """Return a stored column in the Arrow type of its feature.

    Only what differs is copied: offsets that have 32 bits, labels of a smaller type, values that a
    dictionary, a view or run lengths stand for. Bytes and text are shared.

    Raises:
        CorruptFileError: An array stored as its bytes has another size.
    """
    wanted = arrow_type(feature)
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if array.type == wanted:
        return array
    match feature:
        case Image() if pa.types.is_struct(array.type):
            return as_declared(_functions().struct_field(array, "bytes"), feature)
        case Array(shape) if any(check(array.type) for check in _IS_LIST[:2]):
            return _array_of_lists(array, wanted, shape)
        case Array() if not pa.types.is_fixed_size_list(array.type):
            return _array_of_bytes(array.cast(pa.large_binary()), wanted)
        case Array():
            return _flat_array(array, wanted)
        case Sequence(of) if pa.types.is_list_view(array.type) or pa.types.is_large_list_view(
            array.type
        ):
            # Not by a cast, which keeps the offsets of views: they need not ascend.
            lengths = _functions().list_value_length(array).fill_null(0).cast(pa.int64())
            offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
            mask = array.is_null() if array.null_count else None
            inner = as_declared(array.flatten(), of)
            return pa.LargeListArray.from_arrays(plain_array(offsets), inner, mask=mask)
        case _ if pa.types.is_run_end_encoded(array.type):
            return as_declared(_functions().run_end_decode(array), feature)
        case _ if pa.types.is_dictionary(array.type):
            return as_declared(array.dictionary_decode(), feature)
        case _:
            return array.cast(wanted)


def is_run(rows: NDArray[np.int64]) -> bool:
    """Return whether rows follow one another; there is at least one of them."""
    count = len(rows)
    return count > 0 and bool(rows[-1] - rows[0] == count - 1 and (rows[1:] - rows[:-1] == 1).all())


def take_rows(array: pa.Array, rows: NDArray[np.int64] | slice) -> pa.Array:
    """Return some rows of an array; a slice of it if they follow one another."""
    if isinstance(rows, slice):
        return array.slice(rows.start, rows.stop - rows.start)
    if is_run(rows):
        return array.slice(int(rows[0]), len(rows))
    return array.take(plain_array(rows))


def plain_array(numbers: NDArray[np.int64]) -> pa.Array:
    """Return integers as Arrow; `pyarrow.array` would import pandas to look for its objects."""
    return pa.Array.from_buffers(
        pa.int64(), len(numbers), [None, pa.py_buffer(np.ascontiguousarray(numbers))]
    )


def concat(arrays: list[pa.Array], feature: FeatureType) -> pa.Array:
    """Return arrays of a feature as one, also if there are none."""
    return pa.concat_arrays(arrays) if arrays else pa.nulls(0, arrow_type(feature))


def _array_of_bytes(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Return values of one size, stored as bytes, as fixed-size lists of numbers."""
    size = wanted.list_size * numpy_type(wanted.value_type).itemsize
    lengths = _functions().binary_length(array)
    wrong = _functions().not_equal(lengths, size)
    if _functions().any(wrong).as_py():
        found = lengths.filter(wrong)[0].as_py()
        raise CorruptFileError(f"An array has {found} bytes, and its shape needs {size}.")
    fixed = array.cast(pa.binary(size))  # Nulls take room here, as they do in the lists.
    validity, data = fixed.buffers()
    numbers = pa.Array.from_buffers(
        wanted.value_type, (fixed.offset + len(fixed)) * wanted.list_size, [None, data]
    )
    return pa.Array.from_buffers(
        wanted, len(fixed), [validity], offset=fixed.offset, children=[numbers]
    )


def _array_of_lists(array: pa.Array, wanted: pa.DataType, shape: tuple[int, ...]) -> pa.Array:
    """Return lists of lists, all of the sizes of a shape, as lists of all their numbers."""
    validity = array.is_valid()
    inner = array.drop_null()
    for size in shape:
        lengths = _functions().list_value_length(inner)
        wrong = _functions().not_equal(lengths, size).fill_null(True)
        if _functions().any(wrong).as_py():
            found = lengths.filter(wrong)[0].as_py()
            raise CorruptFileError(
                f"An array of the shape {shape} is stored as lists, and one has {found} values, not "
                f"{size}."
            )
        inner = inner.flatten()
    fixed = pa.FixedSizeListArray.from_arrays(inner.cast(wanted.value_type), type=wanted)
    if not array.null_count:
        return fixed
    places = np.cumsum(np.asarray(validity)) - 1
    return fixed.take(pa.array(places, pa.int64(), mask=~np.asarray(validity)))


def _flat_array(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Return nested fixed-size lists as lists of all their numbers."""
    mask = array.is_null() if array.null_count else None
    inner = array
    start, stop = inner.offset, inner.offset + len(inner)
    while pa.types.is_fixed_size_list(inner.type):
        size, inner = inner.type.list_size, inner.values
        start, stop = start * size, stop * size
    numbers = inner.slice(start, stop - start).cast(wanted.value_type)
    return pa.FixedSizeListArray.from_arrays(numbers, type=wanted, mask=mask)


def _functions() -> Any:  # noqa: ANN401  # pyarrow is untyped
    # At first use: importing them takes 0.1 s, which opening a dataset need not pay.
    import pyarrow.compute

    return pyarrow.compute
