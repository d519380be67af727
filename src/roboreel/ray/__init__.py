"""Jobs and samples on a Ray cluster. Importing this package is opting in to the ``ray`` extra.

::

    RayCluster      runs the tasks of a job: execute(plan, on=RayCluster("auto"))
    read            a dataset or view as a ray.data.Dataset, read by files
    write           a ray.data.Dataset as a LeRobot dataset, which appears at once
    train_loader    the loader of one worker of Ray Train

Ray listens on all interfaces of a machine: run it in a private network only.
"""

try:
    import ray as ray  # the real one, by its absolute name
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "roboreel.ray needs Ray. Install it with: pip install 'roboreel[ray]'",
        name=error.name,
    ) from error

from roboreel.ray.cluster import RayCluster
from roboreel.ray.source import read
from roboreel.ray.training import train_loader
from roboreel.ray.writing import write

__all__ = ["RayCluster", "read", "train_loader", "write"]
