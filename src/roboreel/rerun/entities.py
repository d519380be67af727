"""Where features lie in a recording."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import rerun as rr

from roboreel.errors import DatasetError
from roboreel.format.counters import COUNTERS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from roboreel.schema import Feature


@lru_cache(maxsize=1024)
def entity_path(name: str) -> str:
    r"""Return the path of a feature's entity.

    Examples:
        >>> print(entity_path("observation.state"), entity_path("left arm/joint:0"))
        /observation.state /left\ arm/joint\:0
    """
    parts = [rr.escape_entity_path_part(part) for part in name.split("/") if part]
    return "/" + "/".join(parts)


def shown_features(features: Mapping[str, Feature]) -> dict[str, Feature]:
    """Return the features that have an entity: counters are timelines and texts instead.

    Raises:
        DatasetError: Two features have the same path.
    """
    shown = {name: f for name, f in features.items() if name not in (*COUNTERS, "subtask_index")}
    names: dict[str, str] = {}
    for name in shown:
        other = names.setdefault(entity_path(name), name)
        if other != name:
            raise DatasetError(
                f"The features {other!r} and {name!r} have the same path in a recording, "
                f"{entity_path(name)!r}. Rename one of them."
            )
    return shown
