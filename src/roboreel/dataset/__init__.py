"""Reading: a Dataset, its views and episodes, and mixtures of several."""

from roboreel.dataset.dataset import Dataset, open_dataset
from roboreel.dataset.episodes import Episode, Episodes
from roboreel.dataset.mixture import Mixture

__all__ = ["Dataset", "Episode", "Episodes", "Mixture", "open_dataset"]
