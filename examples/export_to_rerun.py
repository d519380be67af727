"""Write episodes of a dataset as Rerun recordings, and a page about it.

Run it with ``python examples/export_to_rerun.py DATASET OUT``.
"""

from __future__ import annotations

import sys

import roboreel as reel
from roboreel.report import write_report
from roboreel.rerun import export_episodes


def main(path: str, out: str) -> None:
    """Export the first three episodes, with images as they are stored, and write the page."""
    dataset = reel.open_dataset(path)
    few = dataset.select(dataset.episodes.numbers[:3].tolist())
    for recording in export_episodes(few, out, on_problem=print):
        print(recording)
    print(write_report(dataset, f"{out}/report.html"))


if __name__ == "__main__":
    main(*sys.argv[1:3])
