"""The tests: a folder for each room of ``src/roboreel``, and what they share."""

from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
