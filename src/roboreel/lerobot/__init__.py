"""LeRobotDataset on top of roboreel: change the import, and training code runs."""

try:
    import torch as torch
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "roboreel.lerobot needs PyTorch. Install it with: pip install 'roboreel[torch]'",
        name=error.name,
    ) from error

from roboreel.lerobot.dataset import LeRobotDataset
from roboreel.lerobot.metadata import LeRobotDatasetMetadata

__all__ = ["LeRobotDataset", "LeRobotDatasetMetadata"]
