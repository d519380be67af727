"""Arrow's types of numbers by NumPy's names."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["numpy_type"]

_OTHER_NAMES = {"halffloat": "float16", "float": "float32", "double": "float64"}


def numpy_type(kind: Any) -> np.dtype[Any]:  # noqa: ANN401  # pyarrow is untyped
    """Return the NumPy dtype of an Arrow type of numbers or booleans.

    pyarrow's own ``to_pandas_dtype`` needs pandas, which roboreel does not.
    """
    name = str(kind)
    return np.dtype(_OTHER_NAMES.get(name, name))
