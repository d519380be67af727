"""Read, record and look at robot-learning datasets, in place.

The names below are loaded when first used, so that ``import roboreel`` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from roboreel.dataset import Dataset as Dataset
    from roboreel.dataset import Episode as Episode
    from roboreel.dataset import open_dataset as open_dataset
    from roboreel.errors import DatasetError as DatasetError
    from roboreel.record.recorder import Recorder as Recorder
    from roboreel.record.recorder import create_dataset as create_dataset
    from roboreel.record.recorder import resume_dataset as resume_dataset
    from roboreel.schema import Depth as Depth
    from roboreel.schema import Feature as Feature
    from roboreel.video.encode import Encoding as Encoding
    from roboreel.window import Window as Window

_HOMES = {
    "Dataset": "roboreel.dataset",
    "DatasetError": "roboreel.errors",
    "Depth": "roboreel.schema",
    "Encoding": "roboreel.video.encode",
    "Episode": "roboreel.dataset",
    "Feature": "roboreel.schema",
    "Recorder": "roboreel.record.recorder",
    "Window": "roboreel.window",
    "create_dataset": "roboreel.record.recorder",
    "open_dataset": "roboreel.dataset",
    "resume_dataset": "roboreel.record.recorder",
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
