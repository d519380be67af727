"""Read, record and look at robot-learning datasets, in place.

::

    reading      open_dataset, save_view, Dataset, Episode, Mixture, SampleSpec, Window
    caching      Jpeg, Raw: the pictures of a training cache, see Dataset.materialize
    editing      edit_dataset
    recording    create_dataset, resume_dataset, Recorder, Feature, Depth, Encoding
    replaying    ReplayBuffer
    shards       write_shards, open_shards
    errors       DatasetError

Further names are in `roboreel.torch`, `roboreel.lerobot`, `roboreel.huggingface`,
`roboreel.rerun`, `roboreel.ray`, `roboreel.loading`, `roboreel.record`, `roboreel.check`,
`roboreel.edit`, `roboreel.importing`, `roboreel.jobs` and `roboreel.shards`; all errors are in
`roboreel.errors`. Names are loaded at first use, so ``import roboreel`` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from roboreel.dataset import Dataset as Dataset
    from roboreel.dataset import Episode as Episode
    from roboreel.dataset import Mixture as Mixture
    from roboreel.dataset import open_dataset as open_dataset
    from roboreel.dataset import save_view as save_view
    from roboreel.dataset.cache import Jpeg as Jpeg
    from roboreel.dataset.cache import Raw as Raw
    from roboreel.edit import edit_dataset as edit_dataset
    from roboreel.errors import DatasetError as DatasetError
    from roboreel.record.opening import create_dataset as create_dataset
    from roboreel.record.opening import resume_dataset as resume_dataset
    from roboreel.record.recorder import Recorder as Recorder
    from roboreel.replay.buffer import ReplayBuffer as ReplayBuffer
    from roboreel.sample_spec import SampleSpec as SampleSpec
    from roboreel.schema import Depth as Depth
    from roboreel.schema import Feature as Feature
    from roboreel.shards import open_shards as open_shards
    from roboreel.shards import write_shards as write_shards
    from roboreel.video.encoding import Encoding as Encoding
    from roboreel.window import Window as Window

from roboreel.version import __version__

_HOMES = {
    "Dataset": "roboreel.dataset",
    "DatasetError": "roboreel.errors",
    "Depth": "roboreel.schema",
    "Encoding": "roboreel.video.encoding",
    "Episode": "roboreel.dataset",
    "Feature": "roboreel.schema",
    "Jpeg": "roboreel.dataset.cache",
    "Mixture": "roboreel.dataset",
    "Raw": "roboreel.dataset.cache",
    "Recorder": "roboreel.record.recorder",
    "ReplayBuffer": "roboreel.replay.buffer",
    "SampleSpec": "roboreel.sample_spec",
    "Window": "roboreel.window",
    "create_dataset": "roboreel.record.opening",
    "edit_dataset": "roboreel.edit",
    "open_dataset": "roboreel.dataset",
    "open_shards": "roboreel.shards",
    "resume_dataset": "roboreel.record.opening",
    "save_view": "roboreel.dataset",
    "write_shards": "roboreel.shards",
}

__all__ = [*_HOMES, "__version__"]  # noqa: PLE0604  # spelled once, above


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'roboreel' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
