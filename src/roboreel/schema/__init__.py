"""The nouns of a dataset: frozen, self-checking, and without I/O."""

from roboreel.schema.episodes import ClipTable, EpisodeTable, describe_episodes
from roboreel.schema.feature import Depth, Feature
from roboreel.schema.file_set import FileSet
from roboreel.schema.manifest import Manifest, ManifestState

__all__ = [
    "ClipTable",
    "Depth",
    "EpisodeTable",
    "Feature",
    "FileSet",
    "Manifest",
    "ManifestState",
    "describe_episodes",
]
