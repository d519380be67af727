"""Make an environment with LeRobot: ``python -m benchmarks.peers setup [--lerobot 0.6.1]``."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.peers import LEROBOT, peers_folder, peers_python, peers_variable
from benchmarks.peers.recipes import RECIPES

PROJECT = Path(__file__).resolve().parents[2]

_CHECK = (
    "from benchmarks.peers.lerobot import declare_missing_operator as declare; declare(); "
    "import lerobot.datasets.lerobot_dataset, torchcodec.decoders"
)


def main() -> int:
    """Make the environment if there is none, and see that it works."""
    options = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    options.add_argument("command", choices=["setup"])
    options.add_argument("--lerobot", choices=list(RECIPES), default=LEROBOT, help="its version")
    options.add_argument("--python", help="interpreter to make it with; python3.11 if found")
    chosen = options.parse_args()
    folder, recipe = peers_folder(chosen.lerobot), RECIPES[chosen.lerobot].text()
    ready = folder / ".ready"
    # An environment that somebody named is theirs: it is checked, never changed.
    named = os.environ.get(peers_variable(chosen.lerobot))
    if not named and not (ready.exists() and ready.read_text() == recipe):
        python = chosen.python or shutil.which("python3.11") or sys.executable
        _make(chosen.lerobot, folder, python)
        ready.write_text(recipe)
    return _check(chosen.lerobot)


def _make(lerobot: str, folder: Path, python: str) -> None:
    print(f"Making {folder.name} (LeRobot {lerobot} and torch): a few minutes.", flush=True)
    subprocess.run([python, "-m", "venv", str(folder)], check=True)
    inside = str(peers_python(lerobot))
    for packages in RECIPES[lerobot].installs:
        subprocess.run([inside, "-m", "pip", "install", "--quiet", *packages], check=True)
    for module in RECIPES[lerobot].patches:
        subprocess.run([inside, "-m", module], cwd=PROJECT, check=True)


def _check(lerobot: str) -> int:
    python = peers_python(lerobot)
    if python is None:
        print(f"There is no environment with LeRobot {lerobot}.")
        return 1
    found = subprocess.run(
        [str(python), "-c", _CHECK], cwd=PROJECT, capture_output=True, text=True, check=False
    )
    if found.returncode == 0:
        print("The peers are ready.")
        return 0
    print(found.stderr.strip())
    if "libtorchcodec" in found.stderr or "FFmpeg" in found.stderr:
        print("torchcodec needs FFmpeg's shared libraries: sudo apt-get install -y ffmpeg")
    return 1


if __name__ == "__main__":
    sys.exit(main())
