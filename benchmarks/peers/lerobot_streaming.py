"""An epoch of LeRobot's StreamingLeRobotDataset, read from the Hub of ``HF_ENDPOINT``.

``python -m benchmarks.peers.lerobot_streaming owner/name BATCH OUT`` writes seconds as JSON.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from benchmarks.peers.lerobot import declare_missing_operator

__all__ = ["main"]


def main() -> None:
    """Open the dataset, take one batch, and then the rest of the epoch."""
    declare_missing_operator()
    from lerobot.datasets.streaming_dataset import StreamingLeRobotDataset
    from torch.utils.data import DataLoader

    started, cpu = time.perf_counter(), time.process_time()
    dataset = StreamingLeRobotDataset(sys.argv[1], return_uint8=True)
    found = {"open_s": time.perf_counter() - started}
    samples = 0
    for batch in DataLoader(dataset, batch_size=int(sys.argv[2])):
        if not samples:
            found["first_batch_s"] = time.perf_counter() - started
        samples += len(batch["index"])
    found["epoch_s"] = time.perf_counter() - started
    found["epoch_cpu_s"] = time.process_time() - cpu
    found["samples"] = samples
    Path(sys.argv[3]).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
