"""Episodes as Rerun recordings. Importing this package is opting in to the ``rerun`` extra."""

try:
    import rerun.chunk  # noqa: F401  # to see that it is there: since rerun-sdk 0.38
    import xxhash  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "roboreel.rerun needs rerun-sdk 0.38 or newer, and xxhash. Install them with: "
        "pip install 'roboreel[rerun]'",
        name=error.name,
    ) from error

from roboreel.rerun.blueprint import default_blueprint
from roboreel.rerun.export import export_episodes, log_episode

__all__ = ["default_blueprint", "export_episodes", "log_episode"]
