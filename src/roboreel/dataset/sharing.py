"""Statistics that datasets of a mixture share."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from roboreel.stats import merge_stats

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from roboreel.dataset.members import Member
    from roboreel.dataset.mixing import Blend
    from roboreel.stats import FeatureStats

__all__ = ["NormalizeBy", "check_normalize_by", "share_stats"]

NormalizeBy: TypeAlias = "Literal['dataset', 'robot'] | Mapping[Any, str]"
"""Which datasets are normalized alike: each for itself, those of one robot and control mode, or
those that have the same word."""

_Stats: TypeAlias = "Mapping[str, FeatureStats]"


def check_normalize_by(by: NormalizeBy, datasets: Sequence[Member]) -> None:
    """Check that every dataset belongs to a group.

    Raises:
        ValueError: It is neither ``"dataset"``, ``"robot"`` nor a word for each dataset.
    """
    if isinstance(by, Mapping):
        missing = [dataset for dataset in datasets if dataset not in by]
        if missing:
            raise ValueError(
                f"normalize_by has no word for {missing[0]!r}: give one for each dataset."
            )
    elif by not in ("dataset", "robot"):
        raise ValueError(
            f"normalize_by is {by!r}: give 'dataset', 'robot', or a word for each dataset, such as "
            "{arm: 'so100 joints', other: 'so100 joints'}."
        )


def share_stats(
    stats: Sequence[_Stats],
    datasets: Sequence[Member],
    blends: Mapping[str, Blend],
    by: NormalizeBy,
) -> tuple[_Stats, ...]:
    """Return the statistics of each dataset, merged with those of its group.

    Raises:
        ValueError: A feature differs in shape within a group.
    """
    if by == "dataset":
        return tuple(stats)
    shared: list[dict[str, FeatureStats]] = [{} for _ in datasets]
    for name, blend in blends.items():
        groups: defaultdict[Hashable, list[int]] = defaultdict(list)
        for place, dataset in enumerate(datasets):
            if name in stats[place]:
                groups[_key(dataset, blend.owns[place], place, by)].append(place)
        for places in groups.values():
            merged = _merged(name, [stats[place][name] for place in places])
            for place in places:
                shared[place][name] = merged
    return tuple(shared)


def _key(dataset: Member, own: str | None, place: int, by: NormalizeBy) -> Hashable:
    """Return what the datasets of one group have in common."""
    if isinstance(by, Mapping):
        return by[dataset]
    robot = dataset.robot_type
    if not robot or robot == "unknown":
        return place
    # Joints and poses of one robot differ in the names or the number of their elements.
    feature = dataset.features[own or ""]
    return robot, feature.names, feature.value_shape


def _merged(name: str, parts: Sequence[FeatureStats]) -> FeatureStats:
    if len(parts) == 1:
        return parts[0]
    try:
        return merge_stats(parts)
    except ValueError as error:
        raise ValueError(f"{name!r} cannot be normalized alike in one group: {error}") from error
