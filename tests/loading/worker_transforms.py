"""Transforms that worker processes can import, quickly."""

import os
import signal
import time

import numpy as np


def jitter(batch, rng):
    """Draw, and add an array that is worth a block of shared memory."""
    noise = rng.integers(256, size=(len(batch["index"]), 20_000), dtype=np.uint8)
    return {**batch, "noise": noise, "nested": {"texts": ["é"] * 3, "pair": (1, noise[:, :2] + 1)}}


def jitter_tensors(batch, rng):
    """Draw with torch; NumPy has no bfloat16."""
    import torch

    drawn = torch.rand(len(batch["index"]), 20_000, generator=rng)
    return {**batch, "drawn": drawn, "half": drawn[:, :3].to(torch.bfloat16)}


class RefuseRows:
    """Fail on some rows."""

    def __init__(self, *rows):
        self.rows = rows

    def __call__(self, sample):
        """Return the sample, or fail."""
        if int(sample["index"]) in self.rows:
            raise ValueError("a bad sample")
        return sample


def end_at_row_nine(sample):
    """End the process as a system does that has no memory left."""
    if int(sample["index"]) == 9:
        os.kill(os.getpid(), signal.SIGKILL)
    return sample


def read_slowly(batch):
    """Take a while."""
    time.sleep(0.2)
    return batch


def return_a_function(batch):
    """Return what no other process can have."""
    return {**batch, "function": lambda: None}
