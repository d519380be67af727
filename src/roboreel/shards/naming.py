"""The folder name of a store, from what it is made of."""

from __future__ import annotations

import hashlib
import json
import re


def store_name(
    name: str, *, version: str = "", config: str = "default", split: str = "train"
) -> str:
    """Return a folder name for one split of a dataset: the same on every machine and in every run.

    The parts can be read in the name, and its end tells apart what they may have in common.

    Examples:
        >>> store_name("CIFAR-10", version="1.2.0", split="test")
        'cifar-10-1.2.0-default-test-383c237e1e0d'
    """
    parts = [name, version, config, split]
    if not name:
        raise ValueError("A store needs a name.")
    digest = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:12]
    readable = [re.sub(r"[^a-z0-9._-]+", "_", part.lower()).strip("._-")[:40] for part in parts]
    return "-".join([*filter(None, readable), digest])
