"""What is installed beside each version of LeRobot."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = ["RECIPES", "Recipe"]

_HERE = Path(__file__).parent
_TORCH = ("torch==2.13.0",)
_BESIDE = ("torchvision==0.25.0", "torchcodec==0.13.0")


@dataclass(frozen=True, slots=True)
class Recipe:
    """How an environment is made."""

    installs: tuple[tuple[str, ...], ...]
    """Arguments of ``pip install``, one call after another."""
    patches: tuple[str, ...] = ()
    """Modules that the new interpreter runs in the end."""

    def text(self) -> str:
        """Return all that decides what is in the environment, to see when it changes."""
        parts = [part for call in self.installs for part in call if not part.startswith("-")]
        return "\n".join(Path(p).read_text() if p.endswith(".txt") else p for p in parts)


def _recipe(lerobot: tuple[str, ...], requirements: str, *more: str, patch: str = "") -> Recipe:
    """Install torch first and pinned; then what asks for another, without a say in its version."""
    listed = ("-r", str(_HERE / requirements))
    calls = (_TORCH, ("--no-deps", *lerobot, *_BESIDE), listed, *((package,) for package in more))
    return Recipe(calls, (patch,) if patch else ())


RECIPES = {
    # Writes and reads v3.0.
    "0.4.4": _recipe(("lerobot==0.4.4",), "requirements.txt"),
    # Adds depth, language columns and editing. Made for Python 3.12.
    "0.6.1": _recipe(
        ("--ignore-requires-python", "lerobot==0.6.1"),
        "requirements-0.6.txt",
        patch="benchmarks.peers.older_python",
    ),
    # Writes and reads v2.1, and reads v2.0.
    "0.3.3": _recipe(("lerobot==0.3.3",), "requirements.txt", "datasets>=2.19,<=3.6"),
}
"""By version of LeRobot."""
