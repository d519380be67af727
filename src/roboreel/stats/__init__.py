"""Statistics of features, accumulated batch by batch, merged and compared."""

from roboreel.stats.accumulate import Accumulator, stats_of
from roboreel.stats.image import ImageAccumulator, image_stats
from roboreel.stats.moments import merge_stats
from roboreel.stats.sketch import QuantileSketch
from roboreel.stats.summary import QUANTILES, FeatureStats

__all__ = [
    "QUANTILES",
    "Accumulator",
    "FeatureStats",
    "ImageAccumulator",
    "QuantileSketch",
    "image_stats",
    "merge_stats",
    "stats_of",
]
