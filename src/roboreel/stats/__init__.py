"""Statistics of features, accumulated batch by batch, merged and compared."""

from roboreel.stats.accumulate import Accumulator, stats_of
from roboreel.stats.gather import ImageSampler, gather, new_accumulator, sample_stride
from roboreel.stats.image import ImageAccumulator, image_stats
from roboreel.stats.moments import merge_stats
from roboreel.stats.sketch import QuantileSketch
from roboreel.stats.summary import QUANTILES, FeatureStats, shape_of_stats

__all__ = [
    "QUANTILES",
    "Accumulator",
    "FeatureStats",
    "ImageAccumulator",
    "ImageSampler",
    "QuantileSketch",
    "gather",
    "image_stats",
    "merge_stats",
    "new_accumulator",
    "sample_stride",
    "shape_of_stats",
    "stats_of",
]
