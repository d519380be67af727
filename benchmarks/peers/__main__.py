"""Make the peers' environment: ``python -m benchmarks.peers setup``."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.peers import peers_folder, peers_python

PINNED = ("lerobot==0.4.4", "torchvision==0.25.0", "torchcodec==0.13.0")
TORCH = "torch==2.13.0"
REQUIREMENTS = Path(__file__).parent / "requirements.txt"
PROJECT = Path(__file__).resolve().parents[2]

_CHECK = (
    "from benchmarks.peers.lerobot import declare_missing_operator as declare; declare(); "
    "import lerobot.datasets.lerobot_dataset, torchcodec.decoders"
)


def main() -> int:
    """Make the environment if there is none, and see that it works."""
    options = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    options.add_argument("command", choices=["setup"])
    options.add_argument("--python", help="interpreter to make it with; python3.11 if found")
    chosen = options.parse_args()
    folder = peers_folder()
    ready = folder / ".ready"
    # An environment that somebody named is theirs: it is checked, never changed.
    named = os.environ.get("ROBOREEL_PEERS")
    if not named and not (ready.exists() and ready.read_text() == _recipe()):
        _make(folder, chosen.python or shutil.which("python3.11") or sys.executable)
        ready.write_text(_recipe())
    return _check()


def _recipe() -> str:
    return "\n".join((TORCH, *PINNED, REQUIREMENTS.read_text()))


def _make(folder: Path, python: str) -> None:
    print(f"Making {folder.name} (LeRobot, torch, datasets, Lance): a few minutes.", flush=True)
    subprocess.run([python, "-m", "venv", str(folder)], check=True)
    inside = peers_python()
    # torch first and pinned; then what was not made for it, without a say in torch's version.
    for wanted in ([TORCH], ["--no-deps", *PINNED], ["-r", str(REQUIREMENTS)]):
        subprocess.run([str(inside), "-m", "pip", "install", "--quiet", *wanted], check=True)


def _check() -> int:
    python = peers_python()
    if python is None:
        print("There is no peers' environment.")
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
