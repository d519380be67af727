"""Values as Arrow arrays of the type that a file has for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["arrow_array"]


def arrow_array(values: Any, kind: Any) -> Any:  # noqa: ANN401  # pyarrow is untyped
    """Return values as an array of a type.

    Some writers store one number as such, others as a list of one: here it becomes what the type says.

    Args:
        values: An array of NumPy, a chunked array, or a list.
        kind: The Arrow type.

    Raises:
        pyarrow.ArrowException: They cannot have this type.
    """
    if isinstance(values, np.ndarray):
        return pa.array(values).cast(kind)
    if not isinstance(values, pa.ChunkedArray):
        return pa.array(_nested(values, kind), kind)
    if _is_list(values.type) == _is_list(kind):
        return values.cast(kind)
    return pa.array(_nested(values.to_pylist(), kind), kind)


def _nested(values: Sequence[Any], kind: Any) -> list[Any]:  # noqa: ANN401
    if _is_list(kind):
        return [v if v is None or isinstance(v, list | np.ndarray) else [v] for v in values]
    return [v[0] if isinstance(v, list) and len(v) == 1 else v for v in values]


def _is_list(kind: Any) -> bool:  # noqa: ANN401
    kinds = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    return any(is_one(kind) for is_one in kinds)
