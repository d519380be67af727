"""Reading: a Dataset, its views and episodes, mixtures of several, and normalization of arrays."""

from roboreel.dataset.dataset import Dataset, open_dataset
from roboreel.dataset.episodes import Episode, Episodes
from roboreel.dataset.mixture import Mixture
from roboreel.dataset.normalize import Normalize, Unnormalize

__all__ = [
    "Dataset",
    "Episode",
    "Episodes",
    "Mixture",
    "Normalize",
    "Unnormalize",
    "open_dataset",
]
