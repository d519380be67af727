"""Recordings of other formats become datasets: HDF5, Zarr, RLDS, MCAP, ROS bags, folders of media.

::

    import_dataset, Changes               recordings → a dataset, in one call
    open_recording, Recording, Stream     one recording, to look at
    plan_import, ImportPlan               what importing makes, before anything is written
    ImportMap, FeatureMap, read_map       which feature comes from which stream
"""

from roboreel.importing.job import import_dataset
from roboreel.importing.mapping import Changes, EpisodeRule, FeatureMap, ImportMap, TaskRule
from roboreel.importing.mapping_file import read_map
from roboreel.importing.opening import open_recording
from roboreel.importing.plan import ImportPlan
from roboreel.importing.planning import plan_import
from roboreel.importing.recording import Recording, SourceEpisode, Stream
from roboreel.importing.writing import Imported

__all__ = [
    "Changes",
    "EpisodeRule",
    "FeatureMap",
    "ImportMap",
    "ImportPlan",
    "Imported",
    "Recording",
    "SourceEpisode",
    "Stream",
    "TaskRule",
    "import_dataset",
    "open_recording",
    "plan_import",
    "read_map",
]
