"""Reading: a Dataset, its views and episodes, mixtures of several, and normalization of arrays."""

from roboreel.dataset.dataset import Dataset
from roboreel.dataset.episodes import Episode, Episodes
from roboreel.dataset.mixture import Mixture
from roboreel.dataset.normalize import Normalize, Unnormalize
from roboreel.dataset.opening import open_dataset
from roboreel.dataset.saved_views import save_view

__all__ = [
    "Dataset",
    "Episode",
    "Episodes",
    "Mixture",
    "Normalize",
    "Unnormalize",
    "open_dataset",
    "save_view",
]
