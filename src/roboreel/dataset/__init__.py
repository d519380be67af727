"""Reading: datasets, views and samples."""

from roboreel.dataset.dataset import Dataset, open_dataset
from roboreel.dataset.episodes import Episode, Episodes

__all__ = ["Dataset", "Episode", "Episodes", "open_dataset"]
