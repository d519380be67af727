"""The splits of info.json: spans of episode numbers, such as ``"0:40"``, compared and moved."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from roboreel.findings import finding
from roboreel.format.paths import INFO_PATH

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from roboreel.findings import Finding

    Raw = dict[str, Any]

_SPLIT = re.compile(r"\s*(\d+)\s*:\s*(\d+)\s*")


def compare_splits(splits: Mapping[str, str], num_episodes: int) -> Iterator[Finding]:
    """Yield the splits that do not fit the episodes."""
    for name, spelled in splits.items():
        start, stop = _ends(spelled) or (0, 0)
        if stop > num_episodes or start > stop:
            says = (
                f"The split {name!r} is {spelled!r}, but there are {num_episodes} episodes: "
                f"{f'0:{num_episodes}'!r} would be all."
            )
            # What a reversed one means cannot be told; a single one means all.
            fixable = start <= stop or len(splits) == 1
            yield finding("RR113", says, file=INFO_PATH, fixable=fixable)


def with_splits(raw: Raw, num_episodes: int) -> Raw:
    """Return info.json with splits that end where the episodes do; a single split has them all."""
    splits = raw.get("splits")
    if not isinstance(splits, dict):
        return raw
    if len(splits) == 1:
        return {**raw, "splits": dict.fromkeys(splits, f"0:{num_episodes}")}
    kept = range(num_episodes)
    return {**raw, "splits": {name: _moved(spelled, kept) for name, spelled in splits.items()}}


def moved_splits(raw: Raw, origins: Sequence[int], old_count: int) -> dict[str, Any]:
    """Return the splits of info.json after episodes came, went or were cut.

    Args:
        raw: What info.json says.
        origins: The old number of each new episode, ascending.
        old_count: How many episodes there were.

    Examples:
        >>> moved_splits({"splits": {"train": "0:3", "val": "3:5"}}, [0, 2, 3, 4, 4], 5)
        {'train': '0:2', 'val': '2:5'}
    """
    splits = raw.get("splits")
    if not isinstance(splits, dict) or not splits:
        return {"train": f"0:{len(origins)}"}
    if list(splits.values()) == [f"0:{old_count}"]:  # all, even if their numbers have gaps
        return dict.fromkeys(splits, f"0:{len(origins)}")
    return {name: _moved(spelled, origins) for name, spelled in splits.items()}


def _moved(spelled: object, origins: Sequence[int]) -> object:
    ends = _ends(spelled)
    if ends is None or ends[0] > ends[1]:
        return spelled
    start, stop = (sum(number < end for number in origins) for end in ends)
    return spelled if (start, stop) == ends else f"{start}:{stop}"


def _ends(spelled: object) -> tuple[int, int] | None:
    # Some write percentages or lists: their own business, which nobody here reads.
    match = _SPLIT.fullmatch(str(spelled))
    return None if match is None else (int(match[1]), int(match[2]))
