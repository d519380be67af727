"""LeRobotDataset on top of roboreel: change the import, and LeRobot's code runs."""

try:
    import torch as torch
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "roboreel.lerobot needs PyTorch. Install it with: pip install 'roboreel[torch]'",
        name=error.name,
    ) from error

from roboreel.lerobot.dataset import LeRobotDataset
from roboreel.lerobot.metadata import LeRobotDatasetMetadata
from roboreel.lerobot.multi import MultiLeRobotDataset
from roboreel.lerobot.streaming import StreamingLeRobotDataset

__all__ = [
    "LeRobotDataset",
    "LeRobotDatasetMetadata",
    "MultiLeRobotDataset",
    "StreamingLeRobotDataset",
]
