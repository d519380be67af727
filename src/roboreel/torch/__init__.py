"""Samples as PyTorch tensors. Importing this package is opting in to the ``torch`` extra."""

try:
    import torch as torch  # the real one, by its absolute name
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "roboreel.torch needs PyTorch. Install it with: pip install 'roboreel[torch]'",
        name=error.name,
    ) from error

from roboreel.loading.skipping import Skip
from roboreel.order.order import Local
from roboreel.torch.loader import Loader
from roboreel.torch.normalize import Normalize, Unnormalize
from roboreel.torch.samples import SampleDataset

__all__ = ["Loader", "Local", "Normalize", "SampleDataset", "Skip", "Unnormalize"]
