"""Batches of a dataset or a mixture, in order and ahead of time. Knows no framework."""

from roboreel.loading.loader import Loader
from roboreel.loading.samples import Samples
from roboreel.loading.skipping import Skip
from roboreel.order.order import Local

__all__ = ["Loader", "Local", "Samples", "Skip"]
