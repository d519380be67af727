"""Statistics of features, accumulated batch by batch, merged and compared."""

from roboreel.stats.accumulate import Accumulator, stats_of
from roboreel.stats.image import ImageAccumulator, add_part, image_stats, restored
from roboreel.stats.moments import merge_stats
from roboreel.stats.sketch import QuantileSketch
from roboreel.stats.summary import QUANTILES, FeatureStats, shape_of_stats

__all__ = [
    "QUANTILES",
    "Accumulator",
    "FeatureStats",
    "ImageAccumulator",
    "QuantileSketch",
    "add_part",
    "image_stats",
    "merge_stats",
    "restored",
    "shape_of_stats",
    "stats_of",
]
