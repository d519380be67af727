"""The numbers and texts of a view as one table, for pyarrow, pandas and polars."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.errors import FeatureNotFoundError
from roboreel.format.write_data import MESSAGE
from roboreel.parquet.frame_tables import frame_schema, frame_table, join_tables

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from roboreel.dataset.dataset import Dataset

_BYTES_AT_ONCE = 1 << 24
_BYTES_OF_A_TEXT = 64


def table_of(view: Dataset, features: Sequence[str] | None) -> Any:  # noqa: ANN401  # an Arrow table
    """Return a table with a row for each sample; see `Dataset.to_arrow`."""
    names = _names(view, features)
    texts = [name for name in names if name not in view.features]
    stored = {name: view.features[name] for name in names if name not in texts}
    schema = frame_schema(stored, message=MESSAGE)
    parts = []
    for start, stop in steps_of(view, names):
        values = view.read(np.arange(start, stop, dtype=np.int64), names)
        parts.append(frame_table(values, stored, schema, picture_name="", texts=texts))
    return join_tables(parts).select(names)


def steps_of(view: Dataset, names: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield spans of samples whose numbers take about 16 MB; one empty span if there are none."""
    sizes = [
        int(np.prod(view.features[name].value_shape, dtype=np.int64)) * 8
        if name in view.features
        else _BYTES_OF_A_TEXT
        for name in names
    ]
    step = max(1, _BYTES_AT_ONCE // max(sum(sizes), 1))
    for start in range(0, max(len(view), 1), step):
        yield start, min(start + step, len(view))


def _names(view: Dataset, features: Sequence[str] | None) -> list[str]:
    plain = [name for name, feature in view.features.items() if not feature.is_camera]
    # A feature of the same name comes first.
    known = list(dict.fromkeys([*plain, *view._text_names]))
    listed = [features] if isinstance(features, str) else features
    names = known if listed is None else list(dict.fromkeys(listed))
    wrong = [name for name in names if name not in known]
    if wrong:
        what = "is a camera" if wrong[0] in view.features else "is no feature"
        raise FeatureNotFoundError(
            f"{wrong[0]!r} {what}, and a table has numbers and texts only: there are "
            f"{', '.join(known)}, in {str(view.path)!r}."
        )
    return names
