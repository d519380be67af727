"""Other people's libraries, measured beside ours from an environment of their own."""

from __future__ import annotations

import os
import sys
from pathlib import Path

__all__ = ["peers_folder", "peers_python"]

_PROJECT = Path(__file__).resolve().parents[2]


def peers_folder() -> Path:
    """Return where the peers' environment is, or will be: ``$ROBOREEL_PEERS`` or .venv-peers."""
    return Path(os.environ.get("ROBOREEL_PEERS") or _PROJECT / ".venv-peers")


def peers_python() -> Path | None:
    """Return the interpreter of the peers' environment, or None where there is none.

    Raises:
        FileNotFoundError: ``$ROBOREEL_PEERS`` is set, but there is no environment.
    """
    inside = Path("Scripts", "python.exe") if sys.platform == "win32" else Path("bin", "python")
    python = peers_folder() / inside
    if python.exists():
        return python
    if os.environ.get("ROBOREEL_PEERS"):
        raise FileNotFoundError(
            "ROBOREEL_PEERS names no virtual environment. Unset it, and make one with "
            f"`python -m benchmarks.peers setup`; there is no {str(python)!r}."
        )
    return None
