"""Which share of the data this process takes, when several train together."""

from __future__ import annotations

import os


def check_share(rank: int | None, world_size: int | None) -> tuple[int, int] | None:
    """Return the rank and world size that were given, or None if neither was.

    Raises:
        ValueError: One is given without the other, so that ranks could read the same samples.
    """
    if rank is None and world_size is None:
        return None
    if rank is None and world_size == 1:
        return 0, 1
    if rank is None or world_size is None:
        raise ValueError(
            f"rank is {rank} and world_size is {world_size}: give both, or neither to take them "
            "from the process group or the launcher."
        )
    return rank, world_size


def launched_share() -> tuple[int, int]:
    """Return the rank and world size that a launcher such as torchrun has set; else ``(0, 1)``.

    Raises:
        ValueError: There are several processes, and nothing says which one this is.
    """
    rank, world_size = os.environ.get("RANK"), os.environ.get("WORLD_SIZE")
    if world_size is None or world_size.strip() == "1":
        return 0, 1
    try:
        return int(rank or ""), int(world_size)
    except ValueError:
        raise ValueError(
            f"The environment has WORLD_SIZE={world_size!r} and RANK={rank!r}, which does not say "
            "which samples this process reads: pass rank=… and world_size=… to the loader."
        ) from None
