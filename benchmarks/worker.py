"""The measured process: runs one case and writes down what it cost.

Started by `benchmarks.process` under the interpreter of a contender: standard library only.
"""

from __future__ import annotations

import importlib
import json
import platform
import sys
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from benchmarks.meter import Meter

LIBRARIES = (
    *("roboreel", "lerobot", "numpy", "pyarrow", "av", "imagecodecs", "torch", "torchcodec"),
    *("datasets", "pylance", "rerun-sdk"),
)
_MODULES = {"pylance": "lance", "rerun-sdk": "rerun"}


def main(job_file: str, answer_file: str) -> None:
    """Run the case that a job names."""
    job = json.loads(Path(job_file).read_text())
    case = getattr(importlib.import_module(job["module"]), job["function"])
    meter = Meter([Path(folder) for folder in job["watch"]])
    case(meter, **job["arguments"])
    answer = {
        "steps": [asdict(step) for step in meter.steps],
        "notes": meter.notes,
        "versions": _versions(),
    }
    Path(answer_file).write_text(json.dumps(answer))


def _versions() -> dict[str, str]:
    """Return the versions of the libraries that the case has imported."""
    found = {"python": platform.python_version()}
    for library in LIBRARIES:
        if _MODULES.get(library, library) in sys.modules:
            try:
                found[library] = version(library)
            except PackageNotFoundError:  # on the path, not installed
                continue
    return found


if __name__ == "__main__":
    main(*sys.argv[1:])
