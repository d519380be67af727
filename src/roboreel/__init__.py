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
    from roboreel.dataset.cache import Jpeg as Jpeg
    from roboreel.dataset.cache import Raw as Raw
    from roboreel.dataset.mixture import Mixture as Mixture
    from roboreel.dataset.normalize import Normalize as Normalize
    from roboreel.dataset.normalize import Unnormalize as Unnormalize
    from roboreel.errors import DatasetError as DatasetError
    from roboreel.record.recorder import Recorder as Recorder
    from roboreel.record.recorder import create_dataset as create_dataset
    from roboreel.record.recorder import resume_dataset as resume_dataset
    from roboreel.replay.buffer import ReplayBuffer as ReplayBuffer
    from roboreel.schema import Depth as Depth
    from roboreel.schema import Feature as Feature
    from roboreel.shards import Array as Array
    from roboreel.shards import ClassLabel as ClassLabel
    from roboreel.shards import Image as Image
    from roboreel.shards import Sequence as Sequence
    from roboreel.shards import Store as Store
    from roboreel.shards import Value as Value
    from roboreel.shards import VideoPath as VideoPath
    from roboreel.shards import open_shards as open_shards
    from roboreel.shards import validate_shards as validate_shards
    from roboreel.shards import write_shards as write_shards
    from roboreel.video.encoding import Encoding as Encoding
    from roboreel.window import Window as Window

_HOMES = {
    "Array": "roboreel.shards",
    "ClassLabel": "roboreel.shards",
    "Dataset": "roboreel.dataset",
    "DatasetError": "roboreel.errors",
    "Depth": "roboreel.schema",
    "Encoding": "roboreel.video.encoding",
    "Episode": "roboreel.dataset",
    "Feature": "roboreel.schema",
    "Image": "roboreel.shards",
    "Jpeg": "roboreel.dataset.cache",
    "Mixture": "roboreel.dataset.mixture",
    "Normalize": "roboreel.dataset.normalize",
    "Raw": "roboreel.dataset.cache",
    "Recorder": "roboreel.record.recorder",
    "ReplayBuffer": "roboreel.replay.buffer",
    "Sequence": "roboreel.shards",
    "Store": "roboreel.shards",
    "Unnormalize": "roboreel.dataset.normalize",
    "Value": "roboreel.shards",
    "VideoPath": "roboreel.shards",
    "Window": "roboreel.window",
    "create_dataset": "roboreel.record.recorder",
    "open_dataset": "roboreel.dataset",
    "open_shards": "roboreel.shards",
    "resume_dataset": "roboreel.record.recorder",
    "validate_shards": "roboreel.shards",
    "write_shards": "roboreel.shards",
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
