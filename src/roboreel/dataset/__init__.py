"""Reading: a Dataset, its views and episodes, mixtures of several, normalization and relative actions."""

from roboreel.dataset.dataset import Dataset
from roboreel.dataset.episodes import Episode, Episodes
from roboreel.dataset.mixture import Mixture
from roboreel.dataset.normalize import Normalize, Unnormalize
from roboreel.dataset.opening import open_dataset
from roboreel.dataset.relative import Relative
from roboreel.dataset.saved_views import save_view

__all__ = [
    "Dataset",
    "Episode",
    "Episodes",
    "Mixture",
    "Normalize",
    "Relative",
    "Unnormalize",
    "open_dataset",
    "save_view",
]
