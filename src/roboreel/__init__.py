"""Read, record and look at robot-learning datasets, in place.

The names below are loaded when first used, so that ``import roboreel`` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from roboreel.dataset import Dataset as Dataset
    from roboreel.dataset import Episode as Episode
    from roboreel.dataset import Mixture as Mixture
    from roboreel.dataset import open_dataset as open_dataset
    from roboreel.errors import DatasetError as DatasetError
    from roboreel.schema import Depth as Depth
    from roboreel.schema import Feature as Feature
    from roboreel.window import Window as Window

_HOMES = {
    "Dataset": "roboreel.dataset",
    "DatasetError": "roboreel.errors",
    "Depth": "roboreel.schema",
    "Episode": "roboreel.dataset",
    "Feature": "roboreel.schema",
    "Mixture": "roboreel.dataset",
    "Window": "roboreel.window",
    "open_dataset": "roboreel.dataset",
}

__version__ = "0.1.0"
__all__ = [*_HOMES, "__version__"]  # noqa: PLE0604  # spelled once, above


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'roboreel' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
