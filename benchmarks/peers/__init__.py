"""Other people's libraries, measured beside ours from environments of their own."""

from __future__ import annotations

import os
import sys
from pathlib import Path

__all__ = ["LEROBOT", "peers_folder", "peers_python", "peers_variable"]

LEROBOT = "0.4.4"
"""The LeRobot that benchmarks run beside. Tests can ask for others."""

_PROJECT = Path(__file__).resolve().parents[2]


def peers_variable(lerobot: str = LEROBOT) -> str:
    """Return the environment variable that can name the environment of a LeRobot version.

    Examples:
        >>> peers_variable(), peers_variable("0.6.1")
        ('ROBOREEL_PEERS', 'ROBOREEL_PEERS_0_6_1')
    """
    return "ROBOREEL_PEERS" + ("" if lerobot == LEROBOT else f"_{lerobot.replace('.', '_')}")


def peers_folder(lerobot: str = LEROBOT) -> Path:
    """Return where the environment of a LeRobot version is, or will be.

    That is what ``$ROBOREEL_PEERS`` or ``$ROBOREEL_PEERS_0_6_1`` names, otherwise .venv-peers or
    .venv-peers-0.6.1 in the project.
    """
    name = ".venv-peers" + ("" if lerobot == LEROBOT else f"-{lerobot}")
    return Path(os.environ.get(peers_variable(lerobot)) or _PROJECT / name)


def peers_python(lerobot: str = LEROBOT) -> Path | None:
    """Return the interpreter of the environment of a LeRobot version, or None if there is none.

    Raises:
        FileNotFoundError: The variable that names the environment is set, but there is none.
    """
    inside = Path("Scripts", "python.exe") if sys.platform == "win32" else Path("bin", "python")
    python = peers_folder(lerobot) / inside
    if python.exists():
        return python
    variable = peers_variable(lerobot)
    if os.environ.get(variable):
        raise FileNotFoundError(
            f"{variable} names no virtual environment. Unset it, and make one with "
            f"`python -m benchmarks.peers setup --lerobot {lerobot}`; there is no {str(python)!r}."
        )
    return None
