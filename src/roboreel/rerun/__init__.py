"""Episodes as Rerun recordings. Importing this package is opting in to the ``rerun`` extra."""

try:
    import rerun.chunk  # noqa: F401  # new in rerun-sdk 0.38
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "roboreel.rerun needs rerun-sdk 0.38 or newer. Install it with: "
        "pip install 'roboreel[rerun]'",
        name=error.name,
    ) from error

from roboreel.rerun.blueprint import default_blueprint
from roboreel.rerun.export import export_episodes, log_episode

__all__ = ["default_blueprint", "export_episodes", "log_episode"]
