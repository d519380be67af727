"""Arrow's numbers as NumPy's.

Converted from the buffers: pyarrow's own conversions import pandas where it is installed, which
takes longer than most reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from numpy.typing import NDArray


_OTHER_NAMES = {"halffloat": "float16", "float": "float32", "double": "float64"}


def is_numeric(arrow_type: Any) -> bool:  # noqa: ANN401  # pyarrow is untyped
    """Return whether values of an Arrow type are numbers or booleans."""
    types = pa.types
    return bool(
        types.is_integer(arrow_type)
        or types.is_floating(arrow_type)
        or types.is_boolean(arrow_type)
    )


def is_list(arrow_type: Any) -> bool:  # noqa: ANN401
    """Return whether values of an Arrow type are lists, of one length or of any."""
    types = pa.types
    return bool(
        types.is_list(arrow_type)
        or types.is_large_list(arrow_type)
        or types.is_fixed_size_list(arrow_type)
    )


def numpy_type(arrow_type: Any) -> np.dtype[Any]:  # noqa: ANN401  # pyarrow is untyped
    """Return the NumPy dtype for an Arrow type of numbers, booleans or times."""
    if pa.types.is_timestamp(arrow_type):
        return np.dtype(f"datetime64[{arrow_type.unit}]")
    if pa.types.is_duration(arrow_type):
        return np.dtype(f"timedelta64[{arrow_type.unit}]")
    name = str(arrow_type)
    return np.dtype(_OTHER_NAMES.get(name, name))


def plain_numbers(array: Any) -> NDArray[Any]:  # noqa: ANN401
    """Return an Arrow array or column of numbers or booleans without nulls as a NumPy array.

    It may share the Arrow memory.
    """
    if isinstance(array, pa.ChunkedArray):
        parts = [plain_numbers(chunk) for chunk in array.chunks]
        return np.concatenate(parts) if parts else np.empty(0, numpy_type(array.type))
    start, stop = array.offset, array.offset + len(array)
    buffer = array.buffers()[1]
    if buffer is None:  # no values
        return np.empty(0, numpy_type(array.type))
    if pa.types.is_boolean(array.type):
        bits = np.frombuffer(buffer, np.uint8)[: -(-stop // 8)]
        return np.unpackbits(bits, count=stop, bitorder="little")[start:].view(np.bool_)
    return np.frombuffer(buffer, numpy_type(array.type), count=stop)[start:]
